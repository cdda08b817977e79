"""What the platform does to a replica: it fails, comes back, is drained; or the run ends."""

from __future__ import annotations

from ullage.simulate.kernel.books import add_to_sums, gained, starved_at
from ullage.simulate.kernel.boundaries import set_due
from ullage.simulate.kernel.codes import (
    DOWN,
    EVENT_DRAIN,
    EVENT_FAIL,
    EVENT_READY,
    EVENT_REPAIR,
    FAILED,
    NEVER,
    NOT_MARKED,
    OFF,
    READY,
    STARTING,
)  # fmt: skip
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.completion import book_decode_steps, book_mixed_time, stop_running
from ullage.simulate.kernel.endings import end_attempt, leave
from ullage.simulate.kernel.prefixes import empty_cache, make_room_for_plan, settle_cache
from ullage.simulate.kernel.queues import unlink
from ullage.simulate.kernel.replicas import become_ready, change_state, drain, switch_off
from ullage.simulate.kernel.routing import show_load
from ullage.simulate.kernel.state import ReplicaRow, World
from ullage.simulate.kernel.steps import plan_end, steps_until


@inline
def is_starved(w: World, replica: ReplicaRow, s: int) -> bool:
    found = False
    for x in range(replica.starved):
        found = found or w.pending[starved_at(w, replica, x)] == s
    return found


@inline
def interrupt_step(w: World, replica: ReplicaRow, now_ps: int) -> int:
    """Books the step under way up to now; returns 1 when there was one."""
    under_way = 0
    if replica.planned > 0:
        under_way = 1
        whole = steps_until(w, replica, now_ps) - 1
        if w.has_prefix == 1:
            make_room_for_plan(w, replica, whole + 1)
        if whole > 0:
            end_ps = plan_end(w, replica, whole)
            book_decode_steps(w, replica, whole, end_ps)
            replica.begin_ps = end_ps
        span_ps = now_ps - replica.begin_ps
        replica.decode_busy_ps += span_ps
        replica.decode_tokens += replica.decodes * gained(w, replica, 1)
        replica.cut_tokens += replica.decodes * gained(w, replica, 1)
        if w.attribute == 1:
            add_to_sums(w, replica, span_ps, float(span_ps) / replica.decodes)
    elif replica.mixed == 1:
        under_way = 1
        replica.cut_tokens += replica.step_decodes * gained(w, replica, 1)
        book_mixed_time(w, replica, now_ps)
    return under_way


@compiled
def evict(w: World, replica: ReplicaRow, now_ps: int, outcome: int) -> None:
    """The replica stops in the middle of its step, and everything on it ends like this."""
    under_way = interrupt_step(w, replica, now_ps) * gained(w, replica, 1)
    i = replica.marked
    replica.marked = -1
    while i >= 0:
        following = w.mark[i] - 2
        w.mark[i] = NOT_MARKED
        i = following
    s = replica.head
    while s >= 0:
        slot = w.slots[s]
        i = slot.request
        following = slot.after
        extra = under_way
        if slot.last_step < 0 or is_starved(w, replica, s):
            extra = 0
        held, emitted = stop_running(w, replica, s)
        leave(w, replica, i, now_ps)
        end_attempt(w, i, now_ps, outcome, held + extra, emitted)
        s = following
    for level in range(w.levels):
        queue = w.queues[replica.queues_at + level]
        while queue.head >= 0:
            i = queue.head
            unlink(w, replica, queue, i)
            leave(w, replica, i, now_ps)
            end_attempt(w, i, now_ps, outcome, 0, w.requests[i].emitted)
    replica.ratio = w.engines[replica.engine].ratio_first
    if w.has_prefix == 1:
        empty_cache(w, replica)
    replica.planned = 0
    replica.mixed = 0
    replica.pending = 0
    replica.starved = 0
    replica.blocked = 1
    set_due(w, replica, NEVER)
    show_load(w, replica)


@compiled
def platform_event(w: World, replica: ReplicaRow, kind: int, now_ps: int) -> None:
    state = replica.state
    if kind == EVENT_FAIL:
        if state != DOWN:
            replica.returns = READY if state in (READY, STARTING) else OFF
            if w.has_prefix == 1:
                settle_cache(w, replica, now_ps)
            if state != OFF:
                switch_off(w, replica, now_ps)
            evict(w, replica, now_ps, FAILED)
            change_state(w, replica, DOWN)
        replica.down_causes += 1
    elif state == DOWN:
        if kind == EVENT_REPAIR:
            replica.down_causes -= 1
            if replica.down_causes == 0:
                replica.on_since_ps = now_ps
                change_state(w, replica, OFF)
                if replica.returns == READY:
                    become_ready(w, replica)
        else:
            replica.returns = READY if kind == EVENT_READY else OFF
    elif kind == EVENT_READY:
        if state == OFF:
            replica.on_since_ps = now_ps
        if state in (OFF, STARTING):
            become_ready(w, replica)
    elif kind == EVENT_DRAIN:
        if state == STARTING:
            switch_off(w, replica, now_ps)
        elif state == READY:
            drain(w, replica, now_ps)
