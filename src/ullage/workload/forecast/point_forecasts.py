"""Point forecasts: the season's shape times a level that returns to its mean, and the naive ones to beat.

Every forecaster is a function of a history that ends where the forecast begins: `history` holds equally spaced demand,
NaN where nothing was observed, and the answer has `steps` values. Slots of the season are counted from the
forecast's first step, so that nothing here knows a calendar, and moving the clock by whole seasons changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How time is divided: a step, the steps of a day, and the steps of the season.

    The season is a week as soon as one was seen, a day before that, and nothing before the first day is over.
    """

    step_s: float
    day_steps: int
    season_steps: int


def grid_of(step_s: float, size: int) -> Grid:
    """The grid of a history of so many steps."""
    day_steps = max(1, round(DAY_S / step_s))
    week_steps = 7 * day_steps
    season_steps = week_steps if size >= week_steps else day_steps if size > day_steps else 1
    return Grid(step_s=step_s, day_steps=day_steps, season_steps=season_steps)


Forecaster = Callable[[Floats, Grid, int], Floats]

# A season below this share of its mean is not told from nothing; dividing by it would invent levels.
_LEAST_FACTOR = 0.02
# Shape and level are fitted in turn until gaps no longer move them; twice is enough for gaps of any length.
_ROUNDS = 2


def seasonal_naive(history: Floats, grid: Grid, steps: int) -> Floats:
    """What was seen at the same place of the last season in which that place was seen."""
    rows = _rows(history, grid.season_steps)
    filled = np.full(grid.season_steps, np.nan)
    for row in rows:
        filled = np.where(np.isnan(row), filled, row)
    return _repeated(np.where(np.isnan(filled), _mean(history), filled), steps)


def shape_and_level(
    history: Floats, grid: Grid, steps: int, *, level_s: float, recent_s: float | None = None, grows: bool = False
) -> Floats:
    """season x level(lead) x growth(lead).

    `level_s` is the half-life over which the level is averaged. With `recent_s`, the level starts from the average of
    the last such time and returns to the long one with half-life 4 x recent_s: what is unusual now wears off.
    """
    shape = _shape(history, grid)
    lead = np.arange(1, steps + 1, dtype=np.float64)
    level = np.full(steps, _level(history, shape, level_s / grid.step_s))
    if recent_s is not None:
        recent = _level(history, shape, recent_s / grid.step_s)
        level = level + (recent - level) * np.exp2(-lead * grid.step_s / (4.0 * recent_s))
    if grows:
        level = level * np.exp(_growth(history, shape, grid) * _damped(lead / grid.season_steps))
    found: Floats = _repeated(shape, steps) * level
    return found


def _repeated(season: Floats, steps: int) -> Floats:
    return season[np.arange(steps) % season.size]


