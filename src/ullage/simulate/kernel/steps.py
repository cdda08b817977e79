"""How long steps take, and what the decodes of a replica hold after them."""

from __future__ import annotations

import math

from ullage.simulate.kernel.books import gained, position, width_of
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.state import EngineTerms, ReplicaRow, World


@inline
def step_time(w: World, engine: EngineTerms, decodes: int, kv_tokens: int, tokens: int, pairs: int) -> int:
    """Duration of a step from the tables of its engine."""
    g = min(kv_tokens >> engine.kv_shift, engine.kv_segments - 1)
    segment = w.segments[engine.decode_at + decodes * engine.kv_segments + g]
    decode_ps = segment.base_ps + segment.slope_ps * (kv_tokens - (g << engine.kv_shift))
    if tokens > 0:
        batch = tokens if engine.is_sum == 1 else tokens + decodes * engine.width
        h = min(batch >> engine.token_shift, engine.token_segments - 1)
        segment = w.segments[engine.token_at + h]
        prefill_ps = segment.base_ps + segment.slope_ps * (batch - (h << engine.token_shift))
        prefill_ps += (pairs * engine.pair_ps_1024) >> 10
        decode_ps = decode_ps + prefill_ps if engine.is_sum == 1 else max(decode_ps, prefill_ps)
    return decode_ps


@compiled
def floor_sum(terms: int, rate: int, offset: int) -> int:
    """The sum of (offset + j * rate) >> 10 over j below `terms`, in a few turns: Euclid's algorithm on the slope."""
    total = 0
    size = 1024
    while True:
        total += (terms * (terms - 1) >> 1) * (rate // size) + terms * (offset // size)
        rate = rate % size
        offset = offset % size
        top = rate * terms + offset
        if top < size:
            break
        terms = top // size
        offset = top % size
        size, rate = rate, size
    return total


@inline
def gains_before(w: World, replica: ReplicaRow, steps: int) -> int:
    """What a sequence gained before each of the next `steps` steps, added up."""
    if w.has_speculation == 0:
        return steps * (steps - 1) >> 1
    rate = w.engines[replica.engine].rate_1024
    return floor_sum(steps, rate, (replica.step * rate) & 1023)


@compiled
def wide_steps_until(w: World, replica: ReplicaRow, when_ps: int) -> int:
    """`steps_until` with speculation: the root of the mean growth is less than a step or two from the exact answer."""
    growth_ps = replica.growth_ps * w.engines[replica.engine].rate_1024 / 1024.0
    span = when_ps - replica.begin_ps
    b = replica.first_step_ps - 0.5 * growth_ps
    guess = span / b if growth_ps == 0.0 else (math.sqrt(b * b + 2.0 * growth_ps * span) - b) / growth_ps
    steps = min(max(int(guess), 1), replica.planned)
    while steps < replica.planned and plan_end(w, replica, steps) < when_ps:
        steps += 1
    while steps > 1 and plan_end(w, replica, steps - 1) >= when_ps:
        steps -= 1
    return steps


@inline
def steps_until(w: World, replica: ReplicaRow, when_ps: int) -> int:
    """The least number of planned steps, at least 1, after which the time is not before `when_ps`.

    Step j lasts first_step_ps + j * growth_ps. A few steps are tried one by one, because most answers are small; the
    rest is the root of a quadratic, mended to the exact integer.
    """
    if w.has_speculation == 1:
        return wide_steps_until(w, replica, when_ps)
    most = replica.planned
    first_ps = replica.first_step_ps
    growth_ps = replica.growth_ps
    steps = 1
    end_ps = replica.begin_ps + first_ps
    last_ps = first_ps
    while end_ps < when_ps and steps < most and steps < 12:
        last_ps += growth_ps
        end_ps += last_ps
        steps += 1
    if end_ps < when_ps and steps < most:
        span = when_ps - replica.begin_ps
        if growth_ps == 0:
            steps = (span + first_ps - 1) // first_ps
        else:
            b = first_ps - 0.5 * growth_ps
            steps = max(int((math.sqrt(b * b + 2.0 * growth_ps * span) - b) / growth_ps), 1)
            while steps * first_ps + growth_ps * (steps * (steps - 1) >> 1) < span:
                steps += 1
            while steps > 1 and (steps - 1) * first_ps + growth_ps * ((steps - 1) * (steps - 2) >> 1) >= span:
                steps -= 1
        steps = min(steps, most)
    return steps


@inline
def plan_end(w: World, replica: ReplicaRow, steps: int) -> int:
    """When so many steps of the plan are over."""
    return replica.begin_ps + steps * replica.first_step_ps + replica.growth_ps * gains_before(w, replica, steps)


@compiled
def blocks_with(w: World, replica: ReplicaRow, shift: int, more: int) -> int:
    """KV blocks that the decodes hold when each has so many more tokens."""
    mask = (1 << shift) - 1
    total = replica.kv_tokens + replica.decodes * more
    step = position(w, replica, replica.step)
    for p in range(mask + 1):
        total += w.phases[replica.phases_at + p] * (-(step + more + p) & mask)
    return total >> shift


@inline
def blocks_after_step(w: World, replica: ReplicaRow, shift: int) -> int:
    """KV blocks that the decodes hold in their next step."""
    if w.counts_blocks == 1:
        return replica.decode_blocks + growth_of(w, replica, shift, 1)
    return blocks_with(w, replica, shift, width_of(w, replica))


@inline
def growth_of(w: World, replica: ReplicaRow, shift: int, steps: int) -> int:
    """Blocks that the decodes take in the next `steps` steps, of a token each: a request whose last block is full."""
    mask = (1 << shift) - 1
    taken = (steps >> shift) * replica.decodes
    for j in range(steps & mask):
        taken += w.phases[replica.phases_at + (-(replica.step + j) & mask)]
    return taken


@inline
def kv_now(w: World, replica: ReplicaRow, now_ps: int) -> int:
    """KV tokens held at a time before the replica's next boundary, those of the step under way included."""
    held = replica.kv_tokens + replica.prefill_kv_tokens
    if replica.planned > 0:
        held += replica.decodes * gained(w, replica, steps_until(w, replica, now_ps))
    elif replica.mixed == 1:
        held += replica.step_decodes * gained(w, replica, 1)
    return held
