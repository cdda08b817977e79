"""Host or buy, and what one more costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.bills import MISSING, given, policy, pool, quotes, traffic
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.host_or_buy import host_or_buy
from ullage.cost.marginal import MarginalStep, marginal_costs, replica_usd
from ullage.cost.service_use import ServiceUse
from ullage.errors import Rejection, Remedy
from ullage.evidence import Figure
from ullage.prices.book import MissingPrice, PriceBook, TokenPrice, price_book


def _bill(replicas: float = 10, requests: float = 1e6) -> Bill:
    use = ServiceUse(
        service="test", pools=(pool(replicas=replicas),), classes=(traffic(requests=requests),), providers=(), tools=()
    )
    return monthly_bill(use, quotes(items=0.0), policy())


def _book(usd_per_token: float, *, cached: float | None = None) -> PriceBook:
    return price_book(
        [
            TokenPrice(
                provider="acme",
                model="model-x",
                input=given("acme.input", usd_per_token, "USD/token"),
                output=given("acme.output", usd_per_token, "USD/token"),
                cached_read=None if cached is None else given("acme.cached", cached, "USD/token"),
            )
        ]
    )


def test_both_ways_are_per_success_of_the_same_tokens() -> None:
    bill = _bill()
    rows = host_or_buy(bill, _book(1e-5, cached=0.0), model="model-x", provider="acme")
    assert not isinstance(rows, MissingPrice)
    (row,) = rows
    assert row.own.value == pytest.approx(bill.total_usd / 980_000)
    assert row.bought.value == pytest.approx(1e6 * (700 + 200) * 1e-5 / 980_000)


def test_at_the_even_volume_both_cost_the_same() -> None:
    """The fleet is fixed, so hosting pays from a volume on; there the provider's bill is the fleet's."""
    rows = host_or_buy(_bill(), _book(1e-5), model="model-x")
    assert not isinstance(rows, MissingPrice)
    even = rows[0].even_requests
    assert even is not None
    bill = _bill()
    fixed = bill.total_usd - bill.figures["bill.variable_usd"].value  # type: ignore[operator]
    variable = float(bill.figures["bill.variable_usd"].value) / 1e6
    assert even * 1200 * 1e-5 == pytest.approx(fixed + variable * even, rel=1e-6)
    assert rows[0].is_own_cheaper == (even <= 1e6)


def test_a_provider_that_succeeds_less_often_costs_more_per_success() -> None:
    plain = host_or_buy(_bill(), _book(1e-5), model="model-x")
    half = host_or_buy(_bill(), _book(1e-5), model="model-x", success=given("success", 0.5, "ratio"))
    assert not isinstance(plain, MissingPrice)
    assert not isinstance(half, MissingPrice)
    assert half[0].bought.value == pytest.approx(2.0 * float(plain[0].bought.value))


def test_a_model_without_price_is_said_to_be_missing() -> None:
    found = host_or_buy(_bill(), _book(1e-5), model="model-y")
    assert isinstance(found, MissingPrice)
    assert "model-y" in str(found)


def test_a_step_costs_the_difference_of_two_bills() -> None:
    bill = _bill()
    steps = [
        MarginalStep(
            name="demand", title="10 % more demand", units=1e5, per="requests", again=lambda: _bill(11, 1.1e6)
        ),
        MarginalStep(name="slo", title="an SLO a tenth tighter", units=1, per="step", again=_refused),
    ]
    demand, slo = marginal_costs(bill, steps)
    assert demand.cents == _bill(11, 1.1e6).total_cents - bill.total_cents
    assert demand.figure is not None
    assert demand.figure.value == pytest.approx((demand.cents or 0) / 100 / 1e5)
    assert slo.cents is None
    assert slo.why == "refused: too tight"


def _refused() -> Rejection:
    figure = _bill().figures["bill.total_usd"]
    return Rejection(stage="point", reason="too tight", figure=figure, remedies=(Remedy(change="x", effect="y"),))


def test_one_more_replica_costs_its_devices_for_the_period() -> None:
    found = replica_usd(pool(), quotes(), policy())
    assert isinstance(found, Figure)
    assert found.value == pytest.approx(2 * 730 * 3.0)
    assert replica_usd(pool(), replace(quotes(), devices={"main": MISSING}), policy()) is MISSING
