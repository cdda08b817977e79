"""What is written down: counters, histograms, Little's integral, the shares of busy time and KV."""

from __future__ import annotations

from ullage.simulate.kernel.arithmetic import bin_floor, bin_of
from ullage.simulate.kernel.codes import (
    BINS,
    CANCELLED,
    CARRY,
    FAILED,
    LATE,
    METRICS,
    OVERSIZE,
    SHED,
    STEP_MASK,
    SUCCESS,
    TIMED_OUT,
)  # fmt: skip
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.state import ClassTerms, Counters, ReplicaRow, SlotRow, World

# ---- whose it is -----------------------------------------------------------------------------------------


@inline
def group_of(w: World, i: int) -> int:
    return w.group[i] if w.group_count > 1 else 0


@inline
def class_of(w: World, i: int) -> int:
    return w.group_class[group_of(w, i)]


@inline
def terms_of(w: World, i: int) -> ClassTerms:
    return w.classes[class_of(w, i)]


@inline
def attempt_time(w: World, i: int) -> int:
    return w.attempt_ps[i] if w.most_attempts > 1 else w.arrival_ps[i]


@inline
def cached_of(w: World, i: int) -> int:
    return w.cached_tokens[i] if w.has_cached == 1 else 0


@inline
def is_measured(w: World, arrival_ps: int) -> int:
    return 1 if arrival_ps >= w.measure_from_ps and arrival_ps < w.measure_until_ps else 0


# ---- counters and histograms -----------------------------------------------------------------------------


@inline
def counters_of(w: World, group: int, arrival_ps: int) -> Counters:
    return w.counters[is_measured(w, arrival_ps) * w.group_count + group]


@inline
def count_outcome(counters: Counters, outcome: int) -> None:
    if outcome == SUCCESS:
        counters.success += 1
    elif outcome == LATE:
        counters.late += 1
    elif outcome == SHED:
        counters.shed += 1
    elif outcome == OVERSIZE:
        counters.oversize += 1
    elif outcome == TIMED_OUT:
        counters.timed_out += 1
    elif outcome == CANCELLED:
        counters.cancelled += 1
    elif outcome == FAILED:
        counters.failed += 1
    else:
        counters.unfinished += 1


@inline
def record(w: World, group: int, metric: int, duration_ps: int) -> None:
    w.histograms[(METRICS * group + metric) * BINS + bin_of(duration_ps)] += 1


