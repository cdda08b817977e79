"""Checks of a plan as a page and as JSON: mistakes, warnings, and what was compared to find them."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.planning.checks.checks import CHECKS
from ullage.planning.checks.result import CheckAnomaly, Checks, CheckSeverity
from ullage.planning.document import Plan
from ullage.planning.sheets import INPUT_SHEET, rows
from ullage.report.tables import plain_table

# What to state in place of a default that a plan turns on, by its row of the input sheet.
_ASKS = {
    "lengths": "State prompt and output of each class as percentiles, or give a log.",
    "cached share of prompts": "State cached_fraction of each class, or give a log with cached tokens or block hashes.",
}
_STYLES = {CheckSeverity.MISTAKE: "red", CheckSeverity.WARNING: "yellow"}


def check_page(plan: Plan, checks: Checks) -> list[RenderableType]:
    several = len(plan.pools) > 1
    mistakes, warnings = len(checks.mistakes), len(checks.warnings)
    parts: list[RenderableType] = [
        Text(f"Check of {plan.spec.name}: {_count(mistakes, 'mistake')}, {_count(warnings, 'warning')}", style="bold"),
        "",
    ]
    for each in checks.anomalies:
        parts += _anomaly(each, several=several)
    for row in rows(plan, INPUT_SHEET):
        if row.is_assumed_and_decides:
            parts.append(Text(f"Assumed, and it decides the plan: {row.what}. {_ASKS[row.what]}", style="yellow"))
    anomalies = [(pool.spec.name, one) for pool in plan.pools for one in pool.step_model.anomalies if one.is_decisive]
    parts += [
        Text.assemble(("evidence", "yellow"), f" {f'{name}: ' if several else ''}{one.sentence}")
        for name, one in anomalies
    ]
    table = plain_table("What was compared", "check", *(["pool"] if several else []), "found")
    for one in checks.results:
        table.add_row(one.name, *([one.pool or "all"] if several else []), one.compared)
    return [*parts, *([""] if checks.anomalies or anomalies else []), table]


def _anomaly(each: CheckAnomaly, *, several: bool) -> list[RenderableType]:
    where = f"{each.pool}: " if several and each.pool else ""
    line = Text(f"{each.weight}", style=_STYLES[each.weight])
    line.append(f" {each.name}: {where}{each.sentence}.", style="default")
    return [line, Text(f"  {each.fix}")]


def _count(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def check_list() -> Table:
    table = plain_table("Checks", "name", "looks for")
    for name, each in CHECKS.items():
        table.add_row(name, each.mistake)
    return table
