"""The next test and the range of replicas: pure functions, tried on services whose steps are hidden from them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from support.measured_worlds import (
    HOUR,
    SOURCE,
    MeasuredWorld,
    hidden_steps,
    measured_world,
    narrowed_by,
    run_test,
    true_replicas,
    world_pool,
)
from ullage.errors import Rejection
from ullage.service.measuring.choose import ChosenTest, MeasureState, MeasureStop, Spend, choose, spent_by
from ullage.service.measuring.narrowing import PoolUnderTest, narrow, with_hits
from ullage.service.measuring.planned_test import LEAST_REQUESTS, PlannedTest, TestShape
from ullage.service.stage import calibrated_step
from ullage.service.steps.scaled import Factors
from ullage.simulate.load import PS_PER_S

RATE = "10 req/s"
NOTHING = Spend(wall_s=0.0, requests=0, tokens=0, usd=0.0)


@cache
def pool() -> PoolUnderTest:
    return world_pool(RATE)


@cache
def world(seed: int = 3) -> MeasuredWorld:
    rng = np.random.default_rng(seed)
    return measured_world(pool(), hidden_steps(pool(), rng), rng)


@cache
def begun() -> MeasureState:
    """Before any test."""
    return MeasureState(pool=pool(), done=(), narrowed=narrowed_by(pool(), ()), bound=HOUR, spent=NOTHING)


def test_low_load_is_first_and_the_choice_is_a_function_of_the_state_alone() -> None:
    found = choose(begun())
    assert isinstance(found, ChosenTest)
    assert found.test.name == "1 low"
    assert found.test.rate_rps < pool().rate_rps / begun().narrowed.replicas / 2
    assert choose(begun()) == found


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("time", replace(HOUR, wall_s=1.0)),
        ("requests", replace(HOUR, requests=LEAST_REQUESTS - 1)),
        ("tokens", replace(HOUR, tokens=1000)),
        ("money", replace(HOUR, usd=0.001)),
    ],
)
def test_every_bound_stops_a_test_that_would_exceed_it(name: str, bound: Spend) -> None:
    found = choose(replace(begun(), bound=bound))
    assert isinstance(found, MeasureStop)
    assert not found.is_decided
    assert name in found.why


def test_a_bound_that_is_spent_stops_by_its_name() -> None:
    spent = replace(NOTHING, requests=HOUR.requests)
    found = choose(replace(begun(), spent=spent))
    assert isinstance(found, MeasureStop)
    assert not found.is_decided
    assert "requests" in found.why


def test_without_a_price_money_is_no_bound() -> None:
    free = replace(pool(), replica_usd_per_hour=None)
    state = replace(begun(), pool=free, bound=replace(HOUR, usd=None), spent=replace(NOTHING, usd=None))
    found = choose(state)
    assert isinstance(found, ChosenTest)
    assert found.expected.usd is None


@pytest.mark.slow
def test_a_hidden_service_is_decided_within_one_replica_and_within_its_bounds() -> None:
    found = world()
    rng = np.random.default_rng(3)
    assert found.stop.is_decided
    true = true_replicas(pool(), hidden_steps(pool(), rng))
    assert true is not None
    assert abs(found.narrowings[-1].replicas - true) <= 1
    assert found.narrowings[-1].slow_ratio < found.narrowings[0].slow_ratio
    spent = spent_by(found.done, 8.0)
    assert spent.wall_s < HOUR.wall_s
    assert spent.requests < HOUR.requests


@pytest.mark.slow
def test_no_two_tests_of_a_measurement_send_the_same_requests() -> None:
    rng = np.random.default_rng(3)
    found = measured_world(
        pool(), hidden_steps(pool(), rng), rng, within_replicas=0, bound=replace(HOUR, wall_s=1000.0)
    )
    seeds = [each.planned.seed for each in found.done]
    assert len(seeds) == len(set(seeds)) >= 2


@pytest.mark.slow
def test_a_slower_service_needs_more_replicas_after_the_same_tests() -> None:
    quick, slow = (replace(pool(), estimate=pool().estimate) for _ in range(2))
    test = PlannedTest(name="1 knee", shape=TestShape.MIX, rate_rps=2.0, requests=120, seed=1)
    rng = np.random.default_rng(0)
    hidden = hidden_steps(pool(), rng)
    fast_done = run_test(quick, hidden, test, np.random.default_rng(1))
    points = fast_done.result.points
    later = tuple(
        replace(each, ttft_s=1.5 * (each.ttft_s or 0.0), e2e_s=1.5 * (each.e2e_s or 0.0)) for each in points[0].requests
    )
    slow_done = replace(fast_done, result=replace(fast_done.result, points=(replace(points[0], requests=later),)))
    assert narrowed_by(slow, (slow_done,)).replicas > narrowed_by(quick, (fast_done,)).replicas


def test_hits_go_to_requests_in_the_order_they_were_sent() -> None:
    test = PlannedTest(name="1 low", shape=TestShape.MIX, rate_rps=2.0, requests=60, seed=1)
    sent = pool().load_of(test)
    cached = sent.requests.cached_tokens
    assert cached is not None
    assert len(set(cached.tolist())) > 2
    done = run_test(pool(), pool().estimate, test, np.random.default_rng(0)).result
    shuffled = replace(done, points=(replace(done.points[0], requests=done.points[0].requests[::-1]),))
    found = with_hits(shuffled, sent).points[0]
    assert [each.cached_tokens for each in found.requests] == cached.tolist()[::-1]


@pytest.mark.parametrize("shape", list(TestShape))
def test_a_test_sends_as_many_requests_as_it_says_at_its_rate(shape: TestShape) -> None:
    test = PlannedTest(name="1 x", shape=shape, rate_rps=2.0, requests=300, seed=4)
    load = pool().load_of(test)
    mix = pool().load_of(replace(test, shape=TestShape.MIX))
    assert load.requests.count == 300
    assert load.arrival_ps is not None
    assert float(load.arrival_ps[-1]) / PS_PER_S == pytest.approx(150.0, rel=0.35)
    if shape is TestShape.NO_PREFIX:
        assert load.requests.cached_tokens is None
    if shape is TestShape.LONG:
        assert load.requests.prompt_tokens.mean() > 2.0 * mix.requests.prompt_tokens.mean()


def test_steps_that_no_number_of_replicas_makes_up_for_are_refused() -> None:
    hopeless = calibrated_step(pool().estimate, Factors(fixed_ratio=20.0), SOURCE)
    found = narrow(replace(pool(), estimate=hopeless), ())
    assert isinstance(found, Rejection)
    assert true_replicas(pool(), hopeless) is None
