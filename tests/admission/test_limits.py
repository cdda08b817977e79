"""Laws of the limits: what they admit meets its SLOs, stricter is never looser, more is never less."""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import replace

import pytest

from support.admission_pools import (
    chat_deadline,
    limits,
    limits_under,
    policy,
    served,
    stated,
    two_classes,
)
from ullage.admission.bounds import Bounds, age_grid, concurrency_grid, last_passing, replica_bounds
from ullage.admission.clients import MOST_REPLICAS, Clients, clients_of, slos_met
from ullage.admission.deadlines import class_deadlines
from ullage.admission.limits import AdmissionLimits
from ullage.admission.policy import AdmissionPolicy, Tenant
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.execute.pool import thread_map


def clients(given: AdmissionPolicy | None = None, **slo_limits_s: float) -> Clients:
    return clients_of(served(**slo_limits_s), given or policy(), replicas=MOST_REPLICAS)


@functools.cache
def bounds(**slo_limits_s: float) -> Bounds:
    return bounds_under(policy(), **slo_limits_s)


def bounds_under(given: AdmissionPolicy, **slo_limits_s: float) -> Bounds:
    curve = served(**slo_limits_s)
    deadlines = class_deadlines(curve, two_classes(**slo_limits_s), given)
    assert isinstance(deadlines, dict)
    return replica_bounds(clients(given, **slo_limits_s), deadlines, saturation_rps=curve.saturation_rps, overload=1.5)


# ---- the limits do what they are for ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("ratio", [1.2, 1.5])
def test_in_overload_those_admitted_at_the_limits_meet_their_slos(seed: int, ratio: float) -> None:
    """On other seeds than those the limits were found on; without them the same load violates its SLOs."""
    found, pool = bounds(), replace(clients(), seed=seed)
    load = pool.steady(ratio * found.pace.throughput_rps)
    guarded = slos_met(pool, pool.run(load, guard=found.guard, patient=True))
    assert [each.name for each in guarded if not each.is_kept] == []
    bare = slos_met(pool, pool.run(load, patient=True))
    assert "chat ttft_p95" in [each.name for each in bare if not each.is_kept]


@pytest.mark.slow
def test_the_stage_checks_the_same_itself() -> None:
    checks = limits().checks
    assert all(each.is_kept for each in checks if each.protection == "limits")
    assert not all(each.is_kept for each in checks if each.protection == "no limits")


@pytest.mark.slow
def test_the_urgent_class_is_served_before_the_other_in_overload() -> None:
    shares = {each.class_name: each.success_fraction for each in limits().checks if each.protection == "limits"}
    assert shares["chat"] > 0.95 > shares["batch"]


def test_a_pace_that_no_queue_can_mend_is_kept_by_concurrency() -> None:
    """Sixteen sequences take 13.2 ms a step, and prefills come on top: too long for an SLO of 13.5 ms."""
    found = bounds(tpot_s=0.0135)
    assert found.guard.running_requests < 16
    assert "tpot" in found.binding
    pool = clients(tpot_s=0.0135)
    load = pool.steady(1.5 * found.pace.throughput_rps)
    assert all(each.is_kept for each in slos_met(pool, pool.run(load, guard=found.guard, patient=True)))


@pytest.mark.slow
def test_the_pool_rate_is_one_that_the_pool_carries() -> None:
    found, pool = limits(), replace(clients(), seed=5)
    assert found.capacity_rps <= found.bounds.pace.throughput_rps
    kept = slos_met(pool, pool.run(pool.steady(0.95 * found.capacity_rps), patient=True))
    assert all(each.is_kept for each in kept)


# ---- stricter is never looser ------------------------------------------------------------------------------


def test_a_stricter_deadline_never_raises_the_queue() -> None:
    found = [bounds_under(chat_deadline(each_s)) for each_s in (20.0, 3.0, 1.2, 1.0, 0.9, 0.8)]
    for loose, strict in itertools.pairwise(found):
        assert strict.waiting_requests <= loose.waiting_requests
        assert strict.ages_s["chat"] <= loose.ages_s["chat"]
        assert strict.guard.running_requests <= loose.guard.running_requests
    assert found[-1].ages_s["chat"] < found[0].ages_s["chat"]


@pytest.mark.parametrize(("loose_s", "strict_s"), [(1.0, 0.5), (0.5, 0.3)])
def test_a_stricter_slo_never_raises_the_queue(loose_s: float, strict_s: float) -> None:
    loose, strict = bounds(ttft_s=loose_s), bounds(ttft_s=strict_s)
    assert strict.waiting_requests < loose.waiting_requests
    assert all(strict.ages_s[name] < loose.ages_s[name] for name in loose.ages_s)


@pytest.mark.slow
def test_a_stricter_pace_never_raises_the_concurrency() -> None:
    found = [bounds(tpot_s=each_s).guard.running_requests for each_s in (0.05, 0.0145, 0.014, 0.0135)]
    assert found == sorted(found, reverse=True)


@pytest.mark.slow
def test_more_replicas_never_lower_the_limits_of_the_pool() -> None:
    found = [limits(replicas) for replicas in (1, 2, 3, 8, 20)]
    for few, many in itertools.pairwise(found):
        for name in ("limit.pool_concurrency", "limit.pool_queue_requests", "limit.pool_rate_rps"):
            assert float(many.figures[name].value) >= float(few.figures[name].value)
        for rare, often in zip(few.rates, many.rates, strict=True):
            assert often.rate_rps >= rare.rate_rps


