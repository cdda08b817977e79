"""Step times fitted anew to what production showed: histograms of latencies at several loads of a replica.

Hours of about the same load are one measurement each. Their requests are drawn from the plan's mix with the observed
lengths and cache hits, simulated on one replica, and the five factors of a calibration (service/calibration) are found
that make its mean TTFT and its mean time between tokens those that the engines counted: means of a histogram are exact,
whatever its buckets. What is not fitted is checked: percentiles against the buckets that hold them, and Little's law
between arrivals, time in the system, and requests that run and wait.

The fit begins at the plan's own step times, so that what load tests found of them is kept where production is silent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.evidence import Source
from ullage.reconcile.buckets import BucketCounts, merged_buckets
from ullage.reconcile.evaluate import Evaluation
from ullage.reconcile.inputs import DriftInputs
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.service.calibration.agreement import Agreement
from ullage.service.calibration.calibration import Calibration, Measurement, Target, calibrate
from ullage.service.calibration.fitted import FittedTests
from ullage.service.calibration.prediction import fit_band
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, Replayed, factors_of, replay
from ullage.service.calibration.tested_range import range_tested
from ullage.service.stage import calibrated_step
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.scaled import Factors, ScaledStep, refitted
from ullage.service.steps.step_model import StepModel

# Loads that are looked for, as shares of all requests that came at a lower one.
_AT = (0.1, 0.5, 0.9)
# Hours whose load is this close to one of them belong to it, and loads this close together are one.
_ALIKE_FRACTION = 0.15
# Fewer requests say too little of a mean.
_LEAST_REQUESTS = 200.0
_DRAWN_REQUESTS = 800
_MOST_REPLICAS = 8
_CHECKED = (0.5, 0.9)
_CHECKED_LATENCIES = (
    (ObservedQuantity.TTFT, "engine_ttft"),
    (ObservedQuantity.TPOT, "tpot"),
    (ObservedQuantity.E2E, "e2e"),
)
# Counts of arrivals, time and requests under way that differ by more are not of the same requests.
_LITTLE_FRACTION = 0.15


@dataclass(frozen=True, kw_only=True)
class FitReplica:
    """The replica whose steps are fitted: its estimate, what the plan works with, and the limits of its scheduler."""

    estimate: StepModel
    step: StepModel
    limits: EngineLimits
    source: Source


@dataclass(frozen=True, kw_only=True)
class ProductionLoad:
    """Hours of about one load of a replica: how many, how many requests, and what is fitted to them.

    `held_count` of `checked_count` percentiles, by the fit, lie in the buckets that the engines counted.
    """

    rate_rps: float
    hours: float
    requests: float
    fitted: tuple[str, ...]
    held_count: int
    checked_count: int


@dataclass(frozen=True, kw_only=True)
class StepRefit:
    """A calibration from production. `slow_ratio` is how slow steps of the highest of these loads may be, over what was
    fitted, one time in ten; beyond it the calibration's own band is wider.

    `decode_ratio` and `prefill_ratio` are steps of a typical load and prompt over those that the plan works with.
    """

    loads: tuple[ProductionLoad, ...]
    decode_ratio: float
    prefill_ratio: float
    slow_ratio: float
    disagreements: tuple[str, ...]


def refit_steps(
    replica: FitReplica, evaluation: Evaluation, seen: Observation, inputs: DriftInputs, *, seed: int
) -> tuple[StepRefit, FittedTests] | None:
    """Fit the plan's steps to production; None without a load that has its latencies and enough requests."""
    masks = list(_loads(seen))
    found = [_measured(evaluation, seen, inputs, rate, mask, replica.limits, seed) for rate, mask in masks]
    used = [each for each in found if each is not None]
    if not used:
        return None
    fit = calibrate(replica.step, replica.estimate.floor, used)
    step_fitted = refitted(replica.step, fit.factors)
    whole = replace(fit, factors=_composed(replica.step, fit.factors))
    loads = tuple(
        _load(seen, rate, mask, each, replay(step_fitted, each.trial))
        for (rate, mask), each in zip(masks, found, strict=True)
        if each is not None
    )
    said = tuple(_little(seen, masks))
    return _refit(replica, whole, used, loads, step_fitted, said)


