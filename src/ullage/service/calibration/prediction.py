"""What a step model predicts for a load test, and the band around it: for TPOT, for TTFT, and for the share answered.

A model that was fitted to load tests has a band for every test by itself: how the test's latencies depend on each
factor, how well the factors are known, how well the tested points fit, and how far this test lies beyond them. An
estimate has the band of what it is new to, one for TPOT and one for TTFT, and of two pools at least what published
tests of two pools err by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.service.calibration.calibration import Measurement, Target, sensitivity, values_at
from ullage.service.calibration.replay import LoadTestReplay, Replayed, replay
from ullage.service.calibration.slowed import SlowedTimes
from ullage.service.calibration.tested_range import load_of
from ullage.service.steps.coefficients import OTHER_LOAD, StepErrorBand
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import PARAMETERS, ScaledStep
from ullage.service.steps.step_model import MeasuredRange, StepModel

# Where factors move a latency further than this, a queue is about to form, and a derivative holds for none of the way:
# the band then ends where the simulation does with all factors at their ends.
_STEEP_LOG = math.log(2.0)
# Where 8 of 10 published disaggregated tests lie whose family no fit had seen, as multiples of what was estimated. A
# first token waits for both sides, and a prefill side that is nearly full makes several times of a tenth of its
# capacity. From the half of the rows that choices are made on (bench/disaggregated.py).
_APART_BAND = {"tpot": (0.86, 1.53), "ttft": (0.31, 2.8)}
# Latencies that are tokens first of all; the others are a prompt first of all.
_BY_TOKEN = ("tpot", "e2e")


@dataclass(frozen=True, kw_only=True)
class PredictedLatency:
    """One latency of a simulated test with the ends of its band, and what was measured, where it was."""

    latency: str
    statistic: str
    predicted_s: float
    low_s: float
    high_s: float
    measured_s: float | None = None

    @property
    def is_inside(self) -> bool | None:
        """Whether the measurement lies in the band; None where nothing was measured."""
        return None if self.measured_s is None else self.low_s <= self.measured_s <= self.high_s


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One test, simulated as it was run, and what was measured, where it was.

    `doublings` is how far it lies beyond what was tested.
    """

    name: str
    latencies: tuple[PredictedLatency, ...]
    output_tokens_per_s: float
    success_fraction: float
    success_low_fraction: float
    success_high_fraction: float
    doublings: float
    measured_output_tokens_per_s: float | None = None
    measured_success_fraction: float | None = None

    @property
    def is_success_inside(self) -> bool | None:
        """Whether the share that was answered lies in its band, to the hundredth that is shown; None if unknown."""
        if self.measured_success_fraction is None:
            return None
        return self.success_low_fraction - 0.005 <= self.measured_success_fraction <= self.success_high_fraction + 0.005


def predict(step: StepModel, measurement: Measurement) -> Prediction:
    """Simulate a test on this step model, and say how far each of its latencies may be off."""
    cold_s = step.cold_start.of(is_full=measurement.trial.starts_full)
    measurement = replace(measurement, trial=replace(measurement.trial, cold_start_s=cold_s))
    found = replay(step, measurement.trial)
    stated = (*measurement.shown, *measurement.targets)
    measured = {(each.latency, each.statistic): each.value for each in stated}
    shown = [*measured, *((latency, which) for latency in ("ttft", "tpot") for which in ("mean", "p50", "p99"))]
    targets = [Target(latency=latency, statistic=which, value=1.0) for latency, which in dict.fromkeys(shown)]
    ratios, doublings = _ratios(step, measurement, targets)
    coldest = _coldest(step, measurement.trial, found)
    latencies = tuple(
        PredictedLatency(
            latency=each.latency,
            statistic=each.statistic,
            predicted_s=(value := each.of(found)),
            low_s=value * low,
            high_s=max(value * high, each.of(coldest)),
            measured_s=measured.get((each.latency, each.statistic)),
        )
        for each, (low, high) in zip(targets, ratios, strict=True)
    )
    share_low, share_high = _success_band(step, measurement.trial, found, doublings)
    return Prediction(
        name=measurement.name,
        latencies=latencies,
        output_tokens_per_s=found.output_tokens_per_s,
        success_fraction=found.success_fraction,
        success_low_fraction=share_low,
        success_high_fraction=share_high,
        doublings=doublings,
        measured_output_tokens_per_s=measurement.output_tokens_per_s,
        measured_success_fraction=measurement.answered_fraction,
    )


def _coldest(step: StepModel, trial: LoadTestReplay, found: Replayed) -> Replayed:
    """The test with all of a cold start that was seen of full first steps alone: how much others have is not known."""
    full_s = step.cold_start.full_s
    if trial.clients is None or trial.apart is not None or trial.cold_start_s >= full_s:
        return found
    return replay(step, replace(trial, cold_start_s=full_s))


