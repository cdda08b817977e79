"""The cheapest rule around the derived one: chosen on some weeks, to be judged on others.

Every candidate is played on stretches of several weeks, each drawn from its own seed, and is held to every SLO on the
worst of them, with a fifth of its error share to spare: the next week is another one. A stretch that even the whole
fleet violates asks for what that attains. What is looked at, one thing after the other, around the best so far:

    threshold    in steps of an eighth, the highest that passes
    averaging    of requests in flight over minutes instead of seconds, with the highest threshold that passes
    floor        a schedule by hour of week beneath the rule, each with the highest threshold that passes
    window       on the way down
    minimum      replicas that are always there
    maximum      replicas beyond which a burst is not followed
    warm levels  how long an empty node is held (warm starts), engines asleep (hot starts)

Cost is replica-hours, and the hours of nodes held empty and of engines asleep. What the plan file states of bounds and
warm levels is not searched. A candidate is given up at the first stretch that it fails, and once it costs more than the
best; stretches that failed somebody come first for the next. Threshold and minimum are then looked for again on whole
days of the same weeks, the derived rule among them. Nothing here is drawn: the same stretches give the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ullage.scaling.judged import RuleResult
from ullage.scaling.loop import ScalingPool, ScalingTraffic
from ullage.scaling.plan import LEAST_DOWN_S, MOST_DOWN_S, DerivedRule, RuleChoice
from ullage.scaling.played import EQUAL_FRACTION, fixed_rule, played
from ullage.scaling.rules import ScalingRule

# Steps of the threshold, and how far from the derived one is looked.
STEP_RATIO = 1.125
_LOWEST, _HIGHEST = -9, 7
# Averaged over five minutes as well: what is shorter than a start takes is no reason for one.
WINDOWS_S = (300.0,)
# The schedule is a floor under the rule: so much of what the hour is expected to need.
_FLOORS = (0.7, 0.85, 1.0)
_HELD_S = (0.0, 300.0, 600.0, 1800.0)
_SLEEPERS = (1, 2, 4)
# One replica is no service while it restarts: a minimum of one is stated, not found.
_LEAST_REPLICAS = 2
# The next week is another one: of the requests that may violate an SLO, a fifth is kept free in those of the search.
KEPT_FRACTION = 0.2
# Candidates that are played to the end where none passes.
_FINALISTS = 3


@dataclass(frozen=True, kw_only=True)
class TriedRule:
    """A candidate, the worst margin of the stretches it was played on, and its cost there; `hours` grow with them."""

    choice: RuleChoice
    margin_fraction: float
    cost_hours: float
    replica_hours: float
    hours: float
    passes: bool


@dataclass(frozen=True, kw_only=True)
class SearchStep:
    """One thing that was varied: the value that the derived rule has, that of the chosen one, and the cost by then.

    A later step may vary it again, as every floor has a threshold of its own: the value is the one chosen last.
    """

    name: str
    derived_value: float
    chosen_value: float
    cost_hours: float
    tried_rules: int


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The derived rule, the best, what each step brought on the stretches, and what was tried there and on whole days.

    `best` is played on the days where there are any.
    """

    derived: TriedRule
    best: TriedRule
    rule: ScalingRule
    steps: tuple[SearchStep, ...]
    tried: tuple[TriedRule, ...]
    stretches: tuple[str, ...]
    on_days: tuple[TriedRule, ...] = ()
    days: tuple[str, ...] = ()


