"""A boundary, part 2: the next step, or a plan of many."""

from __future__ import annotations

from ullage.simulate.kernel.books import (
    attempt_time,
    cached_of,
    counters_of,
    gained,
    group_of,
    held_in,
    is_measured,
    record,
    starved_at,
    steps_to_gain,
    terms_of,
)  # fmt: skip
from ullage.simulate.kernel.capacity import (
    claimed,
    estimated_ratio,
    fewest_tokens,
    lets_in,
    new_tokens,
    opens_gate,
    pass_step,
    reserved_tokens,
)  # fmt: skip
from ullage.simulate.kernel.codes import (
    MAX_UTILIZATION,
    NEVER,
    NEW_TOKEN_RATIO,
    PREEMPTED,
    QUEUE,
    RATIO_SHIFT,
    RUNNING,
    WAITING,
)
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.completion import stop_running
from ullage.simulate.kernel.prefixes import frees_oldest, hit_tokens, hold_prefix, make_room, pinned_blocks, room_of
from ullage.simulate.kernel.queues import (
    link,
    queue_front,
    queue_of,
    set_state,
    state_of,
    steps_to_next_finish,
    take_slot,
    unlink,
)  # fmt: skip
from ullage.simulate.kernel.state import ReplicaRow, SlotRow, World
from ullage.simulate.kernel.steps import blocks_after_step, blocks_with, plan_end, step_time


@compiled
def preempt(w: World, replica: ReplicaRow, s: int, unscheduled: int) -> None:
    """Recompute preemption: the request loses its KV and waits again.

    It goes to the head of the queue, to its tail under a new-token ratio, or with priorities to its place by arrival.
    """
    i = w.slots[s].request
    held, emitted = stop_running(w, replica, s)
    w.requests[i].emitted = emitted
    set_state(w, i, PREEMPTED)
    replica.preemptions += 1
    if w.keep_requests == 1:
        w.preemptions[i] += 1
    counters = counters_of(w, group_of(w, i), w.arrival_ps[i])
    counters.preemptions += 1
    counters.recomputed_tokens += held - unscheduled - cached_of(w, i)
    queue = queue_of(w, replica, i)
    before = -1
    after = queue.head
    engine = w.engines[replica.engine]
    if engine.policy == NEW_TOKEN_RATIO:
        before = queue.tail
        after = -1
    if engine.priority == 1:
        before = -1
        after = queue.head
        mine = attempt_time(w, i)
        while after >= 0:
            theirs = attempt_time(w, after)
            if theirs > mine or (theirs == mine and after > i):
                break
            before = after
            after = w.requests[after].after
    link(w, replica, queue, i, before, after)


@inline
def admit(w: World, replica: ReplicaRow, i: int, now_ps: int, done: int, tokens: int) -> None:
    """Moves the front of the queue to the running list with its first tokens."""
    unlink(w, replica, queue_of(w, replica, i), i)
    if state_of(w, i) == WAITING and (w.most_attempts <= 1 or w.tries[i] == 1):
        if w.has_histograms == 1 and is_measured(w, w.arrival_ps[i]) == 1:
            record(w, group_of(w, i), QUEUE, now_ps - w.arrival_ps[i])
        if w.keep_requests == 1:
            w.admitted_ps[i] = now_ps
    if done > 0:
        counters_of(w, group_of(w, i), w.arrival_ps[i]).cached_tokens += done
    set_state(w, i, RUNNING)
    s = take_slot(w, replica, i)
    w.requests[i].after = s
    w.slots[s].done = done + tokens
    w.slots[s].scheduled = tokens
    replica.prefills += 1
    replica.prefill_kv_tokens += done + tokens
    w.pending[replica.pending_at + replica.pending] = s
    replica.pending += 1


# ---- steps that are walked request by request ------------------------------------------------------------


@inline
def is_before(w: World, a: int, b: int) -> bool:
    """Whether request a is more urgent than request b under priority scheduling."""
    la = terms_of(w, a).level
    lb = terms_of(w, b).level
    ta = attempt_time(w, a)
    tb = attempt_time(w, b)
    return la < lb or (la == lb and (ta < tb or (ta == tb and a < b)))


