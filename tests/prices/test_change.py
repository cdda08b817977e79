"""A change of prices, item by item: exact, summing to the whole, and explained for the H100 of 2023 and of 2026."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from support.prices import amount, device_price
from ullage.prices.book import PriceBook, RatePrice, price_book
from ullage.prices.change import PricedUse, explain_change, rounded_to_sum
from ullage.prices.purchase import Purchase
from ullage.prices.wanted import DeviceWanted, RateWanted
from ullage.readers.prices import read_prices
from ullage.readers.prices.price_file import PriceProvenance

ON_DEMAND = DeviceWanted(device="h100-sxm", purchases=(Purchase.ON_DEMAND,))
SPOT = DeviceWanted(device="h100-sxm", purchases=(Purchase.SPOT,))
EGRESS = RateWanted(item="egress")
_PRICES = st.floats(min_value=1e-3, max_value=1e4)


def _book(on_demand: float, spot: float, egress: float) -> PriceBook:
    return price_book(
        [
            device_price(on_demand),
            device_price(spot, purchase=Purchase.SPOT),
            RatePrice(item="egress", amount=amount(egress, "USD/byte")),
        ]
    )


def test_quantity_times_change_of_price_by_hand() -> None:
    usage = [
        PricedUse(name="steady", wanted=ON_DEMAND, quantity=730.0),
        PricedUse(name="egress", wanted=EGRESS, quantity=1e12),
    ]
    found = explain_change(_book(80.0, 40.0, 9e-11), _book(40.0, 40.0, 1e-10), usage)
    assert [each.change_usd for each in found.effects] == [Fraction(-3650), Fraction(10)]
    assert (found.change_cents, found.change_usd) == (-364000, Fraction(-3640))
    assert found.missing == ()


@given(*([_PRICES] * 6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e15))
def test_items_sum_to_the_whole_exactly(
    a: float, b: float, c: float, d: float, e: float, f: float, hours: float, spot_hours: float, sent_bytes: float
) -> None:
    usage = [
        PricedUse(name="steady", wanted=ON_DEMAND, quantity=hours),
        PricedUse(name="spot", wanted=SPOT, quantity=spot_hours),
        PricedUse(name="egress", wanted=EGRESS, quantity=sent_bytes),
    ]
    found = explain_change(_book(a, b, c), _book(d, e, f), usage)
    assert sum(each.change_usd for each in found.effects) == found.after_usd - found.before_usd
    assert sum(each.change_cents for each in found.effects) == found.change_cents == round(found.change_usd * 100)
    for each in found.effects:
        assert abs(each.change_cents - each.change_usd * 100) < 1


def test_the_same_book_twice_changes_nothing() -> None:
    book = _book(80.0, 40.0, 9e-11)
    found = explain_change(book, book, [PricedUse(name="steady", wanted=ON_DEMAND, quantity=1e4)])
    assert (found.change_usd, found.change_cents) == (Fraction(0), 0)


def test_an_item_without_a_price_is_listed_apart_and_not_as_no_change() -> None:
    usage = [
        PricedUse(name="steady", wanted=ON_DEMAND, quantity=1.0),
        PricedUse(name="spot", wanted=SPOT, quantity=1.0),
    ]
    found = explain_change(price_book([device_price(80.0)]), _book(80.0, 40.0, 1.0), usage)
    assert [each.name for each in found.effects] == ["steady"]
    ((name, missing),) = found.missing
    assert name == "spot"
    assert missing.why == "the book has it only from aws us-east-1 on-demand"


@given(st.lists(st.fractions(min_value=-(10**6), max_value=10**6), max_size=9))
def test_rounding_keeps_the_sum_and_moves_no_one_by_a_whole(amounts: list[Fraction]) -> None:
    rounded = rounded_to_sum(amounts)
    assert sum(rounded) == round(sum(amounts, Fraction(0)))
    assert all(abs(one - other) < 1 for one, other in zip(rounded, amounts, strict=True))


def test_a_month_of_h100_at_the_prices_of_2023_and_2026(shared_data: Path) -> None:
    """Published: p5.48xlarge fell from 98.32 to 55.04 USD/h on demand; its spot price in us-east-1 by 70 %."""
    file = shared_data / "prices" / "gpu_price_history_weekly.csv.gz"
    then = read_prices(file, PriceProvenance(on=datetime.date(2023, 10, 21))).book
    now = read_prices(file, PriceProvenance(on=datetime.date(2026, 8, 8))).book
    usage = [
        PricedUse(name=str(purchase), wanted=_p5(purchase), quantity=hours)
        for purchase, hours in ((Purchase.ON_DEMAND, 5840.0), (Purchase.SPOT, 2920.0))
    ]
    found = explain_change(then, now, usage)
    steady, spot = found.effects
    assert steady.change_usd == Fraction("5840") * (Fraction("6.88") - Fraction("12.29"))
    assert spot.before_usd == 2920 * Fraction("70.5143") / 8
    assert spot.after_usd == 2920 * Fraction("19.7611") / 8
    assert steady.change_cents + spot.change_cents == found.change_cents
    assert found.change_cents == -5011932  # 5840 x -5.41 + 365 x -50.7532


def _p5(purchase: Purchase) -> DeviceWanted:
    return DeviceWanted(
        device="h100-sxm",
        providers=("aws",),
        regions=("us-east-1",),
        instances=("p5.48xlarge",),
        purchases=(purchase,),
    )
