"""Concurrency, queue length and queue age of one replica, found by overloading it.

    running   the most sequences at which a replica that is never idle still meets its TPOT and ITL SLOs
    waiting   what it works off within the longest wait that any class can afford
    age       how long a class may wait: the latest first token that meets its SLO, less its prefill

None of them depends on the size of the pool: in overload every replica is full, so the limits of a pool are those of
a replica times their number. Searches walk fixed grids that do not depend on SLOs and deadlines, so a stricter one
can never end with a looser limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.admission.clients import REQUESTS, AdmittedAttainment, Clients, Floats, quantile, slos_met
from ullage.admission.deadlines import Deadline
from ullage.service.trial.trial import Guard, requests_of
from ullage.simulate.load import OpenLoop
from ullage.simulate.outcome import GroupOutcome
from ullage.workload.classes import Metric, RequestClass

# A replica that always has more than enough to do: twice what it can, so that its queue only grows.
SATURATED_RATIO = 2.0
# First-token limits are searched on a grid of tenths, from a millisecond up.
AGE_GROWTH_RATIO = 1.1
_LEAST_AGE_S = 0.001
OWN_LIMIT = "the engine's own limit"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """A replica that always runs `running_requests` sequences: what it completes, and what it takes for each class.

    `prefill_s` is from admission to the first token at p95, `busy_s` the engine time of one request.
    """

    running_requests: int
    throughput_rps: float
    prefill_s: Mapping[str, float]
    busy_s: Mapping[str, float]
    broken: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The limits of one replica, and what decided the first of them."""

    pace: Pace
    guard: Guard
    binding: str
    ages_s: Mapping[str, float]

    @property
    def waiting_requests(self) -> int:
        return self.guard.waiting_requests or 0


def replica_bounds(
    clients: Clients,
    deadlines: Mapping[str, Deadline],
    *,
    saturation_rps: float,
    overload: float,
    loads_rps: Sequence[float] = (),
) -> Bounds:
    """The limits under which one replica, offered `overload` times what it can do, meets the SLOs of those it admits.

    They are held to it at `loads_rps` too, which are per replica.
    """
    pace, binding = most_running(clients, saturation_rps)
    found = _bounds(clients, deadlines, pace, binding, overload)
    # Priority scheduling and requests that are taken down change the batch: the limits are held to what they are for.
    for fewer in reversed(concurrency_grid(pace.running_requests)[:-1]):
        missed = [
            each
            for rate_rps in (overload * found.pace.throughput_rps, *loads_rps)
            for each in slos_met(clients, clients.run(clients.steady(rate_rps), guard=found.guard, patient=True))
            if not each.is_kept and not each.is_on_wait
        ]
        if not missed:
            break
        alone = clients.of(replicas=1, span_s=max(clients.span_s, REQUESTS / saturation_rps))
        found = _bounds(clients, deadlines, saturated(alone, fewer, saturation_rps), missed[0].name, overload)
    return found


def _bounds(clients: Clients, deadlines: Mapping[str, Deadline], pace: Pace, binding: str, overload: float) -> Bounds:
    """The limits that go with one concurrency."""
    guard = _first_tokens(clients, deadlines, pace, overload * pace.throughput_rps)
    longest_s = max(guard.first_token_s.values())
    # Whatever waits longer than the longest wait that is allowed is taken down anyway; a place beyond it is no use.
    waiting = max(1, math.ceil(pace.throughput_rps * longest_s))
    ages_s = {name: max(0.0, limit_s - pace.prefill_s[name]) for name, limit_s in guard.first_token_s.items()}
    return Bounds(pace=pace, guard=replace(guard, waiting_requests=waiting), binding=binding, ages_s=ages_s)


# ---- concurrency ------------------------------------------------------------------------------------------


def concurrency_grid(most: int) -> tuple[int, ...]:
    """Four steps to the octave, and the engine's own limit.

    >>> concurrency_grid(40)
    (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40)
    """
    steps = {step * 2**octave for octave in range(most.bit_length()) for step in (4, 5, 6, 7)} | {1, 2, 3}
    return (*sorted(each for each in steps if each < most), most)


def most_running(clients: Clients, saturation_rps: float) -> tuple[Pace, str]:
    """The highest concurrency whose pace meets every SLO, and what the next one breaks."""
    alone = clients.of(replicas=1, span_s=max(clients.span_s, REQUESTS / saturation_rps))
    grid = concurrency_grid(alone.replica.engine.max_sequences)
    known: dict[int, Pace] = {}

    def pace(place: int) -> Pace:
        if place not in known:
            known[place] = saturated(alone, grid[place], saturation_rps)
        return known[place]

    found = last_passing(len(grid), lambda place: not pace(place).broken)
    if found + 1 == len(grid):
        return pace(found), OWN_LIMIT
    return pace(max(found, 0)), pace(found + 1).broken[0]


