"""Quantities as they stand in fact files: `"3.35 TB/s"` is 3.35e12 bytes/s.

A quantity with a unit is text with its unit beside the number, the way a data sheet prints it and the way
`ullage.units` reads it everywhere else. Quantities without one (counts, tokens, shares) are plain TOML
numbers. Every quantity in a fact file is greater than zero: what a device does not have is left out.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from ullage.errors import InputError
from ullage.units import (
    BANDWIDTH,
    BYTES,
    DURATION,
    FLOPS,
    POWER,
    TOKEN_RATE,
    Dimension,
    amount_per,
    parse,
    parse_money,
    parse_price,
)

# Drivers and engines print GiB to two digits, so a fact in bytes may be a fraction of one; it is rounded below.
_ROUNDED_BYTES = dataclasses.replace(BYTES, whole=False, example="79.65 GiB")
_OPS = Dimension(
    name="integer compute rate",
    unit="op/s",
    spellings={f"{letter}OP/s": Fraction(10**power) for letter, power in (("G", 9), ("T", 12), ("P", 15))},
    printed=("GOP/s", "TOP/s", "POP/s"),
    example="1979 TOP/s",
    spaced=True,
)

DIMENSIONS = {each.unit: each for each in (_ROUNDED_BYTES, BANDWIDTH, FLOPS, _OPS, POWER, DURATION, TOKEN_RATE)}
"""Unit inside -> the dimension it is written in. The other units a field may have are the six below."""

WHOLE_UNITS = ("count", "tokens", "parameters")
SHARE_UNIT = "fraction"
TEXT_UNIT = "text"
FLAG_UNIT = "flag"
MONEY_UNIT = "USD"
"""Alone an amount; before a slash a price, such as `USD/h`. Facts are in USD: nothing here converts."""


def read_quantity(field: str, written: object, unit: str) -> int | float | str:
    """The value in `unit`, or an InputError that names the field.

    >>> read_quantity("memory_bandwidth", "3.35 TB/s", "bytes/s")
    3350000000000.0
    >>> read_quantity("memory", "79.65 GiB", "bytes")
    85523536282
    """
    if unit in DIMENSIONS:
        return _with_unit(field, written, DIMENSIONS[unit])
    if unit.partition("/")[0] == MONEY_UNIT:
        return _money(field, written, unit.partition("/")[2])
    if unit == TEXT_UNIT:
        return _text(field, written)
    if unit == FLAG_UNIT:
        if not isinstance(written, bool):
            raise InputError(field=field, value=written, problem="is not a yes or no", fix="Write true or false.")
        return int(written)
    return _plain(field, written, unit)


def _with_unit(field: str, written: object, dimension: Dimension) -> int | float:
    if not isinstance(written, str):
        fix = f"Write number and unit as text, for example '{dimension.example}'."
        raise InputError(field=field, value=written, problem="has no unit", fix=fix)
    value = parse(written, dimension, field=field)
    if value <= 0:
        fix = "Leave out what the device does not have."
        raise InputError(field=field, value=written, problem="must be greater than 0", fix=fix)
    return round(value) if dimension is _ROUNDED_BYTES else value


def _money(field: str, written: object, per: str) -> float:
    if not isinstance(written, str):
        fix = "Write amount, currency and unit as text, for example '3.29 USD/h'."
        raise InputError(field=field, value=written, problem="has no currency", fix=fix)
    price = parse_price(written, field=field) if per else None
    money = price.money if price is not None else parse_money(written, field=field)
    if money.currency != MONEY_UNIT:
        fix = "Give prices in other currencies in a price file, with a dated rate: docs/howto/bring-your-prices.md."
        raise InputError(field=field, value=written, problem="is not in USD, as facts are", fix=fix)
    value = amount_per(price, per, field=field) if price is not None else float(money.amount)
    if value <= 0:
        raise InputError(
            field=field, value=written, problem="must be greater than 0", fix="Leave out what is not sold."
        )
    return value


def _plain(field: str, written: object, unit: str) -> int | float:
    if isinstance(written, bool) or not isinstance(written, (int, float)) or not math.isfinite(written):
        raise InputError(field=field, value=written, problem="is not a number", fix=f"Write a plain number ({unit}).")
    if written <= 0:
        raise InputError(field=field, value=written, problem="must be greater than 0", fix=f"Write a positive {unit}.")
    if unit == SHARE_UNIT and written > 1:
        raise InputError(
            field=field, value=written, problem="is above 1", fix="Write a share from 0 to 1, not percent."
        )
    if unit in WHOLE_UNITS and not isinstance(written, int):
        raise InputError(field=field, value=written, problem="is not a whole number", fix=f"{unit} are whole.")
    return written


def _text(field: str, written: object) -> str:
    if not isinstance(written, str) or not written.strip():
        raise InputError(field=field, value=written, problem="is not a text", fix="Write it in quotes, not empty.")
    return written
