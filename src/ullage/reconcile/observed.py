"""From what production counted to the inputs of the plan: a ratio for each, its verdict, and what is left unknown.

Shares of classes come first, then lengths and cache hits given those shares, then step times given all of them: the
planned replicas are simulated at the observed load, and steps are made as much longer as the time between tokens is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.reconcile.evaluate import Evaluation, PlayedMeans, ServiceEvaluation
from ullage.reconcile.expectation import FRACTIONS, Expectation, ExpectedPool
from ullage.reconcile.inputs import DriftCause, DriftInputs, Floats, InputVerdict, ObservedRatio, ratio_by_day
from ullage.reconcile.observation import Observation, ObservedQuantity

_MIDDLE = FRACTIONS.index(0.5)
_HOURS_PER_YEAR = 8766.0
# Restarts that the planned failures bring with less than this chance are not theirs.
_RARE = 0.005
# Hours whose load lies this close to the load that most tokens were written at are alike enough to be one load.
_ALIKE_FRACTION = 0.2
_ROUNDS = 3
_LEAST_RATE_H = 24.0
# Fewer failures beyond the planned ones than one in a hundred move no plan.
_FAILED_FRACTION = 0.01


@dataclass(frozen=True, kw_only=True)
class ObservedInput:
    """One assumption of the plan beside what production showed of it, in the assumption's own unit."""

    cause: DriftCause
    name: str
    unit: str
    stated_value: float
    observed_value: float | None
    low: float | None
    high: float | None
    verdict: InputVerdict
    why: str = ""


def observed_inputs(
    expected: Expectation, pool: ExpectedPool, seen: Observation, evaluation: Evaluation | ServiceEvaluation | None
) -> tuple[DriftInputs, tuple[ObservedInput, ...]]:
    """The inputs that drifted, and every one that was looked at. Without an evaluation nothing is simulated."""
    rows: list[ObservedInput] = []
    inputs = _traffic(expected, seen, rows)
    inputs = _mix(expected, seen, inputs, rows)
    rate_rps, replicas = _usual_load(pool, seen)
    if evaluation is not None and rate_rps is not None:
        played = evaluation.played(inputs, rate_rps=rate_rps, replicas=replicas)
        inputs = _lengths(played, seen, inputs, rows)
        inputs = _cache(played, seen, inputs, rows)
        inputs = _steps(evaluation, seen, inputs, rows, rate_rps=rate_rps, replicas=replicas)
    else:
        rows += [
            _unknown(cause, name, unit, "arrivals were not observed, or the plan was not evaluated")
            for cause, name, unit in (
                (DriftCause.LENGTHS, "mean prompt", "tokens"),
                (DriftCause.LENGTHS, "mean output", "tokens"),
                (DriftCause.CACHE, "cached share of prompts", "fraction"),
                (DriftCause.STEPS, "step times over the plan's", "ratio"),
            )
        ]
    inputs = _failures(expected, pool, seen, inputs, rows)
    inputs = _ready(pool, seen, inputs, rows)
    inputs = _prices(expected, pool, seen, inputs, rows)
    return inputs, tuple(rows)


def _traffic(expected: Expectation, seen: Observation, rows: list[ObservedInput]) -> DriftInputs:
    middle = expected.quantiles_rps(seen.at_s)[:, _MIDDLE]
    found = ratio_by_day(seen.rate_rps(ObservedQuantity.ARRIVALS), middle, seen.at_s)
    mean_rps = float(np.mean(middle))
    rows.append(_row(DriftCause.TRAFFIC, "arrival rate", "req/s", mean_rps, found))
    return DriftInputs(traffic_ratio=_drift(found))


