"""The point a fleet is planned for: the chosen chance, shared by everything that is uncertain."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fleets import planned_pool
from ullage.evidence import Evidence, number
from ullage.fleet.choices import choice
from ullage.fleet.failure import FailureReserve, failure_reserve, reliability
from ullage.fleet.quiet import quiet_fraction
from ullage.fleet.risk.need import PlannedNeed
from ullage.fleet.risk.planning_point import NeedSpread, need_spread, planned_percentile, planning_point
from ullage.fleet.risk.spread import lognormal
from ullage.fleet.risk.surface import CACHED, OUTPUTS, PROMPTS, STEPS
from ullage.fleet.sites import equal_zones
from ullage.service.steps.band import DEFAULT_BANDS

NORMAL = NormalDist()
DEVIATION = st.floats(0.01, 0.35)


def spread(demand: float = 0.2, **slow: float) -> NeedSpread:
    return NeedSpread(
        demand_deviation_fraction=demand, slow={name: lognormal(each) for name, each in slow.items()}, rests=()
    )


def shortfall(fraction: float = 0.05) -> PlannedNeed:
    return PlannedNeed(
        shortfall=choice("policy.shortfall", fraction, "fraction", "test"),
        deviation_fraction=0.3,
        step_fraction=1.0,
        rests=(),
    )


@pytest.mark.parametrize("chance", [0.2, 0.1, 0.05, 0.01])
def test_what_is_planned_is_exceeded_with_the_chosen_chance(chance: float) -> None:
    """Plain draws of the same law: the need at the planned point is their quantile."""
    own = {STEPS: 0.25, PROMPTS: 0.15, OUTPUTS: 0.15, CACHED: 0.07}
    ratio = spread(0.2, **own).slow_ratio(chance)
    rng = np.random.default_rng(3)
    z = rng.standard_normal((400_000, 5))
    lengths = [-0.3 * z[:, 0] + math.sqrt(1 - 0.09) * z[:, column] for column in (2, 3)]
    slow = 0.25 * z[:, 1] + 0.15 * lengths[0] + (0.35 * 0.15 * lengths[1] - 0.45 * 0.07 * z[:, 4]) / 1.25
    need = 0.2 * z[:, 0] + 1.25 * slow + np.maximum(slow, 0.0) ** 2
    planned = 0.2 * NORMAL.inv_cdf(1 - chance) + 1.25 * math.log(ratio) + math.log(ratio) ** 2
    assert float((need > planned).mean()) == pytest.approx(chance, rel=0.03, abs=0.001)


def test_what_is_sure_adds_nothing_and_even_odds_are_as_expected() -> None:
    assert spread(0.2).slow_ratio(0.05) == pytest.approx(1.0, abs=0.003)
    assert spread(0.2, step_time=0.3).slow_ratio(0.5) == 1.0
    # With demand known exactly the steps have the whole chance to themselves.
    assert spread(0.0, step_time=0.3).slow_ratio(0.1) == pytest.approx(math.exp(0.3 * NORMAL.inv_cdf(0.9)), rel=0.01)


@settings(max_examples=25)
@given(demand=DEVIATION, steps=DEVIATION, prompts=DEVIATION, chance=st.floats(0.005, 0.4))
def test_none_is_at_its_own_worst_and_a_narrower_band_never_asks_for_more(
    demand: float, steps: float, prompts: float, chance: float
) -> None:
    found = spread(demand, step_time=steps).slow_ratio(chance)
    assert 1.0 <= found <= math.exp(steps * max(0.0, NORMAL.inv_cdf(1 - chance))) * 1.01
    assert spread(demand, step_time=steps / 2).slow_ratio(chance) <= found + 1e-3
    assert spread(demand, step_time=steps).slow_ratio(chance / 2) >= found - 1e-3
    wide = spread(demand, step_time=steps, prompt_length=prompts)
    assert wide.deviation_fraction >= spread(demand, step_time=steps).deviation_fraction * 0.9


def test_a_pool_is_planned_by_its_own_evidence() -> None:
    demand = planned_pool().demand
    by_evidence = {
        each: need_spread(0.2, DEFAULT_BANDS[each], demand).slow_ratio(0.05)
        for each in (Evidence.MEASURED, Evidence.CALIBRATED, Evidence.PROFILED, Evidence.ESTIMATED)
    }
    assert list(by_evidence.values()) == sorted(by_evidence.values())
    one = choice("policy.shortfall", 0.05, "fraction", "test")
    assert number(planned_percentile(one)) == pytest.approx(0.95)
    point = planning_point(one, demand, replace(demand, planning_rps=2.0 * demand.planning_rps))
    assert point.demand_deviation_fraction == pytest.approx(math.log(2.0) / NORMAL.inv_cdf(0.95))
    band = point.of_pool(DEFAULT_BANDS[Evidence.ESTIMATED], demand).band
    assert band.planned is not None
    assert number(band.planned) == band.slow_ratio
    assert band.slow_input is band.planned


def test_the_need_is_a_lognormal_through_the_planned_number() -> None:
    need = shortfall()
    assert need.beyond(40, 40) < 0.05 < need.beyond(40, 39)
    rng = np.random.default_rng(1)
    drawn = 39.5 * np.exp(0.3 * (rng.standard_normal(200_000) - NORMAL.inv_cdf(0.95)))
    for replicas in (20, 35, 45, 60):
        assert need.beyond(40, replicas) == pytest.approx(float((drawn > replicas).mean()), abs=0.004)
    sure = replace(need, deviation_fraction=0.0)
    assert (sure.beyond(40, 39), sure.beyond(40, 40), sure.beyond(40, 0)) == (1.0, 0.0, 1.0)


def test_the_failure_reserve_keeps_the_chosen_chance_and_one_fewer_does_not() -> None:
    """Replicas that fail by themselves one time in twenty: the sum over all that may be up, by hand."""
    need, planned, down = shortfall(0.1), 30, 0.05
    steady = planned_pool().steady.figures["fleet.replicas"]
    given_ = reliability()
    rates = {
        "device_failures": down / (1 - down) / 86_400.0 * 365.25 * 86_400.0,
        "device_repair": 86_400.0,
        "node_failures": 0.0,
        "zone_failures": 0.0,
        "survives": "nothing",
    }
    said = replace(
        given_,
        **{name: replace(getattr(given_, name), value=each, low=None, high=None) for name, each in rates.items()},
    )
    found = failure_reserve(
        replace(steady, value=planned), equal_zones(1), said, devices=1, need=need, seed=0
    )  # fmt: skip
    assert isinstance(found, FailureReserve)

    def short(total: int) -> float:
        return sum(
            math.comb(total, up) * (1 - down) ** up * down ** (total - up) * need.beyond(planned, up)
            for up in range(total + 1)
        )

    assert short(planned + found.line.replicas) <= 0.1 < short(planned + found.line.replicas - 1)
    bare = failure_reserve(replace(steady, value=planned), equal_zones(1), said, devices=1, seed=0)
    assert isinstance(bare, FailureReserve)
    assert bare.line.replicas == 0


def test_the_quietest_stretch_is_the_lowest_of_all() -> None:
    demand = planned_pool().demand
    week = np.sum(
        [np.array(each.model.season) / max(each.model.season) * each.planning_rps for each in demand.classes], axis=0
    )
    for hours in (1, 5, 24):
        around = [max(week[(first + k) % week.size] for k in range(hours)) for first in range(week.size)]
        assert quiet_fraction(demand, 3600.0 * hours) == pytest.approx(min(around) / week.max())
    assert quiet_fraction(demand, 14 * 86_400.0) == pytest.approx(1.0)


def test_steps_are_charged_what_they_add_to_demand_and_lengths_what_is_left() -> None:
    """In the stated order: what steps add to the need of uncertain demand, over what all that slows adds."""
    own = spread(0.2, **{STEPS: 0.3, PROMPTS: 0.2})
    bare = math.exp(0.2 * NORMAL.inv_cdf(0.95))
    assert own.needed_ratio(0.05, demand=True, slow=()) == pytest.approx(bare, rel=0.002)
    rng = np.random.default_rng(5)
    z = rng.standard_normal((400_000, 2))
    slow = 0.3 * z[:, 1]
    need = np.exp(0.2 * z[:, 0] + 1.25 * slow + np.maximum(slow, 0.0) ** 2)
    steps = float(np.quantile(need, 0.95))
    assert own.needed_ratio(0.05, demand=True, slow=(STEPS,)) == pytest.approx(steps, rel=0.01)
    whole = own.needed_ratio(0.05, demand=True, slow=own.slow)
    assert own.step_fraction(0.05) == pytest.approx((steps - bare) / (whole - bare), rel=0.03)
    assert spread(0.2, **{PROMPTS: 0.2}).step_fraction(0.05) == 0.0
    assert spread(0.2, **{STEPS: 0.2}).step_fraction(0.05) == 1.0
    assert spread(0.2).step_fraction(0.05) == 0.0
