"""A number with its unit, as people read it."""

from __future__ import annotations

import re

from ullage.units import BANDWIDTH, BYTES, DURATION, FLOPS, FRACTION, POWER, brief, brief_number, printed_price

# The units inside that read better in another size; all others are printed as they are.
_READ_AS = {each.unit: each for each in (DURATION, BYTES, BANDWIDTH, FLOPS, POWER, FRACTION)}
# Prices are quoted to the tenth of a cent, and 55.04 USD/h is not 55.
_PRICE_DIGITS = 5


def show(value: int | float | str, unit: str) -> str:
    """Rounded to three digits, in the unit that keeps the number short.

    >>> show(34359738368, "bytes"), show(0.95, "fraction"), show(20.0, "req/s"), show(30 * 86400.0, "s")
    ('32 GiB', '95 %', '20 req/s', '30 d')
    >>> show(1.5e-07, "USD/token"), show(55.04, "USD/h")
    ('0.15 USD/Mtok', '55.04 USD/h')
    """
    if isinstance(value, str):
        return value
    currency, _, per = unit.partition("/")
    if per and re.fullmatch(r"[A-Z]{3}", currency):
        amount, printed = printed_price(value, per)
        return f"{brief_number(amount, _PRICE_DIGITS)} {currency}/{printed}"
    if unit in _READ_AS:
        return brief(value, _READ_AS[unit])
    return f"{brief_number(value)} {unit}".rstrip()


def show_usd(usd: float) -> str:
    """Dollars to three digits, with k and M; cents belong on the bill.

    >>> [show_usd(each) for each in (570_003.66, 13.76, 0.008864, 999_600.0, 1_234_567.0, 0.0)]
    ['570 k', '13.8', '0.00886', '1 M', '1.23 M', '0']
    """
    rounded = float(f"{usd:.3g}")
    for size, mark in ((1e6, " M"), (1e3, " k")):
        if abs(rounded) >= size:
            return f"{brief_number(rounded / size)}{mark}"
    return brief_number(rounded)


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "device"), counted(0, "replica")
    ('1 device', '0 replicas')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