# ---- shares ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 8])
def test_classes_share_the_engine_time_of_the_pool(replicas: int) -> None:
    """A pool that is too small for the plan gives to the urgent first; either way the shares are the capacity."""
    found = limits(replicas)
    planned = sum(each.planning_rps * each.busy_s for each in found.rates)
    capacity = found.pool_rate_rps / sum(each.planning_rps for each in found.rates) * planned
    assert sum(each.rate_rps * each.busy_s for each in found.rates) == pytest.approx(capacity)
    chat, batch = found.rates
    if capacity < planned:
        assert chat.rate_rps / chat.planning_rps > batch.rate_rps / batch.planning_rps
    assert batch.shed_from_ratio < chat.shed_from_ratio == batch.shed_wholly_ratio


@pytest.mark.slow
def test_tenants_share_the_pool_by_weight_and_none_above_its_own_limit() -> None:
    def tenant(name: str, share: float, weight: float, most: float) -> Tenant:
        return Tenant(name=name, share=stated("s", share), weight=stated("w", weight), most=stated("m", most))

    three = (tenant("a", 0.5, 2.0, 1.0), tenant("b", 0.3, 1.0, 1.0), tenant("c", 0.2, 1.0, 0.1))
    found = limits_under(policy(tenants=three))
    assert isinstance(found, AdmissionLimits)
    a, b, c = found.tenants
    assert a.rate_rps + b.rate_rps + c.rate_rps == pytest.approx(found.pool_rate_rps)
    assert c.rate_rps == pytest.approx(0.1 * found.pool_rate_rps)
    assert a.rate_rps == pytest.approx(2 * b.rate_rps)
    assert a.granted_rps == pytest.approx(a.wanted_rps)
    assert any("tenant" in each.what for each in found.shed)


def test_what_is_lost_already_is_shed_first_and_the_urgent_last() -> None:
    steps = limits().shed
    assert [each.rank for each in steps] == list(range(1, len(steps) + 1))
    assert "deadline" in steps[0].what
    assert "batch" in steps[-2].what
    assert "chat" in steps[-1].what


# ---- deadlines -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_deadline_shorter_than_prefill_is_refused_with_one_that_is_not() -> None:
    def under(deadline_s: float) -> AdmissionLimits | Rejection:
        return limits_under(chat_deadline(deadline_s))

    refused = under(0.005)
    assert isinstance(refused, Rejection)
    assert refused.stage == "admission limits"
    assert "prefill of" in refused.reason
    assert "prefill and decode" in under(0.1).reason  # type: ignore[union-attr]
    nearest = float(refused.remedies[0].change.split()[3])
    assert nearest > float(refused.figure.value)
    assert isinstance(under(1.01 * nearest), AdmissionLimits)


def test_less_must_be_left_at_every_later_hop() -> None:
    hops = [each for each in limits().hops if each.class_name == "chat"]
    gateway, engine, decode, retry = (each.least_remaining_s for each in hops)
    assert gateway >= engine > decode > 0.0
    assert retry > engine
    assert engine == pytest.approx(limits().deadlines["chat"].floor_s)


# ---- the value itself ----------------------------------------------------------------------------------------


def test_every_figure_walks_back_to_sources() -> None:
    for name, figure in limits().figures.items():
        assert figure.name == name
        leaves = [each for _, each in walk(figure) if not isinstance(each, Figure)]
        assert any(isinstance(each, Source) for each in leaves)
        assert all(isinstance(each, Assumption | Source) for each in leaves)


@pytest.mark.slow
def test_the_answer_is_the_same_on_one_core_and_on_several() -> None:
    with thread_map(workers=3) as spread:
        found = limits_under(policy(), map=spread)
    assert isinstance(found, AdmissionLimits)
    assert found.figures == limits().figures
    assert found.notes == limits().notes


def test_backpressure_comes_before_refusal() -> None:
    signal = limits().backpressure
    assert signal.metric == "vllm:num_requests_waiting"
    assert 1 <= signal.warn_requests <= signal.refuse_requests == limits().waiting_requests
    assert signal.retry_after_s >= 1


def test_no_replicas_are_an_error() -> None:
    with pytest.raises(InputError, match="replicas = 0"):
        limits_under(policy(), replicas=0)


# ---- searches ------------------------------------------------------------------------------------------------


def test_a_bisection_finds_every_border() -> None:
    for count in range(1, 12):
        for border in range(count + 1):
            for try_last in (True, False):
                assert last_passing(count, functools.partial(operator.gt, border), try_last=try_last) == border - 1


def test_grids_rise_and_end_at_their_cap() -> None:
    for most in (1, 2, 5, 16, 1000):
        grid = concurrency_grid(most)
        assert grid[-1] == most
        assert list(grid) == sorted(set(grid))
    for cap_s in (0.0005, 0.001, 0.3, 60.0):
        ages = age_grid(cap_s)
        assert ages[-1] == cap_s
        assert list(ages) == sorted(set(ages))


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("attempts", 0, "Give 2 or 3"),
        ("overload", 1.0, "Give a ratio above 1"),
        ("overload", 11.0, "Give a ratio above 1"),
        ("recovery", 0.5, "until an operator would intervene"),
        ("slo_window", 59.0, "Give a window"),
        ("retry_budget", 1.1, "Give a share"),
        ("backpressure", -0.1, "Give a share of the queue"),
    ],
)
def test_a_policy_beyond_what_is_possible_is_refused(name: str, value: float, fix: str) -> None:
    sound = AdmissionPolicy()
    with pytest.raises(InputError, match=fix):
        replace(sound, **{name: replace(getattr(sound, name), value=value, low=None, high=None)})
