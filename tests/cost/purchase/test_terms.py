"""What a price book sells of a pool's nodes: one seller, its terms as stated, assumed ones named as such."""

from __future__ import annotations

import pytest

from support.purchases import SOURCE
from ullage.cost.purchase.terms import INTERRUPTIONS, ONE_YEAR_OFF, SoldNodes, sold_nodes
from ullage.cost.quotes import PriceChoice
from ullage.cost.service_use import PoolUse
from ullage.evidence import Assumption, Evidence, Figure, number
from ullage.prices.book import DevicePrice, MissingPrice, PriceBook, price_book
from ullage.prices.packaged import list_fall
from ullage.prices.purchase import HOURS_PER_MONTH, Purchase

DEVICE = "h100-sxm"


def _amount(name: str, value: float, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


READY = Figure(name="ready.cold_p90_s", value=900.0, unit="s", sources=(SOURCE,), own_evidence=Evidence.STATED)
POOL = PoolUse(
    name="main", model="m", device=DEVICE, replica_devices=2, steady_replicas=4, basis=(_amount("r", 4, "replicas"),)
)


def _price(provider: str, purchase: Purchase, hourly: float, **more: Assumption) -> DevicePrice:
    return DevicePrice(
        provider=provider,
        region="r1",
        device=DEVICE,
        devices=8,
        purchase=purchase,
        hourly=_amount(f"price.{provider}.{purchase}", hourly, "USD/h"),
        **more,  # type: ignore[arg-type]
    )


def _sold(*prices: DevicePrice, book: PriceBook | None = None, choice: PriceChoice | None = None) -> SoldNodes:
    found = sold_nodes(
        book or price_book(prices),
        POOL,
        choice or PriceChoice(),
        node_devices=8,
        refill=READY,
        owned_after_months=5,
    )
    assert isinstance(found, SoldNodes)
    return found


def test_terms_are_those_of_the_seller_of_the_cheapest_hour() -> None:
    found = _sold(
        _price("dear", Purchase.ON_DEMAND, 60.0),
        _price("dear", Purchase.THREE_YEARS, 10.0),
        _price("good", Purchase.ON_DEMAND, 50.0),
        _price("good", Purchase.ONE_YEAR, 35.0),
    )
    assert found.by_hour.provider == "good"
    assert [(each.purchase, each.usd_per_hour, each.term_months) for each in found.terms] == [
        (Purchase.ONE_YEAR, 35.0, 12)
    ]
    assert not found.notes
    assert found.spot is None


def test_a_seller_without_terms_has_the_usual_ones_and_says_so() -> None:
    found = _sold(_price("good", Purchase.ON_DEMAND, 50.0))
    year = next(each for each in found.terms if each.purchase is Purchase.ONE_YEAR)
    assert year.usd_per_hour == pytest.approx(50.0 * (1.0 - number(ONE_YEAR_OFF)))
    assert year.node_hour.evidence is Evidence.ASSUMED
    assert ONE_YEAR_OFF in found.assumed
    assert "are assumed" in found.notes[0]


def test_what_is_paid_up_front_is_a_part_of_the_term() -> None:
    paid = 100_000.0
    found = _sold(
        _price("good", Purchase.ON_DEMAND, 50.0),
        _price("good", Purchase.ONE_YEAR_PARTIAL, 20.0, upfront=_amount("up", paid, "USD")),
    )
    (term,) = found.terms
    whole = term.usd_per_hour * 12 * HOURS_PER_MONTH
    assert whole == pytest.approx(20.0 * 12 * HOURS_PER_MONTH + paid)
    assert term.upfront_fraction * whole == pytest.approx(paid)


def test_spot_is_interrupted_as_stated_and_else_as_on_record() -> None:
    silent = _sold(_price("good", Purchase.ON_DEMAND, 50.0), _price("good", Purchase.SPOT, 20.0))
    stated = _sold(
        _price("good", Purchase.ON_DEMAND, 50.0),
        _price("good", Purchase.SPOT, 20.0, interruptions=_amount("i", 0.01, "1/h")),
    )
    assert silent.spot is not None
    assert stated.spot is not None
    assert silent.spot.interruptions == number(INTERRUPTIONS)
    assert stated.spot.interruptions == 0.01
    assert stated.spot.refill_s == 900.0
    assert stated.spot.lost_s == 900.0 - stated.spot.warning_s


def test_nothing_by_the_hour_is_a_missing_price() -> None:
    found = sold_nodes(
        price_book([_price("good", Purchase.ONE_YEAR, 35.0)]),
        POOL,
        PriceChoice(),
        node_devices=8,
        refill=READY,
        owned_after_months=5,
    )
    assert isinstance(found, MissingPrice)


def test_a_list_falls_as_it_has_and_an_unknown_one_by_the_most_on_record() -> None:
    assert number(list_fall("h200-sxm")) < number(list_fall("h100-sxm"))
    assert number(list_fall("b200-sxm")) == number(list_fall("h100-sxm"))
    assert list_fall("h100-sxm").source.date.year == 2026