@dataclass(kw_only=True, frozen=True)
class _Search:
    """A search under way: what was tried is remembered. `goals` are margins to reach, stretch by stretch."""

    pool: ScalingPool
    traffic: Sequence[ScalingTraffic]
    hours: tuple[float, ...]
    goals: tuple[float, ...]
    known: dict[RuleChoice, TriedRule] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def rule(self, choice: RuleChoice) -> ScalingRule:
        return choice.rule(self.hours, self.pool.each_rps)

    def tried(self, choice: RuleChoice, *, cap_hours: float = np.inf) -> TriedRule:
        """The candidate as far as it gets: to the first stretch that it fails, or until it costs more than the cap."""
        if choice not in self.known:
            self.known[choice] = self._raced(choice, cap_hours)
        return self.known[choice]

    def whole(self, choice: RuleChoice) -> TriedRule:
        """The candidate on every stretch, whether it fails or not."""
        parts = [self._part(choice, each) for each in self.traffic]
        self.known[choice] = self._added(choice, parts, range(len(parts)))
        return self.known[choice]

    def _raced(self, choice: RuleChoice, cap_hours: float) -> TriedRule:
        parts: list[RuleResult] = []
        for place in tuple(self.order):
            parts.append(self._part(choice, self.traffic[place]))
            found = self._added(choice, parts, self.order)
            if parts[-1].attainment.margin_fraction < self.goals[place]:
                self.order.remove(place)
                self.order.insert(0, place)
                return replace(found, passes=False)
            if found.cost_hours >= cap_hours:
                return replace(found, passes=False)
        return found

    def _part(self, choice: RuleChoice, traffic: ScalingTraffic) -> RuleResult:
        return played(self.rule(choice), choice.behind(self.pool), [traffic])

    def _added(self, choice: RuleChoice, parts: Sequence[RuleResult], order: Sequence[int]) -> TriedRule:
        places = list(order)[: len(parts)]
        margins = [each.attainment.margin_fraction for each in parts]
        return TriedRule(
            choice=choice,
            margin_fraction=min(margins),
            cost_hours=sum(each.paid_hours for each in parts),
            replica_hours=sum(each.replica_hours for each in parts),
            hours=sum(each.hours for each in parts),
            passes=len(parts) == len(self.traffic)
            and all(margin >= self.goals[place] for margin, place in zip(margins, places, strict=True)),
        )

    def ranked(self) -> list[TriedRule]:
        """Those that pass, the cheapest first."""
        met = [each for each in self.known.values() if each.passes]
        return sorted(met, key=lambda each: (each.cost_hours, -each.margin_fraction))

    def best(self) -> TriedRule:
        """The cheapest that passes; where none does, the one with the most margin of those that came nearest."""
        met = self.ranked()
        if met:
            return met[0]
        nearest = sorted(self.known.values(), key=lambda each: -each.margin_fraction)[:_FINALISTS]
        return max((self.whole(each.choice) for each in nearest), key=lambda each: each.margin_fraction)

    def highest(self, at: Callable[[int], RuleChoice], start: int) -> None:
        """Look for the highest threshold that passes, by widening steps and then halves."""
        low: int | None = None
        high: int | None = None
        place, stride = start, 1
        while low is None or high is None:
            if self.tried(at(place)).passes:
                low, place = place, min(place + stride, _HIGHEST)
            else:
                high, place = place, max(place - stride, _LOWEST)
            stride *= 2
            if low == _HIGHEST or high == _LOWEST:
                return
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.tried(at(middle)).passes else (low, middle)

    def fewer(self, choice: RuleChoice, more: int) -> list[RuleChoice]:
        """Other minima, up to three below and so many above; none where the minimum was never reached."""
        least = choice.least_replicas
        if min(self._part(choice, each).least_replicas for each in self.traffic) > least:
            return []
        around = range(max(_LEAST_REPLICAS, least - 3), min(least + more, choice.most_replicas) + 1)
        return [replace(choice, least_replicas=each) for each in around if each != least]

    def varied(self, choices: Iterable[RuleChoice]) -> TriedRule:
        """The best after these were tried beside it."""
        for each in choices:
            self.tried(each, cap_hours=self.best().cost_hours if self.ranked() else np.inf)
        return self.best()


def _goal(pool: ScalingPool, stretch: ScalingTraffic) -> float:
    """Of one stretch: a fifth of the error share of its worst SLO to spare, or what the fixed fleet attains."""
    fixed = played(fixed_rule(pool), pool, [stretch]).attainment
    return min(KEPT_FRACTION * (1.0 - fixed.required_fraction), fixed.margin_fraction - EQUAL_FRACTION)


