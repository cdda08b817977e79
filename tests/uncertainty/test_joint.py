"""Several pools and one chance: closed forms for pools that fall short together and for those that do one by one."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.risks import SURE, risk_model, uncertainties
from ullage.evidence import number
from ullage.fleet.choices import choice
from ullage.fleet.risk.planning_point import NeedSpread, pool_chance
from ullage.fleet.risk.spread import lognormal
from ullage.fleet.risk.surface import STEPS
from ullage.uncertainty.joint import JointPool, joint_shortfall

CHANCE = choice("policy.shortfall", 0.05, "fraction", "test")


def spread(demand: float, steps: float) -> NeedSpread:
    return NeedSpread(demand_deviation_fraction=demand, slow={STEPS: lognormal(steps)}, rests=())


def pool(demand: float, steps: float, replicas: int) -> JointPool:
    known = uncertainties(demand=demand, steps=steps)
    return JointPool(given=known, model=risk_model(given=known, domains=SURE), replicas=replicas)


def alone(deviation: float, replicas: int) -> float:
    return 1.0 - NormalDist().cdf(math.log(replicas / 100.0) / deviation)


def joint(*pools: JointPool) -> float:
    return joint_shortfall(pools, ("a",), ((1.0,),), draws=4096, seed=0)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_pools_that_fall_short_one_by_one_divide_the_chance(count: int) -> None:
    found = pool_chance(CHANCE, [spread(0.0, 0.2 + 0.02 * at) for at in range(count)])
    assert number(found) == pytest.approx(1.0 - 0.95 ** (1.0 / count), rel=0.03)


def test_pools_that_only_demand_brings_down_each_have_the_whole_chance() -> None:
    found = pool_chance(CHANCE, [spread(0.2, 0.0), spread(0.2, 0.0), spread(0.2, 0.0)])
    assert number(found) == pytest.approx(0.05, abs=1e-3)
    assert pool_chance(CHANCE, [spread(0.2, 0.3)]) is CHANCE


@settings(max_examples=10)
@given(demand=st.floats(0.0, 0.4), steps=st.floats(0.0, 0.4), other=st.floats(0.05, 0.4))
def test_the_chance_of_each_lies_between_its_part_and_the_whole(demand: float, steps: float, other: float) -> None:
    found = number(pool_chance(CHANCE, [spread(demand, steps), spread(demand, other)]))
    assert 0.025 <= found <= 0.05


def test_the_joint_chance_of_pools_with_steps_of_their_own_is_that_of_independent_events() -> None:
    found = joint(pool(0.0, 0.2, 130), pool(0.0, 0.3, 150))
    assert found == pytest.approx(1.0 - (1.0 - alone(0.2, 130)) * (1.0 - alone(0.3, 150)), abs=0.006)


def test_the_joint_chance_of_pools_of_one_demand_is_that_of_the_worst() -> None:
    assert joint(pool(0.2, 0.0, 130), pool(0.2, 0.0, 150)) == pytest.approx(alone(0.2, 130), abs=0.004)


def test_a_pool_beside_others_is_as_likely_to_fall_short_as_alone() -> None:
    found, beside = joint(pool(0.2, 0.2, 140)), joint(pool(0.2, 0.2, 140), pool(0.0, 0.0, 400))
    assert found == pytest.approx(alone(math.hypot(0.2, 0.2), 140), abs=0.005)
    assert beside == pytest.approx(found, abs=1e-9)
