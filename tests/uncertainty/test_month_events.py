"""Planned events in a budget: a month with one costs what the month of so much larger a service costs."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from support.demand_laws import hourly, known_law
from support.planned import planned, stated
from ullage.cost.budget.budget import Budget
from ullage.uncertainty.budgeting import BudgetChoice, budget
from ullage.uncertainty.forecast_months import ordinary
from ullage.verbs.cost import bill_of
from ullage.workload.demand.events import DatedEvent, Lift, lift_between
from ullage.workload.forecast.forecast import forecast

CHAT = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: RATE req/s, weekly_growth: 0%, longest_context: 8192, slo: {ttft_p95: 2s}}
  EVENT
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


def event(first: str, until: str, ratio: float, name: str = "sale") -> DatedEvent:
    start, end = (datetime.date.fromisoformat(each) for each in (first, until))
    return DatedEvent(first=start, until=end, ratio=stated(f"event.{name}.demand_ratio", ratio, "ratio"))


def budgeted(rate_rps: float, *, follows: bool, event: str = "columns: {}") -> Budget:
    plan = planned(CHAT.replace("RATE", f"{rate_rps:g}").replace("EVENT", event))
    return budget(plan, bill_of(plan), BudgetChoice(months=3, follows=follows), measured={})


def test_days_of_a_month_are_lifted_by_the_events_on_them() -> None:
    january = (datetime.date(2027, 1, 1), datetime.date(2027, 2, 1))
    assert lift_between([], *january) == Lift()
    assert lift_between([event("2026-12-30", "2027-01-11", 2.0)], *january).mean_ratio == pytest.approx(41 / 31)
    both = [event("2027-01-01", "2027-01-11", 2.0), event("2027-01-10", "2027-01-12", 1.5, "launch")]
    found = lift_between(both, *january)
    # Nine days at 2, one at 3, one at 1.5, twenty as usual.
    assert found.highest_ratio == 3.0
    assert found.mean_ratio == pytest.approx((9 * 2.0 + 3.0 + 1.5 + 20) / 31)
    assert sum(fraction for _, fraction in found.parts) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("follows", [False, True])
def test_a_month_of_half_more_demand_costs_what_the_larger_service_pays(follows: bool) -> None:
    sale = "events: [{name: sale, from: 2027-01-01, to: 2027-02-01, demand: 1.5}]"
    usual, lifted, larger = (
        budgeted(2.0, follows=follows),
        budgeted(2.0, follows=follows, event=sale),
        budgeted(3.0, follows=follows),
    )
    before, january, after = lifted.months
    assert (before.by_line, after.by_line) == (usual.months[0].by_line, usual.months[2].by_line)
    assert january.requests == pytest.approx(larger.months[1].requests)
    for line in ("network", "tool_apis", "failed_work"):
        assert january.by_line[line] == pytest.approx(larger.months[1].by_line[line], rel=0.001, abs=0.02)
    assert january.usd >= usual.months[1].usd
    assert january.events == ("sale: demand x1.5 from 2027-01-01 to 2027-01-31",)
    assert lifted.low_usd <= lifted.usd <= lifted.high_usd


@pytest.mark.slow
def test_a_fleet_that_was_sized_for_an_event_is_smaller_in_the_months_without_it() -> None:
    launch = "events: [{name: launch, from: 2026-12-05, to: 2026-12-08, demand: 4}]"
    usual, lifted = (budgeted(6.0, follows=False, event=each) for each in ("columns: {}", launch))
    assert lifted.months[0].devices > usual.months[0].devices
    assert lifted.months[0].requests == pytest.approx(usual.months[0].requests * (1.0 + 3.0 * 3 / 31))
    assert lifted.months[1].devices <= usual.months[1].devices + 1


def test_a_forecast_without_its_events_is_the_ordinary_one() -> None:
    start = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
    series = hourly(known_law(3, 4), start_s=start.timestamp())
    sale = event("2026-12-03", "2026-12-05", 3.0)
    with_it, without = (
        forecast(series, horizon_s=14 * 86_400.0, rng=np.random.default_rng(0), events=each)
        for each in ([sale.on_record], [])
    )
    assert with_it.at(0.5).max() > 2.0 * without.at(0.5).max()
    assert ordinary(with_it, [sale]) == pytest.approx(without.at(0.5), rel=0.02)
    assert replace(sale, until=sale.first + datetime.timedelta(days=1)).on_record.end_s < sale.on_record.end_s
