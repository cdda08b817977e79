"""What a plan expects of production, in the quantities that production can be asked for; kept with the plan.

Months later the plan's traces may be gone and its facts corrected. What it expected then is what it is held to, so
these numbers stand on their own: rates by hour with their band, lengths, cache hits, latencies, replicas, prices.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.evidence import Assumption, number
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.service.phase import Side
from ullage.service.stage import band_of
from ullage.startup.phases import Level
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import ClassTraffic, MeasuredClass
from ullage.workload.demand.stated import StatedShape
from ullage.workload.forecast.forecast import Forecast
from ullage.workload.forecast.short_trace import RATE_DEVIATION
from ullage.workload.synthetic.model import HOURS_PER_WEEK, WEEK_S

HOUR_S = 3600.0
HOURS_PER_MONTH = 730.0
BAND_RATIO = "forecast_band_ratio"
# The quantiles of a forecast that are kept: those of the 80 % band, and enough between them for pinball and CRPS.
FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# 1970 began on a Thursday, a week on Monday.
_EPOCH_MONDAY_S = 4 * 86_400.0
_DEVICE_LINES = (
    "compute_reservation", "compute_usage", "idle_hours", "idle_reserve", "failed_work", "stranded_devices",
)  # fmt: skip

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ExpectedSlo:
    """One SLO of a class: `metric` is ttft, tpot, itl or e2e."""

    metric: str
    percentile_fraction: float
    limit_s: float

    @property
    def name(self) -> str:
        return f"{self.metric}_p{self.percentile_fraction * 100:.6g}"


@dataclass(frozen=True, kw_only=True)
class ExpectedClass:
    """One class. `hour_rps` are quantiles (columns `FRACTIONS`) by step of a tested forecast, where there was one.

    Without it the rate at any hour is the mean times season and growth, and the band that of `deviation_ratio`. Bands
    are `band_ratio` times as wide as the forecast's own, because of how earlier ones scored.
    """

    name: str
    pool: str
    mean_rps: float
    planning_rps: float
    season: tuple[float, ...]
    weekly_growth_fraction: float
    deviation_ratio: float
    prompt_tokens: float
    prompt_p50_tokens: float
    prompt_p95_tokens: float
    output_tokens: float
    output_p50_tokens: float
    output_p95_tokens: float
    cached_fraction: float
    failed_fraction: float
    slos: tuple[ExpectedSlo, ...]
    forecast_start_s: float = 0.0
    forecast_step_s: float = 0.0
    forecast_rps: tuple[tuple[float, ...], ...] = ()
    band_ratio: float = 1.0

    def quantiles_rps(self, at_s: Floats, *, dated_s: float) -> Floats:
        """Rates at these times (rows) at `FRACTIONS` (columns): the forecast's, season and growth beyond it."""
        hour = np.floor((at_s - _EPOCH_MONDAY_S) % WEEK_S / HOUR_S).astype(int) % HOURS_PER_WEEK
        season = np.array(self.season) / float(np.mean(self.season))
        weeks = (at_s - dated_s) / WEEK_S
        middle = self.mean_rps * season[hour] * (1.0 + self.weekly_growth_fraction) ** weeks
        scores = np.array([NormalDist().inv_cdf(each) for each in FRACTIONS])
        found: Floats = middle[:, None] * np.exp(scores * self.deviation_ratio * self.band_ratio)[None, :]
        if self.forecast_rps:
            table = np.array(self.forecast_rps)
            step = np.floor((at_s - self.forecast_start_s) / self.forecast_step_s).astype(int)
            inside = (step >= 0) & (step < len(table))
            own = np.maximum(table[step[inside]], 1e-12)
            centre = own[:, FRACTIONS.index(0.5)][:, None]
            found[inside] = centre * (own / centre) ** self.band_ratio
        return found


