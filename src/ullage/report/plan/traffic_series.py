"""What the pictures of a class's requests are drawn from: lengths that go together, and what a cache would hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.synthetic.model import ClassModel
from ullage.workload.synthetic.stream import BLOCK_TOKENS

# Half an octave a bin: a factor of 1.4, which is what an eye tells apart on a chart of some hundred pixels.
BINS_PER_OCTAVE = 2
# Fewer requests than this are no part of a picture; the tables have the tails.
_LEAST_FRACTION = 2e-4
_CACHE_POINTS = 25


@dataclass(frozen=True, kw_only=True)
class LengthGrid:
    """Requests of one class by prompt and output: a cell is both bins and its share of the requests.

    Bin b holds lengths from 2^(b / bins_per_octave) tokens on. `correlation_ratio` is between the ranks of the two.
    """

    name: str
    bins_per_octave: int
    cells: tuple[tuple[float, ...], ...]
    correlation_ratio: float


@dataclass(frozen=True, kw_only=True)
class CacheCurve:
    """The share of a class's prompt tokens that a cache of so many tokens would hold, shared by all its requests."""

    name: str
    cache_tokens: tuple[float, ...]
    hit_fractions: tuple[float, ...]


def length_grid(model: ClassModel) -> LengthGrid:
    """The pairs that the class's requests are drawn from, counted."""
    prompts, outputs = (_bins(each) for each in model.lengths.pairs())
    cells, counts = np.unique(np.stack([prompts, outputs], axis=1), axis=0, return_counts=True)
    shares = counts / counts.sum()
    return LengthGrid(
        name=model.name,
        bins_per_octave=BINS_PER_OCTAVE,
        cells=tuple(
            (int(cell[0]), int(cell[1]), float(f"{share:.3g}"))
            for cell, share in zip(cells.tolist(), shares.tolist(), strict=True)
            if share >= _LEAST_FRACTION
        ),
        correlation_ratio=model.lengths.rank_correlation_ratio,
    )


def _bins(tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.floor(BINS_PER_OCTAVE * np.log2(np.maximum(tokens, 1))).astype(np.int64)
    return found


def cache_curve(model: ClassModel, cached_fraction: float) -> CacheCurve | None:
    """The class's cached share by the size of the cache; None where the share is the same whatever the size.

    Shares and distances are drawn independently of each other, so that the curve is their product.
    """
    distances = np.asarray(model.reuse.distance_blocks, np.float64)
    if distances[-1] <= 0.0 or cached_fraction <= 0.0:
        return None
    # Between evenly spaced quantiles a distance is as likely as any other.
    places = np.linspace(0.0, 1.0, distances.size)
    blocks = np.geomspace(max(distances[0] / 2.0, 1.0), distances[-1] * 2.0, _CACHE_POINTS)
    reached = np.interp(blocks, distances, places, left=0.0)
    return CacheCurve(
        name=model.name,
        cache_tokens=tuple(float(f"{each:.3g}") for each in (blocks * BLOCK_TOKENS).tolist()),
        hit_fractions=tuple(float(f"{each:.4g}") for each in (cached_fraction * reached).tolist()),
    )