@inline
def victim_of(w: World, replica: ReplicaRow) -> int:
    s = replica.tail
    worst = s
    engine = w.engines[replica.engine]
    if engine.policy == NEW_TOKEN_RATIO:
        # With speculation SGLang takes requests off the end of its batch only.
        worst = s if engine.width > 1 else fewest_tokens(w, replica)
    elif engine.priority == 1:
        while s >= 0:
            if is_before(w, w.slots[worst].request, w.slots[s].request):
                worst = s
            s = w.slots[s].before
    return worst


@inline
def held_by(w: World, replica: ReplicaRow, slot: SlotRow) -> int:
    """Tokens of KV in a slot, this step's included where the walk has scheduled it."""
    held = slot.done
    if slot.last_step >= 0:
        held = held_in(w, replica, slot) + slot.scheduled
    return held


@inline
def claim_of(w: World, replica: ReplicaRow, slot: SlotRow) -> int:
    """Tokens for which a slot has blocks."""
    held = held_by(w, replica, slot)
    if slot.last_step < 0:
        target = w.prompt_tokens[slot.request] + w.requests[slot.request].emitted
        held = claimed(w, w.engines[replica.engine], held, target)
    return held


@compiled
def schedule_running(w: World, replica: ReplicaRow) -> tuple[int, int, bool]:
    """Gives tokens and blocks to the running list in order; returns blocks used, budget left, whether it preempted."""
    engine = w.engines[replica.engine]
    shift = engine.block_shift
    mask = (1 << shift) - 1
    used = 0
    s = replica.head
    while s >= 0:
        slot = w.slots[s]
        slot.scheduled = 0
        used += (claim_of(w, replica, slot) + mask) >> shift
        s = slot.after
    budget = engine.token_budget
    preempted = False
    s = replica.head
    while s >= 0 and budget > 0:
        slot = w.slots[s]
        held = held_by(w, replica, slot)
        new = engine.width
        if slot.last_step >= 0 and budget < new:
            break
        after = held + new
        if slot.last_step < 0:
            target = w.prompt_tokens[slot.request] + w.requests[slot.request].emitted
            new = min(target - held, engine.long_prefill, budget)
            after = claimed(w, engine, held + new, target)
        growth = ((after + mask) >> shift) - ((claim_of(w, replica, slot) + mask) >> shift)
        lost = False
        while used + growth > room_of(w, replica, engine) and not lost:
            victim = victim_of(w, replica)
            loser = w.slots[victim]
            given = loser.scheduled
            lost = victim == s
            used -= (claim_of(w, replica, loser) + mask) >> shift
            budget += given
            preempted = True
            # A decode's own token of this step is no longer counted once it is taken off the list.
            preempt(w, replica, victim, given if loser.last_step < 0 else 0)
        if lost and engine.policy != NEW_TOKEN_RATIO:
            break
        if not lost:
            used += growth
            budget -= new
            slot.scheduled = new
            if slot.last_step < 0:
                slot.done += new
                replica.prefill_kv_tokens += new
        s = slot.after
    return used, budget, preempted


@compiled
def walk(w: World, replica: ReplicaRow) -> tuple[int, int, int, int, int, int, bool]:
    """Schedules the running list request by request, as the reference does.

    Needed where the order matters: several prefills under way, or a victim that is not the last admitted.
    Returns decodes, prefill tokens, attention pairs, KV tokens, blocks used, budget left, whether it preempted.
    """
    used, budget, preempted = schedule_running(w, replica)
    decodes, tokens, pairs, kv_tokens = 0, 0, 0, 0
    replica.pending = 0
    replica.starved = 0
    s = replica.head
    while s >= 0:
        slot = w.slots[s]
        new = slot.scheduled
        held = held_by(w, replica, slot)
        if slot.last_step < 0:
            w.pending[replica.pending_at + replica.pending] = s
            replica.pending += 1
            tokens += new
            pairs += (new * (2 * held - new + 1)) >> 1
        elif new > 0:
            decodes += 1
        else:
            w.pending[starved_at(w, replica, replica.starved)] = s
            replica.starved += 1
        if new > 0:
            kv_tokens += held
        s = slot.after
    return decodes, tokens, pairs, kv_tokens, used, budget, preempted


