"""The limits put to the proof: what they keep at the planned load, and at one and a half and three times it.

Two ways to enforce them are told apart, because the parts that enforce them are run by different people:

    engine flags alone    a limit on running sequences and priority scheduling, at any load; and a bound on the queue
                          where the engine has a flag for it
    engine and gateway    the same, and while the backpressure signal is on the gateway keeps to the limits of overload

The limit on running sequences that overload asks for is too strict for the planned load: an SLO on a percentile lets
a burst go beyond it for a while, and a static flag does not. So the engine's flag is the least limit with which the
planned load, bursts included, still meets every SLO. At the planned load the whole pool is simulated; in overload every
replica is full, and a few stand for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ullage.admission.bounds import concurrency_grid
from ullage.admission.clients import Clients, slos_met
from ullage.service.trial.decide import Sample, judge, sampled
from ullage.service.trial.search import rare_traffic, tested_pool
from ullage.service.trial.strata import Strata, strata_of
from ullage.service.trial.trial import Guard, Trial
from ullage.service.trial.window import Probe

ENGINE_ALONE, WITH_GATEWAY = "engine flags alone", "engine and gateway"
OVERLOADS = (1.5, 3.0)
# How much longer an engine's queue may be than overload asks for, where the planned load needs it: beyond, it protects
# from nothing.
_WIDER_BOUNDS = (2, 4, 8, 16)
_HARDLY_MORE = 0.01


@dataclass(frozen=True, kw_only=True)
class LimitProof:
    """One load under one way to enforce the limits, simulated on the fleet's own step basis.

    `missed` are the SLOs that admitted requests do not meet; shares are of all requests that were sent.
    """

    enforced_by: str
    load_ratio: float
    success_fraction: float
    refused_fraction: float
    missed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlannedLoad:
    """The pool at its planning rate, bursts included: one window of every stratum."""

    trial: Trial
    rate_rps: float
    strata: Strata

    def under(self, flags: Guard | None, map: Any = map) -> tuple[Sample, tuple[str, ...]]:  # noqa: A002
        """The windows with these engine flags, and what they miss."""
        replica = self.trial.replica
        engine = replica.engine if flags is None else flags.of(replica.engine)
        limited = replace(self.trial, replica=replace(replica, engine=engine))
        sample = sampled(limited, self.rate_rps, self.strata, [1] * len(self.strata.weights), map=map)
        return sample, judge(limited, self.rate_rps, sample).violated


def planned_load(trial: Trial, probe: Probe, *, rate_rps: float, seed: int) -> PlannedLoad:
    """The sub-pool that represents the trial's pool at its planning rate."""
    stretched, tried_rps = rare_traffic(trial, rate_rps)
    tested, tested_rps = tested_pool(stretched, tried_rps, stretched.replicas)
    strata = strata_of(tested.load_at, span_s=tested.span_s, seed=seed, work_s=probe.work_s)
    return PlannedLoad(trial=tested, rate_rps=tested_rps, strata=strata)


def engine_flags(
    planned: PlannedLoad,
    clients: Clients,
    guard: Guard,
    *,
    planning_rps: float,
    has_queue_flag: bool,
    map: Any = map,  # noqa: A002
) -> Guard:
    """What an engine's own flags hold it to at any load: as strict as the planned load allows.

    The queue bound of overload may be too strict for the planned load with any limit on running sequences. That limit
    is then found without it, and beside it the least bound that the planned load allows. Where replicas are far from
    full in every proven overload such flags only refuse what would have been served, and are left out.
    """
    grid = concurrency_grid(planned.trial.replica.engine.max_sequences)
    allowed = set(planned.under(None, map)[1])
    looser = [each for each in grid if each >= guard.running_requests]
    free = Guard(running_requests=grid[-1], waiting_requests=None, first_token_s={})

    def first(tried: list[Guard]) -> list[Guard]:
        found = first_passing(len(tried), lambda place: set(planned.under(tried[place], map)[1]) <= allowed)
        return tried[found : found + 1]

    def running(waiting: int | None) -> list[Guard]:
        return first([replace(free, running_requests=each, waiting_requests=waiting) for each in looser])

    bound = guard.waiting_requests if has_queue_flag else None
    together = running(bound)
    if together or bound is None:
        return (together or [free])[0]
    limited = running(None)
    bounded = first([replace(each, waiting_requests=bound * ratio) for each in limited for ratio in _WIDER_BOUNDS])
    return _least_lost([*bounded, *limited, free], clients, planning_rps)


def _least_lost(flags: list[Guard], clients: Clients, planning_rps: float) -> Guard:
    """The first of these flags, the strictest, with which overloads lose hardly more than with any other."""
    served = [
        min(_overloaded(clients, ("", each, ratio), planning_rps).success_fraction for ratio in OVERLOADS)
        for each in flags
    ]
    return next(each for each, kept in zip(flags, served, strict=True) if kept >= max(served) - _HARDLY_MORE)


def first_passing(count: int, passes: Callable[[int], bool]) -> int:
    """The first of `count` places that passes, `count` where none does, if later ones pass whenever earlier ones do.

    Outwards from the first in steps that double, because most limits can be kept nearly as strict as they are.

    >>> [first_passing(10, lambda place: place >= border) for border in (0, 1, 6, 9, 10)]
    [0, 1, 6, 9, 10]
    """
    low, look, stride = -1, 0, 1
    while look < count and not passes(look):
        low, look, stride = look, look + stride, 2 * stride
    high = min(look, count)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def limit_proofs(
    planned: PlannedLoad,
    clients: Clients,
    flags: Guard,
    guard: Guard,
    *,
    planning_rps: float,
    map: Any = map,  # noqa: A002
) -> tuple[LimitProof, ...]:
    """The planned load, and overloads under both ways. `planning_rps` is per replica."""
    sample, missed = planned.under(flags, map)
    success = sample.mean(lambda one: one.goodput_rps / max(one.drift.offered_rps, 1e-12)).value
    lost = sample.mean(lambda one: 1.0 - one.achieved_rps / max(one.drift.ended_rps, 1e-12)).value
    calm = [
        LimitProof(
            enforced_by=way,
            load_ratio=1.0,
            success_fraction=min(max(success, 0.0), 1.0),
            refused_fraction=min(max(lost, 0.0), 1.0),
            missed=missed,
        )
        for way in (ENGINE_ALONE, WITH_GATEWAY)
    ]
    cases = [
        (name, kept, ratio) for ratio in OVERLOADS for name, kept in ((ENGINE_ALONE, flags), (WITH_GATEWAY, guard))
    ]
    return (*calm, *map(lambda case: _overloaded(clients, case, planning_rps), cases))


def _overloaded(clients: Clients, case: tuple[str, Guard, float], planning_rps: float) -> LimitProof:
    name, kept, ratio = case
    outcome = clients.run(clients.steady(ratio * planning_rps), guard=kept, patient=True)
    counts = outcome.total.counts
    sent = max(counts.requests, 1)
    return LimitProof(
        enforced_by=name,
        load_ratio=ratio,
        success_fraction=counts.success / sent,
        refused_fraction=(counts.shed + counts.timed_out) / sent,
        missed=tuple(each.name for each in slos_met(clients, outcome) if not each.is_kept),
    )
