"""What a plan's pictures are drawn from: series that its stages hold, beside the figures that the document lists.

Nothing is computed anew but sums that the stages' own values give: the planned week by hour, the points of the curve,
the parts of a device, the machines of a zone, losses before, during and after, a day of the scaling rule, the risk of
neighbouring fleets, and the bill by every attribution rule that the usage allows. Load tests alone are simulated here,
each as it was run, because a dot on a curve means nothing without what the step model says of the same test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from ullage.admission.replay import BurstReplay
from ullage.cost.attribution.attribution import AttributionChoice, RuleSpread, rule_spread
from ullage.cost.bill import Bill
from ullage.cost.lines.line import BillLine
from ullage.fleet.losses import LossCheck
from ullage.fleet.risk.shortfall import FleetRisk
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.report.plan.traffic_series import CacheCurve, LengthGrid, cache_curve, length_grid
from ullage.scaling.traffic import DAYS, hourly_rates, planned_week, steep_hours
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.measured import MeasuredPoint, measured_points
from ullage.service.calibration.repeats import RepeatTerms
from ullage.service.curve.curve import StablePoint
from ullage.simulate.statistics import Interval
from ullage.uncertainty.drivers import SobolDriver
from ullage.uncertainty.information import InformationValue
from ullage.uncertainty.pool_study import BreakEven, PoolStudy, Regret
from ullage.uncertainty.study import Study
from ullage.workload.forecast.forecast import Forecast
from ullage.workload.synthetic.model import SyntheticModel

# Four weeks of hours: as much past as a chart of the coming month has room for.
_HISTORY_STEPS = 672
_DAY_HOURS = 24
_FAN_FRACTIONS = (0.1, 0.5, 0.9)
# More dots than this hide each other, and each is a simulation.
_MOST_TESTS = 24


@dataclass(frozen=True, kw_only=True)
class ClassWeek:
    """One class in the planned week: the expected rate of every hour from Monday 00:00, its busiest as planned."""

    name: str
    hours_rps: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ForecastFan:
    """The end of what was logged of a class, null where nothing was, and its forecast at 10, 50 and 90 %.

    The forecast is of `scale_ratio` times the log: of the rate that the plan states.
    """

    name: str
    unit: str
    step_s: float
    logged: tuple[float | None, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    scale_ratio: float


@dataclass(frozen=True, kw_only=True)
class DevicePart:
    """One line of a device's memory; `figure` is the name that it is explained by."""

    name: str
    figure: str
    part_bytes: int


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """One load of a replica's service curve. One that it does not sustain has neither latencies nor goodput."""

    offered_rps: float
    is_sustained: bool
    goodput: Interval | None
    waiting: Interval | None
    kv_use: Interval | None
    latencies: Mapping[str, Mapping[str, Interval]]
    violated: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ZoneMachines:
    """The machines of one zone, and what of their devices replicas use."""

    zone: str
    nodes: int
    replicas: int
    used_devices: int
    unused_devices: int


@dataclass(frozen=True, kw_only=True)
class LossPhases:
    """One loss that was played: requests within the SLO that was attained worst, before, during and after it."""

    name: str
    title: str
    covered_by: str
    verdict: str
    reason: str
    slo_name: str
    required_fraction: float | None
    before: Interval | None
    during: Interval | None
    after: Interval | None
    recover_s: float | None


@dataclass(frozen=True, kw_only=True)
class ScalingDay:
    """The scaling rule on the hours of a day that it was played on, from `start_s` of the day on, beside the fleet that
    never scales."""

    day: str
    start_s: float
    fixed_replicas: int
    each_rps: float
    demand_rps: tuple[float, ...]
    replicas: tuple[float, ...]
    violated: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class RiskSeries:
    """What was studied around the plan: fleets by their risk, what moves it, what to measure."""

    replicas: int
    machines: tuple[FleetRisk, ...]
    drivers: tuple[SobolDriver, ...]
    drives: str
    measurements: tuple[InformationValue, ...]
    break_evens: tuple[BreakEven, ...]
    regrets: tuple[Regret, ...]
    lines: Mapping[str, int]
    draws: int