def _mix(expected: Expectation, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]) -> DriftInputs:
    """Shares of classes against the expected ones at the same hours; unknown where no label tells them apart."""
    names = [each.name for each in expected.classes]
    if len(names) == 1:
        return inputs
    known = [each for each in names if each in seen.arrivals_by_class]
    if len(known) < len(names):
        why = "no metric label separates classes; name it in --names"
        rows.append(_unknown(DriftCause.MIX, "shares of classes", "fraction", why))
        return inputs
    all_seen: Floats = np.sum([seen.arrivals_by_class[each] for each in names], axis=0)
    total = expected.quantiles_rps(seen.at_s)[:, _MIDDLE]
    ratios: dict[str, float] = {}
    for each in expected.classes:
        rate = each.quantiles_rps(seen.at_s, dated_s=expected.dated_s)[:, _MIDDLE]
        share = float(rate.sum() / total.sum())
        found = ratio_by_day(seen.arrivals_by_class[each.name], all_seen * share, seen.at_s)
        rows.append(_row(DriftCause.MIX, f"share of {each.name}", "fraction", share, found))
        ratios[each.name] = 1.0 if found is None else found.value
    drifted = any(row.verdict is InputVerdict.DRIFTED for row in rows if row.cause is DriftCause.MIX)
    return replace(inputs, class_ratios=ratios) if drifted else inputs


def _usual_load(pool: ExpectedPool, seen: Observation) -> tuple[float | None, int]:
    """The rate at which most requests came, of hours that are alike, and the replicas that served it."""
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    if np.isnan(rate).all():
        return None, pool.replicas
    replicas = seen.level(ObservedQuantity.REPLICAS) or float(pool.replicas)
    alike = usual_steps(seen)
    return float(np.nanmean(rate[alike])), max(1, round(replicas))


def usual_steps(seen: Observation) -> NDArray[np.bool_]:
    """Which steps (as a mask) have about the load that a typical request met."""
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    known = np.nan_to_num(rate)
    typical = float((known**2).sum() / max(known.sum(), 1e-12))
    found: NDArray[np.bool_] = np.abs(rate - typical) <= _ALIKE_FRACTION * typical
    return found if bool(found.any()) else ~np.isnan(rate)


def _lengths(played: PlayedMeans, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]) -> DriftInputs:
    arrivals = seen.counted.get(ObservedQuantity.ARRIVALS)
    found = {}
    for name, quantity, planned in (
        ("prompt", ObservedQuantity.PROMPT_TOKENS, played.prompt_tokens),
        ("output", ObservedQuantity.OUTPUT_TOKENS, played.output_tokens),
    ):
        tokens = seen.counted.get(quantity)
        ratio = None if tokens is None or arrivals is None else ratio_by_day(tokens, arrivals * planned, seen.at_s)
        rows.append(_row(DriftCause.LENGTHS, f"mean {name}", "tokens", planned, ratio))
        found[name] = _drift(ratio)
    return replace(inputs, prompt_ratio=found["prompt"], output_ratio=found["output"])


def _cache(played: PlayedMeans, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]) -> DriftInputs:
    hits = seen.counted.get(ObservedQuantity.CACHED_TOKENS)
    asked = seen.counted.get(ObservedQuantity.CACHE_QUERIES, seen.counted.get(ObservedQuantity.PROMPT_TOKENS))
    planned = played.cached_fraction
    if hits is None or asked is None or planned <= 0.0:
        why = "the plan expects no hits" if hits is not None else "cached tokens were not observed"
        rows.append(_unknown(DriftCause.CACHE, "cached share of prompts", "fraction", why, stated=planned))
        return inputs
    # Longer prompts with the same cached share have the same ratio, so that lengths do not enter.
    found = ratio_by_day(hits, asked * planned, seen.at_s)
    rows.append(_row(DriftCause.CACHE, "cached share of prompts", "fraction", planned, found))
    return replace(inputs, cached_ratio=_drift(found))