def _rows(history: Floats, season_steps: int) -> Floats:
    """Whole seasons, the last ending with the history; the first is filled up with NaN."""
    seasons = max(1, -(-history.size // season_steps))
    padded = np.full(seasons * season_steps, np.nan)
    padded[padded.size - history.size :] = history
    return padded.reshape(seasons, season_steps)


def _shape(history: Floats, grid: Grid) -> Floats:
    """The season's factors, mean one: each slot's own mean, drawn towards day x hour factors while seasons are few."""
    rows = _rows(history, grid.season_steps)
    seen = ~np.isnan(rows)
    values = np.where(seen, rows, 0.0)
    shape = np.ones(grid.season_steps)
    for _ in range(_ROUNDS):
        # Each season is put in relation to its own level, so that growth is not taken for a season.
        level = values.sum(axis=1) / np.maximum((seen * shape).sum(axis=1), 1e-12)
        known = seen.sum(axis=1) > grid.season_steps // 10
        weight = np.where(known & (level > 0.0), 1.0, 0.0)[:, None] * seen
        ratio = values / np.maximum(level, 1e-12)[:, None]
        own = _weighted(ratio, weight, shape)
        shape = _pooled(own, weight.sum(axis=0), grid)
    found: Floats = np.maximum(shape / shape.mean(), _LEAST_FACTOR)
    return found


def _weighted(ratio: Floats, weight: Floats, otherwise: Floats) -> Floats:
    total = weight.sum(axis=0)
    return np.where(total > 0.0, (ratio * weight).sum(axis=0) / np.maximum(total, 1e-12), otherwise)


def _pooled(own: Floats, times_seen: Floats, grid: Grid) -> Floats:
    if grid.season_steps % grid.day_steps or grid.season_steps == grid.day_steps:
        return own
    seen = times_seen.reshape(-1, grid.day_steps)
    by_day = own.reshape(-1, grid.day_steps) * seen
    hour = by_day.sum(axis=0) / np.maximum(seen.sum(axis=0), 1e-12)
    hour = np.where(seen.sum(axis=0) > 0.0, hour, 1.0)
    # A day that was never seen is taken for an average one.
    expected = seen @ hour
    day = np.where(expected > 0.0, by_day.sum(axis=1) / np.maximum(expected, 1e-12), 1.0)
    trust = times_seen / (times_seen + 1.0)
    pooled: Floats = trust * own + (1.0 - trust) * np.outer(day, hour).reshape(-1)
    return pooled


def _level(history: Floats, shape: Floats, half_life_steps: float) -> float:
    """Demand over expected shape, both with weights that halve every half-life back from the end."""
    age = np.arange(history.size - 1, -1, -1, dtype=np.float64)
    expected = shape[(-1 - age.astype(np.int64)) % shape.size]
    weight = np.exp2(-np.minimum(age / half_life_steps, 60.0)) * ~np.isnan(history)
    under = float(weight @ expected)
    return float(weight @ np.nan_to_num(history)) / under if under > 0.0 else _mean(history)


def _growth(history: Floats, shape: Floats, grid: Grid) -> float:
    """Log growth a season, from the levels of whole seasons: least squares, drawn to 0 as far as it may be chance."""
    rows = _rows(history, grid.season_steps)
    seen = ~np.isnan(rows)
    enough = seen.sum(axis=1) > grid.season_steps // 2
    levels = np.where(seen, rows, 0.0).sum(axis=1)[enough] / (seen * shape).sum(axis=1)[enough]
    at = np.flatnonzero(enough).astype(np.float64)
    if levels.size < 4 or (levels <= 0.0).any():
        return 0.0
    logs = np.log(levels)
    centred = at - at.mean()
    slope = float(centred @ logs / (centred @ centred))
    rest = logs - logs.mean() - slope * centred
    variance = float(rest @ rest) / (levels.size - 2) / float(centred @ centred)
    return slope * slope * slope / (slope * slope + variance) if variance > 0.0 else slope


def _damped(seasons_ahead: Floats) -> Floats:
    """Growth goes on, ever more slowly: half as fast after every 26 seasons."""
    rate = np.log(2.0) / 26.0
    ahead: Floats = (1.0 - np.exp(-rate * seasons_ahead)) / rate
    return ahead


def _mean(history: Floats) -> float:
    seen = history[~np.isnan(history)]
    return float(seen.mean()) if seen.size else 0.0


NAIVE = "seasonal naive"
# The candidates among which a rolling backtest chooses; the naive one is always shown beside the winner.
FORECASTERS: Mapping[str, Forecaster] = {
    NAIVE: seasonal_naive,
    "shape, steady level": partial(shape_and_level, level_s=28 * DAY_S),
    "shape, weekly level": partial(shape_and_level, level_s=5 * DAY_S),
    "shape, weekly level, recent hours": partial(shape_and_level, level_s=5 * DAY_S, recent_s=DAY_S / 8),
    "shape, daily level": partial(shape_and_level, level_s=DAY_S),
    "shape, steady level, growth": partial(shape_and_level, level_s=14 * DAY_S, recent_s=DAY_S / 8, grows=True),
}
