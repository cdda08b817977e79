"""Calibration: the factors that make a simulated load test agree with the measured one.

Each point is simulated as it was run (replay.py), its TTFT, TPOT and token rate are compared in the statistic the tool
printed, and five factors (scaled.py) are found by least squares on log errors. Estimates err alike in all their parts
first, and in each part by itself second, so the factors are pulled towards a common scale and that towards 1: one point
sets the scale, more points tell the parts apart, and no fit beats the floor.

What comes back says how well it fits (residuals), how well it predicts a point it has not seen (leave one out), how
far each factor could be off, and which factors these tests say nothing about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.service.calibration.replay import LoadTestReplay, Replayed, RequestTimes, replay
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.floor import Floor
from ullage.service.steps.floored import scaled
from ullage.service.steps.scaled import PARAMETERS, Factors
from ullage.service.steps.step_model import NO_COLD_START, ColdStart
from ullage.service.steps.work import Floats

# How far estimates are off, as the spread of a logarithm: all parts together, and each part by itself beside that. From
# the errors of models that the fit had not seen (bench/accuracy.py).
COMMON_SPREAD = 0.1
OWN_SPREADS = {"fixed": 0.25, "sequences": 0.15, "kv": 0.3, "prefill": 0.3, "request": 0.6}
# What lies outside the engine is the server's and the network's, and has no part in the common scale.
COMMON_SHARES = {"fixed": 1.0, "sequences": 1.0, "kv": 1.0, "prefill": 1.0, "request": 0.0}
# Of disaggregated tests the time outside an engine is mostly the hand-over between two, and the prefill side's capacity
# is that of another scheduler: both are known by less. From the half of the published rows that was looked at
# (bench/CHOICES.md, 2026-11-19).
APART_SPREADS = {**OWN_SPREADS, "prefill": 0.45, "request": 1.0}
# Repeats of one run differ by 2 to 4 % in TPOT and 4 to 6 % in TTFT; models are not perfect either.
ERROR_SPREADS = {"tpot": 0.04, "ttft": 0.10, "rate": 0.05}
# First tokens of disaggregated tests lie further from any fit: a first request that is cold, a decode side at a limit
# that nobody stated. From the same half.
APART_ERROR_SPREADS = {**ERROR_SPREADS, "ttft": 0.35}
# A factor that the tests have narrowed to less than this share of its prior spread is known from them.
IDENTIFIED_FRACTION = 0.6
# How far points lie from a fit at least, for the band: as repeats of one published run differ (bench/CHOICES.md).
REPEAT_SPREADS = {"tpot": 0.02, "ttft": 0.08}
# What these are worth, as if so many points had been measured and lain that far from their fit.
PRIOR_POINTS = 4
# And the degrees of freedom of all spreads: those of factors and repeats are known from hundreds of published points.
PRIOR_DEGREES = 20
# 80 % of a normal distribution lie within so many spreads.
BAND_SPREADS = 1.2816
# A cold start is taken for one where the fit gains by so much more than factors can, in squares of their spreads.
COLD_START_GAIN = 6.0
_ROUNDS = 5
_ROUNDS_AGAIN = 2
# With fewer points than this one of them may decide the fit, and leaving it out is a fit of its own.
_FEW = 4
_NUDGE = 0.04
_MOST_STEP = 0.5
_MOST_HALVINGS = 3


@dataclass(frozen=True, kw_only=True)
class Target:
    """One measured number: `latency` is ttft, tpot, itl, e2e or rate; `statistic` is mean or a percentile: p50."""

    latency: str
    statistic: str
    value: float

    def of(self, replayed: Replayed) -> float:
        if self.latency == "rate":
            return replayed.output_tokens_per_s
        return replayed.statistic(self.latency, self.statistic)


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A point of a load test: what was run, and what was observed.

    `weight_fraction` is how much it counts beside the others in one fit: less where it is old or says little. `shown`
    are more numbers that the file states: they are compared with a prediction, and no fit is made to them. So are the
    share of requests that were answered, and the tokens that came out each second of one replica.
    """

    name: str
    trial: LoadTestReplay
    targets: tuple[Target, ...]
    weight_fraction: float = 1.0
    shown: tuple[Target, ...] = ()
    answered_fraction: float | None = None
    output_tokens_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Residual:
    """One target after the fit; `error_ratio` is simulated / measured."""

    point: str
    latency: str
    statistic: str
    measured_value: float
    simulated_value: float

    @property
    def error_ratio(self) -> float:
        return self.simulated_value / self.measured_value