@inline
def record_itl(w: World, replica: ReplicaRow, first_ps: int, growth_ps: int, steps: int, starved: int) -> None:
    """Books `steps` gaps for every decoding sequence; a loop over bins, not steps.

    A gap is first_ps, and growth_ps for every token that a sequence gained before it.
    """
    j = 0
    while j < steps:
        place = bin_of(first_ps + gained(w, replica, j) * growth_ps)
        until = steps
        if growth_ps > 0 and bin_of(first_ps + gained(w, replica, steps - 1) * growth_ps) != place:
            until = steps_to_gain(w, replica, (bin_floor(place + 1) - first_ps + growth_ps - 1) // growth_ps)
        if w.class_count == 1:
            w.itl[place] += (until - j) * (replica.decodes - starved)
        else:
            # Classes of a bin lie side by side: with many of them every step would touch as many pages.
            first = place * w.class_count
            for c in range(w.class_count):
                w.itl[first + c] += (until - j) * w.class_decodes[replica.class_decodes_at + c]
            for x in range(starved):
                i = w.slots[w.pending[starved_at(w, replica, x)]].request
                w.itl[first + class_of(w, i)] -= until - j
        j = until


# ---- steps and the tokens they bring ----------------------------------------------------------------------


@inline
def position(w: World, replica: ReplicaRow, step: int) -> int:
    """Tokens that a sequence has gained after so many steps of its replica: the step's number without speculation.

    With speculation a step brings a whole number of tokens that is the same for every sequence and is on average the
    engine's rate: what is left of a token is carried to the next step.
    """
    if w.has_speculation == 0:
        return step
    return (step * w.engines[replica.engine].rate_1024) >> 10


@inline
def gained(w: World, replica: ReplicaRow, steps: int) -> int:
    """Tokens that every decoding sequence gains in the next `steps` steps."""
    if w.has_speculation == 0:
        return steps
    rate = w.engines[replica.engine].rate_1024
    return (((replica.step * rate) & 1023) + steps * rate) >> 10


@inline
def steps_to_gain(w: World, replica: ReplicaRow, tokens: int) -> int:
    """The least number of steps in which every decoding sequence gains `tokens`."""
    if w.has_speculation == 0:
        return tokens
    rate = w.engines[replica.engine].rate_1024
    return ((tokens << 10) - ((replica.step * rate) & 1023) + rate - 1) // rate


@inline
def since_base(w: World, replica: ReplicaRow) -> int:
    """Tokens that a sequence has gained since the sums of its replica began."""
    return position(w, replica, replica.step) - position(w, replica, replica.base_step)


@inline
def width_of(w: World, replica: ReplicaRow) -> int:
    """Positions that a decoding sequence computes in a step: its next token, and those drafted after it."""
    return 1 if w.has_speculation == 0 else w.engines[replica.engine].width


@inline
def starved_at(w: World, replica: ReplicaRow, x: int) -> int:
    """Where the x-th decode without a token is noted: the pending list from its end."""
    return replica.pending_at + w.slots_each - 1 - x


@inline
def move_area(w: World, now_ps: int) -> None:
    """The integral of outstanding requests over time, for Little's law."""
    clock = w.clock
    clock.area += clock.outstanding * (now_ps - clock.area_at_ps)
    clock.area_at_ps = now_ps
    if clock.area >= CARRY:
        clock.area -= CARRY
        clock.area_carry += 1


# ---- shares of busy time and of KV -----------------------------------------------------------------------


@inline
def held_in(w: World, replica: ReplicaRow, slot: SlotRow) -> int:
    """KV tokens of a decoding request after the steps that are complete."""
    return slot.length - gained(w, replica, (slot.last_step - replica.step) & STEP_MASK)


@inline
def add_share(w: World, i: int, busy_ps: float, kv_token_ps: float) -> None:
    share = w.shares[is_measured(w, w.arrival_ps[i]) * w.group_count + group_of(w, i)]
    share.busy_ps += busy_ps
    share.kv_token_ps += kv_token_ps


@inline
def add_to_sums(w: World, replica: ReplicaRow, span_ps: int, share_ps: float) -> None:
    """Adds one step, or the part of one that was done, to the sums of its replica."""
    replica.sum_ps += span_ps
    replica.sum_step_ps += float(since_base(w, replica) + gained(w, replica, 1)) * span_ps
    replica.sum_share_ps += share_ps


@compiled
def settle(w: World, replica: ReplicaRow, s: int) -> None:
    """Books to a decoding request its part of the time since its account was opened.

    In a step after which every sequence has gained j tokens it held c + j tokens of KV (c constant) and one sequence's
    part of the step, so its KV time is c * sum(d) + sum(j * d), and both sums are kept once per replica. Tokens count
    from base_step, so that the sums stay small enough to be precise.
    """
    slot = w.slots[s]
    account = w.accounts[s]
    c = held_in(w, replica, slot) - since_base(w, replica)
    kv_token_ps = c * (replica.sum_ps - account.sum_ps) + replica.sum_step_ps - account.sum_step_ps
    add_share(w, slot.request, replica.sum_share_ps - account.sum_share_ps, kv_token_ps)


@inline
def open_account(w: World, replica: ReplicaRow, s: int) -> None:
    account = w.accounts[s]
    account.sum_ps = replica.sum_ps
    account.sum_step_ps = replica.sum_step_ps
    account.sum_share_ps = replica.sum_share_ps


@compiled
def settle_all(w: World, replica: ReplicaRow) -> None:
    """Settles every account, so that the sums can begin at zero again."""
    s = replica.head
    while s >= 0:
        if w.slots[s].last_step >= 0:
            settle(w, replica, s)
        s = w.slots[s].after
    replica.sum_ps = 0.0
    replica.sum_step_ps = 0.0
    replica.sum_share_ps = 0.0
    s = replica.head
    while s >= 0:
        open_account(w, replica, s)
        s = w.slots[s].after
    replica.base_step = replica.step
