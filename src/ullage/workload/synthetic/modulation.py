"""How much the rate itself varies, at every time scale: measured on counts, and carried by a stream.

Arrivals whose rate varies have counts more variable than Poisson's. With c(h) the covariance of the rate with itself
h seconds later, over its mean squared, windows of w seconds have

    variance / mean = 1 + rate * w * (2 / w) * integral from 0 to w of (1 - h / w) c(h) dh

c(h) is kept as a sum of triangles, c(h) = sum_j variances[j] (1 - h / scales_s[j])+, because that is the covariance of
a level that is constant over blocks of scales_s[j] seconds: the form in which streams carry it.

The season is no burst. `local_dispersion` therefore compares neighbouring windows, which a slow change cancels out of.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.workload.synthetic.stream import multiply_blocks

Floats = NDArray[np.float64]

# From the shortest burst that a queue feels to the longest that is not yet the season; each four times the last.
SCALES_S: tuple[float, ...] = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
# The widths at which profiles print dispersion.
WIDTHS_S: tuple[float, ...] = (1.0, 10.0, 60.0, 600.0)
# Fewer neighbouring pairs than this say nothing about a variance.
_LEAST_PAIRS = 12
# The season is taken as steady over this long when a variance is put in relation to the mean.
_STEADY_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Modulation:
    """The covariance of the rate with itself, as triangles; no variance at all is a Poisson process."""

    scales_s: tuple[float, ...] = SCALES_S
    variances: tuple[float, ...] = (0.0,) * len(SCALES_S)

    def covariance(self, lag_s: Floats) -> Floats:
        """c(h), relative to the mean rate squared."""
        covariance: Floats = _triangles(lag_s, np.array(self.scales_s)) @ np.array(self.variances)
        return covariance

    def dispersion(self, width_s: float, rate_rps: float) -> float:
        """Variance over mean of the counts of windows, around the season."""
        blocks = _window_covariance(np.array([width_s]), np.array(self.scales_s))
        return 1.0 + rate_rps * width_s * float((blocks @ np.array(self.variances))[0])


def measured(counts: NDArray[np.int64], width_s: float = 1.0) -> Modulation:
    """The modulation that explains these counts of consecutive windows, at every scale that they can show."""
    widths_s, excess = [], []
    binned, width = counts.astype(np.float64), width_s
    while binned.size > _LEAST_PAIRS and width <= SCALES_S[-1]:
        widths_s.append(width)
        excess.append(_relative_excess(binned, width))
        binned = binned[: binned.size // 2 * 2].reshape(-1, 2).sum(axis=1)
        width *= 2.0
    if not widths_s:
        return Modulation()
    scales = np.array([each for each in SCALES_S if each <= 2.0 * widths_s[-1]])
    # A step between neighbours holds twice the covariance inside a window less twice that inside a double window.
    at = np.array(widths_s)
    steps = 2.0 * (_window_covariance(at, scales) - _window_covariance(2.0 * at, scales))
    fitted = nonnegative_fit(steps, np.maximum(np.array(excess), 0.0))
    return Modulation(scales_s=tuple(scales.tolist()), variances=tuple(fitted.tolist()))


def from_dispersion(ratio_at_s: Mapping[float, float], *, rate_rps: float, season_variance: float) -> Modulation:
    """The modulation behind variance-over-mean ratios at some widths, once the season has taken its part of them.

    Season and bursts multiply, so 1 + relative variance does too: 1 + (ratio - 1) / (rate w) is the season's times the
    bursts'. What no season explains, such as the slow wave of an hour's trace, counts as a burst.
    """
    widths_s = np.array(sorted(ratio_at_s))
    ratios = np.array([ratio_at_s[width] for width in widths_s.tolist()])
    beyond = (1.0 + (ratios - 1.0) / (rate_rps * widths_s)) / (1.0 + season_variance) - 1.0
    fitted = nonnegative_fit(_window_covariance(widths_s, np.array(SCALES_S)), np.maximum(beyond, 0.0))
    return Modulation(variances=tuple(fitted.tolist()))


def shared_coins(modulation: Modulation) -> Floats:
    """For each scale, the probability that two requests whose smallest common block has it share a coin.

    Thinning to a share r keeps variance over mean at every width when pairs at distance h share one coin with
    probability k(h) = c(h) / (1 + c(h)), whatever r is: (1 + c)(r^2 + r (1 - r) k) - r^2 = r c. The blocks are
    nested, so k(h) = sum_j s_j (1 - h / scale_j)+ is reached by sharing with probability s_j + s_j+1 + ... at scale j.
    """
    scales = np.array(modulation.scales_s)
    lags_s = _lags(scales)
    covariance = modulation.covariance(lags_s)
    steps = nonnegative_fit(_triangles(lags_s, scales), covariance / (1.0 + covariance))
    return np.minimum(1.0, np.cumsum(steps[::-1])[::-1])


def drawn_levels(modulation: Modulation, cells: int, cell_s: float, rng: Generator) -> Floats:
    """A positive level of mean one for each cell: the product of log-normal levels over randomly placed blocks.

    The product has 1 + c(h) = prod_j (1 + v_j (1 - h / scale_j)+). log(1 + c) is fitted by triangles u_j, and
    v_j = exp(u_j) - 1: exact at h = 0, and close elsewhere.
    """
    levels = np.ones(cells)
    for together, root, half in _blocks(modulation, cell_s):
        first = int(rng.integers(together))
        drawn = rng.standard_normal(cells // together + 2)
        drawn *= root
        drawn -= half
        np.exp(drawn, out=drawn)
        multiply_blocks(levels, drawn, together, first)
    return levels


@functools.lru_cache(maxsize=64)
def _blocks(modulation: Modulation, cell_s: float) -> tuple[tuple[int, float, float], ...]:
    """Cells of a block at every scale that varies, and of its logarithm the deviation and minus the mean.

    The logarithm has variance u_j and mean -u_j / 2, so that the level has mean one. They are the same for every seed,
    and streams are drawn for many.
    """
    return tuple(
        (max(1, round(scale_s / cell_s)), math.sqrt(exponent), exponent / 2.0)
        for scale_s, exponent in zip(modulation.scales_s, _exponents(modulation), strict=True)
        if exponent > 1e-9
    )


def _exponents(modulation: Modulation) -> tuple[float, ...]:
    """The triangles u_j of a modulation."""
    scales = np.array(modulation.scales_s)
    lags_s = _lags(scales)
    fitted = nonnegative_fit(_triangles(lags_s, scales), np.log1p(modulation.covariance(lags_s)))
    return tuple(fitted.tolist())


def nonnegative_fit(columns: Floats, target: Floats, rounds: int = 400) -> Floats:
    """Weights >= 0 of non-negative columns that come near a non-negative target, in relative error.

    Multiplicative updates: they need no solver, cannot leave the positive side, and stop anywhere usefully.
    """
    highest = float(target.max(initial=0.0))
    if highest <= 0.0:
        return np.zeros(columns.shape[1])
    # An error at a small value counts as much as one at a large value, down to a fiftieth of the highest.
    scale = 1.0 / np.maximum(target, 0.02 * highest)
    scaled, aim = columns * scale[:, None], target * scale
    weights = np.full(columns.shape[1], highest / columns.shape[1])
    gram, pull = scaled.T @ scaled, scaled.T @ aim
    for _ in range(rounds):
        weights = weights * pull / np.maximum(gram @ weights, 1e-300)
    return weights


def _relative_excess(binned: Floats, width_s: float) -> float:
    """The steps' variance beyond Poisson's, over the square of the season's mean."""
    together = min(binned.size, max(1, round(_STEADY_S / width_s)))
    whole = binned[: binned.size // together * together].reshape(-1, together)
    season = np.mean(np.square(whole.mean(axis=1)))
    beyond = np.mean(np.square(np.diff(binned))) / 2.0 - binned.mean()
    return float(beyond / season) if season > 0.0 else 0.0


def _lags(scales_s: Floats) -> Floats:
    return np.concatenate([[0.0], np.geomspace(scales_s[0] / 4.0, scales_s[-1] * 0.9, 40)])


def _triangles(lag_s: Floats, scales_s: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - lag_s[:, None] / scales_s[None, :])


def _window_covariance(width_s: Floats, scales_s: Floats) -> Floats:
    """The mean of a triangle over the lags inside a window: (2 / w) integral of (1 - h / w)(1 - h / s)+ dh."""
    ratio = width_s[:, None] / scales_s[None, :]
    wide = np.maximum(ratio, 1.0)
    return np.where(ratio <= 1.0, 1.0 - ratio / 3.0, 1.0 / wide - 1.0 / (3.0 * wide * wide))
