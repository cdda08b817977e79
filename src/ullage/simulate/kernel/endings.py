"""How an attempt ends, and what follows from it: a retry, a client's next request, nothing."""

from __future__ import annotations

from ullage.simulate.kernel.arithmetic import chance32
from ullage.simulate.kernel.books import (
    attempt_time,
    cached_of,
    count_outcome,
    counters_of,
    group_of,
    is_measured,
    move_area,
    record,
)  # fmt: skip
from ullage.simulate.kernel.codes import (
    BACKOFF,
    CARRY,
    E2E,
    FAILED,
    JITTER_STREAM,
    LATE,
    NEVER,
    RANK_ARRIVAL,
    RANK_CLIENT,
    RANK_TURN,
    SHED,
    SUCCESS,
    TIMED_OUT,
    TPOT,
    TTFT,
    UNFINISHED,
)  # fmt: skip
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.queues import set_state
from ullage.simulate.kernel.state import ReplicaRow, World
from ullage.simulate.kernel.trees import push_timer


@inline
def backoff_of(w: World, i: int, tries: int) -> int:
    wait = w.backoff_ps
    for _ in range(tries - 1):
        wait = wait * w.growth_milli // 1000
    spread = wait * w.jitter_milli // 1000
    chance = chance32(w.seed, i, tries + JITTER_STREAM)
    return max(1, wait + (spread >> 16) * (chance >> 16))


@inline
def may_retry(w: World, outcome: int) -> bool:
    return (
        (outcome == SHED and w.retry_shed == 1)
        or (outcome == TIMED_OUT and w.retry_timeout == 1)
        or (outcome == FAILED and w.retry_failure == 1)
    )


@inline
def is_cancelled(w: World, i: int, now_ps: int) -> bool:
    return w.has_cancel == 1 and now_ps >= w.arrival_ps[i] + w.cancel_after_ps[i]


@inline
def outside_of(w: World, i: int) -> int:
    """What the first token of a request spent outside the steps on its way to the client."""
    return w.outside_ps[i] if w.has_outside == 1 else 0


@inline
def call_client(w: World, i: int, now_ps: int) -> None:
    """The session's next turn, or in a closed loop the client's next request, comes a think time from now."""
    if w.has_turns == 1 and w.next_turn[i] >= 0:
        if w.is_closed == 1:
            w.client[w.next_turn[i]] = w.client[i]
        w.clock.thinking += 1
        push_timer(w, now_ps + w.think_ps[i], RANK_TURN, w.next_turn[i], 0)
    elif w.is_closed == 1 and w.clock.issued < w.listed_count:
        push_timer(w, now_ps + w.think_ps[i], RANK_CLIENT, w.client[i], 0)


@compiled
def end_attempt(w: World, i: int, now_ps: int, outcome: int, computed: int, emitted: int) -> None:
    """An attempt ends without its last token: the request is repeated, or this is what became of it."""
    clock = w.clock
    request = w.requests[i]
    arrival_ps = w.arrival_ps[i]
    group = group_of(w, i)
    counters = counters_of(w, group, arrival_ps)
    counters.wasted_output_tokens += emitted
    if computed > 0:
        counters.wasted_computed_tokens += computed - cached_of(w, i)
    if w.most_attempts > 1 and clock.bucket_milli >= 1000 and may_retry(w, outcome) and not is_cancelled(w, i, now_ps):
        tries = w.tries[i]
        if tries < w.most_attempts:
            clock.bucket_milli -= 1000
            counters.retried += 1
            set_state(w, i, BACKOFF)
            request.emitted = 0
            w.first_ps[i] = 0
            clock.in_backoff += 1
            push_timer(w, now_ps + backoff_of(w, i, tries), RANK_ARRIVAL, i, tries)
            return
    count_outcome(counters, outcome)
    set_state(w, i, outcome)
    request.emitted = emitted
    first_ps = w.first_ps[i]
    if w.keep_requests == 1:
        w.finish_ps[i] = now_ps
    if first_ps > 0 and w.has_histograms == 1 and is_measured(w, arrival_ps) == 1:
        record(w, group, TTFT, first_ps - arrival_ps + outside_of(w, i))
    if outcome != UNFINISHED:
        call_client(w, i, now_ps)


@inline
def leave(w: World, replica: ReplicaRow, i: int, now_ps: int) -> None:
    """A request is no longer on its replica."""
    clock = w.clock
    move_area(w, now_ps)
    replica.outstanding -= 1
    replica.prompt_tokens -= w.prompt_tokens[i]
    clock.outstanding -= 1
    clock.sojourn += now_ps - attempt_time(w, i)
    if clock.sojourn >= CARRY:
        clock.sojourn -= CARRY
        clock.sojourn_carry += 1


@inline
def finish_request(w: World, replica: ReplicaRow, i: int, now_ps: int) -> None:
    """The last token is out: success, or late where the class's SLO is missed."""
    leave(w, replica, i, now_ps)
    group = group_of(w, i)
    tokens = w.output_tokens[i]
    arrival_ps = w.arrival_ps[i]
    first_ps = w.first_ps[i]
    slo = w.classes[w.group_class[group]]
    sent_ps = arrival_ps - outside_of(w, i)
    late = first_ps - sent_ps > slo.ttft_slo_ps or now_ps - sent_ps > slo.e2e_slo_ps
    if slo.tpot_slo_ps < NEVER:
        late = late or now_ps - first_ps > slo.tpot_slo_ps * (tokens - 1)
    counters = counters_of(w, group, arrival_ps)
    if late:
        counters.late += 1
    else:
        counters.success += 1
    counters.prompt_tokens += w.prompt_tokens[i]
    counters.output_tokens += tokens
    if w.has_cached == 1:
        counters.cached_done_tokens += w.cached_tokens[i]
    set_state(w, i, LATE if late else SUCCESS)
    if w.keep_requests == 1:
        w.finish_ps[i] = now_ps
        w.requests[i].emitted = tokens
    if w.has_histograms == 1 and is_measured(w, arrival_ps) == 1:
        record(w, group, TTFT, first_ps - sent_ps)
        record(w, group, E2E, now_ps - sent_ps)
        if tokens > 1:
            record(w, group, TPOT, (now_ps - first_ps) // (tokens - 1))
    call_client(w, i, now_ps)