def _refit(
    replica: FitReplica,
    fit: Calibration,
    used: Sequence[Measurement],
    loads: tuple[ProductionLoad, ...],
    fitted_now: ScaledStep,
    said: tuple[str, ...],
) -> tuple[StepRefit, FittedTests]:
    estimate, limits = replica.estimate, replica.limits
    times = ScaledStep(times=estimate, factors=fit.factors)
    tested = range_tested(replace(estimate, times=times, request_overhead_s=times.request_overhead_s), used)
    band = fit_band(times, fit.spread, tested, most_sequences=limits.max_sequences, most_kv_tokens=limits.kv_tokens)
    step = calibrated_step(
        estimate,
        fit.factors,
        replace(replica.source, what=f"fit to {len(used)} loads of production"),
        band=band,
        tested=tested,
        spread=fit.spread,
    )
    sequences, kv_tokens = np.array([float(tested.sequences)]), np.array([float(tested.kv_tokens)])
    prompts = np.array([float(tested.prefill_tokens)])
    before = replica.step
    fitted = FittedTests(
        calibration=fit,
        step=step,
        used=tuple(used),
        left_out=(),
        tested=tested,
        agreement=Agreement(results=(), disagreements=()),
        anomalies=tuple(EvidenceAnomaly(name="production", sentence=f"{each}.") for each in said),
        breaches=(),
    )
    refit = StepRefit(
        loads=loads,
        decode_ratio=float((fitted_now.decode_s(sequences, kv_tokens) / before.decode_s(sequences, kv_tokens))[0]),
        prefill_ratio=float((fitted_now.prefill_s(prompts) / before.prefill_s(prompts))[0]),
        slow_ratio=fit.spread.ratio("tpot", times.decode_shares(float(tested.sequences), float(tested.kv_tokens))),
        disagreements=said,
    )
    return refit, fitted


def _composed(step: StepModel, more: Factors) -> Factors:
    """Factors on the estimate, where the plan's steps are the estimate times factors already."""
    own = factors_of(step)
    return more if own is None else more.on_top_of(own)


def _loads(seen: Observation) -> Iterator[tuple[float, NDArray[np.bool_]]]:
    """Loads of a replica at which many requests came, each with the hours that had about that load."""
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    replicas = seen.levels.get(ObservedQuantity.REPLICAS)
    if replicas is None or np.isnan(replicas).all():
        return
    each_rps = rate / np.where(replicas > 0.0, replicas, np.nan)
    known = np.flatnonzero(np.isfinite(each_rps) & (each_rps > 0.0))
    if not known.size:
        return
    order = known[np.argsort(each_rps[known])]
    below = np.cumsum(rate[order]) / rate[order].sum()
    taken: list[float] = []
    for share in _AT:
        middle = float(each_rps[order[min(int(np.searchsorted(below, share)), order.size - 1)]])
        if any(abs(math.log(middle / other)) < 2.0 * _ALIKE_FRACTION for other in taken):
            continue
        taken.append(middle)
        yield middle, np.abs(each_rps / middle - 1.0) <= _ALIKE_FRACTION


def _buckets(seen: Observation, quantity: ObservedQuantity, mask: NDArray[np.bool_]) -> BucketCounts | None:
    parts = seen.latencies.get(quantity, ())
    return merged_buckets(each for each, alike in zip(parts, mask, strict=False) if alike and each is not None)


def _measured(
    evaluation: Evaluation,
    seen: Observation,
    inputs: DriftInputs,
    rate_rps: float,
    mask: NDArray[np.bool_],
    limits: EngineLimits,
    seed: int,
) -> Measurement | None:
    requests = _requests(seen, mask)
    targets = tuple(_targets(seen, mask))
    if requests < _LEAST_REQUESTS or not targets:
        return None
    # Within so many hours the mean load is known better than by the middle of its range.
    replicas = float(np.nanmean(seen.levels[ObservedQuantity.REPLICAS][mask]))
    mean_rps = float(np.nanmean(seen.rate_rps(ObservedQuantity.ARRIVALS)[mask])) / replicas
    share = max(1, min(_MOST_REPLICAS, round(replicas)))
    trial = evaluation.trial(replace(inputs, step_ratio=1.0))
    load = trial.load(mean_rps * share, seed, span_s=_DRAWN_REQUESTS / mean_rps)
    drawn = load.requests
    arrival_s = load.arrival_s if load.arrival_s is not None else np.asarray(load.arrival_ps) * 1e-12
    cached = drawn.cached_tokens
    return Measurement(
        name=f"production at {rate_rps:.3g} req/s per replica",
        trial=LoadTestReplay(
            prompt_tokens=np.asarray(drawn.prompt_tokens, np.int32)[::share],
            output_tokens=np.asarray(drawn.output_tokens, np.int32)[::share],
            cached_tokens=None if cached is None else np.asarray(cached, np.int32)[::share],
            arrival_s=np.asarray(arrival_s, np.float64)[::share],
            limits=limits,
        ),
        targets=targets,
    )


