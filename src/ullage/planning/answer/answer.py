"""The answer: what a planner needs from a plan, in that order, as one value.

    verdict, why, warnings, surprises, next  the decision
    traffic, pools                         the bridge: mean load -> busiest hour -> replicas -> machines -> money
    utilisation, stops, losses, limits     of each pool: how full, what stops growth, what it survives, what to set
    money, causes, orders                  the bill by line, who causes it, what to order and by when

Every number is a figure of the plan, or one made here with its formula and inputs. The page prints these fields and the
JSON summary encodes them, both in this order; neither computes anything.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial

from ullage.cost.bill import Bill
from ullage.cost.units import class_cents, class_groups
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.fleet.losses import LossVerdict
from ullage.fleet.packing import pack_placed
from ullage.fleet.sites import Placement, place
from ullage.fleet.utilisation_cap import STATES
from ullage.planning.answer.basis import InputBasis, input_bases, unowned_drivers
from ullage.planning.answer.bridge import UNTESTED, line_figures, replica_steps, traffic_steps
from ullage.planning.answer.parts import (
    BridgeStep,
    Cause,
    DeviceOrder,
    GrowthStop,
    LimitToSet,
    LossOutcome,
    Machines,
    MoneyLine,
    NextStep,
    Number,
    PoolAnswer,
    RiskOfPool,
    UtilisationState,
    summed,
)
from ullage.planning.answer.surprises import Surprise, surprises
from ullage.planning.answer.verdict import Verdict, default_classes, verdict, warnings
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.service.calibration.validated import PoolValidity, pool_validity

LOAD_TEST = Assumption(
    name="next.load_test_time",
    value=3600.0,
    unit="s",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: a sweep of a dozen loads of three to five minutes each",
        where="docs/explanation/answer.md",
        date=datetime.date(2026, 11, 15),
    ),
    low=1200.0,
    high=14400.0,
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The plan in short. `machines` says held or released."""

    service: str
    as_of: datetime.date
    until: datetime.date
    verdict: Verdict
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    surprises: tuple[Surprise, ...]
    total_usd: Figure | None
    next_step: NextStep
    risks: tuple[RiskOfPool, ...]
    service_risk: Figure | None
    percentile: Assumption
    traffic: tuple[BridgeStep, ...]
    pools: tuple[PoolAnswer, ...]
    money: tuple[MoneyLine, ...]
    unpriced: tuple[str, ...]
    per_success: Figure | None
    released_saving: Figure | None
    machines: str
    prices: str
    causes: tuple[Cause, ...]
    orders: tuple[DeviceOrder, ...]
    reconcile_every: Assumption
    bases: tuple[InputBasis, ...]
    assumption_count: int
    stale_count: int
    validity: tuple[PoolValidity, ...]

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Every figure of the answer by name."""
        return {each.name: each for each in _figures_in(self)}


def answer(plan: Plan) -> Answer:
    """The answer of a plan."""
    bill = next((each.answer for each in plan.stages if isinstance(each.answer, Bill)), None)
    pools = tuple(_pool(plan, each, bill) for each in plan.pools)
    decided, reasons = verdict(plan)
    bases = input_bases(plan, bill)
    policy = plan.spec.policy
    until = plan.as_of + datetime.timedelta(seconds=number(policy.horizon))
    orders = tuple(_orders(plan, pools, bill, until))
    return Answer(
        service=plan.spec.name,
        as_of=plan.as_of,
        until=until,
        verdict=decided,
        reasons=reasons,
        warnings=(*_unowned(bases), *warnings(plan)),
        surprises=surprises(plan, bill),
        total_usd=None if bill is None or not bill.is_of_devices else bill.figures.get("bill.total_usd"),
        next_step=_next_step(plan, decided, pools, orders, bill),
        risks=tuple(_risk(plan, each) for each in plan.pools) if "uncertainty" in _studied(plan) else (),
        service_risk=plan.figures_of("uncertainty").get("risk.service_shortfall_fraction"),
        percentile=plan.point.percentile,
        traffic=traffic_steps(plan, pools),
        pools=pools,
        money=() if bill is None else _money(bill),
        unpriced=() if bill is None else tuple(dict.fromkeys(_words(each.name) for each in bill.unpriced)),
        per_success=None if bill is None or not bill.is_of_devices else bill.figures.get("bill.per_success_usd"),
        released_saving=None if bill is None else bill.figures.get("bill.released_saving_usd"),
        machines=str(plan.spec.scaling.machines.value),
        prices="" if bill is None else _prices(bill),
        causes=() if bill is None or not bill.is_of_devices else _causes(bill),
        orders=() if decided is Verdict.HOLD else orders,
        reconcile_every=policy.reconcile_every,
        bases=bases,
        assumption_count=len(plan.assumptions),
        stale_count=len(plan.stale),
        validity=tuple(pool_validity(each.spec.name, each.memory, each.spec.tested.validations) for each in plan.pools),
    )


# What the screen shows of scaling, in this order.
_SCALING = (
    "threshold_requests", "least_replicas", "most_replicas", "decision_lag_s", "turns_per_hour", "attained_fraction",
    "saving_fraction",
)  # fmt: skip


# ---- one pool ---------------------------------------------------------------------------------------------------


def _pool(plan: Plan, pool: PoolPlan, bill: Bill | None) -> PoolAnswer:
    name = pool.spec.name
    steps, rounding, usd = replica_steps(plan, pool, bill)
    steady = plan.figures_of("steady_fleet", name)["fleet.replicas"]
    used, reserves = plan.figures_of("utilisation", name), plan.figures_of("reserves", name)
    ready, packing = plan.figures_of("time_to_ready", name), plan.figures_of("packing", name)
    load = next(
        each for each in used["utilisation.planned_fraction"].inputs if each.name.endswith("demand.planning_rate")
    )
    return PoolAnswer(
        name=name,
        model=pool.spec.model.name,
        machines=Machines(
            shape=pool.packing.chosen.shape.name,
            device=pool.spec.device.name,
            replicas=reserves["fleet.total_replicas"],
            devices=packing["packing.devices"],
            nodes=packing["packing.nodes"],
        ),
        load=load,
        replicas=steps,
        rounding=rounding,
        usd=usd,
        steady=steady,
        serving=Figure(
            name=f"{name}.answer.serving_replicas" if len(plan.pools) > 1 else "answer.serving_replicas",
            value=pool.steady_fleet.replicas + pool.reserves.serving_replicas,
            unit="replicas",
            formula="steady replicas + the reserve that stands behind the router",
            inputs=(steady, reserves["reserve.replicas"]),
        ),
        capacity=used["utilisation.capacity_rps"],
        utilisation=tuple(
            UtilisationState(name=each.replace("_", " "), utilisation=used[f"utilisation.{each}_fraction"])
            for each in STATES
            if f"utilisation.{each}_fraction" in used
        ),
        stops=_stops(plan, pool, load),
        holds=plan.figures_of("headroom", name)["headroom.traffic_fraction"],
        losses=_losses(plan, pool),
        bursts=_bursts(plan, pool),
        ready=(ready["ready.cold_p50_s"], ready["ready.cold_p90_s"]),
        limits=_limits(plan, pool),
        scaling=tuple(plan.figures_of("scaling", name)[f"scaling.{each}"] for each in _SCALING),
        scaling_slo=pool.scaling.played.attainment.slo_name,
        scaling_required_fraction=pool.scaling.played.attainment.required_fraction,
        scaling_violates="" if pool.scaling.played.is_met else pool.scaling.played.attainment.slo_name,
        scaling_fixed=plan.figures_of("scaling", name).get("scaling.fixed_attained_fraction"),
        scaling_advised=pool.scaling.is_advised,
        shed_first=_shed_first(pool),
    )


def _stops(plan: Plan, pool: PoolPlan, load: Number) -> tuple[GrowthStop, ...]:
    """What stops growth, first and next; the one place that reads what binds."""
    figures = plan.figures_of("binding", pool.spec.name)
    prefix = f"{pool.spec.name}." if len(plan.pools) > 1 else ""
    growth = figures.get("binding.constraint_growth_fraction")
    at = None
    if growth is not None:
        at = Figure(
            name=f"{prefix}answer.stops_rps",
            value=number(load) * (1.0 + number(growth)),
            unit="req/s",
            formula="planning rate x (1 + growth at which the binding constraint stops the pool)",
            inputs=(load, growth),
        )
    first = GrowthStop(name=pool.binding.binding.name, growth=growth, load=at)
    return (first, GrowthStop(name=pool.binding.following.name, growth=None, load=None))


_OUTCOMES = {
    LossVerdict.HOLDS: "met",
    LossVerdict.UNDECIDED: "undecided",
    LossVerdict.BREAKS: "violated",
    LossVerdict.OUTAGE: "outage",
}


def _losses(plan: Plan, pool: PoolPlan) -> tuple[LossOutcome, ...]:
    figures = plan.figures_of("loss_checks", pool.spec.name)
    return tuple(
        LossOutcome(
            name=_words(each.name),
            covered_by=each.covered_by,
            outcome=_OUTCOMES[each.verdict],
            attained=figures.get(f"loss.{each.name}.attained_fraction"),
        )
        for each in pool.loss_checks.checks
    )


_BURSTS_S = (120, 900)


def _bursts(plan: Plan, pool: PoolPlan) -> tuple[Figure, ...]:
    """The highest bursts of two and of fifteen minutes that the queue absorbs."""
    figures = plan.figures_of("admission_limits", pool.spec.name)
    return tuple(one for each in _BURSTS_S if (one := figures.get(f"burst.queue_{each}s_ratio")) is not None)


def _limits(plan: Plan, pool: PoolPlan) -> tuple[LimitToSet, ...]:
    """Three limits: what the gateway lets through, the engine's own flag, and when the gateway refuses."""
    figures = plan.figures_of("admission_limits", pool.spec.name)
    return (
        LimitToSet(where="gateway", name="rate", limit=figures["limit.pool_rate_rps"]),
        LimitToSet(where="engine", name="running", limit=figures["limit.engine_running_requests"]),
        LimitToSet(where="gateway", name="waiting", limit=figures["limit.replica_queue_requests"]),
    )


