"""A kept plan against what production did: scorecard, error by cause, verdicts, scores, and what to change.

The order is that of the page: what was expected and what was observed, why they differ, which assumptions still hold,
how good the forecast and its stated risk were, and what the plan file should say from now on.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError
from ullage.reconcile.attribution import ErrorByCause, error_by_cause
from ullage.reconcile.evaluate import Evaluation, ServiceEvaluation
from ullage.reconcile.expectation import HOUR_S, Expectation, ExpectedPool
from ullage.reconcile.forecast_scores import (
    ALL_CLASSES,
    WHOLE,
    Cadence,
    ForecastScore,
    RiskScore,
    cadence,
    forecast_scores,
    risk_score,
    stated_risk,
)
from ullage.reconcile.inputs import DriftInputs
from ullage.reconcile.observation import Observation, ObservationNote, ObservedQuantity
from ullage.reconcile.observed import ObservedInput, observed_inputs
from ullage.reconcile.refit import StepRefit
from ullage.reconcile.service_levels import ShortfallHours, SloObserved, shortfall_hours, slos_observed


@dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """One line of the scorecard, planned beside observed; None where production does not say."""

    what: str
    unit: str
    planned_value: float | None
    observed_value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def change_fraction(self) -> float | None:
        if not self.planned_value or self.observed_value is None:
            return None
        return self.observed_value / self.planned_value - 1.0


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """Past any of these the answer is a refusal: the plan no longer describes the service."""

    replicas: float = 1.0
    wape_fraction: float = 0.3
    shortfall_hours: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StaleInput:
    """An assumption past its maximum age that production was not asked about."""

    name: str
    age_days: int
    max_age_days: int


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """Everything that was found. `past` says which tolerances were passed, in words; none is a plan that holds."""

    service: str
    plan: str
    planned_on: str
    start: str
    end: str
    source: str
    scorecard: tuple[ScoreLine, ...]
    causes: ErrorByCause | None
    ran_replicas: float | None
    inputs: tuple[ObservedInput, ...]
    drift: DriftInputs
    stale: tuple[StaleInput, ...]
    slos: tuple[SloObserved, ...]
    shortfall: ShortfallHours
    forecast: tuple[ForecastScore, ...]
    risk: RiskScore
    cadence: Cadence
    memory: MemoryObserved
    past: tuple[str, ...]
    notes: tuple[ObservationNote, ...]
    left_out: tuple[str, ...]
    refit: StepRefit | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryObserved:
    """Preemptions and out-of-memory kills, predicted and observed."""

    predicted_preemptions_per_s: float
    observed_preemptions_per_s: float | None
    oom_kills: int | None
    contradicts: str = ""


def reconcile(
    expected: Expectation,
    seen: Observation,
    evaluation: Evaluation | ServiceEvaluation | None,
    *,
    plan: str,
    seed: int,
    record: Iterable[tuple[float, bool]] = (),
    tolerances: Tolerances = Tolerances(),  # noqa: B008 - frozen
) -> Reconciliation:
    """Compare a plan with a period of production. `record` is what earlier reconciliations said of stated risks."""
    if seen.total(ObservedQuantity.ARRIVALS) is None:
        raise InputError(
            field="observation",
            value=seen.source,
            problem="has no count of requests, without which nothing can be compared",
            fix="Map one in --names, such as metrics: {arrivals: my_requests_total}.",
        )
    pool = expected.whole_pool
    inputs, rows = observed_inputs(expected, pool, seen, evaluation)
    causes = None if evaluation is None else error_by_cause(inputs, evaluation.needed)
    shortfall = shortfall_hours(expected, seen)
    scored = forecast_scores(expected, seen, seed=seed)
    happened = shortfall.violated_hours > 0.0 or shortfall.above_plan_hours > 0.0
    memory = _memory(expected, seen)
    return Reconciliation(
        service=expected.service,
        plan=plan,
        planned_on=expected.as_of,
        start=_day(seen.start_s),
        end=_day(seen.end_s),
        source=seen.source,
        scorecard=score_lines(expected, pool, seen, scored),
        causes=causes,
        ran_replicas=seen.level(ObservedQuantity.REPLICAS),
        inputs=rows,
        drift=inputs,
        stale=_stale(expected, seen),
        slos=slos_observed(expected, seen),
        shortfall=shortfall,
        forecast=scored,
        risk=risk_score(stated_risk(expected, seen), happened, record),
        cadence=cadence(expected, seen),
        memory=memory,
        past=_past(causes, scored, shortfall, memory, tolerances),
        notes=seen.notes,
        left_out=_left_out(expected, evaluation),
    )


def _left_out(expected: Expectation, evaluation: Evaluation | ServiceEvaluation | None) -> tuple[str, ...]:
    if evaluation is None:
        return ("error by cause: disaggregated pools are not re-evaluated",)
    if len(expected.pools) > 1:
        return (
            "lengths, cache hits and step times by pool: engines were asked together, so that pools have one ratio",
        )
    return ()


def score_lines(
    expected: Expectation, pool: ExpectedPool, seen: Observation, scored: tuple[ForecastScore, ...]
) -> tuple[ScoreLine, ...]:
    """The lines of the plan's own scorecard, in its order."""
    mean_rps = float(np.nanmean(seen.rate_rps(ObservedQuantity.ARRIVALS)))
    busiest = _busiest_hour_rps(seen)
    score = next((each for each in scored if each.class_name == ALL_CLASSES and each.week == WHOLE), None)
    is_unpaid = seen.paid_usd is None
    return (
        ScoreLine(
            what="arrival rate, busiest hour", unit="req/s", planned_value=expected.planning_rps, observed_value=busiest
        ),
        *_work_lines(pool, seen, mean_rps),
        *_room_lines(pool, seen),
        *_fleet_lines(expected, pool, seen, busiest),
        ScoreLine(
            what="cost per success",
            unit="USD",
            planned_value=expected.device_usd_per_success if is_unpaid else expected.usd_per_success,
            observed_value=_cost_per_success(expected, seen, mean_rps),
            note="devices alone, at the planned price: no bill was given" if is_unpaid else "",
        ),
        ScoreLine(
            what="forecast error",
            unit="fraction",
            planned_value=None,
            observed_value=None if score is None else score.wape_fraction,
            note="WAPE of the hours; a plan from a tested forecast states its own",
        ),
    )


