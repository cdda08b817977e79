"""Any table or JSON log by its column names: ours where they stand, the user's by a mapping.

A mapping gives, for one of our names, the column (or the dotted key path of a JSON record) that holds it.
Times have a name for each unit they are logged in, so that the unit is stated where the column is named:

    arrival_s=ts   arrival_ms=ts   arrival_time=timestamp   duration_ms=latency   prompt_tokens=usage.input
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ullage.errors import InputError, check_name, unknown_name
from ullage.readers.traces.aliases import counts_requests, plain_name, usual_columns
from ullage.readers.traces.draft import Draft, TraceReader, json_path, rows_of
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.numerals import are_plain, are_timed, decimal_mark, printed_duration, printed_number
from ullage.readers.traces.sql import STATUS_WORDS, hashes, moment, name, number, serial_day, status, whole, words
from ullage.workload.trace import SQL_TYPES, Clock

# How many of our seconds one of theirs is.
UNITS = {"_s": 1.0, "_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9}
TIMES = ("arrival", "duration", "ttft", "wait")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_OUR_STATUSES = " ".join(f"WHEN '{each}' THEN '{each}'" for each in STATUS_WORDS)
KNOWN = (
    *SQL_TYPES,
    *(f"{time}{unit}" for time in TIMES for unit in UNITS if unit != "_s"),
    "arrival_time",
    "arrival_excel",
    "end_time",
    "first_token_time",
)
_DATES = ("date", "day", "datum", "logdate", "requestdate")
# Columns that measure: what stands in them and is no number is worth a word.
MEASURES = ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "duration_s", "ttft_s", "wait_s")
# What a second moment says, in our terms, once the arrival is known.
MOMENTS = {"end_time": "duration_s", "first_token_time": "ttft_s"}
# Where one of these is logged for each row, rows are calls, whatever else is missing.
_CALLS = ("status", "path", "request", "model", "session")


# A table of lengths with one of these counts or weighs its rows: a histogram, whose rows are no requests.
WEIGHTS = ("prob", "probability", "weight", "count", "frequency")


def _recognises(file: Glimpse) -> bool:
    if file.has("arrival_s"):
        return True
    if file.has_any(*WEIGHTS) or counts_requests(file):
        return False
    if file.has("prompt_tokens", "output_tokens"):
        return True
    found = {_column(ours) for ours in usual_columns(file)}
    has_length = not found.isdisjoint(("prompt_tokens", "output_tokens"))
    return "arrival_s" in found and (has_length or ("duration_s" in found and not found.isdisjoint(_CALLS)))


def _draft(files: Sequence[Glimpse]) -> Draft:
    return draft_mapped(files, {})


def draft_mapped(files: Sequence[Glimpse], mapping: Mapping[str, str]) -> Draft:
    """A draft from the user's mapping; every name in it is checked against ours and against the files.

    A column under our own name counts as well, and one under a usual name, unless the mapping says what holds it.
    """
    file = files[0]
    mapped = {_column(ours) for ours in mapping}
    # An end is looked at last, among the usual names: a duration that is logged is better.
    plain = [ours for ours in KNOWN if ours in file.fields and ours not in MOMENTS]
    own = {ours: ours for ours in plain if _column(ours) not in mapped}
    taken = mapped | {_column(ours) for ours in own}
    usual = _usual(file, taken, {*mapping.values(), *own})
    columns: dict[str, str] = {}
    fields: dict[str, str] = {}
    raw: dict[str, str] = {}
    both = ""
    for ours, theirs in {**mapping, **own, **usual}.items():
        field = _field_of(file, ours, theirs)
        column, expression = _printed(files, ours, field) or _expression(ours, name(field), _common_type(files, field))
        if column in columns:
            raise InputError(
                field=f"map.{ours}", value=theirs, problem=f"gives {column} a second time", fix="Map each column once."
            )
        columns[column] = expression
        fields[field] = _path_of(file, field)
        if ours == "arrival_time" and (date := _date_beside(file, field)) is not None:
            both = f"concat_ws(' ', {name(date)}, {name(field)})"
            columns[column], fields[date] = moment(both), date
        if file.layout is not Layout.PARQUET and column in MEASURES and ours not in MOMENTS:
            raw[column] = name(field)
    _subtract_arrival(columns, {**mapping, **own, **usual})
    stamped = {**usual, **own, **mapping}.get("arrival_time")
    is_request = "true"
    if file.is_nested and not mapping and file.has("object", "choices[].finish_reason"):
        is_request = _is_whole_answer(columns, fields)
    return Draft(
        rows=rows_of(files, fields),
        columns=columns,
        is_request=is_request,
        otherwise="a piece of a streamed answer",
        clock=Clock.RELATIVE if "arrival_s" in columns else Clock.NONE,
        time="" if stamped is None else both or name(stamped),
        unsettled=tuple(
            _column(ours) for ours, theirs in usual.items() if ours in TIMES and not _is_timed(file, theirs)
        ),
        borrowed={_column(ours): theirs for ours, theirs in usual.items()},
        read=frozenset(fields),
        raw=raw,
    )


def _is_whole_answer(columns: Mapping[str, str], fields: dict[str, str]) -> str:
    """SQL: whether a record is an answer of OpenAI's API, or of a streamed one the piece that counts its tokens."""
    fields |= {"object": json_path("object"), "choices": json_path("choices")}
    fields["choices.finish_reason"] = '$."choices"[0]."finish_reason"'
    counted = [f"({columns[each]}) IS NOT NULL" for each in ("prompt_tokens", "output_tokens") if each in columns]
    ended = " AND ".join(["(choices = '[]' OR \"choices.finish_reason\" IS NOT NULL)", *counted])
    return f"(COALESCE(\"object\", '') NOT LIKE '%.chunk' OR ({ended}))"


