"""Order-by dates: the lead time before the month that needs the devices, and never for devices one has."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence
from ullage.load.plan import load_plan
from ullage.planning.options.lead_times import MONTHS, QUOTA, LeadTimes, OrderNeed, Orders, order_dates, rate_at
from ullage.planning.planned_for import planned_for
from ullage.planning.spec import PlanSpec
from ullage.prices.purchase import Purchase
from ullage.workload.demand.demand import Demand

AS_OF = datetime.date(2026, 11, 15)
DAY_S = 86_400.0


@pytest.fixture(scope="module")
def spec() -> PlanSpec:
    return load_plan(None, as_of=AS_OF)


@pytest.fixture(scope="module")
def demand(spec: PlanSpec) -> Demand:
    return planned_for(spec)[1]


def grown(demand: Demand, weekly_fraction: float) -> Demand:
    return replace(
        demand,
        classes=tuple(
            replace(each, model=replace(each.model, weekly_growth_fraction=weekly_fraction)) for each in demand.classes
        ),
    )


def dates(demand: Demand, lead: LeadTimes, *, purchase: Purchase = Purchase.ON_DEMAND, per_rps: float = 1.0) -> Orders:
    def need(rate_rps: float) -> OrderNeed:
        return OrderNeed(replicas=round(rate_rps * per_rps), devices=2 * round(rate_rps * per_rps))

    rests = demand.figures["demand.planning_rate"]
    return order_dates(demand, need, lead, purchases=(purchase,), as_of=AS_OF, inputs=(rests,))


def days(name: str, count: float) -> Assumption:
    return replace(QUOTA, name=name, value=count * DAY_S, low=None, high=None, evidence=Evidence.STATED)


def test_the_rate_is_the_planned_one_at_the_end_of_the_horizon(demand: Demand) -> None:
    assert rate_at(demand, demand.horizon_s) == pytest.approx(demand.planning_rps)
    doubled = grown(demand, 0.1)
    week_s = 7 * DAY_S
    assert rate_at(doubled, demand.horizon_s + week_s) == pytest.approx(1.1 * demand.planning_rps)


def test_an_order_is_placed_the_lead_time_before_its_month(demand: Demand) -> None:
    found = dates(grown(demand, 0.05), LeadTimes(quota=days("lead.quota_request", 10)))
    assert [each.month for each in found.rows[1:3]] == [datetime.date(2026, 12, 1), datetime.date(2027, 1, 1)]
    for each in found.rows[1:]:
        assert each.more_devices > 0
        assert each.order_by == each.month - datetime.timedelta(days=10)
    assert found.rows[0].order_by is None


def test_today_and_every_month_that_was_asked_for_is_a_row(demand: Demand) -> None:
    for months in (1, 3):
        rows = dates(demand, LeadTimes(months=replace(MONTHS, value=months))).rows
        firsts = [datetime.date(2026 + at // 12, at % 12 + 1, 1) for at in range(11, 11 + months)]
        assert [each.month for each in rows] == [AS_OF, *firsts]


def test_devices_add_up_and_none_is_ordered_twice(demand: Demand) -> None:
    found = dates(grown(demand, 0.03), LeadTimes())
    assert found.rows[0].devices + sum(each.more_devices for each in found.rows) == found.rows[-1].devices


def test_shrinking_demand_orders_nothing(demand: Demand) -> None:
    found = dates(grown(demand, -0.05), LeadTimes())
    assert [each.more_devices for each in found.rows] == [0] * len(found.rows)
    assert found.notes == ()


def test_a_date_that_has_passed_says_by_how_much(demand: Demand) -> None:
    found = dates(grown(demand, 0.05), LeadTimes(quota=days("lead.quota_request", 20)))
    late = found.rows[1]
    assert (late.order_by, late.late_days) == (datetime.date(2026, 11, 11), 4)
    assert "4 days ago" in found.notes[0]


@pytest.mark.parametrize(
    ("purchase", "waits"),
    [
        (Purchase.ON_DEMAND, "quota request"),
        (Purchase.SPOT, "quota request"),
        (Purchase.ONE_YEAR, "quota request + reservation"),
        (Purchase.OWNED, "delivery"),
    ],
)
def test_each_way_of_buying_has_its_own_steps(demand: Demand, purchase: Purchase, waits: str) -> None:
    found = dates(grown(demand, 0.05), LeadTimes(), purchase=purchase)
    assert {each.waits_for for each in found.rows[1:]} == {waits}


def test_no_months_is_refused() -> None:
    with pytest.raises(InputError, match=r"lead\.months = 0"):
        LeadTimes(months=replace(MONTHS, value=0))
