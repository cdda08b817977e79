"""Fields that are written with their unit: `ttft_p95: 500ms`, `rate: 12 req/s`."""

from __future__ import annotations

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


def _schema(dimension: Dimension) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": ["string", "number"], "description": f"A {dimension.name}.", "examples": [dimension.example]}
    )


Bandwidth = Annotated[float, BeforeValidator(_reader(BANDWIDTH)), _schema(BANDWIDTH)]
Duration = Annotated[float, BeforeValidator(_reader(DURATION)), _schema(DURATION)]
RequestRate = Annotated[float, BeforeValidator(_reader(REQUEST_RATE)), _schema(REQUEST_RATE)]
Share = Annotated[float, BeforeValidator(_reader(FRACTION)), _schema(FRACTION)]
Tokens = Annotated[int, BeforeValidator(_reader(TOKENS)), _schema(TOKENS)]
