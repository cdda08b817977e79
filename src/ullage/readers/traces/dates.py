"""Times as people's tools write them: a macro that reads one, and which of day and month comes first in a whole file.

    2026-11-18T13:05:00Z   2026-11-18 01:05:00 PM   20261118T130500Z   20261118130500   2026-11-18 13:05:00,123
    18/11/2026 13:05       11/18/2026 1:05 PM       18.11.26 13:05     18-11-2026 13:05:00
    18/Nov/2026:13:05:00 +0000   18 Nov 2026 13:05   Nov 18, 2026, 1:05:00 PM   Wed, 18 Nov 2026 13:05:00 GMT

`02/11/2026` is the second of November or the eleventh of February, and no row can say which: the file does. A field
above 12 proves an order; else the reading under which days follow each other, where the other leaves gaps of months.
Where both remain, the file is refused with both readings, until a mapping names one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ullage.errors import InputError
from ullage.readers.traces.sql import text
from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# What a mapping may call a time whose order of day and month the user knows.
ORDERS = {"arrival_day_first": "day", "arrival_month_first": "month"}
# Set on the connection once it is known, as the zone is.
_VARIABLE = "ullage_date_order"
_NUMERIC = r"^(\d{1,2})([/.-])(\d{1,2})[/.-](\d{4}|\d{2})(?:[ ,T]+(.*))?$"
_HAS_MONTH = r"(?i)(?:^|[ /-])(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?[ /-]"
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
# What is written differently and means the same, put right step by step: browsers write a narrow space before PM,
# access logs write brackets around times; the day of the week, a comma before the fraction, half days, offsets' names.
_SAME = (
    (r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +", ""),
    (r"(:\d\d),(\d)", r"\1.\2"),
    (r"(?i) ?([ap])\.?m\.?$", r" \1M"),
    (r"(?i) (?:gmt|utc)( \d{4})?$", r" UTC\1"),
    (r" ([+-]\d\d):?(\d\d)(?: [A-Z]{3,4})?$", r"\1:\2"),
    # 20261118130500 and 20261118T130500Z.
    (r"^(\d{4})(\d\d)(\d\d)[T ]?(\d\d)(\d\d)(\d\d)", r"\1-\2-\3 \4:\5:\6"),
)
# A month by its name, put where the day comes first: 18 Nov 2026; Nov 18, 2026; and ctime's Nov 18 13:05:00 2026.
_NAMED = (
    (r"^[A-Za-z]+\.? +(\d{1,2}) +(\d\d:.*) (\d{4})$", r"\3-MM-\1 \2"),
    (r"^[A-Za-z]+\.? +(\d{1,2}),? +(\d{4}),?(?: at)?", r"\2-MM-\1"),
    (r"^(\d{1,2})[ /-][A-Za-z]+\.?[ /,-]+(\d{4})[ ,:T]*", r"\2-MM-\1 "),
)
# The order of day and month is settled on the connection; points between them always mean day first.
_POINTS = (
    (r"^(\d{1,2})\.(\d{1,2})\.(\d{4}|\d\d)\b", r"\3-\2-\1"),
    (r"^(\d\d)-(\d{1,2}-\d{1,2})\b", r"20\1-\2"),
)
_ORDERED = {"day": r"\3-\2-\1", "month": r"\3-\1-\2"}
_HALF_DAYS = "['%Y-%m-%d %I:%M:%S.%f %p', '%Y-%m-%d %I:%M:%S %p', '%Y-%m-%d %I:%M %p', '%Y-%m-%d %I %p']"
# Days that follow each other fill their span; those of a reading that is wrong stand a month apart.
_FILLED_FRACTION = 0.5
_SPARSE_FRACTION = 0.1


def _replaced(written: str, steps: Sequence[tuple[str, str]]) -> str:
    for pattern, same in steps:
        written = f"regexp_replace({written}, {text(pattern)}, {text(same)})"
    return written


def define(connection: DuckDBPyConnection) -> None:
    """`ullage_epoch(text)`: seconds since 1970; NULL for what is no time. Without a zone, in the connection's."""
    order = (
        f"CASE getvariable('{_VARIABLE}') WHEN 'month' THEN {text(_ORDERED['month'])} ELSE {text(_ORDERED['day'])} END"
    )
    slashes = rf"regexp_replace(written, '^(\d{{1,2}})[/-](\d{{1,2}})[/-](\d{{4}}|\d\d)\b,?', {order})"
    number = rf"((instr('{_MONTHS}', lower(regexp_extract(written, {text(_HAS_MONTH)}, 1))) + 2) // 3)"
    macros = {
        "ullage_tidy(raw)": _replaced("trim(translate(raw, chr(8239) || chr(160), '  '), ' []')", _SAME),
        "ullage_month(written)": f"replace({_replaced('written', _NAMED)}, 'MM', CAST({number} AS VARCHAR))",
        "ullage_ordered(written)": _replaced(slashes, _POINTS),
        "ullage_iso(written)": "COALESCE(epoch(TRY_CAST(written AS TIMESTAMPTZ)), "
        f"epoch(CAST(TRY_STRPTIME(upper(written), {_HALF_DAYS}) AS TIMESTAMPTZ)))",
        # A lambda binds its argument once, where a macro would repeat it wherever it is named.
        "ullage_other(raw)": "list_transform(list_transform([ullage_tidy(raw)], lambda written: "
        f"CASE WHEN regexp_matches(written, {text(_HAS_MONTH)}) THEN ullage_month(written) "
        "ELSE ullage_ordered(written) END), lambda written: ullage_iso(written))[1]",
        # DuckDB takes 02/11/26 for a day in the year 2; whatever does not begin with a year is put right first.
        "ullage_epoch(raw)": "COALESCE(CASE WHEN substr(raw, 5, 1) IN ('-', '/') "
        "THEN epoch(TRY_CAST(raw AS TIMESTAMPTZ)) END, ullage_other(raw))",
    }
    for signature, body in macros.items():
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {signature} AS {body}")


