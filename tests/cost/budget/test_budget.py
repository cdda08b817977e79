"""Budgets: a month like today's costs today's bill, causes sum, held prices by hand, and bands on simulated worlds."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from support import bills
from support.worlds import demand_world, fleet, real_usd, world_bill, world_budget
from ullage.cost.bill import Bill
from ullage.cost.budget.budget import MonthFuture, budget_of
from ullage.cost.budget.month_bill import HeldDevices, MonthFleet, month_lines
from ullage.cost.budget.variance import VARIANCE_CAUSES, MonthFacts, variance
from ullage.cost.lines.line import BillLine

NOW = {"main": MonthFleet(steady_replicas=40.0, mean_replicas=None, stranded_devices=0.0)}
MONTH_HOURS = 730.0


@pytest.fixture(scope="module")
def bill() -> Bill:
    return world_bill()


def _cents(found: Bill, **more: object) -> int:
    _, _, lines = month_lines(found, {}, NOW, **more)  # type: ignore[arg-type]
    return sum(each.cents or 0 for each in lines)


def test_a_month_like_today_costs_todays_bill(bill: Bill) -> None:
    assert _cents(bill) == bill.total_cents


def test_more_requests_on_the_same_fleet_move_only_what_varies(bill: Bill) -> None:
    _, _, lines = month_lines(bill, {"chat": 2.0}, NOW)
    before, after = (_of(one, "network") for one in (bill.lines, lines))
    assert after == pytest.approx(2 * before, abs=1)
    devices = ("compute_usage", "failed_work", "idle_reserve")
    assert _of(bill.lines, *devices) == pytest.approx(_of(lines, *devices), abs=2)


def _of(lines: Iterable[BillLine], *names: str) -> int:
    return sum(each.cents or 0 for each in lines if each.name in names)


def test_held_devices_cost_their_own_price_and_the_rest_the_lists(bill: Bill) -> None:
    # 88 devices are paid, 22 of them held at 1 USD instead of 3: 22 x 2 USD less an hour.
    held = {"main": HeldDevices(devices=22, hour=bills.given("price.held", 1.0, "USD/h"))}
    assert bill.total_cents - _cents(bill, held=held) == pytest.approx(22 * 2.0 * MONTH_HOURS * 100, abs=3)


def test_what_is_held_beyond_the_fleet_is_paid_as_well(bill: Bill) -> None:
    held = {"main": HeldDevices(devices=100, hour=bills.given("price.held", 1.0, "USD/h"))}
    expected = bill.total_cents - 88 * 3.0 * MONTH_HOURS * 100 + 100 * 1.0 * MONTH_HOURS * 100
    assert _cents(bill, held=held) == pytest.approx(expected, abs=3)


def test_a_list_that_falls_lowers_what_is_not_committed(bill: Bill) -> None:
    devices = 88 * 3.0 * MONTH_HOURS * 100
    assert bill.total_cents - _cents(bill, list_ratio=0.9) == pytest.approx(0.1 * devices, abs=3)
    committed = replace(bill, quotes=bills.quotes(committed=1.0))
    assert _cents(committed, list_ratio=0.9) == _cents(committed)


def _month(ratios: list[float]) -> MonthFuture:
    middle = float(np.median(ratios))
    return MonthFuture(
        month=datetime.date(2026, 12, 1),
        ratios=tuple({"chat": each} for each in ratios),
        fleets=tuple(fleet(each) for each in ratios),
        list_ratios=np.ones(len(ratios)),
        held={},
        expected_ratios={"chat": middle},
        expected_fleets=fleet(middle),
        expected_list_ratio=1.0,
    )


@pytest.mark.slow
@drawn(st.lists(st.floats(0.3, 3.0), min_size=3, max_size=8))
def test_causes_sum_to_the_difference_and_bands_are_ordered(ratios: list[float]) -> None:
    today = world_bill()
    found = budget_of(today, [_month(ratios), _month(ratios)], follows=False, inputs=())
    assert sum(found.causes.values()) == pytest.approx(found.middle_usd - found.today_usd, abs=0.01)
    assert found.low_usd <= found.usd <= found.high_usd
    assert found.usd == pytest.approx(2 * found.months[0].usd)
    for each in found.months:
        assert sum(each.causes.values()) == pytest.approx(each.middle_usd - today.total_usd, abs=0.01)
    assert found.figures["budget.total.p50_usd"].value == found.usd


_AMOUNT = st.floats(0.1, 1e6)
_FACTS = st.builds(
    lambda a, b, serving, reserve, usd: MonthFacts(
        requests={"a": a, "b": b}, serving_replica_hours=serving, reserve_replica_hours=reserve, usd=usd
    ),
    _AMOUNT, _AMOUNT, _AMOUNT, _AMOUNT, _AMOUNT,
)  # fmt: skip


@drawn(_FACTS, _FACTS)
def test_variance_sums_to_what_was_paid_less_what_was_planned(planned: MonthFacts, real: MonthFacts) -> None:
    found = variance(planned, real, {"a": 1.0, "b": 5.0})
    assert tuple(found) == VARIANCE_CAUSES
    assert sum(found.values()) == pytest.approx(real.usd - planned.usd, rel=1e-6, abs=1e-6 * (real.usd + planned.usd))


def test_each_cause_is_told_from_the_others() -> None:
    plan = MonthFacts(requests={"a": 80, "b": 20}, serving_replica_hours=100, reserve_replica_hours=20, usd=240)
    price, mix = replace(plan, usd=300), replace(plan, requests={"a": 20, "b": 80})
    alone = {"price": (price, 60.0), "reserve": (replace(plan, reserve_replica_hours=30, usd=260), 20.0)}
    for name, (real, usd) in alone.items():
        found = variance(plan, real, {})
        assert found[name] == pytest.approx(usd)
        assert sum(abs(each) for each in found.values()) == pytest.approx(usd)
    heavier = variance(plan, mix, {"a": 1.0, "b": 4.0})
    # A request weighs 1.6 as planned and 3.4 as it came; the fleet did not grow, so that it served more efficiently.
    assert heavier["volume"] == 0.0
    assert heavier["mix"] == pytest.approx(2.0 * 100 * (3.4 / 1.6 - 1.0))
    assert heavier["efficiency"] == pytest.approx(-heavier["mix"])


@pytest.mark.slow
def test_bands_hold_about_four_fifths_of_the_months(bill: Bill) -> None:
    held = []
    for seed in range(12):
        rng = np.random.default_rng((7, seed))
        world = demand_world(rng)
        budget = world_budget(world, bill, rng)
        real = real_usd(world, bill)
        held += [each.low_usd <= usd <= each.high_usd for each, usd in zip(budget.months, real, strict=True)]
    # 36 months that go together three by three: two deviations are about 18 %. make bench-budget has the whole.
    assert 0.6 <= np.mean(held) <= 0.97
