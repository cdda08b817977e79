"""A page as Markdown, for a merge request or a wiki: the same parts in the same order as in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


def to_markdown(parts: Iterable[RenderableType]) -> str:
    """Tables become tables, bold lines headings, other text paragraphs; one input gives the same bytes."""
    blocks = [block for part in parts if (block := _block(part))]
    return "\n\n".join(blocks) + "\n"


def _block(part: RenderableType) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Text):
        return _text(part)
    return _escaped(str(part)).strip()


def _text(text: Text) -> str:
    if "\n" in text.plain.strip() and _is_drawing(text.plain):
        return "```text\n" + text.plain.strip("\n") + "\n```"
    lines = [_escaped(line.rstrip()) for line in text.plain.strip().splitlines()]
    if not lines:
        return ""
    if str(text.style) == "bold":
        return "\n\n".join([f"## {lines[0]}", *lines[1:]])
    return "\n".join(lines)


def _table(table: Table) -> str:
    columns = [[_cell(cell) for cell in column.cells] for column in table.columns]
    head = [_cell(column.header) for column in table.columns]
    rows = [f"| {' | '.join(cells)} |" for cells in zip(*columns, strict=True)]
    title = [] if table.title is None else [f"## {_cell(table.title)}", ""]
    return "\n".join([*title, f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *rows])


def _cell(cell: RenderableType) -> str:
    plain = cell.plain if isinstance(cell, Text) else str(cell)
    return _escaped(plain.strip()).replace("|", "\\|").replace("\n", "<br>")


def _escaped(plain: str) -> str:
    """Only what would change the meaning of our own texts: emphasis and HTML."""
    return plain.replace("*", "\\*").replace("<", "&lt;")


def _is_drawing(plain: str) -> bool:
    """Charts are drawn in blocks, braille and box characters, and keep their columns only in a code block."""
    return any("\u2500" <= each <= "\u259f" or "\u2800" <= each <= "\u28ff" for each in plain)
