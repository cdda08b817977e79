"""Demand series of a known law, to test forecasts against what really comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.forecast.demand_series import DemandSeries


def known_law(seed: int, weeks: int, *, growth: float = 0.01, deviation: float = 0.15) -> NDArray[np.float64]:
    """Hourly rates: a day's wave, calmer weekends, a level that wanders for two days, growth, noise, Poisson counts."""
    rng = np.random.default_rng(seed)
    hours = np.arange(weeks * 168)
    season = (1.0 + 0.6 * np.sin(2.0 * np.pi * (hours % 24 - 9) / 24)) * np.where(hours // 24 % 7 >= 5, 0.6, 1.0)
    follow = 0.98
    steps = rng.standard_normal(hours.size) * deviation * np.sqrt(1.0 - follow**2)
    level = np.empty(hours.size)
    level[0] = rng.standard_normal() * deviation
    for hour in range(1, hours.size):
        level[hour] = follow * level[hour - 1] + steps[hour]
    mean = 500.0 * season * np.exp(level + growth * hours / 168 + 0.05 * rng.standard_normal(hours.size))
    return rng.poisson(mean) / 3600.0


def hourly(values: NDArray[np.float64], *, start_s: float = 0.0, name: str = "chat") -> DemandSeries:
    return DemandSeries(name=name, unit="req/s", start_s=start_s, step_s=3600.0, values=values)


def local_dispersion(counts: NDArray[np.int64]) -> float:
    """Half the mean squared step between neighbouring windows, over the mean count: 1 for Poisson, season or not."""
    mean = float(counts.mean())
    return float(np.mean(np.square(np.diff(counts.astype(np.float64))))) / (2.0 * mean) if mean > 0.0 else 1.0


@dataclass(frozen=True, kw_only=True)
class PlanningLaw:
    """A law of demand to plan for: expected requests of each hour, a level that wanders for a day, noise, Poisson."""

    name: str
    season: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    requests: Callable[[np.random.Generator], float]
    wander: float
    noise: float
    weekly_growth: float = 0.0

    def draw(
        self, seed: int, *, weeks: int, ahead_hours: int, futures: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A history of hourly rates, and several futures (rows) that each go on from where it ends."""
        ((history, came),) = self.draw_classes(seed, classes=1, weeks=weeks, ahead_hours=ahead_hours, futures=futures)
        return history, came

    def draw_classes(
        self, seed: int, *, classes: int, weeks: int, ahead_hours: int, futures: int, shared_fraction: float = 0.0
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Classes of this law whose levels have so much of their variance in common."""
        rng = np.random.default_rng(seed)
        known_hours, mean = weeks * 168, self.requests(rng)
        hours = np.arange(known_hours + ahead_hours)
        expected = mean * self.season(hours) * np.exp(np.log1p(self.weekly_growth) * (hours - known_hours) / 168)
        walks = []
        for _ in range(classes + 1 if shared_fraction else classes):
            past = self._level(rng, np.full(1, rng.standard_normal()), known_hours)
            walks.append((past, self._level(rng, np.repeat(past[:, -1], futures), ahead_hours)))
        found = []
        for own in walks[:classes]:
            sides = []
            for side, part in enumerate((slice(0, known_hours), slice(known_hours, None))):
                level = own[side]
                if shared_fraction:
                    level = np.sqrt(1.0 - shared_fraction) * level + np.sqrt(shared_fraction) * walks[-1][side]
                noise = self.noise * rng.standard_normal(level.shape)
                sides.append(rng.poisson(expected[part] * np.exp(self.wander * level + noise)) / 3600.0)
            found.append((sides[0][0], sides[1]))
        return found

    @staticmethod
    def _level(rng: np.random.Generator, start: NDArray[np.float64], hours: int) -> NDArray[np.float64]:
        """A level of deviation one that forgets itself within a day or so."""
        kept = 0.96
        steps = rng.standard_normal((hours, start.size)) * np.sqrt(1.0 - kept**2)
        for hour in range(hours):
            start = steps[hour] = kept * start + steps[hour]
        levels: NDArray[np.float64] = steps.T
        return levels


def _wave(hours: NDArray[np.int64]) -> NDArray[np.float64]:
    return (1.0 + 0.6 * np.sin(2.0 * np.pi * (hours % 24 - 9) / 24)) * np.where(hours // 24 % 7 >= 5, 0.6, 1.0)


def _office(hours: NDArray[np.int64]) -> NDArray[np.float64]:
    day = (hours % 24 >= 8) & (hours % 24 < 18)
    return np.where(day & (hours // 24 % 7 < 5), 1.0, np.where(day, 0.03, 0.0002))


PLANNING_LAWS = (
    PlanningLaw(name="diurnal", season=_wave, requests=lambda rng: 500.0, wander=0.08, noise=0.05),
    PlanningLaw(name="business hours", season=_office, requests=lambda rng: 1800.0, wander=0.06, noise=0.1),
    PlanningLaw(
        name="intermittent", season=_wave, requests=lambda rng: float(5.0 * 8.0 ** rng.random()), wander=0.1, noise=0.3
    ),
    PlanningLaw(name="growing", season=_wave, requests=lambda rng: 500.0, wander=0.05, noise=0.05, weekly_growth=0.05),
)
