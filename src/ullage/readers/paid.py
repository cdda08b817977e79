"""What was really paid in a stretch of time: FOCUS, an AWS Cost and Usage Report, Azure's cost files, OpenCost.

    FOCUS      CSV with ChargePeriodStart, EffectiveCost, BillingCurrency
    AWS CUR    CSV with line_item_usage_start_date, line_item_unblended_cost, line_item_currency_code: as invoiced, so
               that an up-front fee counts whole where it is charged
    Azure      CSV of an export or of cost analysis, in English or German (azure_costs.py)
    OpenCost   {"data": [{"name": {"window": {"start": ...}, "totalCost": 12.3}, ...}, ...]}

A charge counts where its period begins inside the stretch. Rows that cannot be read are an error, not 0.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.bounded import bounded_bytes
from ullage.documents import json_value
from ullage.errors import InputError
from ullage.readers.azure_costs import cost_columns, day_reader, plain_amount
from ullage.readers.billing_exports import CUR_COLUMNS, export_named
from ullage.readers.traces.numerals import decimal_mark

_FIX = (
    "Give a FOCUS export, an AWS Cost and Usage Report or an Azure cost export as CSV, or the JSON of OpenCost's "
    "/allocation."
)
_COLUMNS = ("ChargePeriodStart", "EffectiveCost", "BillingCurrency")


@dataclass(frozen=True, kw_only=True)
class PaidCharges:
    """The sum of the charges that begin in a stretch, how many they are, and how many lie outside it."""

    usd: float
    charges: int
    outside_charges: int


def read_paid(path: Path, *, start_s: float, end_s: float) -> PaidCharges:
    """What was paid between two times, in seconds since 1970."""
    try:
        data = bounded_bytes(path, fix="Give the bill of these days alone.")
    except OSError as error:
        raise InputError(field=str(path), value=str(error), problem="cannot be read", fix="Check the path.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Spreadsheets save CSV in Windows' own letters, of which only those of a header matter here.
        text = data.decode("cp1252", errors="replace")
    try:
        charges = list(_allocations(text, path.name) if text.lstrip().startswith("{") else _rows(text, path.name))
    except csv.Error as error:
        raise InputError(field=path.name, value=str(error), problem="is not CSV", fix=_FIX) from None
    if not charges:
        raise InputError(field=path.name, value="", problem="has no charges", fix=_FIX)
    inside = [usd for at, usd in charges if start_s <= at.timestamp() < end_s]
    if not inside:
        first = min(at for at, _ in charges)
        problem = f"has no charge in this stretch; its first is of {first.date().isoformat()}"
        raise InputError(field=path.name, value=len(charges), problem=problem, fix="Give the bill of these days.")
    return PaidCharges(usd=math.fsum(inside), charges=len(inside), outside_charges=len(charges) - len(inside))


def _rows(text: str, file: str) -> Iterator[tuple[datetime.datetime, float]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    # Each of the line ends that files have; Python's own for a text leaves a lone carriage return in a cell.
    rows = csv.DictReader(io.StringIO(text, newline=None), delimiter=delimiter)
    header = rows.fieldnames or ()
    columns = next((each for each in CUR_COLUMNS if {*each} <= {*header}), _COLUMNS)
    missing = [each for each in columns if each not in header]
    if missing and cost_columns(header) is not None:
        yield from _azure_rows(rows, delimiter, file)
        return
    if missing:
        export = export_named(header)
        problem = "is not among its columns" if export is None else f"is not among its columns: it is {export.what}"
        raise InputError(field=file, value=missing[0], problem=problem, fix=_FIX if export is None else export.fix)
    begins, cost, currency = columns
    for row in rows:
        where = f"{file}:{rows.line_num}"
        _refuse_other_currency(row[currency], where)
        yield _time(row[begins], where), _amount(row[cost], where)


def _azure_rows(rows: csv.DictReader[str], delimiter: str, file: str) -> Iterator[tuple[datetime.datetime, float]]:
    columns = cost_columns(rows.fieldnames or ())
    assert columns is not None
    listed = [(row, f"{file}:{rows.line_num}") for row in rows]
    read_day = day_reader([row[columns.begins] or "" for row, _ in listed])
    mark = decimal_mark([row[columns.cost] or "" for row, _ in listed], whole=False, delimiter=delimiter)
    for row, where in listed:
        if columns.currency is not None:
            _refuse_other_currency(row[columns.currency], where)
        try:
            begins = read_day(row[columns.begins] or "")
        except ValueError:
            raise InputError(field=where, value=row[columns.begins], problem="is not a time", fix=_FIX) from None
        begins = begins if begins.tzinfo is not None else begins.replace(tzinfo=datetime.UTC)
        yield begins, _amount(plain_amount(row[columns.cost] or "", mark), where)


def _refuse_other_currency(currency: str | None, where: str) -> None:
    if currency != "USD":
        fix = "Give the export in USD; Azure's cost analysis adds a column CostUSD."
        raise InputError(field=where, value=currency, problem="is not USD", fix=fix)


def _allocations(text: str, file: str) -> Iterator[tuple[datetime.datetime, float]]:
    found = json_value(text, file=file, fix=_FIX)
    sets = found.get("data") if isinstance(found, Mapping) else None
    if not isinstance(sets, list):
        raise InputError(field=file, value="", problem="has no data of an allocation", fix=_FIX)
    for index, each in enumerate(sets):
        if not isinstance(each or {}, Mapping):
            raise InputError(
                field=f"{file}: data[{index}]", value=str(each)[:40], problem="is no allocations", fix=_FIX
            )
        for name, one in (each or {}).items():
            where = f"{file}: data[{index}].{name}"
            if not isinstance(one, Mapping):
                raise InputError(field=where, value=str(one)[:40], problem="is not an allocation", fix=_FIX)
            window: Any = one.get("window") or {}
            if not isinstance(window, Mapping):
                raise InputError(field=where, value=str(window)[:40], problem="is no stretch of time", fix=_FIX)
            yield _time(window.get("start") or one.get("start"), where), _amount(one.get("totalCost"), where)


def _time(value: Any, where: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        raise InputError(field=where, value=value, problem="is not a time", fix=_FIX) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def _amount(value: Any, where: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(field=where, value=value, problem="is not an amount", fix=_FIX)
    return found