@dataclass(frozen=True, kw_only=True)
class ParameterRange:
    """A factor with the range that holds 8 of 10 of its plausible values."""

    name: str
    value_ratio: float
    low_ratio: float
    high_ratio: float
    identified: bool


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The result of a fit. `held_out` are residuals of each point under a fit to the others; empty for one point.

    `spread` says how far a prediction may be off, at any load. `cold_start` is what the first step of the tests took
    longer, where they show it.
    """

    factors: Factors
    parameters: tuple[ParameterRange, ...]
    residuals: tuple[Residual, ...]
    held_out: tuple[Residual, ...]
    spread: FactorSpread
    cold_start: ColdStart = NO_COLD_START

    @property
    def not_identified(self) -> tuple[str, ...]:
        """Factors that these tests say little about: they stay where the estimate had them."""
        return tuple(each.name for each in self.parameters if not each.identified)


def calibrate(times: RequestTimes, floor: Floor, measurements: Sequence[Measurement]) -> Calibration:
    """Fit the factors to all measurements, and to all but one in turn to see how well that predicts."""
    if not any(each.targets for each in measurements):
        raise InputError(
            field="load tests",
            value=len(measurements),
            problem="hold no point with a latency or a rate to fit to",
            fix="Give a result file with TTFT and TPOT.",
        )
    logs, precision = _fit(times, floor, measurements)
    cold = _fit_cold(times, floor, logs, measurements)
    if cold is not None:
        logs, precision, measurements = cold.logs, cold.precision, cold.measurements
    covariance = np.linalg.inv(precision)
    spreads = np.sqrt(np.diag(covariance))
    held_out: list[Residual] = []
    if len(measurements) > 1:
        for place, each in enumerate(measurements):
            others = [*measurements[:place], *measurements[place + 1 :]]
            there, _ = _fit(times, floor, others, start=logs)
            held_out += _residuals(times, floor, there, [each])
    residuals = _residuals(times, floor, logs, measurements)
    return Calibration(
        factors=Factors.of_logs(logs),
        parameters=tuple(
            ParameterRange(
                name=name,
                value_ratio=math.exp(log),
                low_ratio=math.exp(log - BAND_SPREADS * spread),
                high_ratio=math.exp(log + BAND_SPREADS * spread),
                identified=bool(spread < IDENTIFIED_FRACTION * prior_spread(name, is_apart=_are_apart(measurements))),
            )
            for name, log, spread in zip(PARAMETERS, logs.tolist(), spreads.tolist(), strict=True)
        ),
        residuals=tuple(residuals),
        held_out=tuple(held_out),
        spread=FactorSpread(
            covariance=tuple(tuple(row) for row in covariance.tolist()),
            fit_spreads={
                kind: _fit_spread(kind, residuals, is_apart=_are_apart(measurements)) for kind in ("tpot", "ttft")
            },
            degrees=(PRIOR_POINTS if _are_apart(measurements) else PRIOR_DEGREES) + len(measurements),
        ),
        cold_start=NO_COLD_START if cold is None else cold.start,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _ColdFit:
    """A fit with a cold start: its measurements begin with it, and `loss` is what the fit could not make smaller."""

    logs: Floats
    precision: Floats
    measurements: tuple[Measurement, ...]
    start: ColdStart
    loss: float


def _fit_cold(times: RequestTimes, floor: Floor, logs: Floats, measurements: Sequence[Measurement]) -> _ColdFit | None:
    """The fit with a cold start, where that explains what `logs`, the fit without one, cannot.

    An engine that was not warmed up compiles and tunes kernels in its first step, most of all where that is full.
    Clients that start together all wait for it, and a mean TTFT has their wait in it. Taken for slow prefill it would
    slow every prompt, so the factors are found without the first tokens of those tests, and what these lack is the
    cold start: of first steps that are full, of the others, or of both.
    """
    prior: Floats = np.linalg.inv(prior_covariance()).astype(np.float64)
    least = _loss(times, floor, logs, measurements, prior)
    seen = {each.trial.starts_full for each in measurements if _shows_cold_start(each)}
    best = None
    for kinds in ({True}, {False}, {True, False}):
        if kinds <= seen and least > COLD_START_GAIN * len(kinds):
            found = _begun_cold(times, floor, measurements, kinds, prior)
            if found is not None and found.loss + COLD_START_GAIN * len(kinds) < least:
                best, least = found, found.loss + COLD_START_GAIN * len(kinds)
    return best


def _begun_cold(
    times: RequestTimes, floor: Floor, measurements: Sequence[Measurement], kinds: set[bool], prior: Floats
) -> _ColdFit | None:
    """The fit where first steps of these kinds, full or not, began cold; None where nothing is left for a start."""
    suspected = [_shows_cold_start(each) and each.trial.starts_full in kinds for each in measurements]
    rest = [_without_first_tokens(each) if cold else each for each, cold in zip(measurements, suspected, strict=True)]
    logs, precision = _fit(times, floor, rest)
    begun, start = tuple(measurements), ColdStart()
    for _ in range(_ROUNDS_AGAIN):
        lacking = [
            (each.trial.starts_full, _lacking_s(times, floor, logs, each))
            for each, cold in zip(measurements, suspected, strict=True)
            if cold
        ]
        values = {
            kind: round(float(np.median([lacks for full, lacks in lacking if full == kind])), 3) for kind in kinds
        }
        if min(values.values()) <= 0.0:
            return None
        start = ColdStart(first_s=values.get(False, 0.0), full_s=values.get(True, 0.0))
        begun = tuple(_with_start(each, start) for each in measurements)
        logs, precision = _fit(times, floor, begun, start=logs)
    loss = _loss(times, floor, logs, begun, prior)
    return _ColdFit(logs=logs, precision=precision, measurements=begun, start=start, loss=loss)


def _shows_cold_start(measurement: Measurement) -> bool:
    """Whether a cold start would be seen: in a mean TTFT of clients that start together."""
    trial = measurement.trial
    return (
        trial.clients is not None and trial.apart is None and any(_is_mean_ttft(each) for each in measurement.targets)
    )


def _is_mean_ttft(target: Target) -> bool:
    return target.latency in ("ttft", "engine_ttft") and target.statistic == "mean"


def _without_first_tokens(measurement: Measurement) -> Measurement:
    return replace(measurement, targets=tuple(each for each in measurement.targets if _kind(each) != "ttft"))


def _with_start(measurement: Measurement, start: ColdStart) -> Measurement:
    cold_s = start.of(is_full=measurement.trial.starts_full)
    return replace(measurement, trial=replace(measurement.trial, cold_start_s=cold_s))


def _lacking_s(times: RequestTimes, floor: Floor, logs: Floats, measurement: Measurement) -> float:
    """What the mean TTFT lacks, over the share of the requests that are sent at first.

    Half of the requests of a longer test never meet the start: what its median took as well is no part of it.
    """
    mean = next(each for each in measurement.targets if _is_mean_ttft(each))
    simulated_s = math.exp(float(values_at(times, floor, logs, replace(measurement, targets=(mean,)))[0]))
    medians = [each.value for each in measurement.shown if (each.latency, each.statistic) == ("ttft", "p50")]
    lacking_s = mean.value - max([simulated_s, *medians])
    return lacking_s * measurement.trial.prompt_tokens.size / (measurement.trial.clients or 1)


def _fit_spread(kind: str, residuals: Sequence[Residual], *, is_apart: bool) -> float:
    """How far measurements lie around the fit: the tested ones, and what repeats of other runs differ by.

    Several statistics of one latency in a point count as one.
    """
    own: dict[str, list[float]] = {}
    for each in residuals:
        if _kind_of(each.latency) == kind and math.isfinite(each.error_ratio) and each.error_ratio > 0:
            own.setdefault(each.point, []).append(math.log(each.error_ratio) ** 2)
    squares = [sum(point) / len(point) for point in own.values()]
    prior = PRIOR_POINTS * (APART_ERROR_SPREADS if is_apart else REPEAT_SPREADS)[kind] ** 2
    return math.sqrt((prior + sum(squares)) / (PRIOR_POINTS + len(squares)))


def prior_covariance(*, is_apart: bool = False) -> Floats:
    """Of the logarithms of the factors, before anything was measured; of tests of two pools where `is_apart`."""
    own = APART_SPREADS if is_apart else OWN_SPREADS
    common = np.array([COMMON_SPREAD * COMMON_SHARES[name] for name in PARAMETERS])
    covariance: Floats = np.outer(common, common) + np.diag([own[name] ** 2 for name in PARAMETERS])
    return covariance


def prior_spread(name: str, *, is_apart: bool = False) -> float:
    place = PARAMETERS.index(name)
    return math.sqrt(prior_covariance(is_apart=is_apart)[place, place])


def fit_factors(times: RequestTimes, floor: Floor, measurements: Sequence[Measurement]) -> Factors:
    """The factors alone, for callers that predict with them and judge the prediction themselves."""
    return Factors.of_logs(_fit(times, floor, measurements)[0])


def sensitivity(times: RequestTimes, floor: Floor, logs: Floats, measurement: Measurement) -> tuple[Floats, Floats]:
    """Log values of a measurement's targets and their derivatives by each factor's logarithm."""
    base = values_at(times, floor, logs, measurement)
    slopes = np.zeros((base.size, len(PARAMETERS)))
    for place in range(len(PARAMETERS)):
        moved = logs.copy()
        moved[place] += _NUDGE
        slopes[:, place] = (values_at(times, floor, moved, measurement) - base) / _NUDGE
    return base, slopes


def _fit(
    times: RequestTimes, floor: Floor, measurements: Sequence[Measurement], *, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Gauss-Newton with the priors; returns log factors and the precision matrix at the end.

    One point less moves a fit little, so a fit without it begins at `start`, the fit with it, and needs fewer rounds.
    """
    is_apart = _are_apart(measurements)
    prior: Floats = np.linalg.inv(prior_covariance(is_apart=is_apart)).astype(np.float64)
    measured = [np.log([target.value for target in each.targets]) for each in measurements]
    weights = [_weights(each) for each in measurements]
    logs = np.zeros(len(PARAMETERS)) if start is None else start.copy()
    precision: Floats = prior
    for _ in range(_ROUNDS if start is None or len(measurements) < _FEW else _ROUNDS_AGAIN):
        precision, gradient = prior.copy(), -prior @ logs
        for each, target, weight in zip(measurements, measured, weights, strict=True):
            values, slopes = sensitivity(times, floor, logs, each)
            known = np.isfinite(values)
            error = (target - values)[known] * weight[known]
            design = slopes[known] * weight[known, None]
            # A target far off counts less: one bad point must not bend the rest.
            root = 1.0 / np.sqrt(np.sqrt(1.0 + (error / 3.0) ** 2))
            design, error = design * root[:, None], error * root
            precision = precision + design.T @ design
            gradient = gradient + design.T @ error
        step = np.clip(np.linalg.solve(precision, gradient), -_MOST_STEP, _MOST_STEP)
        if is_apart:
            step = _shortened(step, logs, lambda there: _loss(times, floor, there, measurements, prior))
        logs = logs + step
        if float(np.abs(step).max()) < 1e-3:
            break
    return logs, precision