_AT_PEAK = "planned at the planning rate, observed as a mean"


def _work_lines(pool: ExpectedPool, seen: Observation, mean_rps: float) -> tuple[ScoreLine, ...]:
    """What requests and replicas do."""
    replicas = seen.level(ObservedQuantity.REPLICAS)
    e2e, queue = seen.latency(ObservedQuantity.E2E), seen.latency(ObservedQuantity.QUEUE_TIME)
    goodput = None if replicas is None else _success_rps(seen, mean_rps) / replicas
    running_s = None
    if e2e is not None and e2e.mean_s is not None:
        running_s = e2e.mean_s - ((queue.mean_s or 0.0) if queue is not None else 0.0)
    return (
        ScoreLine(
            what="service time", unit="s", planned_value=pool.service_time_s, observed_value=running_s, note=_AT_PEAK
        ),
        ScoreLine(
            what="goodput per device",
            unit="req/s",
            planned_value=pool.goodput_rps / pool.devices,
            observed_value=None if goodput is None else goodput / pool.devices,
            note=_AT_PEAK,
        ),
        ScoreLine(
            what="goodput per replica",
            unit="req/s",
            planned_value=pool.goodput_rps,
            observed_value=goodput,
            note=_AT_PEAK,
        ),
    )


def _room_lines(pool: ExpectedPool, seen: Observation) -> tuple[ScoreLine, ...]:
    """Memory and queues."""
    kv_use, waiting = seen.level(ObservedQuantity.KV_USE), seen.level(ObservedQuantity.WAITING)
    replicas, peak = seen.level(ObservedQuantity.REPLICAS), seen.levels.get(ObservedQuantity.KV_PEAK)
    queue = seen.latency(ObservedQuantity.QUEUE_TIME)
    age = None if queue is None else queue.quantile_s(0.95)
    return (
        ScoreLine(
            what="active tokens",
            unit="tokens",
            planned_value=pool.active_tokens,
            observed_value=None if kv_use is None else kv_use * pool.kv_tokens,
            note="observed KV use times the planned KV cache",
        ),
        ScoreLine(
            what="memory headroom, least free KV",
            unit="fraction",
            planned_value=1.0 - pool.kv_peak_fraction,
            observed_value=None if peak is None or np.isnan(peak).all() else 1.0 - float(np.nanmax(peak)),
        ),
        ScoreLine(
            what="queue depth per replica",
            unit="requests",
            planned_value=pool.queue_requests,
            observed_value=None if waiting is None or replicas is None else waiting / replicas,
        ),
        ScoreLine(
            what="queue age p95",
            unit="s",
            planned_value=pool.queue_age_s,
            observed_value=None if queue is None else queue.mean_s,
            low=None if age is None else age.low,
            high=None if age is None or math.isinf(age.high) else age.high,
            note="observed: the mean, and the buckets that hold the p95",
        ),
    )


def _fleet_lines(
    expected: Expectation, pool: ExpectedPool, seen: Observation, busiest_rps: float
) -> tuple[ScoreLine, ...]:
    """How full the fleet is, how fast it grows, and what of it stands idle in the busiest hour."""
    replicas, starts = seen.level(ObservedQuantity.REPLICAS), seen.levels.get(ObservedQuantity.TIME_TO_READY)
    planned = sum(each.replicas for each in expected.pools)
    per_replica = pool.capacity_rps / pool.steady_replicas
    need = busiest_rps / per_replica if math.isfinite(busiest_rps) else None
    return (
        ScoreLine(
            what="utilisation, busiest hour",
            unit="fraction",
            planned_value=expected.planning_rps / (per_replica * planned),
            observed_value=None if replicas is None or need is None else need / replicas,
        ),
        ScoreLine(
            what="scale-up time",
            unit="s",
            planned_value=pool.ready_s,
            observed_value=None if starts is None or np.isnan(starts).all() else float(np.nanmedian(starts)),
        ),
        ScoreLine(
            what="idle reserve in the busiest hour",
            unit="replicas",
            planned_value=float(planned - sum(each.steady_replicas for each in expected.pools)),
            observed_value=None if replicas is None or need is None else max(0.0, replicas - need),
        ),
    )


