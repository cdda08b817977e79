"""Fields that are written with their unit: `ttft_p95: 500ms`, `rate: 12 req/s`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ullage.errors import InputError
from ullage.units import BANDWIDTH, DURATION, FRACTION, REQUEST_RATE, TOKENS, Dimension, parse


def _reader(dimension: Dimension) -> Callable[[Any], float]:
    def read(written: Any) -> float:
        if not isinstance(written, str):
            written = str(written)
        try:
            value = parse(written, dimension, field="")
        except InputError as error:
            raise PydanticCustomError("quantity", "{problem}", {"problem": error.problem, "fix": error.fix}) from None
        if value <= 0:
            fix = f"Give a {dimension.name}, for example {dimension.example}."
            raise PydanticCustomError("quantity", "{problem}", {"problem": "must be greater than 0", "fix": fix})
        return value

    return read


def _growth(written: Any) -> float:
    """A share that may be negative: traffic can shrink."""
    text = str(written).strip()
    sign = -1.0 if text.startswith("-") else 1.0
    try:
        return sign * parse(text.lstrip("+-").strip(), FRACTION, field="")
    except InputError as error:
        problem = error.problem.replace("is more than", "is a change of more than")
        fix = "Give a share, for example 2% or -2%."
        raise PydanticCustomError("quantity", "{problem}", {"problem": problem, "fix": fix}) from None


def _ratio(written: Any) -> float:
    try:
        value = float(str(written))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        fix = "Give a number above 0, for example 1.5."
        raise PydanticCustomError("quantity", "{problem}", {"problem": "is not a ratio", "fix": fix})
    return value


def _schema(dimension: Dimension) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": ["string", "number"], "description": f"A {dimension.name}.", "examples": [dimension.example]}
    )


Bandwidth = Annotated[float, BeforeValidator(_reader(BANDWIDTH)), _schema(BANDWIDTH)]
Duration = Annotated[float, BeforeValidator(_reader(DURATION)), _schema(DURATION)]
RequestRate = Annotated[float, BeforeValidator(_reader(REQUEST_RATE)), _schema(REQUEST_RATE)]
Growth = Annotated[
    float,
    BeforeValidator(_growth),
    WithJsonSchema({"type": ["string", "number"], "description": "A share, may be negative.", "examples": ["2%"]}),
]
Ratio = Annotated[
    float,
    BeforeValidator(_ratio),
    WithJsonSchema({"type": ["string", "number"], "description": "A ratio above 0.", "examples": [1.5]}),
]
Share = Annotated[float, BeforeValidator(_reader(FRACTION)), _schema(FRACTION)]
Tokens = Annotated[int, BeforeValidator(_reader(TOKENS)), _schema(TOKENS)]
