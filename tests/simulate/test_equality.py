"""The kernel against the literal reference, bit for bit, over every pair of features."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from support.equality import check_equal
from support.scenarios import FEATURES, covering_rows, host_row, pairs_of, prefix_row, scenario, turn_row
from ullage.simulate.compile import compile_problem
from ullage.simulate.engine import Engine, StepTable
from ullage.simulate.fleet import Fleet
from ullage.simulate.load import LoadClass, poisson

# Each row of the covering array with this many random problems: hundreds here, thousands in `make soak`.
PROBLEMS_PER_ROW = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 25
ROWS = range(len(covering_rows()))


def test_every_pair_of_feature_levels_occurs() -> None:
    seen = set().union(*(pairs_of(dict(row)) for row in covering_rows()))
    for a, b in itertools.combinations(FEATURES, 2):
        for x, y in itertools.product(FEATURES[a], FEATURES[b]):
            assert (a, x, b, y) in seen


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_kernel_and_reference_agree(row: int) -> None:
    features = dict(covering_rows()[row])
    for seed in range(PROBLEMS_PER_ROW):
        found = check_equal(scenario(features, 1000 * row + seed))
        assert not found, (features, 1000 * row + seed, found)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(48))
def test_they_agree_on_prefixes_that_routers_go_by(number: int) -> None:
    assert not check_equal(scenario(prefix_row(number), 9000 + number))


@pytest.mark.parametrize("number", range(24))
def test_they_agree_on_prefixes_in_host_memory(number: int) -> None:
    assert not check_equal(scenario(host_row(number), 9500 + number))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(24))
def test_they_agree_on_sessions_that_wait_for_answers(number: int) -> None:
    assert not check_equal(scenario(turn_row(number), 9700 + number))


@pytest.mark.parametrize("kv_blocks", [900, 4000])
@pytest.mark.parametrize("scheduling", ["fcfs", "priority"])
def test_they_agree_at_natural_size(kv_blocks: int, scheduling: str) -> None:
    """Milliseconds, hundreds of tokens, tens of sequences: long plans that the tiny problems do not have."""
    step = StepTable.affine(step_s=0.008, sequence_s=5e-5, kv_token_s=2e-8, prefill_token_s=3e-5, max_sequences=48)
    engine = Engine(step=step, kv_blocks=kv_blocks, max_sequences=48, budget_tokens=512, scheduling=scheduling)  # type: ignore[arg-type]
    classes = (LoadClass(name="a", ttft_timeout_s=6.0), LoadClass(name="b", priority=1, tpot_slo_s=0.01))
    load = poisson(
        rate_rps=25, requests=220, prompt_tokens=300, output_tokens=90, spread=0.8,
        rng=np.random.default_rng(kv_blocks), classes=classes,
    )  # fmt: skip
    problem = compile_problem(
        [engine], Fleet(replicas=2, routing="least_kv"), load, seed=1, until_s=None, warmup_s=1.0, sample_s=0.7,
        keep_requests=True, attribution=True, most_events=10**9,
    )  # fmt: skip
    assert not check_equal(problem)