def search_rule(
    derived: DerivedRule,
    pool: ScalingPool,
    traffic: Sequence[ScalingTraffic],
    *,
    hourly_rps: Sequence[float] = (),
    stated: frozenset[str] = frozenset(),
    confirm: Sequence[ScalingTraffic] = (),
    report: Callable[[float, str], None] = lambda _share, _what: None,
) -> SearchResult:
    """The least cost with every SLO met on all of the traffic; the highest attainment where none does.

    `stated` names what the plan file fixes (`least`, `most`, `node_held`, `sleepers`). `confirm` are whole days of the
    weeks it was searched on, which decide in the end.
    """
    goals = tuple(_goal(pool, each) for each in traffic)
    search = _Search(
        pool=pool, traffic=traffic, hours=tuple(hourly_rps), goals=goals, order=list(range(len(traffic)))
    )  # fmt: skip
    first = derived.choice(pool)
    begun = search.whole(first)
    steps = []
    for share, (name, moves) in enumerate(_moves(search, derived, first, stated).items()):
        before = len(search.known)
        report(share / 7.0, name)
        moves()
        best = search.best()
        steps.append(
            SearchStep(
                name=name,
                derived_value=float(getattr(first, name)),
                chosen_value=float(getattr(best.choice, name)),
                cost_hours=best.cost_hours,
                tried_rules=len(search.known) - before,
            )
        )
    best, days = search.best(), None
    if confirm and best.passes:
        days = _on_days(search, derived, first, confirm, stated)
        best = (days.ranked() or [best])[0]
    return SearchResult(
        derived=begun,
        best=best,
        rule=search.rule(best.choice),
        steps=tuple(replace(each, chosen_value=float(getattr(best.choice, each.name))) for each in steps),
        tried=tuple(search.known.values()),
        stretches=tuple(each.name for each in traffic),
        on_days=() if days is None else tuple(days.known.values()),
        days=() if days is None else tuple(each.name for each in confirm),
    )


def _moves(
    search: _Search, derived: DerivedRule, first: RuleChoice, stated: frozenset[str]
) -> dict[str, Callable[[], None]]:
    """What is varied, in order, by the name of the value.

    The maximum is not: a rule that may not run what is planned for the busiest hour and for losses saves the hours in
    which it is needed.
    """

    def at(place: int, **held: Any) -> RuleChoice:
        return replace(first, threshold_value=_threshold(derived, place), **held)

    def near(name: str, values: Iterable[Any]) -> Callable[[], None]:
        def moved() -> None:
            best = search.best().choice
            search.varied(replace(best, **{name: each}) for each in values if each != getattr(best, name))

        return moved

    def averaged() -> None:
        for each in WINDOWS_S:
            search.highest(partial(at, window_s=each), -1)

    def floors() -> None:
        window_s = search.best().choice.window_s
        for each in _FLOORS if search.hours else ():
            search.highest(partial(at, floor_fraction=each, window_s=window_s), 2)

    def fewest() -> None:
        search.varied(search.fewer(search.best().choice, 2))

    windows = (LEAST_DOWN_S, derived.down_s, min(2.0 * derived.down_s, MOST_DOWN_S))
    sleeps = search.pool.limits.sleeper_fraction < 1.0
    found = {
        "threshold_value": lambda: search.highest(at, 0),
        "window_s": averaged,
        "floor_fraction": floors,
        "down_s": near("down_s", windows),
        "least_replicas": fewest if "least" not in stated else None,
        "node_held_s": near("node_held_s", _HELD_S) if "node_held" not in stated else None,
        # An engine asleep that keeps all of its devices from others costs what one awake costs, and serves nobody.
        "sleepers": near("sleepers", _SLEEPERS) if sleeps and "sleepers" not in stated else None,
    }
    return {name: each for name, each in found.items() if each is not None}


def _on_days(
    search: _Search, derived: DerivedRule, first: RuleChoice, days: Sequence[ScalingTraffic], stated: frozenset[str]
) -> _Search:
    """The threshold and the minimum again, on whole days: nights and evenings decide too, and what the hours of the
    steepest rise refuse may hold over a day. The derived rule is among them, so that nothing dearer is chosen for what
    a few hours showed."""
    found = replace(
        search,
        traffic=days,
        goals=tuple(_goal(search.pool, each) for each in days),
        known={},
        order=list(range(len(days))),
    )
    held = search.best().choice
    place = round(math.log(held.threshold_value / derived.threshold_value) / math.log(STEP_RATIO))
    found.highest(lambda at: replace(held, threshold_value=_threshold(derived, at)), min(max(place, _LOWEST), _HIGHEST))
    found.varied([first])
    if "least" not in stated and found.ranked():
        found.varied(found.fewer(found.best().choice, 0))
    return found


def _threshold(derived: DerivedRule, place: int) -> float:
    """So many steps from the derived one, in the thousandths that a cluster counts in."""
    return max(0.001, round(derived.threshold_value * STEP_RATIO**place, 3))
