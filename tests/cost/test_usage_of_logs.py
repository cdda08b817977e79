"""A request log as usage: whose requests they are, what they held and for how long, and what was left out."""

from __future__ import annotations

import numpy as np
import pytest

from support.traces import make_trace
from support.usage_logs import usage_log
from ullage.cost.attribution.usage import grouped, usage_of_trace


def test_a_log_is_divided_by_whose_it_is() -> None:
    """Five requests of two tenants; one has no length and one no end, and both are counted as left out."""
    found = usage_of_trace(
        make_trace(
            arrival_s=[0.0, 1.0, 2.0, 3.0, 4.0],
            duration_s=[2.0, 4.0, 1.0, None, 3.0],
            ttft_s=[0.5, 1.0, 0.25, 0.5, 1.0],
            prompt_tokens=[100, 200, None, 400, 500],
            output_tokens=[10, 20, 30, 40, 50],
            cached_tokens=[0, 50, 0, 0, 100],
            status=["ok", "failed", "ok", "ok", "ok"],
            tenant=["acme", "globex", "acme", "acme", "globex"],
        )
    )
    assert found.dropped == {"without prompt or output length": 1, "without an end time": 1}
    assert found.requests == 3
    assert found.prompt_tokens.tolist() == [100, 200, 500]
    assert found.successes.tolist() == [True, False, True]
    assert found.start_s is not None
    assert found.end_s is not None
    assert found.first_token_s is not None
    assert found.start_s.tolist() == [0.0, 1.0, 4.0]
    assert found.end_s.tolist() == [2.0, 5.0, 7.0]
    assert found.first_token_s.tolist() == [0.5, 2.0, 5.0]
    groups = {each.name: each for each in grouped(found, "tenant", rng=np.random.default_rng(0))}
    assert {name: each.requests for name, each in groups.items()} == {"acme": 1, "globex": 2}
    assert {name: each.successes for name, each in groups.items()} == {"acme": 1, "globex": 1}
    assert {name: each.output_tokens for name, each in groups.items()} == {"acme": 10, "globex": 70}
    assert {name: each.cached_tokens for name, each in groups.items()} == {"acme": 0, "globex": 150}
    # The prompt is held throughout, an answer of n tokens for half of the time in which it is written.
    held = {"acme": 100 * 2 + 10 * 1.5 / 2, "globex": 200 * 4 + 20 * 3 / 2 + 500 * 3 + 50 * 2 / 2}
    assert {name: each.kv_token_s for name, each in groups.items()} == pytest.approx(held)


def test_without_times_there_are_lengths() -> None:
    found = usage_of_trace(
        make_trace(arrival_s=[0.0, 1.0], prompt_tokens=[100, 200], output_tokens=[10, 20], tenant=["acme", "globex"])
    )
    assert (found.start_s, found.end_s, found.first_token_s, found.held_kv_token_s) == (None, None, None, None)
    assert found.dropped == {}
    assert found.successes.all()


def test_a_part_of_a_log_keeps_whose_it_is() -> None:
    log = usage_log([(0, 0.0, 10.0, 100, 10, True), (1, 1.0, 10.0, 200, 20, False), (2, 2.0, 10.0, 300, 30, True)])
    part = log.where(np.array([False, True, True]))
    assert part.requests == 2
    assert part.labels["tenant"].places.tolist() == [1, 2]
    assert part.prompt_tokens.tolist() == [200, 300]
    assert part.successes.tolist() == [False, True]
    assert part.start_s is not None
    assert part.start_s.tolist() == [1.0, 2.0]
