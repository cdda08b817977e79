"""Sessions whose turns wait for their answers: examples worked by hand, and laws on the kernel.

Blocks hold four tokens. As in test_reference.py a step of n decodes takes 10 + n units and a prefill token one more;
a block takes three to load from host memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.equality import check_equal
from support.examples import problem, run, times
from ullage.errors import InputError
from ullage.simulate import ClosedLoop, Engine, Fleet, OpenLoop, Prefixes, Requests, StepTable, Turns, simulate
from ullage.simulate.prefixes import prefix_terms
from ullage.simulate.problem import Problem
from ullage.simulate.turns import with_turns

PS = 1e-12


def turns(
    arrivals: list[int], prompts: list[int], outputs: list[int], follows: list[int], waits: list[int], **more: Any
) -> Problem:
    between = more.pop("between", "cached")
    given = Requests(
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
        prefixes=Prefixes(parent=np.array(follows), shared_tokens=np.array(more.pop("shared", [0] * len(prompts)))),
    )
    terms = prefix_terms(given, block_tokens=4, replicas=1, seed=0)
    made = problem(arrivals, prompts, outputs, block_shift=2, prefixes=terms, **more)
    made = with_turns(made, Turns(follows=np.array(follows), think_s=np.array(waits) * PS, between=between))
    assert not check_equal(made), "the kernel does the same"
    return made


def test_a_turn_comes_a_think_time_after_the_answer_and_finds_it() -> None:
    # 18 for the prompt and 4 x 11 for the answer: 62. The next comes at 162, finds three blocks and computes 8 tokens.
    given = turns([0, 0], [8, 20], [5, 1], [-1, 0], [0, 100], shared=[0, 13])
    assert times(given) == [(18, 62), (180, 180)]


def test_a_turn_comes_whatever_became_of_the_one_before() -> None:
    given = turns([0, 0], [8, 8], [5, 1], [-1, 0], [0, 100], cancel=[20, 2**62])
    # Given up at 20, seen at the end of the step under way: 29.
    assert [each.arrival_ps for each in run(given).requests] == [0, 129]


@pytest.mark.parametrize(
    ("between", "found", "end"),
    [
        # Two texts of two blocks each come in between, on a device of five.
        ("cached", 4, 188),  # the second pushes out the answer and the prompt's end: 10 + 16 tokens
        ("kept", 12, 180),  # it pushes out the first of them instead: 10 + 8 tokens
        ("dropped", 0, 192),  # 10 + 20 tokens
        ("offloaded", 12, 189),  # 10 + 8 tokens + 3 blocks x 3
    ],
)
def test_what_becomes_of_blocks_during_a_tool_call(between: str, found: int, end: int) -> None:
    given = turns(
        [0, 70, 100, 0], [8, 8, 8, 20], [5, 1, 1, 1], [-1, -1, -1, 0], [0, 0, 0, 100],
        shared=[0, 0, 0, 13], blocks=5, between=between,
        host_blocks=10 if between == "offloaded" else 0, host_block_ps=3,
    )  # fmt: skip
    last = run(given).requests[3]
    assert (last.arrival_ps, last.cached, last.finish_ps) == (162, found, end)


def test_a_session_lets_go_where_nothing_runs_and_what_waits_does_not_fit() -> None:
    given = turns(
        [0, 70, 0], [8, 8, 20], [5, 1, 1], [-1, -1, 0], [0, 0, 100], shared=[0, 0, 13], blocks=4, between="kept"
    )
    assert times(given)[1] == (88, 88), "it does not wait for the turn that comes at 162"


def test_a_client_goes_on_with_its_session_before_it_begins_another() -> None:
    # Two sessions, the first of two turns; 100 between them, 7 after the session.
    given = turns([], [8, 8, 8], [1, 1, 1], [-1, -1, 0], [0, 0, 100], clients=[0], think=[5, 6, 7])
    assert [each.arrival_ps for each in run(given).requests] == [0, 143, 118]


def test_what_only_other_sessions_share_is_not_dropped() -> None:
    # Both sessions begin with the same block. It stays when the first drops the rest of its own.
    given = Requests(
        prompt_tokens=np.array([8, 8, 12]),
        output_tokens=np.array([1, 1, 1]),
        prefixes=Prefixes(parent=np.array([-1, 0, 0]), shared_tokens=np.array([0, 4, 8])),
    )
    terms = prefix_terms(given, block_tokens=4, replicas=1, seed=0)
    plain = problem([0, 50, 0], [8, 8, 12], [1, 1, 1], block_shift=2, prefixes=terms)
    made = with_turns(
        plain, Turns(follows=np.array([-1, -1, 0]), think_s=np.array([0, 0, 100 * PS]), between="dropped")
    )
    assert not check_equal(made)
    assert [each.cached for each in run(made).requests] == [0, 4, 4]


# ---- laws on the kernel -----------------------------------------------------------------------------------------


def agents(*, sessions: int = 40, length: int = 8, seed: int = 3, between: str = "cached") -> Requests:
    """Agents with many short turns, every prompt containing all that was said before; turns of a depth together."""
    rng = np.random.default_rng(seed)
    said, output = rng.integers(20, 120, (length, sessions)), rng.integers(10, 60, (length, sessions))
    prompt = np.cumsum(said + np.concatenate([np.zeros((1, sessions), int), output[:-1]]), axis=0)
    before = (np.arange(length * sessions) - sessions).clip(-1)
    shared = np.concatenate([np.zeros((1, sessions), int), (prompt + output)[:-1]])
    return Requests(
        prompt_tokens=prompt.ravel(),
        output_tokens=output.ravel(),
        prefixes=Prefixes(parent=before, shared_tokens=shared.ravel()),
        turns=Turns(follows=before, think_s=rng.exponential(2.0, length * sessions), between=between),
    )


def engine(*, kv_blocks: int, host_blocks: int = 0) -> Engine:
    step = StepTable.affine(step_s=0.008, sequence_s=5e-5, kv_token_s=2e-8, prefill_token_s=3e-5, max_sequences=64)
    return Engine(
        step=step, kv_blocks=kv_blocks, max_sequences=64, budget_tokens=2048, host_blocks=host_blocks, host_block_s=1e-5
    )


@pytest.mark.parametrize("closed", [False, True])
def test_every_turn_follows_its_answer_and_all_come(closed: bool) -> None:
    given = agents()
    load: OpenLoop | ClosedLoop = OpenLoop(requests=given, arrival_s=np.linspace(0.0, 20.0, given.count))
    if closed:
        load = ClosedLoop(requests=given, clients=10)
    found = simulate(engine(kv_blocks=800), Fleet(replicas=2), load, seed=1, keep_requests=True)
    assert found.total.counts.success == given.count
    assert found.requests is not None
    assert given.turns is not None
    later = np.flatnonzero(given.turns.follows >= 0)
    waited_s = found.requests.arrival_s[later] - found.requests.end_s[given.turns.follows[later]]
    assert np.allclose(waited_s, given.turns.think_s[later], atol=1e-9)
    if closed:
        assert found.mean_outstanding_requests < 10


def test_keeping_finds_at_least_what_dropping_does_and_host_memory_helps() -> None:
    hits = {}
    for between in ("cached", "kept", "offloaded", "dropped"):
        given = agents(between=between)
        load = OpenLoop(requests=given, arrival_s=np.linspace(0.0, 20.0, given.count))
        total = simulate(engine(kv_blocks=500, host_blocks=4000), Fleet(), load, seed=1).total
        hits[between] = total.cached_tokens / total.prompt_tokens
    assert hits["dropped"] == 0.0
    assert min(hits["cached"], hits["kept"], hits["offloaded"]) > 0.7


def test_turns_that_do_not_follow_are_refused() -> None:
    for follows, think in (([1, -1], [0.0, 0.0]), ([-1, 0, 0], [0.0] * 3), ([-1, 0], [0.0, -1.0])):
        with pytest.raises(InputError, match="turns"):
            Turns(follows=np.array(follows), think_s=np.array(think))
    with pytest.raises(InputError, match="between"):
        Turns(follows=np.array([-1]), think_s=np.array([0.0]), between="lost")


def test_some_of_the_requests_keep_their_order() -> None:
    given = Turns(follows=np.array([-1, 0, 1, -1]), think_s=np.array([0.0, 1.0, 2.0, 0.0]))
    part = given.part(np.array([True, False, True, True]))
    assert (part.follows.tolist(), part.think_s.tolist()) == ([-1, -1, -1], [0.0, 2.0, 0.0])
    assert given.beside(given).follows.tolist() == [-1, 0, 1, -1, -1, 4, 5, -1]
