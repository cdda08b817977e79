"""Numbers of very many replicas told together: what is missed falls along a line, and every number tried is on it.

One number of very many is a small step from the next, and what the windows of one tell is as uncertain as the step is
wide. But the logarithm of what is missed falls nearly as a straight line over that of the number, and numbers that are
tried have windows of their own. So each is judged by the line through all that were tried near it: some four times the
windows at no more cost, and a verdict that does not hang on which windows one number met.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ullage.service.trial.decide import Decision, Judged, are_decided

# A line through so few points has a prior: what is missed falls about six times as fast as the number grows.
_STEEPNESS, _STEEPNESS_ERROR = 6.0, 3.0
# Numbers farther apart than this lie on a curve.
_FAR_FRACTION = 0.05

Floats = NDArray[np.float64]


def on_line(tried: Mapping[int, Decision], replicas: int) -> Decision:
    """What the numbers that were tried say of one of them, or of one near them that was not.

    Where it is unstable it stays so, and a share that one of them does not miss at all is the mean of all.
    """
    near = {
        each: found
        for each, found in tried.items()
        if found.instability is None and abs(math.log(each / replicas)) <= _FAR_FRACTION
    }
    nearest = min(tried, key=lambda each: (abs(each - replicas), each))
    own = tried[nearest]
    if own.instability is not None or nearest not in near:
        return own
    judged = _judged(own.judged, list(near.values()), [math.log(each / replicas) for each in near])
    return replace(
        own,
        judged=judged,
        is_decided=are_decided([each.distance for each in judged]),
        beside_windows=sum(found.sample.count for found in near.values()) - own.sample.count,
    )


def _judged(own: Sequence[Judged], found: Sequence[Decision], offsets: Sequence[float]) -> tuple[Judged, ...]:
    """Every share where the line through those of numbers so far from this one passes it."""
    missed, error, common = (
        np.array([[getattr(one, name) for one in each.judged] for each in found])
        for name in ("missed_fraction", "error_fraction", "common_fraction")
    )
    own_variance = np.maximum(np.square(error) - np.square(common), 0.0)
    # As many windows each tell one error better together than each its own.
    share, variance = missed.mean(axis=0), own_variance.mean(axis=0) / len(found)
    is_lined = ((missed > 0.0) & (own_variance > 0.0) & np.isfinite(error)).all(axis=0)
    rows = np.flatnonzero(is_lined)
    share[rows], variance[rows] = _lined(missed[:, rows], own_variance[:, rows], np.array(offsets))
    shared = np.divide(common.mean(axis=0) * share, missed.mean(axis=0), out=np.zeros_like(share), where=share > 0.0)
    told = np.stack([share, np.sqrt(variance + np.square(shared)), shared], axis=1).tolist()
    return tuple(
        replace(each, missed_fraction=one, error_fraction=other, common_fraction=same)
        for each, (one, other, same) in zip(own, told, strict=True)
    )


def _lined(missed: Floats, variance: Floats, offset: Floats) -> tuple[Floats, Floats]:
    """Where the line through the logarithms passes an offset of nothing, and its variance there; a column a share.

    Least squares of a level and a slope, to whose sums the prior of the slope is one more row.
    """
    relative = (variance / np.square(missed)).mean(axis=0)
    prior = relative / _STEEPNESS_ERROR**2
    logs, count = np.log(missed), len(offset)
    middle, last = offset.sum(), np.square(offset).sum() + prior
    room = count * last - middle**2
    level = (last * logs.sum(axis=0) - middle * (offset @ logs - prior * _STEEPNESS)) / room
    share = np.minimum(np.exp(level), 1.0)
    return share, np.square(share) * relative * last / room
