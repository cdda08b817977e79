"""The inputs of a plan as production showed them: each as a ratio to what the plan expects, with its interval.

A ratio is taken day by day, and their scatter is its uncertainty. An input has drifted where its interval and a
tolerance leave 1 outside; it holds where they do not; it is unknown where production was not seen or cannot say.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.statistics import t_quantile

Floats = NDArray[np.float64]
DAY_S = 86_400.0
# Less than this moves no plan that anybody buys by, and no monitoring is exact to it.
TOLERANCE_FRACTION = 0.05
_CONFIDENCE = 0.975
# A stretch too short for days is cut into so many parts; consecutive ones share the level that they wander around.
_PARTS, _PARTS_WIDER = 8, 2.0
_LEAST_DAYS = 2


class DriftCause(enum.StrEnum):
    """What a plan can be wrong about, in the order in which observed inputs are put in."""

    TRAFFIC = "traffic"
    MIX = "mix"
    LENGTHS = "lengths"
    CACHE = "cache hits"
    STEPS = "step times"
    FAILURES = "failures"
    READY = "time to ready"
    PRICES = "prices"


class InputVerdict(enum.StrEnum):
    """What production says of an assumption."""

    HOLDS = "holds"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ObservedRatio:
    """Observed over expected, and where the ratio of a longer stretch would lie in 95 of 100 cases."""

    value: float
    low: float
    high: float
    days: int

    @property
    def verdict(self) -> InputVerdict:
        off = abs(math.log(self.value)) > math.log1p(TOLERANCE_FRACTION) if self.value > 0.0 else True
        excludes = self.low > 1.0 or self.high < 1.0
        return InputVerdict.DRIFTED if off and excludes else InputVerdict.HOLDS


@dataclass(frozen=True, kw_only=True)
class DriftInputs:
    """Everything a plan is evaluated again with, as ratios to its own; these defaults are the plan itself."""

    traffic_ratio: float = 1.0
    class_ratios: Mapping[str, float] = field(default_factory=dict)
    prompt_ratio: float = 1.0
    output_ratio: float = 1.0
    cached_ratio: float = 1.0
    step_ratio: float = 1.0
    more_failures_per_year: float = 0.0
    failed_fraction: float | None = None
    ready_ratio: float = 1.0
    price_ratio: float = 1.0

    def only(self, causes: frozenset[DriftCause]) -> DriftInputs:
        """The plan's own inputs but for these groups."""
        kept = {name: getattr(self, name) for cause in causes for name in GROUPS[cause]}
        return replace(DriftInputs(), **kept)

    @property
    def causes(self) -> tuple[DriftCause, ...]:
        """Groups in which anything differs from the plan."""
        own = DriftInputs()
        return tuple(
            cause for cause, names in GROUPS.items() if any(getattr(self, each) != getattr(own, each) for each in names)
        )


GROUPS: dict[DriftCause, tuple[str, ...]] = {
    DriftCause.TRAFFIC: ("traffic_ratio",),
    DriftCause.MIX: ("class_ratios",),
    DriftCause.LENGTHS: ("prompt_ratio", "output_ratio"),
    DriftCause.CACHE: ("cached_ratio",),
    DriftCause.STEPS: ("step_ratio",),
    DriftCause.FAILURES: ("more_failures_per_year", "failed_fraction"),
    DriftCause.READY: ("ready_ratio",),
    DriftCause.PRICES: ("price_ratio",),
}


def ratio_by_day(over: Floats, under: Floats, at_s: Floats) -> ObservedRatio | None:
    """The sum of one series over that of another, and the scatter of days; None where they were never seen together.

    A stretch of fewer days is cut into parts, which are more alike than days are: their scatter counts twice.
    """
    seen = np.isfinite(over) & np.isfinite(under)
    if not seen.any() or float(under[seen].sum()) <= 0.0:
        return None
    value = float(over[seen].sum() / under[seen].sum())
    found = _scatter(over[seen], under[seen], np.floor(at_s[seen] / DAY_S), value)
    wider = 1.0
    if found is None:
        span_s = float(np.ptp(at_s)) or 1.0
        part = np.minimum(np.floor((at_s[seen] - at_s.min()) / span_s * _PARTS), _PARTS - 1)
        found, wider = _scatter(over[seen], under[seen], part, value), _PARTS_WIDER
    if found is None:
        # A single part has no scatter to judge by: half of what it is off may be chance.
        return ObservedRatio(value=value, low=min(value, 1.0), high=max(value, 1.0), days=1)
    reach, count = wider * found[0], found[1]
    return ObservedRatio(value=value, low=max(0.0, value - reach), high=value + reach, days=count)


def _scatter(over: Floats, under: Floats, part: Floats, value: float) -> tuple[float, int] | None:
    """How far the ratio of sums may be off by the scatter of its parts, and how many of them there are."""
    parts = np.unique(part)
    tops, bottoms = (np.array([each[part == one].sum() for one in parts]) for each in (over, under))
    full = bottoms > 0.1 * float(np.median(bottoms))
    tops, bottoms = tops[full], bottoms[full]
    if tops.size < _LEAST_DAYS:
        return None
    # The error of a ratio of sums, by its residuals.
    residuals = tops - value * bottoms
    error = float(np.std(residuals, ddof=1)) / (float(bottoms.mean()) * math.sqrt(tops.size))
    return t_quantile(_CONFIDENCE, tops.size - 1) * error, int(tops.size)
