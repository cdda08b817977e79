"""The forecast of demand: the best of several simple forecasters, with bands from its own past errors.

    series -> holes and events out -> rolling backtest chooses -> season x level x growth -> events in -> bands

The naive forecast is kept beside it, and so is everything that should make the reader cautious, as anomalies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.random import Generator

from ullage.errors import InputError
from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity, in_order
from ullage.workload.forecast.backtest import Backtest, BacktestRun, backtest
from ullage.workload.forecast.conformal import FRACTIONS, paths
from ullage.workload.forecast.demand_series import (
    Break,
    DemandEvent,
    DemandSeries,
    around_events,
    break_of,
    event_factors,
)
from ullage.workload.forecast.point_forecasts import DAY_S, FORECASTERS, Floats, Forecaster, grid_of
from ullage.workload.forecast.scores import Scores

# The band that is printed and scored; plans name their own percentile.
BAND_FRACTION = 0.8
# With fewer steps than this there is nothing to test a forecaster on.
LEAST_STEPS = 12
# Eleven years of hours: no forecast is worth its minutes beyond.
MOST_STEPS = 100_000
# Futures that are drawn to find the busiest step of the horizon.
_FUTURES = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """Demand over the horizon: quantiles by step (columns are `FRACTIONS`), the naive ones beside them.

    `busiest` holds what the highest step of each of many drawn futures was, sorted: the planning percentile is read off
    it, because the busiest hour of a month is higher than any single hour is likely to be.
    """

    history: DemandSeries
    horizon_s: float
    model: str
    quantiles: Floats
    naive_quantiles: Floats
    scores: Scores | None
    naive_scores: Scores | None
    busiest: Floats
    broken: Break | None
    anomalies: tuple[Anomaly, ...]

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

    def at(self, fraction: float) -> Floats:
        """The quantile of each step; between the kept fractions straight in the normal score, beyond them held."""
        score = NormalDist().inv_cdf(fraction)
        kept = np.array([NormalDist().inv_cdf(each) for each in FRACTIONS.tolist()])
        return np.array([np.interp(score, kept, row) for row in self.quantiles])

    def planning(self, fraction: float) -> float:
        """The demand that the busiest step of the horizon exceeds with probability 1 - fraction."""
        return float(np.quantile(self.busiest, fraction))

    @property
    def mean(self) -> float:
        return float(self.at(0.5).mean())

    def times(self, ratio: float) -> Forecast:
        """The forecast of so many times the demand; the history stays what was seen."""
        return replace(
            self,
            quantiles=self.quantiles * ratio,
            naive_quantiles=self.naive_quantiles * ratio,
            busiest=self.busiest * ratio,
        )


def forecast(
    series: DemandSeries,
    *,
    horizon_s: float,
    rng: Generator,
    events: Sequence[DemandEvent] = (),
    forecasters: Mapping[str, Forecaster] = FORECASTERS,
) -> Forecast:
    """Forecast `horizon_s` seconds from the end of the series on."""
    steps = _steps(series, horizon_s)
    clean, measured = around_events(series, [each for each in events if each.start_s < series.end_s])
    grid = grid_of(series.step_s, clean.values.size)
    test = backtest(clean.values, grid, steps, forecasters)
    winner = test.winner
    at_s = series.end_s + series.step_s * np.arange(steps, dtype=np.float64)
    factors = event_factors([each for each in events if each.end_s > series.end_s], measured, at_s)
    predicted = np.maximum(forecasters[winner.name](clean.values, grid, steps), 0.0) * factors
    naive = forecasters[test.naive.name](clean.values, grid, steps) * factors
    broken = break_of(clean)
    futures = paths(test.actual, winner.predicted, winner.band, futures=_FUTURES, rng=rng)
    return Forecast(
        history=series,
        horizon_s=steps * series.step_s,
        model=winner.name,
        quantiles=winner.band.quantiles(predicted),
        naive_quantiles=test.naive.band.quantiles(naive),
        scores=test.held_out(winner, nominal_fraction=BAND_FRACTION, rng=rng),
        naive_scores=test.held_out(test.naive, nominal_fraction=BAND_FRACTION, rng=rng),
        busiest=np.sort((futures * predicted[None, :]).max(axis=1)),
        broken=broken,
        anomalies=_anomalies(series, clean, test, winner, steps, broken),
    )


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
            problem=f"is too short to forecast from: {LEAST_STEPS} steps are the least",
            fix="Give a longer trace or a finer --step; a plan takes it as it is, with season and growth assumed.",
        )
    if not (series.values[~np.isnan(series.values)] > 0.0).any():
        raise InputError(field="history", value=series.name, problem="has no demand in it", fix="Give another class.")
    steps = max(1, math.ceil(horizon_s / series.step_s - 1e-9))
    if steps > MOST_STEPS:
        raise InputError(
            field="horizon",
            value=f"{steps:,} steps of {series.step_s:g} s",
            problem=f"is too far ahead: {MOST_STEPS:,} steps are the most",
            fix="Give a shorter horizon, or a coarser --step.",
        )
    return steps


def _anomalies(
    series: DemandSeries, clean: DemandSeries, test: Backtest, winner: BacktestRun, steps: int, broken: Break | None
) -> tuple[Anomaly, ...]:
    """What should make the reader of this forecast cautious."""
    name, size = series.name, clean.values.size
    found = []
    days = size * series.step_s / DAY_S
    if days < 14.0:
        season = (
            "a week was seen once" if days >= 7.0 else "only a daily season shows" if days > 1.0 else "no season shows"
        )
        sentence = f"The history of {name} is {days:.1f} days long: {season}, and the band is wider for it."
        found.append(_anomaly(AnomalyKind.COLD_START, Severity.CAUTION, sentence))
    missing = size - clean.observed
    if missing:
        sentence = f"{missing} of {size} steps of {name} are holes or past events, and are not learnt from."
        found.append(_anomaly(AnomalyKind.HOLES, Severity.NOTE, sentence, share_fraction=missing / size))
    if broken is not None:
        ago_days = (series.end_s - broken.at_s) / DAY_S
        sentence = (
            f"The level of {name} changed {broken.ratio:.2f}-fold {ago_days:.0f} days before the end of the history; "
            "earlier demand says little about later demand."
        )
        found.append(_anomaly(AnomalyKind.STRUCTURAL_BREAK, Severity.SERIOUS, sentence))
    if steps > winner.band.tested_steps:
        tested_days = winner.band.tested_steps * series.step_s / DAY_S
        sentence = (
            f"Leads beyond {tested_days:.1f} days are longer than the history of {name} can test; their band is "
            "extrapolated, wider with the square root of the lead."
        )
        found.append(_anomaly(AnomalyKind.LONG_HORIZON, Severity.CAUTION, sentence))
    if winner.name == test.naive.name:
        sentence = f"No forecaster beat repeating the last season of {name}; that is what is shown."
        found.append(_anomaly(AnomalyKind.NAIVE_WINS, Severity.NOTE, sentence))
    return in_order(found)


def _anomaly(kind: AnomalyKind, weight: Severity, sentence: str, share_fraction: float | None = None) -> Anomaly:
    return Anomaly(kind=kind, weight=weight, sentence=sentence, share_fraction=share_fraction, touches=("forecast",))
