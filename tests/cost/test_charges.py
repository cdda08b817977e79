"""A bill as charges: rows sum to the bill in money and in quantity, and each says who sold what to whom."""

from __future__ import annotations

import datetime
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given

from support.bills import any_quotes, bought, policy, pool, quotes, services, traffic
from support.usage_logs import rows, usage_log
from ullage.cost.attribution.attribution import AttributionChoice, Basis, Idle, attribute
from ullage.cost.attribution.usage import grouped
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.bill_charges import charge_rows, month_after
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import ServiceUse, ToolUse
from ullage.prices.book import MissingPrice
from ullage.prices.purchase import Purchase

PERIOD = month_after(datetime.date(2026, 11, 15))


def billed(**changed: object) -> Bill:
    use = ServiceUse(
        service="test",
        pools=(pool(reserves={"failure": 2}),),
        classes=(traffic(),),
        providers=(bought(1e5),),
        tools=(ToolUse(name="search", calls=1e5, basis=pool().basis),),
    )
    return monthly_bill(replace(use, **changed), quotes(committed=0.4), policy())  # type: ignore[arg-type]


def test_the_period_is_the_calendar_month_that_begins_next() -> None:
    for day, start, end in (
        (datetime.date(2026, 11, 15), (2026, 12), (2027, 1)),
        (datetime.date(2027, 1, 31), (2027, 2), (2027, 3)),
        (datetime.date(2026, 12, 1), (2027, 1), (2027, 2)),
    ):
        found = month_after(day)
        assert found.start == datetime.datetime(*start, 1, tzinfo=datetime.UTC)
        assert found.end == datetime.datetime(*end, 1, tzinfo=datetime.UTC)


@pytest.mark.slow
@given(services(), any_quotes())
def test_rows_are_the_priced_lines(use: ServiceUse, given_quotes: Quotes) -> None:
    bill = monthly_bill(use, given_quotes, policy())
    found = charge_rows(bill, PERIOD)
    priced = [each for each in bill.lines if each.is_priced]
    assert [each.sku for each in found] == [each.label for each in priced]
    assert sum((each.billed for each in found), Decimal(0)) == Decimal(bill.total_cents) / 100
    for row, line in zip(found, priced, strict=True):
        assert row.list == row.contracted == row.billed == row.effective == Decimal(line.cents or 0) / 100
        assert row.quantity == Decimal(str(line.amount.value))
        assert row.unit == line.amount.unit
        assert row.resource_name == (line.pool or use.service)
        assert row.resource_type == ("Pool" if line.pool else "Service")
        assert row.allocation is None
        assert row.period == row.billing_period == PERIOD


@pytest.mark.slow
@given(rows())
def test_parts_sum_to_every_line_in_money_and_quantity(
    given_rows: list[tuple[int, float, float, int, int, bool]],
) -> None:
    bill = billed()
    groups = grouped(usage_log(given_rows), "tenant", rng=np.random.default_rng(0))
    choice = AttributionChoice(by="tenant", rule="tokens", idle=Idle.SPREAD, basis=Basis.USAGE)
    found = charge_rows(bill, PERIOD, attribute(bill.lines, {"main": groups}, choice))
    money: dict[str, Decimal] = defaultdict(Decimal)
    amounts: dict[str, Decimal] = defaultdict(Decimal)
    ratios: dict[str, Decimal] = defaultdict(Decimal)
    for row in found:
        assert row.allocation is not None
        assert row.billed > 0
        money[row.sku] += row.billed
        amounts[row.sku] += row.quantity
        ratios[row.sku] += row.allocation.ratio
        assert row.tags["tenant"] == row.allocation.resource_name
        assert row.allocation.resource_id == f"tenant/{row.allocation.resource_name}"
        assert row.allocation.method == "ullage:tokens"
        assert row.allocation.details["Idle"] == Idle.SPREAD.value
        assert row.allocation.tags == {"tenant": row.allocation.resource_name}
    for line in bill.lines:
        if line.cents:
            assert money[line.label] == Decimal(line.cents) / 100
            assert float(amounts[line.label]) == pytest.approx(line.amount.value, abs=1e-6)
            assert float(ratios[line.label]) == pytest.approx(1.0, abs=1e-4)


def test_each_row_says_what_it_is_and_who_sold_it() -> None:
    bill = billed()
    priced = bill.quotes.devices["main"]
    assert not isinstance(priced, MissingPrice)
    devices = tuple(replace(each, provider="acme cloud", region="west") for each in priced)
    sold = replace(bill, quotes=replace(bill.quotes, devices={"main": devices}))
    found = {each.sku: each for each in charge_rows(sold, PERIOD)}
    committed, on_demand = found["compute_reservation main"], found["compute_usage main"]
    assert (committed.pricing, on_demand.pricing) == ("Committed", "Standard")
    assert (on_demand.provider, on_demand.region) == ("acme cloud", "west")
    # Ten replicas of two devices for 730 h, three fifths of them on demand at 3 USD, the others at 70 % of that; what
    # failed requests took of it stands on a line of its own.
    paid = committed.billed + on_demand.billed + found["failed_work main"].billed
    assert paid == 10 * 2 * 730 * (Decimal("0.6") * 3 + Decimal("0.4") * Decimal("2.1"))
    assert "Prices: 2026-08-01, us-east-1. They may change; the plan does not guarantee them." in bill.notes
    assert on_demand.resource_id == "pool/main"
    assert on_demand.service_category == "Compute"
    assert on_demand.tags == {"line": "compute_usage", "behaviour": "fixed"}
    assert on_demand.own["x_Sharing"] == "shared"
    assert on_demand.own["x_Origin"] == "internal"
    assert on_demand.own["x_Evidence"] == "stated"
    tokens = found["provider_tokens hard acme"]
    assert (tokens.provider, tokens.service_category, tokens.own["x_Origin"]) == (
        "acme",
        "AI and Machine Learning",
        "external",
    )
    # A tool's seller is not known by its name, and what nobody sells stands on one's own account.
    assert found["tool_apis search"].provider == "own account"
    assert found["engineering on call"].provider == "own account"
    assert found["engineering on call"].resource_id == "service/test"
    assert found["engineering on call"].pricing == "Standard"
    assert found["storage main store"].service_category == "Storage"


def test_devices_by_auction_are_priced_as_such() -> None:
    bill = billed()
    priced = bill.quotes.devices["main"]
    assert not isinstance(priced, MissingPrice)
    spot = replace(priced[0], purchase=Purchase.SPOT)
    changed = replace(bill, quotes=replace(bill.quotes, devices={"main": (spot,)}))
    assert {each.pricing for each in charge_rows(changed, PERIOD) if each.sku == "compute_usage main"} == {"Dynamic"}