def _requests(seen: Observation, mask: NDArray[np.bool_]) -> float:
    counted = seen.counted.get(ObservedQuantity.ARRIVALS)
    return 0.0 if counted is None else float(np.nansum(counted[mask]))


def _targets(seen: Observation, mask: NDArray[np.bool_]) -> Iterator[Target]:
    """Mean TTFT, and the mean time between tokens: counted, or what is left of the time in the system."""
    first = _buckets(seen, ObservedQuantity.TTFT, mask)
    if first is not None and first.mean_s:
        yield Target(latency="engine_ttft", statistic="mean", value=first.mean_s)
    for quantity, latency in ((ObservedQuantity.TPOT, "tpot"), (ObservedQuantity.ITL, "itl")):
        found = _buckets(seen, quantity, mask)
        if found is not None and found.mean_s:
            yield Target(latency=latency, statistic="mean", value=found.mean_s)
            return
    held_s, tokens = _held_s(seen, mask), _output_tokens(seen, mask)
    if held_s is not None and tokens is not None and tokens > 1.0 and first is not None and first.mean_s is not None:
        rest_s = (held_s - first.mean_s) / (tokens - 1.0)
        if rest_s > 0.0:
            yield Target(latency="itl", statistic="mean", value=rest_s)


def _held_s(seen: Observation, mask: NDArray[np.bool_]) -> float | None:
    """How long a request is in the system: counted, or by Little's law from those that run and wait."""
    counted = _buckets(seen, ObservedQuantity.E2E, mask)
    if counted is not None:
        return counted.mean_s
    return _little_s(seen, mask)


def _little_s(seen: Observation, mask: NDArray[np.bool_]) -> float | None:
    under_way = [seen.levels.get(each) for each in (ObservedQuantity.RUNNING, ObservedQuantity.WAITING)]
    known = [each[mask] for each in under_way if each is not None]
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)[mask]
    if len(known) < 2 or np.isnan(known[0]).all() or np.isnan(rate).all():
        return None
    return float(np.nanmean(known[0]) + np.nan_to_num(np.nanmean(known[1]))) / max(float(np.nanmean(rate)), 1e-12)


def _output_tokens(seen: Observation, mask: NDArray[np.bool_]) -> float | None:
    tokens = seen.counted.get(ObservedQuantity.OUTPUT_TOKENS)
    requests = _requests(seen, mask)
    return None if tokens is None or not requests else float(np.nansum(tokens[mask])) / requests


def _little(seen: Observation, masks: Sequence[tuple[float, NDArray[np.bool_]]]) -> Iterator[str]:
    """Where arrivals times the counted time in the system are not the requests under way, a count is wrong."""
    for rate, mask in masks:
        counted, little_s = _buckets(seen, ObservedQuantity.E2E, mask), _little_s(seen, mask)
        if counted is None or not counted.mean_s or not little_s:
            continue
        if abs(math.log(little_s / counted.mean_s)) > math.log1p(_LITTLE_FRACTION):
            yield (
                f"at {rate:.3g} req/s per replica requests take {counted.mean_s:.3g} s by their histogram and "
                f"{little_s:.3g} s by Little's law from those that run and wait: one of them misses requests"
            )


def _load(
    seen: Observation, rate: float, mask: NDArray[np.bool_], measured: Measurement, told: Replayed
) -> ProductionLoad:
    held = checked = 0
    for quantity, latency in _CHECKED_LATENCIES:
        buckets = _buckets(seen, quantity, mask)
        for fraction in _CHECKED if buckets is not None else ():
            bounds = buckets.quantile_s(fraction) if buckets is not None else None
            if bounds is not None:
                checked += 1
                held += bounds.holds(told.statistic(latency, f"p{100 * fraction:g}"))
    return ProductionLoad(
        rate_rps=rate,
        hours=float(mask.sum()) * seen.step_s / 3600.0,
        requests=_requests(seen, mask),
        fitted=tuple(f"{each.latency} {each.statistic}" for each in measured.targets),
        held_count=held,
        checked_count=checked,
    )
