"""The same bytes for any number of workers."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.execute import thread_map
from ullage.execute.pool import available_cores
from ullage.simulate import Engine, Fleet, StepTable, poisson, simulate
from ullage.simulate.statistics import replication_seeds


def experiment(seed: int) -> bytes:
    load = poisson(
        rate_rps=6, requests=2000, prompt_tokens=300, output_tokens=60, spread=0.5, rng=np.random.default_rng(seed)
    )
    engine = Engine(step=StepTable.affine(step_s=0.01, prefill_token_s=4e-5), kv_blocks=2000)
    return pickle.dumps(simulate(engine, Fleet(replicas=2, routing="power_of_two"), load, seed=seed))


def square(seed: int) -> int:
    return seed * seed


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_give_the_bytes_of_a_plain_map(workers: int) -> None:
    seeds = replication_seeds(4, 6)
    alone = [experiment(seed) for seed in seeds]
    with thread_map(workers=workers) as spread:
        assert list(spread(experiment, seeds)) == alone
    assert len(set(alone)) == 6


def test_results_come_in_the_order_of_the_inputs() -> None:
    with thread_map(workers=4) as spread:
        assert list(spread(square, range(50))) == [each * each for each in range(50)]


def test_a_pool_without_workers_is_refused() -> None:
    with pytest.raises(InputError, match="workers = 0"), thread_map(workers=0):
        pass


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot hold a process to a core")
def test_a_process_that_is_held_to_one_core_takes_one_worker() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert available_cores() == len(allowed)