def _shed_first(pool: PoolPlan) -> str:
    """The class of the lowest priority; empty where there is only one."""
    classes = sorted((each.request_class for each in pool.demands), key=lambda each: each.priority)
    return classes[-1].name if len(classes) > 1 and classes[-1].priority != classes[0].priority else ""


def _unowned(bases: Sequence[InputBasis]) -> tuple[str, ...]:
    """Where owners are named at all: what explains most of the spread and has none."""
    found = unowned_drivers(bases)
    if not found:
        return ()
    said = [f"{_words(each.name)} ({100 * number(each.influence):.0f} %)" for each in found if each.influence]
    return (f"No owner for inputs that explain much of the variance: {', '.join(said)}",)


def _studied(plan: Plan) -> tuple[str, ...]:
    """The stage of the study, where it was made."""
    return tuple(each.name for each in plan.stages if each.name == "uncertainty" and each.figures)


def _risk(plan: Plan, pool: PoolPlan) -> RiskOfPool:
    """The study's results for a pool, by the names of its figures."""
    prefix = f"{pool.spec.name}." if len(plan.pools) > 1 else ""
    figures = {
        name.removeprefix(prefix): each
        for name, each in plan.figures_of("uncertainty").items()
        if name.startswith(prefix)
    }
    drivers = [each for name, each in figures.items() if name.startswith("driver.")]
    return RiskOfPool(
        pool=pool.spec.name,
        shortfall=figures["risk.shortfall_fraction"],
        hours=figures["risk.shortfall_hours"],
        chosen=plan.point.pool_shortfall,
        chosen_replicas=figures.get("risk.chosen_replicas"),
        hopeless=figures["risk.hopeless_fraction"],
        needs=(figures["risk.replicas_p10"], figures["risk.replicas_p90"]),
        usd=tuple(figures[name] for name in ("risk.usd_p10", "risk.usd_p90") if name in figures),
        drivers=tuple(sorted(drivers, key=lambda each: -number(each)))[:5],
    )


