"""Pools that are short of one thing by construction: the binding constraint is that thing."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from support.pools import pool
from support.served_replicas import class_with_slos
from ullage.service.binding import (
    ACTIVE_TOKENS,
    BANDWIDTH,
    COMPUTE,
    LATENCY,
    MEMORY,
    QUEUEING,
    TOOL,
    Binding,
    binding_constraint,
)
from ullage.service.curve.margin import NO_POLICY
from ullage.service.headroom import Headroom, headroom
from ullage.service.steps.step_parts import need_of, relieved
from ullage.service.steps.work import Floats
from ullage.service.trial.bases import Bases
from ullage.workload.demand.tools import ToolLoad, ToolLoads

SEED = 5


@functools.cache
def room_at(name: str, rate_rps: float) -> tuple[Bases, Headroom]:
    found, _ = CASES[name]
    bases = found.bases(seed=SEED)
    return bases, headroom(bases.conservative, bases.conservative_probe, rate_rps=rate_rps, seed=SEED)


def bound(name: str, rate_rps: float | None = None, tools: ToolLoads | None = None) -> tuple[Binding, Headroom]:
    found, usual_rps = CASES[name]
    bases, room = room_at(name, rate_rps or usual_rps)
    answer = binding_constraint(bases, found.step, found.memory, room, seed=SEED, tools=tools, inputs=(NO_POLICY,))
    return answer, room


def tool(load: float, capacity: float, held: float = 0.0) -> ToolLoads:
    line = ToolLoad(
        name="search",
        tasks_per_s=load,
        tried_calls_per_s=load,
        capacity_tasks_per_s=capacity,
        limited_by="rate limit",
        waiting_requests=0.0,
        held_tokens=held,
        recomputed_tokens_per_s=0.0,
    )
    return ToolLoads(lines=(line,), figures={}, notes=())


CASES = {
    # Long prompts and one-line answers: all is prefill.
    COMPUTE: (pool(4000, 4, class_with_slos("chat", ttft_p95=1.5)), 8.0),
    # Short prompts and long answers, in steps that mostly read weights.
    BANDWIDTH: (pool(30, 400, class_with_slos("chat", tpot_p95=0.018)), 60.0),
    # A tenth of the cache: sequences of a thousand tokens, twelve of which fill it.
    ACTIVE_TOKENS: (pool(500, 500, class_with_slos("chat", ttft_p95=2.0), kv_blocks=800), 4.0),
    # Four sequences at once, whatever the device could do.
    QUEUEING: (pool(200, 200, class_with_slos("chat", ttft_p95=2.0), max_sequences=4), 3.0),
    # An SLO that an idle pool barely keeps.
    LATENCY: (pool(2000, 20, class_with_slos("chat", ttft_p95=0.14)), 4.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_a_pool_is_short_of_by_construction_binds(name: str) -> None:
    found, room = bound(name)
    assert found.binding.name == name, [(line.name, line.freed) for line in found.lines]
    assert found.binding.growth_fraction == room.line("traffic").holds_fraction
    assert found.figures["binding.constraint"].value == name
    assert found.figures["binding.next"].value == found.following.name != name
    assert name in found.notes[0]


@pytest.mark.slow
def test_every_constraint_has_a_distance_in_its_unit_and_as_a_share() -> None:
    found, _ = bound(COMPUTE)
    units = {line.name: line.unit for line in found.lines}
    assert units == {
        COMPUTE: "flop/s", BANDWIDTH: "bytes/s", ACTIVE_TOKENS: "tokens", QUEUEING: "s", LATENCY: "s", MEMORY: "bytes"
    }  # fmt: skip
    for line in found.lines:
        assert 0.0 <= line.distance_fraction <= 1.0
        assert line.value + line.distance_fraction * line.limit_value == pytest.approx(line.limit_value)
    memory = found.lines[-1]
    assert memory.name == MEMORY
    assert memory.growth_fraction is None


def test_a_tool_that_takes_less_than_the_pool_binds() -> None:
    rate_rps = CASES[COMPUTE][1]
    free, room = bound(COMPUTE)
    limit = room.line("traffic").holds_fraction
    below, _ = bound(COMPUTE, None, tool(rate_rps, rate_rps * (1.0 + limit / 2)))
    assert below.binding.name == TOOL
    assert below.following.name == free.binding.name
    assert below.binding.unit == "tasks/s"
    short, _ = bound(COMPUTE, None, tool(rate_rps, rate_rps / 2))
    assert short.binding.growth_fraction == pytest.approx(-0.5)
    assert "50% less than the planned traffic" in short.notes[0]
    wide, _ = bound(COMPUTE, None, tool(rate_rps, rate_rps * 100))
    assert wide.binding.name == free.binding.name
    assert TOOL not in (wide.binding.name, wide.following.name)
    unlimited, _ = bound(COMPUTE, None, tool(rate_rps, math.inf))
    assert TOOL not in [line.name for line in unlimited.lines]


def test_kv_held_for_a_tool_is_counted_among_active_tokens() -> None:
    case, _ = CASES[COMPUTE]
    free, held = (bound(COMPUTE, None, tool(1.0, math.inf, tokens))[0] for tokens in (0.0, 10_000.0))
    tokens = [next(line.value for line in each.lines if line.name == ACTIVE_TOKENS) for each in (free, held)]
    assert tokens[1] - tokens[0] == pytest.approx(10_000.0 / case.trial.replicas)


def test_a_pool_with_more_room_than_was_tried_says_so() -> None:
    found, room = bound(COMPUTE, 0.5)
    assert room.line("traffic").breaks_fraction is None
    assert found.binding.growth_fraction is None
    assert "200% more traffic" in found.notes[1]


@pytest.mark.slow
def test_one_seed_one_answer() -> None:
    first = bound(QUEUEING)
    room_at.cache_clear()
    assert bound(QUEUEING) == first


# ---- reading and computing ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_resource_is_used_for_longer_than_the_steps_take() -> None:
    """At a load that the pool sustains, neither reading nor computing fills the seconds of a replica."""
    for name in (COMPUTE, BANDWIDTH):
        found, _ = bound(name)
        for line in found.lines:
            if line.name in (COMPUTE, BANDWIDTH):
                assert 0.0 < line.value < line.limit_value


def test_operations_and_bytes_by_hand() -> None:
    """Eight billion parameters: two operations each for a token, two bytes each for a step."""
    found = CASES[COMPUTE][0]
    requests = found.trial.load_at(rate_rps=10.0, span_s=60.0, seed=1).requests
    tokens = float(requests.prompt_tokens.mean())
    need = need_of(found.step, requests, steps_per_request=1.0)
    assert need.flops == pytest.approx(2 * 8.0e9 * tokens, rel=0.2)
    assert need.read_bytes == pytest.approx(2 * 8.0e9, rel=0.05)
    twice = need_of(found.step, requests, steps_per_request=2.0)
    assert twice.flops == need.flops
    assert twice.read_bytes > 1.8 * need.read_bytes


def test_more_of_a_rate_shortens_the_steps_it_bounds() -> None:
    step = CASES[COMPUTE][0].step
    prefill = {"sequences": 1.0, "kv_tokens": 1000.0, "prefill_tokens": 8000, "pairs": 32e6}
    decode = {"sequences": 4.0, "kv_tokens": 4000.0}
    reading, computing = relieved(step, bandwidth_ratio=1.25), relieved(step, compute_ratio=1.25)
    assert computing.step_s(**prefill) < 0.85 * step.step_s(**prefill)
    assert reading.step_s(**prefill) > 0.9 * step.step_s(**prefill)
    assert reading.step_s(**decode) < 0.95 * step.step_s(**decode)
    assert computing.step_s(**decode) > 0.99 * step.step_s(**decode)
    same = relieved(step)
    assert same.step_s(**prefill) == step.step_s(**prefill)


def test_measured_steps_are_held_against_peaks_and_the_note_says_so() -> None:
    found = CASES[COMPUTE][0]
    measured = replace(found.step, times=_Plain())
    requests = found.trial.load_at(rate_rps=10.0, span_s=60.0, seed=1).requests
    assert need_of(measured, requests, steps_per_request=1.0).is_peak
    faster = relieved(measured, bandwidth_ratio=2.0)
    assert faster.step_s(sequences=1, kv_tokens=1) == pytest.approx(0.05)


class _Plain:
    """Steps of a tenth of a second, whatever is in them."""

    pair_s = 0.0

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return np.full(np.broadcast_shapes(sequences.shape, kv_tokens.shape), 0.1)

    def prefill_s(self, tokens: Floats) -> Floats:
        return np.full_like(tokens, 0.1)
