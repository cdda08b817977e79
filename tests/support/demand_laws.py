"""Demand series of a known law, to test forecasts against what really comes."""

from __future__ import annotations

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
