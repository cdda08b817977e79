"""A price that is missing says what there is instead, machines of one's own included."""

from __future__ import annotations

from dataclasses import replace

from support.prices import device_price, own_machine
from ullage.prices.book import MissingPrice, price_book
from ullage.prices.offers import cheapest
from ullage.prices.purchase import Purchase
from ullage.prices.wanted import DeviceWanted


def missing(wanted: DeviceWanted, *more: str) -> MissingPrice:
    rows = [device_price(8.0, provider="lambda", region=each) for each in more]
    book = price_book([replace(own_machine(), region="attic"), device_price(40.0, region="eu-west-1"), *rows])
    found = cheapest(book, wanted)
    assert isinstance(found, MissingPrice), found
    return found


def test_one_sees_where_it_is_sold_and_where_it_stands() -> None:
    found = missing(DeviceWanted(device="h100-sxm", purchases=(Purchase.SPOT,)))
    assert "aws eu-west-1 on-demand" in found.why
    assert "attic" in found.why
    assert "prices.own" in found.fix


def test_a_long_list_is_cut_and_counted() -> None:
    """Two places in the book and seven more: six are named."""
    regions = [f"region-{each}" for each in range(7)]
    found = missing(DeviceWanted(device="h100-sxm", purchases=(Purchase.SPOT,)), *regions)
    assert found.why.endswith("and 3 more")
    assert found.why.count(",") == 5


def test_a_device_that_nobody_sells_is_said_to_be_none() -> None:
    assert missing(DeviceWanted(device="mi300x")).why == "the price book has no price for this device"
