"""The prefix cache: examples worked by hand on the literal reference, laws of caches and routers on the kernel.

Blocks hold four tokens. As in test_reference.py a step of n decodes takes 10 + n units and a prefill token one more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.equality import check_equal
from support.examples import problem, run, times
from support.reference import COLUMNS
from support.shared_data import ABSENT, find_shared_data
from ullage.errors import InputError
from ullage.simulate import Engine, Fleet, OpenLoop, Prefixes, Requests, RouterGuard, StepTable, simulate
from ullage.simulate.prefixes import homes, prefix_terms
from ullage.simulate.problem import EventKind, GuardTerms, PrefixTerms, Problem, RouterArrays

SHARED = find_shared_data()


def terms(prompts: list[int], outputs: list[int], parent: list[int], shared: list[int], **more: Any) -> PrefixTerms:
    given = Requests(
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
        prefixes=Prefixes(parent=np.array(parent), shared_tokens=np.array(shared), **more),
    )
    return prefix_terms(given, block_tokens=4, replicas=1, seed=0)


def cached(
    arrivals: list[int], prompts: list[int], outputs: list[int], parent: list[int], shared: list[int], **more: Any
) -> Problem:
    kept = {name: more.pop(name) for name in ("history_tokens", "keeps_answers") if name in more}
    made = problem(
        arrivals,
        prompts,
        outputs,
        block_shift=2,
        prefixes=terms(prompts, outputs, parent, shared, **kept),
        **more,
    )
    assert not check_equal(made), "the kernel does the same"
    return made


def hits(given: Problem) -> list[int]:
    return [each.cached for each in run(given).requests]


def test_a_prompt_that_begins_like_an_earlier_one_computes_the_rest() -> None:
    # The second has 10 tokens, 8 of them the first one's: a step of 10 + 2.
    assert times(cached([0, 100], [8, 10], [1, 1], [-1, 0], [0, 8])) == [(18, 18), (112, 112)]


def test_hits_are_whole_blocks_and_the_last_token_is_computed() -> None:
    assert hits(cached([0, 100], [10, 10], [1, 1], [-1, 0], [0, 7])) == [0, 4]
    assert hits(cached([0, 100], [8, 8], [1, 1], [-1, 0], [0, 8])) == [0, 4], "the block of the last token is not a hit"


def test_a_turn_finds_the_answer_before_it_unless_answers_are_dropped() -> None:
    # 8 tokens asked and 5 answered, of which 4 were fed back: three blocks.
    turns: dict[str, Any] = {"prompts": [8, 20], "outputs": [5, 1], "parent": [-1, 0], "shared": [0, 13]}
    assert hits(cached([0, 900], **turns)) == [0, 12]
    assert hits(cached([0, 900], **turns, keeps_answers=False)) == [0, 8]


def test_shared_blocks_take_memory_once() -> None:
    # Four blocks. The first holds three when the second comes, which needs three and shares two of them.
    given = cached([0, 20], [8, 12], [5, 1], [-1, 0], [0, 8], blocks=4)
    found = run(given)
    assert [each.admitted_ps for each in found.requests] == [0, 29]
    assert found.replicas[0].peak_blocks == 4
    alone = run(problem([0, 20], [8, 12], [5, 1], blocks=4, block_shift=2))
    assert alone.requests[1].admitted_ps == alone.requests[0].finish_ps


def test_blocks_are_there_only_when_their_step_has_ended() -> None:
    # Both come at once and share everything; the second is admitted in the same step and computes it too.
    assert hits(cached([0, 0], [8, 9], [1, 1], [-1, 0], [0, 8])) == [0, 0]


def test_what_was_used_longest_ago_goes_first_and_from_its_end() -> None:
    # Room for six blocks. Texts of two blocks and a bit: A, B, then A again, and C, which needs a block more than is
    # free: B's last one goes. B then finds its first, and pushes out A's last; and A, in turn, C's.
    prompts = [9, 9, 9, 9, 9, 9]
    given = cached([0, 100, 200, 300, 400, 500], prompts, [1] * 6, [-1, -1, 0, -1, 1, 0], [0, 0, 8, 0, 8, 8], blocks=6)
    assert hits(given) == [0, 0, 8, 0, 4, 4]
    assert run(given).replicas[0].evicted_blocks == 3


def test_a_failed_engine_comes_back_without_its_cache() -> None:
    events = [(50, 0, EventKind.FAIL), (60, 0, EventKind.REPAIR)]
    assert hits(cached([0, 100], [8, 10], [1, 1], [-1, 0], [0, 8], events=events)) == [0, 0]


def test_history_is_there_at_the_start_as_far_as_it_fits() -> None:
    history = np.array([20, 8, 12])
    given = cached([0, 50, 99], [13, 9, 21], [1] * 3, [2, 1, 0], [12, 8, 20], history_tokens=history, blocks=6)
    assert hits(given) == [12, 8, 0], "the two latest texts fit, the oldest does not"


def test_a_prefix_aware_router_goes_where_the_prompt_is_unless_that_is_too_busy() -> None:
    more: dict[str, Any] = {"replicas": 2, "routing": RouterArrays.PREFIX_AWARE}
    # The third request is the first one's next turn, and the first's replica still has it.
    turns: dict[str, Any] = {"parent": [-1, -1, 0], "shared": [0, 0, 8]}
    free = cached([0, 1, 100], [8, 8, 10], [40, 1, 1], **turns, **more)
    assert [each.replica for each in run(free).requests] == [0, 1, 0]
    guarded = cached([0, 1, 100], [8, 8, 10], [40, 1, 1], **turns, **more, guard=GuardTerms(requests=0, milli=0))
    assert [each.replica for each in run(guarded).requests] == [0, 1, 1]
    picky = cached([0, 1, 100], [8, 8, 40], [40, 1, 1], **turns, **more, guard=GuardTerms(match_milli=300))
    assert [each.replica for each in run(picky).requests] == [0, 1, 1], "two blocks of ten are less than three tenths"


def test_conservation_counts_hits_once() -> None:
    found = run(cached([0, 100, 200], [8, 10, 12], [1, 2, 3], [-1, 0, 1], [0, 8, 10]))
    counters = found.counters.sum(axis=(0, 1))
    computed = found.replicas[0].prefill_tokens + found.replicas[0].decode_tokens
    assert computed == 30 + 6 - 3 - counters[COLUMNS["cached_done_tokens"]]


def test_a_sticky_router_tells_sessions_from_a_common_beginning() -> None:
    # Both begin with 100 tokens of instructions; the third goes on where the second left off.
    given = Requests(
        prompt_tokens=np.array([300, 300, 500]),
        output_tokens=np.array([1, 1, 1]),
        prefixes=Prefixes(parent=np.array([-1, 0, 1]), shared_tokens=np.array([0, 100, 300])),
    )
    first, second, third = homes(given).tolist()
    assert (first != second, second == third) == (True, True)
    with pytest.raises(InputError, match="session"):
        homes(Requests(prompt_tokens=np.array([3]), output_tokens=np.array([1])))


# ---- laws on the kernel -----------------------------------------------------------------------------------------


def sessions(*, turns: int = 6, users: int = 60, seed: int = 3) -> OpenLoop:
    """Users who each say something every 20 s or so, every prompt containing all that was said before."""
    rng = np.random.default_rng(seed)
    at_s = np.cumsum(rng.exponential(20.0, (users, turns)), axis=1) + rng.random((users, 1)) * 20.0
    said = rng.integers(100, 600, (users, turns))
    output = rng.integers(50, 250, (users, turns))
    prompt = np.cumsum(said + np.concatenate([np.zeros((users, 1), int), output[:, :-1]], axis=1), axis=1)
    order = np.argsort(at_s.ravel(), kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    before = np.concatenate([np.full((users, 1), -1), place.reshape(users, turns)[:, :-1]], axis=1)
    shared = np.concatenate([np.zeros((users, 1), int), (prompt + output)[:, :-1]], axis=1)
    return OpenLoop(
        requests=Requests(
            prompt_tokens=prompt.ravel()[order],
            output_tokens=output.ravel()[order],
            prefixes=Prefixes(parent=before.ravel()[order], shared_tokens=shared.ravel()[order]),
        ),
        arrival_s=at_s.ravel()[order],
    )


def hit_fraction(load: OpenLoop, routing: str, *, kv_blocks: int = 3000, refresh_s: float = 0.0) -> float:
    step = StepTable.affine(step_s=0.008, sequence_s=5e-5, kv_token_s=2e-8, prefill_token_s=3e-5, max_sequences=64)
    engine = Engine(step=step, kv_blocks=kv_blocks, max_sequences=64, budget_tokens=2048)
    fleet = Fleet(replicas=4, routing=routing, refresh_s=refresh_s, guard=RouterGuard(requests=8))
    total = simulate(engine, fleet, load, seed=1).total
    return total.cached_tokens / total.prompt_tokens


def test_routers_that_know_sessions_or_prefixes_lift_hits() -> None:
    load = sessions()
    blind, sticky, aware = (hit_fraction(load, each) for each in ("least_outstanding", "sticky", "prefix_aware"))
    assert blind < sticky - 0.2
    assert blind < aware - 0.2


def test_stale_knowledge_costs_hits() -> None:
    load = sessions()
    assert hit_fraction(load, "prefix_aware", refresh_s=60.0) < hit_fraction(load, "prefix_aware") - 0.05


def test_a_larger_cache_finds_more_and_one_without_end_all() -> None:
    load = sessions()
    found = [hit_fraction(load, "sticky", kv_blocks=each) for each in (400, 1000, 10_000)]
    assert found == sorted(found)
    given = load.requests.prefixes
    assert given is not None
    whole = given.shared_tokens.sum() / load.requests.prompt_tokens.sum()
    # What is lost are parts of blocks, and turns that came before the answer they go on from was complete.
    assert whole - 0.06 < found[-1] <= whole


@pytest.mark.skipif(SHARED is None, reason=ABSENT)
def test_lru_shares_of_a_published_trace() -> None:
    """One cache and one request at a time is LRU alone: Mooncake's conversations, blocks of 512 tokens."""
    from ullage.load.traffic import open_requests
    from ullage.workload.synthetic.replay import replayed

    assert SHARED is not None
    path = SHARED / "traces" / "mooncake_conversation.parquet"
    trace = open_requests((str(path),), columns={}, zone="", field="trace", problem="", fix="")
    stream = replayed(trace)
    assert stream.parent is not None
    assert stream.shared_tokens is not None
    requests = Requests(
        prompt_tokens=stream.prompt_tokens,
        output_tokens=np.ones(stream.requests, np.int32),
        prefixes=Prefixes(parent=stream.parent, shared_tokens=stream.shared_tokens, keeps_answers=False),
    )
    load = OpenLoop(requests=requests, arrival_ps=stream.arrival_ps)
    blocks = np.ceil(stream.prompt_tokens / 512).sum()
    step = StepTable.affine(step_s=1e-9, max_sequences=1)
    for size, published in ((1000, 0.045), (5000, 0.110), (10_000, 0.211), (50_000, 0.355)):
        engine = Engine(step=step, kv_blocks=size, block_tokens=512, max_sequences=1, budget_tokens=1 << 20)
        total = simulate(engine, Fleet(), load, seed=0, attribution=False).total
        assert abs(total.cached_tokens / 512 / blocks - published) < 0.01, size
