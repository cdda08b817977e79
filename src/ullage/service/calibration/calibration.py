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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError
from ullage.service.calibration.replay import LoadTestReplay, Replayed, RequestTimes, replay
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.floor import Floor
from ullage.service.steps.scaled import PARAMETERS, Factors, ScaledStep, refitted
from ullage.service.steps.work import Floats

# How far estimates are off, as the spread of a logarithm: all parts together, and each part by itself beside that. From
# the errors of models that the fit had not seen (bench/accuracy.py).
COMMON_SPREAD = 0.1
OWN_SPREADS = {"fixed": 0.25, "sequences": 0.15, "kv": 0.3, "prefill": 0.3, "request": 0.6}
# What lies outside the engine is the server's and the network's, and has no part in the common scale.
COMMON_SHARES = {"fixed": 1.0, "sequences": 1.0, "kv": 1.0, "prefill": 1.0, "request": 0.0}
# Repeats of one run differ by 2 to 4 % in TPOT and 4 to 6 % in TTFT; models are not perfect either.
ERROR_SPREADS = {"tpot": 0.04, "ttft": 0.10, "rate": 0.05}
# A factor that the tests have narrowed to less than this share of its prior spread is known from them.
IDENTIFIED_FRACTION = 0.6
# What the error spreads above are worth, as if so many points had been measured and lain that far from their fit.
PRIOR_POINTS = 4
# 80 % of a normal distribution lie within so many spreads.
BAND_SPREADS = 1.2816
_ROUNDS = 5
_ROUNDS_AGAIN = 2
# With fewer points than this one of them may decide the fit, and leaving it out is a fit of its own.
_FEW = 4
_NUDGE = 0.04
_MOST_STEP = 0.5


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

    `spread` says how far a prediction may be off, at any load.
    """

    factors: Factors
    parameters: tuple[ParameterRange, ...]
    residuals: tuple[Residual, ...]
    held_out: tuple[Residual, ...]
    spread: FactorSpread

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
                identified=bool(spread < IDENTIFIED_FRACTION * prior_spread(name)),
            )
            for name, log, spread in zip(PARAMETERS, logs.tolist(), spreads.tolist(), strict=True)
        ),
        residuals=tuple(residuals),
        held_out=tuple(held_out),
        spread=FactorSpread(
            covariance=tuple(tuple(row) for row in covariance.tolist()),
            fit_spreads={kind: _fit_spread(kind, residuals) for kind in ("tpot", "ttft")},
            degrees=PRIOR_POINTS + len(measurements),
        ),
    )


def _fit_spread(kind: str, residuals: Sequence[Residual]) -> float:
    """How far measurements lie around the fit: the tested ones, and what repeats of other runs differ by.

    Several statistics of one latency in a point count as one.
    """
    own: dict[str, list[float]] = {}
    for each in residuals:
        if _kind_of(each.latency) == kind and math.isfinite(each.error_ratio) and each.error_ratio > 0:
            own.setdefault(each.point, []).append(math.log(each.error_ratio) ** 2)
    squares = [sum(point) / len(point) for point in own.values()]
    prior = PRIOR_POINTS * ERROR_SPREADS[kind] ** 2
    return math.sqrt((prior + sum(squares)) / (PRIOR_POINTS + len(squares)))


def prior_covariance() -> Floats:
    """Of the logarithms of the factors, before anything was measured."""
    common = np.array([COMMON_SPREAD * COMMON_SHARES[name] for name in PARAMETERS])
    covariance: Floats = np.outer(common, common) + np.diag([OWN_SPREADS[name] ** 2 for name in PARAMETERS])
    return covariance


def prior_spread(name: str) -> float:
    place = PARAMETERS.index(name)
    return math.sqrt(prior_covariance()[place, place])


def fit_factors(times: RequestTimes, floor: Floor, measurements: Sequence[Measurement]) -> Factors:
    """The factors alone, for callers that predict with them and judge the prediction themselves."""
    return Factors.of_logs(_fit(times, floor, measurements)[0])


def scaled(times: RequestTimes, floor: Floor, factors: Factors) -> RequestTimes:
    """The calibrated step times, not below the floor."""
    return _Floored(times=refitted(times, factors), floor=floor)


def sensitivity(times: RequestTimes, floor: Floor, logs: Floats, measurement: Measurement) -> tuple[Floats, Floats]:
    """Log values of a measurement's targets and their derivatives by each factor's logarithm."""
    base = values_at(times, floor, logs, measurement)
    slopes = np.zeros((base.size, len(PARAMETERS)))
    for place in range(len(PARAMETERS)):
        moved = logs.copy()
        moved[place] += _NUDGE
        slopes[:, place] = (values_at(times, floor, moved, measurement) - base) / _NUDGE
    return base, slopes


@dataclass(frozen=True, kw_only=True)
class _Floored:
    times: ScaledStep
    floor: Floor

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return np.maximum(self.times.decode_s(sequences, kv_tokens), self.floor.decode_s(sequences, kv_tokens))

    def prefill_s(self, tokens: Floats) -> Floats:
        return np.maximum(self.times.prefill_s(tokens), self.floor.prefill_s(tokens))

    @property
    def pair_s(self) -> float:
        return 0.0 if self.times.pair_s == 0.0 else max(self.times.pair_s, self.floor.pair_s)

    @property
    def request_overhead_s(self) -> float:
        return self.times.request_overhead_s


def _fit(
    times: RequestTimes, floor: Floor, measurements: Sequence[Measurement], *, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Gauss-Newton with the priors; returns log factors and the precision matrix at the end.

    One point less moves a fit little, so a fit without it begins at `start`, the fit with it, and needs fewer rounds.
    """
    prior: Floats = np.linalg.inv(prior_covariance()).astype(np.float64)
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
        logs = logs + step
        if float(np.abs(step).max()) < 1e-3:
            break
    return logs, precision


def _weights(measurement: Measurement) -> Floats:
    """Several statistics of one latency in one point share its errors, so together they count as one."""
    kinds = [_kind(target) for target in measurement.targets]
    share = measurement.weight_fraction
    return np.array([math.sqrt(share / kinds.count(kind)) / ERROR_SPREADS[kind] for kind in kinds])


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
