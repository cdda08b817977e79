"""The clock: which comes first, an arrival, another outside event or a replica's boundary.

`advance`, `intervene` and `close` are what the driver calls.
"""

from __future__ import annotations

from ullage.simulate.kernel.arrivals import arrive, fire_timer, issue, pass_deadlines
from ullage.simulate.kernel.boundaries import boundary
from ullage.simulate.kernel.codes import (
    ARRIVAL_FIRST,
    AT_CONTROL,
    AT_INTERVENTION,
    AT_UNTIL,
    BACKOFF,
    CONTROL_NONE,
    DONE,
    HEAP_FULL,
    LOG_FULL,
    NEVER,
    OUT_OF_EVENTS,
    RANK_ARRIVAL,
    RANK_CONTROL,
    RANK_DEADLINE,
    RANK_PLATFORM,
    RANK_READY,
    RANK_REFRESH,
    RANK_SAMPLE,
    UNFINISHED,
)  # fmt: skip
from ullage.simulate.kernel.compiling import compiled, entry, inline
from ullage.simulate.kernel.control import control, take_gauge, take_sample
from ullage.simulate.kernel.endings import end_attempt
from ullage.simulate.kernel.failures import evict, platform_event
from ullage.simulate.kernel.queues import state_of
from ullage.simulate.kernel.replicas import become_ready
from ullage.simulate.kernel.routing import refresh_router
from ullage.simulate.kernel.state import World


@compiled
def next_other(w: World) -> int:
    """When the next outside event comes that is not an open-loop arrival."""
    clock = w.clock
    soonest = NEVER
    if w.control != CONTROL_NONE:
        for r in range(w.replica_count):
            soonest = min(soonest, w.replicas[r].ready_ps)
    clock.ready_min_ps = soonest
    soonest = min(soonest, clock.refresh_ps, clock.sample_ps, clock.control_ps)
    if clock.next_event < w.event_count:
        soonest = min(soonest, w.events[clock.next_event].when_ps)
    if clock.timers > 0:
        soonest = min(soonest, w.timers[0].when_ps)
    if w.has_deadline == 1:
        for x in range(2 * w.class_count):
            soonest = min(soonest, w.deadlines[x].when_ps)
    return soonest


@inline
def due_rank(w: World, now_ps: int) -> int:
    """The rank of the outside event that comes first now, open-loop arrivals apart; -1 when there is none."""
    clock = w.clock
    rank = -1
    if clock.next_event < w.event_count and w.events[clock.next_event].when_ps == now_ps:
        rank = RANK_PLATFORM
    elif clock.ready_min_ps == now_ps:
        rank = RANK_READY
    elif clock.refresh_ps == now_ps:
        rank = RANK_REFRESH
    elif clock.sample_ps == now_ps:
        rank = RANK_SAMPLE
    elif clock.control_ps == now_ps:
        rank = RANK_CONTROL
    else:
        if clock.timers > 0 and w.timers[0].when_ps == now_ps:
            rank = w.timers[0].code >> 56
        if w.has_deadline == 1:
            for x in range(2 * w.class_count):
                if w.deadlines[x].when_ps == now_ps:
                    rank = RANK_DEADLINE
    return rank


@inline
def is_timer_of(w: World, rank: int, now_ps: int) -> bool:
    """Whether the timer on top of the heap is due now and of this rank."""
    return w.clock.timers > 0 and w.timers[0].when_ps == now_ps and w.timers[0].code >> 56 == rank


