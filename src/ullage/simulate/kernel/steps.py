"""How long steps take, and what the decodes of a replica hold after them."""

from __future__ import annotations

import math

from ullage.simulate.kernel.compiling import inline
from ullage.simulate.kernel.state import EngineTerms, ReplicaRow, World


@inline
def step_time(w: World, engine: EngineTerms, decodes: int, kv_tokens: int, tokens: int, pairs: int) -> int:
    """Duration of a step from the tables of its engine."""
    g = min(kv_tokens >> engine.kv_shift, engine.kv_segments - 1)
    segment = w.segments[engine.decode_at + decodes * engine.kv_segments + g]
    decode_ps = segment.base_ps + segment.slope_ps * (kv_tokens - (g << engine.kv_shift))
    if tokens > 0:
        batch = tokens if engine.is_sum == 1 else tokens + decodes
        h = min(batch >> engine.token_shift, engine.token_segments - 1)
        segment = w.segments[engine.token_at + h]
        prefill_ps = segment.base_ps + segment.slope_ps * (batch - (h << engine.token_shift))
        prefill_ps += (pairs * engine.pair_ps_1024) >> 10
        decode_ps = decode_ps + prefill_ps if engine.is_sum == 1 else max(decode_ps, prefill_ps)
    return decode_ps


@inline
def steps_until(replica: ReplicaRow, when_ps: int) -> int:
    """The least number of planned steps, at least 1, after which the time is not before `when_ps`.

    Step j lasts first_step_ps + j * growth_ps. A few steps are tried one by one, because most answers are small; the
    rest is the root of a quadratic, mended to the exact integer.
    """
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
def plan_end(replica: ReplicaRow, steps: int) -> int:
    """When so many steps of the plan are over."""
    return replica.begin_ps + steps * replica.first_step_ps + replica.growth_ps * (steps * (steps - 1) >> 1)


@inline
def blocks_after_step(w: World, replica: ReplicaRow, shift: int) -> int:
    """KV blocks that the decodes hold once each has one more token."""
    mask = (1 << shift) - 1
    total = replica.kv_tokens + replica.decodes
    step = replica.step
    for p in range(mask + 1):
        total += w.phases[replica.phases_at + p] * (-(step + 1 + p) & mask)
    return total >> shift


@inline
def kv_now(replica: ReplicaRow, now_ps: int) -> int:
    """KV tokens held at a time before the replica's next boundary, those of the step under way included."""
    held = replica.kv_tokens + replica.prefill_kv_tokens
    if replica.planned > 0:
        held += replica.decodes * steps_until(replica, now_ps)
    elif replica.mixed == 1:
        held += replica.step_decodes
    return held
