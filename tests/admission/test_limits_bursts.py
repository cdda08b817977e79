"""Retries, recovery and bursts: laws of amplification, a storm that does not end by itself, the burst budget."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from support.admission_pools import demand, limits, policy, ready, served, two_classes
from ullage.admission.bounds import Bounds, replica_bounds
from ullage.admission.bursts import HEIGHTS, LENGTHS_S, absorbers, absorbs, base_of, burst_budget
from ullage.admission.clients import Clients, clients_of, step_load
from ullage.admission.deadlines import class_deadlines
from ullage.admission.policy import AdmissionPolicy
from ullage.admission.retries import (
    BURST_RATIO,
    STEPS,
    amplification,
    protections,
    recoveries,
    recovers,
    slo_met_fraction,
    success_fraction,
)

# Clients who take back a half-written answer after 1.2 s, and ask up to five times.
HASTY = policy(attempts=5, deadline_s=1.2, first_token_timeout_s=1.2, recovery_s=60.0)


def storm_clients(given: AdmissionPolicy = HASTY) -> Clients:
    return clients_of(served(), given, replicas=4)


@functools.cache
def storm_bounds() -> Bounds:
    curve = served()
    deadlines = class_deadlines(curve, two_classes(), HASTY)
    assert isinstance(deadlines, dict)
    return replica_bounds(storm_clients(), deadlines, saturation_rps=curve.saturation_rps, overload=1.5)


# ---- retries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarded", [False, True])
def test_amplification_is_at_least_one_and_rises_with_attempts(guarded: bool) -> None:
    guard = storm_bounds().guard if guarded else None
    found = []
    for attempts in (1, 2, 3, 5):
        clients = policy(attempts=attempts, deadline_s=1.2, first_token_timeout_s=1.2)
        pool = storm_clients(clients)
        load = pool.steady(1.5 * storm_bounds().pace.throughput_rps)
        found.append(amplification(pool.run(load, guard=guard, retry=clients.retry())))
    assert found[0] == 1.0
    assert all(few < many for few, many in itertools.pairwise(found))
    assert all(ratio <= attempts for ratio, attempts in zip(found, (1, 2, 3, 5), strict=True))


def test_without_refusals_nobody_asks_twice() -> None:
    pool = storm_clients(policy())
    assert amplification(pool.run(pool.steady(2.0), retry=policy().retry())) == 1.0


def test_a_budget_bounds_the_amplification() -> None:
    found = limits()
    ratios = {each.protection: each.amplification_ratio for each in found.retries if each.load == "overload"}
    assert ratios["limits and retry budget"] <= 1.1 + 0.02
    assert ratios["limits and retry budget"] < ratios["limits"]
    assert all(each.amplification_ratio >= 1.0 for each in found.retries)


# ---- recovery ------------------------------------------------------------------------------------------------


def test_above_the_found_load_only_a_pool_with_limits_comes_back() -> None:
    """The storm itself, not the search: the burst is over for a minute, and the pool is still down, or is not."""
    pool, capacity_rps = storm_clients(), storm_bounds().pace.throughput_rps
    ways = protections(storm_bounds().guard, HASTY)
    bare, *_, limited = ways
    found, *_, with_limits = recoveries(pool, ways, capacity_rps)
    assert 0.0 < found.capacity_fraction < 1.0
    assert with_limits.capacity_fraction > found.capacity_fraction
    above_rps = found.recovers_rps + capacity_rps / STEPS
    assert recovers(pool, bare, found.recovers_rps, capacity_rps)
    assert not recovers(pool, bare, above_rps, capacity_rps)
    assert recovers(pool, limited, above_rps, capacity_rps)


def test_the_load_that_does_not_recover_is_carried_with_ease_where_no_burst_comes() -> None:
    pool, capacity_rps = storm_clients(), storm_bounds().pace.throughput_rps
    bare = protections(storm_bounds().guard, HASTY)[0]
    found = recoveries(pool, (bare,), capacity_rps)[0]
    quiet = pool.run(pool.steady(found.recovers_rps + capacity_rps / STEPS, span_s=120.0), retry=bare.retry)
    assert success_fraction(quiet) >= slo_met_fraction(two_classes(), HASTY)


def test_more_attempts_never_raise_the_load_that_recovers() -> None:
    capacity_rps = storm_bounds().pace.throughput_rps
    found = []
    for attempts in (1, 3, 5):
        clients = policy(attempts=attempts, deadline_s=1.2, first_token_timeout_s=1.2)
        ways = protections(storm_bounds().guard, clients)[:1]
        found.append(recoveries(storm_clients(clients), ways, capacity_rps)[0].recovers_rps)
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_what_slos_allow_to_miss_adds_up() -> None:
    assert slo_met_fraction(two_classes(), policy()) == pytest.approx(0.9)


# ---- bursts --------------------------------------------------------------------------------------------------


def test_a_longer_burst_is_never_higher_and_help_never_hurts() -> None:
    found = limits()
    for absorber in ("queue", "hot", "warm", "scale-up"):
        heights = [found.burst_ratio(absorber, length_s) for length_s in LENGTHS_S]
        assert heights == sorted(heights, reverse=True)
        alone = [found.burst_ratio("queue", length_s) for length_s in LENGTHS_S]
        assert all(own >= queue for own, queue in zip(heights, alone, strict=True))
        assert all(each in HEIGHTS for each in heights)


def test_what_is_absorbed_is_absorbed_and_what_is_twice_as_high_and_long_is_not() -> None:
    found, pool = limits(), clients_of(served(), policy(), replicas=8)
    planning_rps = demand().planning_rps / 8
    base = base_of(pool, planning_rps, found.capacity_rps)
    queue = absorbers(pool, ready(), replicas=8)[0]
    for length_s in (30.0, 300.0):
        height = found.burst_ratio("queue", length_s)
        assert absorbs(pool, queue, base, length_s=length_s, height=height)
        assert not absorbs(pool, queue, base, length_s=2 * length_s, height=2 * height)


@pytest.mark.slow
def test_a_pool_with_room_absorbs_more() -> None:
    tight, roomy = limits(8), limits(20)
    for length_s in LENGTHS_S:
        assert roomy.burst_ratio("queue", length_s) >= tight.burst_ratio("queue", length_s)
    assert roomy.burst_ratio("queue", 900.0) > tight.burst_ratio("queue", 900.0)


def test_a_plan_above_capacity_leaves_no_room_for_a_burst() -> None:
    pool = clients_of(served(), policy(), replicas=4)
    found = burst_budget(pool, absorbers(pool, ready(), replicas=4), planning_rps=30.0, capacity_rps=20.0)
    assert {each.height_ratio for each in found} == {0.0}
    assert any("no burst is absorbed" in note for note in limits(1).notes)


# ---- the load of the experiment --------------------------------------------------------------------------------


def test_a_step_is_the_base_and_so_much_more() -> None:
    pool = storm_clients()
    load = step_load(pool, base_rps=10.0, burst_rps=BURST_RATIO * 10.0, at_s=100.0, length_s=200.0, span_s=400.0)
    assert load.arrival_ps is not None
    arrival_s = np.asarray(load.arrival_ps) / 1e12
    assert bool((np.diff(arrival_s) >= 0).all())
    for from_s, until_s, rate_rps in ((0.0, 100.0, 40.0), (100.0, 300.0, 80.0), (300.0, 400.0, 40.0)):
        came = int(((arrival_s >= from_s) & (arrival_s < until_s)).sum())
        expected = rate_rps * (until_s - from_s)
        assert came == pytest.approx(expected, abs=5 * math.sqrt(expected))


def test_the_base_runs_at_the_planning_rate() -> None:
    """What its classes send in a second, once the run has settled, is what was planned; within five deviations."""
    pool = clients_of(served(), policy(), replicas=1)
    assert pool.span_s > 60.0
    base = base_of(pool, 4.0, 10.0)
    wanted = 4.0 * pool.replicas
    assert sum(base.class_rps.values()) == pytest.approx(wanted, abs=5.0 * math.sqrt(wanted / pool.span_s))
