"""The rolling backtest: every forecaster, from every past origin, against observation; the least pinball loss wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.workload.forecast.error_model import FRACTIONS, ErrorModel, PastErrors, error_model
from ullage.workload.forecast.point_forecasts import DAY_S, NAIVE, STEADY, Floats, Forecaster, Grid, Past
from ullage.workload.forecast.scores import Scores, pinball, scores, wape

# Origins that are tried: enough for the tails of a band, few enough that a fit of two months stays under 0.1 s.
MOST_ORIGINS = 42
# What the days of a week differ by, in logarithms, where their difference has not been seen: weekends at four fifths to
# one half of working days, which is what published weeks of chat and coding services show.
_UNSEEN_WEEK = 0.2
# Fewer than this a day apart, and origins are taken closer together.
_ENOUGH_ORIGINS = 7
# An origin needs a season behind it; where there is not even one, half of what there is.
_LEAST_SHARE = 0.5
# Errors lie in blocks of a day from this many days of history on, before that in so many blocks of what there is.
_BLOCK_DAYS, _LEAST_BLOCKS = 2.5, 6
# Outcomes that the contest is decided on: more than these are thinned evenly.
_MOST_OUTCOMES = 3000


@dataclass(frozen=True, kw_only=True, eq=False)
class BacktestRun:
    """One forecaster over all origins, the errors it made, and its loss over the mean demand."""

    name: str
    predicted: Floats
    errors: ErrorModel
    pinball_ratio: float
    wape_fraction: float
    held_fraction: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Backtest:
    """All forecasters over the same origins: `actual` has a row for each origin and a column for each tested lead.

    `fair_origins` are those that had seen a whole season: only from them an error is one of the kind that the forecast
    itself can make. `unseen_ratio` is the deviation that was added for what the history is too short to show.
    """

    past: Past
    actual: Floats
    fair_origins: NDArray[np.bool_]
    apart_steps: int
    steps: int
    unseen_ratio: float
    runs: tuple[BacktestRun, ...]

    @property
    def naive(self) -> BacktestRun:
        return next(run for run in self.runs if run.name == NAIVE)

    @property
    def winner(self) -> BacktestRun:
        """The least loss; the steady level where no origin had seen a season, since a contest there is about seasons
        that were not known yet."""
        if self.is_fair:
            return min(self.runs, key=lambda run: run.pinball_ratio)
        return next((run for run in self.runs if run.name == STEADY), self.naive)

    @property
    def is_fair(self) -> bool:
        """Whether past origins had what the forecast itself has: a season behind them, and a day ahead."""
        return bool(
            (~np.isnan(self.actual[self.fair_origins])).any(axis=0).sum() >= max(1, self.past.grid.day_steps // 2)
        )

    def held_out(self, run: BacktestRun, *, nominal_fraction: float, rng: Generator) -> Scores | None:
        """Scores on the later origins with a band from the earlier ones; None where there are too few of either.

        Origins whose outcomes overlap are one block of the bootstrap, as far as three blocks are left.
        """
        origins = np.flatnonzero(self.fair_origins)
        half = origins.size // 2
        early, late = origins[:half], origins[half:]
        outcomes = int((~np.isnan(self.actual[late])).sum())
        if half < _ENOUGH_ORIGINS // 2 or outcomes == 0:
            return None
        errors = _errors(self, run.name, run.predicted, early)
        leads = self.actual.shape[1]
        step_s, block = self.past.grid.step_s, np.arange(leads) // errors.block_steps
        quantiles = errors.quantiles(run.predicted[late] * step_s, block) / step_s
        overlapping = leads * -(-leads // self.apart_steps)
        return scores(
            self.actual[late].reshape(-1),
            quantiles.reshape(-1, FRACTIONS.size),
            FRACTIONS,
            nominal_fraction=nominal_fraction,
            block=max(1, min(overlapping, outcomes // 3)),
            rng=rng,
        )


def backtest(past: Past, steps: int, forecasters: Mapping[str, Forecaster]) -> Backtest:
    """Forecast from past origins with what was known there."""
    history, grid = past.history, past.grid
    origins, apart_steps = origins_of(history.size, grid)
    leads = min(steps, history.size - int(origins[0]))
    actual = np.full((origins.size, leads), np.nan)
    for row, origin in enumerate(origins.tolist()):
        came = history[origin : origin + leads]
        actual[row, : came.size] = came
    found = Backtest(
        past=past,
        actual=actual,
        fair_origins=origins >= grid.season_steps,
        apart_steps=apart_steps,
        steps=steps,
        unseen_ratio=_UNSEEN_WEEK if history.size * grid.step_s < 7 * DAY_S else 0.0,
        runs=(),
    )
    pasts = [Past(history=history[:origin], grid=grid) for origin in origins.tolist()]
    runs = tuple(
        _run(found, name, np.stack([forecaster(each, leads) for each in pasts]))
        for name, forecaster in forecasters.items()
    )
    return replace(found, runs=runs)


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


def _run(test: Backtest, name: str, predicted: Floats) -> BacktestRun:
    predicted = np.maximum(predicted, 0.0)
    fair = np.flatnonzero(test.fair_origins)
    errors = _errors(test, name, predicted, fair)
    # Where no origin had seen a season, the contest is held among the others: better a poor one than none.
    rows = fair if fair.size and (~np.isnan(test.actual[fair])).any() else np.arange(test.actual.shape[0])
    actual = test.actual[rows]
    leads = actual.shape[1]
    seen = np.flatnonzero(~np.isnan(actual).reshape(-1))
    seen = seen[:: -(-seen.size // _MOST_OUTCOMES)] if seen.size else seen
    came, expected = actual.reshape(-1)[seen], predicted[rows].reshape(-1)[seen]
    block = seen % leads // errors.block_steps
    step_s = test.past.grid.step_s
    quantiles = errors.quantiles(expected * step_s, block) / step_s
    low, high = quantiles[:, 2], quantiles[:, -3]
    return BacktestRun(
        name=name,
        predicted=predicted,
        errors=errors,
        pinball_ratio=pinball(came, quantiles, FRACTIONS) / max(float(np.abs(came).mean()), 1e-12),
        wape_fraction=wape(came, expected),
        held_fraction=float(((came >= low) & (came <= high)).mean()),
    )


def _errors(test: Backtest, name: str, predicted: Floats, rows: NDArray[np.int64]) -> ErrorModel:
    past = test.past
    # All but the naive one carry growth on: only its deviation is left to add.
    growth = past.growth if name == NAIVE else replace(past.growth, weekly_fraction=0.0)
    grid, step_s = past.grid, past.grid.step_s
    size = past.history.size
    block_steps = grid.day_steps if size >= _BLOCK_DAYS * grid.day_steps else max(1, size // _LEAST_BLOCKS)
    return error_model(
        PastErrors(
            observed=test.actual[rows] * step_s,
            predicted=predicted[rows] * step_s,
            apart_steps=test.apart_steps,
            block_steps=block_steps,
        ),
        _fitted(past, block_steps),
        step_s=step_s,
        steps=test.steps,
        growth=growth,
        seasons=max(1.0, size / grid.season_steps),
        season_blocks=max(1, grid.season_steps // block_steps),
        unseen_deviation=test.unseen_ratio,
    )


def _fitted(past: Past, block_steps: int) -> PastErrors:
    """The history block by block, against the plain season at each block's own level."""
    step_s, shape = past.grid.step_s, past.plain_shape
    blocks = past.history.size // block_steps
    slot = (np.arange(past.history.size) - past.history.size) % shape.size
    size = (blocks, block_steps)
    return PastErrors(
        observed=past.history[past.history.size - blocks * block_steps :].reshape(size) * step_s,
        predicted=shape[slot][past.history.size - blocks * block_steps :].reshape(size),
        apart_steps=block_steps,
        block_steps=block_steps,
    )
