"""Provisioned units: enough for the load, as sold, and paid whether used or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.prices import amount
from ullage.prices.book import MissingPrice, ProvisionedUnit, price_book
from ullage.prices.packaged import packaged_book
from ullage.prices.provisioned import Provision, TokenLoad, provision

UNIT = ProvisionedUnit(
    provider="acme",
    model="m",
    unit="PTU",
    hourly=amount(2.0, "USD/h"),
    input_rate=amount(50.0, "tokens/s"),
    output_rate=amount(12.5, "tokens/s"),
    least_units=15,
    step_units=5,
)
_RATES = st.floats(min_value=0, max_value=1e5)


def _ordered(given_: float, made: float) -> Provision:
    found = provision(price_book([UNIT]), "m", TokenLoad(input_tokens_per_s=given_, output_tokens_per_s=made))
    assert isinstance(found, Provision), found
    return found


@pytest.mark.parametrize(
    ("given_", "made", "units"), [(0, 0, 15), (750, 0, 15), (751, 0, 20), (1000, 0, 20), (500, 125, 20), (500, 126, 25)]
)
def test_units_by_hand(given_: float, made: float, units: int) -> None:
    found = _ordered(given_, made)
    assert (found.units, found.usd_per_hour.value) == (units, 2.0 * units)


@given(_RATES, _RATES, _RATES)
def test_more_load_never_needs_fewer_units_and_what_is_ordered_carries_it(
    one: float, other: float, made: float
) -> None:
    low, high = sorted((one, other))
    few, many = _ordered(low, made), _ordered(high, made)
    assert few.units <= many.units
    assert high / 50 + made / 12.5 <= many.units * (1 + 1e-12)
    assert (many.units - UNIT.least_units) % UNIT.step_units == 0


def test_a_unit_that_does_not_say_what_it_carries_is_no_answer() -> None:
    load = TokenLoad(input_tokens_per_s=10.0, output_tokens_per_s=1.0)
    assert isinstance(provision(price_book([]), "m", load), MissingPrice)
    silent = ProvisionedUnit(
        provider="acme",
        model="m",
        unit="PTU",
        hourly=amount(2.0),
        input_rate=amount(50.0, "tokens/s"),
        output_rate=None,
    )
    assert isinstance(provision(price_book([silent]), "m", load), MissingPrice)


def test_the_packaged_units() -> None:
    found = provision(packaged_book(), "gpt-4.1", TokenLoad(input_tokens_per_s=2000.0, output_tokens_per_s=250.0))
    assert isinstance(found, Provision)
    assert (found.units, found.usd_per_hour.value) == (100, 200.0)
