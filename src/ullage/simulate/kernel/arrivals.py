"""Requests arrive, are repeated, and their time runs out."""

from __future__ import annotations

from ullage.simulate.kernel.books import class_of, move_area, terms_of
from ullage.simulate.kernel.boundaries import cut_plan, set_due
from ullage.simulate.kernel.codes import (
    BACKOFF,
    CANCELLED,
    FAILED,
    KEPT,
    NEVER,
    NOT_MARKED,
    OVERSIZE,
    RANK_ARRIVAL,
    RANK_CANCEL,
    RANK_CLIENT,
    RANK_DEADLINE,
    RANK_TURN,
    SHED,
    TO_FIRST_TOKEN,
    WAITING,
)  # fmt: skip
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.endings import end_attempt
from ullage.simulate.kernel.prefixes import expect_prefix, settle_cache, unpark
from ullage.simulate.kernel.queues import is_alive, link, queue_front, queue_of, state_of
from ullage.simulate.kernel.routing import route, show_load
from ullage.simulate.kernel.state import ClassTerms, World
from ullage.simulate.kernel.trees import pop_timer, push_timer


@inline
def arrive(w: World, i: int, attempt: int, now_ps: int) -> None:
    """One attempt of a request reaches the router."""
    clock = w.clock
    clock.attempts += 1
    r = route(w, i, attempt, now_ps)
    outcome = FAILED
    replica = w.replicas[r]
    engine = w.engines[0]
    if r >= 0:
        engine = w.engines[replica.engine]
        w.requests[i].status = 16 * (r + 1) + WAITING
        outcome = -1
        if w.prompt_tokens[i] + w.output_tokens[i] - 2 + engine.width > engine.blocks << engine.block_shift:
            outcome = OVERSIZE
        elif replica.waiting >= engine.queue_bound:
            outcome = SHED
    if outcome >= 0:
        end_attempt(w, i, now_ps, outcome, 0, 0)
    else:
        queue = queue_of(w, replica, i)
        link(w, replica, queue, i, queue.tail, -1)
        if w.has_prefix == 1:
            expect_prefix(w, replica, i)
        move_area(w, now_ps)
        clock.outstanding += 1
        replica.outstanding += 1
        replica.prompt_tokens += w.prompt_tokens[i]
        show_load(w, replica)
        if w.due_ps[r] == NEVER:
            set_due(w, replica, now_ps)
        elif replica.blocked == 0 or (engine.priority == 1 and queue_front(w, replica) == i):
            # A queue that was blocked stays blocked until a plan ends, unless its front is a new one.
            replica.blocked = 1
            cut_plan(w, replica, now_ps)


# First attempts of an open loop are inlined into the clock's loop; the rest call a function.
arrive_again = compiled(getattr(arrive, "py_func", arrive))


@inline
def timeout_of(limits: ClassTerms, which: int) -> int:
    return limits.ttft_timeout_ps if which == TO_FIRST_TOKEN else limits.total_timeout_ps


@inline
def watch_deadlines(w: World, i: int, now_ps: int) -> None:
    """First attempts come in order of time, so each class's deadlines need one pointer, not a queue."""
    c = class_of(w, i)
    for which in range(2):
        deadline = w.deadlines[2 * c + which]
        limit_ps = timeout_of(w.classes[c], which)
        if deadline.when_ps == NEVER and limit_ps < NEVER:
            deadline.when_ps = now_ps + limit_ps
            deadline.request = i
            w.clock.other_ps = min(w.clock.other_ps, deadline.when_ps)


@compiled
def mark_request(w: World, i: int, now_ps: int) -> None:
    """Notes that a request's time is up; its engine sees it at the next boundary. Highest number first."""
    if w.mark[i] == NOT_MARKED:
        replica = w.replicas[(w.requests[i].status >> 4) - 1]
        before = -1
        after = replica.marked
        while after > i:
            before = after
            after = w.mark[after] - 2
        w.mark[i] = after + 2
        if before < 0:
            replica.marked = i
        else:
            w.mark[before] = i + 2
        cut_plan(w, replica, now_ps)


