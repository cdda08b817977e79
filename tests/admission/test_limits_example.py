"""The limits of the built-in example: chat and coding with bursts, sessions and cached prefixes."""

from __future__ import annotations

import datetime
import functools

import pytest

import ullage
from ullage.admission.limits import AdmissionLimits
from ullage.planning.document import Plan

pytestmark = pytest.mark.slow


@functools.cache
def planned() -> Plan:
    found = ullage.verbs.plan(as_of=datetime.date(2026, 11, 15))
    assert isinstance(found, Plan)
    return found


def limits() -> AdmissionLimits:
    return planned().pools[0].admission_limits


def test_in_overload_every_slo_is_met_with_limits_and_none_without() -> None:
    for each in limits().checks:
        assert each.is_kept == (each.protection == "limits")


def test_a_pool_without_limits_stays_down_at_a_load_that_it_carries() -> None:
    bare, *_, whole = limits().recoveries
    assert bare.capacity_fraction < whole.capacity_fraction == 1.0


def test_limits_turn_away_no_more_at_the_planning_rate_than_slos_allow() -> None:
    # A fleet without room to spare turns away what its bursts bring beyond it.
    assert limits().refused_fraction < 0.1


def test_the_limits_allow_the_plan_with_the_step_times_it_was_sized_with() -> None:
    """The limits have conservative step times as the fleet has, so the pool's rate is no less than the plan's."""
    assert limits().pool_rate_rps >= 0.99 * planned().pools[0].demand.planning_rps


def test_every_number_can_be_explained() -> None:
    for name in limits().figures:
        assert planned().find(name).name == name
