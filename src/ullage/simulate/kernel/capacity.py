"""What must fit before a waiting request is admitted, by the engine's own policy.

vLLM asks for a request's present need, and preempts the last admitted when blocks run out. SGLang also counts what
running requests may still come to, at a *new-token ratio* that falls while all goes well and is estimated anew when it
had to retract some. TensorRT-LLM takes the blocks of a whole prompt at once, and lets a request in only when its
longest answer fits beside those of the others (GUARANTEED_NO_EVICT), or without asking for that (MAX_UTILIZATION).
"""

from __future__ import annotations

from ullage.simulate.kernel.books import held_in, terms_of
from ullage.simulate.kernel.codes import ALWAYS, NEW_TOKEN_RATIO, NO_EVICT, RATIO_SHIFT, RETRACT_STEPS, SOMETIMES
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.state import EngineTerms, ReplicaRow, SlotRow, World


@inline
def limit_of(w: World, i: int) -> int:
    """Output tokens that a request allows."""
    return max(terms_of(w, i).limit_tokens, w.output_tokens[i])


@inline
def whole_blocks(w: World, replica: ReplicaRow, i: int) -> int:
    """Blocks of a request whose answer is as long as it may be."""
    engine = w.engines[replica.engine]
    mask = (1 << engine.block_shift) - 1
    return (w.prompt_tokens[i] + limit_of(w, i) - 2 + engine.width + mask) >> engine.block_shift


@compiled
def count_longest(w: World, replica: ReplicaRow, i: int, times: int) -> None:
    """A request joins the running ones, or with -1 times leaves them: the most that it may come to is theirs too."""
    replica.limit_tokens += times * (w.prompt_tokens[i] + limit_of(w, i) - 1)
    replica.reserved_blocks += times * whole_blocks(w, replica, i)


@inline
def claimed(w: World, engine: EngineTerms, tokens: int, target: int) -> int:
    """Tokens for which a prefill has blocks: those computed, or at once those of the whole prompt."""
    return tokens if w.has_policy == 0 or engine.policy < NO_EVICT else target


@inline
def new_tokens(w: World, replica: ReplicaRow, i: int) -> int:
    """The tokens reserved for a request's answer at admission."""
    return min(limit_of(w, i), w.engines[replica.engine].clip_tokens)


# ---- SGLang's new-token ratio ------------------------------------------------------------------------------


@inline
def emitted_in(w: World, replica: ReplicaRow, slot: SlotRow) -> int:
    """Output tokens of a running request after the steps that are complete."""
    if slot.last_step < 0:
        return w.requests[slot.request].emitted
    return held_in(w, replica, slot) - w.prompt_tokens[slot.request] + 1


@inline
def decay_ratio(w: World, replica: ReplicaRow, steps: int) -> None:
    """So many steps of decodes alone, without a retraction."""
    if steps > 0:
        engine = w.engines[replica.engine]
        replica.ratio = max(engine.ratio_least, replica.ratio - steps * engine.ratio_decay)


@inline
def settle_ratio(w: World, replica: ReplicaRow) -> None:
    """The ratio fell in the steps of the plan that has just ended; in the first it fell when they were planned."""
    decay_ratio(w, replica, replica.planned - 1)
    replica.planned = 0


@compiled
def pass_step(w: World, replica: ReplicaRow, decodes: int, tokens: int, preempted: bool) -> None:
    """The next step is settled: the ratio falls where it has decodes alone, and begins anew where there is none."""
    settle_ratio(w, replica)
    if decodes + tokens == 0:
        replica.ratio = w.engines[replica.engine].ratio_first
    elif tokens == 0 and not preempted:
        decay_ratio(w, replica, 1)


@compiled
def fewest_tokens(w: World, replica: ReplicaRow) -> int:
    """The slot whose request has the fewest output tokens; of several the longest prompt, then the last admitted."""
    s = replica.tail
    worst = s
    least = emitted_in(w, replica, w.slots[s])
    while s >= 0:
        slot = w.slots[s]
        emitted = emitted_in(w, replica, slot)
        longer = w.prompt_tokens[slot.request] > w.prompt_tokens[w.slots[worst].request]
        if emitted < least or (emitted == least and longer):
            worst = s
            least = emitted
        s = slot.before
    return worst


