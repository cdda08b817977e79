"""The typical week of a fleet that releases machines: laws of its hours, and a week that was played whole."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.mixes import small_model, small_trial
from support.planned import ONE_REPLICA, planned
from ullage.cost.attribution.attribution import AttributionChoice, attribute
from ullage.cost.bill import Bill
from ullage.errors import InputError
from ullage.evidence import number
from ullage.planning.billing.service_bill import service_bill
from ullage.planning.differences.causes import causes_of
from ullage.planning.differences.record import record_of
from ullage.scaling.followed import FollowedWeek, followed_week, held_replicas
from ullage.scaling.loop import ScalingPool
from ullage.scaling.played import played
from ullage.scaling.published_rules import tracking_rule
from ullage.scaling.settings import MACHINES
from ullage.scaling.supply import CapacityLimits, StartTimes
from ullage.scaling.traffic import rated
from ullage.workload.synthetic.model import SyntheticModel

_HOURS = st.lists(st.tuples(st.floats(0.1, 100.0), st.floats(1.0, 60.0)), min_size=1, max_size=24)


def week(hours: list[tuple[float, float]], rates: np.ndarray, *, steady: int = 40, node: int = 4) -> FollowedWeek:
    held = held_replicas(np.array([one for one, _ in hours]), np.array([one for _, one in hours]), least_replicas=2)
    return followed_week(held, rates, planning_rps=100.0, steady=steady, node_replicas=node)


@given(_HOURS, st.lists(st.floats(0.0, 100.0), min_size=2, max_size=10), st.integers(1, 8))
def test_hours_are_whole_machines_between_what_is_held_and_the_steady_fleet(
    hours: list[tuple[float, float]], rates: list[float], node: int
) -> None:
    at = np.sort(np.array(rates))
    found = week(hours, at, node=node)
    held = held_replicas(np.array([one for one, _ in hours]), np.array([one for _, one in hours]), least_replicas=2)
    for paid, wanted in zip(found.paid_replicas, held.at(at), strict=True):
        assert min(wanted, 40) - 1e-6 <= paid <= 40
        assert (40 - paid) % node == 0
        assert paid == 40 or paid - np.ceil(wanted - 1e-9) < node
    # More load never pays for fewer.
    assert list(found.paid_replicas) == sorted(found.paid_replicas)
    assert found.idle_replicas <= found.mean_replicas


def test_a_load_that_never_changes_gives_nothing_back() -> None:
    found = week([(100.0, 40.0)], np.full(168, 100.0))
    assert set(found.paid_replicas) == {40.0}
    assert found.idle_replicas == 0.0


def test_by_hand() -> None:
    """Ten replicas at 50 req/s and thirty at 100: at 75 twenty, at 25 five, each up to fours of forty."""
    found = week([(100.0, 30.0), (50.0, 10.0)], np.array([75.0, 25.0, 1.0]))
    assert found.paid_replicas == (20.0, 8.0, 4.0)
    assert found.needed_replicas == (30.0, 10.0, 0.4)
    assert found.idle_replicas == pytest.approx(3.6 / 3)


@pytest.mark.slow
def test_hours_read_off_one_day_are_those_of_another_that_is_played() -> None:
    """A calmer day, and one that falls where the first rose: their replica-hours follow from their rates."""
    trial = small_trial()
    starts = StartTimes(cold_s=(300.0,) * 101, warm_s=(40.0,) * 101, hot_s=(5.0,) * 101)
    pool = ScalingPool(trial=trial, each_rps=10.0, starts=starts, limits=CapacityLimits(most_replicas=12))
    rule = tracking_rule("ours", 4.0, least=2, most=12, up_s=0.0, down_s=600.0)
    model = SyntheticModel(classes=(small_model(),))
    days = {
        "first": [8.0, 12.0, 22.0, 40.0, 60.0, 55.0, 40.0, 20.0, 10.0],
        "calm": [6.0, 8.0, 15.0, 25.0, 30.0, 25.0, 12.0, 8.0],
        "falling": [60.0, 50.0, 35.0, 30.0, 25.0, 18.0, 10.0, 8.0],
    }
    found = {
        name: played(rule, pool, [rated(name, rates, 3600.0, model, trial, seed=3)]) for name, rates in days.items()
    }
    held = held_replicas(np.array(days["first"]), np.array(found["first"].hourly_replicas), least_replicas=2)
    for name in ("calm", "falling"):
        said = float(held.at(np.array(days[name])).sum())
        assert found[name].replica_hours == pytest.approx(said, rel=0.1)


@cache
def bills() -> tuple[Bill, Bill]:
    """The built-in example's, with machines held and released."""
    plan = planned()
    (pool,) = plan.pools
    (held,) = [each.answer for each in plan.stages if isinstance(each.answer, Bill)]
    released = replace(plan.spec.scaling, machines=replace(MACHINES, value="released"))
    steady = {pool.spec.name: pool.steady_fleet.figures["fleet.replicas"]}
    found = service_bill(replace(plan.spec, scaling=released), pool.demand, plan.pools, steady, seed=plan.seed)
    assert isinstance(found, Bill)
    return held, found


