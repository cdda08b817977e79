"""A rule played on traffic, with a memory of what was played; and the fleet that never scales, which sets the goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ullage.scaling.judged import RuleResult, RunTally, result, tally
from ullage.scaling.loop import ScalingPool, ScalingTraffic, first_replicas, run_rule
from ullage.scaling.rules import ScalingRule, ScheduleSpec

# Where the whole fleet violates an SLO, a rule is as good if it attains this much less.
EQUAL_FRACTION = 0.005


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
    return fixed.attainment.margin_fraction - EQUAL_FRACTION
