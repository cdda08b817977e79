"""Quantities as people type them, and as this program keeps them.

Inside there is one unit per quantity (s, bytes, tokens, a fraction from 0 to 1, USD). At the rim people
type `500ms`, `80GiB`, `12 req/s`, `95%` or `3.29 USD/h`. Arithmetic between the two is exact: a number
is read as a decimal, scaled as a fraction and rounded once, so that `parse(print_exact(x)) == x`.

>>> parse("1.5 min", DURATION, field="horizon")
90.0
>>> print_exact(0.25, DURATION)
'250ms'
>>> brief(85899345920, BYTES)
'80 GiB'
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from ullage.errors import InputError

_NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
# A unit starts with a letter or a sign such as % and runs to the next number; `1M tokens` is a unit after a slash.
_PART = re.compile(rf"\s*({_NUMBER})\s*([^\d\s.+-][^\d.+-]*)?")


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A quantity people type: the unit inside, the spellings at the rim, and which of them are printed."""

    name: str
    unit: str
    spellings: dict[str, Fraction]
    printed: tuple[str, ...]
    example: str
    whole: bool = False
    compound: bool = False
    spaced: bool = False
    at_most: Fraction | None = None

    def __hash__(self) -> int:
        return hash(self.name)


def _spell(**factors: Fraction | int) -> dict[str, Fraction]:
    return {name: Fraction(factor) for name, factor in factors.items()}


_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    **_spell(s=1, sec=1, second=1, seconds=1, m=60, min=60, minute=60, minutes=60),
    **_spell(
        h=3600, hr=3600, hour=3600, hours=3600, d=86400, day=86400, days=86400, w=604800, week=604800, weeks=604800
    ),
}
_BYTES = {
    "B": Fraction(1),
    **{
        spelling: Fraction(base ** (power + 1))
        for power, letter in enumerate("KMGTP")
        for base, middle in ((1000, ""), (1024, "i"))
        for spelling in (f"{letter}{middle}B", f"{letter}{middle}B".lower())
    },
    **{f"{letter}i": Fraction(1024 ** (power + 1)) for power, letter in enumerate("KMGTP")},
    "kB": Fraction(1000),
}
_COUNTS = {
    "": Fraction(1),
    "k": Fraction(1000),
    "K": Fraction(1000),
    "Ki": Fraction(1024),
    "M": Fraction(10**6),
    "Mi": Fraction(1024**2),
    "G": Fraction(10**9),
    "B": Fraction(10**9),
}
_PER_SECOND = {
    "s": Fraction(1),
    "sec": Fraction(1),
    "second": Fraction(1),
    "min": Fraction(1, 60),
    "minute": Fraction(1, 60),
    "h": Fraction(1, 3600),
    "hour": Fraction(1, 3600),
    "day": Fraction(1, 86400),
    "d": Fraction(1, 86400),
}


def _rates(nouns: dict[str, Fraction]) -> dict[str, Fraction]:
    return {f"{noun}/{time}": nouns[noun] * _PER_SECOND[time] for noun in nouns for time in _PER_SECOND}