def _ratios(
    step: StepModel, measurement: Measurement, targets: Sequence[Target]
) -> tuple[list[tuple[float, float]], float]:
    """The ends of each target's band as multiples of what is predicted, and how far the test lies beyond others."""
    if step.spread is None or not isinstance(step.times, ScaledStep):
        band = step.band
        own, first = (band.tpot_low_ratio, band.tpot_high_ratio), (band.ttft_low_ratio, band.ttft_high_ratio)
        if measurement.trial.apart is not None:
            own, first = _wider(own, _APART_BAND["tpot"]), _wider(first, _APART_BAND["ttft"])
        return [own if each.latency in _BY_TOKEN else first for each in targets], 0.0
    logs = np.array([step.times.factors.log(name) for name in PARAMETERS])
    asked = Measurement(name=measurement.name, trial=measurement.trial, targets=tuple(targets))
    base, slopes = sensitivity(step.times.times, step.floor, logs, asked)
    doublings = doublings_beyond(step.measured, step, measurement.trial)
    # A first token is prefill first of all: prompts of another length are another question, shorter ones too.
    prompts = max(doublings, _prompt_doublings(step.measured, step, measurement.trial))
    latencies = [("tpot", doublings) if each.latency in _BY_TOKEN else (each.latency, prompts) for each in targets]
    ratios = [
        step.spread.ratio(latency, slope, doublings=far)
        for (latency, far), slope in zip(latencies, slopes, strict=True)
    ]
    ends = [(1.0 / each, each) for each in ratios]
    steep = [step.spread.factors_log(slope) > _STEEP_LOG for slope in slopes]
    if not any(steep):
        return ends, doublings
    found = []
    fast, slow = (values_at(step.times.times, step.floor, logs + way * step.spread.ends, asked) for way in (-1.0, 1.0))
    for place, (latency, far) in enumerate(latencies):
        if not steep[place]:
            found.append(ends[place])
            continue
        most_log = step.spread.factors_log(slopes[place])
        low, high = (
            step.spread.bounded_ratio(latency, min(most_log, max(0.0, float(way))), doublings=far)
            for way in (base[place] - fast[place], slow[place] - base[place])
        )
        found.append((1.0 / low, high))
    return found, doublings


def _wider(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return min(one[0], other[0]), max(one[1], other[1])


def _prompt_doublings(tested: MeasuredRange | None, step: StepModel, trial: LoadTestReplay) -> float:
    if tested is None:
        return 0.0
    return abs(math.log2(max(load_of(step, trial)[2], 1.0) / tested.prefill_tokens))


def doublings_beyond(tested: MeasuredRange | None, step: StepModel, trial: LoadTestReplay) -> float:
    """How often the tested sequences, KV tokens or prompts would have to double to reach those of this test."""
    if tested is None:
        return 0.0
    sequences, kv_tokens, prefill_tokens = load_of(step, trial)
    return max(
        0.0,
        math.log2(max(sequences, 1.0) / tested.sequences),
        math.log2(max(kv_tokens, 1.0) / tested.kv_tokens),
        math.log2(max(prefill_tokens, 1.0) / tested.prefill_tokens),
    )


def _success_band(step: StepModel, trial: LoadTestReplay, found: Replayed, doublings: float) -> tuple[float, float]:
    """The share that is answered with steps as slow and as fast as one time in ten; clients that wait for ever get all.

    Near saturation one point of TPOT is three of this share, so that it has a band of its own.
    """
    if trial.timeout_s is None:
        return found.success_fraction, found.success_fraction
    low, high = pace_band(step, trial, doublings)
    slow, fast = (replay(SlowedTimes(times=step, ratio=ratio), trial).success_fraction for ratio in (high, low))
    return min(slow, found.success_fraction), max(fast, found.success_fraction)


def pace_band(step: StepModel, trial: LoadTestReplay, doublings: float) -> tuple[float, float]:
    """How fast and how slow all steps of a test may be, one time in ten each, as multiples of the model's."""
    if step.spread is None or not isinstance(step.times, ScaledStep):
        return step.band.tpot_low_ratio, step.band.tpot_high_ratio
    # In overload the engine is full, and its steps are those of as many sequences as it runs.
    sequences, kv_tokens, _ = load_of(step, trial)
    high = step.spread.ratio("tpot", step.times.decode_shares(sequences, kv_tokens), doublings=doublings)
    return 1.0 / high, high


def fit_band(
    times: ScaledStep, spread: FactorSpread, tested: MeasuredRange, *, most_sequences: int, most_kv_tokens: int
) -> StepErrorBand:
    """One band for all loads of a replica, for a plan: that of the steps at the end of its range which is known less.

    The upper end is as many sequences as were tested, or as the replica may run of such length; prompts as tested.
    """
    context = tested.kv_tokens / tested.sequences
    sequences = max(tested.sequences, min(most_sequences, int(most_kv_tokens / max(context, 1.0))))
    doublings = max(0.0, math.log2(sequences / tested.sequences))
    ends = ((1.0, context, 0.0), (float(sequences), sequences * context, doublings))
    slow = max(spread.ratio("tpot", times.decode_shares(n, max(kv, 1.0)), doublings=far) for n, kv, far in ends)
    late = spread.ratio("ttft", _idle_ttft_shares(times, float(tested.prefill_tokens)))
    return StepErrorBand(
        new=OTHER_LOAD, tpot_low_ratio=1 / slow, tpot_high_ratio=slow, ttft_low_ratio=1 / late, ttft_high_ratio=late
    )


def _idle_ttft_shares(times: ScaledStep, prompt_tokens: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What part of the TTFT of a prompt alone each factor moves."""
    decode_s = float(times.decode_s(np.ones(1), np.ones(1))[0])
    prefill_s = float(times.prefill_s(np.array([prompt_tokens]))[0]) + times.pair_s * prompt_tokens**2 / 2
    parts = np.array([decode_s, 0.0, 0.0, prefill_s, times.request_overhead_s])
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = parts / parts.sum()
    return shares
