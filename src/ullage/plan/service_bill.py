"""What the planned service costs: the pools as planned, a month of traffic simulated on them, and the price book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.policy import number
from ullage.cost.pool_run import class_uses, level_runs, month_groups
from ullage.cost.quotes import quotes_of
from ullage.cost.service_use import SECONDS_PER_HOUR, ClassUse, PoolUse, ServiceUse, ToolUse
from ullage.cost.usage import GroupUse
from ullage.errors import NotGiven
from ullage.evidence import Figure
from ullage.plan.pool_plan import PoolPlan
from ullage.plan.spec import PlanSpec

NO_PRICES = NotGiven(
    stage="bill", instead="No prices: replicas and devices are all that is counted.", fix="Give prices."
)


def service_bill(
    spec: PlanSpec, pools: Sequence[PoolPlan], replicas: Mapping[str, Figure], *, seed: int
) -> Bill | NotGiven:
    """The month's bill of these pools; `replicas` are the figures of their steady replicas, as the plan names them."""
    if spec.prices is None:
        return NO_PRICES
    use = service_use(spec, pools, replicas, seed=seed)
    return monthly_bill(use, quotes_of(spec.prices, use, spec.cost, spec.buying), spec.cost)


def service_use(spec: PlanSpec, pools: Sequence[PoolPlan], replicas: Mapping[str, Figure], *, seed: int) -> ServiceUse:
    """Pools, classes and tools of one period, from what the stages found and a simulation of the period's levels."""
    classes: list[ClassUse] = []
    groups: dict[str, dict[str, tuple[GroupUse, ...]]] = {"class": {}, "model": {}}
    for each in pools:
        runs = level_runs(
            each.demand,
            each.service_curve.bench.classes,
            each.service_curve.bench.replica,
            replicas=each.steady_fleet.replicas,
            seed=seed,
        )
        hours, name = spec.cost.period_hours, each.spec.name
        for by, found in groups.items():
            found[name] = month_groups(
                runs, by, period_hours=hours, model=each.spec.model.name, rng=np.random.default_rng(seed)
            )
        classes += class_uses(
            groups["class"][name],
            each.demand,
            each.service_curve.bench.classes,
            pool=name,
            period_hours=hours,
            basis=(replicas[name],),
        )
    return ServiceUse(
        service=spec.name,
        pools=tuple(_pool(each, replicas[each.spec.name], spec.cost.period_hours) for each in pools),
        classes=tuple(classes),
        providers=(),
        tools=_tools(spec, classes),
        tasks=spec.tasks,
        groups=groups,
    )


def _pool(found: PoolPlan, replicas: Figure, period_hours: float) -> PoolUse:
    devices = found.memory.runtime.sharding.devices
    # Sized for the planning rate: what the mean month asks below it is idle, kept for the busiest hour.
    capacity = found.demand.planning_rps * period_hours * SECONDS_PER_HOUR
    return PoolUse(
        name=found.spec.name,
        model=found.spec.model.name,
        device=found.spec.device.name,
        replica_devices=devices,
        steady_replicas=found.steady_fleet.replicas,
        reserves=reserve_replicas(found.reserves),
        capacity_requests=capacity,
        weights_bytes=float(found.memory.figures["memory.weights_bytes"].value) * devices,
        power=found.spec.device.power,
        basis=(replicas,),
    )


def reserve_replicas(reserves: Any) -> dict[str, int]:
    """Reserve replicas that are bought, by name; of a group that overlaps, its largest stands for all of it."""
    lines = getattr(reserves, "lines", ())
    sizes: dict[str, int] = {line.name: line.replicas for line in lines}
    if sum(sizes.values()) == getattr(reserves, "replicas", 0):
        return sizes
    for group in reserves.settings.policy.groups:
        largest = max(group, key=lambda name: sizes.get(name, 0))
        sizes |= {name: 0 for name in group if name != largest and name in sizes}
    return sizes


def _tools(spec: PlanSpec, classes: Sequence[ClassUse]) -> tuple[ToolUse, ...] | None:
    calls = spec.cost.tool_calls
    if calls is None:
        return None
    requests = sum(each.requests for each in classes)
    return tuple(
        ToolUse(
            name=name,
            calls=requests * number(per),
            basis=(per, *(one for each in classes for one in each.basis[:1])),
        )
        for name, per in calls.items()
    )
