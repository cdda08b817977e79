"""The literal simulator against examples worked by hand: it is the specification, so it is tested by itself.

A step of n decodes takes 10 + n units and each prefill token adds 1, in picoseconds, unless an example says otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from support.examples import problem, run, times
from support.reference import COLUMNS
from ullage.simulate.kernel import codes as k
from ullage.simulate.problem import (
    ClassField,
    ControlKind,
    ControlTerms,
    EventKind,
    RetryTerms,
    RouterArrays,
)


def test_one_request_is_prefilled_in_one_step_and_decoded_in_the_others() -> None:
    # Prefill of 5 tokens: 10 + 5. Then two decode steps of 10 + 1.
    assert times(problem([100], [5], [3])) == [(115, 137)]


def test_speculation_brings_several_tokens_a_step_and_carries_what_is_left_of_one() -> None:
    # Two and a half tokens a step: after the prefill, the replica's first step, the next bring 3, 2, 3, 2.
    wide: dict[str, Any] = {"rate_1024": 2560, "width": 3}
    assert times(problem([100], [5], [6], **wide)) == [(115, 137)]
    assert times(problem([100], [5], [7], **wide)) == [(115, 148)]
    found = run(problem([100], [5], [5], **wide))
    assert found.requests[0].emitted == 5
    assert found.replicas[0].decode_tokens == 4


def test_drafted_positions_take_budget_and_blocks() -> None:
    # Three positions of a budget of 8 leave 5 of the second prompt's 20 tokens: 7 in the first step beside a prefill of
    # one token, then 5 and 5 beside a decode, then 3.
    wide: dict[str, Any] = {"rate_1024": 1024, "width": 3, "budget": 8}
    assert times(problem([0, 0], [1, 20], [3, 1], **wide)) == [(18, 50), (63, 63)]
    # Prompt and output are 7 tokens, of which the last is not kept; its last step may need two positions more.
    assert run(problem([0], [4], [3], blocks=8, **wide)).requests[0].state == k.SUCCESS
    assert run(problem([0], [4], [3], blocks=7, **wide)).requests[0].state == k.OVERSIZE


def test_an_output_of_one_token_needs_only_the_prefill() -> None:
    assert times(problem([0], [5], [1])) == [(15, 15)]


def test_a_second_request_waits_for_the_boundary_and_joins_a_mixed_step() -> None:
    # Boundary at 15. The mixed step has one decode and a prefill of 4: 10 + 1 + 4, to 30; the first is done then.
    assert times(problem([0, 3], [5, 4], [2, 2])) == [(15, 30), (30, 41)]


def test_an_arrival_at_the_very_time_of_a_boundary_comes_before_it() -> None:
    assert times(problem([0, 15], [5, 4], [2, 2])) == [(15, 30), (30, 41)]


def test_a_prompt_longer_than_the_budget_is_prefilled_in_chunks() -> None:
    # Chunks of 8, 8, 4: steps of 18, 18, 14.
    assert times(problem([0], [20], [1], budget=8)) == [(50, 50)]


def test_decodes_take_their_tokens_of_the_budget_first() -> None:
    # The first decodes from 12 on, so that the second gets 7 of 8: mixed steps of 10 + 1 + 7 and 10 + 1 + 7, and,
    # the first being done after them, one of 10 + 6.
    assert times(problem([0, 1], [2, 20], [3, 1], budget=8)) == [(12, 48), (64, 64)]


def test_the_token_budget_is_shared_in_order_of_arrival() -> None:
    # Step 1: 2 tokens of the first and 6 of the second, 10 + 8. Step 2: one decode, 7 tokens. Step 3: one decode, 7.
    found = run(problem([0, 0], [2, 20], [3, 1], budget=8))
    assert [(each.first_ps, each.finish_ps) for each in found.requests] == [(18, 54), (54, 54)]


def test_a_long_prefill_is_capped_so_that_a_short_one_goes_beside_it() -> None:
    # Threshold 4: step 1 takes 4 of the first and 3 of the second: 17. Then 4 with a decode: 15; then 2 with it: 13.
    found = run(problem([0, 0], [10, 3], [1, 3], long_prefill=4))
    assert [(each.first_ps, each.finish_ps) for each in found.requests] == [(45, 45), (17, 45)]


def test_no_more_sequences_run_than_allowed() -> None:
    assert times(problem([0, 0], [5, 5], [2, 2], sequences=1)) == [(15, 26), (41, 52)]


def test_a_prefix_hit_is_not_computed_again() -> None:
    assert times(problem([0], [5], [2], cached=[3])) == [(12, 23)]


def test_blocks_are_rounded_up_and_the_head_of_the_queue_blocks() -> None:
    # Four blocks of 4 tokens. The first holds 2 (5 tokens) until it is done at 15 + 2 * 11, the second needs 3: it
    # waits, and so does the third behind it, which would fit.
    found = run(problem([0, 1, 1], [5, 9, 1], [3, 1, 1], blocks=4, block_shift=2))
    assert [each.admitted_ps for each in found.requests] == [0, 37, 37]


def test_out_of_blocks_the_last_admitted_is_preempted_and_computed_again() -> None:
    # 7 blocks of one token: 3 + 3 fit, with one decode each 4 + 4 do not. The second loses its place at 16, waits
    # until the first is done (16 + 3 * 11 = 49) and computes its 3 + 1 tokens again: 49 + 14 = 63, its second token,
    # and two steps of 11 more.
    found = run(problem([0, 0], [3, 3], [4, 4], blocks=7))
    first, second = found.requests
    assert (first.first_ps, first.finish_ps, first.preemptions) == (16, 49, 0)
    assert (second.first_ps, second.finish_ps, second.preemptions) == (16, 85, 1)
    assert found.counters[1, 0, COLUMNS["recomputed_tokens"]] == 3


def test_under_priority_scheduling_the_least_urgent_gives_way() -> None:
    urgent_last: list[dict[int, int]] = [{ClassField.LEVEL: 1}, {ClassField.LEVEL: 0}]
    found = run(problem([0, 0], [3, 3], [4, 4], blocks=7, priority=True, classes=urgent_last, group=[0, 1]))
    assert [each.preemptions for each in found.requests] == [1, 0]


def test_under_priority_scheduling_the_urgent_one_is_admitted_first() -> None:
    classes: list[dict[int, int]] = [{ClassField.LEVEL: 1}, {ClassField.LEVEL: 0}]
    found = run(problem([0, 1, 2], [5, 5, 5], [1, 1, 1], sequences=1, priority=True, classes=classes, group=[0, 0, 1]))
    assert [each.finish_ps for each in found.requests] == [15, 45, 30]


def test_a_request_larger_than_the_cache_is_rejected_at_arrival() -> None:
    found = run(problem([0, 0], [10, 3], [2, 1], blocks=10))
    assert [each.state for each in found.requests] == [k.OVERSIZE, k.SUCCESS]


def test_the_queue_bound_is_checked_at_arrival() -> None:
    found = run(problem([0, 1, 1, 1], [5] * 4, [1] * 4, queue=2, sequences=1))
    assert [each.state for each in found.requests] == [k.SUCCESS, k.SUCCESS, k.SUCCESS, k.SHED]


def test_a_deadline_on_the_first_token_ends_the_request_at_the_next_boundary() -> None:
    # The second waits behind the first, which runs to 26; its 10 units are over at 11, seen at the boundary at 15.
    found = run(problem([0, 1], [5, 5], [2, 2], sequences=1, classes=[{ClassField.TTFT_TIMEOUT_PS: 10}]))
    second = found.requests[1]
    assert (second.state, second.finish_ps) == (k.TIMED_OUT, 15)
    assert found.requests[0].state == k.SUCCESS, "its first token came at the boundary at which its time was up"


def test_a_deadline_on_the_whole_request_ends_it_while_it_runs() -> None:
    found = run(problem([0], [5], [5], classes=[{ClassField.TOTAL_TIMEOUT_PS: 20}]))
    assert (found.requests[0].state, found.requests[0].finish_ps, found.requests[0].emitted) == (k.TIMED_OUT, 26, 2)


def test_a_client_that_goes_away_is_noticed_at_the_boundary() -> None:
    found = run(problem([0], [5], [5], cancel=[16]))
    assert (found.requests[0].state, found.requests[0].finish_ps) == (k.CANCELLED, 26)


def test_success_and_late_differ_by_the_slo() -> None:
    slow: list[dict[int, int]] = [
        {ClassField.TTFT_SLO_PS: 14}, {ClassField.TTFT_SLO_PS: 15}, {ClassField.TPOT_SLO_PS: 10},
        {ClassField.E2E_SLO_PS: 26},
    ]  # fmt: skip
    found = run(problem([0, 100, 200, 300], [5] * 4, [2] * 4, classes=slow, group=[0, 1, 2, 3]))
    assert [each.state for each in found.requests] == [k.LATE, k.SUCCESS, k.LATE, k.SUCCESS]


def test_clients_of_a_closed_loop_think_between_requests() -> None:
    given = problem([], [5, 5, 5], [1, 1, 1], clients=[0], think=[7, 0, 0])
    found = run(given)
    # A think time of 0 is one picosecond: what follows from a boundary comes after it.
    assert [each.arrival_ps for each in found.requests] == [0, 22, 38]


def test_clients_that_start_at_once_share_the_first_step() -> None:
    found = run(problem([], [5, 5, 5], [1, 1, 1], clients=[0, 0], think=[0, 0, 0]))
    assert [each.arrival_ps for each in found.requests] == [0, 0, 21]


def test_a_shed_request_comes_back_after_its_back_off_and_then_gives_up() -> None:
    retry = RetryTerms(most_attempts=3, backoff_ps=4, growth_milli=2000)
    found = run(problem([0, 1, 1], [30, 5, 5], [1, 1, 1], queue=1, sequences=1, retry=retry))
    third = found.requests[2]
    assert (third.state, third.finish_ps, third.attempts) == (k.SHED, 1 + 4 + 8, 3)


def test_the_retry_budget_runs_out() -> None:
    retry = RetryTerms(most_attempts=9, backoff_ps=1, growth_milli=1000, bucket_milli=2000, deposit_milli=0)
    found = run(problem([0, 1, 1], [30, 5, 5], [1, 1, 1], queue=1, sequences=1, retry=retry))
    assert (found.requests[2].state, found.requests[2].attempts) == (k.SHED, 3)


def test_round_robin_goes_round() -> None:
    found = run(problem([0, 1, 2, 3], [5] * 4, [1] * 4, replicas=3, routing=RouterArrays.ROUND_ROBIN))
    assert [each.replica for each in found.requests] == [0, 1, 2, 0]


def test_least_outstanding_takes_the_emptier_and_the_lower_on_a_tie() -> None:
    found = run(problem([0, 1, 2, 40], [5, 5, 5, 5], [1, 9, 1, 1], replicas=2))
    assert [each.replica for each in found.requests] == [0, 1, 0, 0]


def test_least_tokens_counts_what_is_queued() -> None:
    found = run(problem([0, 1, 2], [50, 5, 5], [1, 1, 1], replicas=2, routing=RouterArrays.LEAST_TOKENS))
    assert [each.replica for each in found.requests] == [0, 1, 1]


def test_a_stale_view_herds() -> None:
    stale = problem([1, 2, 3], [5] * 3, [1] * 3, replicas=2, refresh_ps=100)
    assert [each.replica for each in run(stale).requests] == [0, 0, 0]
    assert [each.replica for each in run(replace(stale, refresh_ps=0)).requests] == [0, 1, 0]


def test_a_failure_ends_what_runs_and_what_waits_at_once() -> None:
    given = problem(
        [0, 1, 30], [5] * 3, [5] * 3, sequences=1, events=[(20, 0, EventKind.FAIL), (25, 0, EventKind.REPAIR)]
    )
    found = run(given)
    assert [(each.state, each.finish_ps) for each in found.requests[:2]] == [(k.FAILED, 20), (k.FAILED, 20)]
    assert found.requests[2].state == k.SUCCESS
    assert found.replicas[0].busy_ps == [15 + 15, 5 + 4 * 11, 0]
    assert found.replicas[0].on_ps == 20 + (found.now_ps - 25)


def test_overlapping_failures_keep_a_replica_down_until_the_last_is_repaired() -> None:
    events = [(1, 0, EventKind.FAIL), (2, 0, EventKind.FAIL), (3, 0, EventKind.REPAIR), (9, 0, EventKind.REPAIR)]
    found = run(problem([5, 10], [5, 5], [1, 1], events=events))
    assert [each.state for each in found.requests] == [k.FAILED, k.SUCCESS]


def test_a_draining_replica_finishes_what_it_has_and_takes_nothing_new() -> None:
    found = run(problem([0, 6], [5, 5], [2, 1], replicas=2, events=[(3, 0, EventKind.DRAIN)]))
    assert [each.replica for each in found.requests] == [0, 1]
    assert (found.replicas[0].state, found.replicas[0].on_ps) == (k.OFF, 26)


def test_a_replica_that_becomes_ready_later_serves_from_then_on() -> None:
    ready = np.array([0], np.int8)
    found = run(problem([0, 6], [5, 5], [1, 1], ready=ready, events=[(5, 0, EventKind.READY)]))
    assert [each.state for each in found.requests] == [k.FAILED, k.SUCCESS]


def test_the_rule_asks_for_replicas_and_they_come_after_the_delay() -> None:
    control = ControlTerms(
        kind=ControlKind.RULE, period_ps=10, ready_delay_ps=7, target_milli=1000, least_replicas=1, most_replicas=2
    )
    ready = np.array([1, 0], np.int8)
    found = run(problem([0, 1, 16, 18], [5] * 4, [9] * 4, replicas=2, ready=ready, control=control))
    assert [each.replica for each in found.requests] == [0, 0, 0, 1]
    assert found.controls[0] == (10, 2, 1, 1)


def test_what_is_under_way_at_the_horizon_is_unfinished() -> None:
    found = run(problem([0, 90], [5, 5], [3, 3], until_ps=20))
    assert [each.state for each in found.requests] == [k.UNFINISHED, k.UNSEEN]
    assert found.replicas[0].busy_ps == [15, 5, 0]