# ---- money ------------------------------------------------------------------------------------------------------


def _money(bill: Bill) -> tuple[MoneyLine, ...]:
    """The priced lines by name, in the order of the bill; they sum to it."""
    names = dict.fromkeys(each.name for each in bill.lines if each.is_priced)
    found = []
    for name in names:
        lines = [each for each in bill.lines if each.name == name and each.figure is not None]
        figure = Figure(
            name=f"answer.{name}_usd",
            value=bill.cents_of(name) / 100.0,
            unit="USD",
            formula="sum of the lines of this name",
            inputs=line_figures(lines),
        )
        found.append(MoneyLine(name=_words(name), usd=figure))
    return tuple(found)


def _prices(bill: Bill) -> str:
    """Where and of when the prices are: `aws us-east-1, 2026-08-22`."""
    dates = dict.fromkeys(each.isoformat() for each in bill.quotes.dates)
    return ", ".join((*bill.quotes.regions, " to ".join(dates))) if dates else ""


def _causes(bill: Bill) -> tuple[Cause, ...]:
    """Every class's part of the bill, the largest first; nothing where there is only one."""
    total = bill.figures.get("bill.total_usd")
    groups = class_groups(bill.use)
    cents = class_cents(bill.use, bill.lines)
    requests = {name: sum(each.requests for each in groups if each.name == name) for name in cents}
    if total is None or len(cents) < 2 or not sum(cents.values()) or not sum(requests.values()):
        return ()
    basis = (total, *bill.use.basis)
    return tuple(
        Cause(
            name=name,
            bill=Figure(
                name=f"answer.{name}.bill_fraction",
                value=cents[name] / sum(cents.values()),
                unit="fraction",
                formula="the class's part of the bill: devices by what it makes necessary, other lines by use",
                inputs=basis,
            ),
            requests=Figure(
                name=f"answer.{name}.requests_fraction",
                value=requests[name] / sum(requests.values()),
                unit="fraction",
                formula="the class's requests / all requests",
                inputs=basis,
            ),
        )
        for name in sorted(cents, key=lambda each: -cents[each])
    )


