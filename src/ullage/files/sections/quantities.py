"""Fields that are written with their unit: `ttft_p95: 500ms`, `rate: 12 req/s`, `price: 3.29 USD/h`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, GetCoreSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from ullage.errors import InputError
from ullage.units import (
    BANDWIDTH,
    BYTES,
    DURATION,
    FRACTION,
    POWER,
    REQUEST_RATE,
    TOKEN_RATE,
    TOKENS,
    Dimension,
    Money,
    Price,
    parse,
    parse_money,
    parse_price,
    print_exact,
)

T = TypeVar("T")
HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S
YEAR_S = 365 * DAY_S
# More than any company is worth.
MOST_MONEY = 10**13
# The fault of a number that its key, or its type, has no room for.
OUT_OF_RANGE = "out_of_range"
# The longest whole number that is looked at.
_MOST_DIGITS = 18


def _wrong(problem: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("quantity", "{problem}", {"problem": problem, "fix": fix})


@dataclass(frozen=True, kw_only=True)
class Range:
    """The least and the most that a number may be, in the unit it is kept in; told in that which a file is written in.

    A type has a range that nothing sensible leaves; a key whose sense is narrower has one of its own after it.
    """

    least: float
    most: float
    dimension: Dimension | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.checked, handler(source))

    def checked(self, value: Any) -> Any:
        if value is None or self.least <= value <= self.most:
            return value
        side = "less" if value < self.least else "more"
        raise PydanticCustomError(OUT_OF_RANGE, "is {side} than is plausible here", {"side": side, "range": str(self)})

    def __str__(self) -> str:
        return f"from {self._written(self.least)} to {self._written(self.most)}"

    def _written(self, bound: float) -> str:
        if self.dimension is None:
            return f"{bound:,.12g}"
        return print_exact(bound, self.dimension)


def reader(read: Callable[..., T]) -> Callable[[Any], T]:
    """A parser of units as a validator: its problem and fix reach the user with the line and the key."""

    def validate(written: Any) -> T:
        try:
            return read(str(written), field="")
        except InputError as error:
            raise _wrong(error.problem, error.fix) from None

    return validate


def _above_zero(dimension: Dimension) -> Callable[..., float]:
    def read(text: str, *, field: str) -> float:
        value = parse(text, dimension, field=field)
        if value <= 0:
            fix = f"Give a {dimension.name}, for example {dimension.example}."
            raise InputError(field=field, value=text, problem="must be greater than 0", fix=fix)
        return value

    return read


def _growth(text: str, *, field: str) -> float:
    """A share that may be negative: traffic can shrink."""
    sign = -1.0 if text.strip().startswith("-") else 1.0
    try:
        return sign * parse(text.strip().lstrip("+-").strip(), FRACTION, field=field)
    except InputError as error:
        problem = error.problem.replace("is more than", "is a change of more than")
        raise InputError(field=field, value=text, problem=problem, fix="Give a share, for example 2% or -2%.") from None


def _start(text: str, *, field: str) -> float:
    """A duration that may be 0: that is what is claimed where scaling is taken to be instant."""
    return 0.0 if text.strip() in ("0", "0s") else parse(text, DURATION, field=field)


def _ratio(text: str, *, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        fix = "Give a number above 0, for example 1.5."
        raise InputError(field=field, value=text, problem="is not a ratio", fix=fix)
    return value


def _number(text: str, *, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(field=field, value=text, problem="is not a number from 0 on", fix="Give for example 2.")
    return value


def _whole(text: str, *, field: str) -> int:
    plain = text.strip().removeprefix("+").replace("_", "")
    if not plain.isdecimal() or not plain.isascii() or len(plain) > _MOST_DIGITS:
        problem = "is below 0" if plain.startswith("-") and plain[1:].isdecimal() else "is not a whole number"
        raise InputError(field=field, value=text, problem=problem, fix="Give for example 2.")
    return int(plain)


def _bounded_price(text: str, *, field: str) -> Price:
    """A price below what everything there is costs, for anything there is."""
    price = parse_price(text, field=field)
    _check_amount(price.money, text, field)
    return price


def _bounded_money(text: str, *, field: str) -> Money:
    money = parse_money(text, field=field)
    _check_amount(money, text, field)
    return money


def _check_amount(money: Money, text: str, field: str) -> None:
    if money.amount > MOST_MONEY:
        problem = f"is more than {MOST_MONEY:,} {money.currency}"
        raise InputError(field=field, value=text, problem=problem, fix="Check the amount and its unit.")


def _usd(text: str, *, field: str) -> float:
    money = _bounded_money(text, field=field)
    if money.currency != "USD":
        raise InputError(field=field, value=text, problem="is in another currency", fix="Give USD, as the bill is in.")
    return float(money.amount)


def _several(written: Any) -> Any:
    """One name stands for a list of one."""
    return [written] if isinstance(written, str) else written


def _mix(written: Any) -> Any:
    """One purchase stands for all of the hours."""
    return {written: "100%"} if isinstance(written, str) else written


def _shown(kind: str, example: Any, *, number: bool = True) -> WithJsonSchema:
    types = ["string", "number"] if number else "string"
    return WithJsonSchema({"type": types, "description": kind, "examples": [example]})


# Numbers without a unit are written bare.
_COUNTED = WithJsonSchema({"type": "integer", "minimum": 0, "description": "whole number", "examples": [2]})


def _typed(dimension: Dimension) -> WithJsonSchema:
    return _shown(dimension.name, dimension.example)


Bandwidth = Annotated[
    float,
    BeforeValidator(reader(_above_zero(BANDWIDTH))),
    _typed(BANDWIDTH),
    Range(least=1e3, most=1e15, dimension=BANDWIDTH),
]
_LONGEST = Range(least=1e-6, most=100 * YEAR_S, dimension=DURATION)
Duration = Annotated[float, BeforeValidator(reader(_above_zero(DURATION))), _typed(DURATION), _LONGEST]
# From a request a month to those of the whole planet; a pool of more than can be simulated is refused later, with both.
RequestRate = Annotated[
    float,
    BeforeValidator(reader(_above_zero(REQUEST_RATE))),
    _typed(REQUEST_RATE),
    Range(least=3e-7, most=1e9, dimension=REQUEST_RATE),
]
TokenRate = Annotated[
    float,
    BeforeValidator(reader(_above_zero(TOKEN_RATE))),
    _typed(TOKEN_RATE),
    Range(least=1e-6, most=1e13, dimension=TOKEN_RATE),
]
Share = Annotated[
    float,
    BeforeValidator(reader(_above_zero(FRACTION))),
    _typed(FRACTION),
    Range(least=1e-9, most=1.0, dimension=FRACTION),
]
ShareOrNone = Annotated[
    float,
    BeforeValidator(reader(lambda text, field: parse(text, FRACTION, field=field))),
    _typed(FRACTION),
    Range(least=0.0, most=1.0, dimension=FRACTION),
]
Bytes = Annotated[
    int, BeforeValidator(reader(_above_zero(BYTES))), _typed(BYTES), Range(least=1, most=2**60, dimension=BYTES)
]
Tokens = Annotated[
    int, BeforeValidator(reader(_above_zero(TOKENS))), _typed(TOKENS), Range(least=1, most=10**9, dimension=TOKENS)
]
Growth = Annotated[
    float,
    BeforeValidator(reader(_growth)),
    _shown("share, may be negative", "2%"),
    Range(least=-0.99, most=1.0, dimension=FRACTION),
]
Ratio = Annotated[float, BeforeValidator(reader(_ratio)), _shown("ratio above 0", 1.5), Range(least=1e-6, most=1e6)]
Number = Annotated[float, BeforeValidator(reader(_number)), _shown("number", 2), Range(least=0.0, most=1e12)]
StartTime = Annotated[
    float,
    BeforeValidator(reader(_start)),
    _shown("duration, may be 0", "30s"),
    Range(least=0.0, most=100 * YEAR_S, dimension=DURATION),
]
Usd = Annotated[float, BeforeValidator(reader(_usd)), _shown("amount in USD, at most 10^13", "0.004 USD", number=False)]
PriceText = Annotated[
    Price, PlainValidator(reader(_bounded_price)), _shown("money per unit, at most 10^13", "3.29 USD/h", number=False)
]
MoneyText = Annotated[
    Money, PlainValidator(reader(_bounded_money)), _shown("amount of money, at most 10^13", "1200 USD", number=False)
]
PowerText = Annotated[
    float,
    PlainValidator(reader(_above_zero(POWER))),
    _shown("power", "6 kW", number=False),
    Range(least=1.0, most=1e9, dimension=POWER),
]
CountOrNone = Annotated[int, BeforeValidator(reader(_whole)), _COUNTED, Range(least=0, most=10**6)]
Count = Annotated[int, BeforeValidator(reader(_whole)), _COUNTED, Range(least=1, most=10**6)]
_TEXT = {"type": "string"}
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_several),
    WithJsonSchema(
        {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}], "description": "one or a list", "examples": ["aws"]}
    ),
]
Mix = Annotated[
    dict[str, Share],
    BeforeValidator(_mix),
    WithJsonSchema(
        {
            "anyOf": [_TEXT, {"type": "object"}],
            "description": "one or shares",
            "examples": ["on-demand", {"on-demand": "60%"}],
        }
    ),
]
