"""The tables that close a plan: input sheet, questions, margins, scorecard, assumptions, what is not guaranteed."""

from __future__ import annotations

import datetime
import re

from rich.console import RenderableType
from rich.text import Text

from ullage.evidence import Assumption, Evidence, Figure, number
from ullage.foreign import visible
from ullage.planning.answer.answer import answer
from ullage.planning.document import Plan
from ullage.planning.margins import Margins
from ullage.planning.not_guaranteed import not_guaranteed
from ullage.planning.sheets import INPUT_SHEET, QUESTIONS, SCORECARD, SheetRow, rows
from ullage.report.evidence_style import evidence_text
from ullage.report.foreign_parts import OwnLines
from ullage.report.quantity import show
from ullage.report.tables import plain_table

_DAY = datetime.timedelta(days=1)
_UNIT_WORDS = re.compile(r"_(s|rps|bytes|tokens|fraction|ratio|usd|replicas)$")
# More figures than this in one cell are a table of their own, which --all prints.
_SHOWN = 6


def input_sheet(plan: Plan) -> list[RenderableType]:
    """Rows that decide a plan, each with its evidence, source and age, and whether a default stands in."""
    table = plain_table("Input sheet", "input", "value", "evidence", "least certain", "source", "date", "default")
    for row in rows(plan, INPUT_SHEET):
        source, weakest = row.source, row.weakest
        table.add_row(
            row.what,
            _values(row, separator="\n", with_names=True),
            "" if row.evidence is None else evidence_text(row.evidence),
            "" if weakest is None else weakest.name,
            "" if source is None else source.what.split(":")[0],
            "" if source is None else source.date.isoformat(),
            _default(row),
        )
    return ["", table]


def _default(row: SheetRow) -> str:
    if row.is_assumed_and_decides:
        return "assumed: decides the plan"
    return "" if not row.figures else "in part" if row.is_defaulted else "no"


def questions(plan: Plan) -> list[RenderableType]:
    """The eight questions, each answered by figures that can be explained."""
    table = plain_table("Questions a plan must answer", "question", "answer", "evidence")
    for row in rows(plan, QUESTIONS):
        evidence = "" if row.evidence is None else evidence_text(row.evidence)
        table.add_row(row.what, _values(row, separator="\n", with_names=True), evidence)
    return ["", table]


def scorecard(plan: Plan) -> list[RenderableType]:
    """What operations will watch, with the planned fleet at the planning rate."""
    table = plain_table("Scorecard", "what", "value", "evidence")
    for row in rows(plan, SCORECARD):
        evidence = "" if row.evidence is None else evidence_text(row.evidence)
        table.add_row(row.what, _values(row, separator=", "), evidence)
    return ["", table]


def margins(plan: Plan) -> list[RenderableType]:
    """Where a margin is taken, how large, why, and what it costs; none stands in two places."""
    table = plain_table("Margins", "where", "size", "why", "costs", "evidence")
    for stage in plan.stages:
        if not isinstance(stage.answer, Margins):
            continue
        for row in stage.answer.rows:
            where = f"{row.where} of {stage.pool}" if stage.pool else row.where
            cost = "" if row.cost is None else show(row.cost.value, row.cost.unit)
            table.add_row(
                where, show(row.size.value, row.size.unit), row.reason, cost, evidence_text(row.size.evidence)
            )
    return ["", table]


def basis_table(plan: Plan) -> list[RenderableType]:
    """What the risk hangs on, by influence, with how it is known, how old it is, and whose it is."""
    table = plain_table(
        "What moves the plan most", "input", "explains", "evidence", "age", "maximum age", "drifted by", "owner"
    )
    for each in answer(plan).bases:
        past = " (past)" if each.is_past else ""
        table.add_row(
            each.name.replace("_", " "),
            "" if each.influence is None else f"{100 * number(each.influence):.0f} %",
            evidence_text(each.evidence),
            f"{each.age_days} d{past}",
            "" if each.max_age_days is None else f"{each.max_age_days} d",
            "" if each.drift is None else f"{100 * number(each.drift):.2g} %",
            visible(", ".join([*each.owners, *(f"no owner: {key}" for key in each.unowned)])),
        )
    return ["", table]


def assumption_table(plan: Plan) -> list[RenderableType]:
    """What stands in for something nobody stated or measured, or is too old: every default behind a figure."""
    defaults = [each for each in plan.assumptions if each.evidence is Evidence.ASSUMED]
    owners = plan.spec.owners
    owned = ("owner",) if owners.are_given else ()
    title = "Assumed: neither stated nor measured"
    table = plain_table(title, "name", "value", "range", "source", "age", *owned)
    for each in defaults:
        cells = (each.name, show(each.value, each.unit), _range(each), each.source.what, _age(each, plan.as_of))
        table.add_row(*cells, *([visible(owners.of_input(each.name) or "")] if owned else []))
    return ["", table] if defaults else []


def not_guaranteed_list(plan: Plan) -> list[RenderableType]:
    """What may change without the plan being wrong."""
    lines: list[RenderableType] = ["", Text("Not guaranteed here", style="bold")]
    for each in not_guaranteed(plan):
        about = each.rests_on
        dated = "" if about is None else f" ({about.name}: {show(about.value, about.unit)}, {_age(about, plan.as_of)})"
        lines.append(Text(f"- {each.what}{dated}"))
    return lines


def _values(row: SheetRow, *, separator: str, with_names: bool = False) -> Text:
    text = OwnLines()
    shown = row.figures[:_SHOWN]
    for index, each in enumerate(shown):
        if index:
            text.append(separator)
        text.append(visible(_value(each, with_names)))
    if len(row.figures) > len(shown):
        text.append(f"{separator}and {len(row.figures) - len(shown)} more: --all", style="dim")
    for missing in row.missing:
        text.append(f"{separator if text.plain else ''}{visible(missing)}", style="dim")
    return text


def _value(each: Figure | Assumption, with_name: bool) -> str:
    shown = show(each.value, each.unit)
    # The row says what it is about and the value what unit it has; the words between tell its figures apart.
    words = _UNIT_WORDS.sub("", each.name.partition(".")[2]).replace("_", " ").replace(".", " ")
    return f"{words} {shown}" if with_name else shown


def _range(each: Assumption) -> str:
    if each.low is None or each.high is None or each.low == each.high:
        return ""
    return f"{show(each.low, each.unit)} to {show(each.high, each.unit)}"


def _age(each: Assumption, as_of: datetime.date) -> str:
    stale = " (past its maximum age)" if each.is_stale(as_of) else ""
    return f"{each.age(as_of) // _DAY} d{stale}"
