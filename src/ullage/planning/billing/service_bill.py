"""What the planned service costs: the pools as planned, a month of traffic simulated on them, and the price book."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ullage.cost.attribution.causation import Causation
from ullage.cost.attribution.usage import GroupUse
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.money import usd_of
from ullage.cost.policy import CostPolicy
from ullage.cost.pool_run import class_uses, level_runs, month_groups
from ullage.cost.quotes import Quotes, priced_elsewhere, quotes_of
from ullage.cost.service_use import SECONDS_PER_HOUR, ClassUse, PoolUse, ServiceUse, TaskUse, ToolUse
from ullage.errors import NotGiven
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.fleet.sites import UNNAMED_REGION
from ullage.planning.billing.caused import caused_replicas, with_cause
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.spec import PlanSpec
from ullage.service.phase import Side
from ullage.workload.demand.demand import Demand

NO_PRICES = NotGiven(
    stage="bill", instead="No prices: replicas and devices are all that is counted.", fix="Give prices."
)

_ZONES = Source(
    what="default of Ullage: a router that does not know zones, over the zones of the plan",
    where="docs/explanation/cost.md",
    date=datetime.date(2026, 11, 15),
)


def service_bill(
    spec: PlanSpec,
    demand: Demand,
    pools: Sequence[PoolPlan],
    replicas: Mapping[str, Figure],
    *,
    seed: int,
    map: Any = map,  # noqa: A002
) -> Bill | NotGiven:
    """The month's bill of these pools; `replicas` are the figures of their steady replicas, as the plan names them."""
    if spec.prices is None:
        return NO_PRICES
    held = service_use(spec, demand, pools, replicas, seed=seed, map=map)
    policy = _with_zones(spec.cost, pools)
    quotes = quotes_of(spec.prices, held, policy, spec.buying)
    if not spec.buying.regions:
        quotes = _with_places(quotes, pools)
    bills = [monthly_bill(each, quotes, policy) for each in (held, _released(held, pools, spec.scaling.machines))]
    chosen = bills[1] if spec.scaling.releases_machines else bills[0]
    return _with_saving(chosen, bills[0].total_cents - bills[1].total_cents, spec.scaling.machines)


def _with_places(quotes: Quotes, pools: Sequence[PoolPlan]) -> Quotes:
    """The quotes, with a note where a region of the sites has another's price; sites nobody named are nowhere."""
    placed = {each.spec.name: {row.region for row in each.reserves.placement.rows} - {UNNAMED_REGION} for each in pools}
    return replace(quotes, notes=(*quotes.notes, *priced_elsewhere(quotes, placed)))


def _released(use: ServiceUse, pools: Sequence[PoolPlan], machines: Assumption) -> ServiceUse:
    """The same month of a fleet that gives back the machines which each pool's rule empties."""
    weeks = {each.spec.name: each.scaling.week for each in pools}
    return replace(
        use,
        pools=tuple(
            replace(
                each,
                hourly_replicas=weeks[each.name].paid_replicas,
                hourly_needed=weeks[each.name].needed_replicas,
                basis=(*each.basis, machines),
            )
            for each in use.pools
        ),
    )


def _with_saving(bill: Bill, saved_cents: int, machines: Assumption) -> Bill:
    """A bill shows what releasing machines would save; without priced devices it cannot."""
    total = bill.figures.get("bill.total_usd")
    if total is None or not bill.is_of_devices:
        return bill
    saving = Figure(
        name="bill.released_saving_usd",
        value=usd_of(saved_cents),
        unit="USD",
        formula="the bill with machines held - the bill with those released that the rule empties, of which "
        "scaling.paid_replicas are paid",
        inputs=(total, machines),
    )
    return replace(bill, figures={**bill.figures, saving.name: saving})


def _with_zones(policy: CostPolicy, pools: Sequence[PoolPlan]) -> CostPolicy:
    """The default share that crosses zones: a router that does not know zones sends 1 - 1 / zones across."""
    if policy.zone_share is not None:
        return policy
    zones = {row.zone for each in pools for row in each.reserves.placement.rows if row.devices}
    share = Assumption(
        name="cost.zone_share",
        value=1.0 - 1.0 / max(len(zones), 1),
        unit="fraction",
        evidence=Evidence.ASSUMED,
        source=_ZONES,
        low=0.0,
        high=1.0,
    )
    return replace(policy, zone_share=share)


