"""The rule of a plan: derived from ramp rate and time to ready, then refined in simulation.

    u         = min over hours of  rate / (rate + ramp rate x (lag + time to ready))
    threshold = u x requests in flight on a replica at the rate it was sized for
    minimum   = as stated, or replicas for the quietest hour at that use, two at least
    maximum   = replicas of the fixed fleet, reserves that serve included
    window    = down no sooner than a replica would take to come back

A replica that is asked for when the threshold is passed is ready one lag and one time to ready later; until then the
others take what the ramp adds. Thresholds are then tried up and down in steps of an eighth, with and without a schedule
by hour of week, with a shorter and a longer window on the way down; the least replica-hours with every SLO met win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.scaling.clairvoyant import cheapest_fleet, schedule
from ullage.scaling.hpa import SYNC_S
from ullage.scaling.judged import RuleResult, RunTally, result, tally
from ullage.scaling.loop import ScalingPool, ScalingTraffic, first_replicas, needed_replicas, run_rule
from ullage.scaling.published_rules import IN_FLIGHT, tracking_rule
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.supply import StartTimes

Floats = NDArray[np.float64]

# Steps of the threshold, and how far from the derived one is looked.
STEP_RATIO = 1.125
_LOWEST, _HIGHEST = -9, 7
# The shortest and the longest window on the way down: HPA's own default, and the most that it allows.
_LEAST_DOWN_S, _MOST_DOWN_S = 300.0, 3600.0
# The schedule is a floor under the rule: so much of what the hour is expected to need.
_FLOORS = (0.85,)
_SLOT_S = 60.0
# Where the whole fleet violates an SLO, a rule is as good if it attains this much less.
_EQUAL_FRACTION = 0.005
# The next day is another one: of the requests that may violate an SLO, a fifth is kept free on the day of the search.
_KEPT_FRACTION = 0.2


@dataclass(frozen=True, kw_only=True)
class DerivedRule:
    """The thresholds as a formula with its numbers; `hour_index` is the hour of the week that decided."""

    ramp_rps_per_s: float
    rate_rps: float
    hour_index: int
    lag_s: float
    ready_s: float
    in_flight_requests: float
    use_fraction: float
    least_replicas: int
    most_replicas: int
    fallback_replicas: int = 0

    @property
    def threshold_value(self) -> float:
        """In whole thousandths, the finest that a cluster counts in: what is tried is what can be written."""
        return max(0.001, round(self.use_fraction * self.in_flight_requests, 3))

    @property
    def down_s(self) -> float:
        """A replica is not let go for less time than one takes to come back."""
        return min(max(SYNC_S * math.ceil(self.ready_s / SYNC_S), _LEAST_DOWN_S), _MOST_DOWN_S)

    @property
    def formula(self) -> str:
        """With the numbers put in."""
        return (
            f"{self.rate_rps:.3g} / ({self.rate_rps:.3g} + {3600 * self.ramp_rps_per_s:.3g} req/s an hour x "
            f"({self.lag_s:.0f} s + {self.ready_s:.0f} s)) x {self.in_flight_requests:.3g} = {self.threshold_value:.3g}"
        )

    @property
    def rule(self) -> ScalingRule:
        return tracking_rule(
            "ullage",
            self.threshold_value,
            least=self.least_replicas,
            most=self.most_replicas,
            up_s=0.0,
            down_s=self.down_s,
            fallback_replicas=self.fallback_replicas,
        )


def derive_rule(
    rates_rps: Floats,
    *,
    each_rps: float,
    in_flight_requests: float,
    lag_s: float,
    ready_s: float,
    most: int,
    least: int = 0,
    fallback_replicas: int = 0,
) -> DerivedRule:
    """From the expected rates of consecutive hours; `fallback_replicas` are held where the metric is gone.

    `least` is a minimum that was stated, 0 where none was.
    """
    ramps = np.maximum(0.0, np.roll(rates_rps, -1) - rates_rps) / 3600.0
    if rates_rps.size == 1:
        ramps = np.zeros(1)
    uses = rates_rps / (rates_rps + ramps * (lag_s + ready_s))
    hour = int(np.argmin(uses))
    use = float(uses[hour])
    quiet = math.ceil(float(rates_rps.min()) / (use * each_rps) - 1e-9)
    return DerivedRule(
        ramp_rps_per_s=float(ramps[hour]),
        rate_rps=float(rates_rps[hour]),
        hour_index=hour,
        lag_s=lag_s,
        ready_s=ready_s,
        in_flight_requests=in_flight_requests,
        use_fraction=use,
        least_replicas=max(1, min(least or max(quiet, 2), most)),
        most_replicas=most,
        fallback_replicas=fallback_replicas,
    )


def rule_lag_s(pool: ScalingPool) -> float:
    """From a change to the decision: half a scrape, its delay, half the window, half a sync."""
    return pool.signals.scrape_s / 2.0 + pool.signals.delay_s + IN_FLIGHT.window_s / 2.0 + SYNC_S / 2.0


@dataclass(frozen=True, kw_only=True)
class TriedRule:
    rule: ScalingRule
    result: RuleResult


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best rule, and every one that was tried, in order."""

    best: TriedRule
    tried: tuple[TriedRule, ...]


