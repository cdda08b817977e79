"""Seasons and growth: the wave of the week, how much of the traffic it explains, and where the level is going."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.profile.series import SecondCounts

HOUR_S, DAY_S, WEEK_HOURS = 3600, 86400, 168
# 1970-01-01 was a Thursday; weeks here start on Monday.
MONDAY_SHIFT_HOURS = 3 * 24


@dataclass(frozen=True, kw_only=True)
class Season:
    """The wave of the day or week.

    `shape` is the mean rate of each hour of the period over the overall mean; an hour that was never seen
    whole is None. `strength_fraction` is the share of the hourly variance that the shape explains (Hyndman's
    measure); it needs two periods to be told from chance and is None before. The first hour of a week is
    Monday 00:00 UTC; without a calendar it is the trace's first hour and `calendar` is false.
    """

    period_hours: int
    periods: float
    calendar: bool
    shape: tuple[float | None, ...]
    strength_fraction: float | None
    peak_hour_index: int
    peak_ratio: float


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The trend of daily traffic: the middle of the slopes between equal weekdays, and their middle half."""

    days: int
    per_week_fraction: float
    low_per_week_fraction: float
    high_per_week_fraction: float


def season_of(counts: SecondCounts, *, first_s: float, last_s: float, calendar: bool) -> Season | None:
    """By hour of week from a week on, by hour of day from a day on, nothing below."""
    hours = counts.binned(HOUR_S, first_s, last_s)
    period = WEEK_HOURS if len(hours) >= WEEK_HOURS else 24
    if len(hours) < 24 or hours.sum() == 0:
        return None
    first_hour = math.ceil(first_s / HOUR_S)
    shift = (MONDAY_SHIFT_HOURS if period == WEEK_HOURS else 0) if calendar else -first_hour
    phase = (np.arange(len(hours)) + first_hour + shift) % period
    sums = np.bincount(phase, weights=hours, minlength=period)
    seen = np.bincount(phase, minlength=period)
    shape = np.where(seen > 0, sums / np.maximum(seen, 1), np.nan) / hours.mean()
    return Season(
        period_hours=period,
        periods=len(hours) / period,
        calendar=calendar,
        shape=tuple(None if math.isnan(value) else float(value) for value in shape),
        strength_fraction=_strength(hours, phase, shape * hours.mean()) if len(hours) >= 2 * period else None,
        peak_hour_index=int(np.nanargmax(shape)),
        peak_ratio=float(np.nanmax(shape)),
    )


def _strength(hours: NDArray[np.int64], phase: NDArray[np.int64], level: NDArray[np.float64]) -> float:
    rest = hours - level[phase]
    # Each hour of the period is a fitted mean, which takes its part of the residual with it.
    correction = len(hours) / (len(hours) - len(level))
    total = float(hours.var())
    return max(0.0, 1.0 - float(rest.var()) * correction / total) if total > 0 else 0.0


def growth_of(counts: SecondCounts, *, first_s: float, last_s: float) -> Growth | None:
    """Needs eight whole days: pairs of equal weekdays are compared, so that weekends are no decline."""
    days = counts.binned(DAY_S, first_s, last_s).astype(np.float64)
    if len(days) < 8 or (days <= 0).any():
        return None
    levels = np.log(days)
    slopes = np.concatenate(
        [(levels[weeks * 7 :] - levels[: -weeks * 7]) / weeks for weeks in range(1, (len(days) - 1) // 7 + 1)]
    )
    low, middle, high = np.expm1(np.quantile(slopes, (0.25, 0.5, 0.75)))
    return Growth(
        days=len(days),
        per_week_fraction=float(middle),
        low_per_week_fraction=float(low),
        high_per_week_fraction=float(high),
    )
