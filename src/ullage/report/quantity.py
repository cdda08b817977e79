"""A number with its unit, as people read it."""

from __future__ import annotations

from ullage.units import BANDWIDTH, BYTES, DURATION, FLOPS, FRACTION, POWER, brief, brief_number

# The units inside that read better in another size; all others are printed as they are.
_READ_AS = {each.unit: each for each in (DURATION, BYTES, BANDWIDTH, FLOPS, POWER, FRACTION)}


def show(value: int | float | str, unit: str) -> str:
    """Rounded to three digits, in the unit that keeps the number short.

    >>> show(34359738368, "bytes"), show(0.95, "fraction"), show(20.0, "req/s"), show(30 * 86400.0, "s")
    ('32 GiB', '95 %', '20 req/s', '30 d')
    """
    if isinstance(value, str):
        return value
    if unit in _READ_AS:
        return brief(value, _READ_AS[unit])
    return f"{brief_number(value)} {unit}".rstrip()
