"""What a rule did on traffic: SLOs, replica-hours, lag, over- and undershoot, thrash, and why requests violated an SLO.

    need         replicas for the rate of the five minutes around a time, at what a replica carries within the SLOs
    decision lag from the minute in which need exceeds what is asked for to the tick at which as many are asked for
    warm hours   places on nodes that are held empty, and engines asleep, in replica-hours
    overshoot    mean of (ready - need) / need while above it; undershoot the same below it
    thrash       reversals of the requested replicas, an hour

A violated request has the cause of its minute: `maximum` (need is above what may run), `quota` (asked for, and no node
was to be had), `cold start` (asked for and still starting), `lag` (asked for soon after), `threshold` (not asked for),
or `burst` (replicas for the rate were ready: shorter than any rule sees). A backlog keeps the cause that began it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.scaling.loop import LoopRun, ScalingPool, needed_replicas
from ullage.service.trial.attainment import Attainment, Tallies, part, tallies
from ullage.simulate.outcome import Counts

CAUSES = ("maximum", "quota", "cold start", "lag", "threshold", "burst")
_SUCCESS = Counts._fields.index("success")
_UNFINISHED = Counts._fields.index("unfinished")
_MINUTE_S = 60.0
# A gap of so many quiet minutes ends a backlog.
_QUIET_MINUTES = 2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RuleResult:
    """One rule over all stretches of traffic that it was played on."""

    name: str
    attainment: Attainment
    replica_hours: float
    warm_hours: float
    hours: float
    decision_lag_s: float
    ready_s: float
    most_waiting_requests: int
    scale_up_requests: int
    scale_up_violated_requests: int
    overshoot_fraction: float
    undershoot_fraction: float
    turns_per_hour: float
    requests: int
    violated_requests: int
    causes: dict[str, int]
    least_replicas: int
    most_replicas: int
    hourly_replicas: tuple[float, ...]
    hourly_paid: tuple[float, ...]

    @property
    def is_met(self) -> bool:
        return self.attainment.holds

    @property
    def mean_replicas(self) -> float:
        return self.replica_hours / self.hours

    @property
    def paid_hours(self) -> float:
        """Replica-hours, and those of warm levels that serve nobody."""
        return self.replica_hours + self.warm_hours

    def times(self, ratio: float) -> RuleResult:
        """The result of a pool so many times as large, with as many times the traffic: counts grow, shares stay."""
        if ratio == 1.0:
            return self
        counted = {
            name: round(ratio * getattr(self, name))
            for name in ("most_waiting_requests", "scale_up_requests", "scale_up_violated_requests", "requests",
                         "violated_requests", "least_replicas", "most_replicas")
        }  # fmt: skip
        return replace(
            self,
            replica_hours=ratio * self.replica_hours,
            warm_hours=ratio * self.warm_hours,
            causes={name: round(ratio * count) for name, count in self.causes.items()},
            hourly_replicas=tuple(ratio * each for each in self.hourly_replicas),
            hourly_paid=tuple(ratio * each for each in self.hourly_paid),
            **counted,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RunTally:
    """One run reduced to what results are added up from."""

    slos: Tallies
    from_s: float
    until_s: float
    replica_hours: float
    warm_hours: float
    lags_s: tuple[float, ...]
    ready_s: tuple[float, ...]
    most_waiting_requests: int
    scale_up: tuple[int, int]
    shoot: tuple[float, float, float]
    turns: int
    requests: int
    causes: Ints
    replicas: tuple[int, int]
    hourly: Floats
    hourly_paid: Floats


def tally(run: LoopRun, pool: ScalingPool) -> RunTally:
    """Reduce a run; the requests themselves are let go."""
    traffic = run.traffic
    at_s, needed = needed_replicas(traffic, pool.each_rps)
    ticks = np.clip(np.searchsorted(run.controls.at_s, at_s, side="right") - 1, 0, len(run.controls.at_s) - 1)
    ready, starting = (
        getattr(run.controls, name)[ticks].astype(np.int64) for name in ("ready_replicas", "starting_replicas")
    )
    asked = run.asked[np.minimum(ticks, run.asked.size - 1)]
    counted = at_s >= traffic.counted_s
    violated, sent = violated_by_minute(run, at_s.size)
    causes = _causes(run, pool, needed, ready, asked, at_s)
    moving = starting > 0
    held, warm = _held(run), _warm(run, pool)
    inside = (run.gauges.at_s > traffic.counted_s) & (run.gauges.at_s <= traffic.span_s)
    return RunTally(
        slos=tallies(run.outcome, traffic.load, pool.classes, span_s=traffic.span_s),
        from_s=traffic.counted_s,
        until_s=traffic.span_s,
        replica_hours=run.replica_hours,
        warm_hours=float(warm[inside].mean()) * (traffic.span_s - traffic.counted_s) / 3600.0 if inside.any() else 0.0,
        lags_s=tuple(_lags(needed, asked, at_s, counted)),
        ready_s=tuple(each.took_s for each in run.starts),
        most_waiting_requests=int(run.gauges.waiting.max(initial=0)),
        scale_up=(int(sent[moving & counted].sum()), int(violated[moving & counted].sum())),
        shoot=_shoot(needed[counted], ready[counted]),
        turns=_turns(run.asked),
        requests=int(sent[counted].sum()),
        causes=np.array([int(violated[counted & (causes == place)].sum()) for place in range(len(CAUSES))]),
        replicas=(int(run.controls.ready_replicas.min()), int(run.controls.ready_replicas.max())),
        hourly=_hourly(run, held),
        hourly_paid=_hourly(run, held + warm),
    )


def result(name: str, runs: Sequence[RunTally]) -> RuleResult:
    """Runs added up; the SLO is the one with the least margin over all of them."""
    found = _attained(runs)
    hours = sum((each.until_s - each.from_s) / 3600.0 for each in runs)
    over, under, minutes = (sum(each.shoot[place] for each in runs) for place in range(3))
    lags = [one for each in runs for one in each.lags_s]
    starts = [one for each in runs for one in each.ready_s]
    causes = np.sum([each.causes for each in runs], axis=0)
    return RuleResult(
        name=name,
        attainment=found,
        replica_hours=sum(each.replica_hours for each in runs),
        warm_hours=sum(each.warm_hours for each in runs),
        hours=hours,
        decision_lag_s=float(np.mean(lags)) if lags else 0.0,
        ready_s=float(np.mean(starts)) if starts else 0.0,
        most_waiting_requests=max(each.most_waiting_requests for each in runs),
        scale_up_requests=sum(each.scale_up[0] for each in runs),
        scale_up_violated_requests=sum(each.scale_up[1] for each in runs),
        overshoot_fraction=over / max(minutes, 1.0),
        undershoot_fraction=under / max(minutes, 1.0),
        turns_per_hour=sum(each.turns for each in runs) / hours,
        requests=sum(each.requests for each in runs),
        violated_requests=int(causes.sum()),
        causes={cause: int(count) for cause, count in zip(CAUSES, causes, strict=True) if count},
        least_replicas=min(each.replicas[0] for each in runs),
        most_replicas=max(each.replicas[1] for each in runs),
        hourly_replicas=_mean_hours([each.hourly for each in runs]),
        hourly_paid=_mean_hours([each.hourly_paid for each in runs]),
    )


def _held(run: LoopRun) -> Floats:
    """Replicas that hold devices, sample by sample."""
    rows = run.gauges
    return (rows.ready + rows.starting + rows.draining).astype(np.float64)


def _warm(run: LoopRun, pool: ScalingPool) -> Floats:
    """Replicas that nodes held empty have room for, beyond those in use, and engines asleep as far as they keep
    devices, sample by sample."""
    at_s, limits = run.gauges.at_s, pool.limits
    nodes = np.ceil(_held(run) / limits.node_replicas)
    apart_s = float(at_s[1] - at_s[0]) if at_s.size > 1 else limits.node_held_s + 1.0
    wide = 1 + int(limits.node_held_s / apart_s)
    empty = latest_most(nodes, wide) - nodes
    return np.asarray(empty * limits.node_replicas + limits.sleepers * limits.sleeper_fraction)


def latest_most(values: Floats, wide: int) -> Floats:
    """The highest of each value and those before it, `wide` of them in all; in blocks, so that wide ones are cheap.

    >>> latest_most(np.array([1.0, 3.0, 2.0, 0.0, 0.0]), 3).tolist()
    [1.0, 3.0, 3.0, 3.0, 2.0]
    """
    padded = np.concatenate([np.full(wide - 1, -np.inf), values])
    blocks = np.concatenate([padded, np.full(-padded.size % wide, -np.inf)]).reshape(-1, wide)
    until = np.maximum.accumulate(blocks, axis=1).ravel()
    since = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    return np.asarray(np.maximum(since[: values.size], until[wide - 1 : wide - 1 + values.size]))


def _mean_hours(rows: Sequence[Floats]) -> tuple[float, ...]:
    """Hour by hour over all runs, as far as all of them go."""
    least = min(each.size for each in rows)
    means = np.mean(np.stack([each[:least] for each in rows]), axis=0)
    return tuple(round(float(each), 3) for each in means)


def _attained(runs: Sequence[RunTally]) -> Attainment:
    """The worst SLO of the worst run: a week that is violated is not made good by others."""
    found = [part([each.slos], from_s=each.from_s, until_s=each.until_s) for each in runs]
    known = [each for each in found if each is not None]
    assert known, "traffic without a request is not played"
    return min(known, key=lambda each: each.margin_fraction)


def violated_by_minute(run: LoopRun, minutes: int) -> tuple[Ints, Ints]:
    """Requests that missed a limit of their class, and all that ended, by minute of arrival."""
    found = run.requests
    minute = np.minimum(np.nan_to_num(found.arrival_s, nan=0.0) // _MINUTE_S, minutes - 1).astype(np.int64)
    ended = (found.outcome >= 0) & (found.outcome != _UNFINISHED)
    bad = ended & (found.outcome != _SUCCESS)
    return np.bincount(minute[bad], minlength=minutes), np.bincount(minute[ended], minlength=minutes)


def _causes(run: LoopRun, pool: ScalingPool, needed: Ints, ready: Ints, asked: Ints, at_s: Floats) -> Ints:
    """Of each minute, the cause that a violation in it would have."""
    most = max(run.rule.bounds[1] or pool.limits.most_replicas, 1)
    patience = max(1, round((2.0 * run.rule.lag_s + 2.0 * pool.signals.scrape_s + pool.signals.delay_s) / _MINUTE_S))
    soon = np.max([np.concatenate([asked[step:], np.full(step, asked[-1])]) for step in range(patience + 1)], axis=0)
    waiting = np.zeros(at_s.size, np.bool_)
    for each in run.starts:
        if each.refused_s > 1.0:
            waiting |= (at_s >= each.at_s - _MINUTE_S) & (at_s < each.at_s + each.took_s)
    own = np.full(at_s.size, CAUSES.index("burst"))
    own[ready < needed] = CAUSES.index("threshold")
    own[(ready < needed) & (soon >= needed)] = CAUSES.index("lag")
    own[(ready < needed) & (asked >= needed)] = CAUSES.index("cold start")
    own[(ready < needed) & (asked >= needed) & waiting] = CAUSES.index("quota")
    own[needed > most] = CAUSES.index("maximum")
    return _inherited(own, violated_by_minute(run, at_s.size)[0])


def _inherited(own: Ints, violated: Ints) -> Ints:
    """A backlog outlives the shortage that began it, and keeps its cause."""
    burst, before, quiet = CAUSES.index("burst"), -1, 0
    found = own.copy()
    for place in range(own.size):
        quiet = 0 if violated[place] else quiet + 1
        if quiet > _QUIET_MINUTES:
            before = -1
        if own[place] != burst:
            before = int(own[place])
        elif before >= 0 and violated[place]:
            found[place] = before
    return found


def _lags(needed: Ints, asked: Ints, at_s: Floats, counted: NDArray[np.bool_]) -> list[float]:
    """How long need stood above what was asked for, every time it did."""
    short = (needed > asked) & counted
    edges = np.flatnonzero(np.diff(np.concatenate([[False], short, [False]])))
    return [
        float(at_s[last - 1] - at_s[first] + _MINUTE_S) for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]


def _shoot(needed: Ints, ready: Ints) -> tuple[float, float, float]:
    beyond = (ready - needed) / needed
    return float(np.maximum(beyond, 0.0).sum()), float(np.maximum(-beyond, 0.0).sum()), float(needed.size)


def _turns(asked: Ints) -> int:
    moves = np.sign(np.diff(asked))
    moves = moves[moves != 0]
    return int((moves[1:] != moves[:-1]).sum())


def _hourly(run: LoopRun, values: Floats) -> Floats:
    """Means of samples, hour by hour."""
    rows = run.gauges
    hour = ((rows.at_s - run.traffic.counted_s) // 3600.0).astype(np.int64)
    inside = (hour >= 0) & (rows.at_s <= run.traffic.span_s)
    hours = max(1, int(np.ceil((run.traffic.span_s - run.traffic.counted_s) / 3600.0)))
    sums = np.bincount(np.minimum(hour[inside], hours - 1), weights=values[inside], minlength=hours)
    counts = np.bincount(np.minimum(hour[inside], hours - 1), minlength=hours)
    return np.asarray(sums / np.maximum(counts, 1))