def played(
    rule: ScalingRule,
    pool: ScalingPool,
    traffic: Sequence[ScalingTraffic],
    *,
    map: Any = map,  # noqa: A002
) -> RuleResult:
    """A rule on every stretch, each begun with what the stretch needs at its beginning.

    What was played before is known: of twenty pools many differ in what their classes are called alone.
    """
    key, names = _content(rule, pool, traffic), _slo_names(pool)
    known = _PLAYED.get(key)
    if known is None:
        known = names, _play(rule, pool, traffic, map)
        while len(_PLAYED) >= _MOST_PLAYED:
            _PLAYED.pop(next(iter(_PLAYED)), None)
        _PLAYED[key] = known
    slo = known[1].attainment
    renamed = dict(zip(known[0], names, strict=True))[slo.slo_name]
    return known[1] if renamed == slo.slo_name else replace(known[1], attainment=replace(slo, slo_name=renamed))


_PLAYED: dict[tuple[object, ...], tuple[tuple[str, ...], RuleResult]] = {}
_MOST_PLAYED = 64


def _content(rule: ScalingRule, pool: ScalingPool, traffic: Sequence[ScalingTraffic]) -> tuple[object, ...]:
    """What a result depends on; classes count by their places."""
    terms = repr((rule, pool.each_rps, pool.starts, pool.limits, pool.signals, pool.outage_s))
    return pool.trial.key, terms, tuple(each.digest for each in traffic)


def _slo_names(pool: ScalingPool) -> tuple[str, ...]:
    return tuple(f"{each.name} {slo.name}" for each in pool.classes for slo in each.slos)


def _play(rule: ScalingRule, pool: ScalingPool, traffic: Sequence[ScalingTraffic], map: Any) -> RuleResult:  # noqa: A002
    most = rule.bounds[1] or pool.limits.most_replicas

    def one(each: ScalingTraffic) -> RunTally:
        first = rule.spec.at(0.0) if isinstance(rule.spec, ScheduleSpec) else first_replicas(each, pool.each_rps, most)
        return tally(run_rule(rule, pool, each, start_replicas=first), pool)

    return result(rule.name, list(map(one, traffic)))


@dataclass(kw_only=True, frozen=True)
class _Search:
    """A search under way: what was tried is remembered."""

    derived: DerivedRule
    pool: ScalingPool
    traffic: Sequence[ScalingTraffic]
    map: Any
    hours: tuple[float, ...]
    goal_fraction: float = 0.0
    known: dict[tuple[Any, ...], TriedRule] = field(default_factory=dict)

    def passes(self, found: RuleResult) -> bool:
        slo = found.attainment
        return slo.margin_fraction >= min(_KEPT_FRACTION * (1.0 - slo.required_fraction), self.goal_fraction)

    def at(self, place: int, down_s: float = 0.0, floor: float = 0.0) -> TriedRule:
        key = (place, down_s, floor)
        if key not in self.known:
            derived = self.derived
            rule = tracking_rule(
                "ullage",
                round(derived.threshold_value * STEP_RATIO**place, 2),
                least=derived.least_replicas,
                most=derived.most_replicas,
                up_s=0.0,
                down_s=down_s or derived.down_s,
                schedule=self.floor(floor) if floor else (),
                fallback_replicas=derived.fallback_replicas,
            )
            self.known[key] = TriedRule(rule=rule, result=played(rule, self.pool, self.traffic, map=self.map))
        return self.known[key]

    def floor(self, share: float) -> tuple[int, ...]:
        """Replicas by hour of week: what the hour and the one that begins within a start need."""
        ahead = np.maximum(np.array(self.hours), np.roll(np.array(self.hours), -1))
        needed = np.ceil(share * ahead / self.pool.each_rps - 1e-9).astype(int)
        return tuple(int(min(max(each, 1), self.derived.most_replicas)) for each in needed)

    def highest(self, start: int, **how: float) -> int | None:
        """The highest threshold that passes, by widening steps and then halves; None where the lowest fails."""
        low: int | None = None
        high: int | None = None
        place, stride = start, 1
        while low is None or high is None:
            if self.passes(self.at(place, **how).result):
                low, place = place, min(place + stride, _HIGHEST)
            else:
                high, place = place, max(place - stride, _LOWEST)
            stride *= 2
            if low == _HIGHEST or high == _LOWEST:
                return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.passes(self.at(middle, **how).result) else (low, middle)
        return low


