"""The kernel's state for uncompiled runs: Python's integers, read and written in place, faster than numpy's records."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ullage.simulate.kernel.records import fields_of
from ullage.simulate.kernel.state import World


def on_plain_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """An entry point of the uncompiled kernel that takes the driver's World and works on plain views of it."""

    def run(world: Any, *given: int) -> Any:
        if not hasattr(world, "plain"):
            world.plain = plain_state(world)
        return function(world.plain, *given)

    return run


def plain_state(world: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: _plain(getattr(world, name)) for name in fields_of(World)})


def _plain(value: Any) -> Any:
    """Numbers stay, arrays of numbers become views of the same memory, records objects whose fields are such views."""
    if isinstance(value, int):
        return value
    if isinstance(value, np.void):
        return _rows(np.asarray(value).reshape(1))[0]
    return value.data if value.dtype.names is None else _rows(value)


def _rows(records: Any) -> list[Any]:
    names = records.dtype.names
    columns: dict[str, Any] = {name: np.asarray(records[name]).data for name in names}
    row = type("Row", (), {"__slots__": ("place",), **{name: _field(columns[name]) for name in names}})
    made = []
    for place in range(len(records)):
        each: Any = row()
        each.place = place
        made.append(each)
    return made


def _field(column: Any) -> property:
    def read(row: Any) -> Any:
        return column[row.place]

    def write(row: Any, value: Any) -> None:
        column[row.place] = value

    return property(read, write)
