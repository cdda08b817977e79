"""Whether a load can be sustained, judged by the trend of the backlog while requests arrive.

In a stable system as many requests end as arrive over a long window, and the number in the system (Little's law: rate
x time in system) has no trend. A load beyond capacity leaves a backlog that grows with the length of the run, so any
percentile of it measures the length of the simulation and nothing else. Such a load gets a verdict and no percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.statistics import Interval, t_quantile

# One run: three requests in a hundred that do not leave are a trend where the backlog also rises from third to third
# and by a quarter in all. On the built-in mix none of 100 runs passes this at 70 % of saturation, and one at 90 %.
RUN_GROWTH_FRACTION = 0.03
RUN_GROWTH_RATIO = 1.25
# Several runs together: one in a hundred.
MEAN_GROWTH_FRACTION = 0.01
# Less than one request more at the end than at the beginning is no queue, however few requests there were.
LEAST_GROWTH_REQUESTS = 1.0


@dataclass(frozen=True, kw_only=True)
class Drift:
    """One run between warm-up and last arrival. `growth_fraction` is the share of arrivals that stayed behind.

    `backlog_requests` is the mean number in the system in each third of the window.
    """

    offered_rps: float
    ended_rps: float
    growth_fraction: float
    backlog_requests: tuple[float, float, float]

    @property
    def is_growing(self) -> bool:
        first, _, last = self.backlog_requests
        rises = all(low < high for low, high in pairwise(self.backlog_requests))
        return (
            rises
            and self.growth_fraction > RUN_GROWTH_FRACTION
            and last > max(RUN_GROWTH_RATIO * first, first + LEAST_GROWTH_REQUESTS)
        )


@dataclass(frozen=True, kw_only=True)
class Instability:
    """Why a load is not sustained; `growth` is the share of arrivals that stays behind, over replications."""

    reason: str
    growth: Interval

    @property
    def is_decided(self) -> bool:
        return self.growth.low > 0.0


def drift(
    at_s: NDArray[np.float64], outstanding: NDArray[np.float64], *, arrivals: int, from_s: float, until_s: float
) -> Drift:
    """The drift of one run, from samples of the number in the system; `arrivals` are those of the window.

    >>> rising = drift(np.arange(1.0, 101.0), np.arange(100.0), arrivals=1000, from_s=10.0, until_s=100.0)
    >>> rising.is_growing, round(rising.growth_fraction, 3)
    (True, 0.09)
    """
    inside = (at_s > from_s) & (at_s <= until_s)
    watched = outstanding[inside]
    # The first thirds have one sample more where three do not divide them.
    edges = [0, *(place * (watched.size // 3) + min(place, watched.size % 3) for place in (1, 2, 3))]
    parts = [watched[low:high] for low, high in pairwise(edges)]
    thirds = [float(part.mean()) if part.size else 0.0 for part in parts]
    window_s = until_s - from_s
    offered_rps = arrivals / window_s
    # The middles of the first and the last third lie two thirds of the window apart.
    growth_rps = (thirds[2] - thirds[0]) / (window_s * 2 / 3)
    return Drift(
        offered_rps=offered_rps,
        ended_rps=offered_rps - growth_rps,
        growth_fraction=growth_rps / offered_rps if arrivals else 0.0,
        backlog_requests=(thirds[0], thirds[1], thirds[2]),
    )


def instability(drifts: Sequence[Drift], weights: NDArray[np.float64] | None = None) -> Instability | None:
    """The verdict over windows of one load; None where it is sustained. `weights` are those of the windows.

    The burden of proof lies with the load: growth that the windows cannot tell from none is not sustained either, and
    the reason says so. `is_decided` tells whether more windows could change the verdict.
    """
    weight = np.full(len(drifts), 1.0 / len(drifts)) if weights is None else weights
    growths = np.array([each.growth_fraction for each in drifts])
    mean = float(weight @ growths)
    # Windows of unequal weight tell as much as so many of equal weight.
    alike = 1.0 / float(np.square(weight).sum())
    half = t_quantile(0.975, max(len(drifts) - 1, 1)) * math.sqrt(float(weight @ np.square(growths - mean)) / alike)
    growth = Interval(value=mean, low=mean - half, high=mean + half, confidence_fraction=0.95)
    growing = float(weight @ np.array([each.is_growing for each in drifts]))
    thirds = (weight @ np.array([each.backlog_requests for each in drifts])).tolist()
    if growth.value > MEAN_GROWTH_FRACTION and thirds[2] - thirds[0] > LEAST_GROWTH_REQUESTS:
        stays = f"{growth.value:.1%} of what arrives stays behind"
        proof = "" if growth.low > 0.0 else f", too uncertain in {len(drifts)} windows to call it sustained"
        return Instability(reason=stays + proof, growth=growth)
    if growing > 0.5:
        return Instability(reason=f"the backlog grows in {growing:.0%} of {len(drifts)} windows", growth=growth)
    return None