@compiled
def handle_other(w: World, now_ps: int, arrival_due: bool, issued: int) -> int:
    """Handles one outside event that comes often. Returns a code when it is another's turn.

    With an open-loop arrival due at the same time, a retry of a higher number or a later turn leaves it the precedence.
    """
    clock = w.clock
    rank = due_rank(w, now_ps)
    if arrival_due and (
        rank < 0
        or rank > RANK_ARRIVAL
        or (rank == RANK_ARRIVAL and ((w.timers[0].code >> 8) & 0xFFFFFFFFFFFF) > issued)
    ):
        return ARRIVAL_FIRST
    if rank == RANK_REFRESH:
        clock.refresh_ps += w.refresh_period_ps
        refresh_router(w, now_ps)
    elif rank == RANK_SAMPLE:
        if w.has_samples == 1 and (clock.samples + 1) * w.replica_count > w.sample_room:
            return LOG_FULL
        if w.has_gauges == 1 and clock.gauges + 1 > w.gauge_room:
            return LOG_FULL
        clock.sample_ps += w.sample_period_ps
        if w.has_samples == 1:
            take_sample(w, now_ps)
        if w.has_gauges == 1:
            take_gauge(w, now_ps)
    elif rank >= 0 and rank < RANK_DEADLINE:
        return AT_INTERVENTION
    elif rank == RANK_DEADLINE and not is_timer_of(w, RANK_DEADLINE, now_ps):
        for x in range(2 * w.class_count):
            if w.deadlines[x].when_ps == now_ps:
                pass_deadlines(w, x >> 1, x & 1, now_ps)
    elif rank >= 0:
        fire_timer(w, now_ps)
    clock.now_ps = now_ps
    clock.other_ps = next_other(w)
    return DONE


@entry
def intervene(w: World) -> int:
    """Handles the outside event that `advance` stopped at: replicas come and go, a control tick.

    These are rare, and a function of its own is compiled only where it is used. Returns DONE, or a code when the
    caller must act first.
    """
    clock = w.clock
    now_ps = clock.other_ps
    rank = due_rank(w, now_ps)
    if rank == RANK_PLATFORM:
        event = w.events[clock.next_event]
        clock.next_event += 1
        platform_event(w, w.replicas[event.replica], event.kind, now_ps)
    elif rank == RANK_READY:
        for r in range(w.replica_count):
            if w.replicas[r].ready_ps == now_ps:
                become_ready(w, w.replicas[r])
    else:
        if clock.controls + 1 > w.control_room:
            return LOG_FULL
        if not control(w, now_ps):
            return AT_CONTROL
    clock.now_ps = now_ps
    clock.other_ps = next_other(w)
    return DONE


@entry
def advance(w: World, until_ps: int) -> int:
    """Runs everything before `until_ps`; says why it came back. Call it again to go on."""
    clock = w.clock
    room = w.timer_room - 8 if w.timer_room > 0 else NEVER
    while True:
        issued = clock.issued
        next_arrival = w.arrival_ps[issued] if w.is_closed == 0 and issued < w.listed_count else NEVER
        now_ps = clock.now_ps
        boundaries = 0
        most = w.most_events - clock.events
        while True:
            when_ps = min(next_arrival, clock.other_ps, until_ps)
            r = 0 if w.replica_count == 1 else w.due_tree[1]
            due_ps = w.due_ps[r]
            if due_ps >= when_ps or boundaries > most or clock.timers + clock.outstanding > room:
                break
            boundary(w, w.replicas[r], due_ps)
            now_ps = due_ps
            boundaries += 1
        clock.now_ps = now_ps
        clock.events += boundaries
        if clock.events > w.most_events:
            return OUT_OF_EVENTS
        if clock.timers + clock.outstanding > room:
            return HEAP_FULL
        if issued == w.listed_count and clock.outstanding == 0 and clock.in_backoff == 0 and clock.thinking == 0:
            return DONE
        if when_ps >= until_ps:
            return AT_UNTIL
        code = ARRIVAL_FIRST
        if clock.other_ps <= next_arrival:
            code = handle_other(w, clock.other_ps, clock.other_ps == next_arrival, issued)
        if code == ARRIVAL_FIRST:
            clock.now_ps = next_arrival
            clock.events += 1
            issue(w, issued, next_arrival)
            arrive(w, issued, 1, next_arrival)
        elif code != DONE:
            return code


@entry
def close(w: World, now_ps: int) -> None:
    """The horizon: what is still under way stays unfinished."""
    for r in range(w.replica_count):
        evict(w, w.replicas[r], now_ps, UNFINISHED)
    if w.clock.in_backoff > 0:
        for i in range(w.request_count):
            if state_of(w, i) == BACKOFF:
                w.clock.in_backoff -= 1
                end_attempt(w, i, now_ps, UNFINISHED, 0, 0)
