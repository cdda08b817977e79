"""Point forecasts: the season's shape times a level that returns to its mean, and the naive ones to beat.

Every forecaster is a function of a past that ends where the forecast begins: its `history` holds equally spaced demand,
NaN where nothing was observed, and the answer has `steps` values. Slots of the season are counted from the
forecast's first step, so that nothing here knows a calendar, and moving the clock by whole seasons changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

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


# Where nothing came, half a request may have been expected in all the times one looked.
_LEAST_REQUESTS = 0.5
# Shape and level are fitted in turn until gaps no longer move them; twice is enough for gaps of any length.
_ROUNDS = 2
# Neighbouring steps of the day lend each other their mean by these weights, as far as their difference may be chance.
_NEIGHBOURS: Floats = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9.0
# Of a step's squared chance this share is left between it and the mean that its neighbours lend it.
_OWN_CHANCE = float(1.0 - 2.0 * _NEIGHBOURS[2] + _NEIGHBOURS @ _NEIGHBOURS)
# What an hour differs by from its own mean, in logarithms, before one was seen twice.
_STEP_DEVIATION = 0.1
# What growth a week is thought to be before any was seen: none, give or take this, in logarithms. A service that grows
# by half in a quarter, or shrinks by a third, lies within it.
GROWTH_DEVIATION = 0.0328
# Weeks that were seen are weighed against a flatter opinion, so that growth that is there shows earlier.
_FLAT_DEVIATION = 0.047
# What the levels of two weeks differ by without growth, in logarithms, and how many weeks' evidence that is worth.
_WEEK_DEVIATION, _WEEK_WITNESSES = 0.03, 2.0
# Whether growth goes on is not in any past: so much of it is added to its deviation.
_MAY_CHANGE = 0.2
# Growth goes on half as fast after so many weeks.
_DAMPED_WEEKS = 52.0


@dataclass(frozen=True, kw_only=True)
class DampedGrowth:
    """Log growth a week: its middle, drawn to 0 as far as it may be chance, and the deviation that is left."""

    weekly_fraction: float
    deviation_fraction: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Past:
    """What a forecaster knows: a history and its grid. What several of them need is computed once."""

    history: Floats
    grid: Grid

    @cached_property
    def shape(self) -> Floats:
        """The season's factors, mean one."""
        return _season(self)[0]

    @cached_property
    def plain_shape(self) -> Floats:
        """Day x hour factors alone, without what single hours of the week add: it cannot repeat the noise it saw."""
        return _season(self)[1]

    @cached_property
    def expected(self) -> Floats:
        """The season's factor at each step of the history."""
        size = self.history.size
        return np.tile(self.shape, -(-size // self.shape.size))[-size:]

    @cached_property
    def growth(self) -> DampedGrowth:
        return _growth(self)


Forecaster = Callable[[Past, int], Floats]


def seasonal_naive(past: Past, steps: int) -> Floats:
    """What was seen at the same place of the last season in which that place was seen."""
    rows = _rows(past.history, past.grid.season_steps)
    filled = np.full(past.grid.season_steps, np.nan)
    for row in rows:
        filled = np.where(np.isnan(row), filled, row)
    return _repeated(np.where(np.isnan(filled), _mean(past.history), filled), steps)


def shape_and_level(past: Past, steps: int, *, level_s: float, recent_s: float | None = None) -> Floats:
    """season x level(lead) x growth(lead).

    `level_s` is the half-life over which the level is averaged. With `recent_s`, the level starts from the average of
    the last such time and returns to the long one with half-life 4 x recent_s: what is unusual now wears off.
    """
    grid = past.grid
    weekly = past.growth.weekly_fraction
    lead = np.arange(1, steps + 1, dtype=np.float64)
    level = np.full(steps, _level(past, level_s / grid.step_s, weekly))
    if recent_s is not None:
        recent = _level(past, recent_s / grid.step_s, weekly)
        level = level + (recent - level) * np.exp2(-lead * grid.step_s / (4.0 * recent_s))
    if weekly:
        level = level * np.exp(weekly * damped_weeks(lead * grid.step_s))
    found: Floats = _repeated(past.shape, steps) * level
    return found


def damped_weeks(ahead_s: Floats) -> Floats:
    """Growth goes on, ever more slowly: the weeks that it is worth."""
    rate = np.log(2.0) / _DAMPED_WEEKS
    ahead: Floats = (1.0 - np.exp(-rate * ahead_s / (7.0 * DAY_S))) / rate
    return ahead


def _repeated(season: Floats, steps: int) -> Floats:
    return season[np.arange(steps) % season.size]


def _rows(history: Floats, season_steps: int) -> Floats:
    """Whole seasons, the last ending with the history; the first is filled up with NaN."""
    seasons = max(1, -(-history.size // season_steps))
    padded = np.full(seasons * season_steps, np.nan)
    padded[padded.size - history.size :] = history
    return padded.reshape(seasons, season_steps)


def _season(past: Past) -> tuple[Floats, Floats]:
    """Each slot's own mean, drawn towards day x hour factors as far as its difference from them may be chance."""
    grid = past.grid
    rows = _rows(past.history, grid.season_steps)
    seen = ~np.isnan(rows)
    values = np.where(seen, rows, 0.0)
    known = seen.sum(axis=1) > grid.season_steps // 10
    shape = plain = times_seen = np.ones(grid.season_steps)
    one_request = 0.0
    for _ in range(_ROUNDS):
        # Each season is put in relation to its own level, so that growth is not taken for a season.
        level = values.sum(axis=1) / np.maximum((seen * shape).sum(axis=1), 1e-12)
        weight = np.where(known & (level > 0.0), 1.0, 0.0)[:, None] * seen
        ratio = values / np.maximum(level, 1e-12)[:, None]
        times_seen = weight.sum(axis=0)
        own = np.where(times_seen > 0.0, (ratio * weight).sum(axis=0) / np.maximum(times_seen, 1.0), shape)
        # Counts of mean n differ by sqrt(n): in units of the level this is the squared chance of one look at a slot.
        one_request = 1.0 / max(float(level[known].mean()) * grid.step_s, 1e-12) if known.any() else 0.0
        if grid.season_steps % grid.day_steps or grid.season_steps == grid.day_steps:
            shape = plain = _smoothed(own, float((own * one_request / np.maximum(times_seen, 1.0)).mean()))
        else:
            repeats = float(np.maximum(times_seen - 1.0, 0.0).sum())
            spread = float((weight * np.square(ratio - own)).sum()) / repeats if repeats else None
            shape, plain = _pooled(own, times_seen, spread, one_request, grid)
    least = _LEAST_REQUESTS * one_request / np.maximum(times_seen, 1.0)
    return np.maximum(shape / shape.mean(), least), np.maximum(plain / plain.mean(), least)


def _smoothed(day: Floats, chance: float) -> Floats:
    """The day's curve, its neighbours lending where what tells them apart may be chance."""
    if day.size < 2 * _NEIGHBOURS.size:
        return day
    around = np.concatenate([day[-2:], day, day[:2]])
    lent = np.convolve(around, _NEIGHBOURS, mode="valid")
    apart = float(np.square(day - lent).mean())
    trust = max(0.0, 1.0 - _OWN_CHANCE * chance / apart) if apart > 0.0 else 1.0
    found: Floats = trust * day + (1.0 - trust) * lent
    return found


def _pooled(
    own: Floats, times_seen: Floats, spread: float | None, one_request: float, grid: Grid
) -> tuple[Floats, Floats]:
    """Slots drawn to day x hour, and day x hour alone. `spread` is the squared difference of a slot between seasons."""
    seen = times_seen.reshape(-1, grid.day_steps)
    by_day = own.reshape(-1, grid.day_steps) * seen
    days_seen = seen.sum(axis=0)
    hour = np.where(days_seen > 0.0, by_day.sum(axis=0) / np.maximum(days_seen, 1e-12), 1.0)
    known = times_seen > 0.0
    chance = max(one_request, spread or 0.0)
    hour = _smoothed(hour, float((hour * chance / np.maximum(days_seen, 1.0)).mean()))
    # A day that was never seen is taken for an average one.
    expected = seen @ hour
    day = np.where(expected > 0.0, by_day.sum(axis=1) / np.maximum(expected, 1e-12), 1.0)
    plain: Floats = np.outer(day, hour).reshape(-1)
    apart = float(np.square(own - plain)[known].mean()) if known.any() else 0.0
    looks = np.maximum(times_seen, 1.0)
    by_chance = float((own * one_request / looks)[known].mean()) if known.any() else 0.0
    if spread is None:
        # A season that was seen once does not tell a slot's own factor from its noise: that of any service is assumed.
        by_chance += _STEP_DEVIATION**2 * float(np.square(plain[known]).mean()) if known.any() else 0.0
    else:
        by_chance = max(by_chance, float((spread / looks)[known].mean()))
    own_variance = max(0.0, apart - by_chance)
    one_look = by_chance * float(looks[known].mean()) if known.any() else 0.0
    under = own_variance * times_seen + one_look
    trust = np.where(known, own_variance * times_seen / np.maximum(under, 1e-300), 0.0) if apart > 0.0 else 1.0 * known
    pooled: Floats = trust * own + (1.0 - trust) * plain
    return pooled, plain


def _level(past: Past, half_life_steps: float, weekly_growth: float = 0.0) -> float:
    """Demand over expected shape, both with weights that halve every half-life back from the end."""
    # Weights that have halved twenty times no longer count.
    history = past.history[-max(1, int(20.0 * half_life_steps)) :]
    age = np.arange(history.size - 1, -1, -1, dtype=np.float64)
    seen = ~np.isnan(history)
    expected = past.expected[-history.size :]
    if weekly_growth:
        expected = expected * np.exp(age * (-weekly_growth * past.grid.step_s / (7.0 * DAY_S)))
    weight = np.exp2(age / -half_life_steps) * seen
    under = float(weight @ expected)
    return float(weight @ np.where(seen, history, 0.0)) / under if under > 0.0 else _mean(history)


def _growth(past: Past) -> DampedGrowth:
    """Least squares through the levels of weeks, weighed against what was thought before (a normal prior)."""
    grid, unknown = past.grid, DampedGrowth(weekly_fraction=0.0, deviation_fraction=GROWTH_DEVIATION)
    if grid.season_steps != 7 * grid.day_steps:
        return unknown
    rows = _rows(past.history, grid.season_steps)
    seen = ~np.isnan(rows)
    enough = seen.sum(axis=1) > grid.season_steps // 2
    requests = np.where(seen, rows, 0.0).sum(axis=1)[enough]
    levels = requests / (seen * past.shape).sum(axis=1)[enough]
    if levels.size < 2 or (levels <= 0.0).any():
        return unknown
    logs, at = np.log(levels), np.flatnonzero(enough).astype(np.float64)
    centred = at - at.mean()
    squares = float(centred @ centred)
    slope = float(centred @ logs) / squares
    rest = logs - logs.mean() - slope * centred
    freedom = levels.size - 2.0
    spread = (_WEEK_WITNESSES * _WEEK_DEVIATION**2 + float(rest @ rest)) / (_WEEK_WITNESSES + freedom)
    variance = (spread + float((1.0 / (requests * grid.step_s)).mean())) / squares
    prior = _FLAT_DEVIATION**2
    weekly = slope * prior / (prior + variance)
    left = prior * variance / (prior + variance)
    deviation = math.hypot(min(math.sqrt(left), GROWTH_DEVIATION), _MAY_CHANGE * weekly)
    return DampedGrowth(weekly_fraction=weekly, deviation_fraction=deviation)


def _mean(history: Floats) -> float:
    seen = history[~np.isnan(history)]
    return float(seen.mean()) if seen.size else 0.0


NAIVE, STEADY = "seasonal naive", "shape, steady level"
# The candidates among which a rolling backtest chooses; the naive one is always shown beside the winner.
FORECASTERS: Mapping[str, Forecaster] = {
    NAIVE: seasonal_naive,
    STEADY: partial(shape_and_level, level_s=28 * DAY_S),
    "shape, steady level, recent hours": partial(shape_and_level, level_s=28 * DAY_S, recent_s=DAY_S / 8),
    "shape, weekly level": partial(shape_and_level, level_s=5 * DAY_S),
    "shape, weekly level, recent hours": partial(shape_and_level, level_s=5 * DAY_S, recent_s=DAY_S / 8),
    "shape, daily level": partial(shape_and_level, level_s=DAY_S),
}