@compiled
def estimated_ratio(w: World, replica: ReplicaRow) -> int:
    """The ratio after a retraction, from what the requests that still decode have come to."""
    settle_ratio(w, replica)
    done = 0
    allowed = 1
    s = replica.head
    while s >= 0:
        slot = w.slots[s]
        if slot.last_step >= 0:
            done += emitted_in(w, replica, slot) + RETRACT_STEPS
            allowed += limit_of(w, slot.request)
        s = slot.after
    return min(1 << RATIO_SHIFT, (done << RATIO_SHIFT) // allowed)


@compiled
def clipped_sum(w: World, replica: ReplicaRow) -> int:
    """What decoding requests may still come to, where some may come to more than is counted."""
    total = 0
    most = w.engines[replica.engine].clip_tokens
    s = replica.head
    while s >= 0:
        slot = w.slots[s]
        if slot.last_step >= 0:
            total += min(limit_of(w, slot.request) - emitted_in(w, replica, slot), most)
        s = slot.after
    return total


@inline
def most_still(w: World, replica: ReplicaRow) -> int:
    """At most this much may decoding requests still come to, as far as it is counted; exact unless some are clipped.

    Called before any request is admitted: those under way in prefill are the pending ones.
    """
    counted = replica.decodes * w.engines[replica.engine].clip_tokens
    if w.clips == ALWAYS:
        return counted
    still = replica.limit_tokens - replica.kv_tokens
    for x in range(replica.pending):
        i = w.slots[w.pending[replica.pending_at + x]].request
        still -= w.prompt_tokens[i] + limit_of(w, i) - 1
    return min(still, counted)


@compiled
def reserved_tokens(w: World, replica: ReplicaRow) -> int:
    """Tokens that answers under way may still need, in 2**-20: at the ratio, or whole where the prefill ends now."""
    settle_ratio(w, replica)
    total = most_still(w, replica) * replica.ratio
    for x in range(replica.pending):
        slot = w.slots[w.pending[replica.pending_at + x]]
        i = slot.request
        if slot.scheduled > 0 and slot.done == w.prompt_tokens[i] + w.requests[i].emitted:
            total += new_tokens(w, replica, i) << RATIO_SHIFT
    return total


# ---- letting in --------------------------------------------------------------------------------------------


@inline
def opens_gate(w: World, replica: ReplicaRow) -> bool:
    """Whether the queue is scanned: SGLang does not after a refusal, until a running request has left.

    It does while a prefill is under way; then fewer decode than ran when the queue was refused.
    """
    opens = w.engines[replica.engine].policy != NEW_TOKEN_RATIO or replica.refused_at != replica.decodes
    if opens:
        replica.refused_at = -1
    return opens


@compiled
def lets_in(w: World, replica: ReplicaRow, i: int, done: int, held: int, free: int, reserved: int) -> bool:
    """Whether the policy lets a request in beside those that run.

    Its first tokens fit. `done` tokens of it were found in the cache, `held` blocks of it are held by others, and
    `free` blocks are left.
    """
    engine = w.engines[replica.engine]
    if engine.policy == NO_EVICT:
        blocks = engine.blocks if w.has_prefix == 0 else engine.blocks + replica.shared_blocks
        return replica.reserved_blocks + whole_blocks(w, replica, i) <= blocks + held
    if engine.policy == NEW_TOKEN_RATIO:
        shift = engine.block_shift
        emitted = w.requests[i].emitted
        found = max(0, ((done + (1 << shift) - 1) >> shift) - held)
        needed = w.prompt_tokens[i] + emitted - done + min(limit_of(w, i) - emitted, engine.clip_tokens)
        spare = (((free - found) << shift) << RATIO_SHIFT) - (needed << RATIO_SHIFT) - reserved
        if spare <= 0 and w.clips == SOMETIMES:
            # What was reserved is an upper bound, and the exact sum takes a look at every request.
            spare += (most_still(w, replica) - clipped_sum(w, replica)) * replica.ratio
        return spare > 0
    return True
