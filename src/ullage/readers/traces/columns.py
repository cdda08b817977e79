"""Any table or JSON log by its column names: ours where they stand, the user's by a mapping.

A mapping gives, for one of our names, the column (or the dotted key path of a JSON record) that holds it.
Times have a name for each unit they are logged in, so that the unit is stated where the column is named:

    arrival_s=ts   arrival_ms=ts   arrival_time=timestamp   duration_ms=latency   prompt_tokens=usage.input
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.errors import InputError, unknown_name
from ullage.readers.traces.draft import Draft, TraceReader, json_path, rows_of
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.sql import STATUS_WORDS, hashes, name, number, stamp, status, whole, words
from ullage.workload.trace import SQL_TYPES, Clock

# How many of our seconds one of theirs is.
UNITS = {"_s": 1.0, "_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9}
TIMES = ("arrival", "duration", "ttft", "wait")
# Spellings in published traces that mean one of our columns and nothing else.
ALSO = {"block_hashes": "hash_ids"}

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_OUR_STATUSES = " ".join(f"WHEN '{each}' THEN '{each}'" for each in STATUS_WORDS)
KNOWN = (*SQL_TYPES, *(f"{time}{unit}" for time in TIMES for unit in UNITS if unit != "_s"), "arrival_time")


# A table of lengths with one of these counts or weighs its rows: a histogram, whose rows are no requests.
WEIGHTS = ("prob", "probability", "weight", "count", "frequency")


def _recognises(file: Glimpse) -> bool:
    if file.has("arrival_s"):
        return True
    return file.has("prompt_tokens", "output_tokens") and not file.has_any(*WEIGHTS)


def _draft(files: Sequence[Glimpse]) -> Draft:
    present = set(files[0].fields)
    mapping = {ours: ours for ours in KNOWN if ours in present}
    mapping |= {ours: theirs for ours, theirs in ALSO.items() if ours not in present and theirs in present}
    return draft_mapped(files, mapping)


def draft_mapped(files: Sequence[Glimpse], mapping: Mapping[str, str]) -> Draft:
    """A draft from the user's mapping; every name in it is checked against ours and against the files.

    A column under our own name counts as well, unless the mapping says that something else holds it.
    """
    columns: dict[str, str] = {}
    fields: dict[str, str] = {}
    mapped = {_column(ours) for ours in mapping}
    own = {ours: ours for ours in KNOWN if ours in files[0].fields and _column(ours) not in mapped}
    for ours, theirs in {**mapping, **own}.items():
        field = _field_of(files[0], ours, theirs)
        column, expression = _expression(ours, name(field), _common_type(files, field))
        if column in columns:
            raise InputError(
                field=f"map.{ours}", value=theirs, problem=f"gives {column} a second time", fix="Map each column once."
            )
        columns[column] = expression
        fields[field] = _path_of(files[0], field)
    return Draft(
        rows=rows_of(files, fields),
        columns=columns,
        clock=Clock.RELATIVE if "arrival_s" in columns else Clock.NONE,
        time=name(mapping["arrival_time"]) if "arrival_time" in mapping else "",
    )


def _column(ours: str) -> str:
    """The canonical column that one of our names fills: `arrival_ms` and `arrival_time` fill `arrival_s`."""
    time = next((each for each in TIMES if ours.startswith(f"{each}_")), None)
    return ours if time is None else f"{time}_s"


def _field_of(file: Glimpse, ours: str, theirs: str) -> str:
    if ours not in KNOWN:
        raise unknown_name(field="map", name=ours, known=KNOWN, fix="See docs/reference/trace-formats.md.")
    if theirs not in file.fields:
        raise unknown_name(field=f"map.{ours}", name=theirs, known=file.fields, fix=f"It is no column of {file.name}.")
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


def _expression(ours: str, column: str, kind: str) -> tuple[str, str]:
    """Our column and its SQL. A column that has our type already is taken as it is: casts cost more than scans."""
    if ours == "arrival_time":
        return "arrival_s", stamp(column)
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
