"""A first look is near what is decided, obeys the same laws, and refuses what the plan refuses."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ullage.errors import Rejection
from ullage.load.changes import parse_changes
from ullage.load.plan import load_plan
from ullage.planning.estimate import PlanEstimate, estimate_plan
from ullage.service.curve.quick import quick_size
from ullage.service.trial.search import least_replicas

DAY = datetime.date(2026, 11, 15)


def look(traffic: str | None = None, **changes: Any) -> PlanEstimate | Rejection:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return estimate_plan(load_plan(None, as_of=DAY, changes=parse_changes(named, traffic)), as_of=DAY, seed=0)


def looked(traffic: str | None = None, **changes: Any) -> PlanEstimate:
    found = look(traffic, **changes)
    assert isinstance(found, PlanEstimate)
    return found


@pytest.mark.slow
def test_more_traffic_takes_more_and_the_same_question_has_one_answer() -> None:
    sizes = [looked(each).pools[0] for each in ("x0.3", "x1", "x3")]
    replicas = [each.steady_replicas for each in sizes]
    assert replicas == sorted(replicas)
    assert replicas[2] > 2 * replicas[0]
    assert looked("x1") == looked("x1")


def test_the_parts_are_those_of_the_whole() -> None:
    found = looked()
    pool = found.pools[0]
    assert pool.total_replicas == pool.steady_replicas + pool.reserve_replicas == found.total_replicas
    assert pool.low_replicas <= pool.steady_replicas <= pool.high_replicas
    assert found.usd is not None
    assert pool.low_usd is not None
    assert pool.high_usd is not None
    assert pool.low_usd <= found.usd <= pool.high_usd
    assert pool.devices >= 2 * pool.total_replicas
    assert not found.pending


def test_a_stricter_slo_never_takes_less() -> None:
    loose, strict = (looked(workload__classes__chat__slo__ttft_p95=each).pools[0] for each in ("4s", "600ms"))
    assert strict.steady_replicas > loose.steady_replicas
    assert strict.binding == "chat ttft_p95"


def test_what_does_not_fit_is_refused_as_the_plan_refuses_it() -> None:
    found = look(pool__tensor_parallel=1, pool__device="l4")
    assert isinstance(found, Rejection)
    assert found.stage == "memory"


def test_a_trickle_takes_one_replica() -> None:
    assert looked("x0.002").pools[0].steady_replicas == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"workload__classes__chat__slo__ttft_p95": "500ms"}, {"pool__device": "h200-sxm"}],
)
def test_the_decided_size_lies_between_the_two_numbers(changes: dict[str, Any]) -> None:
    from ullage.load.pool import load_pool

    named = {key.replace("__", "."): value for key, value in changes.items()}
    pool = load_pool(None, as_of=DAY, changes=parse_changes(named))
    assert not isinstance(pool, Rejection)
    bases, rate_rps = pool.bases(0), pool.demand.planning_rps
    found = quick_size(bases, rate_rps=rate_rps, seed=0)
    decided = least_replicas(bases.conservative, rate_rps, bases.conservative_probe, seed=0)
    assert found.low_replicas <= decided.replicas <= found.high_replicas