def _busiest_hour_rps(seen: Observation) -> float:
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    group = max(1, round(HOUR_S / seen.step_s))
    if rate.size < group:
        return float(np.nanmean(rate))
    whole = rate[: rate.size // group * group].reshape(-1, group)
    # An hour of which less than half was seen says nothing about a peak.
    full = np.isfinite(whole).sum(axis=1) * 2 >= group
    return float(np.nanmax(np.nanmean(whole[full], axis=1))) if full.any() else math.nan


def _success_rps(seen: Observation, mean_rps: float) -> float:
    done = seen.total(ObservedQuantity.SUCCESSES)
    if done is not None:
        rate = seen.rate_rps(ObservedQuantity.SUCCESSES)
        return float(np.nanmean(rate))
    failed = seen.total(ObservedQuantity.FAILURES)
    arrived = seen.total(ObservedQuantity.ARRIVALS)
    return mean_rps if failed is None or not arrived else mean_rps * (1.0 - failed / arrived)


def _cost_per_success(expected: Expectation, seen: Observation, mean_rps: float) -> float | None:
    """What was paid over what succeeded; without a bill the planned price of the replica-hours that ran."""
    hours = seen.steps * seen.step_s / HOUR_S
    successes = _success_rps(seen, mean_rps) * hours * HOUR_S
    if successes <= 0.0:
        return None
    if seen.paid_usd is not None:
        return seen.paid_usd / successes
    replicas = seen.level(ObservedQuantity.REPLICAS)
    if replicas is None or expected.replica_usd_per_hour is None:
        return None
    return replicas * hours * expected.replica_usd_per_hour / successes


def _memory(expected: Expectation, seen: Observation) -> MemoryObserved:
    """What the plan says of memory beside what engines and the kernel did; an out-of-memory kill contradicts it."""
    pool = expected.whole_pool
    preempted, killed = seen.total(ObservedQuantity.PREEMPTIONS), seen.total(ObservedQuantity.OOM_KILLS)
    replicas = seen.level(ObservedQuantity.REPLICAS) or float(pool.replicas)
    span_s = seen.steps * seen.step_s
    kills = None if killed is None else round(killed)
    said = f"{kills} out-of-memory kills, although the memory budget fits" if kills else ""
    return MemoryObserved(
        predicted_preemptions_per_s=pool.preemptions_per_s,
        observed_preemptions_per_s=None if preempted is None else preempted / replicas / span_s,
        oom_kills=kills,
        contradicts=said,
    )


def _stale(expected: Expectation, seen: Observation) -> tuple[StaleInput, ...]:
    today = datetime.datetime.fromtimestamp(seen.end_s, tz=datetime.UTC).date()
    found = []
    for each in expected.inputs:
        age = (today - datetime.date.fromisoformat(each.dated)).days
        if each.max_age_days is not None and age > each.max_age_days:
            found.append(StaleInput(name=each.name, age_days=age, max_age_days=each.max_age_days))
    return tuple(found)


def _past(
    causes: ErrorByCause | None,
    scored: tuple[ForecastScore, ...],
    shortfall: ShortfallHours,
    memory: MemoryObserved,
    tolerances: Tolerances,
) -> tuple[str, ...]:
    found = []
    if causes is not None and abs(causes.whole.replicas) > tolerances.replicas:
        found.append(f"the service needs {causes.whole.replicas:+.1f} replicas against the plan")
    whole = next((each for each in scored if each.class_name == ALL_CLASSES and each.week == WHOLE), None)
    if whole is not None and whole.wape_fraction > tolerances.wape_fraction:
        found.append(f"the forecast was off by {whole.wape_fraction:.0%} of demand")
    if shortfall.violated_hours > tolerances.shortfall_hours:
        found.append(f"{shortfall.violated_hours:.3g} hours certainly violated an SLO")
    if memory.contradicts:
        found.append(memory.contradicts)
    return tuple(found)


def kept_risks(contents: Iterable[Mapping[str, object]]) -> list[tuple[float, bool]]:
    """What earlier reconciliations, as they were kept, said of stated risks and of what was counted."""
    found = []
    for each in contents:
        risk = each.get("risk")
        if isinstance(risk, Mapping) and isinstance(risk.get("stated_fraction"), int | float):
            found.append((float(risk["stated_fraction"]), bool(risk.get("happened"))))
    return found


def _day(at_s: float) -> str:
    return datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
