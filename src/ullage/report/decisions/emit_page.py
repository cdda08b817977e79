"""What was emitted as a page: the files, and what of a folder is not as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.report.tables import plain_table


def emit_page(
    origin: str, lines: Mapping[str, int], compared: str, drift: Sequence[tuple[str, str, str, str]]
) -> list[RenderableType]:
    """The files by name with their lines; `drift` is object, value, planned and there."""
    table = plain_table(f"Files from {origin}", "file", "lines")
    for name, count in lines.items():
        table.add_row(name, str(count))
    if not compared:
        return [table]
    if not drift:
        return [table, "", Text(f"{compared} matches the plan.")]
    differs = plain_table(f"Differs from the plan in {compared}", "object", "value", "planned", "there")
    for row in drift:
        differs.add_row(*row)
    return [table, "", differs]


def target_list(gives: Mapping[str, str]) -> Table:
    table = plain_table("Targets", "name", "gives")
    for name, each in gives.items():
        table.add_row(name, each)
    return table
