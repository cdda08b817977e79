"""A page as Markdown, for a merge request or a wiki: the same parts in the same order as in the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.foreign import markdown
from ullage.report.foreign_parts import seen_parts


def to_markdown(parts: Iterable[RenderableType]) -> str:
    """Tables become tables, bold lines headings, other text paragraphs; one input gives the same bytes."""
    blocks = [block for part in seen_parts(parts) if (block := _block(part))]
    return "\n\n".join(blocks) + "\n"


def _block(part: RenderableType) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Text):
        return _text(part)
    return markdown(str(part)).strip()


def _text(text: Text) -> str:
    if "\n" in text.plain.strip() and _is_drawing(text.plain):
        return fenced(text.plain.strip("\n"))
    lines = [markdown(line.rstrip()) for line in text.plain.strip().splitlines()]
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
    return markdown(plain.strip()).replace("|", "\\|").replace("\n", "<br>")


def fenced(text: str) -> str:
    """Text as it stands, in a fence that no run of backticks inside it can close.

    >>> fenced("a ``` b").splitlines()[0]
    '````text'
    """
    longest = max((len(each) for each in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def details(summary: str, body: str) -> str:
    """A part that opens on a click; the blank lines make Markdown of what is inside."""
    return f"<details><summary>{markdown(summary)}</summary>\n\n{body.strip()}\n\n</details>"


def _is_drawing(plain: str) -> bool:
    """Charts are drawn in blocks, braille and box characters, and keep their columns only in a code block."""
    return any("\u2500" <= each <= "\u259f" or "\u2800" <= each <= "\u28ff" for each in plain)
