"""Rules in the shadow of the live autoscaler: laws on a small pool, whatever the numbers are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from support.mixes import small_model, small_trial
from ullage.errors import InputError
from ullage.reconcile.observation import Floats, Observation, ObservedQuantity
from ullage.reconcile.shadow import ShadowedPool, shadow_pool
from ullage.scaling.loop import ScalingPool
from ullage.scaling.published_rules import tracking_rule
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.signals import SignalTerms
from ullage.scaling.supply import CapacityLimits, StartTimes
from ullage.workload.synthetic.model import SyntheticModel

STEP_S = 300.0
# Ten minutes at one replica's rate, twenty at four, twenty at one.
RATES = (8.0,) * 2 + (36.0,) * 4 + (8.0,) * 4
START_S = 1_794_787_200.0
MODEL = SyntheticModel(classes=(small_model(),))


def observation(replicas: float | tuple[float, ...], **levels: Floats) -> Observation:
    ready = np.full(len(RATES), replicas) if isinstance(replicas, (int, float)) else np.array(replicas)
    named = {ObservedQuantity(name): value for name, value in levels.items()}
    return Observation(
        source="a test",
        start_s=START_S,
        step_s=STEP_S,
        steps=len(RATES),
        counted={ObservedQuantity.ARRIVALS: np.array(RATES) * STEP_S},
        levels={ObservedQuantity.REPLICAS: ready, **named},
        latencies={},
    )


@cache
def pool() -> ScalingPool:
    starts = StartTimes(cold_s=(60.0,) * 101, warm_s=(40.0,) * 101, hot_s=(5.0,) * 101)
    limits = CapacityLimits(most_replicas=8)
    return ScalingPool(
        trial=small_trial(), each_rps=10.0, starts=starts, limits=limits, signals=SignalTerms(delay_s=1.0)
    )


def ours() -> ScalingRule:
    return tracking_rule("ours", 6.0, least=1, most=8, up_s=0.0, down_s=120.0)


def fixed(replicas: int) -> ScalingRule:
    return ScalingRule(name="fixed", spec=ScheduleSpec(times_s=(0.0,), replicas=(replicas,)))


def shadowed(seen: Observation, rule: ScalingRule) -> ShadowedPool:
    return shadow_pool("pool", seen, pool(), MODEL, [rule], seed=1)


def test_a_rule_that_does_what_ran_is_no_different() -> None:
    found = shadowed(observation(4), fixed(4))
    (rule,) = found.rules
    assert found.stretches == ()
    assert rule.violated_requests == found.live.violated_requests
    assert rule.replica_hours == pytest.approx(found.live_hours, rel=0.02)


def test_too_few_live_replicas_violate_where_the_rule_had_more() -> None:
    found = shadowed(observation(1), ours())
    (rule,) = found.rules
    assert not found.live.is_met
    assert found.live.violated_requests > rule.violated_requests
    worst = found.stretches[0]
    assert worst.rule_replicas > worst.live_replicas
    assert START_S + 2 * STEP_S - 60.0 <= worst.from_s < worst.until_s <= found.end_s
    assert "live had 1.0 of" in worst.why


def test_too_many_live_replicas_cost_hours_and_are_said_to_be_more_than_needed() -> None:
    found = shadowed(observation(8), ours())
    (rule,) = found.rules
    assert rule.replica_hours < found.live_hours == pytest.approx(8 * len(RATES) * STEP_S / 3600.0)
    assert any("live held more than" in each.why for each in found.stretches)


def test_live_replicas_come_and_go_as_they_were_observed() -> None:
    found = shadowed(observation((2.0,) * 2 + (6.0,) * 4 + (2.0,) * 4), fixed(8))
    assert (found.live.least_replicas, found.live.most_replicas) == (2, 6)
    assert found.live_hours == pytest.approx((6 * 2 + 4 * 6) * STEP_S / 3600.0)


def test_replicas_that_were_asked_for_held_devices_too() -> None:
    asked = np.full(len(RATES), 5.0)
    found = shadowed(observation(4, desired_replicas=asked), fixed(4))
    assert found.live_hours == pytest.approx(5 * len(RATES) * STEP_S / 3600.0)


def test_gaps_are_filled_and_said_and_a_stretch_of_gaps_is_refused() -> None:
    seen = observation((4.0, np.nan, *(4.0,) * 8))
    assert any("1 of 10 steps were not observed" in each for each in shadowed(seen, fixed(4)).notes)
    with pytest.raises(InputError, match="less than 80 %"):
        shadowed(observation((4.0, *(np.nan,) * 4, *(4.0,) * 5)), fixed(4))
    with pytest.raises(InputError, match="was not observed"):
        shadowed(replace(seen, levels={}), fixed(4))
    with pytest.raises(InputError, match="no arrivals"):
        shadowed(replace(seen, counted={ObservedQuantity.ARRIVALS: np.zeros(len(RATES))}), fixed(4))


def test_a_difference_of_five_minutes_is_none_whenever_it_comes() -> None:
    late = (4.0,) * 8 + (3.0, 4.0)
    assert shadowed(observation(late), fixed(4)).stretches == ()
    assert shadowed(observation((4.0,) * 6 + (3.0,) * 3 + (4.0,)), fixed(4)).stretches != ()
