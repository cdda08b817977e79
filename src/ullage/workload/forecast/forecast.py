"""The forecast of demand: the best of several simple forecasters, with bands from its own past errors.

    series -> holes and events out -> rolling backtest chooses -> season x level x growth -> events in -> futures

The naive forecast is kept beside it, and so is everything that should make the reader cautious, as anomalies.
The planning rate has one definition everywhere: the busiest step of the horizon, at the planning percentile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.random import Generator

from ullage.errors import InputError
from ullage.workload.anomalies import Anomaly
from ullage.workload.forecast.backtest import Backtest, BacktestRun, backtest
from ullage.workload.forecast.checks import beyond_seen, cautions, limit_of, never_held
from ullage.workload.forecast.demand_series import (
    Break,
    DemandEvent,
    DemandSeries,
    around_events,
    break_of,
    event_factors,
)
from ullage.workload.forecast.error_model import FRACTIONS
from ullage.workload.forecast.futures import busiest_blocks
from ullage.workload.forecast.point_forecasts import FORECASTERS, Floats, Forecaster, Past, damped_weeks, grid_of
from ullage.workload.forecast.scores import Scores

# The band that is printed and scored; plans name their own percentile.
BAND_FRACTION = 0.8
# With fewer steps than this there is nothing to test a forecaster on.
LEAST_STEPS = 12
# Eleven years of hours: no forecast is worth its minutes beyond.
MOST_STEPS = 100_000
_SCORES: Floats = np.array([NormalDist().inv_cdf(each) for each in FRACTIONS.tolist()])


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One forecaster of the contest over past origins: the least pinball loss, over mean demand, wins."""

    name: str
    pinball_ratio: float
    wape_fraction: float
    held_fraction: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """Demand over the horizon: quantiles by step (columns are `FRACTIONS`), the naive ones beside them.

    `block_peaks` holds the highest step of each block of `block_steps` steps (a column) in each of many drawn futures
    (a row): the planning percentile is read off their highest, because the busiest hour of a month is higher than any
    single hour is likely to be. `expected_ratio` is what stated events and measured growth raise the busiest step by,
    `scale_ratio` how many times the demand that was seen this is the forecast of.
    """

    history: DemandSeries
    horizon_s: float
    model: str
    contest: tuple[Contestant, ...]
    quantiles: Floats
    naive_quantiles: Floats
    scores: Scores | None
    naive_scores: Scores | None
    block_peaks: Floats
    block_steps: int
    expected_ratio: float
    broken: Break | None
    anomalies: tuple[Anomaly, ...]
    scale_ratio: float = 1.0

    @property
    def start_s(self) -> float:
        return self.history.end_s

    @property
    def steps(self) -> int:
        return int(self.quantiles.shape[0])

    @property
    def fractions(self) -> tuple[float, ...]:
        """Of the columns of `quantiles`."""
        return tuple(FRACTIONS.tolist())

    @property
    def busiest_seen(self) -> float:
        return float(np.nanmax(self.history.values))

    @cached_property
    def busiest(self) -> Floats:
        """The busiest step of each future, sorted."""
        return np.sort(self.block_peaks.max(axis=1))

    @property
    def busiest_quantiles(self) -> tuple[float, ...]:
        """Of the busiest step of the horizon, at `fractions`."""
        return tuple(self.planning(each) for each in self.fractions)

    def at(self, fraction: float) -> Floats:
        """The quantile of each step; between the kept fractions straight in the normal score, beyond them held."""
        score = min(max(NormalDist().inv_cdf(fraction), _SCORES[0]), _SCORES[-1])
        right = min(max(int(np.searchsorted(_SCORES, score)), 1), _SCORES.size - 1)
        share = (score - _SCORES[right - 1]) / (_SCORES[right] - _SCORES[right - 1])
        found: Floats = (1.0 - share) * self.quantiles[:, right - 1] + share * self.quantiles[:, right]
        return found

    def planning(self, fraction: float) -> float:
        """The demand that the busiest step of the horizon exceeds with probability 1 - fraction."""
        return float(np.quantile(self.busiest, fraction))

    def busiest_between(self, first_step: int, last_step: int, fraction: float) -> float:
        """The same, of a part of the horizon: whole blocks from the one that `first_step` lies in."""
        blocks = slice(first_step // self.block_steps, max(1, -(-last_step // self.block_steps)))
        return float(np.quantile(self.block_peaks[:, blocks].max(axis=1), fraction))

    def defensible(self, fraction: float) -> bool:
        """Whether the planning rate lies within what was seen, and what was stated or measured of events and growth."""
        return beyond_seen(self.history, self.planning(fraction), self.expected_ratio) is None

    @property
    def mean(self) -> float:
        return float(self.at(0.5).mean())

    def times(self, ratio: float) -> Forecast:
        """The forecast of so many times the demand; the history stays what was seen."""
        return replace(
            self,
            quantiles=self.quantiles * ratio,
            naive_quantiles=self.naive_quantiles * ratio,
            block_peaks=self.block_peaks * ratio,
            expected_ratio=self.expected_ratio * ratio,
            scale_ratio=self.scale_ratio * ratio,
        )


def forecast(
    series: DemandSeries,
    *,
    horizon_s: float,
    rng: Generator,
    percentile_fraction: float = 0.95,
    events: Sequence[DemandEvent] = (),
    forecasters: Mapping[str, Forecaster] = FORECASTERS,
) -> Forecast:
    """Forecast `horizon_s` seconds from the end of the series on. The checks are made at the percentile."""
    steps = _steps(series, horizon_s)
    clean, measured = around_events(series, [each for each in events if each.start_s < series.end_s])
    past = Past(history=clean.values, grid=grid_of(series.step_s, clean.values.size))
    test = backtest(past, steps, forecasters)
    held, naive_held = (
        test.held_out(run, nominal_fraction=BAND_FRACTION, rng=rng) for run in (test.winner, test.naive)
    )
    failed = never_held(series.name, test.winner.name, held)
    used, used_held = (test.naive, naive_held) if failed else (test.winner, held)
    at_s = series.end_s + series.step_s * np.arange(steps, dtype=np.float64)
    factors = event_factors([each for each in events if each.end_s > series.end_s], measured, at_s)
    predicted, naive = (np.maximum(forecasters[run.name](past, steps), 0.0) * factors for run in (used, test.naive))
    peaks = busiest_blocks(predicted, used.errors, rng=rng)
    ratio = max(1.0, float(factors.max())) * _grown(test, used, predicted)
    planning = float(np.quantile(peaks.max(axis=1), percentile_fraction))
    limit = limit_of(series, ratio, _unmeasured(used, steps))
    broken = break_of(clean)
    return Forecast(
        history=series,
        horizon_s=steps * series.step_s,
        model=used.name,
        contest=_contest(test),
        quantiles=np.minimum(used.errors.band(predicted), limit),
        naive_quantiles=test.naive.errors.band(naive),
        scores=used_held,
        naive_scores=naive_held,
        block_peaks=np.minimum(peaks, limit),
        block_steps=used.errors.block_steps,
        expected_ratio=ratio,
        broken=broken,
        anomalies=cautions(
            series,
            clean,
            used=used,
            naive=test.naive,
            steps=steps,
            broken=broken,
            others=[failed, beyond_seen(series, planning, ratio, limit)],
        ),
    )


def _contest(test: Backtest) -> tuple[Contestant, ...]:
    return tuple(
        Contestant(
            name=run.name,
            pinball_ratio=run.pinball_ratio,
            wape_fraction=run.wape_fraction,
            held_fraction=run.held_fraction,
        )
        for run in sorted(test.runs, key=lambda run: run.pinball_ratio)
    )


def _grown(test: Backtest, used: BacktestRun, predicted: Floats) -> float:
    """What measured growth makes of the level by the end of the horizon: 1 where it may be chance."""
    growth = test.past.growth
    if growth.weekly_fraction < 2.0 * growth.deviation_fraction:
        return 1.0
    return float(np.exp(growth.weekly_fraction * damped_weeks(np.array([predicted.size * used.errors.step_s]))[0]))


def _unmeasured(used: BacktestRun, steps: int) -> float:
    """What growth that was not measured may make of the level by the end of the horizon, at its 95th percentile."""
    deviation = used.errors.growth.deviation_fraction * float(used.errors.unseen_weeks(steps).max())
    return math.exp(NormalDist().inv_cdf(0.95) * min(deviation, 1.0))


def peak_minute_rps(hour_rps: float, dispersion_ratio: float, minutes: int = 60) -> float:
    """The rate of the busiest minute inside an hour of this rate, as often exceeded as not.

    Counts of a minute have mean m = 60 x rate and variance dispersion x m; taken as gamma, the median of the largest of
    60 is the quantile at 0.5^(1/60), here by Wilson and Hilferty's cube. Dispersion is that around the hour's mean.
    """
    mean = 60.0 * hour_rps
    if mean <= 0.0:
        return 0.0
    shape = mean / max(dispersion_ratio, 1e-9)
    score = NormalDist().inv_cdf(0.5 ** (1.0 / minutes))
    cube = max(0.0, 1.0 - 1.0 / (9.0 * shape) + score / (3.0 * math.sqrt(shape)))
    return max(hour_rps, shape * cube**3 * dispersion_ratio / 60.0)


def _steps(series: DemandSeries, horizon_s: float) -> int:
    if not (math.isfinite(horizon_s) and horizon_s > 0.0):
        raise InputError(
            field="horizon", value=horizon_s, problem="must be greater than 0", fix="Give for example 30d."
        )
    if series.observed < LEAST_STEPS:
        raise InputError(
            field="history",
            value=f"{series.observed} steps of {series.step_s:g} s",
            problem=f"is too short to forecast from: at least {LEAST_STEPS} steps are needed",
            fix="Give a longer trace or a finer --step; a plan uses it as it is, with season and growth assumed.",
        )
    if not (series.values[~np.isnan(series.values)] > 0.0).any():
        raise InputError(field="history", value=series.name, problem="has no demand", fix="Give another class.")
    steps = max(1, math.ceil(horizon_s / series.step_s - 1e-9))
    if steps > MOST_STEPS:
        raise InputError(
            field="horizon",
            value=f"{steps:,} steps of {series.step_s:g} s",
            problem=f"is too far ahead: {MOST_STEPS:,} steps are the maximum",
            fix="Give a shorter horizon, or a coarser --step.",
        )
    return steps