@dataclass(frozen=True, kw_only=True)
class PoolSeries:
    """The series of one pool."""

    name: str
    week: tuple[ClassWeek, ...]
    forecasts: tuple[ForecastFan, ...]
    lengths: tuple[LengthGrid, ...]
    reuse: tuple[CacheCurve, ...]
    device_bytes: int
    memory: tuple[DevicePart, ...]
    curve: tuple[LoadPoint, ...]
    tests: tuple[MeasuredPoint, ...]
    bursts: tuple[BurstReplay, ...]
    zones: tuple[ZoneMachines, ...]
    losses: tuple[LossPhases, ...]
    scaling: ScalingDay
    risk: RiskSeries | None


@dataclass(frozen=True, kw_only=True)
class PlanSeries:
    """The series of a plan: pool by pool, and the bill by line and, for every class, by attribution rule."""

    pools: tuple[PoolSeries, ...]
    bill: tuple[BillLine, ...]
    rules: tuple[RuleSpread, ...]


def plan_series(plan: Plan) -> PlanSeries:
    """The series of a finished plan; what was not studied or priced has none."""
    study = next((each.answer for each in plan.stages if isinstance(each.answer, Study)), None)
    bill = next((each.answer for each in plan.stages if isinstance(each.answer, Bill)), None)
    return PlanSeries(
        pools=tuple(_pool(plan, each, study) for each in plan.pools),
        bill=() if bill is None else bill.lines,
        rules=() if bill is None else _rules(bill),
    )


def _rules(bill: Bill) -> tuple[RuleSpread, ...]:
    uses = bill.use.groups.get("class", {})
    return rule_spread(bill.lines, uses, AttributionChoice(by="class")) if uses and bill.is_of_devices else ()


def _pool(plan: Plan, pool: PoolPlan, study: Study | None) -> PoolSeries:
    week = planned_week(pool.demand)
    return PoolSeries(
        name=pool.spec.name,
        week=tuple(ClassWeek(name=each.name, hours_rps=_hours(week, each.name)) for each in week.classes),
        forecasts=tuple(
            forecast_fan(each.name, found.forecast)
            for each in pool.demand.classes
            if (found := plan.spec.measured.get(each.name)) is not None and found.forecast is not None
        ),
        lengths=tuple(length_grid(each) for each in pool.demand.busy_model.classes),
        reuse=tuple(
            curve
            for each in pool.demand.busy_model.classes
            if (curve := cache_curve(each, _cached_fraction(pool, each.name))) is not None
        ),
        device_bytes=pool.memory.device_bytes,
        memory=tuple(
            DevicePart(name=each.name.value, figure=each.figure.name, part_bytes=each.line_bytes)
            for each in pool.memory.lines
        ),
        curve=tuple(
            _stable(each)
            if isinstance(each, StablePoint)
            else LoadPoint(
                offered_rps=each.offered_rps,
                is_sustained=False,
                goodput=None,
                waiting=None,
                kv_use=None,
                latencies={},
                violated=(),
            )
            for each in pool.service_curve.points
        ),
        tests=_tests(pool),
        bursts=pool.admission_limits.replays,
        zones=_zones(pool),
        losses=tuple(_loss(each) for each in pool.loss_checks.checks),
        scaling=_scaling(pool, week),
        risk=None if study is None else _risk(study.pool(pool.spec.name)),
    )


def _hours(week: SyntheticModel, name: str) -> tuple[float, ...]:
    own = SyntheticModel(classes=tuple(each for each in week.classes if each.name == name))
    return tuple(float(each) for each in hourly_rates(own))


def _cached_fraction(pool: PoolPlan, name: str) -> float:
    figure = pool.demand.figures.get(f"demand.{name}.cached_fraction")
    return 0.0 if figure is None else float(figure.value)