def fixed_rule(pool: ScalingPool) -> ScalingRule:
    """The fleet that never scales."""
    most = pool.limits.most_replicas
    return ScalingRule(name="fixed fleet", spec=ScheduleSpec(times_s=(0.0,), replicas=(most,)))


def goal_fraction(
    pool: ScalingPool,
    traffic: Sequence[ScalingTraffic],
    *,
    map: Any = map,  # noqa: A002
) -> float:
    """The margin that the fixed fleet has, less what does not matter: no rule is held to more."""
    fixed = played(fixed_rule(pool), pool, traffic, map=map)
    return fixed.attainment.margin_fraction - _EQUAL_FRACTION


def search_rule(
    derived: DerivedRule,
    pool: ScalingPool,
    traffic: Sequence[ScalingTraffic],
    *,
    hourly_rps: Sequence[float] = (),
    map: Any = map,  # noqa: A002
    report: Callable[[float, str], None] = lambda _share, _what: None,
) -> SearchResult:
    """The least replica-hours with every SLO met on all of the traffic; the highest attainment where none does."""
    goal = goal_fraction(pool, traffic, map=map)
    search = _Search(derived=derived, pool=pool, traffic=traffic, map=map, hours=tuple(hourly_rps), goal_fraction=goal)
    report(0.1, "thresholds")
    plain = search.highest(0)
    start = _LOWEST if plain is None else plain
    if hourly_rps:
        report(0.4, "schedules")
        for floor in _FLOORS:
            search.highest(min(start + 2, _HIGHEST), floor=floor)
    report(0.7, "windows")
    best = _best(search)
    place, _, floor = next(key for key, each in search.known.items() if each is best)
    for down_s in {_LEAST_DOWN_S, min(2.0 * derived.down_s, _MOST_DOWN_S)} - {derived.down_s}:
        search.at(place, down_s, floor)
    return SearchResult(best=_best(search), tried=tuple(search.known.values()))


def _best(search: _Search) -> TriedRule:
    known = search.known
    met = [each for each in known.values() if search.passes(each.result)]
    if met:
        return min(met, key=lambda each: each.result.replica_hours)
    return max(known.values(), key=lambda each: each.result.attainment.margin_fraction)


def clairvoyant(pool: ScalingPool, traffic: Sequence[ScalingTraffic]) -> RuleResult | None:
    """The cheapest schedule by dynamic programming that meets every SLO in simulation; None where none of them does.

    It knows every minute's rate and how long its starts take. What a replica may be given is looked for from above.
    Where the fixed fleet violates an SLO too, it is held to what that attains.
    """
    goal = min(0.0, goal_fraction(pool, traffic))
    ready_s = pool.starts.cold_s[50]
    known = replace(pool, starts=StartTimes(cold_s=(ready_s,) * 101, warm_s=(ready_s,) * 101, hot_s=(ready_s,) * 101))
    for fuller in (1.15, 1.0, 0.9, 0.8, 0.7, 0.6):
        runs = []
        for each in traffic:
            _, needed = needed_replicas(each, fuller * pool.each_rps, width_s=_SLOT_S)
            most = pool.limits.most_replicas
            fleet = cheapest_fleet(np.minimum(needed, most), start_slots=ready_s / _SLOT_S)
            rule = ScalingRule(name="clairvoyant", spec=schedule(fleet, slot_s=_SLOT_S, lead_s=ready_s + _SLOT_S))
            spec = rule.spec
            assert isinstance(spec, ScheduleSpec)
            runs.append(tally(run_rule(rule, known, each, start_replicas=spec.at(0.0)), pool))
        found = result("clairvoyant", runs)
        if found.attainment.margin_fraction >= goal:
            return found
    return None