@dataclass(frozen=True, kw_only=True)
class ExpectedPool:
    """One pool: its fleet, what a replica does at the planning rate, how it starts and fails, what it costs.

    `failures_per_year` are stops of one replica for any reason, `repair_s` how long it is then gone. The rise is what
    demand gains a second in the steepest hour, which a fleet that follows demand must have ready.
    """

    name: str
    replicas: int
    steady_replicas: int
    devices: int
    capacity_rps: float
    service_time_s: float
    goodput_rps: float
    active_tokens: float
    kv_tokens: float
    kv_peak_fraction: float
    queue_requests: float
    queue_age_s: float
    preemptions_per_s: float
    ready_s: float
    ready_low_s: float
    ready_high_s: float
    failures_per_year: float
    repair_s: float
    rise_rps_per_s: float
    step_fast_ratio: float
    step_slow_ratio: float


@dataclass(frozen=True, kw_only=True)
class ExpectedInput:
    """An assumption of the plan, as it was then."""

    name: str
    value: float | str
    unit: str
    evidence: str
    dated: str
    low: float | None = None
    high: float | None = None
    max_age_days: int | None = None


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """All that a plan expects. `risk_fraction` is the stated chance that the busiest hour exceeds the planning rate."""

    service: str
    as_of: str
    horizon_s: float
    planning_rps: float
    risk_fraction: float
    reconcile_every_s: float
    usd_per_month: float | None
    usd_per_success: float | None
    replica_usd_per_hour: float | None
    classes: tuple[ExpectedClass, ...]
    pools: tuple[ExpectedPool, ...]
    inputs: tuple[ExpectedInput, ...]

    @property
    def dated_s(self) -> float:
        """The beginning of the day of the plan, in seconds since 1970."""
        return _midnight_s(datetime.date.fromisoformat(self.as_of))

    @property
    def device_usd_per_success(self) -> float | None:
        """The part of a success's cost that is paid for devices: all that can be seen without a bill."""
        if self.replica_usd_per_hour is None or not self.usd_per_month or self.usd_per_success is None:
            return None
        hours = next((float(each.value) for each in self.inputs if each.name == "cost.period"), HOURS_PER_MONTH)
        devices_usd = self.replica_usd_per_hour * hours * sum(each.replicas for each in self.pools)
        return self.usd_per_success * devices_usd / self.usd_per_month

    def pool_usd_per_hour(self, pool: ExpectedPool) -> float | None:
        """What a replica of a pool costs an hour: replicas of more devices cost as much more."""
        if self.replica_usd_per_hour is None:
            return None
        replicas = sum(each.replicas for each in self.pools)
        devices = sum(each.replicas * each.devices for each in self.pools)
        return self.replica_usd_per_hour * pool.devices * replicas / devices

    @property
    def whole_pool(self) -> ExpectedPool:
        """The pool, or several as one: fleets and queues add up, what a replica does is the mean over replicas."""
        if len(self.pools) == 1:
            return self.pools[0]
        weights = [float(each.replicas) for each in self.pools]

        def mean(name: str) -> Any:
            pairs = zip(weights, self.pools, strict=True)
            return sum(weight * getattr(each, name) for weight, each in pairs) / sum(weights)

        def total(name: str) -> Any:
            return sum(getattr(each, name) for each in self.pools)

        added = ("replicas", "steady_replicas", "capacity_rps", "rise_rps_per_s")
        names = [each.name for each in fields(ExpectedPool) if each.name not in ("name", "devices", *added)]
        return ExpectedPool(
            name="all",
            devices=max(1, round(mean("devices"))),
            **{name: total(name) for name in added},
            **{name: mean(name) for name in names},
        )

    def quantiles_rps(self, at_s: Floats) -> Floats:
        """All classes together. Bands add up as if classes erred together, which errs to the wide side."""
        found: Floats = np.zeros((at_s.size, len(FRACTIONS)))
        for each in self.classes:
            found = found + each.quantiles_rps(at_s, dated_s=self.dated_s)
        return found