def _steps(
    evaluation: Evaluation | ServiceEvaluation,
    seen: Observation,
    inputs: DriftInputs,
    rows: list[ObservedInput],
    *,
    rate_rps: float,
    replicas: int,
) -> DriftInputs:
    """Steps as much longer as it takes for simulated tokens to come as slowly as those that were observed."""
    alike = usual_steps(seen)
    quantity = ObservedQuantity.ITL if seen.latency(ObservedQuantity.ITL) is not None else ObservedQuantity.TPOT
    parts = seen.latencies.get(quantity, ())
    sums, counts = (
        np.array([math.nan if each is None else getattr(each, name) for each in parts]) for name in ("sum_s", "count")
    )
    name = "step times over the plan's"
    if not parts or np.isnan(sums[alike]).all():
        rows.append(_unknown(DriftCause.STEPS, name, "ratio", "the time between tokens was not observed", stated=1.0))
        return inputs
    ratio, whole = 1.0, ObservedRatio(value=1.0, low=1.0, high=1.0, days=0)
    for _ in range(_ROUNDS):
        played = evaluation.played(replace(inputs, step_ratio=ratio), rate_rps=rate_rps, replicas=replicas)
        predicted_s = played.itl_s if quantity is ObservedQuantity.ITL else played.tpot_s
        found = ratio_by_day(
            np.where(alike, sums, math.nan), np.where(alike, counts, math.nan) * predicted_s, seen.at_s
        )
        if found is None:
            rows.append(
                _unknown(DriftCause.STEPS, name, "ratio", "the time between tokens was not observed", stated=1.0)
            )
            return inputs
        whole = ObservedRatio(
            value=ratio * found.value, low=ratio * found.low, high=ratio * found.high, days=found.days
        )
        ratio = whole.value
    rows.append(_row(DriftCause.STEPS, name, "ratio", 1.0, whole))
    return replace(inputs, step_ratio=_drift(whole))


def _failures(
    expected: Expectation, pool: ExpectedPool, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]
) -> DriftInputs:
    inputs = _restarts(pool, seen, inputs, rows)
    total_rps = sum(each.mean_rps for each in expected.classes)
    planned = sum(each.mean_rps * each.failed_fraction for each in expected.classes) / total_rps
    failed, arrivals = seen.counted.get(ObservedQuantity.FAILURES), seen.counted.get(ObservedQuantity.ARRIVALS)
    if failed is None or arrivals is None:
        rows.append(_unknown(DriftCause.FAILURES, "failed requests", "fraction", "were not observed", stated=planned))
        return inputs
    found = ratio_by_day(failed, arrivals, seen.at_s)
    if found is None:
        return inputs
    beyond = found.low > planned and found.value - planned > _FAILED_FRACTION
    verdict = InputVerdict.DRIFTED if beyond else InputVerdict.HOLDS
    rows.append(
        ObservedInput(
            cause=DriftCause.FAILURES,
            name="failed requests",
            unit="fraction",
            stated_value=planned,
            observed_value=found.value,
            low=max(0.0, found.low),
            high=found.high,
            verdict=verdict,
        )
    )
    return replace(inputs, failed_fraction=found.value) if verdict is InputVerdict.DRIFTED else inputs


def _restarts(pool: ExpectedPool, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]) -> DriftInputs:
    """Restarts of replicas against the planned failures, as rare events are judged: by their number.

    A rate is over a day at least: one stop in the minutes that somebody looked is no rate to plan for.
    """
    count, replicas = seen.total(ObservedQuantity.RESTARTS), seen.level(ObservedQuantity.REPLICAS)
    name = "stops of a replica"
    if count is None or replicas is None:
        why = "restarts or replicas were not observed"
        rows.append(_unknown(DriftCause.FAILURES, name, "1/year", why, stated=pool.failures_per_year))
        return inputs
    years = replicas * seen.steps * seen.step_s / 3600.0 / _HOURS_PER_YEAR
    whole = round(count)
    chance = _at_least(whole, pool.failures_per_year * years)
    years = max(years, replicas * _LEAST_RATE_H / _HOURS_PER_YEAR)
    rate, root = whole / years, math.sqrt(whole)
    drifted = chance < _RARE
    rows.append(
        ObservedInput(
            cause=DriftCause.FAILURES,
            name=name,
            unit="1/year",
            stated_value=pool.failures_per_year,
            observed_value=rate,
            low=max(0.0, whole - 2.0 * root) / years,
            high=(whole + 2.0 * root + 3.0) / years,
            verdict=InputVerdict.DRIFTED if drifted else InputVerdict.HOLDS,
        )
    )
    return replace(inputs, more_failures_per_year=max(0.0, rate - pool.failures_per_year)) if drifted else inputs


