"""A load test simulated as it was run: what lies outside the engine, and a scheduler that seldom looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ullage.service.calibration.replay import CROWD_FRACTION, EngineLimits, LoadTestReplay, replay
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.work import Floats
from ullage.simulate.engine import CapacityPolicy

STEP_S = 0.01


class Flat:
    """Steps of 10 ms whatever is in them; prompts are free."""

    pair_s = 0.0

    def __init__(self, request_overhead_s: float = 0.0, sequence_s: float = 0.0) -> None:
        self.request_overhead_s = request_overhead_s
        self.sequence_s = sequence_s

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return STEP_S + self.sequence_s * sequences + 0.0 * kv_tokens

    def prefill_s(self, tokens: Floats) -> Floats:
        return 0.0 * tokens


def trial(clients: int, *, poll_steps: int = 1, per_client: int = 10) -> LoadTestReplay:
    count = clients * per_client
    return LoadTestReplay(
        prompt_tokens=np.full(count, 100, np.int32),
        # Lengths that differ, so that clients do not stay in step with each other.
        output_tokens=(200 + np.arange(count) * 37 % 100).astype(np.int32),
        limits=EngineLimits(max_sequences=256, budget_tokens=8192, kv_tokens=10**6, poll_steps=poll_steps),
        clients=clients,
    )


def test_a_scheduler_that_looks_every_thirty_steps_keeps_requests_waiting_for_fifteen() -> None:
    often, seldom = (replay(Flat(), trial(16, poll_steps=steps)).statistic("ttft", "p50") for steps in (1, 30))
    assert seldom - often == pytest.approx(15 * STEP_S, rel=0.25)


def test_the_time_of_a_token_does_not_depend_on_when_the_scheduler_looks() -> None:
    often, seldom = (replay(Flat(), trial(16, poll_steps=steps)).statistic("tpot", "mean") for steps in (1, 30))
    assert seldom == pytest.approx(often, rel=0.01)


def test_a_single_client_is_seen_at_once() -> None:
    often, seldom = (replay(Flat(), trial(1, poll_steps=steps)).statistic("ttft", "mean") for steps in (1, 30))
    assert seldom == often


def test_what_lies_outside_the_engine_grows_with_those_being_answered() -> None:
    alone, crowd = (replay(Flat(request_overhead_s=0.02), trial(clients)) for clients in (1, 100))
    assert alone.outside_s is not None
    assert crowd.outside_s is not None
    assert alone.outside_s.max() == pytest.approx(0.02)
    assert np.median(crowd.outside_s) == pytest.approx(0.02 * (1 + 99 * CROWD_FRACTION), rel=0.05)


def test_the_engines_own_ttft_leaves_out_what_lies_outside() -> None:
    inside, outside = (replay(Flat(request_overhead_s=each), trial(8)) for each in (0.0, 0.05))
    assert outside.statistic("engine_ttft", "mean") == pytest.approx(inside.statistic("ttft", "mean"))
    assert outside.statistic("ttft", "mean") > inside.statistic("ttft", "mean") + 0.05


def test_fixed_and_growth_are_told_apart() -> None:
    """A faster step of one sequence moves all steps by the same time; more growth leaves that one where it was."""
    times = Flat(sequence_s=1e-4)
    few, many = np.array([1.0, 64.0]), np.array([64.0, 64.0])
    base = times.decode_s(few, many)
    fixed = ScaledStep(times=times, factors=Factors(fixed_ratio=0.5)).decode_s(few, many)
    growth = ScaledStep(times=times, factors=Factors(sequences_ratio=1.5)).decode_s(few, many)
    assert fixed - base == pytest.approx([-0.5 * base[0]] * 2)
    assert growth[0] == pytest.approx(base[0])
    assert growth[1] - growth[0] == pytest.approx(1.5 * (base[1] - base[0]))


def test_a_trial_is_closed_or_open() -> None:
    from ullage.errors import InputError

    with pytest.raises(InputError, match="either a closed loop or an open one"):
        replace(trial(2), clients=None)


def test_a_seldom_polling_scheduler_delays_requests_of_an_open_loop_too() -> None:
    base = trial(1, poll_steps=1, per_client=64)
    arrivals = np.cumsum(np.full(base.prompt_tokens.size, 0.05))
    found = [
        replay(Flat(), replace(base, clients=None, arrival_s=arrivals, limits=replace(base.limits, poll_steps=steps)))
        for steps in (1, 30)
    ]
    often, seldom = (each.statistic("ttft", "p50") for each in found)
    assert seldom > often
    assert found[0].statistic("tpot", "p50") == found[1].statistic("tpot", "p50")


def test_an_engine_that_reserves_answers_lets_in_as_many_as_fit() -> None:
    base = trial(16)
    room = int(4.5 * float((base.prompt_tokens + base.output_tokens).mean()))
    policies = (CapacityPolicy(name="present_need"), CapacityPolicy(name="guaranteed_no_evict"))
    limits = [replace(base.limits, kv_tokens=room, capacity=each) for each in policies]
    eager, patient = (replay(Flat(), replace(base, limits=each)) for each in limits)
    assert patient.statistic("ttft", "p50") > eager.statistic("ttft", "p50")


def test_a_request_that_waits_for_others_waits_all_of_the_steps_where_nobody_else_comes() -> None:
    base = trial(4)
    alone, together = (
        replay(Flat(), replace(base, limits=replace(base.limits, batch_wait_steps=steps))).statistic("ttft", "p50")
        for steps in (0, 20)
    )
    assert together - alone == pytest.approx(20 * STEP_S, rel=0.1)


def test_requests_that_are_let_in_together_wait_for_each_others_prompts() -> None:
    class Prompts(Flat):
        def prefill_s(self, tokens: Floats) -> Floats:
            return 1e-5 * tokens

    base = trial(64, poll_steps=30)
    answers = np.maximum(base.output_tokens // 8, 2)
    few, many = (
        replay(Prompts(), replace(base, output_tokens=each)).statistic("ttft", "p50")
        for each in (base.output_tokens, answers)
    )
    # Shorter answers bring more requests between two looks, and each of them waits for the others' prompts.
    assert many > few