@compiled
def pass_deadlines(w: World, c: int, which: int, now_ps: int) -> None:
    """Marks the request at the class's pointer if its time is up, and moves on to the next that still waits."""
    deadline = w.deadlines[2 * c + which]
    limit_ps = timeout_of(w.classes[c], which)
    i = deadline.request
    when_ps = NEVER
    while i < w.clock.issued:
        watched = is_alive(state_of(w, i)) and class_of(w, i) == c
        if watched and w.most_attempts > 1 and w.tries[i] > 1:
            watched = False  # a retry's deadline is on the timer heap
        if watched and which == TO_FIRST_TOKEN and w.first_ps[i] > 0:
            watched = False
        if watched:
            when_ps = w.arrival_ps[i] + limit_ps
            if when_ps > now_ps:
                break
            mark_request(w, i, now_ps)
            when_ps = NEVER
        i += 1
    deadline.when_ps = when_ps
    deadline.request = i


@compiled
def push_deadlines(w: World, i: int, attempt: int, now_ps: int) -> None:
    """Deadlines that are not in order of request number, of retries and later turns, go to the timer heap."""
    for which in range(2):
        limit_ps = timeout_of(terms_of(w, i), which)
        if limit_ps < NEVER:
            push_timer(w, now_ps + limit_ps, RANK_DEADLINE, i, attempt)


@inline
def issue(w: World, i: int, now_ps: int) -> None:
    """A request is issued for the first time; its arrival at the router follows."""
    clock = w.clock
    if i < w.listed_count:
        clock.issued += 1
    else:
        clock.followed += 1
    if w.is_closed == 1 or w.has_turns == 1:
        w.arrival_ps[i] = now_ps
    if w.most_attempts > 1:
        w.tries[i] = 1
        w.attempt_ps[i] = now_ps
        clock.bucket_milli = min(w.bucket_milli, clock.bucket_milli + w.deposit_milli)
    if w.has_cancel == 1 and w.cancel_after_ps[i] < NEVER:
        push_timer(w, now_ps + w.cancel_after_ps[i], RANK_CANCEL, i, 0)
    if w.has_deadline == 1:
        if i < w.listed_count:
            watch_deadlines(w, i, now_ps)
        else:
            push_deadlines(w, i, 1, now_ps)


@inline
def retry_now(w: World, i: int, attempt: int, now_ps: int) -> None:
    """A request is retried."""
    w.clock.in_backoff -= 1
    w.tries[i] = attempt
    w.attempt_ps[i] = now_ps
    push_deadlines(w, i, attempt, now_ps)
    arrive_again(w, i, attempt, now_ps)


@inline
def let_go(w: World, i: int, now_ps: int) -> None:
    """A turn comes: what its session kept for it is held no longer, and others may be admitted in its place."""
    if w.between == KEPT and w.parked_at[i] > 0:
        replica = w.replicas[w.parked_at[i] - 1]
        settle_cache(w, replica, now_ps)
        unpark(w, replica, i)
        cut_plan(w, replica, now_ps)


@compiled
def fire_timer(w: World, now_ps: int) -> None:
    """Handles the timer on top of the heap."""
    clock = w.clock
    code = w.timers[0].code
    pop_timer(w)
    rank = code >> 56
    i = (code >> 8) & 0xFFFFFFFFFFFF
    attempt = code & 0xFF
    if rank == RANK_CLIENT:
        if clock.issued < w.listed_count:
            w.client[clock.issued] = i
            i = clock.issued
            issue(w, i, now_ps)
            arrive_again(w, i, 1, now_ps)
    elif rank == RANK_TURN:
        clock.thinking -= 1
        let_go(w, i, now_ps)
        issue(w, i, now_ps)
        arrive_again(w, i, 1, now_ps)
    else:
        state = state_of(w, i)
        if rank == RANK_ARRIVAL:
            if state == BACKOFF and w.tries[i] == attempt:
                retry_now(w, i, attempt + 1, now_ps)
        elif rank == RANK_CANCEL and state == BACKOFF:
            clock.in_backoff -= 1
            end_attempt(w, i, now_ps, CANCELLED, 0, 0)
        elif is_alive(state) and (rank == RANK_CANCEL or w.most_attempts <= 1 or w.tries[i] == attempt):
            mark_request(w, i, now_ps)
