"""The study around a plan: what its fleet risks, which inputs move it, and which measurement to make first."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from ullage.cost.bill import Bill
from ullage.errors import NotGiven
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.fleet.risk.inputs import TRAFFIC_LENGTHS
from ullage.fleet.risk.load_draws import DEMAND, Uncertainties
from ullage.fleet.risk.surface import CACHED, OUTPUTS, PROMPTS, STEPS
from ullage.planning.answer.answer import LOAD_TEST
from ullage.planning.document import Plan
from ullage.planning.planned_for import demand_at
from ullage.planning.pool_plan import PoolPlan
from ullage.prices.age import price_drift
from ullage.prices.packaged import list_fall
from ullage.service.stage import band_of
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.uncertainty.information import PossibleMeasurement
from ullage.uncertainty.joint import joint_shortfall, service_classes
from ullage.uncertainty.pool_study import DRAWS, ROLLOUTS, MachineMoney, PoolStudy, Quantiles, study_pool

_WRITTEN = datetime.date(2026, 11, 16)
_TENTH = NormalDist().inv_cdf(0.9)
_DEVICE_LINES = (
    "compute_reservation", "compute_usage", "idle_hours", "failed_work", "idle_reserve", "stranded_devices",
)  # fmt: skip

PRICE_DEVIATION = Assumption(
    name="uncertainty.price_deviation",
    value=0.05,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: list prices of a device-hour change by steps, most months not at all",
        where="docs/explanation/risk.md",
        date=_WRITTEN,
    ),
    low=0.0,
    high=0.25,
    max_age=datetime.timedelta(days=365),
)
TRACE_LEFT = Assumption(
    name="uncertainty.left_by_a_trace",
    value=0.5,
    unit="fraction",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: a forecast from two weeks of log is off by about half of what a stated rate is, a "
        "measured mean length by a third of an assumed one",
        where="docs/explanation/risk.md",
        date=_WRITTEN,
    ),
    low=0.25,
    high=0.9,
)

NOT_STUDIED = NotGiven(
    stage="uncertainty",
    instead="The risk study was skipped.",
    fix="Plan without --quick, or run ullage risk.",
)

WORDS: Mapping[str, str] = {
    DEMAND: "demand",
    STEPS: "step time",
    PROMPTS: "prompt length",
    OUTPUTS: "output length",
    CACHED: "cached share",
    "price": "price",
    "simulation": "simulation",
}
"""Inputs as people call them."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What was found of every pool, with the figures that a plan prints of it."""

    pools: tuple[PoolStudy, ...]
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        several = len(self.pools) > 1
        own = tuple(each for one in self.pools for each in _notes(one, several=several))
        joint = self.figures.get(SERVICE)
        if joint is None:
            return own
        each = number(self.pools[0].shortfall)
        said = (
            f"In {100 * number(joint):.2g} % of joint draws some pool falls short in its busiest hour. Each is sized "
            f"for {100 * each:.2g} %: demand moves them together, step times and lengths separately."
        )
        return (said, *own)

    def pool(self, name: str) -> PoolStudy:
        return next(each for each in self.pools if each.pool == name)


def study(
    plan: Plan,
    *,
    map: Any = map,  # noqa: A002
    jobs: Any = map,
) -> Study:
    """The study of a finished plan; every pool of it is a job."""
    bill = next((each.answer for each in plan.stages if isinstance(each.answer, Bill)), None)
    several = len(plan.pools) > 1

    def look(at: int) -> PoolStudy:
        pool = plan.pools[at]
        return study_pool(
            pool,
            plan.spec,
            shortfall=plan.point.pool_shortfall,
            money=_money(plan, pool, bill),
            measurements=tuple(_measurements(plan, pool, bill)),
            seed=plan.seed,
            map=map,
            jobs=jobs,
        )

    found: list[PoolStudy] = list(jobs(look, range(len(plan.pools))))
    figures = [
        figure
        for pool, one in zip(plan.pools, found, strict=True)
        for figure in _figures(plan, pool, one, f"{pool.spec.name}." if several else "")
    ]
    if several:
        figures.append(_service(plan, found))
    return Study(pools=tuple(found), figures={each.name: each for each in figures})


SERVICE = "risk.service_shortfall_fraction"


