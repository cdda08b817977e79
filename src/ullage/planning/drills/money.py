"""Drills about money: an idle fleet, and a unit cost that holds at one volume only."""

from __future__ import annotations

import math
from dataclasses import replace

from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.lines.line import Behaviour
from ullage.cost.pool_run import LEVELS, level_rates_rps
from ullage.errors import Rejection
from ullage.evidence import Figure
from ullage.planning.billing.service_bill import service_use
from ullage.planning.drills.result import DrillResult, DrillVerdict, counted, first_of
from ullage.planning.drills.scenario import PoolScenario
from ullage.planning.pool_plan import PoolPlan
from ullage.service.curve.sizing import size_pool
from ullage.service.trial.decide import BRIEF
from ullage.workload.demand.demand import Demand

# More than half of what is paid for is idle.
MOST_IDLE_FRACTION = 0.5


def idle_drill(scenario: PoolScenario) -> DrillResult:
    """A week as it usually is: what the hours need, by simulation, against what is held for them.

    A fleet that follows demand holds what the hour needs and its reserves; one that stays at its peak holds both all
    the time.
    """
    needed = _needed_replicas(scenario)
    reserves, steady = scenario.pool.reserves, scenario.pool.reserves.steady_replicas
    follows = reserves.settings.warm.follows.value == "demand"
    held = [min(steady, each) if follows else steady for each in needed]
    idle = 1.0 - sum(needed) / sum(each + reserves.replicas for each in held)
    peak = 1.0 - sum(needed) / (LEVELS * (steady + reserves.replicas))
    passes = idle <= MOST_IDLE_FRACTION
    levels = ", ".join(str(each) for each in needed)
    return DrillResult(
        name="idle-fleet",
        title="over-provisioned idle fleet",
        pool=scenario.pool.spec.name,
        verdict=DrillVerdict.PASSES if passes else DrillVerdict.FAILS,
        figure="idle part of the fleet over a week",
        before=scenario.figure(
            "idle-fleet.before_fraction",
            peak,
            "fraction",
            "1 - replicas that the hours need / (steady replicas + reserves), all week",
        ),
        during=scenario.figure(
            "idle-fleet.during_fraction",
            idle,
            "fraction",
            "1 - replicas that the hours need / replicas held, as the fleet follows demand",
            reserves.settings.warm.follows,
        ),
        wanted=f"at most {100 * MOST_IDLE_FRACTION:g} %",
        played=(
            f"The quarters of the week, quietest first, need {levels} replicas; {steady} and {reserves.replicas} in "
            f"reserve are planned"
            + (" and follow demand." if follows else " and stay up. ")
            + ("" if follows else _idle_price(scenario, held, needed))
        ).rstrip(),
        change="" if passes else _less_idle(scenario, needed, follows),
    )


def _needed_replicas(scenario: PoolScenario) -> list[int]:
    """The least replicas that meet every SLO in each quarter of the week, calmest first."""
    pool, found = scenario.pool, []
    for rate_rps in level_rates_rps(pool.demand).sum(axis=0).tolist():
        size = size_pool(pool.bases, rate_rps=max(rate_rps, 1e-6), seed=scenario.seed, effort=BRIEF)
        # A pool that was planned at its peak is not refused at less.
        found.append(pool.steady_fleet.replicas if isinstance(size, Rejection) else size.conservative_replicas)
    return found


def _idle_price(scenario: PoolScenario, held: list[int], needed: list[int]) -> str:
    price = _device_hour_usd(scenario)
    if price is None:
        return ""
    devices = scenario.pool.reserves.devices_per_replica
    hours = scenario.spec.cost.period_hours * sum(h - n for h, n in zip(held, needed, strict=True)) / len(needed)
    return f"Besides the reserve, what these hours do not need costs {hours * devices * price:,.0f} USD a month."


def _less_idle(scenario: PoolScenario, needed: list[int], follows: bool) -> str:
    reserves, steady = scenario.pool.reserves, scenario.pool.reserves.steady_replicas
    ways = []
    if not follows:
        idle = 1.0 - sum(needed) / sum(min(steady, each) + reserves.replicas for each in needed)
        ways.append(f"warm: {{follows: demand}}, which leaves {idle:.0%} idle")
    allowed = math.floor(sum(needed) * (1.0 / (1.0 - MOST_IDLE_FRACTION) - 1.0) / len(needed))
    if follows or reserves.replicas > allowed:
        ways.append(f"a reserve of at most {counted(allowed, 'replica')} in place of {reserves.replicas}")
    if steady == 1:
        ways.append("devices shared with another model, or tokens bought from a provider")
    if reserves.settings.policy.batch.value != "fills":
        ways.append("reserves: {batch: fills}")
    return first_of([*ways, "work without a deadline in the idle hours"])


