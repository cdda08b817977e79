"""Lengths: prompt, output, cached and reasoning tokens, alone with their tails and together on one grid.

Means mislead here twice: a few long requests carry much of the work, and long prompts and long answers go
together or apart. So a profile keeps exact quantiles, the share of the longest, and the joint grid from which
pairs can be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.profile.series import Distribution, ValueCounts
from ullage.workload.profile.summary import JointCounts

LONGEST_FRACTION = 0.01


@dataclass(frozen=True, kw_only=True)
class JointLengths:
    """Requests on a grid of lengths; a cell is one bin index a column, then the number of requests.

    Bin b holds lengths from 2^(b/bins_per_octave); -1 is a length of 0 and -2 an unknown one.
    """

    columns: tuple[str, ...]
    bins_per_octave: int
    cells: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class LengthProfile:
    """Lengths of one part of a trace; None where the source does not know them.

    `*_longest_fraction` is the share of all tokens that the longest 1 % of requests carry; about 1 % where all
    are alike. `correlation_ratio` is between the logarithms of prompt and output, from the joint grid. `are_means`
    marks lengths that are means of windows or clients: their quantiles are not those of requests.
    """

    prompt_tokens: Distribution | None
    output_tokens: Distribution | None
    cached_tokens: Distribution | None
    reasoning_tokens: Distribution | None
    prompt_longest_fraction: float | None
    output_longest_fraction: float | None
    cached_prompt_fraction: float | None
    reasoning_output_fraction: float | None
    correlation_ratio: float | None
    joint: JointLengths | None
    are_means: bool


def lengths_of(
    counts: Mapping[str, ValueCounts], joint: JointCounts | None, *, are_means: bool = False
) -> LengthProfile:
    """All that is known about these lengths."""
    found = {column: each.distribution("tokens") for column, each in counts.items()}
    return LengthProfile(
        prompt_tokens=found.get("prompt_tokens"),
        output_tokens=found.get("output_tokens"),
        cached_tokens=found.get("cached_tokens"),
        reasoning_tokens=found.get("reasoning_tokens"),
        prompt_longest_fraction=_longest(counts.get("prompt_tokens")),
        output_longest_fraction=_longest(counts.get("output_tokens")),
        cached_prompt_fraction=_share(counts, "cached_tokens", "prompt_tokens"),
        reasoning_output_fraction=_share(counts, "reasoning_tokens", "output_tokens"),
        correlation_ratio=_correlation(joint),
        joint=None if joint is None else _plain(joint),
        are_means=are_means,
    )


def _longest(counts: ValueCounts | None) -> float | None:
    if counts is None or counts.total == 0:
        return None
    tokens = float((counts.values * counts.counts).sum())
    if tokens <= 0:
        return None
    left = LONGEST_FRACTION * counts.total
    carried = 0.0
    for value, count in zip(counts.values[::-1].tolist(), counts.counts[::-1].tolist(), strict=True):
        taken = min(left, count)
        carried += taken * value
        left -= taken
        if left <= 0:
            break
    return carried / tokens


def _share(counts: Mapping[str, ValueCounts], part: str, whole: str) -> float | None:
    if part not in counts or whole not in counts:
        return None
    total = float((counts[whole].values * counts[whole].counts).sum())
    return float((counts[part].values * counts[part].counts).sum()) / total if total > 0 else None


def _correlation(joint: JointCounts | None) -> float | None:
    if joint is None:
        return None
    known = (joint.cells[:, 0] >= 0) & (joint.cells[:, 1] >= 0)
    weights = joint.counts[known].astype(np.float64)
    if weights.sum() < 2:
        return None
    spread = _covariance(joint.cells[known][:, :2].astype(np.float64), weights)
    product = spread[0, 0] * spread[1, 1]
    return float(spread[0, 1] / math.sqrt(product)) if product > 0 else None


def _covariance(points: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = points - np.average(points, axis=0, weights=weights)
    moments: NDArray[np.float64] = (centred * weights[:, None]).T @ centred / weights.sum()
    return moments


def _plain(joint: JointCounts) -> JointLengths:
    rows = np.c_[joint.cells, joint.counts].tolist()
    return JointLengths(
        columns=joint.columns, bins_per_octave=joint.bins_per_octave, cells=tuple(tuple(row) for row in rows)
    )
