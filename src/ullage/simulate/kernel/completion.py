"""A boundary, part 1: what the step under way did."""

from __future__ import annotations

from ullage.simulate.kernel.books import (
    add_share,
    add_to_sums,
    attempt_time,
    class_of,
    gained,
    held_in,
    open_account,
    position,
    record_itl,
    settle,
    since_base,
    starved_at,
    steps_to_gain,
    terms_of,
    width_of,
)  # fmt: skip
from ullage.simulate.kernel.codes import CACHED, CANCELLED, NOT_MARKED, RUNNING, TIMED_OUT
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.endings import end_attempt, finish_request, is_cancelled, leave
from ullage.simulate.kernel.prefixes import fill_prefix, keep_answer, release_prefix, set_aside
from ullage.simulate.kernel.queues import (
    clear_bit,
    free_slot,
    is_alive,
    put_on_wheel,
    queue_of,
    state_of,
    take_off_wheel,
    unlink,
)  # fmt: skip
from ullage.simulate.kernel.state import ReplicaRow, World
from ullage.simulate.kernel.steps import growth_of


@compiled
def add_wide_steps(w: World, replica: ReplicaRow, steps: int, share_ps: float) -> None:
    """Adds the steps of a plan with speculation to the sums, one by one: they do not gain the same."""
    base = since_base(w, replica)
    for j in range(steps):
        step_ps = float(replica.first_step_ps + replica.growth_ps * gained(w, replica, j))
        replica.sum_ps += step_ps
        replica.sum_step_ps += float(base + gained(w, replica, j + 1)) * step_ps
    replica.sum_share_ps += share_ps


@inline
def book_decode_steps(w: World, replica: ReplicaRow, steps: int, now_ps: int) -> None:
    """Books `steps` whole pure-decode steps of the plan, which end now."""
    n = replica.decodes
    span_ps = now_ps - replica.begin_ps
    replica.decode_busy_ps += span_ps
    tokens = gained(w, replica, steps)
    replica.decode_tokens += n * tokens
    if w.has_histograms == 1:
        record_itl(w, replica, replica.first_step_ps, replica.growth_ps, steps, 0)
    if w.attribute == 1:
        if w.has_speculation == 0:
            count = float(steps)
            pairs = count * (count - 1.0) / 2.0
            add_to_sums(w, replica, span_ps, float(span_ps) / n)
            replica.sum_step_ps += replica.first_step_ps * pairs + replica.growth_ps * pairs * (2.0 * count - 1.0) / 3.0
        else:
            add_wide_steps(w, replica, steps, float(span_ps) / n)
    replica.kv_tokens += n * tokens
    if w.counts_blocks == 1:
        replica.decode_blocks += growth_of(w, replica, w.engines[replica.engine].block_shift, steps)
    replica.step += steps


@compiled
def share_mixed_time(w: World, replica: ReplicaRow, span_ps: int) -> None:
    """Attributes the time of a step with prefill, or of a walked one."""
    width = width_of(w, replica)
    part_ps = float(span_ps) / (replica.step_tokens + replica.step_decodes * width)
    for x in range(replica.starved):
        s = w.pending[starved_at(w, replica, x)]
        settle(w, replica, s)
        slot = w.slots[s]
        add_share(w, slot.request, 0.0, float(held_in(w, replica, slot)) * span_ps)
    add_to_sums(w, replica, span_ps, part_ps * width)
    for x in range(replica.starved):
        open_account(w, replica, w.pending[starved_at(w, replica, x)])
    for x in range(replica.pending):
        slot = w.slots[w.pending[replica.pending_at + x]]
        add_share(w, slot.request, part_ps * slot.scheduled, float(slot.done) * span_ps)


