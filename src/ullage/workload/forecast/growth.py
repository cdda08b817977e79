"""Growth by the week: what is thought of any service before its weeks were seen, and what they make of it.

Most services grow little; one in five grows by some percent a week, a few do anything. One normal opinion wide enough
for those that grow plans every other service for growth it does not have, and one that is narrow misses them. So the
opinion has parts, each normal, and the weeks on record decide between the parts as well as within them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_WEEK_S = 7 * 86_400.0
# What is thought before weeks were seen, in logarithms a week: bench/CHOICES.md has how these were chosen.
_MOSTLY_LITTLE, _SOME_GROW, _A_FEW_ANY = (0.75, 0.0, 0.01), (0.20, 0.053, 0.015), (0.05, 0.0, 0.06)
# What the levels of two weeks differ by without growth, in logarithms, and how many weeks' evidence that is worth.
_WEEK_DEVIATION, _WEEK_WITNESSES = 0.04, 2.0
# Whether growth goes on is not in any past: so much of it is added to its deviation.
_MAY_CHANGE = 0.15
# Growth goes on half as fast after so many weeks.
_DAMPED_WEEKS = 26.0
# Halvings that find the middle of an opinion to far below what matters.
_HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class GrowthPart:
    """One normal part of an opinion on growth: how likely it is, its middle and its deviation."""

    share_fraction: float
    weekly_fraction: float
    deviation_fraction: float


@dataclass(frozen=True, kw_only=True)
class DampedGrowth:
    """Log growth a week: its middle, the half that lies above as likely as not, and `parts` around that middle."""

    weekly_fraction: float
    parts: tuple[GrowthPart, ...]

    @cached_property
    def deviation_fraction(self) -> float:
        """The deviation around the middle of all parts together."""
        return math.sqrt(
            sum(each.share_fraction * (each.weekly_fraction**2 + each.deviation_fraction**2) for each in self.parts)
        )

    def drawn(self, futures: int, rng: Generator) -> Floats:
        """What growth differs by from its middle, a draw a future; each part has its share of the futures."""
        last = np.cumsum([each.share_fraction for each in self.parts])
        place = (rng.permutation(futures) + 0.5) / futures
        part = np.minimum(np.searchsorted(last, place), len(self.parts) - 1)
        middles = np.array([each.weekly_fraction for each in self.parts])
        deviations = np.array([each.deviation_fraction for each in self.parts])
        found: Floats = middles[part] + deviations[part] * rng.standard_normal(futures)
        return found


def growth_of(levels: Floats, at_weeks: Floats, by_chance: float) -> DampedGrowth:
    """What the levels of weeks make of the opinion; counting gives the logarithm of a level the variance `by_chance`.

    The levels wander by what is left around a line through them, weighed against what weeks usually differ by. How
    likely each part is goes by how well it foresaw the line's slope.
    """
    if levels.size < 2 or (levels <= 0.0).any():
        return _around_middle(_before_any_week())
    logs, centred = np.log(levels), at_weeks - at_weeks.mean()
    squares = float(centred @ centred)
    slope = float(centred @ logs) / squares
    rest = logs - logs.mean() - slope * centred
    spread = (_WEEK_WITNESSES * _WEEK_DEVIATION**2 + float(rest @ rest)) / (_WEEK_WITNESSES + levels.size - 2.0)
    return _around_middle(_after(_before_any_week(), slope, (spread + by_chance) / squares))


def most_doubt() -> float:
    """The deviation of growth before any week was seen: a record that no line fits shows no more of it than none."""
    return _around_middle(_before_any_week()).deviation_fraction


def _before_any_week() -> list[GrowthPart]:
    return [
        GrowthPart(share_fraction=share, weekly_fraction=middle, deviation_fraction=deviation)
        for share, middle, deviation in (_MOSTLY_LITTLE, _SOME_GROW, _A_FEW_ANY)
    ]


def _after(parts: list[GrowthPart], slope: float, variance: float) -> list[GrowthPart]:
    """The parts once a slope was seen that is off by so much: normal, each in closed form."""
    fits = []
    for part in parts:
        foreseen = part.deviation_fraction**2 + variance
        away = slope - part.weekly_fraction
        fits.append(math.log(part.share_fraction) - 0.5 * (math.log(foreseen) + away * away / foreseen))
    likely = [math.exp(each - max(fits)) for each in fits]
    found = []
    for part, each in zip(parts, likely, strict=True):
        kept = part.deviation_fraction**2 / (part.deviation_fraction**2 + variance)
        found.append(
            GrowthPart(
                share_fraction=each / sum(likely),
                weekly_fraction=part.weekly_fraction + kept * (slope - part.weekly_fraction),
                deviation_fraction=part.deviation_fraction * math.sqrt(1.0 - kept),
            )
        )
    return found


def _around_middle(parts: list[GrowthPart]) -> DampedGrowth:
    """The middle of all parts, found by halving, and the parts around it, each as wide as growth that may change."""
    wide = [
        GrowthPart(
            share_fraction=each.share_fraction,
            weekly_fraction=each.weekly_fraction,
            deviation_fraction=math.hypot(each.deviation_fraction, _MAY_CHANGE * each.weekly_fraction),
        )
        for each in parts
    ]
    low, high = min(each.weekly_fraction for each in wide), max(each.weekly_fraction for each in wide)
    laws = [
        (each.share_fraction, NormalDist(each.weekly_fraction, max(each.deviation_fraction, 1e-12))) for each in wide
    ]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = sum(share * law.cdf(middle) for share, law in laws)
        low, high = (middle, high) if below < 0.5 else (low, middle)
    middle = round(0.5 * (low + high), 9)
    return DampedGrowth(
        weekly_fraction=middle,
        parts=tuple(
            GrowthPart(
                share_fraction=each.share_fraction,
                weekly_fraction=each.weekly_fraction - middle,
                deviation_fraction=each.deviation_fraction,
            )
            for each in wide
        ),
    )


def damped_weeks(ahead_s: Floats) -> Floats:
    """Growth goes on, ever more slowly: the weeks that it is worth."""
    rate = np.log(2.0) / _DAMPED_WEEKS
    ahead: Floats = (1.0 - np.exp(-rate * ahead_s / _WEEK_S)) / rate
    return ahead
