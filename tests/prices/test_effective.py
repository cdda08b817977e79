"""What a device-hour costs under each purchase: by hand, and by law."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.prices import amount, device_price, own_machine
from ullage.evidence import Evidence, Figure, assumptions_of
from ullage.prices.book import Discount, ExchangeRate, MissingPrice, price_book
from ullage.prices.effective import device_hour, usd
from ullage.prices.purchase import HOURS_PER_MONTH, Purchase

PLAIN = price_book([])
_MONEY = st.floats(min_value=0.01, max_value=1e6)


def _value(found: Figure | MissingPrice) -> float:
    assert isinstance(found, Figure), found
    return float(found.value)


def test_an_instance_is_shared_by_its_devices() -> None:
    assert _value(device_hour(PLAIN, device_price(55.04))) == pytest.approx(6.88)


def test_an_upfront_payment_is_spread_over_the_term() -> None:
    yearly = device_price(4.0, purchase=Purchase.ONE_YEAR_PARTIAL, upfront=amount(8760.0 * 12, "USD"), devices=8)
    assert _value(device_hour(PLAIN, yearly)) == pytest.approx((4 + 12) / 8)
    longer = dataclasses.replace(yearly, purchase=Purchase.THREE_YEARS_PARTIAL)
    assert _value(device_hour(PLAIN, longer)) == pytest.approx((4 + 4) / 8)


def test_an_interruption_costs_the_time_until_it_serves_again() -> None:
    spot = device_price(16.0, purchase=Purchase.SPOT, interruptions=amount(0.1, "1/h"))
    assert _value(device_hour(PLAIN, spot)) == 2.0
    assert _value(device_hour(PLAIN, spot, lost=amount(1800.0, "s"))) == pytest.approx(2.0 * 1.05)


def test_own_hardware_by_hand() -> None:
    """Wear 10, power 8 kW x 1.25 x 0.10 = 1, space 73 x 8 kW and staff 146 over 730 h = 1: 12 USD/h for 8 devices."""
    assert _value(device_hour(PLAIN, own_machine())) == pytest.approx(12 / 8)
    costlier = own_machine(
        residual=amount(0.2, "fraction"), upkeep=amount(0.05, "fraction"), capital=amount(0.10, "fraction")
    )
    yearly = 262_800 * (0.05 + 0.10 * 1.2 / 2)
    assert _value(device_hour(PLAIN, costlier)) == pytest.approx((8 + yearly / 8760 + 2) / 8)


def test_a_month_is_a_twelfth_of_a_year() -> None:
    assert HOURS_PER_MONTH == 730


def test_a_discount_takes_its_share_of_lists_and_not_of_spot() -> None:
    share = amount(0.10, "fraction", name="prices.discount.aws", evidence=Evidence.STATED)
    book = price_book([], discounts=[Discount(provider="aws", share=share)])
    assert _value(device_hour(book, device_price(80.0))) == pytest.approx(9.0)
    assert _value(device_hour(book, device_price(80.0, purchase=Purchase.SPOT))) == 10.0
    assert _value(device_hour(book, device_price(80.0, provider="gcp"))) == 10.0


def test_what_the_user_pays_is_after_every_discount() -> None:
    share = amount(0.10, "fraction", name="prices.discount.aws", evidence=Evidence.STATED)
    book = price_book([], discounts=[Discount(provider="aws", share=share)])
    for evidence in (Evidence.STATED, Evidence.MEASURED):
        assert _value(device_hour(book, device_price(amount(80.0, evidence=evidence)))) == 10.0


def test_another_currency_needs_a_rate_and_is_never_guessed() -> None:
    euros = device_price(amount(80.0, "EUR/h", name="price.ovh"))
    found = device_hour(PLAIN, euros)
    assert isinstance(found, MissingPrice)
    assert str(found) == (
        "not priced: price.ovh: is quoted in EUR, and no rate to USD is given. Give a dated rate: prices.exchange.EUR."
    )
    rate = amount(1.25, "USD/EUR", name="prices.exchange.EUR", evidence=Evidence.STATED)
    book = price_book([], exchange=[ExchangeRate(currency="EUR", rate=rate)])
    assert _value(device_hour(book, euros)) == pytest.approx(12.5)


def test_every_part_of_a_price_can_be_walked_back_to() -> None:
    share = amount(0.10, "fraction", name="prices.discount.aws")
    rate = amount(1.25, "USD/EUR", name="prices.exchange.EUR")
    book = price_book(
        [],
        discounts=[Discount(provider="aws", share=share)],
        exchange=[ExchangeRate(currency="EUR", rate=rate)],
    )
    price = device_price(
        amount(1.0, "EUR/h", name="hourly"),
        purchase=Purchase.ONE_YEAR_PARTIAL,
        upfront=amount(10.0, "EUR", name="upfront"),
    )
    found = device_hour(book, price)
    assert isinstance(found, Figure)
    names = {each.name for each in assumptions_of([found])}
    assert names == {"hourly", "upfront", "prices.discount.aws", "prices.exchange.EUR"}
    assert found.name == "price.h100-sxm.aws.us-east-1.1y-partial-upfront"


@given(_MONEY, _MONEY, st.integers(1, 16))
def test_a_higher_price_never_makes_a_cheaper_hour(one: float, other: float, devices: int) -> None:
    low, high = sorted((one, other))
    hours = [_value(device_hour(PLAIN, device_price(each, devices=devices))) for each in (low, high)]
    assert hours[0] <= hours[1]


@given(st.floats(0, 0.99), _MONEY)
def test_a_discount_never_makes_it_dearer(share: float, hourly: float) -> None:
    book = price_book([], discounts=[Discount(provider="aws", share=amount(share, "fraction"))])
    assert _value(device_hour(book, device_price(hourly))) <= _value(device_hour(PLAIN, device_price(hourly)))


@given(
    st.sampled_from(["capex", "electricity", "space", "staff", "upkeep", "capital", "power", "cooling"]),
    st.floats(1.0, 10.0),
)
def test_no_part_of_an_own_machine_makes_it_cheaper(part: str, factor: float) -> None:
    base = own_machine(upkeep=amount(0.05, "fraction"), capital=amount(0.05, "fraction"))
    changed = getattr(base, part)
    dearer = dataclasses.replace(base, **{part: dataclasses.replace(changed, value=changed.value * factor)})
    assert _value(device_hour(PLAIN, dearer)) >= _value(device_hour(PLAIN, base)) - 1e-12


def test_an_amount_that_is_no_rate_keeps_its_unit() -> None:
    found = usd(PLAIN, amount(0.023e-9, "USD/byte-month"), provider="aws", kind="object-storage")
    assert isinstance(found, Figure)
    assert found.unit == "USD/byte-month"