def _at_least(count: int, mean: float) -> float:
    """The chance of so many or more, where so many are expected."""
    term, below = math.exp(-mean), 0.0
    for each in range(count):
        below += term
        term *= mean / (each + 1)
    return max(0.0, 1.0 - below)


def _ready(pool: ExpectedPool, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]) -> DriftInputs:
    """The median of the starts that were seen, against the planned spread: few starts say little, and say so."""
    found = seen.levels.get(ObservedQuantity.TIME_TO_READY)
    starts = np.array([]) if found is None else found[np.isfinite(found)]
    if not starts.size:
        rows.append(_unknown(DriftCause.READY, "time to ready", "s", "no start was observed", stated=pool.ready_s))
        return inputs
    middle = float(np.median(starts))
    spread = math.log(pool.ready_high_s / pool.ready_low_s) / 2.56
    # The median of n draws from the planned spread: its error is 1.25 sigma / sqrt(n).
    reach = 2.0 * 1.25 * spread / math.sqrt(starts.size)
    ratio = ObservedRatio(
        value=middle / pool.ready_s,
        low=middle / pool.ready_s * math.exp(-reach),
        high=middle / pool.ready_s * math.exp(reach),
        days=int(starts.size),
    )
    rows.append(_row(DriftCause.READY, "time to ready", "s", pool.ready_s, ratio))
    return replace(inputs, ready_ratio=_drift(ratio))


def _prices(
    expected: Expectation, pool: ExpectedPool, seen: Observation, inputs: DriftInputs, rows: list[ObservedInput]
) -> DriftInputs:
    """What a replica-hour was paid with: the bill over the hours that ran, or the exporter's price of a device-hour."""
    planned, name = expected.replica_usd_per_hour, "price of a replica-hour"
    if planned is None:
        rows.append(_unknown(DriftCause.PRICES, name, "USD/h", "the plan has no prices"))
        return inputs
    replicas, hour = seen.level(ObservedQuantity.REPLICAS), seen.level(ObservedQuantity.DEVICE_HOUR_USD)
    hours = seen.steps * seen.step_s / 3600.0
    paid = None
    if seen.paid_usd is not None and replicas:
        paid = seen.paid_usd / (replicas * hours)
    elif hour is not None:
        paid = hour * pool.devices
    if paid is None:
        rows.append(_unknown(DriftCause.PRICES, name, "USD/h", "no bill and no price were given; give --paid", planned))
        return inputs
    # A price is read, not sampled.
    ratio = ObservedRatio(value=paid / planned, low=paid / planned, high=paid / planned, days=1)
    rows.append(_row(DriftCause.PRICES, name, "USD/h", planned, ratio))
    return replace(inputs, price_ratio=_drift(ratio))


def _drift(found: ObservedRatio | None) -> float:
    """The ratio of an input that drifted; 1 for one that holds or is unknown."""
    return 1.0 if found is None or found.verdict is not InputVerdict.DRIFTED else found.value


def _row(cause: DriftCause, name: str, unit: str, stated: float, found: ObservedRatio | None) -> ObservedInput:
    if found is None:
        return _unknown(cause, name, unit, "was not observed", stated)
    return ObservedInput(
        cause=cause,
        name=name,
        unit=unit,
        stated_value=stated,
        observed_value=stated * found.value,
        low=stated * found.low,
        high=stated * found.high,
        verdict=found.verdict,
    )


def _unknown(cause: DriftCause, name: str, unit: str, why: str, stated: float = math.nan) -> ObservedInput:
    return ObservedInput(
        cause=cause,
        name=name,
        unit=unit,
        stated_value=stated,
        observed_value=None,
        low=None,
        high=None,
        verdict=InputVerdict.UNKNOWN,
        why=why,
    )
