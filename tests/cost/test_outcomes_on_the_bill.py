"""What failed and cancelled requests cost: work that brought no success is paid like any other."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from ullage.cost.attribution.usage import GroupUse
from ullage.cost.pool_run import class_uses, level_runs, month_groups
from ullage.cost.service_use import ClassUse
from ullage.load.plan import load_plan
from ullage.load.pool import CurveInputs, load_pool
from ullage.planning.planned_for import planned_for
from ullage.workload.demand.demand import Demand
from ullage.workload.demand.outcomes import ClassOutcomes

HOURS = 730.0


@pytest.fixture(scope="module")
def demand() -> Demand:
    spec = load_plan(None, as_of=datetime.date(2026, 11, 15))
    return planned_for(spec)[1]


def used(demand: Demand, outcomes: ClassOutcomes) -> ClassUse:
    """The first class over a month, whose run served 990 of 1,000 requests in time with 500 s of GPU time."""
    ended = replace(demand, classes=(replace(demand.classes[0], outcomes=outcomes),))
    run = GroupUse(
        name=ended.classes[0].name,
        requests=1000.0,
        successes=990.0,
        prompt_tokens=1e6,
        output_tokens=2e5,
        cached_tokens=0.0,
        gpu_s=500.0,
        failed_gpu_s=5.0,
    )
    spec = load_plan(None, as_of=datetime.date(2026, 11, 15))
    classes = [each.request_class for each in spec.demands]
    (found,) = class_uses([run], ended, classes, pool="pool", period_hours=HOURS)
    return found


def gpu_s_per_success(use: ClassUse) -> float:
    assert use.gpu_s is not None
    return use.gpu_s / use.successes


def test_two_fifths_that_fail_after_their_last_token_raise_the_cost_of_a_success_by_one_over_three_fifths(
    demand: Demand,
) -> None:
    plain, failed = used(demand, ClassOutcomes()), used(demand, ClassOutcomes(failed_fraction=0.4))
    assert gpu_s_per_success(failed) == pytest.approx(gpu_s_per_success(plain) / 0.6)
    assert failed.gpu_s == plain.gpu_s
    assert failed.failed_gpu_s is not None
    assert plain.gpu_s is not None
    # All but what served a success in time is failed work.
    assert failed.failed_gpu_s == pytest.approx(plain.gpu_s * (1 - 0.99 * 0.6))


def test_those_refused_before_any_work_leave_the_cost_of_a_success_unchanged(demand: Demand) -> None:
    plain, refused = used(demand, ClassOutcomes()), used(demand, ClassOutcomes(refused_fraction=0.4))
    assert gpu_s_per_success(refused) == pytest.approx(gpu_s_per_success(plain))
    assert refused.failed_gpu_s == pytest.approx(plain.failed_gpu_s)


def test_cancelled_requests_are_no_successes(demand: Demand) -> None:
    plain = used(demand, ClassOutcomes())
    cancelled = used(demand, ClassOutcomes(cancelled_fraction=0.3, refused_fraction=0.25))
    assert cancelled.successes == pytest.approx(plain.successes * (1 - 0.3 / 0.75))


@pytest.mark.slow
def test_a_part_of_very_many_replicas_stands_for_the_month_of_all_of_them() -> None:
    pool = load_pool(None, as_of=datetime.date(2026, 11, 15))
    assert isinstance(pool, CurveInputs)
    demand, trial = pool.demand, pool.bases(0).conservative
    whole, part = (
        month_groups(level_runs(demand, replace(trial, replicas=replicas), seed=1), "class", period_hours=HOURS)
        for replicas in (96, 128)
    )
    for one, other, asked in zip(whole, part, demand.classes, strict=True):
        assert one.gpu_s is not None
        assert other.requests == pytest.approx(asked.mean_rps * HOURS * 3600.0, rel=0.05)
        # The same load on a third more replicas: steps are shared by fewer.
        assert 0.9 * one.gpu_s < (other.gpu_s or 0.0) < 1.5 * one.gpu_s
