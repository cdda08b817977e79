"""The rolling backtest: every forecaster, from every past origin, against observation; the least pinball loss wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.errors import InputError
from ullage.workload.forecast.conformal import FRACTIONS, ForecastBand, conformal
from ullage.workload.forecast.point_forecasts import DAY_S, NAIVE, Floats, Forecaster, Grid
from ullage.workload.forecast.scores import Scores, pinball, scores

# Origins that are tried: enough for the tails of a band, few enough that a fit of two months stays under 0.2 s.
MOST_ORIGINS = 42
# What the days of a week differ by, in logarithms, where their difference has not been seen: weekends at four fifths to
# one half of working days, which is what published weeks of chat and coding services show.
_UNSEEN_WEEK = 0.2
# Fewer than this a day apart, and origins are taken closer together.
_ENOUGH_ORIGINS = 8
# An origin needs a season behind it; where there is not even one, half of what there is.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class BacktestRun:
    """One forecaster over all origins, the band its errors give, and its loss."""

    name: str
    predicted: Floats
    band: ForecastBand
    pinball_ratio: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Backtest:
    """All forecasters over the same origins: `actual` has a row for each origin and a column for each lead.

    `unseen_ratio` is the deviation that was added for what the history is too short to show.
    """

    actual: Floats
    apart_steps: int
    unseen_ratio: float
    runs: tuple[BacktestRun, ...]

    @property
    def naive(self) -> BacktestRun:
        return next(run for run in self.runs if run.name == NAIVE)

    @property
    def winner(self) -> BacktestRun:
        return min(self.runs, key=lambda run: run.pinball_ratio)

    def held_out(self, run: BacktestRun, *, nominal_fraction: float, rng: Generator) -> Scores | None:
        """Scores on the later origins with a band from the earlier ones; None where there are too few of either.

        Origins whose outcomes overlap are one block of the bootstrap, as far as three blocks are left.
        """
        half = self.actual.shape[0] // 2
        if half < _ENOUGH_ORIGINS // 2:
            return None
        steps = self.actual.shape[1]
        outcomes = int((~np.isnan(self.actual[half:])).sum())
        try:
            band = conformal(
                self.actual[:half],
                run.predicted[:half],
                apart_steps=self.apart_steps,
                steps=steps,
                unseen_deviation=self.unseen_ratio,
            )
        except InputError:
            return None
        if outcomes == 0:
            return None
        quantiles = run.predicted[half:, :, None] * band.ratios[None]
        overlapping = steps * -(-steps // self.apart_steps)
        return scores(
            self.actual[half:].reshape(-1),
            quantiles.reshape(-1, FRACTIONS.size),
            FRACTIONS,
            nominal_fraction=nominal_fraction,
            block=max(1, min(overlapping, outcomes // 3)),
            rng=rng,
        )


def backtest(history: Floats, grid: Grid, steps: int, forecasters: Mapping[str, Forecaster]) -> Backtest:
    """Forecast from past origins with what was known there."""
    origins, apart_steps = origins_of(history.size, grid)
    actual = np.full((origins.size, steps), np.nan)
    for row, origin in enumerate(origins.tolist()):
        came = history[origin : origin + steps]
        actual[row, : came.size] = came
    runs = []
    unseen = _unseen(history.size, grid)
    for name, forecaster in forecasters.items():
        predicted = np.stack([forecaster(history[:origin], grid, steps) for origin in origins.tolist()])
        band = conformal(actual, predicted, apart_steps=apart_steps, steps=steps, unseen_deviation=unseen)
        runs.append(
            BacktestRun(name=name, predicted=predicted, band=band, pinball_ratio=_loss(actual, predicted, band))
        )
    return Backtest(actual=actual, apart_steps=apart_steps, unseen_ratio=unseen, runs=tuple(runs))


def origins_of(size: int, grid: Grid) -> tuple[NDArray[np.int64], int]:
    """Where past forecasts start: from a season on (or half of a shorter history), as long as an outcome follows."""
    first = min(grid.season_steps, max(2, int(size * _LEAST_SHARE)))
    if size > 3 * grid.season_steps:
        first = max(2 * grid.season_steps, size // 3)
    # Whole days apart where there are enough of them: every origin then stands at the same hour as the forecast itself.
    room = size - first
    enough = (each for each in (grid.day_steps, grid.day_steps // 4) if each and room // each >= _ENOUGH_ORIGINS)
    apart = next(enough, 1)
    apart *= max(1, -(-room // (apart * MOST_ORIGINS)))
    return np.arange(size - apart, first - 1, -apart, dtype=np.int64)[::-1], apart


def _unseen(size: int, grid: Grid) -> float:
    """How the days of a week differ, as long as no week was seen three times."""
    weeks = int(size * grid.step_s / (7 * DAY_S))
    return _UNSEEN_WEEK / max(1, weeks) if weeks < 3 else 0.0


def _loss(actual: Floats, predicted: Floats, band: ForecastBand) -> float:
    quantiles = predicted[:, :, None] * band.ratios[None, : predicted.shape[1]]
    seen = ~np.isnan(actual)
    scale = max(float(np.abs(actual[seen]).mean()), 1e-12)
    return pinball(actual[seen], quantiles[seen], FRACTIONS) / scale