def _service(plan: Plan, found: Sequence[PoolStudy]) -> Figure:
    """The chance that some pool falls short, over futures that they share."""
    names, correlations = service_classes(demand_at(plan.spec, plan.point.percentile).classes)
    pools = [one.joint(pool) for pool, one in zip(plan.pools, found, strict=True)]
    rests = [
        each for pool, one in zip(plan.pools, found, strict=True) for each in _rests(plan, pool, one.uncertainties)
    ]
    return Figure(
        name=SERVICE,
        value=joint_shortfall(pools, names, correlations, draws=DRAWS, seed=plan.seed),
        unit="fraction",
        formula=f"chance that the busiest hour of some pool needs more than is up of it, over {DRAWS} joint draws: "
        "demand of a class is shared by all pools, step times and lengths are per pool",
        inputs=tuple(dict.fromkeys(rests)),
    )


def _money(plan: Plan, pool: PoolPlan, bill: Bill | None) -> MachineMoney | None:
    """What the pool's machines cost, and everything else of a service that has no other pool."""
    if bill is None or not bill.is_of_devices:
        return None
    lines = [each for each in bill.lines if each.pool == pool.spec.name and each.name in _DEVICE_LINES and each.figure]
    devices_usd = sum(each.usd for each in lines)
    if devices_usd <= 0.0:
        return None
    chosen = pool.packing.chosen
    per_node = max(1, chosen.shape.devices // pool.reserves.devices_per_replica)
    spans = pool.reserves.devices_per_replica > chosen.shape.devices
    units = pool.reserves.total_replicas if spans else chosen.nodes
    alone = len(plan.pools) == 1
    per_success = bill.figures.get("bill.per_success_usd")
    successes = bill.total_usd / number(per_success) if alone and per_success is not None else 0.0
    return MachineMoney(
        node_usd=devices_usd / units,
        other_usd=bill.total_usd - devices_usd if alone else 0.0,
        replicas_per_node=1 if spans else per_node,
        successes=successes,
        price_deviation_fraction=_price_deviation(plan, pool, bill),
        spread_nodes=pool.reserves.placement.spread_nodes,
    )


def _price_deviation(plan: Plan, pool: PoolPlan, bill: Bill) -> float:
    """What prices may be off by, and what they have drifted by since they were past their age."""
    quotes = bill.quotes.devices.get(pool.spec.name)
    hours = [each.hour for each in quotes] if isinstance(quotes, tuple) else []
    drift = price_drift(hours, plan.as_of, list_fall(pool.spec.device.name))
    return math.hypot(number(PRICE_DEVIATION), 0.0 if drift is None else number(drift))


def _measurements(plan: Plan, pool: PoolPlan, bill: Bill | None) -> Iterator[PossibleMeasurement]:
    """A load test while step times are known by less, and a trace while traffic is stated or ours."""
    band = band_of(pool.step_model)
    now = (math.log(band.slow_ratio) - math.log(band.fast_ratio)) / (2.0 * _TENTH)
    left = math.log(DEFAULT_BANDS[Evidence.CALIBRATED].slow_ratio) / _TENTH
    if left < 0.9 * now:
        quotes = None if bill is None else bill.quotes.devices.get(pool.spec.name)
        hours, devices = number(LOAD_TEST) / 3600.0, pool.memory.runtime.sharding.devices
        usd = None
        if isinstance(quotes, tuple):
            usd = hours * devices * sum(each.share_fraction * each.usd_per_hour for each in quotes)
        what = f"load test of one replica, {hours:g} h on {devices} {pool.spec.device.name}"
        yield PossibleMeasurement(name="load_test", what=what, left_fractions={STEPS: left / now}, usd=usd)
    if not {each.name for each in pool.demand.classes} <= set(plan.spec.measured):
        lefts = {DEMAND: number(TRACE_LEFT), PROMPTS: 1 / 3, OUTPUTS: 1 / 3, CACHED: 1 / 3}
        yield PossibleMeasurement(name="trace", what="request log of two weeks", left_fractions=lefts, usd=None)


_PERCENTILES: Mapping[str, str] = {"p10": "low", "p50": "value", "p90": "high"}


def _figures(plan: Plan, pool: PoolPlan, found: PoolStudy, prefix: str) -> Iterator[Figure]:
    rests = _rests(plan, pool, found.uncertainties)

    def figure(name: str, value: float, unit: str, formula: str) -> Figure:
        return Figure(name=f"{prefix}{name}", value=value, unit=unit, formula=formula, inputs=rests)

    share = f"{100.0 * number(found.shortfall):.3g} %"
    yield figure(
        "risk.shortfall_fraction",
        found.risk.shortfall_fraction,
        "fraction",
        f"chance that the busiest hour needs more than is up of {found.replicas} serving replicas, over {found.draws} "
        "joint draws",
    )
    yield figure(
        "risk.shortfall_hours",
        found.risk.hours_per_month,
        "h/month",
        "expected hours of a month that need more replicas than are up",
    )
    yield figure(
        "risk.hopeless_fraction",
        found.hopeless_fraction,
        "fraction",
        "draws in which steps are too slow for any number of replicas: no lack of capacity, and not in the shortfall",
    )
    if found.chosen_replicas is not None:
        yield figure(
            "risk.chosen_replicas",
            found.chosen_replicas,
            "replicas",
            f"smallest serving fleet whose busiest hour falls short with at most {share}",
        )
    spans: dict[str, tuple[Quantiles | None, str]] = {
        "replicas": (found.needed, "replicas that the busiest hour needs"),
        "usd": (found.usd, "what the machines of that need cost a month"),
        "per_success_usd": (found.per_success_usd, "cost of the planned fleet over the successes of a month"),
        "attainment_fraction": (found.attainment, "hours of a month with enough capacity"),
    }
    helped = "all draws" if found.hopeless_fraction == 0.0 else "the draws that some number of replicas helps"
    for name, (quantiles, what) in spans.items():
        if quantiles is None:
            continue
        draws = helped if name in ("replicas", "usd") else "all draws"
        for which, part in _PERCENTILES.items():
            said = f"{which} over {draws}: {what}"
            yield figure(f"risk.{name}_{which}", getattr(quantiles, part), quantiles.unit, said)
    yield figure(
        "risk.surface_error_fraction",
        found.surface.error_fraction,
        "fraction",
        f"deviation of the capacity surface from trials at {len(found.surface.checks)} drawn points",
    )
    outcome = "cost" if found.cost_drivers else "replicas"
    for each in found.drivers:
        yield figure(
            f"driver.{each.name}_fraction",
            min(1.0, max(0.0, each.first_fraction)),
            "fraction",
            f"part of the variance in {outcome} that {WORDS.get(each.name, each.name)} explains "
            f"({100 * each.first_low_fraction:.0f} to {100 * each.first_high_fraction:.0f} %)",
        )
    yield from _information_figures(found, figure)


def _information_figures(found: PoolStudy, figure: Callable[[str, float, str, str], Figure]) -> Iterator[Figure]:
    for each in found.measurements:
        yield figure(
            f"information.{each.measurement.name}_replicas",
            each.now_replicas - each.expected_replicas,
            "replicas",
            f"expected change by a {each.measurement.what}, at the same risk",
        )
        if each.saves_usd is not None:
            yield figure(
                f"information.{each.measurement.name}_usd",
                each.saves_usd,
                "USD",
                f"the same in a month's money, before the price of the {each.measurement.what}",
            )


def _rests(plan: Plan, pool: PoolPlan, given: Uncertainties) -> tuple[Figure | Assumption, ...]:
    steady = plan.figures_of("steady_fleet", pool.spec.name)["fleet.replicas"]
    reliability = pool.reserves.settings.reliability
    return (
        steady,
        *(each.assumption for each in given.inputs),
        TRAFFIC_LENGTHS,
        PRICE_DEVIATION,
        TRACE_LEFT,
        ROLLOUTS,
        *reliability.rates,
        plan.spec.policy.shortfall,
    )


def _notes(found: PoolStudy, *, several: bool) -> Iterator[str]:
    of = f"{found.pool}: " if several else ""
    fleet = (
        "no number of replicas meets it" if found.chosen_replicas is None else f"{found.chosen_replicas} would meet it"
    )
    yield (
        f"{of}The fleet is sized for a shortfall of {100 * number(found.shortfall):.3g} % with what pools are usually "
        f"like; by the capacity surface of this one its {found.replicas} serving replicas fall short in the busiest "
        f"hour with {100 * found.risk.shortfall_fraction:.2g} %, and {fleet}."
    )
    errors = [abs(each.error_fraction) for each in found.surface.checks if each.is_carried]
    checked = f"; at {len(errors)} drawn points it lies within {100 * max(errors):.0f} % of a trial" if errors else ""
    yield f"{of}Read off a capacity surface of {found.surface.trials} trials{checked}."
    if found.hopeless_fraction > 0.0005:
        yield (
            f"{of}In {100 * found.hopeless_fraction:.2g} % of the draws steps are so slow that no number of replicas "
            "meets the SLOs: only a measurement or another device helps there."
        )
