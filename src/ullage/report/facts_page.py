"""Facts as tables in the terminal, and as JSON: each value with its range, its source and its age."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.evidence import Assumption
from ullage.facts.quantity import DIMENSIONS, FLAG_UNIT
from ullage.facts.sheet import FactRow, Sheet, SheetKind
from ullage.foreign import visible
from ullage.report.evidence_style import evidence_text
from ullage.report.foreign_parts import OwnLines
from ullage.report.quantity import show
from ullage.units import brief, brief_number

_DAY = datetime.timedelta(days=1)
# Driver totals differ in the fourth digit, and that is what a memory budget is about.
_DIGITS = 4
# Plain numbers in a list, and how many one of the column's unit is.
_PLAIN_SCALES = {"": 1.0, "10^9": 1e9}


def list_page(kind: SheetKind, sheets: Sequence[Sheet]) -> list[RenderableType]:
    """Many sheets, one line each; a value stands in the unit of its column."""
    columns = {
        key: unit
        for key, unit in kind.listed.items()
        if any(key in sheet.values or key in sheet.texts for sheet in sheets)
    }
    table = _table(kind.noun)
    for key, unit in columns.items():
        table.add_column(OwnLines(f"{visible(key.replace('_', ' '))}\n{visible(unit)}".strip()), overflow="fold")
    table.columns[0].no_wrap = True
    for column, unit in zip(table.columns[1:], columns.values(), strict=True):
        column.justify = "right" if unit else "left"
    for sheet in sheets:
        table.add_row(sheet.name, *(_listed(sheet, key, unit) for key, unit in columns.items()))
    return [table]


def _listed(sheet: Sheet, key: str, unit: str) -> str:
    fact = sheet.values.get(key)
    if fact is None or isinstance(fact.value, str):
        return sheet.texts.get(key, "") if fact is None else str(fact.value)
    scale = float(DIMENSIONS[fact.unit].spellings[unit]) if fact.unit in DIMENSIONS else _PLAIN_SCALES[unit]
    return brief_number(fact.value / scale, _DIGITS)


def one_page(kind: SheetKind, sheet: Sheet, as_of: datetime.date) -> list[RenderableType]:
    """One sheet: every value with range, evidence, source and age, then its rows, then its sources."""
    parts: list[RenderableType] = [_headline(sheet)]
    if sheet.values:
        table = _table("fact", "value", "range", "evidence", "source", "age")
        for key, fact in sheet.values.items():
            table.add_row(key, _value(fact), _range(fact), evidence_text(fact.evidence), *_origin(sheet, fact, as_of))
        parts += ["", table]
    for key in kind.rows:
        if key in sheet.rows:
            parts += ["", _rows_table(key, sheet, sheet.rows[key], as_of)]
    notes = [f"{key}: {note}" for key, note in sheet.notes.items()]
    notes += [f"{key}: {note}" for key, rows in sheet.rows.items() for row in rows for note in row.notes.values()]
    if notes:
        parts += ["", Text("Notes", style="bold"), *(Text(f"  {note}") for note in notes)]
    return [*parts, "", Text("Sources", style="bold"), *_source_lines(sheet)]


def _headline(sheet: Sheet) -> RenderableType:
    text = OwnLines(visible(f"{sheet.name}: {sheet.texts.get('title', '')}"), style="bold")
    about = [f"{key} {value}" for key, value in sheet.texts.items() if key != "title"]
    about += [f"aliases: {', '.join(sheet.aliases)}"] if sheet.aliases else []
    return text.append("".join(f"\n{visible(line)}" for line in about), style="not bold")


def _rows_table(key: str, sheet: Sheet, rows: Sequence[FactRow], as_of: datetime.date) -> RenderableType:
    texts = list(dict.fromkeys(name for row in rows for name in row.texts))
    values = list(dict.fromkeys(name for row in rows for name in row.values))
    main = [_main_fact(row) for row in rows]
    has_range = any(_range(fact) for fact in main if fact is not None)
    headers = (*texts, *values, *(["range"] if has_range else []), *(["source", "age"] if any(main) else []))
    table = _table(*(name.replace("_", " ") for name in headers))
    table.title, table.title_justify, table.title_style = key.replace("_", " "), "left", "bold"
    for row, fact in zip(rows, main, strict=True):
        cells = [row.texts.get(name, "") for name in texts]
        cells += [_value(row.values[name]) if name in row.values else "" for name in values]
        if fact is not None:
            cells += [*([_range(fact)] if has_range else []), *_origin(sheet, fact, as_of)]
        table.add_row(*cells)
    return table


def _main_fact(row: FactRow) -> Assumption | None:
    """The fact whose range and source a row shows: its `value`, or its first; parts may have none of their own."""
    return row.values.get("value", next(iter(row.values.values()), None))


def _origin(sheet: Sheet, fact: Assumption, as_of: datetime.date) -> tuple[str, str]:
    stale = ", past its maximum" if fact.is_stale(as_of) else ""
    return f"[{_sources(sheet).index(fact.source) + 1}]", f"{fact.age(as_of) // _DAY} d{stale}"


def _source_lines(sheet: Sheet) -> list[RenderableType]:
    return [
        Text(f"  [{number}] {source.what}; {source.where}; {source.date.isoformat()}")
        for number, source in enumerate(_sources(sheet), 1)
    ]


def _sources(sheet: Sheet) -> list[Any]:
    facts = [
        *sheet.values.values(),
        *(fact for rows in sheet.rows.values() for row in rows for fact in row.values.values()),
    ]
    return list(dict.fromkeys(fact.source for fact in facts))


def _value(fact: Assumption) -> str:
    return _shown(fact.value, fact.unit)


def _range(fact: Assumption) -> str:
    if fact.low is None or fact.high is None:
        return ""
    return f"{_shown(fact.low, fact.unit)} to {_shown(fact.high, fact.unit)}"


def _shown(value: int | float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    if unit in DIMENSIONS:
        return brief(value, DIMENSIONS[unit], _DIGITS)
    if unit == FLAG_UNIT:
        return "yes" if value else "no"
    if unit in ("count", "ratio"):
        return brief_number(value, _DIGITS)
    return show(value, unit)


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header, overflow="fold")
    return table