def expectation_of(plan: Plan) -> Expectation:
    """Read off a plan what production is to be compared with."""
    figures = {each.name: each for each in plan.figures}
    month, success = (figures.get(name) for name in ("bill.total_usd", "bill.per_success_usd"))
    pools = tuple(_pool(each) for each in plan.pools)
    # Requests that pass both sides of a pool are counted where they end.
    ending = [each for each in plan.pools if each.spec.phase is None or each.spec.phase.side is Side.DECODE]
    return Expectation(
        service=plan.spec.name,
        as_of=plan.as_of.isoformat(),
        horizon_s=number(plan.spec.policy.horizon),
        planning_rps=sum(each.demand.planning_rps for each in ending),
        risk_fraction=1.0 - number(plan.point.percentile),
        reconcile_every_s=number(plan.spec.policy.reconcile_every),
        usd_per_month=None if month is None else number(month),
        usd_per_success=None if success is None else number(success),
        replica_usd_per_hour=_replica_usd_per_hour(plan, pools),
        classes=tuple(_class(each, one, plan) for each in ending for one in each.demand.classes),
        pools=pools,
        inputs=tuple(_input(each) for each in plan.assumptions),
    )


def _class(pool: PoolPlan, traffic: ClassTraffic, plan: Plan) -> ExpectedClass:
    measured: MeasuredClass | None = plan.spec.measured.get(traffic.name)
    forecast = None if measured is None else measured.forecast
    model = traffic.model
    deviation = next((each for each in plan.assumptions if each.name == f"{traffic.name}.rate_deviation"), None)
    band = next((each for each in plan.assumptions if each.name == f"{traffic.name}.{BAND_RATIO}"), None)
    prompts, outputs = model.lengths.pairs()
    weeks = number(plan.spec.policy.horizon) / WEEK_S
    request = next(each for each in plan.spec.demands if each.request_class.name == traffic.name)
    return ExpectedClass(
        name=traffic.name,
        pool=pool.spec.name,
        # The mean of the horizon, taken back to the day of the plan.
        mean_rps=traffic.mean_rps / (1.0 + model.weekly_growth_fraction) ** (weeks / 2.0),
        planning_rps=traffic.planning_rps,
        season=_season(tuple(model.season), request.shape),
        weekly_growth_fraction=model.weekly_growth_fraction,
        deviation_ratio=RATE_DEVIATION if deviation is None else number(deviation),
        band_ratio=1.0 if band is None else number(band),
        prompt_tokens=float(np.mean(prompts)),
        prompt_p50_tokens=float(np.quantile(prompts, 0.5)),
        prompt_p95_tokens=float(np.quantile(prompts, 0.95)),
        output_tokens=float(np.mean(outputs)),
        output_p50_tokens=float(np.quantile(outputs, 0.5)),
        output_p95_tokens=float(np.quantile(outputs, 0.95)),
        cached_fraction=number(traffic.figures[f"demand.{traffic.name}.cached_fraction"]),
        failed_fraction=1.0 - traffic.outcomes.success_fraction,
        slos=_slos(request.request_class),
        **_forecast(forecast, _midnight_s(plan.as_of)),
    )


def _season(season: tuple[float, ...], shape: StatedShape | None) -> tuple[float, ...]:
    """The week's shape with the busiest hour that was stated, where one was: hours keep their order."""
    stated = None if shape is None else shape.peak_hour
    mean = float(np.mean(season))
    own = max(season) / mean
    if stated is None or own <= 1.0:
        return season
    ratio = (number(stated) - 1.0) / (own - 1.0)
    return tuple(max(0.0, 1.0 + (each / mean - 1.0) * ratio) for each in season)


def _slos(request_class: RequestClass) -> tuple[ExpectedSlo, ...]:
    return tuple(
        ExpectedSlo(metric=each.metric.value, percentile_fraction=each.percentile_fraction, limit_s=each.limit_s)
        for each in request_class.slos
    )


def _midnight_s(day: datetime.date) -> float:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp()


