"""A fleet by its causes: Shapley's division against closed forms, and both ways sum to what is bought."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from support.planned import planned
from ullage.evidence import number
from ullage.fleet.reserves import ReservePolicy, bought_together
from ullage.fleet.risk.planning_point import NeedSpread
from ullage.fleet.risk.spread import lognormal
from ullage.fleet.risk.surface import OUTPUTS, PROMPTS, STEPS
from ullage.fleet.shapley import shapley_parts
from ullage.planning.answer.bridge import DEMAND, LENGTHS, UNTESTED
from ullage.planning.reserve_parts import fleet_parts, uncertain_shares


def test_of_reserves_that_overlap_each_has_its_part_of_the_largest() -> None:
    sizes = {"failure": 3, "rollout": 2, "maintenance": 5}
    found = shapley_parts(
        list(sizes),
        lambda known: bought_together({name: sizes[name] for name in sizes if name in known}, ReservePolicy()),
    )
    # The runway game: both share what the smaller needs, the larger alone what is beyond it.
    assert found == pytest.approx({"failure": 3.0, "rollout": 1.0, "maintenance": 4.0})


def test_causes_that_are_alike_have_equal_parts_and_one_that_is_sure_has_none() -> None:
    worth = {"a": 4.0, "b": 4.0, "sure": 0.0}
    found = shapley_parts(list(worth), lambda known: math.sqrt(sum(worth[each] for each in known)))
    assert found["a"] == pytest.approx(found["b"])
    assert found["sure"] == pytest.approx(0.0)
    assert sum(found.values()) == pytest.approx(math.sqrt(8.0))


def test_shares_of_the_steady_fleet_sum_to_it_and_follow_the_deviations() -> None:
    spread = NeedSpread(
        demand_deviation_fraction=0.2, slow={STEPS: lognormal(0.25), PROMPTS: lognormal(0.02)}, rests=()
    )
    found = uncertain_shares(spread, 0.05, 12.0)
    assert sum(found.values()) == pytest.approx(12.0)
    assert found[UNTESTED] > found[DEMAND] > found[LENGTHS] > 0.0
    alone = uncertain_shares(
        NeedSpread(demand_deviation_fraction=0.2, slow={OUTPUTS: lognormal(0.0)}, rests=()), 0.05, 3.0
    )
    assert alone == pytest.approx({DEMAND: 3.0, UNTESTED: 0.0, LENGTHS: 0.0}, abs=1e-9)


def test_two_demands_of_one_kind_share_as_lognormals_do() -> None:
    """With steps of the same deviation as demand in need, both have half."""
    score = NormalDist().inv_cdf(0.95)
    spread = NeedSpread(demand_deviation_fraction=0.1, slow={}, rests=())
    assert uncertain_shares(spread, 0.05, math.exp(0.1 * score) - 1.0)[DEMAND] == pytest.approx(
        math.exp(0.1 * score) - 1
    )


def test_both_ways_sum_to_what_is_bought_and_stacked_margins_buy_more() -> None:
    plan = planned()
    (found,), (pool,) = fleet_parts(plan), plan.pools
    assert sum(each.replicas for each in found.parts) == pool.reserves.total_replicas == found.replicas
    assert sum(each.shapley_replicas for each in found.parts) == pytest.approx(found.replicas)
    stacked = found.stacked
    assert stacked is not None
    assert stacked.replicas > found.replicas
    assert stacked.usd is not None
    assert found.usd is not None
    assert number(stacked.usd) / number(found.usd) == pytest.approx(stacked.nodes / found.nodes)
