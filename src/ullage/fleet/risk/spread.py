"""How far an input may be off: the logarithm of true over planned, as a table of quantiles by normal score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError

Floats = NDArray[np.float64]
_TENTH = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True, kw_only=True)
class RatioSpread:
    """Logarithms of the ratio at normal scores, both rising; straight between them and beyond the last two.

    Two points are a lognormal, three with the middle at 0 one that is wider on one side.
    """

    scores: tuple[float, ...]
    logs: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(one < other for one, other in zip(self.scores, self.scores[1:], strict=False))
        never_falling = all(one <= other for one, other in zip(self.logs, self.logs[1:], strict=False))
        if len(self.scores) < 2 or len(self.scores) != len(self.logs) or not (rising and never_falling):
            raise InputError(
                field="spread",
                value=(self.scores, self.logs),
                problem="is not a table of quantiles that rise",
                fix="Give at least two quantiles, the higher fraction with the higher value.",
            )

    def ratios(self, scores: Floats) -> Floats:
        """The ratio at each normal score.

        >>> lognormal(0.2).ratios(np.array([0.0, 1.0])).round(4).tolist()
        [1.0, 1.2214]
        """
        at, logs = np.array(self.scores), np.array(self.logs)
        found = np.interp(scores, at, logs)
        low, high = (logs[1] - logs[0]) / (at[1] - at[0]), (logs[-1] - logs[-2]) / (at[-1] - at[-2])
        found = np.where(scores < at[0], logs[0] + low * (scores - at[0]), found)
        return np.asarray(np.exp(np.where(scores > at[-1], logs[-1] + high * (scores - at[-1]), found)))

    def at(self, fraction: float) -> float:
        """The ratio that is exceeded with probability 1 - fraction."""
        return float(self.ratios(np.array([NormalDist().inv_cdf(fraction)]))[0])

    @property
    def deviation(self) -> float:
        """Half of what lies between the scores -1 and 1, of logarithms: the deviation where it is lognormal."""
        low, high = np.log(self.ratios(np.array([-1.0, 1.0]))).tolist()
        return float(high - low) / 2.0

    @property
    def is_exact(self) -> bool:
        return self.logs[0] == self.logs[-1]

    def narrowed(self, share: float) -> RatioSpread:
        """The same with every logarithm times so much: 0.5 halves the band."""
        return RatioSpread(scores=self.scores, logs=tuple(share * each for each in self.logs))


def lognormal(deviation: float) -> RatioSpread:
    """Off by so much up or down in one case of three."""
    return RatioSpread(scores=(-1.0, 1.0), logs=(-deviation, deviation))


def band_spread(fast_ratio: float, slow_ratio: float) -> RatioSpread:
    """Eight of ten lie between the two ratios, the other two beyond them, one on each side."""
    return RatioSpread(scores=(-_TENTH, 0.0, _TENTH), logs=(math.log(fast_ratio), 0.0, math.log(slow_ratio)))


def quantile_spread(quantiles: Mapping[float, float], middle: float) -> RatioSpread:
    """The spread around a middle of which quantiles are known, by their fractions."""
    known = sorted(quantiles.items())
    return RatioSpread(
        scores=tuple(NormalDist().inv_cdf(fraction) for fraction, _ in known),
        logs=tuple(np.maximum.accumulate([math.log(value / middle) for _, value in known]).tolist()),
    )