def service_use(
    spec: PlanSpec,
    demand: Demand,
    pools: Sequence[PoolPlan],
    replicas: Mapping[str, Figure],
    *,
    seed: int,
    map: Any = map,  # noqa: A002
) -> ServiceUse:
    """Pools, classes and tools of one period, from what the stages found and a simulation of the period's levels."""
    classes: list[ClassUse] = []
    causes: dict[str, Causation] = {}
    groups: dict[str, dict[str, tuple[GroupUse, ...]]] = {"class": {}, "model": {}}
    for each in pools:
        runs = level_runs(each.demand, each.steady_fleet.trial, seed=seed, map=map)
        hours, name = spec.cost.period_hours, each.spec.name
        caused = caused_replicas(each, seed=seed, map=map)
        if caused is not None:
            causes[name] = caused
        for by, found in groups.items():
            found[name] = month_groups(
                runs, by, period_hours=hours, model=each.spec.model.name, rng=np.random.default_rng(seed)
            )
            found[name] = tuple(with_cause(one, each, caused if by == "class" else None) for one in found[name])
        classes += class_uses(
            groups["class"][name],
            each.demand,
            each.steady_fleet.trial.classes,
            pool=name,
            period_hours=hours,
            criteria={one.request_class.name: one.success for one in spec.demands if one.success},
            basis=(replicas[name],),
        )
    return ServiceUse(
        service=spec.name,
        pools=tuple(_pool(each, replicas[each.spec.name], spec.cost.period_hours) for each in pools),
        classes=_counted_once(classes, pools),
        providers=spec.bought,
        tools=_tools(spec, demand),
        tasks=_tasks(spec),
        groups=groups,
        causes=causes,
    )


def _counted_once(classes: Sequence[ClassUse], pools: Sequence[PoolPlan]) -> tuple[ClassUse, ...]:
    """Requests that pass both sides of a pool count where they end; to succeed they have to on either side.

    What a prompt's cache saved is the prefill side's: to the decode side every prompt is cached.
    """
    sides = {each.spec.name: each.spec.phase for each in pools if each.spec.phase is not None}
    before = {
        (phase.pool, each.name): each
        for each in classes
        if (phase := sides.get(each.pool)) is not None and phase.side is Side.PREFILL
    }
    return tuple(
        each if (phase := sides.get(each.pool)) is None else _ended(each, before[phase.pool, each.name])
        for each in classes
    )


def _ended(each: ClassUse, before: ClassUse) -> ClassUse:
    if each is before:
        return replace(each, goes_on=True)
    met_fraction = before.successes / before.requests if before.requests else 0.0
    return replace(
        each,
        successes=each.successes * met_fraction,
        prompt_tokens=before.prompt_tokens,
        cached_tokens=before.cached_tokens,
    )


def _pool(found: PoolPlan, replicas: Figure, period_hours: float) -> PoolUse:
    devices = found.memory.runtime.sharding.devices
    # Sized for the planning rate: the difference to the mean month is idle, kept for the busiest hour.
    capacity = found.demand.planning_rps * period_hours * SECONDS_PER_HOUR
    return PoolUse(
        name=found.spec.name,
        model=found.spec.model.name,
        device=found.spec.device.name,
        replica_devices=devices,
        steady_replicas=found.steady_fleet.replicas,
        reserves=found.reserves.bought,
        # Both are paid for with their machines: what no replica fits into, and the last machine's empty part.
        stranded_devices=found.packing.chosen.stranded_devices + found.packing.chosen.spare_devices,
        capacity_requests=capacity,
        weights_bytes=float(found.memory.figures["memory.weights_bytes"].value) * devices,
        power=found.spec.device.power,
        basis=(replicas,),
    )


def _tools(spec: PlanSpec, demand: Demand) -> tuple[ToolUse, ...] | None:
    """Calls of every tool: of those that tasks wait for, and of those that are only paid."""
    seconds = spec.cost.period_hours * SECONDS_PER_HOUR
    rates = {each.name: (each.mean_rps, each.figures[f"demand.{each.name}.mean_rate"]) for each in demand.classes}
    found = [
        ToolUse(
            name=tool.name,
            # A call that fails is made again, and paid again.
            calls=seconds
            * sum(rates[name][0] for name in tool.classes)
            / number(tool.requests_per_task)
            * number(tool.calls_per_task)
            / (1.0 - number(tool.error_rate)),
            basis=(*tool.inputs, *(rates[name][1] for name in tool.classes)),
        )
        for tool in spec.tools
    ]
    total_rps = sum(rate for rate, _ in rates.values())
    found += [
        ToolUse(name=name, calls=seconds * total_rps * number(per), basis=(per, *(each for _, each in rates.values())))
        for name, per in (spec.cost.tool_calls or {}).items()
    ]
    return tuple(found) if found or spec.cost.tool_calls is not None else None


def _tasks(spec: PlanSpec) -> tuple[TaskUse, ...]:
    """The tasks that were described, and one for every class on a route: all its attempts, and how often it ends well.

    How often failures are noticed is not known, so a route counts the successes of one that is blind to failure.
    """
    described = {each.name for each in spec.tasks}
    routed = []
    for route in spec.routing.routes:
        found = route.success_fractions
        if found is None or not found[0] or route.request_class in described:
            continue
        routed.append(
            TaskUse(
                name=route.request_class,
                requests={route.request_class: route.attempts_per_task},
                calls={
                    tool.name: number(tool.calls_per_task) / (1.0 - number(tool.error_rate))
                    for tool in spec.tools
                    if route.request_class in tool.classes
                },
                success_fraction=found[0],
                basis=route.inputs,
            )
        )
    return (*spec.tasks, *routed)
