"""Opens request logs of any known format: finds the files, recognises the format, hands over a clean trace."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError, check_name
from ullage.readers import misplaced
from ullage.readers.traces import dates
from ullage.readers.traces.clean import LONGEST_TRACE_S, clean, rejected_lines
from ullage.readers.traces.columns import draft_mapped
from ullage.readers.traces.draft import TraceReader
from ullage.readers.traces.files import Glimpse, Layout, expand, glimpse, wrapped
from ullage.readers.traces.rates import monitors, servegen, tables
from ullage.readers.traces.rates.points import RateReader, open_points
from ullage.readers.traces.sql import text
from ullage.readers.traces.table import FALLBACKS, TRACE_READERS
from ullage.workload.trace import RateTable, RowCounts, RowReason, Trace

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# DuckDB works out of core beyond this; with numpy's share a profile stays under 2 GB whatever the file's size.
MEMORY_LIMIT = "1GB"
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def open_trace(
    patterns: Sequence[str],
    *,
    mapping: Mapping[str, str] | None = None,
    format_name: str | None = None,
    zone: str = "",
) -> Trace | RateTable:
    """The requests in these files, folders and globs, as one trace.

    `mapping` gives columns by our names and overrides recognition; `format_name` settles an ambiguity;
    `zone` is the zone of stamps that carry none.
    """
    connection = connect(zone)
    mapping = dates.state_order(connection, mapping or {})
    files = [_unwrapped(_glimpsed(connection, path), mapping) for path in expand(patterns)]
    if mapping:
        _refuse_both(mapping, format_name)
        _refuse_mixed(files)
        if _names_rates(mapping, files):
            return _open_mapped_rates(connection, files, mapping, zone)
        return clean(connection, draft_mapped(files, mapping), files, format_name="columns", zone=zone)
    reader = _named(format_name, files) if format_name else recognise(files)
    _refuse_mixed(files)
    if reader is servegen.READER:
        return _open_rates(connection, files)
    if isinstance(reader, RateReader):
        return open_points(connection, reader, files, zone=zone)
    return clean(connection, reader.draft(files), files, format_name=reader.name, zone=zone)


def _names_rates(mapping: Mapping[str, str], files: Sequence[Glimpse]) -> bool:
    """Whether a mapping names a rate, or only the time of what is a table of rates by its other columns."""
    only_time = all(ours.startswith("arrival_") for ours in mapping)
    return not mapping.keys().isdisjoint(tables.MEASURED) or (only_time and tables.TABLE.recognises(files[0]))


def _glimpsed(connection: DuckDBPyConnection, path: str) -> Glimpse:
    try:
        return glimpse(connection, path)
    except InputError:
        if (other := misplaced(Path(path), asked="trace")) is not None:
            raise other from None
        raise


def _unwrapped(file: Glimpse, mapping: Mapping[str, str]) -> Glimpse:
    """The records inside a JSON file, where the file itself is of no known format: exports wrap them in an object."""
    if _is_read(file, mapping):
        return file
    inner = [each for each in wrapped(file) if _is_read(each, mapping)]
    if len(inner) > 1:
        raise InputError(
            field="trace",
            value=file.name,
            problem=f"holds records at {' and at '.join(each.records for each in inner)}",
            fix="Give each list in a file of its own.",
        )
    return inner[0] if inner else file


def _is_read(file: Glimpse, mapping: Mapping[str, str]) -> bool:
    return file.has(*mapping.values()) if mapping else bool(_candidates(file))


def _refuse_mixed(files: Sequence[Glimpse]) -> None:
    by_layout = {"json" if file.is_nested else file.layout.value: file for file in files}
    if len(by_layout) > 1:
        raise InputError(
            field="trace",
            value=", ".join(file.name for file in by_layout.values()),
            problem=f"are {' and '.join(by_layout)}, and files are read together in one layout",
            fix="Name the logs of one layout alone, for example with a quoted glob such as 'logs/*.jsonl'.",
        )


def connect(zone: str = "") -> DuckDBPyConnection:
    """A DuckDB connection with bounded memory that reads times without a zone in the one given."""
    import duckdb

    spill = os.path.join(tempfile.gettempdir(), f"ullage-duckdb-{os.getpid()}")
    connection = duckdb.connect(config={"memory_limit": MEMORY_LIMIT, "temp_directory": spill})
    # DuckDB would draw its own bar on stdout, which is for the answer alone.
    connection.execute("SET enable_progress_bar = false")
    try:
        connection.execute(f"SET TimeZone = {text(zone or 'UTC')}")
    except (duckdb.Error, RuntimeError):
        # A zone that is no UTF-8 is no text to the database, which says so in words of its own.
        raise InputError(
            field="zone", value=zone, problem="is not a time zone", fix="Give a name such as Europe/Berlin or UTC."
        ) from None
    dates.define(connection)
    return connection


def recognise(files: Sequence[Glimpse]) -> TraceReader | RateReader:
    """The one format all these files have; an error that names the candidates where there is none or more."""
    by_file = {file.name: _candidates(file) for file in files}
    for name, candidates in by_file.items():
        if not candidates:
            raise _not_recognised(next(file for file in files if file.name == name))
        if len(candidates) > 1:
            raise InputError(
                field="trace",
                value=name,
                problem=f"could be any of {', '.join(candidates)}",
                fix=f"Say which with --format, for example --format {candidates[0]}.",
            )
    found = sorted({candidates[0] for candidates in by_file.values()})
    if len(found) > 1:
        raise InputError(
            field="trace",
            value=f"{len(files)} files",
            problem=f"are of several formats: {', '.join(found)}",
            fix="Profile each format by itself.",
        )
    return TRACE_READERS[found[0]]


def _candidates(file: Glimpse) -> list[str]:
    named = [name for name, reader in TRACE_READERS.items() if reader not in FALLBACKS and reader.recognises(file)]
    return named or [reader.name for reader in FALLBACKS if reader.recognises(file)][:1]


def _not_recognised(file: Glimpse) -> InputError:
    other = misplaced(Path(file.path), asked="trace")
    if other is not None:
        return other
    if (said := monitors.without_points(file)) is not None:
        return InputError(field="trace", value=file.name, problem=said[0], fix=said[1])
    if file.layout is Layout.CSV and any(_NUMBER.fullmatch(each.strip()) for each in file.header):
        return InputError(
            field="trace",
            value=file.name,
            problem=f"has no line of column names; its first line is {', '.join(file.header[:8])}",
            fix="Put the names first, for example arrival_s,prompt_tokens,output_tokens.",
        )
    shown = ", ".join(file.fields[:8]) + (", ..." if len(file.fields) > 8 else "")
    return InputError(
        field="trace",
        value=file.name,
        problem=f"is {file.layout.value} of no known format; it has {shown or 'no fields'}",
        fix="Map its columns, for example --column arrival_s=ts --column prompt_tokens=input_tokens; rates over time "
        "by --column rate_rps=COLUMN.",
    )


def _named(format_name: str, files: Sequence[Glimpse]) -> TraceReader | RateReader:
    check_name(format_name, TRACE_READERS, field="format")
    reader = TRACE_READERS[format_name]
    for file in files:
        if not reader.recognises(file):
            raise InputError(
                field="format",
                value=format_name,
                problem=f"{file.name} is not {reader.title}",
                fix="Leave --format out to have it recognised, or map its columns with --column.",
            )
    return reader


def _refuse_both(mapping: Mapping[str, str], format_name: str | None) -> None:
    if format_name not in (None, *(reader.name for reader in FALLBACKS)):
        raise InputError(
            field="format",
            value=format_name,
            problem=f"cannot go with a mapping ({', '.join(mapping)})",
            fix="Give one of --format and --column.",
        )


def _open_mapped_rates(
    connection: DuckDBPyConnection, files: Sequence[Glimpse], mapping: Mapping[str, str], zone: str
) -> RateTable:
    """Rates whose unit the user names: of a column of a table, or of the `value` of series in JSON."""
    found = [TRACE_READERS[name] for name in _candidates(files[0])]
    reader = found[0] if len(found) == 1 else None
    if isinstance(reader, RateReader) and reader is not tables.TABLE:
        measure = _measure_of_series(reader, files[0], mapping)
        return open_points(connection, reader, files, zone=zone, measure=measure)
    counted = replace(tables.TABLE, points=lambda given: tables.mapped_points(given, mapping))
    return open_points(connection, counted, files, zone=zone)


def _measure_of_series(reader: RateReader, file: Glimpse, mapping: Mapping[str, str]) -> str:
    """What the values of series in JSON are: nothing else of them can be mapped."""
    fix = (
        "Map only what the values are: one of --column rate_rps=value, rate_rpm=value, rate_rph=value, requests=value."
    )
    for ours, theirs in mapping.items():
        if ours not in tables.MEASURED:
            problem = f"cannot be mapped in {reader.title}, which names its times and labels itself"
            raise InputError(field=f"{file.name}: map.{ours}", value=theirs, problem=problem, fix=fix)
        if theirs != "value":
            problem = f"is not the value of a series in {reader.title}"
            raise InputError(field=f"{file.name}: map.{ours}", value=theirs, problem=problem, fix=fix)
    if len(mapping) > 1:
        problem = "say more than once what the values are"
        raise InputError(field=f"{file.name}: map", value=", ".join(mapping), problem=problem, fix=fix)
    return tables.MEASURED[next(iter(mapping))]


def _open_rates(connection: DuckDBPyConnection, files: Sequence[Glimpse]) -> RateTable:
    if not any(servegen.is_rates(file) for file in files):
        raise InputError(
            field="trace",
            value=", ".join(file.name for file in files),
            problem="has lengths but no rates",
            fix="Give the table of client rates with it.",
        )
    draft = servegen.READER.draft(files)
    listed = ", ".join(f'{expression} AS "{ours}"' for ours, expression in draft.columns.items())
    connection.execute(f"CREATE TEMP TABLE ullage_rates AS SELECT {listed} FROM ({draft.rows})")
    has_lengths = any(servegen.is_lengths(file) for file in files)
    if has_lengths:
        connection.execute(f"CREATE TEMP TABLE ullage_lengths AS {servegen.lengths_sql(files)}")
    _check_windows(connection, files)
    usable = f"window_s BETWEEN 0 AND {LONGEST_TRACE_S} AND requests >= 0 AND isfinite(requests)"
    read, kept, requests = connection.execute(
        f"SELECT count(*), count(*) FILTER ({usable}), sum(requests) FILTER ({usable}) FROM ullage_rates"
    ).fetchall()[0]
    dropped = list(rejected_lines(connection, files))
    if read > kept:
        dropped.append(RowReason(reason="no window or no rate", rows=read - kept, first_row=0, example=""))
    if not requests:
        raise InputError(
            field="trace", value=files[0].name, problem="counts no requests", fix="Give a table with rates above 0."
        )
    return RateTable(
        rates=connection.sql(f"SELECT * FROM ullage_rates WHERE {usable}"),
        lengths=connection.sql("SELECT * FROM ullage_lengths") if has_lengths else None,
        width_s=servegen.WINDOW_S,
        rows=RowCounts(read_rows=kept + sum(each.rows for each in dropped), kept_rows=kept, dropped=tuple(dropped)),
        format=servegen.READER.name,
        sources=tuple(file.name for file in files),
    )


def _check_windows(connection: DuckDBPyConnection, files: Sequence[Glimpse]) -> None:
    rows = connection.execute(
        "SELECT min(step) FROM (SELECT window_s - lag(window_s) OVER (ORDER BY window_s) AS step "
        "FROM (SELECT DISTINCT window_s FROM ullage_rates)) WHERE step > 0"
    ).fetchall()
    if rows[0][0] not in (None, servegen.WINDOW_S):
        raise InputError(
            field=f"{files[0].name}: t_s",
            value=rows[0][0],
            problem=f"windows are that far apart, where the format counts in windows of {servegen.WINDOW_S:g} s",
            fix="Give t_s in seconds.",
        )
