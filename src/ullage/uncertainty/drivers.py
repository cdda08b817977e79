"""Drivers: which inputs explain the spread of an outcome, by Sobol's indices with intervals.

For independent inputs in groups, with A and B two sets of draws and AB_i the first with group i taken from the second,

    first order  S_i = mean(f(B) (f(AB_i) - f(A))) / V          the part of the variance that i explains by itself
    total        T_i = mean((f(A) - f(AB_i))^2) / (2 V)         the part that would vanish if i were known

(Saltelli 2010 and Jansen 1999). Intervals come from resampling the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.fleet.risk.quasi_random import sobol_points

Floats = NDArray[np.float64]

CONFIDENCE_FRACTION = 0.9
_RESAMPLES = 200


@dataclass(frozen=True, kw_only=True)
class SobolDriver:
    """One input: the part of the spread it explains alone, and with what it does together with others."""

    name: str
    first_fraction: float
    first_low_fraction: float
    first_high_fraction: float
    total_fraction: float
    total_low_fraction: float
    total_high_fraction: float


def sobol_drivers(
    outcome: Callable[[Floats], Floats], groups: Sequence[str], *, count: int, seed: int
) -> tuple[SobolDriver, ...]:
    """The drivers of `outcome`, a function of rows of the unit cube, the largest total first.

    `groups` names each column; columns of one name are one driver. An outcome that never changes has none.
    """
    columns = len(groups)
    rng = np.random.default_rng((seed, 31))
    both = sobol_points(count, 2 * columns, rng)
    one, other = both[:, :columns], both[:, columns:]
    first, second = outcome(one), outcome(other)
    if np.concatenate([first, second]).var() <= 0.0:
        return ()
    centre = np.concatenate([first, second]).mean()
    mixed = {}
    for name in dict.fromkeys(groups):
        own = [at for at, each in enumerate(groups) if each == name]
        swapped = one.copy()
        swapped[:, own] = other[:, own]
        mixed[name] = outcome(swapped) - centre
    found = [_driver(name, first - centre, second - centre, each, rng) for name, each in mixed.items()]
    return tuple(sorted(found, key=lambda each: -each.total_fraction))


def _driver(name: str, first: Floats, second: Floats, mixed: Floats, rng: np.random.Generator) -> SobolDriver:
    rows = rng.integers(0, first.size, (_RESAMPLES, first.size))
    again = _indices(first[rows], second[rows], mixed[rows])
    outside = 50.0 * (1.0 - CONFIDENCE_FRACTION)
    low, high = (np.percentile(again, each, axis=1) for each in (outside, 100.0 - outside))
    alone, total = _indices(first[None], second[None], mixed[None])[:, 0]
    return SobolDriver(
        name=name,
        first_fraction=float(alone),
        first_low_fraction=float(low[0]),
        first_high_fraction=float(high[0]),
        total_fraction=float(total),
        total_low_fraction=float(low[1]),
        total_high_fraction=float(high[1]),
    )


def _indices(first: Floats, second: Floats, mixed: Floats) -> Floats:
    """First order and total, for each row of resampled outcomes."""
    # A resample in which nothing differs explains nothing.
    variance = np.maximum(np.concatenate([first, second], axis=1).var(axis=1), 1e-300)
    alone = (second * (mixed - first)).mean(axis=1) / variance
    total = np.square(first - mixed).mean(axis=1) / (2.0 * variance)
    return np.stack([alone, total])