def _forecast(found: Forecast | None, dated_s: float) -> dict[str, Any]:
    """The forecast's quantiles by step. It counts from a Monday of some week; the plan takes it as beginning now, so
    it begins at the moment nearest to the plan's day that has the same place in the week."""
    if found is None or found.history.unit != "req/s":
        return {}
    ahead_s = (found.start_s - (dated_s - _EPOCH_MONDAY_S)) % WEEK_S
    start_s = dated_s + ahead_s - (WEEK_S if ahead_s > WEEK_S / 2.0 else 0.0)
    rows = np.stack([found.at(each) for each in FRACTIONS], axis=1)
    return {
        "forecast_start_s": start_s,
        "forecast_step_s": found.history.step_s,
        "forecast_rps": tuple(tuple(float(f"{each:.6g}") for each in row) for row in rows),
    }


def _pool(plan: PoolPlan) -> ExpectedPool:
    score, steady, given = plan.scorecard.at_plan, plan.steady_fleet, plan.reserves
    cold = plan.time_to_ready.level(Level.COLD)
    failures, repair_s = _failures(plan)
    rise = given.figures.get("reserve.rise_rps")
    warm = given.figures.get("reserve.warm_replicas")
    follows = warm is not None and number(warm) > 0
    band = band_of(plan.step_model)
    return ExpectedPool(
        name=plan.spec.name,
        replicas=steady.replicas + given.replicas,
        steady_replicas=steady.replicas,
        devices=plan.memory.runtime.sharding.devices,
        capacity_rps=plan.headroom.capacity_rps,
        service_time_s=score.service_time.value,
        goodput_rps=score.goodput.value,
        active_tokens=score.active_tokens.value,
        kv_tokens=float(plan.memory.kv_tokens),
        kv_peak_fraction=score.kv_peak_fraction,
        queue_requests=score.waiting.value,
        queue_age_s=score.queue_age.value,
        preemptions_per_s=score.preemptions.value,
        ready_s=cold.p50_s,
        ready_low_s=cold.quantile_s(0.1),
        ready_high_s=cold.p90_s,
        failures_per_year=failures,
        repair_s=repair_s,
        rise_rps_per_s=number(rise) / cold.p90_s if rise is not None and follows else 0.0,
        step_fast_ratio=band.fast_ratio,
        step_slow_ratio=band.slow_ratio,
    )


def _failures(plan: PoolPlan) -> tuple[float, float]:
    """Stops of one replica a year, by its devices and its node, and how long they last on average."""
    known = {each.name.removeprefix("reliability."): each for each in _reliability(plan)}
    devices = plan.memory.runtime.sharding.devices
    stops = [
        (share * number(known[f"{what}_failures_per_year"]), number(known[f"{what}_repair"]))
        for what, share in (("device", float(devices)), ("node", max(1.0, devices / 8.0)))
        if f"{what}_failures_per_year" in known
    ]
    total = sum(each for each, _ in stops)
    return total, sum(each * lasts for each, lasts in stops) / total if total else 0.0


def _reliability(plan: PoolPlan) -> tuple[Assumption, ...]:
    from ullage.evidence import assumptions_of

    return assumptions_of(plan.reserves.figures.values())


def _replica_usd_per_hour(plan: Plan, pools: tuple[ExpectedPool, ...]) -> float | None:
    """What a replica costs an hour: the lines of devices over all replicas and hours of the period."""
    lines = {each.name: number(each) for each in plan.figures if each.name.startswith("bill.") and each.unit == "USD"}
    devices = [
        value for name, value in lines.items() if name.startswith(tuple(f"bill.{line}." for line in _DEVICE_LINES))
    ]
    replicas = sum(each.replicas for each in pools)
    hours = next((number(each) for each in plan.assumptions if each.name == "cost.period"), HOURS_PER_MONTH)
    if not devices or not replicas or not math.isfinite(sum(devices)):
        return None
    return sum(devices) / (replicas * hours)


def _input(given: Assumption) -> ExpectedInput:
    return ExpectedInput(
        name=given.name,
        value=given.value,
        unit=given.unit,
        evidence=str(given.evidence),
        dated=given.source.date.isoformat(),
        low=given.low,
        high=given.high,
        max_age_days=None if given.max_age is None else given.max_age.days,
    )