DURATION = Dimension(
    name="duration",
    unit="s",
    spellings=_SECONDS,
    printed=("ns", "us", "ms", "s", "min", "h", "d"),
    example="500ms",
    compound=True,
)
BYTES = Dimension(
    name="size in bytes",
    unit="bytes",
    spellings=_BYTES,
    printed=("B", "KiB", "MiB", "GiB", "TiB"),
    example="80GiB",
    whole=True,
)
BANDWIDTH = Dimension(
    name="bandwidth",
    unit="bytes/s",
    spellings={
        **_rates(_BYTES),
        **{f"{p}bit/s": Fraction(10**e, 8) for p, e in (("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12))},
    },
    printed=("B/s", "KB/s", "MB/s", "GB/s", "TB/s"),
    example="3.35 TB/s",
    spaced=True,
)
FLOPS = Dimension(
    name="compute rate",
    unit="flop/s",
    spellings={
        f"{p}{word}": Fraction(10**e)
        for p, e in (("", 0), ("G", 9), ("T", 12), ("P", 15), ("E", 18))
        for word in ("FLOPS", "FLOP/s", "flop/s", "FLOPs")
    },
    printed=("FLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"),
    example="989 TFLOP/s",
    spaced=True,
)
POWER = Dimension(
    name="power",
    unit="W",
    spellings={"W": Fraction(1), "kW": Fraction(1000), "MW": Fraction(10**6)},
    printed=("W", "kW"),
    example="700 W",
    spaced=True,
)
REQUEST_RATE = Dimension(
    name="request rate",
    unit="req/s",
    spellings={
        **_rates(dict.fromkeys(("req", "requests", "request", ""), Fraction(1))),
        "rps": Fraction(1),
        "qps": Fraction(1),
        "rpm": Fraction(1, 60),
    },
    printed=("req/s",),
    example="12 req/s",
    spaced=True,
)
TOKEN_RATE = Dimension(
    name="token rate",
    unit="tokens/s",
    spellings=_rates(
        {
            f"{prefix}{noun}": factor
            for noun in ("tokens", "token", "tok")
            for prefix, factor in (("", Fraction(1)), ("k", Fraction(1000)), ("M", Fraction(10**6)))
        }
    ),
    printed=("tokens/s",),
    example="2400 tokens/s",
    spaced=True,
)
TOKENS = Dimension(
    name="number of tokens",
    unit="tokens",
    spellings={
        **_COUNTS,
        **{f"{prefix} tokens".strip(): factor for prefix, factor in _COUNTS.items()},
        **{f"{prefix}tok": factor for prefix, factor in _COUNTS.items()},
    },
    printed=("tokens",),
    example="32768 tokens",
    whole=True,
    spaced=True,
)
FRACTION = Dimension(
    name="share",
    unit="fraction",
    spellings={"%": Fraction(1, 100), "percent": Fraction(1, 100), "": Fraction(1)},
    printed=("%",),
    example="95%",
    at_most=Fraction(1),
)

DIMENSIONS = (DURATION, BYTES, BANDWIDTH, FLOPS, POWER, REQUEST_RATE, TOKEN_RATE, TOKENS, FRACTION)


def parse(text: str, dimension: Dimension, *, field: str) -> float:
    """The quantity in the dimension's own unit; `parse_whole` for those that are counted."""
    total = Fraction(0)
    parts = _split(text, dimension, field)
    for number, unit in parts:
        decimal = Decimal(number.replace("_", ""))
        # The exponent is checked first: a billion digits would be made before they could be refused.
        if decimal.adjusted() > 300:
            raise _wrong(text, dimension, field, "is too large")
        if decimal.adjusted() >= -400:
            total += Fraction(decimal) * _factor(unit, text, dimension, field)
    if total < 0:
        raise _wrong(text, dimension, field, f"a {dimension.name} is not negative")
    if total > 10**300:
        raise _wrong(text, dimension, field, "is too large")
    if dimension.at_most is not None and total > dimension.at_most:
        raise _wrong(text, dimension, field, "is more than 100 %")
    if dimension.whole and total.denominator != 1:
        raise _wrong(text, dimension, field, f"is {float(total):g} {dimension.unit}, not a whole number of them")
    return int(total) if dimension.whole else float(total)


def parse_whole(text: str, dimension: Dimension, *, field: str) -> int:
    """As `parse`, for a dimension that is counted in whole units."""
    if not dimension.whole:
        raise ValueError(f"{dimension.name} is not counted in whole {dimension.unit}")
    return int(parse(text, dimension, field=field))


def print_exact(value: float, dimension: Dimension) -> str:
    """The shortest spelling that `parse` reads back as exactly this value."""
    exact = Fraction(Decimal(repr(value)))
    texts = [
        f"{number}{' ' if dimension.spaced else ''}{unit}"
        for unit in dimension.printed
        if (number := _terminating(exact / dimension.spellings[unit])) is not None
    ]
    one = next(unit for unit, factor in dimension.spellings.items() if factor == 1)
    return min(texts, key=len) if texts else f"{value!r}{one}"


def brief(value: float, dimension: Dimension, digits: int = 3) -> str:
    """Rounded for reading, in the largest unit that keeps the number at 1 or above."""
    unit = next(
        (unit for unit in reversed(dimension.printed) if abs(value) >= dimension.spellings[unit]), dimension.printed[0]
    )
    if value == 0:
        unit = dimension.unit if dimension.unit in dimension.printed else dimension.printed[0]
    return f"{brief_number(value / float(dimension.spellings[unit]), digits)} {unit}"


def brief_number(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, grouped by thousands, never in exponents below 10^15.

    >>> brief_number(1234567.0), brief_number(0.012345), brief_number(12)
    ('1,234,567', '0.0123', '12')
    """
    if value == 0:
        return "0"
    if not 1e-9 < abs(value) < 1e15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# ---- money -------------------------------------------------------------------------------------------

_PER = {
    **dict.fromkeys(("h", "hr", "hour"), "h"),
    **dict.fromkeys(("s", "second"), "s"),
    **dict.fromkeys(("d", "day"), "day"),
    "month": "month",
    **dict.fromkeys(("y", "yr", "year"), "year"),
    **dict.fromkeys(("Mtok", "1M tokens", "M tokens", "million tokens"), "Mtok"),
    **dict.fromkeys(("ktok", "1k tokens", "k tokens"), "ktok"),
    **dict.fromkeys(("token", "tok"), "token"),
    **dict.fromkeys(("req", "request"), "req"),
    **dict.fromkeys(("call",), "call"),
    **dict.fromkeys(("kcall", "1k calls"), "kcall"),
    **dict.fromkeys(("span",), "span"),
    **dict.fromkeys(("Mspan", "1M spans"), "Mspan"),
    **dict.fromkeys(("item",), "item"),
    **dict.fromkeys(("series-month",), "series-month"),
    **dict.fromkeys(("GB",), "GB"),
    **dict.fromkeys(("GiB",), "GiB"),
    **dict.fromkeys(("GB-month",), "GB-month"),
    **dict.fromkeys(("GiB-month",), "GiB-month"),
    **dict.fromkeys(("kWh",), "kWh"),
    **dict.fromkeys(("kW-month",), "kW-month"),
    **dict.fromkeys(("device",), "device"),
}
_MONEY = re.compile(rf"^\s*({_NUMBER})\s*([A-Za-z]{{3}}|[$€£¥])\s*(?:/\s*(.+?))?\s*$")


@dataclass(frozen=True, kw_only=True)
class Money:
    """An amount in the currency it was given in; nothing converts it but a dated rate from the user."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"


@dataclass(frozen=True, kw_only=True)
class Price:
    """Money per unit of something, such as `3.29 USD/h`."""

    money: Money
    per: str

    def __str__(self) -> str:
        return f"{self.money}/{self.per}"


def parse_money(text: str, *, field: str) -> Money:
    """An amount with its three-letter currency.

    >>> str(parse_money("1200.50 EUR", field="budget"))
    '1200.50 EUR'
    """
    money, per = _money(text, field, example="1200 USD")
    if per is not None:
        raise InputError(field=field, value=text, problem="is a price per unit, not an amount", fix=f"Give {money}.")
    return money


def parse_price(text: str, *, field: str) -> Price:
    """Money per unit.

    >>> str(parse_price("0.15 USD / 1M tokens", field="price"))
    '0.15 USD/Mtok'
    """
    money, per = _money(text, field, example="3.29 USD/h")
    if per is None:
        raise InputError(field=field, value=text, problem="does not say per what", fix=f"Give for example {money}/h.")
    if per not in _PER:
        nearest = difflib.get_close_matches(per, _PER, n=3)
        known = " or ".join(nearest) if nearest else ", ".join(dict.fromkeys(_PER.values()))
        raise InputError(field=field, value=text, problem=f"'{per}' is not a unit of a price", fix=f"Use {known}.")
    return Price(money=money, per=_PER[per])


# What a price is kept per inside -> what it may be typed per, and how much of the one is in the other. A month is 730
# hours, as providers count it.
_KEPT_PER: dict[str, dict[str, Fraction]] = {
    "h": _spell(h=1, s=Fraction(1, 3600), day=24, month=730, year=8760),
    "month": _spell(month=1, h=Fraction(1, 730), day=Fraction(24, 730), year=12),
    "token": _spell(token=1, ktok=1000, Mtok=10**6),
    "byte": _spell(GB=10**9, GiB=2**30),
    "byte-month": {"GB-month": Fraction(10**9), "GiB-month": Fraction(2**30)},
    "call": _spell(call=1, kcall=1000),
    "span": _spell(span=1, Mspan=10**6),
    "item": _spell(item=1),
    "series-month": {"series-month": Fraction(1)},
    "kWh": _spell(kWh=1),
    "kW-month": {"kW-month": Fraction(1)},
    "req": _spell(req=1),
    "device": _spell(device=1),
}
PRINTED_PER = {"token": "Mtok", "byte": "GB", "byte-month": "GB-month", "span": "Mspan"}
"""Where a price inside is too small to read: what it is printed per."""


def amount_per(price: Price, per: str, *, field: str) -> float:
    """The price's amount for one `per`, in its own currency; a price of something else is an InputError.

    >>> amount_per(parse_price("0.15 USD/Mtok", field="price"), "token", field="price")
    1.5e-07
    """
    typed = _KEPT_PER[per]
    if price.per not in typed:
        known = " or ".join(typed)
        raise InputError(
            field=field,
            value=str(price),
            problem=f"is a price per {price.per}, where one per {known} is needed",
            fix=f"Give for example {price.money}/{next(iter(typed))}.",
        )
    return float(Fraction(price.money.amount) / typed[price.per])


def printed_price(value: float, per: str) -> tuple[float, str]:
    """A price inside as people read it: 1.5e-07 per token is 0.15 per Mtok."""
    printed = PRINTED_PER.get(per, per)
    return float(Fraction(Decimal(repr(value))) * (_KEPT_PER[per][printed] if per in _KEPT_PER else 1)), printed


def _money(text: str, field: str, example: str) -> tuple[Money, str | None]:
    found = _MONEY.match(text)
    if found is None:
        raise InputError(
            field=field, value=text, problem="is not an amount of money", fix=f"Give for example {example}."
        )
    number, currency, per = found.groups()
    if not currency.isalpha():
        raise InputError(
            field=field,
            value=text,
            problem=f"'{currency}' does not name one currency",
            fix=f"Give for example {example}.",
        )
    amount = Decimal(number.replace("_", ""))
    if amount < 0:
        raise InputError(field=field, value=text, problem="is negative", fix="Give an amount of 0 or more.")
    return Money(amount=amount, currency=currency.upper()), per


# ---- parts -------------------------------------------------------------------------------------------


def _split(text: str, dimension: Dimension, field: str) -> list[tuple[str, str]]:
    if re.search(r"\d,\d", text):
        raise _wrong(text, dimension, field, "has a comma, which may be a decimal or a thousands mark")
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _PART.match(text, at)
        if found is None:
            raise _wrong(text, dimension, field, f"is not a {dimension.name}")
        parts.append((found.group(1), (found.group(2) or "").strip()))
        at = found.end()
    if not parts or (len(parts) > 1 and not dimension.compound):
        raise _wrong(text, dimension, field, f"is not a {dimension.name}")
    return parts


def _factor(unit: str, text: str, dimension: Dimension, field: str) -> Fraction:
    known = re.sub(r"\s*/\s*", "/", unit)
    if known in dimension.spellings:
        return dimension.spellings[known]
    if not unit:
        raise _wrong(text, dimension, field, "has no unit")
    if known.endswith(("b", "b/s")) and known.replace("b", "B") in dimension.spellings:
        raise _wrong(text, dimension, field, f"'{unit}' may mean bits or bytes")
    raise _wrong(text, dimension, field, f"'{unit}' is not a unit of {dimension.name}")


def _terminating(value: Fraction) -> str | None:
    """The value as a plain decimal, where that is exact and not long."""
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1:
        return None
    text = format(Decimal(value.numerator) / Decimal(value.denominator), "f")
    if Fraction(Decimal(text)) != value or len(text) > 24:
        return None
    return text.rstrip("0").rstrip(".") if "." in text else text


def _wrong(text: str, dimension: Dimension, field: str, problem: str) -> InputError:
    return InputError(
        field=field, value=text, problem=problem, fix=f"Give a {dimension.name}, for example {dimension.example}."
    )
