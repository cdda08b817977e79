"""How long something takes, as three percentiles: a lognormal whose halves may be of different width.

    t(z) = p50 x (p50 / p10)^(z / 1.2816)   for z < 0
    t(z) = p50 x (p90 / p50)^(z / 1.2816)   for z >= 0,        z standard normal

so that p10, p50 and p90 are met exactly, and delays that are long on one side stay so. Beyond p10 and p90 the
tails are those of a lognormal, which no data here is large enough to test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError

_NORMAL = NormalDist()
Z90 = _NORMAL.inv_cdf(0.9)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """p10, p50 and p90 of a duration. All zero means that it does not happen.

    >>> Spread(low_s=5, median_s=10, high_s=40).at(np.array([-Z90, 0.0, Z90])).round(6).tolist()
    [5.0, 10.0, 40.0]
    """

    low_s: float
    median_s: float
    high_s: float

    def __post_init__(self) -> None:
        ordered = 0 < self.low_s <= self.median_s <= self.high_s < math.inf
        if not ordered and (self.low_s, self.median_s, self.high_s) != (0.0, 0.0, 0.0):
            raise InputError(
                field="duration",
                value=(self.low_s, self.median_s, self.high_s),
                problem="is not p10, p50 and p90 of a duration",
                fix="Give three positive numbers that do not fall, or three zeros.",
            )

    def at(self, deviates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The durations at these standard normal deviates."""
        below, above = self._widths()
        return self.median_s * np.exp(np.where(deviates < 0, below, above) * deviates)

    @property
    def mean_s(self) -> float:
        below, above = self._widths()
        lower = math.exp(below**2 / 2) * _NORMAL.cdf(-below)
        upper = math.exp(above**2 / 2) * _NORMAL.cdf(above)
        return self.median_s * (lower + upper)

    def times(self, factor: float) -> Spread:
        return Spread(low_s=self.low_s * factor, median_s=self.median_s * factor, high_s=self.high_s * factor)

    def _widths(self) -> tuple[float, float]:
        if self.median_s == 0:
            return 0.0, 0.0
        return math.log(self.median_s / self.low_s) / Z90, math.log(self.high_s / self.median_s) / Z90


def observed(samples_s: Sequence[float], *, repeat_ratio: float) -> Spread:
    """The spread of a few observations: their median, and at least the spread that repeats on one host have.

    >>> observed([10.0], repeat_ratio=1.25)
    Spread(low_s=8.0, median_s=10.0, high_s=12.5)
    """
    middle = median(samples_s)
    if middle == 0:
        return Spread(low_s=0.0, median_s=0.0, high_s=0.0)
    positive = [each for each in samples_s if each > 0]
    return Spread(
        low_s=min(*positive, middle / repeat_ratio),
        median_s=middle,
        high_s=max(*positive, middle * repeat_ratio),
    )