# ---- what to do -------------------------------------------------------------------------------------------------


def _next_step(
    plan: Plan, decided: Verdict, pools: Sequence[PoolAnswer], orders: Sequence[DeviceOrder], bill: Bill | None
) -> NextStep:
    """A load test while it can buy something back, then a trace, then the order; a fleet that is enough is watched."""
    untested = [each for each in pools if number(_evidence(each).amount)]
    if decided is not Verdict.HOLD and untested:
        return _load_test(plan, max(untested, key=partial(_saving, plan)), bill)
    if decided is Verdict.TEST_FIRST:
        return NextStep(what=f"give a trace of a week of {', '.join(default_classes(plan))} (workload.trace)")
    if decided is Verdict.BUY:
        asked = " and ".join(f"{number(each.devices):g} {each.device}" for each in orders)
        return NextStep(what=f"order {asked} today, less what already runs")
    return NextStep(what="nothing to order; reconcile with production when the plan is due")


def _evidence(pool: PoolAnswer) -> BridgeStep:
    return next(each for each in pool.replicas if each.name == UNTESTED)


def _saving(plan: Plan, pool: PoolAnswer) -> tuple[float, float]:
    """What a load test of this pool can save: machines first, replicas on machines that stay second."""
    freed = _machines_saved_usd(_planned(plan, pool), pool)
    step = _evidence(pool)
    return (0.0 if freed is None else number(freed), number(step.usd or step.amount))


def _planned(plan: Plan, pool: PoolAnswer) -> PoolPlan:
    return next(each for each in plan.pools if each.spec.name == pool.name)


def _load_test(plan: Plan, pool: PoolAnswer, bill: Bill | None) -> NextStep:
    found = _planned(plan, pool)
    devices = found.memory.runtime.sharding.devices
    quotes = None if bill is None else bill.quotes.devices.get(pool.name)
    hours = number(LOAD_TEST) / 3600.0
    cost = None
    if isinstance(quotes, tuple):
        cost = Figure(
            name="next.load_test_usd",
            value=hours * devices * sum(each.share_fraction * each.usd_per_hour for each in quotes),
            unit="USD",
            formula=f"{hours:g} h x {devices} devices x price of a device-hour",
            inputs=(LOAD_TEST, *(each.hour for each in quotes), *(each.share for each in quotes)),
        )
    which = f" of {pool.name}" if len(plan.pools) > 1 else ""
    counted = f"{devices} {pool.machines.device}"
    return NextStep(
        what=f"load-test one replica{which}, {hours:g} h on {counted}",
        cost_usd=cost,
        saves_replicas=_evidence(pool).amount,
        saves_usd=_machines_saved_usd(found, pool),
    )