@pytest.mark.slow
def test_the_saving_that_is_said_is_the_difference_of_two_bills() -> None:
    held, released = bills()
    name = "bill.released_saving_usd"
    saving = number(held.figures[name])
    assert saving == number(released.figures[name])
    assert saving > 0.0
    assert held.total_cents - released.total_cents == round(100 * saving)
    said = [each for each in held.notes if "would save" in each]
    assert len(said) == 1
    assert f"{saving:,.2f} USD" in said[0]
    assert any("are released" in each for each in released.notes)


@pytest.mark.slow
def test_the_bill_has_the_hours_of_the_rule_and_idle_ones_apart() -> None:
    held, released = bills()
    week = planned().pools[0].scaling.week
    (pool,) = released.use.pools
    parts = {name: sum(each.amount.value for each in released.lines if each.name == name and each.pool)
             for name in ("compute_usage", "idle_hours", "failed_work")}  # fmt: skip
    hours = released.policy.period_hours * pool.replica_devices
    assert sum(parts.values()) == pytest.approx(week.mean_replicas * hours)
    assert parts["idle_hours"] == pytest.approx(week.idle_replicas * hours)
    assert held.cents_of("idle_hours") == 0
    for name in ("idle_reserve", "stranded_devices", "storage", "network"):
        assert released.cents_of(name) == held.cents_of(name)
    choice = AttributionChoice(by="class")
    divided = attribute(released.lines, released.use.groups["class"], choice)
    assert divided.total_cents == released.total_cents
    place = next(place for place, each in enumerate(divided.lines) if each.name == "idle_hours")
    assert divided.row("idle").cents[place] == released.cents_of("idle_hours")


@pytest.mark.slow
def test_two_plans_apart_by_it_are_told_apart_by_it() -> None:
    """The difference is charged to the hours that devices are paid, not to a price that nobody changed."""
    plan, (held, released) = planned(), bills()
    machines = replace(MACHINES, value="released")
    stages = [replace(each, answer=released, figures=released.figures) if each.answer is held else each
              for each in plan.stages]  # fmt: skip
    spec = replace(plan.spec, scaling=replace(plan.spec.scaling, machines=machines))
    other = replace(plan, spec=spec, stages=tuple(stages))
    found = {each.name: each for each in causes_of(record_of(plan), record_of(other))}
    main = found["price and paid hours of a device"]
    assert main.usd == pytest.approx(released.total_usd - held.total_usd, abs=0.05)
    assert main.because == ("scaling.machines",)


def test_a_fleet_held_at_its_peak_gives_nothing_back() -> None:
    with pytest.raises(InputError, match=r"scaling\.machines") as refusal:
        planned(ONE_REPLICA + "warm: {follows: peak}\nscaling: {machines: released}\n")
    assert "warm.follows: peak" in refusal.value.problem
