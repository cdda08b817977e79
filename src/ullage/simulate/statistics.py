"""The confidence of a simulated figure: replications, intervals, stopping rule.

Near saturation the noise of one run is larger than most effects one looks for, so figures come from several
independent runs, and two designs are compared on the same arrivals (common random numbers): a replication is
named by a seed, and the same seed makes the same load for every design.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ullage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate and the range that covers the truth in `confidence_fraction` of such experiments."""

    value: float
    low: float
    high: float
    confidence_fraction: float

    @property
    def relative_half_width_fraction(self) -> float:
        """Half the width over the value; infinite when the value is 0 and the interval is not a point."""
        half = (self.high - self.low) / 2
        return half / abs(self.value) if self.value else (0.0 if half == 0 else math.inf)


@dataclass(frozen=True, kw_only=True)
class Precision:
    """What the run-length rule found: the figure, how many replications it took, and whether it is narrow enough."""

    interval: Interval
    values: tuple[float, ...]
    wanted_fraction: float

    @property
    def is_reached(self) -> bool:
        return self.interval.relative_half_width_fraction <= self.wanted_fraction


@functools.lru_cache(maxsize=64)
def replication_seeds(seed: int, count: int) -> tuple[int, ...]:
    """Independent seeds, the first ones the same however many are drawn; a plan uses the same ones often."""
    return tuple(int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(count))


def mean_interval(values: Sequence[float], *, confidence_fraction: float = 0.95) -> Interval:
    """Student's interval for the mean of independent values."""
    count = len(values)
    _require_enough(count, 2)
    mean = statistics.fmean(values)
    half = t_quantile(0.5 + confidence_fraction / 2, count - 1) * statistics.stdev(values, mean) / math.sqrt(count)
    return Interval(value=mean, low=mean - half, high=mean + half, confidence_fraction=confidence_fraction)


def until_narrow(
    run: Callable[[int], float],
    *,
    seed: int,
    relative_half_width_fraction: float = 0.05,
    confidence_fraction: float = 0.95,
    least: int = 4,
    most: int = 64,
    map: Any = map,  # noqa: A002
) -> Precision:
    """Replicates until the interval is narrow enough, or says that after `most` replications it is not.

    Replications double from `least`. Looking at the interval between them makes it cover a little less often than
    it says; doubling keeps the looks, and with them the loss, few.
    """
    _require_enough(least, 2)
    seeds = replication_seeds(seed, most)
    values: list[float] = []
    while True:
        upto = min(most, max(least, 2 * len(values)))
        values += [float(each) for each in map(run, seeds[len(values) : upto])]
        found = Precision(
            interval=mean_interval(values, confidence_fraction=confidence_fraction),
            values=tuple(values),
            wanted_fraction=relative_half_width_fraction,
        )
        if found.is_reached or len(values) == most:
            return found


@functools.cache
def t_quantile(fraction: float, freedom: int) -> float:
    """Student's t quantile for a fraction of at least one half, by bisection on the distribution, a finite sum.

    >>> round(t_quantile(0.975, 10), 3), round(t_quantile(0.975, 1), 3)
    (2.228, 12.706)
    """
    odd = freedom % 2

    def share_up_to(limit: float) -> float:
        # Under x = sqrt(freedom) * tan(a) the density is cos(a) ** (freedom - 1), whose integral is known term by term.
        angle = math.atan(limit / math.sqrt(freedom))
        cosine, total, term = math.cos(angle), 0.0, math.cos(angle) if odd else 1.0
        for power in range(2 + odd, freedom + 1, 2):
            total, term = total + term, term * cosine**2 * (power - 1) / power
        return 0.5 + ((angle + math.sin(angle) * total) / math.pi if odd else math.sin(angle) * total / 2.0)

    low, high = 0.0, 1.0
    while share_up_to(high) < fraction:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share_up_to(middle) < fraction else (low, middle)
    return high


def _require_enough(count: int, least: int) -> None:
    if count < least:
        raise InputError(
            field="values", value=count, problem=f"is too few for an interval; {least} are needed", fix="Run longer."
        )
