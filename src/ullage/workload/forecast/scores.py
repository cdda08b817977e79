"""How good a forecast was: error, bias, and whether its bands were as wide as they had to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Of a forecast against observed demand. Pinball and CRPS are over the mean demand, so that series compare.

    `coverage_low_fraction` and `coverage_high_fraction` bound the coverage itself: blocks of time are drawn again with
    replacement, since hours that follow each other are not separate witnesses.
    """

    wape_fraction: float
    bias_fraction: float
    pinball_ratio: float
    crps_ratio: float
    coverage_fraction: float
    coverage_low_fraction: float
    coverage_high_fraction: float
    nominal_fraction: float
    observations: int


def wape(actual: Floats, predicted: Floats) -> float:
    """Sum of absolute errors over sum of demand.

    >>> wape(np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    0.5
    """
    return float(np.abs(actual - predicted).sum() / max(float(np.abs(actual).sum()), 1e-12))


def bias(actual: Floats, predicted: Floats) -> float:
    """Sum of errors over sum of demand: positive where too much was forecast."""
    return float((predicted - actual).sum() / max(float(np.abs(actual).sum()), 1e-12))


def pinball(actual: Floats, quantiles: Floats, fractions: Floats) -> float:
    """Mean over quantiles of the loss that the right quantile makes least: `quantiles` has a last axis of fractions."""
    error = actual[..., None] - quantiles
    return float(np.maximum(fractions * error, (fractions - 1.0) * error).mean())


def crps(actual: Floats, quantiles: Floats, fractions: Floats) -> float:
    """The continuous ranked probability score, as twice the pinball loss integrated over the fractions.

    With evenly spaced fractions k / (n + 1) this is the mean over them; the tails beyond the outermost are left out.
    """
    return 2.0 * pinball(actual, quantiles, fractions)


def coverage_interval(inside: Floats, block: int, rng: Generator, draws: int = 1000) -> tuple[float, float]:
    """Where the coverage of a longer test would lie in 95 of 100 cases: circular block bootstrap."""
    size = inside.size
    blocks = max(1, -(-size // block))
    starts = rng.integers(0, size, size=(draws, blocks))
    around = np.concatenate([[0.0], np.cumsum(np.concatenate([inside, inside[: block - 1]]))])
    width = min(block, size)
    means = (around[starts + width] - around[starts]).sum(axis=1) / (blocks * width)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def scores(
    actual: Floats, quantiles: Floats, fractions: Floats, *, nominal_fraction: float, block: int, rng: Generator
) -> Scores:
    """All of them, in the order of time; rows whose outcome is unknown (NaN) are left out."""
    seen = ~np.isnan(actual)
    actual, quantiles = actual[seen], quantiles[seen]
    middle = quantiles[:, np.argmin(np.abs(fractions - 0.5))]
    low = quantiles[:, np.argmin(np.abs(fractions - (1.0 - nominal_fraction) / 2.0))]
    high = quantiles[:, np.argmin(np.abs(fractions - (1.0 + nominal_fraction) / 2.0))]
    inside = ((actual >= low) & (actual <= high)).astype(np.float64)
    least, most = coverage_interval(inside, block, rng)
    scale = max(float(np.abs(actual).mean()), 1e-12)
    return Scores(
        wape_fraction=wape(actual, middle),
        bias_fraction=bias(actual, middle),
        pinball_ratio=pinball(actual, quantiles, fractions) / scale,
        crps_ratio=crps(actual, quantiles, fractions) / scale,
        coverage_fraction=float(inside.mean()),
        coverage_low_fraction=least,
        coverage_high_fraction=most,
        nominal_fraction=nominal_fraction,
        observations=int(actual.size),
    )
