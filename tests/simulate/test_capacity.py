"""Policies for letting requests in: worked by hand, as laws, and against what the engines' makers say of them.

A step of n decodes takes 10 + n units and each prefill token adds 1, in picoseconds, unless an example says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.equality import check_equal
from support.examples import problem, run
from support.scenarios import policy_row, scenario
from ullage.errors import InputError
from ullage.simulate import CapacityPolicy, Engine, Fleet, Outcome, StepTable, poisson, simulate
from ullage.simulate.compile import compile_problem
from ullage.simulate.kernel import codes as k
from ullage.simulate.laws import check_laws
from ullage.simulate.problem import ClassField, EngineField
from ullage.simulate.world import KernelRun

WHOLE = 1 << k.RATIO_SHIFT
STEP = StepTable.affine(step_s=0.008, sequence_s=5e-5, kv_token_s=2e-8, prefill_token_s=3e-5, max_sequences=256)


def admitted(*given: Any, **terms: Any) -> list[int]:
    return [each.admitted_ps for each in run(problem(*given, **terms)).requests]


# ---- TensorRT-LLM ------------------------------------------------------------------------------------------


def test_no_evict_asks_for_the_whole_answers_of_all() -> None:
    # Each needs 3 + 4 - 1 blocks of a token. Eleven are one too few for two, so the second waits to the end of the
    # first: 13 + 3 * 11.
    terms: dict[str, Any] = {"policy": k.NO_EVICT}
    assert admitted([0, 0], [3, 3], [4, 4], blocks=12, **terms) == [0, 0]
    assert admitted([0, 0], [3, 3], [4, 4], blocks=11, **terms) == [0, 46]


def test_no_evict_asks_for_the_longest_answer_and_not_for_the_one_that_comes() -> None:
    limits: list[dict[int, int]] = [{ClassField.LIMIT_TOKENS: 5}]
    assert admitted([0, 0], [3, 3], [4, 4], blocks=13, policy=k.NO_EVICT, classes=limits) == [0, 46]
    assert admitted([0, 0], [3, 3], [4, 4], blocks=14, policy=k.NO_EVICT, classes=limits) == [0, 0]


def test_a_request_that_may_become_too_long_runs_alone() -> None:
    limits: list[dict[int, int]] = [{ClassField.LIMIT_TOKENS: 500}]
    assert admitted([0, 0], [3, 3], [4, 4], blocks=20, policy=k.NO_EVICT, classes=limits) == [0, 46]


def test_under_maximum_utilisation_a_prompt_has_all_its_blocks_at_once() -> None:
    # The first prompt is computed in chunks of 8; by present need the second goes beside it in the first step, which
    # has tokens to spare only because a chunk is capped at 4.
    chunks: dict[str, Any] = {"budget": 8, "long_prefill": 4, "blocks": 22}
    assert admitted([0, 0], [16, 8], [1, 1], **chunks) == [0, 0]
    assert admitted([0, 0], [16, 8], [1, 1], policy=k.MAX_UTILIZATION, **chunks) == [0, 56]


def test_under_maximum_utilisation_the_last_is_paused() -> None:
    found = run(problem([0, 0], [3, 3], [4, 4], blocks=7, policy=k.MAX_UTILIZATION))
    assert [each.preemptions for each in found.requests] == [0, 1]


# ---- SGLang ------------------------------------------------------------------------------------------------


def test_the_ratio_is_of_what_running_answers_may_still_come_to() -> None:
    # At 13 the first decodes: it holds 3 tokens and takes a fourth, and 9 of its 10 may still come. The second needs 3
    # and 10, with room to spare: 4 + 13 + 9 * ratio < blocks.
    terms: dict[str, Any] = {"policy": k.NEW_TOKEN_RATIO}
    late: list[list[int]] = [[0, 1], [3, 3], [10, 10]]
    assert admitted(*late, blocks=27, ratio=(WHOLE, WHOLE, 0), **terms) == [0, 13]
    assert admitted(*late, blocks=26, ratio=(WHOLE, WHOLE, 0), **terms) == [0, 112]
    assert admitted(*late, blocks=18, ratio=(0, 0, 0), **terms) == [0, 13]
    assert admitted(*late, blocks=17, ratio=(0, 0, 0), **terms) == [0, 112]


def test_those_let_in_together_count_whole_whatever_the_ratio() -> None:
    # 3 tokens of the first and its 10, 3 and 10 of the second, which is refused and waits until the first has left.
    terms: dict[str, Any] = {"policy": k.NEW_TOKEN_RATIO, "ratio": (0, 0, 0)}
    assert admitted([0, 0], [3, 3], [10, 10], blocks=27, **terms)[1] == 0
    assert admitted([0, 0], [3, 3], [10, 10], blocks=26, **terms)[1] == 112


def test_no_more_of_an_answer_is_counted_than_the_clip() -> None:
    terms: dict[str, Any] = {"policy": k.NEW_TOKEN_RATIO, "ratio": (WHOLE, WHOLE, 0), "clip": 2}
    assert admitted([0, 1], [3, 3], [8, 8], blocks=12, **terms)[1] == 13
    assert admitted([0, 1], [3, 3], [8, 8], blocks=11, **terms)[1] == 90


def test_after_a_refusal_a_ratio_that_falls_opens_nothing_until_a_request_has_left() -> None:
    # The ratio is 0 one step later, but the queue is not looked at before the first is done.
    falls: dict[str, Any] = {"policy": k.NEW_TOKEN_RATIO, "ratio": (WHOLE, 0, WHOLE)}
    assert admitted([0, 1], [3, 3], [10, 10], blocks=26, **falls) == [0, 112]
    # Whoever comes a step later finds the queue never refused.
    assert admitted([0, 14], [3, 3], [10, 10], blocks=26, **falls) == [0, 24]


def test_the_one_with_the_fewest_tokens_is_retracted_to_the_end_of_the_queue() -> None:
    # Four steps after 13 both hold 8 of 16 blocks. The second came later, has fewer tokens and gives way to the third,
    # which waited for a seat and by present need would have waited longer.
    late: list[list[int]] = [[0, 1, 2], [3, 4, 3], [9, 9, 2]]
    terms: dict[str, Any] = {"blocks": 16, "sequences": 2, "clip": 1}
    retracted = run(problem(*late, policy=k.NEW_TOKEN_RATIO, **terms)).requests
    preempted = run(problem(*late, **terms)).requests
    assert [each.preemptions for each in retracted] == [each.preemptions for each in preempted] == [0, 1, 0]
    assert retracted[2].finish_ps < retracted[1].finish_ps
    assert retracted[2].admitted_ps < preempted[2].admitted_ps


def test_ratios_are_those_of_the_engine() -> None:
    usual, strict, bold = (CapacityPolicy(name="new_token_ratio", conservativeness=each) for each in (1.0, 2.0, 0.3))
    assert (usual.first_ratio, strict.first_ratio) == (0.7, 1.0)
    assert usual.least_ratio == pytest.approx(0.098)
    assert bold.first_ratio - 600 * bold.decay_ratio == pytest.approx(bold.least_ratio)


@pytest.mark.parametrize("terms", [{"conservativeness": -1.0}, {"output_limit_tokens": 0}])
def test_a_policy_of_no_sense_is_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        CapacityPolicy(**terms)


def test_the_longest_answer_of_a_class_is_nearly_the_longest_that_comes() -> None:
    load = poisson(
        rate_rps=5, requests=4000, prompt_tokens=50, output_tokens=100, spread=0.8, rng=np.random.default_rng(1)
    )
    for limit, expected in ((None, np.quantile(load.requests.output_tokens, 0.99)), (777, 777)):
        engine = Engine(
            step=STEP, kv_blocks=900, capacity=CapacityPolicy(name="guaranteed_no_evict", output_limit_tokens=limit)
        )
        made = compile_problem(
            [engine], Fleet(), load, seed=1, until_s=None, warmup_s=0.0, sample_s=None, keep_requests=False,
            attribution=False, most_events=2**60,
        )  # fmt: skip
        assert made.classes[0, ClassField.LIMIT_TOKENS] == pytest.approx(expected, abs=1)


# ---- laws --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_they_agree_where_answers_fill_the_cache(number: int) -> None:
    assert not check_equal(scenario(policy_row(number), 12_000 + number))


@pytest.mark.parametrize("number", range(2, 42, 4))
def test_no_evict_never_preempts_and_nothing_is_lost(number: int) -> None:
    given = scenario(policy_row(number), 14_000 + number)
    assert (given.engines[:, EngineField.POLICY] == k.NO_EVICT).all()
    found = KernelRun(given).finish()
    check_laws(found)
    assert int(found.replicas.preemptions.sum()) == 0
    assert int(found.replicas.reserved_blocks.sum()) == 0
    assert int(found.replicas.limit_tokens.sum()) == 0


# ---- what the makers say -----------------------------------------------------------------------------------


def served(policy: CapacityPolicy) -> Outcome:
    """Answers of two thousand tokens on average, five times as long at most, more than the cache can hold at once."""
    engine = Engine(step=STEP, kv_blocks=20_000, max_sequences=256, capacity=policy)
    load = poisson(
        rate_rps=8, requests=700, prompt_tokens=200, output_tokens=2000, spread=0.5, rng=np.random.default_rng(1)
    )
    return simulate(engine, Fleet(), load, seed=1, sample_s=1.0)


def running(found: Outcome) -> float:
    assert found.series is not None
    return float(np.mean(found.series.running))


@pytest.mark.slow
def test_a_low_new_token_ratio_retracts_and_a_high_one_leaves_room_unused() -> None:
    """SGLang's hyperparameter tuning guide: where requests are retracted often raise --schedule-conservativeness to
    about 1.3; where requests queue though tokens are left, lower it to about 0.3."""
    low, usual, high = (
        served(CapacityPolicy(name="new_token_ratio", conservativeness=each)) for each in (0.1, 0.3, 1.3)
    )
    retracted = [each.total.preemptions / 700 for each in (low, usual, high)]
    assert retracted[0] > 0.02
    assert retracted[0] > retracted[1] >= retracted[2]
    assert retracted[2] < 0.002
    assert running(low) > 1.05 * running(high)
    assert low.total.recomputed_tokens > 10 * max(1, high.total.recomputed_tokens)


@pytest.mark.slow
def test_guaranteed_no_evict_runs_fewer_at_once_and_never_pauses() -> None:
    """TensorRT-LLM's guide to runtime options: MAX_UTILIZATION packs as many as it can at the risk of pausing some,
    GUARANTEED_NO_EVICT never pauses a request that has started."""
    packed, guaranteed = (
        served(CapacityPolicy(name="max_utilization")),
        served(CapacityPolicy(name="guaranteed_no_evict")),
    )
    assert packed.total.preemptions > 0
    assert guaranteed.total.preemptions == 0
    assert running(guaranteed) < 0.7 * running(packed)
