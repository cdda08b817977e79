"""The limits of the built-in example: chat and coding with bursts, sessions and cached prefixes."""

from __future__ import annotations

import datetime
import functools

import pytest

import ullage
from ullage.admission.limits import AdmissionLimits
from ullage.admission.proof import ENGINE_ALONE, WITH_GATEWAY
from ullage.planning.document import Plan

pytestmark = pytest.mark.slow


@functools.cache
def planned() -> Plan:
    found = ullage.verbs.plan(as_of=datetime.date(2026, 11, 15), quick=True)
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


def test_the_engines_flags_cost_the_planned_load_nothing() -> None:
    """A limit that overload asks for would violate SLOs at the planned load; the flag that is always on does not."""
    assert limits().flags.running_requests >= limits().running_requests
    assert all(not each.missed for each in limits().proofs if each.load_ratio == 1.0)


def test_behind_the_gateway_admitted_requests_meet_their_slos_at_every_proven_load() -> None:
    proven = [each for each in limits().proofs if each.enforced_by == WITH_GATEWAY]
    assert [each.load_ratio for each in proven] == [1.0, 1.5, 3.0]
    assert all(not each.missed for each in proven)


def test_the_plan_says_what_the_engines_flags_alone_lose() -> None:
    by_way = {(each.enforced_by, each.load_ratio): each for each in limits().proofs}
    for ratio in (1.5, 3.0):
        alone, both = by_way[ENGINE_ALONE, ratio], by_way[WITH_GATEWAY, ratio]
        assert alone.success_fraction < both.success_fraction
        assert alone.missed
    assert any("engine's flags alone" in note for note in limits().notes)


def test_the_limits_allow_the_plan_with_the_step_times_it_was_sized_with() -> None:
    """The limits have conservative step times as the fleet has, so the pool's rate is no less than the plan's."""
    assert limits().pool_rate_rps >= 0.99 * planned().pools[0].demand.planning_rps


def test_every_number_can_be_explained() -> None:
    for name in limits().figures:
        assert planned().find(name).name == name