@inline
def book_mixed_time(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """Books the time of a step with prefill, or of a walked one, up to now; whole or not."""
    span_ps = now_ps - replica.begin_ps
    if replica.step_tokens == 0:
        replica.decode_busy_ps += span_ps
    elif replica.step_decodes == 0:
        replica.prefill_busy_ps += span_ps
    else:
        replica.mixed_busy_ps += span_ps
    if w.attribute == 1:
        share_mixed_time(w, replica, span_ps)


@inline
def start_decoding(w: World, replica: ReplicaRow, s: int, now_ps: int) -> None:
    """A prefill is complete: its next token is out, and the request decodes from the next step on."""
    slot = w.slots[s]
    i = slot.request
    emitted = w.requests[i].emitted
    target = w.prompt_tokens[i] + emitted
    left = w.output_tokens[i] - emitted - 1
    mask = (1 << w.engines[replica.engine].block_shift) - 1
    if w.first_ps[i] == 0:
        w.first_ps[i] = now_ps
        if w.has_outside == 1:
            terms = w.engines[replica.engine]
            w.outside_ps[i] = terms.outside_ps + terms.crowd_ps * replica.step_decodes
    steps = steps_to_gain(w, replica, left)
    # More than is left to come where its last step brings more; that is dropped with the request.
    slot.length = target + gained(w, replica, steps)
    replica.prefill_kv_tokens -= target
    replica.prefills -= 1
    replica.kv_tokens += target
    if w.counts_blocks == 1:
        replica.decode_blocks += (target + mask) >> w.engines[replica.engine].block_shift
    replica.decodes += 1
    replica.first_tokens += 1
    w.phases[replica.phases_at + ((target - position(w, replica, replica.step)) & mask)] += 1
    put_on_wheel(w, replica, s, replica.step + steps)
    if w.attribute == 1:
        open_account(w, replica, s)
    if w.class_count > 1:
        w.class_decodes[replica.class_decodes_at + class_of(w, i)] += 1


@compiled
def delay_starved(w: World, replica: ReplicaRow) -> None:
    """A decode that got no token in a walked step ends one step later."""
    mask = (1 << w.engines[replica.engine].block_shift) - 1
    for x in range(replica.starved):
        s = w.pending[starved_at(w, replica, x)]
        slot = w.slots[s]
        i = slot.request
        held = held_in(w, replica, slot)
        left = w.prompt_tokens[i] + w.output_tokens[i] - 1 - held
        if w.counts_blocks == 1 and held & mask == 0:
            replica.decode_blocks -= 1
        at = position(w, replica, replica.step)
        following = at + gained(w, replica, 1)
        take_off_wheel(w, replica, s)
        w.phases[replica.phases_at + ((held - at) & mask)] -= 1
        w.phases[replica.phases_at + ((held - following) & mask)] += 1
        replica.step += 1
        steps = steps_to_gain(w, replica, left)
        slot.length = held + gained(w, replica, steps)
        put_on_wheel(w, replica, s, replica.step + steps)
        replica.step -= 1


@inline
def complete_mixed(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """Completes a step with prefill, or a walked one."""
    book_mixed_time(w, replica, now_ps)
    if w.has_histograms == 1 and replica.step_decodes > 0:
        record_itl(w, replica, now_ps - replica.begin_ps, 0, 1, replica.starved)
    if w.counts_blocks == 1:
        replica.decode_blocks += growth_of(w, replica, w.engines[replica.engine].block_shift, 1)
    if replica.starved > 0:
        delay_starved(w, replica)
    replica.kv_tokens += replica.step_decodes * gained(w, replica, 1)
    replica.step += 1
    for x in range(replica.pending):
        s = w.pending[replica.pending_at + x]
        slot = w.slots[s]
        i = slot.request
        if w.has_prefix == 1:
            fill_prefix(w, replica, i, slot.done)
        if slot.scheduled > 0 and slot.done == w.prompt_tokens[i] + w.requests[i].emitted:
            start_decoding(w, replica, s, now_ps)
    replica.mixed = 0


@inline
def stop_decoding(w: World, replica: ReplicaRow, s: int, i: int, held: int) -> None:
    """Takes a decoding request out of the sums; the wheel is the caller's business."""
    mask = (1 << w.engines[replica.engine].block_shift) - 1
    replica.kv_tokens -= held
    if w.counts_blocks == 1:
        replica.decode_blocks -= (held + mask) >> w.engines[replica.engine].block_shift
    replica.decodes -= 1
    w.phases[replica.phases_at + ((held - position(w, replica, replica.step)) & mask)] -= 1
    if w.attribute == 1:
        settle(w, replica, s)
    if w.class_count > 1:
        w.class_decodes[replica.class_decodes_at + class_of(w, i)] -= 1


@compiled
def sorted_bucket(w: World, s: int) -> int:
    """The slots of a bucket by number of their requests: who leaves last is kept longest, and must not depend on us."""
    first = -1
    while s >= 0:
        following = w.slots[s].next
        before = -1
        after = first
        while after >= 0 and w.slots[after].request < w.slots[s].request:
            before = after
            after = w.slots[after].next
        w.slots[s].next = after
        if before >= 0:
            w.slots[before].next = s
        else:
            first = s
        s = following
    return first


@inline
def complete_finished(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """Every request in the bucket of this step index has its last token."""
    bucket = replica.step & (w.wheel_steps - 1)
    s = w.wheel[replica.wheel_at + bucket]
    if s >= 0:
        w.wheel[replica.wheel_at + bucket] = -1
        clear_bit(w, replica, bucket)
        if w.has_prefix == 1 and w.slots[s].next >= 0:
            s = sorted_bucket(w, s)
        while s >= 0:
            slot = w.slots[s]
            i = slot.request
            following = slot.next
            if w.has_prefix == 1:
                keep_answer(w, replica, i)
                release_prefix(w, replica, i)
                if w.between != CACHED and w.next_turn[i] >= 0:
                    set_aside(w, replica, i)
            stop_decoding(w, replica, s, i, slot.length)
            if w.has_speculation == 1:
                replica.decode_tokens -= slot.length - (w.prompt_tokens[i] + w.output_tokens[i] - 1)
            free_slot(w, replica, s)
            finish_request(w, replica, i, now_ps)
            s = following


@compiled
def stop_running(w: World, replica: ReplicaRow, s: int) -> tuple[int, int]:
    """Takes a request off the running list, whatever it does there; returns its tokens computed and emitted."""
    slot = w.slots[s]
    i = slot.request
    held = slot.done
    emitted = w.requests[i].emitted
    if slot.last_step < 0:
        replica.prefill_kv_tokens -= held
        replica.prefills -= 1
    else:
        held = held_in(w, replica, slot)
        emitted = held - w.prompt_tokens[i] + 1
        take_off_wheel(w, replica, s)
        stop_decoding(w, replica, s, i, held)
    if w.has_prefix == 1:
        release_prefix(w, replica, i)
    free_slot(w, replica, s)
    return held, emitted


@inline
def given_up(w: World, i: int, now_ps: int) -> int:
    """The outcome of a request whose client or deadline has given up on it by now, or -1."""
    limits = terms_of(w, i)
    begun_ps = attempt_time(w, i)
    outcome = -1
    if is_cancelled(w, i, now_ps):
        outcome = CANCELLED
    elif now_ps >= begun_ps + limits.total_timeout_ps or (
        w.first_ps[i] == 0 and now_ps >= begun_ps + limits.ttft_timeout_ps
    ):
        outcome = TIMED_OUT
    return outcome


@compiled
def drop_given_up(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """Ends the marked requests whose client or deadline has given up on them, highest number first."""
    i = replica.marked
    replica.marked = -1
    while i >= 0:
        following = w.mark[i] - 2
        w.mark[i] = NOT_MARKED
        state = state_of(w, i)
        if is_alive(state):
            outcome = given_up(w, i, now_ps)
            if outcome >= 0:
                held, emitted = 0, w.requests[i].emitted
                if state == RUNNING:
                    # A running request is in no queue, so its link holds its slot.
                    held, emitted = stop_running(w, replica, w.requests[i].after)
                else:
                    unlink(w, replica, queue_of(w, replica, i), i)
                leave(w, replica, i, now_ps)
                end_attempt(w, i, now_ps, outcome, held, emitted)
        i = following
