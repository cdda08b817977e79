"""Laws of units.py: what is printed is read back exactly, and what cannot be read is named exactly."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.units import (
    BANDWIDTH,
    BYTES,
    DIMENSIONS,
    DURATION,
    FLOPS,
    FRACTION,
    POWER,
    REQUEST_RATE,
    TOKEN_RATE,
    TOKENS,
    Dimension,
    Money,
    Price,
    brief,
    brief_number,
    parse,
    parse_money,
    parse_price,
    parse_whole,
    print_exact,
)

CONTINUOUS = [each for each in DIMENSIONS if not each.whole]
WHOLE = [each for each in DIMENSIONS if each.whole]


@pytest.mark.parametrize("dimension", CONTINUOUS, ids=lambda each: each.name)
@given(data=st.data())
def test_what_is_printed_is_read_back_exactly(dimension: Dimension, data: st.DataObject) -> None:
    top = float(dimension.at_most) if dimension.at_most is not None else 1e250
    value = data.draw(st.floats(0, top, allow_nan=False))
    assert parse(print_exact(value, dimension), dimension, field="x") == value


@pytest.mark.parametrize("dimension", WHOLE, ids=lambda each: each.name)
@given(value=st.integers(0, 2**70))
def test_whole_quantities_are_read_back_exactly(dimension: Dimension, value: int) -> None:
    assert parse_whole(print_exact(value, dimension), dimension, field="x") == value


@given(amount=st.decimals(0, 10**12, allow_nan=False, places=6), currency=st.sampled_from(["USD", "EUR", "JPY"]))
def test_money_and_prices_are_read_back_exactly(amount: Decimal, currency: str) -> None:
    money = Money(amount=amount, currency=currency)
    assert parse_money(str(money), field="x") == money
    for per in ("h", "Mtok", "GiB-month", "month", "req"):
        assert parse_price(str(Price(money=money, per=per)), field="x") == Price(money=money, per=per)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("500ms", DURATION, 0.5),
        ("1.5 s", DURATION, 1.5),
        ("250 us", DURATION, 0.00025),
        ("1h30m", DURATION, 5400.0),
        ("2 min 30 s", DURATION, 150.0),
        ("30d", DURATION, 30 * 86400.0),
        ("4 weeks", DURATION, 28 * 86400.0),
        ("80GiB", BYTES, 80 * 2**30),
        ("80GB", BYTES, 80 * 10**9),
        ("80 gb", BYTES, 80 * 10**9),
        ("1_024 B", BYTES, 1024),
        ("1.5 TiB", BYTES, 3 * 2**39),
        ("3.35 TB/s", BANDWIDTH, 3.35e12),
        ("400 Gbit/s", BANDWIDTH, 5e10),
        ("989 TFLOPS", FLOPS, 9.89e14),
        ("0.7 kW", POWER, 700.0),
        ("12 req/s", REQUEST_RATE, 12.0),
        ("12rps", REQUEST_RATE, 12.0),
        ("90 requests / min", REQUEST_RATE, 1.5),
        ("2400 tokens/s", TOKEN_RATE, 2400.0),
        ("1.2 Mtok/min", TOKEN_RATE, 20000.0),
        ("128k", TOKENS, 128_000),
        ("128Ki", TOKENS, 131_072),
        ("32768 tokens", TOKENS, 32768),
        ("95%", FRACTION, 0.95),
        ("99.9 percent", FRACTION, 0.999),
        ("0.25", FRACTION, 0.25),
    ],
)
def test_the_forms_people_type(text: str, dimension: Dimension, value: float) -> None:
    assert parse(text, dimension, field="x") == value


@pytest.mark.parametrize(
    ("text", "dimension", "problem"),
    [
        ("500", DURATION, "has no unit"),
        ("", DURATION, "is not a duration"),
        ("soon", DURATION, "is not a duration"),
        ("5 parsecs", DURATION, "'parsecs' is not a unit of duration"),
        ("-3s", DURATION, "a duration is not negative"),
        ("1,5 s", DURATION, "has a comma, which may be a decimal or a thousands mark"),
        ("1e400 s", DURATION, "is too large"),
        ("1e999999999 s", DURATION, "is too large"),
        ("nan s", DURATION, "is not a duration"),
        ("80 Gb", BYTES, "'Gb' may mean bits or bytes"),
        ("1.5 B", BYTES, "is 1.5 bytes, not a whole number of them"),
        ("12 req", REQUEST_RATE, "'req' is not a unit of request rate"),
        ("120%", FRACTION, "is more than 100 %"),
        ("1 GiB 2 GiB", BYTES, "is not a size in bytes"),
    ],
)
def test_what_cannot_be_read_is_said_with_field_value_problem_and_fix(
    text: str, dimension: Dimension, problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, dimension, field="slo.ttft_p95")
    message = str(caught.value)
    assert message.startswith(f"slo.ttft_p95 = {text!r}: {problem}. ")
    assert dimension.example in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3.29", "is not an amount of money"),
        ("3.29 USD", "does not say per what"),
        ("$3.29/h", "is not an amount of money"),
        ("3.29 $/h", "'$' does not name one currency"),
        ("3.29 USD/fortnight", "'fortnight' is not a unit of a price"),
        ("-1 USD/h", "is negative"),
    ],
)
def test_a_price_that_cannot_be_read(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_price(text, field="prices.h200")
    assert problem in str(caught.value)


@given(text=st.text(max_size=30))
def test_no_text_raises_anything_but_an_input_error(text: str) -> None:
    for dimension in DIMENSIONS:
        try:
            value = parse(text, dimension, field="x")
        except InputError:
            continue
        assert math.isfinite(value)
        assert value >= 0
    for read in (parse_money, parse_price):
        try:
            read(text, field="x")
        except InputError:
            continue


@given(value=st.floats(1e-6, 1e12))
def test_brief_numbers_keep_three_digits(value: float) -> None:
    shown = float(brief_number(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.006)


def test_brief_quantities() -> None:
    assert brief(0.25, DURATION) == "250 ms"
    assert brief(0, DURATION) == "0 s"
    assert brief(5400, DURATION) == "1.5 h"
    assert brief(52_142_530_560, BYTES) == "48.6 GiB"
    assert brief(0.905, FRACTION) == "90.5 %"