def _usual(file: Glimpse, taken: set[str], used: set[str]) -> dict[str, str]:
    """Columns under usual names, each of ours once: a duration that is logged is not worked out from an end."""
    found = {
        ours: theirs
        for ours, theirs in usual_columns(file, filled={column.removesuffix("_s") for column in taken} | taken).items()
        if theirs not in used and _column(ours) not in taken
    }
    has_arrival = "arrival_s" in taken or any(_column(ours) == "arrival_s" for ours in found)
    logged = taken | {_column(ours) for ours in found if ours not in MOMENTS}
    return {
        ours: theirs
        for ours, theirs in found.items()
        if ours not in MOMENTS or (has_arrival and MOMENTS[ours] not in logged)
    }


def _subtract_arrival(columns: dict[str, str], given: Mapping[str, str]) -> None:
    """Turns moments into times from the arrival, which has to be on the same clock."""
    for ours, column in MOMENTS.items():
        if ours in given and "arrival_s" not in columns:
            raise InputError(
                field=f"map.{ours}",
                value=given[ours],
                problem="needs an arrival to count from",
                fix="Map the arrival too.",
            )
        if ours in given:
            columns[column] = f"({columns[column]}) - ({columns['arrival_s']})"


def _column(ours: str) -> str:
    """The canonical column that one of our names fills: `arrival_ms` and `arrival_time` fill `arrival_s`."""
    if ours in TIMES:
        return f"{ours}_s"
    if ours in MOMENTS:
        return MOMENTS[ours]
    time = next((each for each in TIMES if ours.startswith(f"{each}_")), None)
    return ours if time is None else f"{time}_s"


def _field_of(file: Glimpse, ours: str, theirs: str) -> str:
    if ours not in (*KNOWN, *TIMES):
        raise unknown_name(field="map", name=ours, known=KNOWN, fix="See docs/reference/trace-formats.md.")
    check_name(theirs, file.fields, field=f"map.{ours}", fix=f"It is not a column of {file.name}.")
    return theirs


def _path_of(file: Glimpse, field: str) -> str:
    if file.layout in (Layout.CSV, Layout.PARQUET):
        return field
    # A dot may be part of a key or stand between two; the glimpse knows which top-level keys there are.
    keys: list[str] = []
    rest = field
    while rest:
        head = rest if not keys and "." not in rest else _longest_key(file, keys, rest)
        keys.append(head)
        rest = rest[len(head) + 1 :]
    return json_path(*keys)


def _longest_key(file: Glimpse, keys: Sequence[str], rest: str) -> str:
    """The shortest first part of `rest` below which the file has further keys; all of it where there is none."""
    parts = rest.split(".")
    for count in range(1, len(parts)):
        key = ".".join(parts[:count])
        if ".".join([*keys, key]) in file.fields:
            return key
    return rest


def _common_type(files: Sequence[Glimpse], field: str) -> str:
    kinds = {file.type_of(field) for file in files}
    return kinds.pop() if len(kinds) == 1 else ""


def _date_beside(file: Glimpse, field: str) -> str | None:
    """The column with the date, where a CSV file splits times into a date and a time of day."""
    values = file.values(field)
    if not values or not all(
        re.fullmatch(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?", each) for each in values
    ):
        return None
    return next((each for each in file.header if plain_name(each) in _DATES), None)


def _is_timed(file: Glimpse, field: str) -> bool:
    return are_timed(file.values(field))


def _printed(files: Sequence[Glimpse], ours: str, field: str) -> tuple[str, str] | None:
    """Our column and its SQL where a CSV file prints its numbers for people; None where a program wrote them."""
    column = _column(ours)
    if column not in MEASURES or ours in MOMENTS:
        return None
    values = [value for file in files for value in file.values(field)]
    is_whole = SQL_TYPES[column] == "BIGINT"
    mark = decimal_mark(values, whole=is_whole, delimiter=files[0].delimiter)
    if are_plain(values) and mark == ".":
        return None
    if ours in TIMES and are_timed(values):
        return column, printed_duration(name(field), mark)
    factor = next((factor for unit, factor in UNITS.items() if ours == f"{column.removesuffix('_s')}{unit}"), 1.0)
    number_ = printed_number(name(field), mark)
    return column, f"CAST({number_} AS BIGINT)" if is_whole else f"({number_} * {factor!r})"


def _expression(ours: str, column: str, kind: str) -> tuple[str, str]:
    """Our column and its SQL. A column that has our type already is taken as it is: casts cost more than scans."""
    if ours == "arrival_time" or ours in MOMENTS:
        return _column(ours), moment(column, kind)
    if ours == "arrival_excel":
        return _column(ours), serial_day(column)
    if ours in TIMES:
        return _column(ours), number(column)
    for time in TIMES:
        for unit, factor in UNITS.items():
            if ours == f"{time}{unit}":
                return f"{time}_s", column if (unit, kind) == ("_s", "DOUBLE") else number(column, factor)
    if ours == "status":
        return ours, f"CASE {column} {_OUR_STATUSES} ELSE {status(column)} END" if kind == "VARCHAR" else status(column)
    if ours == "block_hashes":
        return ours, hashes(column, is_list=kind.endswith("[]"))
    if SQL_TYPES[ours] == "BIGINT":
        return ours, column if kind in _WHOLE else whole(column)
    if SQL_TYPES[ours] == "VARCHAR":
        return ours, f"NULLIF({column}, '')" if kind == "VARCHAR" else words(column)
    return ours, f"TRY_CAST({column} AS {SQL_TYPES[ours]})"


READER = TraceReader(
    name="columns",
    title="CSV, Parquet or JSON lines under our column names, or by a mapping",
    recognises=_recognises,
    draft=_draft,
)