def saturated(alone: Clients, running: int, saturation_rps: float) -> Pace:
    """One replica with a queue that never ends and at most `running` sequences, first come first served."""
    engine = alone.replica.engine
    limited = alone.of(replica=replace(alone.replica, engine=replace(engine, max_sequences=running)))
    load = limited.steady(SATURATED_RATIO * saturation_rps)
    outcome = limited.run(load, patient=True, keep_requests=True, attribution=True)
    times = requests_of(outcome)
    class_of = np.zeros(load.requests.count, np.int16) if load.requests.class_of is None else load.requests.class_of
    from_s = outcome.warmup_s
    # The run goes on until the queue is empty; while requests came it never was.
    done = (times.admitted_s >= from_s) & (times.admitted_s < limited.span_s) & (times.outcome <= 1)
    names = [each.name for each in load.requests.classes]
    prefill: dict[str, float] = {}
    broken: list[str] = []
    for each in alone.classes:
        mine = done & (class_of == names.index(each.name))
        spent = {
            Metric.TTFT: (times.first_token_s - times.admitted_s + times.outside_s)[mine],
            Metric.E2E: (times.end_s - times.admitted_s + times.outside_s)[mine],
            Metric.TPOT: ((times.end_s - times.first_token_s) / np.maximum(load.requests.output_tokens - 1, 1))[mine],
        }
        # A class without requests is taken to start as the others do.
        starts = spent[Metric.TTFT] if mine.any() else (times.first_token_s - times.admitted_s + times.outside_s)[done]
        prefill[each.name] = quantile(starts, 0.95)
        broken += _broken(each, spent, outcome.itl[each.name].quantile_s)
    ended = int(((times.end_s >= from_s) & (times.end_s < limited.span_s) & (times.outcome <= 1)).sum())
    return Pace(
        running_requests=running,
        throughput_rps=max(ended, 1) / (limited.span_s - from_s),
        prefill_s=prefill,
        busy_s={each.name: _busy(outcome.of_class(each.name)) for each in alone.classes},
        broken=tuple(broken),
    )


def _busy(group: GroupOutcome) -> float:
    """The engine time of a request of this group, attributed by the tokens it had in each step."""
    return group.busy_s / max(group.counts.requests, 1)


def _broken(slo_class: RequestClass, spent: Mapping[Metric, Floats], gap: Callable[[float], float]) -> list[str]:
    """The SLOs that are missed before any waiting: the pace of tokens, and prefill and decode by themselves."""
    broken = []
    for slo in slo_class.slos:
        fraction = slo.percentile_fraction
        value_s = gap(fraction) if slo.metric is Metric.ITL else quantile(spent[slo.metric], fraction)
        if not AdmittedAttainment(class_name=slo_class.name, slo=slo, found_s=value_s).is_clear:
            broken.append(f"{slo_class.name} {slo.name}")
    return broken


# ---- queue ------------------------------------------------------------------------------------------------


def age_grid(cap_s: float) -> tuple[float, ...]:
    """Times up to the cap on a grid that the cap does not enter, and the cap itself."""
    steps = max(0, math.floor(math.log(cap_s / _LEAST_AGE_S) / math.log(AGE_GROWTH_RATIO)) + 1)
    below = [each for each in (_LEAST_AGE_S * AGE_GROWTH_RATIO**step for step in range(steps)) if each < cap_s]
    return (*below, cap_s)


def _first_tokens(clients: Clients, deadlines: Mapping[str, Deadline], pace: Pace, offered_rps: float) -> Guard:
    """When to take a request down that has no token yet: as late as those who stay meet the SLOs of their class.

    Most urgent class first: what it leaves is what the others wait for.
    """
    load = clients.steady(offered_rps)
    latest_s = {name: each.latest_first_token_s for name, each in deadlines.items()}
    guard = Guard(running_requests=pace.running_requests, waiting_requests=None, first_token_s=latest_s)
    alike: dict[tuple[object, ...], list[str]] = {}
    for each in sorted(clients.classes, key=lambda one: one.priority):
        if any(slo.metric in (Metric.TTFT, Metric.E2E) for slo in each.slos):
            terms = (each.priority, each.slos, each.definitions, latest_s[each.name])
            alike.setdefault(terms, []).append(each.name)
    for names in alike.values():
        guard = _with_latest(clients, load, guard, names)
    return guard


def _with_latest(clients: Clients, load: OpenLoop, guard: Guard, names: Sequence[str]) -> Guard:
    """The guard with the latest first token of classes that are held to the same, at which those who stay keep it."""
    grid = age_grid(guard.first_token_s[names[0]])

    def at(place: int) -> Guard:
        return replace(guard, first_token_s={**guard.first_token_s, **dict.fromkeys(names, grid[place])})

    def passes(place: int) -> bool:
        kept = slos_met(clients, clients.run(load, guard=at(place), patient=True))
        return all(each.is_clear for each in kept if each.class_name in names and each.is_on_wait)

    return at(max(0, last_passing(len(grid), passes)))


def last_passing(count: int, passes: Callable[[int], bool], *, try_last: bool = True) -> int:
    """The last of `count` places that passes, -1 where none does, if earlier ones pass whenever later ones do.

    Unless told otherwise the last place is tried first: most limits turn out not to bind.

    >>> [last_passing(10, lambda place: place < border) for border in (7, 10, 0)]
    [6, 9, -1]
    """
    low, high = -1, count
    if try_last and count:
        if passes(count - 1):
            return count - 1
        high = count - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low
