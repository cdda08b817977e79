"""Fields that are written with their unit: `ttft_p95: 500ms`, `rate: 12 req/s`, `price: 3.29 USD/h`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ullage.errors import InputError
from ullage.units import (
    BANDWIDTH,
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
)

T = TypeVar("T")


def _wrong(problem: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("quantity", "{problem}", {"problem": problem, "fix": fix})


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


def _usd(text: str, *, field: str) -> float:
    money = parse_money(text, field=field)
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


def _typed(dimension: Dimension) -> WithJsonSchema:
    return _shown(dimension.name, dimension.example)


Bandwidth = Annotated[float, BeforeValidator(reader(_above_zero(BANDWIDTH))), _typed(BANDWIDTH)]
Duration = Annotated[float, BeforeValidator(reader(_above_zero(DURATION))), _typed(DURATION)]
RequestRate = Annotated[float, BeforeValidator(reader(_above_zero(REQUEST_RATE))), _typed(REQUEST_RATE)]
TokenRate = Annotated[float, BeforeValidator(reader(_above_zero(TOKEN_RATE))), _typed(TOKEN_RATE)]
Share = Annotated[float, BeforeValidator(reader(_above_zero(FRACTION))), _typed(FRACTION)]
ShareOrNone = Annotated[
    float, BeforeValidator(reader(lambda text, field: parse(text, FRACTION, field=field))), _typed(FRACTION)
]
Tokens = Annotated[int, BeforeValidator(reader(_above_zero(TOKENS))), _typed(TOKENS)]
Growth = Annotated[float, BeforeValidator(reader(_growth)), _shown("share, may be negative", "2%")]
Ratio = Annotated[float, BeforeValidator(reader(_ratio)), _shown("ratio above 0", 1.5)]
StartTime = Annotated[float, BeforeValidator(reader(_start)), _shown("duration, may be 0", "30s")]
Usd = Annotated[float, BeforeValidator(reader(_usd)), _shown("amount in USD", "0.004 USD", number=False)]
PriceText = Annotated[Price, PlainValidator(reader(parse_price)), _shown("money per unit", "3.29 USD/h", number=False)]
MoneyText = Annotated[Money, PlainValidator(reader(parse_money)), _shown("amount of money", "1200 USD", number=False)]
PowerText = Annotated[
    float,
    PlainValidator(reader(lambda text, field: parse(text, POWER, field=field))),
    _shown("power", "6 kW", number=False),
]
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
