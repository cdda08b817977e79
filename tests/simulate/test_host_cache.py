"""The prefix cache's tier in host memory: examples worked by hand, and laws of two tiers.

Blocks hold four tokens. As in test_reference.py a step of n decodes takes 10 + n units and a prefill token one more;
a block takes three to load.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.equality import check_equal
from support.examples import problem, run, times
from ullage.errors import InputError
from ullage.simulate import Engine, Fleet, OpenLoop, Outcome, Prefixes, Requests, StepTable, simulate
from ullage.simulate.prefixes import prefix_terms
from ullage.simulate.problem import EventKind, Problem


def tiered(arrivals: list[int], prompts: list[int], parent: list[int], shared: list[int], **more: Any) -> Problem:
    outputs = [1] * len(prompts)
    given = Requests(
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
        prefixes=Prefixes(
            parent=np.array(parent), shared_tokens=np.array(shared), history_tokens=more.pop("history_tokens", None)
        ),
    )
    terms = prefix_terms(given, block_tokens=4, replicas=1, seed=0)
    more = {"host_blocks": 10, "host_block_ps": 3} | more
    made = problem(arrivals, prompts, outputs, block_shift=2, prefixes=terms, **more)
    assert not check_equal(made), "the kernel does the same"
    return made


def hits(given: Problem) -> list[int]:
    return [each.cached for each in run(given).requests]


def test_what_the_device_lets_go_of_is_loaded_and_not_computed() -> None:
    # Three blocks on the device. A text of nine tokens takes all of them, so the second pushes two of the first out.
    turns: dict[str, Any] = {"prompts": [9, 9, 9], "parent": [-1, -1, 0], "shared": [0, 0, 8], "blocks": 3}
    given = tiered([0, 100, 200], **turns)
    assert hits(given) == [0, 0, 8]
    # 10 + 1 token + 2 blocks x 3; without the tier all nine tokens are computed again.
    assert times(given)[-1] == (217, 217)
    assert times(tiered([0, 100, 200], **turns, host_blocks=0))[-1] == (219, 219)
    (replica,) = run(given).replicas
    assert (replica.evicted_blocks, replica.loaded_blocks, len(replica.host)) == (4, 2, 2)


def test_loads_of_one_step_come_one_after_the_other() -> None:
    # Six blocks. Two texts of two blocks and a bit; a third of five and a bit pushes both out; then both come at once.
    given = tiered([0, 100, 200, 300, 300], [9, 9, 21, 9, 9], [-1, -1, -1, 0, 1], [0, 0, 0, 8, 8], blocks=6)
    assert hits(given) == [0, 0, 0, 8, 8]
    # 10 + 2 tokens + 4 blocks x 3.
    assert times(given)[3:] == [(324, 324), (324, 324)]


def test_a_full_host_lets_the_oldest_go_and_a_prompts_end_is_older_than_its_beginning() -> None:
    turns: dict[str, Any] = {"prompts": [9, 9, 9], "parent": [-1, -1, 0], "shared": [0, 0, 8], "blocks": 3}
    assert hits(tiered([0, 100, 200], **turns, host_blocks=1)) == [0, 0, 4]


def test_the_block_of_the_last_token_is_computed_and_not_loaded() -> None:
    given = tiered([0, 100, 200], [8, 8, 8], [-1, -1, 0], [0, 0, 8], blocks=2)
    # 10 + 4 tokens + 1 block x 3.
    assert (hits(given), times(given)[-1]) == ([0, 0, 4], (217, 217))
    assert run(given).replicas[0].dropped_blocks == 1


def test_an_engine_that_fails_loses_both_tiers() -> None:
    events = [(150, 0, EventKind.FAIL), (160, 0, EventKind.REPAIR)]
    turns: dict[str, Any] = {"prompts": [9, 9, 9], "parent": [-1, -1, 0], "shared": [0, 0, 8], "blocks": 3}
    assert hits(tiered([0, 100, 200], **turns, events=events)) == [0, 0, 0]


def test_history_that_the_device_does_not_hold_is_in_host_memory() -> None:
    more: dict[str, Any] = {"history_tokens": np.array([20, 8, 12]), "blocks": 6}
    late: dict[str, Any] = {"prompts": [13, 9, 21], "parent": [2, 1, 0], "shared": [12, 8, 20]}
    assert hits(tiered([0, 50, 99], **late, **more, host_blocks=0)) == [12, 8, 0]
    assert hits(tiered([0, 50, 99], **late, **more)) == [12, 8, 20]


# ---- laws on the kernel -----------------------------------------------------------------------------------------


def texts(seed: int, *, apart_s: float = 1.0) -> OpenLoop:
    """Prompts that begin like earlier ones, near or far back."""
    rng = np.random.default_rng([seed, 3])
    prompt = rng.integers(1, 160, 240)
    parent = np.maximum(-1, np.arange(240) - 1 - rng.geometric(0.05, 240))
    output = rng.integers(1, 40, 240)
    shared = np.where(parent >= 0, np.minimum((prompt + output)[parent], prompt) * rng.choice([0.3, 1.0], 240), 0)
    return OpenLoop(
        requests=Requests(
            prompt_tokens=prompt,
            output_tokens=output,
            prefixes=Prefixes(parent=parent, shared_tokens=shared.astype(np.int64)),
        ),
        arrival_s=np.arange(240) * apart_s,
    )


def served(load: OpenLoop, *, kv_blocks: int, host_blocks: int, host_block_s: float = 0.0, at_once: int = 1) -> Outcome:
    step = StepTable.affine(step_s=1e-3, prefill_token_s=1e-5, max_sequences=at_once)
    engine = Engine(
        step=step, kv_blocks=kv_blocks, block_tokens=4, max_sequences=at_once, budget_tokens=1024,
        host_blocks=host_blocks, host_block_s=host_block_s,
    )  # fmt: skip
    return simulate(engine, Fleet(), load, seed=1)


@pytest.mark.parametrize("seed", range(6))
def test_two_tiers_find_what_one_of_their_size_would(seed: int) -> None:
    """One request at a time: least recently used over device and host is least recently used over both."""
    load = texts(seed)
    alone = served(load, kv_blocks=60, host_blocks=0).total.cached_tokens
    for host_blocks in (20, 100, 700):
        both = served(load, kv_blocks=60, host_blocks=host_blocks).total.cached_tokens
        assert both == served(load, kv_blocks=60 + host_blocks, host_blocks=0).total.cached_tokens
        assert both >= alone


@pytest.mark.parametrize("seed", range(6))
def test_a_host_tier_never_finds_less_and_one_that_loads_at_once_is_never_slower(seed: int) -> None:
    """Also where requests share steps and memory."""
    load = texts(seed, apart_s=0.02)
    alone, both = (served(load, kv_blocks=90, host_blocks=each, at_once=8) for each in (0, 400))
    assert alone.total.cached_tokens < both.total.cached_tokens
    assert both.total.ttft.mean_s <= alone.total.ttft.mean_s
    assert sum(each.loaded_blocks for each in both.replicas) > 0


def test_a_slow_link_costs_what_it_loads() -> None:
    load = texts(1)
    quick, slow = (served(load, kv_blocks=60, host_blocks=400, host_block_s=each) for each in (0.0, 1e-4))
    (loaded,) = {each.replicas[0].loaded_blocks for each in (quick, slow)}
    assert slow.replicas[0].busy_s - quick.replicas[0].busy_s == pytest.approx(1e-4 * loaded)


def test_a_tier_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="host_blocks"):
        Engine(step=StepTable.affine(step_s=1.0), kv_blocks=1, host_blocks=-1)