@compiled
def preempt_until_fit(w: World, replica: ReplicaRow, used: int) -> int:
    """Preempts the last admitted, or those with the fewest tokens, until the decodes' next tokens fit."""
    engine = w.engines[replica.engine]
    while used > room_of(w, replica, engine):
        preempt(w, replica, victim_of(w, replica), 0)
        used = blocks_after_step(w, replica, engine.block_shift)
    return used


# ---- the next step ---------------------------------------------------------------------------------------


@compiled
def steps_that_fit(w: World, replica: ReplicaRow, steps: int) -> int:
    """With speculation: how many of so many steps have the blocks they need; the first one has."""
    engine = w.engines[replica.engine]
    blocks = room_of(w, replica, engine)
    fit = 1
    while fit < steps:
        middle = (fit + steps + 1) >> 1
        if blocks_with(w, replica, engine.block_shift, gained(w, replica, middle - 1) + engine.width) <= blocks:
            fit = middle
        else:
            steps = middle - 1
    return fit


@inline
def plan_decode(w: World, replica: ReplicaRow, kv_tokens: int, used: int, exact: bool, preempted: bool) -> int:
    """Plans pure decode steps as far as nothing changes: to the next finish, table segment or full cache."""
    engine = w.engines[replica.engine]
    shift = engine.block_shift
    mask = (1 << shift) - 1
    n = replica.decodes
    blocks = room_of(w, replica, engine)
    steps = steps_to_next_finish(w, replica)
    g = kv_tokens >> engine.kv_shift
    if g >= engine.kv_segments - 1:
        g = engine.kv_segments - 1
    else:
        steps = min(steps, steps_to_gain(w, replica, (((g + 1) << engine.kv_shift) - kv_tokens + n - 1) // n))
    most = gained(w, replica, steps - 1) + engine.width
    if steps > 1 and replica.kv_tokens + n * (most + mask) > blocks << shift:
        if w.has_speculation == 1:
            steps = steps_that_fit(w, replica, steps)
        else:
            if not exact:
                used = blocks_after_step(w, replica, shift)
            # Every block size of steps each sequence needs exactly one more block.
            rounds = (blocks - used) // n
            fit = 1 + (rounds << shift)
            if fit < steps:
                used += rounds * n
                while fit < steps:
                    used += w.phases[replica.phases_at + (-(replica.step + fit) & mask)]
                    if used > blocks:
                        break
                    fit += 1
                steps = min(steps, fit)
    if preempted:
        steps = 1  # nothing was admitted because of the preemption; the next step may admit
    segment = w.segments[engine.decode_at + n * engine.kv_segments + g]
    replica.planned = steps
    replica.first_step_ps = segment.base_ps + segment.slope_ps * (kv_tokens - (g << engine.kv_shift))
    replica.growth_ps = segment.slope_ps * n
    replica.blocked = 1 if replica.waiting > 0 else 0
    return plan_end(w, replica, steps)


@inline
def start_step(w: World, replica: ReplicaRow, now_ps: int) -> int:
    """Schedules, and commits to the next step or to a plan of decode steps; returns when it ends."""
    engine = w.engines[replica.engine]
    shift = engine.block_shift
    mask = (1 << shift) - 1
    longest = engine.long_prefill
    while True:
        preempted = False
        exact = False
        blocks = room_of(w, replica, engine)
        tokens = 0
        pairs = 0
        loaded = 0
        replica.pending = 0
        replica.starved = 0
        decodes = replica.decodes
        kv_tokens = replica.kv_tokens + decodes * engine.width
        budget = engine.token_budget - decodes * engine.width
        bound = (kv_tokens + decodes * mask) >> shift
        used = bound  # an upper bound, made exact where it matters
        if w.has_prefix == 1:
            used = blocks_after_step(w, replica, shift)
            exact = True
        tail = replica.tail
        last = w.slots[tail]
        walked = replica.prefills > 1 or (replica.prefills == 1 and last.last_step >= 0)
        if replica.prefills == 1 and not walked:
            # One prefill under way, and it was the last admitted.
            held = last.done
            target = w.prompt_tokens[last.request] + w.requests[last.request].emitted
            new = min(target - held, longest, budget)
            grown = (claimed(w, engine, held + new, target) + mask) >> shift
            if used + grown > blocks:
                used = blocks_after_step(w, replica, shift)
                exact = True
            if used + grown <= blocks:
                used += grown
                budget -= new
                tokens = new
                pairs = (new * (2 * held + new + 1)) >> 1
                kv_tokens += held + new
                last.done = held + new
                last.scheduled = new
                replica.prefill_kv_tokens += new
                w.pending[replica.pending_at] = tail
                replica.pending = 1
            elif engine.priority == 1 or engine.policy == NEW_TOKEN_RATIO:
                walked = True
            else:
                preempted = True
                preempt(w, replica, tail, 0)
                blocks = room_of(w, replica, engine)
        if used > blocks and tokens == 0 and not walked:
            if not exact:
                used = blocks_after_step(w, replica, shift)
                exact = True
            if used > blocks:
                if engine.priority == 1 and engine.policy != NEW_TOKEN_RATIO:
                    walked = True
                else:
                    preempted = True
                    used = preempt_until_fit(w, replica, used)
                    decodes = replica.decodes
                    kv_tokens = replica.kv_tokens + decodes * engine.width
        if walked:
            decodes, tokens, pairs, kv_tokens, used, budget, preempted = walk(w, replica)
            exact = True
        if w.has_prefix == 1:
            make_room(w, replica, used)
            blocks = room_of(w, replica, engine)
        if preempted and engine.policy == NEW_TOKEN_RATIO:
            replica.ratio = estimated_ratio(w, replica)
        if replica.waiting > 0 and not preempted and (w.has_policy == 0 or opens_gate(w, replica)):
            sequences = replica.decodes + replica.prefills
            reserved = -1
            while budget > 0 and sequences < engine.max_sequences:
                i = queue_front(w, replica)
                if i < 0:
                    break
                done = cached_of(w, i) if w.has_prefix == 0 else hit_tokens(w, replica, i)
                held = 0 if w.has_prefix == 0 else pinned_blocks(w, replica, i)
                target = w.prompt_tokens[i] + w.requests[i].emitted
                new = min(target - done, longest, budget)
                grown = (claimed(w, engine, done + new, target) + mask) >> shift
                if used + grown > blocks and not exact:
                    used += blocks_after_step(w, replica, shift) - bound
                    exact = True
                refused = used + grown > blocks + held
                if w.has_policy == 1 and engine.policy != MAX_UTILIZATION and not refused:
                    if reserved < 0:
                        # The first in this step: what is reserved for those that run, and exactly the blocks they hold.
                        reserved = reserved_tokens(w, replica)
                        if not exact:
                            used += blocks_after_step(w, replica, shift) - bound
                            exact = True
                    refused = sequences > 0 and not lets_in(w, replica, i, done, held, blocks - used, reserved)
                    if done + new == target:
                        reserved += new_tokens(w, replica, i) << RATIO_SHIFT
                if refused:
                    replica.refused_at = sequences
                    break
                admit(w, replica, i, now_ps, done, new)
                sequences += 1
                used += grown
                if w.has_prefix == 1:
                    w.cached_tokens[i] = done
                    loaded += hold_prefix(w, replica, i, done)
                    blocks = room_of(w, replica, engine)
                    make_room(w, replica, used)
                budget -= new
                tokens += new
                pairs += (new * (2 * done + new + 1)) >> 1
                kv_tokens += done + new
        if decodes + tokens > 0 or not (preempted or frees_oldest(w, replica)):
            break
    if w.has_policy == 1:
        pass_step(w, replica, decodes, tokens, preempted)
    replica.begin_ps = now_ps
    replica.planned = 0
    replica.blocked = 1
    due_ps = NEVER
    if decodes + tokens > 0:
        if tokens > 0 or walked:
            replica.mixed = 1
            replica.step_tokens = tokens
            replica.step_decodes = decodes
            replica.prefill_tokens += tokens
            replica.decode_tokens += decodes * gained(w, replica, 1)
            due_ps = now_ps + step_time(w, engine, decodes, kv_tokens, tokens, pairs) + loaded * engine.host_block_ps
        else:
            due_ps = plan_decode(w, replica, kv_tokens, used, exact, preempted)
    return due_ps