def _machines_saved_usd(pool: PoolPlan, said: PoolAnswer) -> Figure | None:
    """What the machines cost that would be empty without the replicas for untested step times.

    Whole machines are paid for: a replica less on a machine that stays saves nothing.
    """
    if said.usd is None:
        return None
    saved, nodes = _evidence(said).amount, said.machines.nodes
    freed = max(0, pool.packing.chosen.nodes - _nodes_without(pool, int(number(saved))))
    return Figure(
        name="next.saves_usd",
        value=number(said.usd) * freed / number(nodes),
        unit="USD",
        formula=f"cost of the devices x {freed} machines that hold no replica without these / machines",
        inputs=(said.usd, saved, nodes),
    )


def _nodes_without(pool: PoolPlan, fewer: int) -> int:
    """Machines for so many replicas fewer, placed as the plan places its own.

    Where a reserve covers the loss of a node, enough replicas for the load must be left without the fullest machine.
    """
    now = pool.reserves.placement
    left = place(
        now.replicas - fewer,
        now.sites.without_quotas(),
        devices=now.devices_per_replica,
        node_replicas=now.node_replicas,
    )
    assert isinstance(left, Placement), "replicas without quotas can be placed"
    sharding, shape = pool.memory.runtime.sharding, pool.packing.chosen.shape
    nodes, replicas = pack_placed(left, sharding, [shape], pool=pool.spec.name).chosen.nodes, left.replicas
    needed = pool.steady_fleet.replicas - fewer
    if pool.reserves.bought["failure"]:
        while nodes < pool.packing.chosen.nodes and replicas - math.ceil(replicas / nodes) < needed:
            nodes += 1
    return nodes


def _orders(plan: Plan, pools: Sequence[PoolAnswer], bill: Bill | None, until: datetime.date) -> Iterator[DeviceOrder]:
    """Devices by kind, and the day they are available if ordered today, by the slowest way of buying.

    The busiest hour may come in the first week: no part of the fleet can wait for the end of the horizon.
    """
    slowest = max(
        (plan.spec.options.lead.steps(each) for each in plan.spec.buying.mix.shares),
        key=lambda steps: sum(number(one) for one in steps),
    )
    lead = Figure(
        name="answer.lead_s",
        value=sum(number(each) for each in slowest),
        unit="s",
        formula="the steps of getting a device, one after the other",
        inputs=slowest,
    )
    there_on = plan.as_of + datetime.timedelta(seconds=number(lead))
    for device in dict.fromkeys(each.machines.device for each in pools):
        own = [each for each in pools if each.machines.device == device]
        devices = summed(f"answer.{device}.devices", tuple(each.machines.devices for each in own))
        yield DeviceOrder(
            device=device,
            region=", ".join(_regions(plan, own, bill)),
            devices=devices,
            quota=_quota(plan, device),
            lead=lead,
            there_on=there_on,
            is_late=there_on > until,
        )


def _regions(plan: Plan, pools: Sequence[PoolAnswer], bill: Bill | None) -> list[str]:
    """The regions that the plan file names, or those of the prices; none where neither is stated."""
    named = [
        region.name for each in pools if (own := plan.spec.sites.get(each.machines.device)) for region in own.regions
    ]
    quotes = [] if bill is None else [bill.quotes.devices.get(each.name) for each in pools]
    priced = [one.region for each in quotes if isinstance(each, tuple) for one in each if one.region]
    return list(dict.fromkeys(named or priced))


def _quota(plan: Plan, device: str) -> Figure | None:
    """What the regions allow in all; None where one of them states nothing."""
    pool = next(each for each in plan.pools if each.spec.device.name == device)
    sites = pool.reserves.placement.sites
    allowed = [
        [region.quota] if region.quota is not None else [zone.quota for zone in region.zones]
        for region in sites.regions
    ]
    stated = [one for each in allowed for one in each if one is not None]
    if len(stated) < sum(len(each) for each in allowed):
        return None
    return Figure(
        name=f"answer.{device}.quota_devices",
        value=sum(number(each) for each in stated),
        unit="devices",
        formula="sum of the stated quotas",
        inputs=tuple(stated),
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _figures_in(value: object) -> Iterator[Figure]:
    if isinstance(value, Figure):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _figures_in(each)
    elif is_dataclass(value) and not isinstance(value, Assumption):
        for each in fields(value):
            yield from _figures_in(getattr(value, each.name))
