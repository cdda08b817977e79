"""Scaling rules in the shadow of the live autoscaler: the same traffic as production had, and what either made of it.

Production's arrivals by step, filled with requests of the plan's shape and bursts, are played twice: with the replicas
that were observed, as they became ready, and with a rule that decides by itself and waits for its starts. Violations of
both are predicted by the same simulator, so that they differ by their replicas alone. Where they had different numbers
for a while, the stretch is listed with the need, and why the one that violated SLOs had too few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.reconcile.observation import Floats, Observation, ObservedQuantity
from ullage.scaling.judged import RuleResult, RunTally, result, tally, violated_by_minute
from ullage.scaling.loop import LoopRun, ScalingPool, ScalingTraffic, needed_replicas, run_rule
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.supply import CapacityLimits, StartTimes
from ullage.scaling.traffic import DAY_S, rated
from ullage.workload.synthetic.model import SyntheticModel

LIVE = "live"
# Less than this of a stretch seen, and what is filled in would be most of it.
LEAST_SEEN_FRACTION = 0.8
# Numbers that differ for less than this are two rules out of step, and no difference.
_LEAST_STRETCH_S = 600.0
_MOST_STRETCHES = 12
_MINUTE_S = 60.0
# Monday is day 0 of a week; 1 January 1970 was a Thursday.
_EPOCH_WEEK_S = 3 * DAY_S
_AT_ONCE = (0.001,) * 101


@dataclass(frozen=True, kw_only=True)
class ShadowStretch:
    """A while in which a rule had another number of replicas than ran: means over it, and what was violated in it.

    `from_s` and `until_s` are seconds since 1970.
    """

    rule: str
    from_s: float
    until_s: float
    live_replicas: float
    rule_replicas: float
    needed_replicas: float
    live_violated_requests: int
    rule_violated_requests: int
    why: str


@dataclass(frozen=True, kw_only=True)
class ShadowedPool:
    """Rules beside the live autoscaler. `live_hours` are replica-hours as they were observed."""

    pool: str
    source: str
    start_s: float
    end_s: float
    requests: int
    live: RuleResult
    live_hours: float
    rules: tuple[RuleResult, ...]
    stretches: tuple[ShadowStretch, ...]
    more_stretches: int
    notes: tuple[str, ...]


def shadow_pool(
    name: str,
    seen: Observation,
    pool: ScalingPool,
    model: SyntheticModel,
    rules: Sequence[ScalingRule],
    *,
    seed: int,
) -> ShadowedPool:
    """Play what was observed, and what each rule would have done, on the traffic that production had."""
    notes: list[str] = []
    rates = _filled(seen, seen.rate_rps(ObservedQuantity.ARRIVALS), ObservedQuantity.ARRIVALS, notes)
    ready = _level(seen, ObservedQuantity.REPLICAS, notes)
    if float(rates.max()) <= 0.0:
        raise InputError(
            field="production", value=0, problem="has no arrivals in this period", fix="Give another --from, --until."
        )
    drawn = rated("production", rates.tolist(), seen.step_s, model, pool.trial, seed=seed)
    traffic = replace(drawn, week_s=(seen.start_s + _EPOCH_WEEK_S) % (7 * DAY_S))
    live_run = _live(pool, traffic, ready, seen.step_s)
    live_tally = tally(live_run, pool)
    found, stretches = [], []
    for rule in rules:
        first = max(1, round(float(ready[0])))
        run = run_rule(rule, pool, traffic, start_replicas=min(first, rule.bounds[1] or first))
        own = tally(run, pool)
        found.append(result(rule.name, [own]))
        stretches += _stretches(rule.name, seen, pool, (live_run, live_tally), (run, own))
    stretches.sort(key=lambda each: -abs(each.live_violated_requests - each.rule_violated_requests))
    notes.append(
        "Requests, and with them violations, are of the plan's shapes at production's rates; replicas of the live "
        "autoscaler are those that were ready."
    )
    return ShadowedPool(
        pool=name,
        source=seen.source,
        start_s=seen.start_s,
        end_s=seen.end_s,
        requests=drawn.load.requests.count,
        live=result(LIVE, [live_tally]),
        live_hours=float(_held(seen, ready).sum() * seen.step_s / 3600.0),
        rules=tuple(found),
        stretches=tuple(stretches[:_MOST_STRETCHES]),
        more_stretches=max(0, len(stretches) - _MOST_STRETCHES),
        notes=tuple(notes),
    )


def _live(pool: ScalingPool, traffic: ScalingTraffic, ready: Floats, step_s: float) -> LoopRun:
    """The replicas that were ready, step by step: nothing is waited for, since they were counted when they were."""
    counts = [max(1, round(float(each))) for each in ready]
    times = [place * step_s for place in range(len(counts))]
    rule = ScalingRule(name=LIVE, spec=ScheduleSpec(times_s=tuple(times), replicas=tuple(counts)))
    at_once = replace(
        pool,
        starts=StartTimes(cold_s=_AT_ONCE, warm_s=_AT_ONCE, hot_s=_AT_ONCE),
        limits=CapacityLimits(least_replicas=1, most_replicas=max(counts)),
    )
    return run_rule(rule, at_once, traffic, start_replicas=counts[0])


def _level(seen: Observation, quantity: ObservedQuantity, notes: list[str]) -> Floats:
    found = seen.levels.get(quantity)
    if found is None:
        raise InputError(
            field="production",
            value=str(quantity),
            problem="was not observed, so what the live autoscaler did is unknown",
            fix="Name the metric of ready replicas with --names; ullage reconcile --queries prints the queries.",
        )
    return _filled(seen, found, quantity, notes)


def _filled(seen: Observation, values: Floats, quantity: ObservedQuantity, notes: list[str]) -> Floats:
    """The series with its gaps on straight lines, which a note tells; one that is mostly gaps is refused."""
    known = np.isfinite(values)
    if float(known.mean()) < LEAST_SEEN_FRACTION:
        raise InputError(
            field="production",
            value=f"{quantity}: {100.0 * float(known.mean()):.0f} % of the steps",
            problem=f"was observed in less than {100.0 * LEAST_SEEN_FRACTION:.0f} % of them",
            fix="Give a period that was monitored.",
        )
    if not known.all():
        notes.append(f"{quantity}: {int((~known).sum())} of {seen.steps} steps were not observed and are filled in.")
    places = np.arange(values.size)
    filled: Floats = np.interp(places, places[known], values[known])
    return filled


def _held(seen: Observation, ready: Floats) -> Floats:
    """Replicas that held devices: those that were asked for, where that was observed, and at least those ready."""
    asked = seen.levels.get(ObservedQuantity.DESIRED_REPLICAS)
    if asked is None:
        return ready
    held: Floats = np.where(np.isfinite(asked), np.maximum(asked, ready), ready)
    return held


def _stretches(
    name: str,
    seen: Observation,
    pool: ScalingPool,
    live: tuple[LoopRun, RunTally],
    own: tuple[LoopRun, RunTally],
) -> list[ShadowStretch]:
    """Where the two had different replicas for ten minutes and more, all of it with too few or all with enough."""
    at_s, needed = needed_replicas(live[0].traffic, pool.each_rps)
    had = [_ready(run, at_s) for run, _ in (live, own)]
    bad = [violated_by_minute(run, at_s.size)[0] for run, _ in (live, own)]
    # A while ends where the other one has more, and where the one with fewer begins or ceases to be short.
    short = np.minimum(had[0], had[1]) < needed
    sign = np.sign(had[1] - had[0]).astype(np.int64) * (1 + short)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], sign, [0]])))
    found = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if sign[first] == 0 or (last - first) * _MINUTE_S < _LEAST_STRETCH_S:
            continue
        part = slice(first, last)
        # Rounded once: what a sentence says must be what its row shows.
        means = [round(float(each[part].mean()), 2) for each in (*had, needed)]
        hurt = [int(each[part].sum()) for each in bad]
        found.append(
            ShadowStretch(
                rule=name,
                from_s=seen.start_s + float(at_s[first]),
                until_s=seen.start_s + float(at_s[last - 1]) + _MINUTE_S,
                live_replicas=means[0],
                rule_replicas=means[1],
                needed_replicas=means[2],
                live_violated_requests=hurt[0],
                rule_violated_requests=hurt[1],
                why=_why(means, hurt, name),
            )
        )
    return found


def _ready(run: LoopRun, at_s: Floats) -> Floats:
    ticks = np.clip(np.searchsorted(run.controls.at_s, at_s, side="right") - 1, 0, len(run.controls.at_s) - 1)
    ready: Floats = run.controls.ready_replicas[ticks].astype(np.float64)
    return ready


def _why(means: Sequence[float], hurt: Sequence[int], rule: str) -> str:
    live, own, needed = means
    fewer, more = (LIVE, rule) if live < own else (rule, LIVE)
    least, most = sorted((live, own))
    if least >= needed:
        return f"{more} held more than the {needed:.1f} replicas that were needed; {fewer} had enough"
    violated = hurt[0] if fewer == LIVE else hurt[1]
    short = f"{fewer} had {least:.1f} of {needed:.1f} replicas that were needed"
    enough = f"{more} had enough" if most >= needed else f"{more} was short by less"
    return f"{short}, and {violated} requests violated an SLO; {enough}" if violated else f"{short}; {enough}"
