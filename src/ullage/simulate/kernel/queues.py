"""The lists of a replica: running requests, the wheel of their last steps, the waiting queues."""

from __future__ import annotations

from ullage.simulate.kernel.arithmetic import lowest_bit
from ullage.simulate.kernel.books import terms_of
from ullage.simulate.kernel.capacity import count_longest
from ullage.simulate.kernel.codes import RUNNING, STEP_MASK, WAITING
from ullage.simulate.kernel.compiling import inline
from ullage.simulate.kernel.state import QueueRow, ReplicaRow, World

# ---- states ----------------------------------------------------------------------------------------------


@inline
def state_of(w: World, i: int) -> int:
    return w.requests[i].status & 15


@inline
def set_state(w: World, i: int, state: int) -> None:
    request = w.requests[i]
    request.status = (request.status & ~15) | state


@inline
def is_alive(state: int) -> bool:
    """On a replica: waiting, preempted or running."""
    return state >= WAITING and state <= RUNNING


# ---- the running list ------------------------------------------------------------------------------------


@inline
def take_slot(w: World, replica: ReplicaRow, i: int) -> int:
    """Appends a request to the running list, in prefill."""
    s = replica.free
    slot = w.slots[s]
    tail = replica.tail
    replica.free = slot.next
    slot.request = i
    slot.last_step = -1
    slot.before = tail
    slot.after = -1
    if tail >= 0:
        w.slots[tail].after = s
    else:
        replica.head = s
    replica.tail = s
    if w.has_policy == 1:
        count_longest(w, replica, i, 1)
    return s


@inline
def free_slot(w: World, replica: ReplicaRow, s: int) -> None:
    slot = w.slots[s]
    before = slot.before
    after = slot.after
    if before >= 0:
        w.slots[before].after = after
    else:
        replica.head = after
    if after >= 0:
        w.slots[after].before = before
    else:
        replica.tail = before
    slot.next = replica.free
    replica.free = s
    if w.has_policy == 1:
        count_longest(w, replica, slot.request, -1)


# ---- the wheel: a bucket for every step index, a bit for every bucket that is not empty --------------------


@inline
def put_on_wheel(w: World, replica: ReplicaRow, s: int, last_step: int) -> None:
    slot = w.slots[s]
    bucket = last_step & (w.wheel_steps - 1)
    slot.last_step = last_step & STEP_MASK
    slot.next = w.wheel[replica.wheel_at + bucket]
    w.wheel[replica.wheel_at + bucket] = s
    w.bits[replica.bits_at + (bucket >> 5)] |= 1 << (bucket & 31)


@inline
def clear_bit(w: World, replica: ReplicaRow, bucket: int) -> None:
    w.bits[replica.bits_at + (bucket >> 5)] &= ~(1 << (bucket & 31))


@inline
def take_off_wheel(w: World, replica: ReplicaRow, s: int) -> None:
    slot = w.slots[s]
    bucket = slot.last_step & (w.wheel_steps - 1)
    p = w.wheel[replica.wheel_at + bucket]
    if p == s:
        w.wheel[replica.wheel_at + bucket] = slot.next
        if slot.next < 0:
            clear_bit(w, replica, bucket)
    else:
        while w.slots[p].next != s:
            p = w.slots[p].next
        w.slots[p].next = slot.next


@inline
def steps_to_next_finish(w: World, replica: ReplicaRow) -> int:
    """How many steps until the next bucket that is not empty; there is one."""
    bucket = (replica.step + 1) & (w.wheel_steps - 1)
    bits = replica.bits_at
    j = bucket >> 5
    word = w.bits[bits + j] >> (bucket & 31)
    steps = 1
    if word == 0:
        steps = 1 + 32 - (bucket & 31)
        last = (w.wheel_steps >> 5) - 1
        j = (j + 1) & last
        while w.bits[bits + j] == 0:
            steps += 32
            j = (j + 1) & last
        word = w.bits[bits + j]
    return steps + lowest_bit(word)


# ---- the waiting queues: one, or one for every level of priority -------------------------------------------


@inline
def queue_of(w: World, replica: ReplicaRow, i: int) -> QueueRow:
    """The waiting queue of a request on this replica."""
    place = replica.queues_at
    if w.levels > 1 and w.engines[replica.engine].priority == 1:
        place += terms_of(w, i).level
    return w.queues[place]


@inline
def link(w: World, replica: ReplicaRow, queue: QueueRow, i: int, before: int, after: int) -> None:
    """Puts a request into a waiting queue between two neighbours, -1 for an end."""
    request = w.requests[i]
    request.after = after
    request.before = before
    if before >= 0:
        w.requests[before].after = i
    else:
        queue.head = i
    if after >= 0:
        w.requests[after].before = i
    else:
        queue.tail = i
    replica.waiting += 1
    replica.queue_tokens += w.prompt_tokens[i] + request.emitted


@inline
def unlink(w: World, replica: ReplicaRow, queue: QueueRow, i: int) -> None:
    request = w.requests[i]
    before = request.before
    after = request.after
    if before >= 0:
        w.requests[before].after = after
    else:
        queue.head = after
    if after >= 0:
        w.requests[after].before = before
    else:
        queue.tail = before
    replica.waiting -= 1
    replica.queue_tokens -= w.prompt_tokens[i] + request.emitted


@inline
def queue_front(w: World, replica: ReplicaRow) -> int:
    """The request that is admitted next, or -1."""
    front = w.queues[replica.queues_at].head
    level = 1
    while front < 0 and level < w.levels:
        front = w.queues[replica.queues_at + level].head
        level += 1
    return front
