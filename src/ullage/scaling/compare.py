"""Rules side by side on the same traffic: the one that runs, ours, common ones, the fixed fleet and the clairvoyant.

Our rule is chosen on stretches of some weeks; every rule is then played on days of other weeks, with the same arrivals
and the same luck of its starts, and nothing that happens there changes the choice. What no reactive rule can
absorb is found by playing one that knows the need of the very minute and still has to wait for its starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ullage.errors import InternalError
from ullage.scaling.clairvoyant import clairvoyant
from ullage.scaling.equal import EqualRule, equal_rule
from ullage.scaling.judged import RuleResult, result, tally, violated_by_minute
from ullage.scaling.loop import LoopRun, ScalingPool, ScalingTraffic, in_order, needed_replicas, run_rule
from ullage.scaling.plan import DerivedRule, RuleChoice, ScalingPlan, scaling_plan
from ullage.scaling.played import fixed_rule, goal_fraction, played
from ullage.scaling.published_rules import common_rules
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.search import SearchResult, SearchStep, search_rule
from ullage.scaling.signals import FaultKind, MetricFault
from ullage.scaling.traffic import DAY_S

Report = Callable[[float, str], None]
DERIVED = "ullage, derived"
"""The rule of the formula beside the one that was searched."""
# A minute in which one request in ten violates an SLO belongs to a burst that was not absorbed.
_HURT_FRACTION = 0.1
_QUIET_MINUTES = 5
_MOST_BURSTS = 5
_CHART_POINTS = 96


@dataclass(frozen=True, kw_only=True)
class UnabsorbedBurst:
    """A stretch that violates SLOs though its need was known as it came; `peak_ratio` is need over what was ready.

    `at_s` is its time of day, counted from the day's beginning.
    """

    traffic: str
    at_s: float
    lasted_s: float
    peak_ratio: float
    violated_requests: int


@dataclass(frozen=True, kw_only=True)
class RobustnessCase:
    name: str
    result: RuleResult


@dataclass(frozen=True, kw_only=True)
class EqualAttainment:
    """Ours at the attainment of a rule that attains more: as it was chosen, and on the days that rules are judged by;
    `saving_fraction` of that rule's replica-hours there."""

    chosen: EqualRule
    result: RuleResult
    saving_fraction: float


@dataclass(frozen=True, kw_only=True)
class ScalingChart:
    """A day of a rule in even parts: need, replicas that were ready, those asked for, and requests that waited."""

    rule: str
    traffic: str
    at_s: tuple[float, ...]
    needed_replicas: tuple[float, ...]
    ready_replicas: tuple[float, ...]
    asked_replicas: tuple[float, ...]
    waiting_requests: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ScalingComparison:
    """Everything `ullage scale` says of one pool. `present` names the rules that were read from files; `settings` is
    the rule as the `scaling` section of a plan file states it, chosen on hours of `searched` and the whole of
    `searched_days`."""

    pool: str
    plan: ScalingPlan
    derived: DerivedRule
    settings: Mapping[str, str]
    steps: tuple[SearchStep, ...]
    searched: tuple[str, ...]
    searched_days: tuple[str, ...]
    searched_margin_fraction: float
    traffic: tuple[str, ...]
    results: tuple[RuleResult, ...]
    present: tuple[str, ...]
    clairvoyant: RuleResult | None
    fixed: RuleResult
    equal: EqualAttainment | None
    tried_rules: int
    bursts: tuple[UnabsorbedBurst, ...]
    reserve_replicas: int | None
    robustness: tuple[RobustnessCase, ...]
    chart: ScalingChart
    notes: tuple[str, ...]

    @property
    def ours(self) -> RuleResult:
        return next(each for each in self.results if each.name == "ullage")

    @property
    def saving_fraction(self) -> float:
        """Against the fixed fleet."""
        return 1.0 - self.ours.replica_hours / self.fixed.replica_hours


