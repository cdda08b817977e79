"""A page before it is printed: no name of somebody else's in it can act on a terminal or begin a line of its own.

Every page passes here once, whichever way it goes out. A part of a kind that is not known here is a fault of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ullage.foreign import visible


class OwnLines(Text):
    """A text whose line ends are ours. Whatever is put into it must be `visible` before."""


def seen_parts(parts: Iterable[RenderableType]) -> list[RenderableType]:
    """The parts, with every text in them on one line and visible; tables and trees are mended in place."""
    return [_seen(each) for each in parts]


def _seen(part: RenderableType) -> RenderableType:
    if isinstance(part, OwnLines):
        return part
    if isinstance(part, str):
        return Text(visible(part))
    if isinstance(part, Text):
        part.plain = visible(part.plain)
        return part
    if isinstance(part, Padding):
        return Padding(_seen(part.renderable), (part.top, part.right, part.bottom, part.left))
    if isinstance(part, Table):
        return _seen_table(part)
    if isinstance(part, Tree):
        part.label = _seen(part.label)
        part.children = [each for child in part.children if isinstance(each := _seen(child), Tree)]
        return part
    if hasattr(part, "lines"):
        # The screen of a plan makes its lines for the width it finds, each of visible text.
        return part
    raise TypeError(f"{type(part).__name__} is no part of a page: say in report/foreign_parts.py how it is seen")


def _seen_table(table: Table) -> Table:
    for name in ("title", "caption"):
        shown = getattr(table, name)
        setattr(table, name, None if shown is None else _seen(shown))
    for column in table.columns:
        column.header = _seen(column.header)
        # rich has no other way to change the cells of a table that is made.
        column._cells = [_seen(each) for each in column._cells]  # noqa: SLF001
    return table
