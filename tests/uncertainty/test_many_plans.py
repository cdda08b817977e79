"""The study of plans of every shape: several pools and routes, one replica, a log's classes."""

from __future__ import annotations

import pytest

from support.key_probes import BASES
from support.planned import ONE_REPLICA, TWO_POOLS, planned
from ullage.evidence import number
from ullage.planning.answer.bridge import replica_steps
from ullage.uncertainty.study import Study


@pytest.mark.slow
@pytest.mark.parametrize("text", [BASES["routed"], TWO_POOLS, ONE_REPLICA], ids=["routed", "two pools", "one replica"])
def test_a_plan_of_any_shape_is_studied(text: str) -> None:
    found = planned(text)
    shortfalls = [each for each in found.figures if each.name.endswith("risk.shortfall_fraction")]
    assert len(shortfalls) == len(found.pools)
    assert all(0.0 <= float(each.value) <= 1.0 for each in shortfalls)


@pytest.mark.slow
@pytest.mark.parametrize("text", [None, TWO_POOLS, ONE_REPLICA], ids=["built-in", "two pools", "one replica"])
def test_plan_and_study_divide_the_steady_fleet_alike(text: str | None) -> None:
    """The fleet of the chosen risk begins with the lines of the plan's bridge, and sums to what is read off."""
    plan = planned(text)
    (found,) = (each.answer for each in plan.stages if isinstance(each.answer, Study))
    for pool in plan.pools:
        lines = found.pool(pool.spec.name).lines
        steps, _, _ = replica_steps(plan, pool, None)
        steady = {each.name: number(each.amount) for each in steps if each.name in lines}
        assert [*lines][: len(steady)] == [*steady]
        assert {name: lines[name] for name in steady} == steady
        assert sum(steady.values()) == pool.steady_fleet.replicas
        assert sum(lines.values()) == found.pool(pool.spec.name).chosen_replicas
        assert min(each for name, each in lines.items() if name in ("failures", "rollouts and maintenance")) >= 0