def _are_apart(measurements: Sequence[Measurement]) -> bool:
    return any(each.trial.apart is not None for each in measurements)


def _shortened(step: Floats, logs: Floats, loss: Callable[[Floats], float]) -> Floats:
    """As much of a step as makes the fit better: beside a full prefill side TTFT bends within any step."""
    before = loss(logs)
    for _ in range(_MOST_HALVINGS):
        if loss(logs + step) <= before:
            break
        step = step / 2.0
    return step


def _loss(times: RequestTimes, floor: Floor, logs: Floats, measurements: Sequence[Measurement], prior: Floats) -> float:
    """What the fit makes small: errors in their spreads, those far off counting less, and the way from the prior."""
    found = float(logs @ prior @ logs)
    for each in measurements:
        target = np.log([one.value for one in each.targets])
        error = (target - values_at(times, floor, logs, each)) * _weights(each)
        error = error[np.isfinite(error)]
        found += float(np.sum(18.0 * (np.sqrt(1.0 + (error / 3.0) ** 2) - 1.0)))
    return found


def _weights(measurement: Measurement) -> Floats:
    """Several statistics of one latency in one point share its errors, so together they count as one."""
    kinds = [_kind(target) for target in measurement.targets]
    share = measurement.weight_fraction
    spreads = _error_spreads(is_apart=measurement.trial.apart is not None)
    return np.array([math.sqrt(share / kinds.count(kind)) / spreads[kind] for kind in kinds])


def _error_spreads(*, is_apart: bool) -> dict[str, float]:
    return APART_ERROR_SPREADS if is_apart else ERROR_SPREADS


def _kind(target: Target) -> str:
    return _kind_of(target.latency)


def _kind_of(latency: str) -> str:
    if latency == "itl":
        return "tpot"
    return latency if latency in ERROR_SPREADS else "ttft"


def values_at(times: RequestTimes, floor: Floor, logs: Floats, measurement: Measurement) -> Floats:
    replayed = replay(scaled(times, floor, Factors.of_logs(logs)), measurement.trial)
    return np.log([max(target.of(replayed), 1e-12) for target in measurement.targets])


def _residuals(times: RequestTimes, floor: Floor, logs: Floats, measurements: Sequence[Measurement]) -> list[Residual]:
    found: list[Residual] = []
    for each in measurements:
        replayed = replay(scaled(times, floor, Factors.of_logs(logs)), each.trial)
        found += [
            Residual(
                point=each.name,
                latency=target.latency,
                statistic=target.statistic,
                measured_value=target.value,
                simulated_value=target.of(replayed),
            )
            for target in each.targets
        ]
    return found
