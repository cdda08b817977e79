"""Quantities as they stand in fact files: `"3.35 TB/s"` is 3_350_000_000_000 bytes/s, exactly.

A quantity with a unit is written as text with its unit beside it, the way a data sheet prints it. GB is
10^9 bytes and GiB is 2^30, always. Quantities without a unit (counts, tokens, fractions) are plain TOML
numbers. Arithmetic is in fractions, so a whole number of bytes stays a whole number.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from ullage.errors import InputError

_BYTES = {
    "B": Fraction(1),
    **{f"{prefix}B": Fraction(1000 ** (power + 1)) for power, prefix in enumerate("KMGT")},
    **{f"{prefix}iB": Fraction(1024 ** (power + 1)) for power, prefix in enumerate("KMGT")},
}

WRITTEN_UNITS: dict[str, dict[str, Fraction]] = {
    "bytes": _BYTES,
    "bytes/s": {
        **{f"{name}/s": factor for name, factor in _BYTES.items()},
        "Gbit/s": Fraction(10**9, 8),
        "Tbit/s": Fraction(10**12, 8),
    },
    "FLOP/s": {"GFLOP/s": Fraction(10**9), "TFLOP/s": Fraction(10**12), "PFLOP/s": Fraction(10**15)},
    "OP/s": {"GOP/s": Fraction(10**9), "TOP/s": Fraction(10**12), "POP/s": Fraction(10**15)},
    "W": {"W": Fraction(1), "kW": Fraction(1000)},
    "s": {
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
    },
}
"""Unit inside -> how it may be written -> how many of the unit inside one of it is."""

PLAIN_UNITS = ("count", "tokens", "parameters", "fraction", "ratio")
"""Quantities written as plain numbers: whole ones, then a share in (0, 1], then any positive number."""

TEXT_UNIT = "text"
FLAG_UNIT = "flag"

_QUANTITY = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z/]+)\s*")


def read_quantity(field: str, written: object, unit: str) -> int | float | str:
    """The value in `unit`, or an InputError that names the field.

    >>> read_quantity("memory_bandwidth", "3.35 TB/s", "bytes/s")
    3350000000000
    >>> read_quantity("memory", "79.65 GiB", "bytes")
    85523537100.8
    """
    if unit in WRITTEN_UNITS:
        return _number(_with_unit(field, written, unit))
    if unit == TEXT_UNIT:
        return _text(field, written)
    if unit == FLAG_UNIT:
        if not isinstance(written, bool):
            raise InputError(field=field, value=written, problem="is not a yes or no", fix="Write true or false.")
        return int(written)
    return _plain(field, written, unit)


def _with_unit(field: str, written: object, unit: str) -> Fraction:
    units = WRITTEN_UNITS[unit]
    fix = f"Write a number and its unit as text, for example '5 {next(iter(units))}' (units: {', '.join(units)})."
    if not isinstance(written, str):
        raise InputError(field=field, value=written, problem="has no unit", fix=fix)
    match = _QUANTITY.fullmatch(written)
    if match is None:
        raise InputError(field=field, value=written, problem="is not a positive number with a unit", fix=fix)
    if match["unit"] not in units:
        raise InputError(field=field, value=written, problem=f"{match['unit']} is not a unit of {unit}", fix=fix)
    number = Fraction(match["number"]) * units[match["unit"]]
    if number <= 0:
        raise InputError(field=field, value=written, problem="must be greater than 0", fix=fix)
    return number


def _plain(field: str, written: object, unit: str) -> int | float:
    if isinstance(written, bool) or not isinstance(written, (int, float)) or not math.isfinite(written):
        raise InputError(field=field, value=written, problem="is not a number", fix=f"Write a plain number ({unit}).")
    if written <= 0:
        raise InputError(field=field, value=written, problem="must be greater than 0", fix=f"Write a positive {unit}.")
    if unit == "fraction" and written > 1:
        raise InputError(
            field=field, value=written, problem="is above 1", fix="Write a share from 0 to 1, not percent."
        )
    if unit not in ("fraction", "ratio") and not isinstance(written, int):
        raise InputError(field=field, value=written, problem="is not a whole number", fix=f"{unit} are whole.")
    return written


def _text(field: str, written: object) -> str:
    if not isinstance(written, str) or not written.strip():
        raise InputError(field=field, value=written, problem="is not a text", fix="Write it in quotes, not empty.")
    return written


def _number(exact: Fraction) -> int | float:
    return exact.numerator if exact.denominator == 1 else float(exact)
