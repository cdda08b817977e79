"""Drills as a page and as JSON: verdict and figure in a table, what was played and what would pass below it."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.evidence import Figure
from ullage.planning.document import Plan
from ullage.planning.drills.drills import DRILLS
from ullage.planning.drills.result import DrillResult, Drills, DrillVerdict
from ullage.report.quantity import show
from ullage.report.tables import plain_table

_STYLES = {
    DrillVerdict.PASSES: "green",
    DrillVerdict.UNDECIDED: "yellow",
    DrillVerdict.FAILS: "red",
    DrillVerdict.NOT_PLAYED: "dim",
}


def drill_page(plan: Plan, drills: Drills) -> list[RenderableType]:
    failed = len(drills.failed)
    played = sum(each.verdict is not DrillVerdict.NOT_PLAYED for each in drills.results)
    several = len(plan.pools) > 1
    title = f"Drills on the plan for {plan.spec.name}: {failed} of {played} fail"
    table = plain_table(
        title, *(["pool"] if several else []), "drill", "figure", "before", "during", "wanted", "verdict"
    )
    for each in drills.results:
        table.add_row(
            *([each.pool or "all"] if several else []),
            each.title,
            each.figure,
            _shown(each.before),
            _shown(each.during),
            each.wanted,
            Text(str(each.verdict), style=_STYLES[each.verdict]),
        )
    parts: list[RenderableType] = [table, ""]
    for each in drills.results:
        parts += _lines(each, several=several)
    parts += ["", *(Text(f"Note: {note}", style="dim") for note in drills.notes)]
    return parts


def _lines(each: DrillResult, *, several: bool) -> list[RenderableType]:
    where = f"{each.pool}: " if several and each.pool else ""
    found: list[RenderableType] = [Text(f"{where}{each.title}: {each.played}")]
    if each.change:
        found.append(Text(f"  Would pass: {each.change}."))
    return found


def _shown(figure: Figure | None) -> str:
    return "-" if figure is None else show(figure.value, figure.unit)


def drill_list() -> Table:
    table = plain_table("Drills", "name", "asks")
    for name, each in DRILLS.items():
        table.add_row(name, each.asks)
    return table