def state_order(connection: DuckDBPyConnection, mapping: Mapping[str, str]) -> dict[str, str]:
    """Takes the order that a mapping names; hands back the mapping with the time under its plain name."""
    times = [ours for ours in mapping if ours in (*ORDERS, "arrival_time")]
    if len(times) > 1 and not mapping.keys().isdisjoint(ORDERS):
        raise InputError(
            field="map",
            value=", ".join(f"{ours}={mapping[ours]}" for ours in times),
            problem="says more than once how times are read",
            fix="Map the time once.",
        )
    for ours, order in ORDERS.items():
        if ours in mapping:
            connection.execute(f"SET VARIABLE {_VARIABLE} = '{order}'")
    return {"arrival_time" if ours in ORDERS else ours: theirs for ours, theirs in mapping.items()}


def settle_order(connection: DuckDBPyConnection, table: str, where: str) -> Anomaly | None:
    """Decides the order of day and month from all times of a table, and says which was taken.

    The caller reads the table again where there is an answer: its times were read day first until here.
    """
    known = connection.execute(f"SELECT getvariable('{_VARIABLE}')").fetchall()[0][0]
    if known is not None:
        return None
    parts = f"regexp_extract(ullage_tidy(time_), {text(_NUMERIC)}, ['one', 'mark', 'two', 'year', 'clock'])"
    days = connection.execute(
        f"SELECT TRY_CAST(parts.one AS INTEGER) AS one, TRY_CAST(parts.two AS INTEGER) AS two, "
        "TRY_CAST(CASE WHEN length(parts.year) = 2 THEN '20' ELSE '' END || parts.year AS INTEGER) AS year, "
        f"any_value(time_) FROM (SELECT time_, {parts} AS parts FROM {table} "
        "WHERE substr(time_, 5, 1) NOT IN ('-', '/')) WHERE parts.mark IN ('/', '-') "
        "GROUP BY one, two, year ORDER BY year, two, one"
    ).fetchall()
    if not days:
        return None
    order, why = _decided([(one, two, year) for one, two, year, _ in days])
    example = str(days[0][3])
    if not order:
        raise _undecided(where, example, why)
    connection.execute(f"SET VARIABLE {_VARIABLE} = '{order}'")
    other = "month" if order == "day" else "day"
    fix = (
        "" if why.startswith("no month") else f" If they are {other} first, give --column arrival_{other}_first=COLUMN."
    )
    return Anomaly(
        kind=AnomalyKind.UNIT_UNCERTAIN,
        weight=Severity.NOTE,
        sentence=f"Dates such as {example} are read {order} first: {why}.{fix}",
        touches=("season",),
    )


def _decided(days: list[tuple[int, int, int]]) -> tuple[str, str]:
    """The order, or none, and why."""
    first, second = max(day[0] for day in days), max(day[1] for day in days)
    if first > 12 and second > 12:
        return "", f"no month is {first}, which stands first, nor {second}, which stands second"
    if first > 12:
        return "day", f"no month is {first}"
    if second > 12:
        return "month", f"no month is {second}"
    by_day, by_month = _filled([(y, b, a) for a, b, y in days]), _filled([(y, a, b) for a, b, y in days])
    for order, filled, other in (("day", by_day, by_month), ("month", by_month, by_day)):
        if filled >= _FILLED_FRACTION and other <= _SPARSE_FRACTION:
            return order, "so the days follow each other, and the other way round they lie months apart"
    return "", ""


def _filled(days: list[tuple[int, int, int]]) -> float:
    """The share of the days from the first to the last that occur."""
    if len(days) < 2:
        return 0.0
    try:
        numbers = [datetime.date(*day).toordinal() for day in days]
    except ValueError:
        return 0.0
    return len(set(numbers)) / (max(numbers) - min(numbers) + 1)


def _reading(example: str) -> str:
    one, two, year = re.findall(r"\d+", example)[:3]
    day_first, month_first = (f"20{year[-2:]}-{month:0>2}-{day:0>2}" for day, month in ((one, two), (two, one)))
    return f"{day_first} day first and {month_first} month first"


def _undecided(where: str, example: str, why: str) -> InputError:
    if why:
        problem = f"has dates of both orders: {why}"
    else:
        problem = f"is {_reading(example)}, and no date of the file decides which"
    return InputError(
        field=f"{where}: time",
        value=example,
        problem=problem,
        fix="Name the order: --column arrival_day_first=COLUMN or --column arrival_month_first=COLUMN.",
    )
