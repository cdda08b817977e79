"""A ledger as a page: a list of entries, one entry with its figures, or what an action did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.tables import plain_table

SHORT_DIGITS = 12


def entries_table(title: str, rows: Sequence[tuple[str, str, str, str, str, str]]) -> list[RenderableType]:
    """One line an entry: digest, kind, service, the day it is of, when it was kept, and what it says in short."""
    table = plain_table(title, "entry", "kind", "service", "as of", "kept", "summary")
    for digest, *rest in rows:
        table.add_row(digest[:SHORT_DIGITS], *rest)
    return [table]


def entry_page(title: str, content: Mapping[str, Any]) -> list[RenderableType]:
    """A plan by its figures; anything else by what stands at the top of it."""
    parts: list[RenderableType] = [Text(title, style="bold")]
    document = content.get("document", {})
    figures = document.get("figures", {}) if isinstance(document, Mapping) else {}
    table = plain_table("", "figure", "value", "evidence")
    for name, each in figures.items():
        table.add_row(name, show(each["value"], each["unit"]), each["evidence"])
    if figures:
        return [*parts, table]
    table = plain_table("", "what", "value")
    for key, value in content.items():
        table.add_row(key, str(value) if not isinstance(value, list | dict) else f"{len(value)} entries; see --json")
    return [*parts, table]


def damage_table(damage: Sequence[tuple[str, str]]) -> list[RenderableType]:
    table = plain_table("Damaged", "entry", "problem")
    for digest, problem in damage:
        table.add_row(digest[:SHORT_DIGITS], problem)
    return [table] if damage else []


def said(*sentences: str) -> list[RenderableType]:
    return [Text(each) for each in sentences if each]
