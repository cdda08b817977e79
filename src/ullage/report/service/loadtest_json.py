"""Load tests as JSON: every field of every point under its own name, the same bytes for the same file.

Single requests are counted, not listed; null is what a file does not say.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from ullage.service.loadtests.goodput import Goodput
from ullage.service.loadtests.loadtest import LatencySummary, LoadTest, Point

SCHEMA = "ullage.loadtest/1"


def loadtests_json(found: Sequence[tuple[LoadTest, tuple[tuple[Goodput, ...], ...]]]) -> dict[str, Any]:
    return {"schema": SCHEMA, "loadtests": [_loadtest(loadtest, goodputs) for loadtest, goodputs in found]}


def _loadtest(loadtest: LoadTest, goodputs: tuple[tuple[Goodput, ...], ...]) -> dict[str, Any]:
    inside = {
        each.name: _plain(getattr(loadtest, each.name))
        for each in dataclasses.fields(loadtest)
        if each.name != "points"
    }
    points = [_point(point, mine) for point, mine in zip(loadtest.points, goodputs, strict=True)]
    return {**inside, "points": points}


def _point(point: Point, goodputs: tuple[Goodput, ...]) -> dict[str, Any]:
    inside = {
        each.name: _plain(getattr(point, each.name)) for each in dataclasses.fields(point) if each.name != "requests"
    }
    return {
        **inside,
        "little_concurrency_count": point.little_concurrency_count,
        "request_count": len(point.requests),
        "goodputs": [_plain(each) for each in goodputs],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return {**inside, "formula": value.definition.formula} if isinstance(value, LatencySummary) else inside
    return value