# ---- unit economics -------------------------------------------------------------------------------------------

# The month in which the forecast was too high: half of the traffic, the same fleet.
VOLUME_RATIO = 0.5
# A cost that moves by more than a quarter with the volume is quoted with its volume, or it misleads.
MOST_RISE_FRACTION = 0.25


def economics_drill(scenario: PoolScenario) -> DrillResult:
    """Half of the traffic comes to the fleet that was bought for all of it: what does a success cost then?"""
    bill = scenario.bill
    whole = None if bill is None else bill.figures.get("bill.per_success_usd")
    if bill is None or whole is None:
        return DrillResult(
            name="unit-economics",
            title="misleading unit economics",
            pool="",
            verdict=DrillVerdict.NOT_PLAYED,
            played="Nothing is priced. Give prices.",
        )
    half = _at_volume(scenario, bill, VOLUME_RATIO).figures["bill.per_success_usd"]
    before, during = float(whole.value), float(half.value)
    most = (1.0 + MOST_RISE_FRACTION) * before
    fixed = sum(each.usd for each in bill.lines if each.behaviour is Behaviour.FIXED) / max(bill.total_usd, 1e-12)
    return DrillResult(
        name="unit-economics",
        title="misleading unit economics",
        pool="",
        verdict=DrillVerdict.PASSES if during <= most else DrillVerdict.FAILS,
        figure="cost of a success",
        before=whole,
        during=Figure(
            name="drill.unit-economics.during_usd",
            value=during,
            unit="USD",
            formula=f"the bill of the same fleet at {VOLUME_RATIO:g} of the traffic, simulated / its successes",
            inputs=(whole, *half.inputs),
        ),
        wanted=f"at most {most:.3g} USD",
        played=(
            f"Half of the traffic arrives, {fixed:.1%} of the bill is fixed."
            + _benchmark(scenario, before)
            + (f" Not in either: {_missing(bill)}." if bill.unpriced else "")
        ),
        change=""
        if during <= most
        else first_of(
            (
                f"at most {MOST_RISE_FRACTION:.0%} of the bill fixed: devices by the hour that follow demand",
                f"{before:.3g} to {during:.3g} USD quoted, by volume",
            )
        ),
    )


def _missing(bill: Bill) -> str:
    return ", ".join(dict.fromkeys(each.name.replace("_", " ") for each in bill.unpriced))


def _benchmark(scenario: PoolScenario, before: float) -> str:
    """What a benchmark's highest throughput would make of the same devices."""
    price = _device_hour_usd(scenario)
    if price is None or len(scenario.plan.pools) > 1:
        return ""
    devices = scenario.pool.reserves.devices_per_replica
    usd = price * devices / (scenario.pool.service_curve.saturation_rps * 3600.0)
    return f" At a benchmark's highest throughput devices alone would cost {usd:.3g} USD a request."


def _device_hour_usd(scenario: PoolScenario) -> float | None:
    bill = scenario.bill
    if bill is None:
        return None
    own = [each for each in bill.lines if each.pool == scenario.pool.spec.name and each.amount.unit == "device-hours"]
    hours = sum(each.amount.value for each in own if each.is_priced)
    return sum(each.usd for each in own if each.is_priced) / hours if hours else None


def _at_volume(scenario: PoolScenario, bill: Bill, ratio: float) -> Bill:
    """The bill of the same pools at another volume."""
    pools = [replace(each, demand=_scaled(each.demand, ratio)) for each in scenario.plan.pools]
    use = service_use(
        scenario.spec,
        _scaled(_whole(scenario.plan.pools), ratio),
        pools,
        {each.name: next(one for one in each.basis if isinstance(one, Figure)) for each in bill.use.pools},
        seed=scenario.seed,
    )
    return monthly_bill(use, bill.quotes, bill.policy)


def _whole(pools: tuple[PoolPlan, ...]) -> Demand:
    """The classes of all pools; a class that is routed to several is counted where it comes first."""
    classes = {each.name: each for pool in reversed(pools) for each in pool.demand.classes}
    return replace(pools[0].demand, classes=tuple(classes.values()))


def _scaled(demand: Demand, ratio: float) -> Demand:
    """Another mean; what the fleet was sized for stays as it is."""
    return replace(
        demand,
        classes=tuple(
            replace(
                each,
                mean_rps=ratio * each.mean_rps,
                model=replace(each.model, mean_rate_rps=ratio * each.model.mean_rate_rps),
            )
            for each in demand.classes
        ),
    )