def _tests(pool: PoolPlan) -> tuple[MeasuredPoint, ...]:
    """The load tests that the plan's step times rest on, each simulated as it was run."""
    tested, curve = pool.spec.tested, pool.service_curve
    if not tested.load_tests:
        return ()
    mix = curve.trial.load(curve.saturation_rps, curve.seed).requests
    points = [
        (f"{PurePath(test.file).stem} {each.name}", each) for test, _ in tested.load_tests for each in test.points
    ]
    return measured_points(
        points[:_MOST_TESTS],
        pool.step_model,
        RepeatTerms(
            limits=engine_limits(pool.memory.runtime, pool.memory.kv_tokens),
            replicas=tested.replicas,
            cached_fraction=tested.cached_fraction,
            timeout_s=tested.timeout_s,
        ),
        classes=[each.request_class for each in pool.demands],
        mix_tokens=(float(mix.prompt_tokens.mean()), float(mix.output_tokens.mean())),
    )


def forecast_fan(name: str, forecast: Forecast) -> ForecastFan:
    logged = forecast.history.values[-_HISTORY_STEPS:]
    low, middle, high = (tuple(float(one) for one in forecast.at(each)) for each in _FAN_FRACTIONS)
    return ForecastFan(
        name=name,
        unit=forecast.history.unit,
        step_s=forecast.history.step_s,
        logged=tuple(None if math.isnan(each) else float(each) for each in logged),
        low=low,
        middle=middle,
        high=high,
        scale_ratio=forecast.scale_ratio,
    )


def _stable(point: StablePoint) -> LoadPoint:
    return LoadPoint(
        offered_rps=point.offered_rps,
        is_sustained=True,
        goodput=point.goodput,
        waiting=point.waiting,
        kv_use=point.kv_use,
        latencies=point.latencies,
        violated=point.violated,
    )


def _zones(pool: PoolPlan) -> tuple[ZoneMachines, ...]:
    groups = pool.packing.chosen.groups
    placed = {row.zone: row.replicas for row in pool.reserves.placement.rows}
    return tuple(
        ZoneMachines(
            zone=zone,
            nodes=sum(each.nodes for each in own),
            replicas=placed.get(zone, 0),
            used_devices=sum(each.nodes * each.used_devices for each in own),
            unused_devices=sum(each.nodes * (each.spare_devices + each.stranded_devices) for each in own),
        )
        for zone in dict.fromkeys(each.zone for each in groups)
        for own in ([each for each in groups if each.zone == zone],)
    )


def _loss(check: LossCheck) -> LossPhases:
    worst = check.during or check.before or check.after
    return LossPhases(
        name=check.name,
        title=check.title,
        covered_by=check.covered_by,
        verdict=check.verdict.value,
        reason=check.reason,
        slo_name="" if worst is None else worst.slo_name,
        required_fraction=None if worst is None else worst.required_fraction,
        before=None if check.before is None else check.before.attained,
        during=None if check.during is None else check.during.attained,
        after=None if check.after is None else check.after.attained,
        recover_s=check.recover_s,
    )


def _scaling(pool: PoolPlan, week: SyntheticModel) -> ScalingDay:
    stage, rates = pool.scaling, hourly_rates(week)
    played, day = stage.played.hourly_replicas, DAYS.index(stage.day)
    first = steep_hours(rates, day, len(played)) if len(played) < _DAY_HOURS else 0
    return ScalingDay(
        day=stage.day,
        start_s=first * 3600.0,
        fixed_replicas=stage.fixed_replicas,
        each_rps=pool.demand.planning_rps / pool.steady_fleet.size.conservative_replicas,
        demand_rps=tuple(float(each) for each in rates.reshape(7, _DAY_HOURS)[day, first : first + len(played)]),
        replicas=tuple(float(each) for each in played),
        violated=stage.played.causes,
    )


def _risk(found: PoolStudy) -> RiskSeries:
    return RiskSeries(
        replicas=found.replicas,
        machines=found.machines,
        drivers=found.drivers,
        drives="cost" if found.cost_drivers else "replicas",
        measurements=found.measurements,
        break_evens=found.break_evens,
        regrets=found.regrets,
        lines=found.lines,
        draws=found.draws,
    )
