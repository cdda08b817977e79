"""A page as text to compare with: a line for each part and each row, with its styles, whatever the terminal's width.

A page that changed on purpose is written into its test by `ULLAGE_PAGES=write pytest tests/report`, and read there line
by line before it is committed: every number and text is named by the field it must come from (made_up.py).
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Iterable
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ullage.verbs.answer import VerbAnswer

_WIDTH = 112
_MOST_SPANS = 4


def page_text(parts: Iterable[RenderableType]) -> str:
    """Long lines go on below, indented by two."""
    lines = [line for part in parts for line in _lines(part)]
    return "\n".join(
        textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in lines
    ).strip()


def _lines(part: RenderableType) -> list[str]:
    if isinstance(part, Padding):
        return _lines(part.renderable)
    if isinstance(part, Group):
        return [line for each in part.renderables for line in _lines(each)]
    if not isinstance(part, Table):
        return _shown(part).splitlines() or [""]
    rows = zip(*(each.cells for each in part.columns), strict=True)
    shown = [[_shown(each.header) for each in part.columns], *([_shown(each) for each in row] for row in rows)]
    title = [] if part.title is None else [f"# {part.title if isinstance(part.title, str) else part.title.plain}"]
    return [*title, *(" | ".join(cells).rstrip() for cells in shown)]


def _shown(part: RenderableType) -> str:
    if isinstance(part, Text):
        # Every sign of a chart has a style of its own.
        return (part.markup if len(part.spans) <= _MOST_SPANS else part.plain).rstrip()
    assert isinstance(part, str), type(part)
    return part.rstrip()


def check_page(parts: Iterable[RenderableType], shown: str) -> None:
    text = page_text(parts)
    if os.environ.get("ULLAGE_PAGES") == "write" and text != textwrap.dedent(shown).strip():
        _write(shown, text)
    assert text == textwrap.dedent(shown).strip()


def _write(shown: str, text: str) -> None:
    """Put the text in the place of what the test that asked has; it fails this once more."""
    asked = next(each for each in inspect.stack() if Path(each.filename).name.startswith("test_"))
    file = Path(asked.filename)
    lines = file.read_text().splitlines()
    held = next(
        node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant) and node.value == shown
    )
    assert held.end_lineno is not None
    indent = " " * (len(lines[held.lineno]) - len(lines[held.lineno].lstrip()))
    body = [f"{indent}{line}".rstrip() for line in text.splitlines()]
    lines[held.lineno : held.end_lineno - 1] = body
    file.write_text("\n".join(lines) + "\n")


def check_answer(answer: VerbAnswer, shown: str) -> None:
    """Its headlines in a line, and its page."""
    headlines = "; ".join(f"{each.name}: {each.text}" for each in answer.headlines())
    check_page([headlines, *answer.page()], shown)
