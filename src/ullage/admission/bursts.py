"""The burst budget: how high a burst may be for how long, so that the hour it falls into still meets its SLOs.

Traffic is steady at the planning rate, then for a while a multiple of it, then steady again; nothing is refused. Some
of those who come in the burst, or while its queue is worked off, wait too long. An SLO on a percentile allows for
some such requests in every window it is judged over, and the error budget for a few whose clients have given up by
then: the burst is absorbed where they are not more.

Four ways to absorb it: by the queue alone, with replicas asleep on their devices, with replicas on warm nodes, and
with as many new replicas as the burst needs. Each joins once it was noticed and has started, at the 90th percentile
of its level.

A shorter burst may always be as high as a longer one, and a way to absorb is never worse than the queue alone: both
are true of the system, so a chance deviation from them is noise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.admission.bounds import last_passing
from ullage.admission.clients import Clients, Latencies, arrivals_at, step_load, window_latencies
from ullage.evidence import number
from ullage.startup.phases import Level
from ullage.startup.ready import TimeToReady
from ullage.workload.classes import Metric

LENGTHS_S = (10.0, 30.0, 120.0, 300.0, 900.0)
# Multiples of the planning rate, 10 % apart up to 8; the first is no burst at all.
HEIGHTS = tuple(round(1.1**step, 2) for step in range(23))
READY_FRACTION = 0.9
_SETTLED_S = 30.0
# After the burst the queue is watched for as long as it should take to empty, and for a minute more.
_WATCHED_RATIO, _WATCHED_S = 1.5, 60.0
# A queue that two hours do not empty has cost more than any SLO allows.
_MOST_WATCHED_S = 7200.0
# A replica completes a little more than the highest load at which it meets its SLOs.
_THROUGHPUT_RATIO = 1.15


@dataclass(frozen=True, kw_only=True)
class Absorber:
    """A way to absorb a burst: how many replicas join after how long; None for as many as it needs."""

    name: str
    joins_after_s: float
    more_replicas: int | None


@dataclass(frozen=True, kw_only=True)
class BurstPoint:
    """The highest burst of one length that is absorbed, as a multiple of the planning rate; 0: not even that rate."""

    absorber: str
    length_s: float
    height_ratio: float


@dataclass(frozen=True, kw_only=True)
class BurstLimit:
    """A limit on a latency of a class, and the share of its requests that may exceed it."""

    class_name: str
    metric: Metric
    limit_s: float
    late_fraction: float

    @property
    def is_on_wait(self) -> bool:
        return self.metric in (Metric.TTFT, Metric.E2E)

    def late(self, found: Latencies) -> int:
        """How many exceeded it; what was never answered compares as later than any limit."""
        return int((~(found[self.class_name, self.metric] <= self.limit_s)).sum())


def judged_by(clients: Clients) -> tuple[BurstLimit, ...]:
    """The SLOs, but for those on gaps, and the patience of clients."""
    found = []
    for each in clients.classes:
        limits = [
            (slo.metric, slo.limit_s, 1.0 - slo.percentile_fraction)
            for slo in each.slos
            if slo.metric is not Metric.ITL
        ]
        limits.append((Metric.TTFT, number(clients.policy.first_token_timeout), clients.error_fraction))
        lost_fraction = clients.trial.allowed_error_fraction(each.name)
        limits.append((Metric.E2E, number(clients.policy.deadline_of(each.name)), lost_fraction))
        found += [
            BurstLimit(class_name=each.name, metric=metric, limit_s=limit_s, late_fraction=share)
            for metric, limit_s, share in limits
        ]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Base:
    """The pool without a burst: its load and capacity, per replica, and how its requests fare by each limit."""

    planning_rps: float
    capacity_rps: float
    class_rps: Mapping[str, float]
    late_fractions: Mapping[BurstLimit, float]


def absorbers(clients: Clients, ready: TimeToReady, *, replicas: int) -> tuple[Absorber, ...]:
    """The queue, the warm replicas of the policy started hot and warm, and cold ones without end."""
    notice_s = number(clients.policy.scale_delay)
    kept = clients.policy.warm_count(replicas)
    # The clients is a part of the pool and gets its part of what is kept warm.
    share = round(kept * clients.replicas / replicas)
    joins_s = {level: notice_s + ready.level(level).quantile_s(READY_FRACTION) for level in Level}
    return (
        Absorber(name="queue", joins_after_s=math.inf, more_replicas=0),
        Absorber(name="hot", joins_after_s=joins_s[Level.HOT], more_replicas=share),
        Absorber(name="warm", joins_after_s=joins_s[Level.WARM], more_replicas=share),
        Absorber(name="scale-up", joins_after_s=joins_s[Level.COLD], more_replicas=None),
    )


def burst_budget(
    clients: Clients,
    ways: tuple[Absorber, ...],
    *,
    planning_rps: float,
    capacity_rps: float,
    map: Any = map,  # noqa: A002
) -> tuple[BurstPoint, ...]:
    """The highest burst of every length and way; the first way is the queue alone.

    A planning rate above capacity leaves no room for any burst, and is not simulated.
    """
    if planning_rps > capacity_rps:
        return tuple(BurstPoint(absorber=w.name, length_s=s, height_ratio=0.0) for w in ways for s in LENGTHS_S)
    base = base_of(clients, planning_rps, capacity_rps)
    alone = _curve(clients, ways[0], base, floors={})
    others = map(lambda way: _curve(clients, way, base, floors=alone), ways[1:])
    found = dict(zip([way.name for way in ways], [alone, *others], strict=True))
    return tuple(
        BurstPoint(absorber=name, length_s=length_s, height_ratio=0.0 if place < 0 else HEIGHTS[place])
        for name, places in found.items()
        for length_s, place in places.items()
    )


def base_of(clients: Clients, planning_rps: float, capacity_rps: float) -> Base:
    """One run at the planning rate."""
    load = clients.steady(planning_rps)
    outcome = clients.run(load, patient=True, from_s=0.0, keep_requests=True)
    from_s = _SETTLED_S if clients.span_s > 2 * _SETTLED_S else 0.0
    found = window_latencies(clients, load, outcome, from_s=from_s, until_s=clients.span_s)
    window_s = clients.span_s - from_s
    return Base(
        planning_rps=planning_rps,
        capacity_rps=capacity_rps,
        class_rps={each.name: found[each.name, Metric.TTFT].size / window_s for each in clients.classes},
        late_fractions={
            each: each.late(found) / max(found[each.class_name, each.metric].size, 1) for each in judged_by(clients)
        },
    )


def _curve(clients: Clients, way: Absorber, base: Base, floors: Mapping[float, int]) -> dict[float, int]:
    """The place of the highest height for each length; never below that of a longer burst, nor below the floor."""
    places: dict[float, int] = {}
    longer = -1
    for length_s in reversed(LENGTHS_S):
        floor = max(longer, floors.get(length_s, -1))
        candidates = HEIGHTS[floor + 1 :]
        if way.more_replicas == 0 and floors:
            places[length_s] = longer = floor
            continue
        passes = functools.partial(_absorbs_place, clients, way, base, length_s, candidates)
        places[length_s] = longer = floor + 1 + last_passing(len(candidates), passes, try_last=False)
    return {length_s: places[length_s] for length_s in LENGTHS_S}


def _absorbs_place(
    clients: Clients, way: Absorber, base: Base, length_s: float, heights: Sequence[float], place: int
) -> bool:
    return absorbs(clients, way, base, length_s=length_s, height=heights[place])


def absorbs(clients: Clients, way: Absorber, base: Base, *, length_s: float, height: float) -> bool:
    """Whether the SLOs are met over a window that has this burst in it and is quiet otherwise."""
    window_s = max(number(clients.policy.slo_window), length_s)
    if _is_hopeless(clients, way, base, length_s=length_s, height=height, window_s=window_s):
        return False
    watched_s = min(window_s, _MOST_WATCHED_S, length_s + drain_s(base, length_s, height))
    load = step_load(
        clients,
        base_rps=base.planning_rps,
        burst_rps=height * base.planning_rps,
        at_s=_SETTLED_S,
        length_s=length_s,
        span_s=_SETTLED_S + watched_s,
    )
    wanted = math.ceil((height - 1.0) * clients.replicas)
    more = wanted if way.more_replicas is None else way.more_replicas
    joining = more if way.joins_after_s < watched_s else 0
    fleet = arrivals_at(clients.replicas, joining, at_s=_SETTLED_S + min(way.joins_after_s, watched_s))
    outcome = clients.run(load, patient=True, from_s=0.0, fleet=fleet, keep_requests=True)
    found = window_latencies(clients, load, outcome, from_s=_SETTLED_S, until_s=_SETTLED_S + watched_s)
    for each, late_fraction in base.late_fractions.items():
        quiet = base.class_rps[each.class_name] * (window_s - watched_s)
        came = found[each.class_name, each.metric].size + quiet
        if each.late(found) + late_fraction * quiet > each.late_fraction * came:
            return False
    return True


def _is_hopeless(
    clients: Clients, way: Absorber, base: Base, *, length_s: float, height: float, window_s: float
) -> bool:
    """Whether even a fluid makes half as many late again as a limit allows; it spares the longest runs.

    Above what replicas can do at all, the wait grows steadily until more replicas join, or, where those do not suffice
    either, until the burst is over; who comes after it has passed a limit is late.
    """
    can_rps = _THROUGHPUT_RATIO * base.capacity_rps
    burst_rps = height * base.planning_rps
    if burst_rps <= can_rps:
        return False
    more = height if way.more_replicas is None else 1.0 + way.more_replicas / clients.replicas
    grows_s = min(length_s, way.joins_after_s) if burst_rps <= more * can_rps else length_s
    come = base.planning_rps * window_s + (burst_rps - base.planning_rps) * length_s
    for each in base.late_fractions:
        passed_s = each.limit_s * can_rps / (burst_rps - can_rps)
        if each.is_on_wait and burst_rps * (grows_s - passed_s) > 1.5 * each.late_fraction * come:
            return True
    return False


def drain_s(base: Base, length_s: float, height: float) -> float:
    """How long to watch after the burst: arrivals above capacity, worked off by what the steady load leaves."""
    above_rps = max(0.0, height * base.planning_rps - base.capacity_rps)
    left_rps = base.capacity_rps - base.planning_rps
    if left_rps <= 0.01 * base.capacity_rps:
        return math.inf if above_rps > 0.0 else _WATCHED_S
    return _WATCHED_RATIO * length_s * above_rps / left_rps + _WATCHED_S
