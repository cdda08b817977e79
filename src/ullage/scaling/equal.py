"""Our rule where nobody is to wait longer than under another rule: the highest threshold that attains as much.

Where bursts are shorter than a start, every replica that is let go costs some attainment at every load, so that a rule
which hardly scales attains most. As much is therefore meant as far as a day can tell: on the mean of the days it is
chosen on, less is attained by at most the half width of the interval, of which a fifth is kept free for other weeks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ullage.scaling.judged import RuleResult
from ullage.scaling.loop import ScalingPool, ScalingTraffic
from ullage.scaling.plan import RuleChoice
from ullage.scaling.played import played
from ullage.scaling.published_rules import IN_FLIGHT
from ullage.scaling.rules import ScalingRule
from ullage.scaling.search import KEPT_FRACTION, STEP_RATIO, WINDOWS_S

EQUAL = "ullage, equal"
"""The name of such a rule beside the one that costs least within the SLOs."""
# Steps of the threshold below the searched one: at the last of them a replica is asked for almost every request.
_LOWEST = -24


@dataclass(frozen=True, kw_only=True)
class EqualRule:
    """A rule of ours that attains as much as the rule `against`, within `allowed_fraction`, on the days it is chosen
    on; there it attains `loss_fraction` less."""

    against: str
    choice: RuleChoice
    loss_fraction: float
    allowed_fraction: float
    tried_rules: int

    def rule(self, hourly_rps: Sequence[float], each_rps: float) -> ScalingRule:
        return replace(self.choice.rule(hourly_rps, each_rps), name=EQUAL)


def equal_rule(
    other: ScalingRule,
    searched: RuleChoice,
    pool: ScalingPool,
    traffic: Sequence[ScalingTraffic],
    *,
    hourly_rps: Sequence[float] = (),
    map: Any = map,  # noqa: A002
) -> EqualRule | None:
    """The searched rule with the highest threshold at which it attains as much as the other one, averaged over the
    window that then costs least; None where it does with none, or saves nothing.

    A lower threshold attains more, so that it is looked for by halves.
    """
    own = searched.behind(pool)
    wanted = [played(other, pool, [each], map=map) for each in traffic]
    allowed = (1.0 - KEPT_FRACTION) * float(np.mean([_half_width(each) for each in wanted]))
    known: dict[RuleChoice, tuple[float, float]] = {}

    def passes(choice: RuleChoice) -> bool:
        if choice not in known:
            rule = choice.rule(hourly_rps, pool.each_rps)
            known[choice] = _compared([played(rule, own, [each], map=map) for each in traffic], wanted)
        return known[choice][0] <= allowed

    windows = dict.fromkeys((searched.window_s, IN_FLIGHT.window_s, *WINDOWS_S))
    found = [_highest(replace(searched, window_s=each), passes) for each in windows]
    best = max((each for each in found if each is not None), key=lambda each: known[each][1], default=None)
    if best is None or known[best][1] <= 0.0:
        return None
    return EqualRule(
        against=other.name,
        choice=best,
        loss_fraction=known[best][0],
        allowed_fraction=allowed,
        tried_rules=len(known),
    )


def _highest(searched: RuleChoice, passes: Callable[[RuleChoice], bool]) -> RuleChoice | None:
    """With the highest threshold that passes, of those up to the searched one."""

    def at(place: int) -> RuleChoice:
        return replace(searched, threshold_value=max(0.001, round(searched.threshold_value * STEP_RATIO**place, 3)))

    low, high = _LOWEST, 0
    if not passes(at(low)):
        return None
    if passes(at(high)):
        return at(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(at(middle)) else (low, middle)
    return at(low)


def _compared(ours: Sequence[RuleResult], others: Sequence[RuleResult]) -> tuple[float, float]:
    """How much less we attain, on the mean of the days, and how many hours that saves."""
    pairs = list(zip(ours, others, strict=True))
    loss = float(np.mean([other.attainment.margin_fraction - own.attainment.margin_fraction for own, other in pairs]))
    return loss, sum(other.paid_hours - own.paid_hours for own, other in pairs)


def _half_width(found: RuleResult) -> float:
    attained = found.attainment.attained
    return (attained.high - attained.low) / 2.0