@dataclass(frozen=True, kw_only=True)
class ScalingComparisons:
    """All pools of a plan."""

    pools: tuple[ScalingComparison, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonCase:
    """What is compared: the pool, its derived rule, days to judge by, hours to search on, and whole days of the same
    weeks on which what was found is confirmed. `stated` names what the plan file fixes."""

    name: str
    engine: str
    pool: ScalingPool
    derived: DerivedRule
    days: tuple[ScalingTraffic, ...]
    search: tuple[ScalingTraffic, ...]
    confirm: tuple[ScalingTraffic, ...] = ()
    stated: frozenset[str] = frozenset()
    hourly_rps: tuple[float, ...] = ()
    present: tuple[ScalingRule, ...] = ()

    def __post_init__(self) -> None:
        """A rule that was chosen on what it is judged by is no better than its luck."""
        shared = {each.digest for each in self.days} & {each.digest for each in (*self.search, *self.confirm)}
        if shared:
            raise InternalError(
                law="rules are evaluated on other traffic than they are chosen on", left=len(shared), right=0
            )


def compare_rules(
    case: ComparisonCase,
    *,
    map: Any = map,  # noqa: A002
    report: Report = lambda _share, _what: None,
) -> ScalingComparison:
    """Search our rule, then play every rule on every day."""
    pool, most = case.pool, case.pool.limits.most_replicas
    found = search_rule(
        case.derived, pool, case.search, hourly_rps=case.hourly_rps, stated=case.stated, confirm=case.confirm,
        report=lambda share, what: report(0.3 * share, what),
    )  # fmt: skip
    report(0.3, "rules side by side")
    own = found.best.choice.behind(pool)
    derived = replace(case.derived.choice(pool).rule(), name=DERIVED)
    rules = in_order([*case.present, derived, *common_rules(most)])
    results = [played(each, pool, case.days, map=map) for each in rules.values()]
    results.append(played(found.rule, own, case.days, map=map))
    report(0.65, "rules at equal attainment")
    equal = _equal(case, found.best.choice, rules, results, map=map)
    report(0.8, "clairvoyant")
    best = clairvoyant(pool, case.days)
    report(0.9, "bursts and robustness")
    bursts, reserve = _unabsorbed(case)
    run = run_rule(found.rule, own, case.days[0], start_replicas=found.best.choice.least_replicas)
    return ScalingComparison(
        pool=case.name,
        plan=scaling_plan(found.rule, engine=case.engine),
        derived=case.derived,
        settings=found.best.choice.settings(),
        steps=found.steps,
        searched=found.stretches,
        searched_days=found.days,
        searched_margin_fraction=found.best.margin_fraction,
        traffic=tuple(each.name for each in case.days),
        results=tuple(sorted(results, key=lambda each: (not each.is_met, each.replica_hours))),
        present=tuple(each.name for each in case.present),
        clairvoyant=best,
        fixed=played(fixed_rule(pool), pool, case.days, map=map),
        equal=equal,
        tried_rules=len({each.choice for each in (*found.tried, *found.on_days)}),
        bursts=bursts,
        reserve_replicas=reserve,
        robustness=_robust(replace(case, pool=own), found.rule, map=map),
        chart=_chart(run, pool),
        notes=_notes(case, found),
    )


def _equal(
    case: ComparisonCase,
    searched: RuleChoice,
    rules: Mapping[str, ScalingRule],
    results: Sequence[RuleResult],
    *,
    map: Any,  # noqa: A002
) -> EqualAttainment | None:
    """Ours at the attainment of a rule that attains more: the one that runs now, or the best of the listed ones."""
    names = [each.name for each in case.present] or [name for name in rules if name != DERIVED]
    *others, ours = results
    best = max((each for each in others if each.name in names), key=lambda each: each.attainment.margin_fraction)
    if best.attainment.margin_fraction <= ours.attainment.margin_fraction:
        return None
    # One of the busiest day and the other day: a third would cost as much as the whole search for little more.
    pool, days = case.pool, (case.confirm or case.search)[::2]
    found = equal_rule(rules[best.name], searched, pool, days, hourly_rps=case.hourly_rps, map=map)
    if found is None:
        return None
    rule = found.rule(case.hourly_rps, pool.each_rps)
    own = played(rule, found.choice.behind(pool), case.days, map=map)
    return EqualAttainment(chosen=found, result=own, saving_fraction=1.0 - own.replica_hours / best.replica_hours)


def _unabsorbed(case: ComparisonCase) -> tuple[tuple[UnabsorbedBurst, ...], int | None]:
    """Bursts that hurt a rule which knows each minute's need, and the replicas more that take them; None: too many."""
    first = _instant(case, 0)
    bursts = [one for run in first for one in _bursts(run, case.pool)]
    worst = tuple(sorted(bursts, key=lambda each: -each.violated_requests)[:_MOST_BURSTS])
    goal = min(0.0, goal_fraction(case.pool, case.search))
    runs = first
    for more in (0, 1, 2, 4, 8, 16):
        runs = runs if more == 0 else _instant(case, more)
        found = result("instant", [tally(run, case.pool) for run in runs])
        if found.attainment.margin_fraction >= goal:
            return worst, more
    return worst, None


def _instant(case: ComparisonCase, more: int) -> list[LoopRun]:
    """A rule without any lag: it asks for each minute's need, and `more`, at once, and waits for the starts."""
    runs = []
    for each in case.search:
        at_s, needed = needed_replicas(each, case.pool.each_rps)
        # What is let go comes back one start later, so it is held for as long.
        hold = max(1, round(case.pool.starts.cold_p90_s / 60.0))
        held = np.array([needed[max(0, place - hold) : place + 1].max() for place in range(needed.size)]) + more
        spec = ScheduleSpec(times_s=tuple(at_s.tolist()), replicas=tuple(int(one) for one in held))
        rule = ScalingRule(name="instant", spec=spec)
        runs.append(run_rule(rule, case.pool, each, start_replicas=int(held[0])))
    return runs


def _bursts(run: LoopRun, pool: ScalingPool) -> list[UnabsorbedBurst]:
    at_s, needed = needed_replicas(run.traffic, pool.each_rps)
    violated, sent = violated_by_minute(run, at_s.size)
    hurt = (violated > _HURT_FRACTION * np.maximum(sent, 1)) & (at_s >= run.traffic.counted_s)
    places = np.flatnonzero(hurt)
    if places.size == 0:
        return []
    groups = np.split(places, np.flatnonzero(np.diff(places) > _QUIET_MINUTES) + 1)
    ticks = np.clip(np.searchsorted(run.controls.at_s, at_s, side="right") - 1, 0, len(run.controls.at_s) - 1)
    ready = np.maximum(1, run.controls.ready_replicas[ticks])
    return [
        UnabsorbedBurst(
            traffic=run.traffic.name,
            at_s=float(run.traffic.week_s + at_s[each[0]]) % DAY_S,
            lasted_s=float(at_s[each[-1]] - at_s[each[0]] + 60.0),
            peak_ratio=round(float((needed[each] / ready[each]).max()), 3),
            violated_requests=int(violated[each].sum()),
        )
        for each in groups
    ]


def _robust(case: ComparisonCase, rule: ScalingRule, *, map: Any) -> tuple[RobustnessCase, ...]:  # noqa: A002
    """The rule when something is not as planned: ramps, starts, metrics, capacity."""
    pool, traffic = case.pool, case.search
    # In the middle of what was searched on, where the rise is.
    middle_s = traffic[0].counted_s + (traffic[0].span_s - traffic[0].counted_s) / 3.0
    hour = (middle_s, middle_s + 3600.0)
    rng = np.random.default_rng((traffic[0].seed, 23))
    dead, stale = (
        replace(pool, signals=replace(pool.signals, fault=MetricFault(kind=kind, from_s=hour[0], until_s=hour[1])))
        for kind in (FaultKind.DEAD, FaultKind.STALE)
    )
    cases = (
        ("as planned", pool, traffic),
        ("ramps 1.5 times as steep", pool, [each.faster(1.5, rng) for each in traffic]),
        ("time to ready doubled", replace(pool, starts=pool.starts.times(2.0)), traffic),
        ("metric dead for an hour", dead, traffic),
        ("metric stale for an hour", stale, traffic),
        ("capacity refused for an hour", replace(pool, outage_s=hour), traffic),
    )
    return tuple(
        RobustnessCase(name=name, result=replace(played(rule, where, what, map=map), name=name))
        for name, where, what in cases
    )


def _chart(run: LoopRun, pool: ScalingPool) -> ScalingChart:
    """Even parts of the counted time, each a mean."""
    traffic = run.traffic
    edges = np.linspace(traffic.counted_s, traffic.span_s, _CHART_POINTS + 1)
    at_s, needed = needed_replicas(traffic, pool.each_rps)

    def means(times: Any, values: Any) -> tuple[float, ...]:
        place = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, _CHART_POINTS - 1)
        inside = (times >= edges[0]) & (times <= edges[-1])
        sums = np.bincount(place[inside], weights=np.asarray(values, np.float64)[inside], minlength=_CHART_POINTS)
        counts = np.bincount(place[inside], minlength=_CHART_POINTS)
        return tuple(np.round(sums / np.maximum(counts, 1), 3).tolist())

    gauges, controls = run.gauges, run.controls
    return ScalingChart(
        rule=run.rule.name,
        traffic=traffic.name,
        at_s=tuple(np.round(edges[:-1] - traffic.counted_s, 1).tolist()),
        needed_replicas=means(at_s, needed),
        ready_replicas=means(gauges.at_s, gauges.ready),
        asked_replicas=means(controls.at_s, run.asked[: controls.at_s.size]),
        waiting_requests=means(gauges.at_s, gauges.waiting),
    )


def _notes(case: ComparisonCase, found: SearchResult) -> tuple[str, ...]:
    chosen, days = ", ".join(found.stretches), ", ".join(each.name for each in case.days)
    held = sorted({"least", "most", "node_held", "sleepers"} & case.stated)
    fixed = f" The plan file states {', '.join(held)}, which were not searched." if held else ""
    asleep = (
        " Sleeping engines were not searched: scaling.sleeper_cost is 100 %, and one awake costs as much and serves."
        if case.pool.limits.sleeper_fraction >= 1.0
        else ""
    )
    other = "other draws of the demand model, held out from the choice"
    whole = f", then on the whole of {', '.join(found.days)}" if found.days else ""
    return (
        f"The rule was chosen on hours of {chosen}{whole}; rules are simulated on {days}: {other}.",
        "Starts count as supply.",
        f"Cost of the search is replica-hours and those of warm levels.{fixed}{asleep}",
        "A new replica's prefix cache is assumed as warm as the others'; its first misses are not simulated.",
    )
