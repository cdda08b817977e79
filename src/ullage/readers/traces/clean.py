"""From a draft to a trace: one scan counts what is dropped and mended, by reason, and finds where time starts."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError
from ullage.readers.traces.aliases import Unread, borrowed_sentence, unread_columns, unread_sentence
from ullage.readers.traces.dates import settle_order
from ullage.readers.traces.draft import REJECTED_LINES, Draft
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.numerals import NOTHING
from ullage.readers.traces.sql import name, text
from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity
from ullage.workload.trace import SQL_TYPES, Clock, RowCounts, RowReason, Trace

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A calendar time outside these years is a wrong unit or a broken clock: no model was served before 2000.
EARLIEST_EPOCH_S = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC).timestamp()
LATEST_EPOCH_S = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC).timestamp()
# Times that count from some start: one that lies farther from the others than this is damage.
LONGEST_TRACE_S = LATEST_EPOCH_S - EARLIEST_EPOCH_S
# The days from 2000 to 2100 as spreadsheets number them.
EXCEL_DAYS = (36526, 73051)
# More than this share dropped, and the rest may be no sample of the whole.
GRAVE_DROPPED_FRACTION = 0.05

# A column has one mend, whichever of its faults was met.
_SENSIBLE = "CASE WHEN duration_s BETWEEN 0 AND 2592000 THEN duration_s END"
REPAIRS = {
    "cached tokens above the prompt, taken as the whole prompt": (
        "cached_tokens > prompt_tokens",
        "cached_tokens",
        "LEAST(cached_tokens, prompt_tokens)",
    ),
    "reasoning tokens above the output, taken as the whole output": (
        "reasoning_tokens > output_tokens",
        "reasoning_tokens",
        "LEAST(reasoning_tokens, output_tokens)",
    ),
    "duration above 30 days, left out": (
        "duration_s > 2592000",
        "duration_s",
        _SENSIBLE,
    ),
    "negative duration, left out": ("duration_s < 0", "duration_s", _SENSIBLE),
    "negative first-token time, left out": ("ttft_s < 0", "ttft_s", "CASE WHEN ttft_s >= 0 THEN ttft_s END"),
}
REJECTIONS = {
    "MISSING COLUMNS": "fewer columns than the header",
    "TOO MANY COLUMNS": "more columns than the header",
    "UNQUOTED VALUE": "a quote that is not closed",
    "LINE SIZE OVER MAXIMUM": "a line longer than 32 MB",
    "INVALID ENCODING": "not UTF-8",
    "INVALID UNICODE": "not UTF-8",
}
_serial = itertools.count(1)


# A hundred times the longest context of any model; sums of what is larger leave 64 bits.
MOST_TOKENS = 1_000_000_000
UNREAD_TIME = "an arrival time that is neither a date and time (such as 2026-11-18T09:30:00Z) nor a number of seconds"


@dataclass(frozen=True, kw_only=True)
class _Tally:
    """What one scan over all rows says."""

    kept_rows: int
    least_s: float | None
    known: frozenset[str]
    dropped: tuple[tuple[str, int], ...]
    repaired: tuple[tuple[str, int], ...]


def clean(
    connection: DuckDBPyConnection, draft: Draft, files: Sequence[Glimpse], *, format_name: str, zone: str
) -> Trace:
    """The trace that a draft describes; an error where nothing of it can be kept."""
    table = f"ullage_rows_{next(_serial)}"
    _materialise(connection, draft, files, table)
    ordered = settle_order(connection, table, files[0].name) if draft.time else None
    if ordered is not None:
        forget_rejected(connection)
        _materialise(connection, draft, files, table)
    table, units = settled(connection, draft, table)
    draft, middle_s = _with_clock(connection, draft, table, files)
    reason = _reason(draft, middle_s)
    tally = _tally(connection, draft, table, reason)
    rejected = rejected_lines(connection, files)
    dropped = (*rejected, *_examples(connection, draft, table, reason, tally))
    counts = RowCounts(
        read_rows=tally.kept_rows + sum(each.rows for each in dropped),
        kept_rows=tally.kept_rows,
        dropped=dropped,
        repaired=tuple(RowReason(reason=why, rows=rows, first_row=0, example="") for why, rows in tally.repaired),
    )
    if tally.kept_rows == 0:
        raise _nothing_kept(files, counts)
    start_s = 0.0 if tally.least_s is None or draft.clock is Clock.SESSION else tally.least_s
    written_zone, zone_anomalies = _zone(connection, draft, table, zone)
    unread = unread_columns(files[0], draft.read, tally.known)
    return Trace(
        relation=connection.sql(_canonical(table, reason, tally, start_s)),
        columns=tally.known,
        clock=draft.clock,
        rows=counts,
        format=format_name,
        sources=tuple(file.name for file in files),
        start_epoch_s=start_s if draft.clock is Clock.UTC else None,
        zone=written_zone,
        block_tokens=draft.block_tokens,
        anomalies=(
            *_row_anomalies(counts, draft),
            *zone_anomalies,
            *([ordered] if ordered else []),
            *units,
            *_lost_values(connection, draft, table, tally.kept_rows),
            *_column_anomalies(draft, unread),
        ),
        unread=tuple(each.field for each in unread),
    )


def _materialise(connection: DuckDBPyConnection, draft: Draft, files: Sequence[Glimpse], table: str) -> None:
    """Parquet is scanned in place, however large; text is parsed once, into a table that can spill to disk."""
    import duckdb

    columns = [f"CAST({expression} AS {SQL_TYPES[ours]}) AS {name(ours)}" for ours, expression in draft.columns.items()]
    columns += [f"{_lost(draft.columns[ours], raw)} AS {name(f'lost_{ours}')}" for ours, raw in draft.raw.items()]
    columns.append(f"NOT COALESCE({draft.is_request}, false) AS other_")
    columns.append(f"CAST({draft.time or 'NULL'} AS VARCHAR) AS time_")
    select = f"SELECT {', '.join(columns)}, unreadable_ FROM ({draft.rows})"
    kind = "TEMP VIEW" if all(file.layout is Layout.PARQUET for file in files) else "TEMP TABLE"
    try:
        connection.execute(f"CREATE OR REPLACE {kind} {table} AS {select}")
    except duckdb.OutOfMemoryException:
        raise InputError(
            field="trace",
            value=", ".join(file.name for file in files[:3]),
            problem="has a record or a document too large for the memory a profile is given",
            fix="Write it as JSON lines or Parquet, or without the prompts.",
        ) from None
    except duckdb.Error as error:
        detail = re.sub(r"\s+", " ", str(error).split("\n\n")[0])[:200]
        raise InputError(
            field="trace",
            value=", ".join(file.name for file in files[:3]),
            problem=f"cannot be read ({detail})",
            fix="It may be cut or of another format than its first lines; see docs/reference/trace-formats.md.",
        ) from None


def _lost(expression: str, raw: str) -> str:
    """SQL for what was written where no number could be read; NULL where there is one, or nothing was written."""
    nothing = ", ".join(text(each) for each in NOTHING)
    written = f"trim(CAST({raw} AS VARCHAR))"
    return f"CASE WHEN ({expression}) IS NULL AND lower({written}) NOT IN ({nothing}) THEN {written} END"


def _with_clock(
    connection: DuckDBPyConnection, draft: Draft, table: str, files: Sequence[Glimpse]
) -> tuple[Draft, float]:
    """Settles whether numbers are calendar times, and refuses those that are calendar times in another unit; with the
    time in the middle of them."""
    if draft.clock in (Clock.SESSION, Clock.NONE):
        return draft, 0.0
    sample = connection.execute(
        "SELECT median(arrival_s), min(arrival_s), max(arrival_s), bool_or(arrival_s <> floor(arrival_s)) FROM "
        f"(SELECT arrival_s FROM {table} "
        "WHERE arrival_s IS NOT NULL AND NOT isnan(arrival_s) AND NOT other_ LIMIT 10000)"
    ).fetchall()
    middle, least, most, has_fractions = sample[0]
    if middle is None:
        return draft, 0.0
    is_calendar = EARLIEST_EPOCH_S <= middle <= LATEST_EPOCH_S
    if is_calendar:
        return replace(draft, clock=Clock.UTC), middle
    # A relative time beyond a thousand years, or a calendar time outside this century, is another unit.
    if draft.clock is Clock.UTC or middle > 3e10:
        raise _wrong_unit(files, middle)
    if draft.time and has_fractions and EXCEL_DAYS[0] <= least and most <= EXCEL_DAYS[1]:
        raise _days_or_seconds(files, least, most)
    return draft, middle


def _days_or_seconds(files: Sequence[Glimpse], least: float, most: float) -> InputError:
    day = datetime.date(1899, 12, 30) + datetime.timedelta(days=int(least))
    return InputError(
        field=f"{files[0].name}: arrival time",
        value=f"{least:g} to {most:g}",
        problem=f"is {day.isoformat()} and after as Excel counts days, or seconds from some start",
        fix="Say which: --column arrival_excel=COLUMN or --column arrival_s=COLUMN.",
    )


def _wrong_unit(files: Sequence[Glimpse], middle: float) -> InputError:
    guesses = [
        f"it would be {_day(middle * factor)} if it were in {unit}"
        for unit, factor in (("milliseconds", 1e-3), ("microseconds", 1e-6), ("nanoseconds", 1e-9), ("seconds", 1e3))
        if EARLIEST_EPOCH_S <= middle * factor <= LATEST_EPOCH_S
    ]
    return InputError(
        field=f"{files[0].name}: arrival time",
        value=middle,
        problem="; ".join(["is not a time of this century in seconds since 1970", *guesses[:1]]),
        fix="Map the column under its unit, for example --column arrival_ms=COLUMN.",
    )


def _day(epoch_s: float) -> str:
    return datetime.datetime.fromtimestamp(epoch_s, tz=datetime.UTC).date().isoformat()


def _reason(draft: Draft, middle_s: float) -> str:
    """SQL that names why a row is dropped; NULL for a row that is kept."""
    cases = [("unreadable_", "not JSON"), ("other_", draft.otherwise)]
    if draft.clock is not Clock.NONE:
        cases.append(("arrival_s IS NULL AND trim(time_) <> ''", UNREAD_TIME))
        cases.append(("arrival_s IS NULL OR isnan(arrival_s) OR isinf(arrival_s)", "no arrival time"))
    if draft.clock is Clock.UTC:
        outside = f"arrival_s NOT BETWEEN {EARLIEST_EPOCH_S} AND {LATEST_EPOCH_S}"
        cases.append((outside, "arrival time outside the years 2000 to 2100"))
    elif draft.clock is not Clock.NONE:
        stray = f"abs(arrival_s - {middle_s!r}) > {LONGEST_TRACE_S}"
        cases.append((stray, "arrival time more than a hundred years from the others"))
    for column in ("prompt_tokens", "output_tokens"):
        if column in draft.columns:
            words = column.replace("_", " ")
            cases.append((f"{column} < 0", f"negative {words}"))
            cases.append((f"{column} > {MOST_TOKENS}", f"more {words} than any request has"))
    return "CASE " + " ".join(f"WHEN {when} THEN {text(then)}" for when, then in cases) + " END"


def _tally(connection: DuckDBPyConnection, draft: Draft, table: str, reason: str) -> _Tally:
    """Counts everything in one scan; rows are sorted by reason in a second, where any is to be dropped."""
    arrival = "arrival_s" if draft.clock is not Clock.NONE else "NULL"
    repairs = [(why, when) for why, (when, _, _) in REPAIRS.items() if _applies(draft, when)]
    measures = [f"count({name(column)})" for column in draft.columns]
    measures += [f"count(*) FILTER (WHERE {when})" for _, when in repairs]

    def measured(where: str) -> tuple[Any, ...]:
        select = f"SELECT count(*), min({arrival}), count({reason}), {', '.join(measures)} FROM {table}"
        return tuple(connection.execute(f"{select} {where}").fetchall()[0])

    found = measured("")
    dropped: list[tuple[str, int]] = []
    if found[2]:
        rows = f"SELECT {reason} AS reason_, count(*) FROM {table} GROUP BY reason_ HAVING reason_ IS NOT NULL"
        dropped = connection.execute(f"{rows} ORDER BY reason_").fetchall()
        found = measured(f"WHERE ({reason}) IS NULL")
    kept, least, _, *counts = found
    filled = dict(zip(draft.columns, counts[: len(draft.columns)], strict=True))
    mended = zip(repairs, counts[len(draft.columns) :], strict=True)
    return _Tally(
        kept_rows=kept,
        least_s=least,
        known=frozenset(column for column, count in filled.items() if count),
        dropped=tuple(dropped),
        repaired=tuple((why, count) for (why, _), count in mended if count),
    )


def _applies(draft: Draft, condition: str) -> bool:
    return set(re.findall(r"[a-z]+_(?:s|tokens)", condition)) <= set(draft.columns)


def _canonical(table: str, reason: str, tally: _Tally, start_s: float) -> str:
    mended = {column: sql for why, (_, column, sql) in REPAIRS.items() if why in dict(tally.repaired)}
    if "arrival_s" in tally.known and start_s:
        mended["arrival_s"] = f"arrival_s - {start_s!r}"
    listed = ", ".join(
        f"{mended.get(ours, name(ours))} AS {name(ours)}" if ours in tally.known else f"NULL::{kind} AS {name(ours)}"
        for ours, kind in SQL_TYPES.items()
    )
    where = f" WHERE ({reason}) IS NULL" if tally.dropped else ""
    return f"SELECT {listed} FROM {table}{where}"


def _examples(
    connection: DuckDBPyConnection, draft: Draft, table: str, reason: str, tally: _Tally
) -> tuple[RowReason, ...]:
    shown = [column for column in ("arrival_s", "prompt_tokens", "output_tokens") if column in draft.columns]
    values = ", ".join(shown) if shown else "NULL"
    found = []
    for why, rows in tally.dropped:
        first = connection.execute(
            f"SELECT place_, time_, {values} FROM (SELECT row_number() OVER () AS place_, *, {reason} AS reason_ "
            f"FROM {table}) WHERE reason_ = {text(why)} LIMIT 1"
        ).fetchall()[0]
        pairs = [f"{column} = {value}" for column, value in zip(shown, first[2:], strict=False) if value is not None]
        # Shown only where it looks like a time: a wrong column may hold anything, and anomalies are shared.
        written = [f"time = {first[1]}"] if first[1] and re.fullmatch(r"[\dTZ:.,+/ -]{4,40}([AP]M)?", first[1]) else []
        found.append(RowReason(reason=why, rows=rows, first_row=first[0], example=", ".join([*written, *pairs])))
    return tuple(found)


def forget_rejected(connection: DuckDBPyConnection) -> None:
    """Before a file is read again, so that no line counts twice."""
    for table in (REJECTED_LINES, f"{REJECTED_LINES}_scan"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def rejected_lines(connection: DuckDBPyConnection, files: Sequence[Glimpse]) -> tuple[RowReason, ...]:
    if all(file.layout is not Layout.CSV for file in files):
        return ()
    rows = connection.execute(
        "SELECT error_type::VARCHAR, count(*), min(line) FROM (SELECT DISTINCT ON (scan_id, file_id, line) "
        f"error_type, line FROM {REJECTED_LINES} ORDER BY scan_id, file_id, line) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return tuple(
        # The table counts lines of the file; a row is counted from the first after the header.
        RowReason(reason=REJECTIONS.get(kind, kind.lower()), rows=count, first_row=max(1, line - 1), example="")
        for kind, count, line in rows
    )


def _nothing_kept(files: Sequence[Glimpse], counts: RowCounts) -> InputError:
    names = ", ".join(file.name for file in files[:3])
    if not counts.dropped:
        return InputError(field="trace", value=names, problem="holds no requests", fix="Give a file with requests.")
    worst = max(counts.dropped, key=lambda each: each.rows)
    seen = f" ({worst.example})" if worst.example else ""
    return InputError(
        field="trace",
        value=names,
        problem=f"no row of {counts.read_rows} can be used; {worst.rows} for this reason: {worst.reason}; "
        f"the first is row {worst.first_row}{seen}",
        fix="Check the columns and their units, or map them with --column.",
    )


def _zone(connection: DuckDBPyConnection, draft: Draft, table: str, zone: str) -> tuple[str, tuple[Anomaly, ...]]:
    """The zone that stamps are written in; a stamp without one is an anomaly unless the user named it."""
    if draft.clock is not Clock.UTC:
        return "", ()
    if not draft.time:
        return "UTC", ()
    rows = connection.execute(
        f"SELECT regexp_extract(time_, '(Z|UTC|GMT|[+-]\\d\\d:?\\d\\d|[+-]\\d\\d)$') AS zone_, count(*) "
        f"FROM {table} WHERE time_ LIKE '%:%' GROUP BY zone_ ORDER BY zone_"
    ).fetchall()
    zones = {row[0]: int(row[1]) for row in rows}
    if not zones:
        # Numbers count from 1970 in UTC.
        return "UTC", ()
    bare = zones.pop("", 0)
    names = sorted({"UTC" if each in ("Z", "UTC", "GMT", "+00", "+00:00", "+0000") else each for each in zones})
    written = names[0] if len(names) == 1 else "several offsets"
    if not bare:
        return written, _several_offsets(names)
    if zone:
        return zone if not names else f"{written} and {zone}", ()
    if names:
        return "several offsets", (_mixed(bare, sum(zones.values())),)
    return "", (
        Anomaly(
            kind=AnomalyKind.LOCAL_TIME,
            weight=Severity.NOTE,
            sentence="The times carry no zone and are read as UTC; name the zone with --zone if they are local.",
            touches=("season",),
        ),
    )


def _several_offsets(names: Sequence[str]) -> tuple[Anomaly, ...]:
    # An hour apart is one place before and after its clocks changed; anything else is two places in one log.
    if len(names) < 2:
        return ()
    return (
        Anomaly(
            kind=AnomalyKind.LOCAL_TIME,
            weight=Severity.NOTE,
            sentence=f"The times are written in {len(names)} offsets ({', '.join(names[:4])}): each is read by its "
            "own, and hours of the day are UTC.",
            touches=("season",),
        ),
    )


def _mixed(bare: int, zoned: int) -> Anomaly:
    share = bare / (bare + zoned)
    return Anomaly(
        kind=AnomalyKind.LOCAL_TIME,
        weight=Severity.SERIOUS if share > GRAVE_DROPPED_FRACTION else Severity.CAUTION,
        sentence=f"{bare:,} of {bare + zoned:,} times carry no zone while others do: they are read as UTC, and are "
        "hours off if they are "
        "local; name their zone with --zone.",
        share_fraction=share,
        touches=("arrivals", "season"),
    )


# ---- columns by their usual names --------------------------------------------------------------------

# No engine takes a second for a token, nor writes a thousand tokens of one answer in a second: between seconds and
# milliseconds a token lies this border. Where outputs are unknown, a typical request of so many is not in seconds.
_LONGEST_TOKEN_S = 1.0
_LONGEST_TYPICAL_S = {"duration_s": 120.0, "ttft_s": 30.0}


def settled(connection: DuckDBPyConnection, draft: Draft, table: str) -> tuple[str, tuple[Anomaly, ...]]:
    """The rows with durations in seconds, where their unit had to be read off their values."""
    scaled, said = [], []
    for column in draft.unsettled:
        by_token = column == "duration_s" and "output_tokens" in draft.columns
        typical, token = connection.execute(
            f"SELECT median({column}), median({f'{column} / output_tokens' if by_token else 'NULL'}) "
            f"FROM (SELECT * FROM {table} WHERE {column} > 0 {'AND output_tokens > 1' if by_token else ''} "
            "LIMIT 100000)"
        ).fetchall()[0]
        is_ms = token > _LONGEST_TOKEN_S if token is not None else (typical or 0.0) > _LONGEST_TYPICAL_S[column]
        scaled += [f"{column} * 1e-3 AS {column}"] if is_ms else []
        said.append(_unit_note(draft, column, "milliseconds" if is_ms else "seconds"))
    if not scaled:
        return table, tuple(said)
    view = f"{table}_settled"
    connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * REPLACE ({', '.join(scaled)}) FROM {table}")
    return view, tuple(said)


def _unit_note(draft: Draft, column: str, unit: str) -> Anomaly:
    theirs = draft.borrowed.get(column, column)
    other = column.removesuffix("_s") + ("_s" if unit == "milliseconds" else "_ms")
    return Anomaly(
        kind=AnomalyKind.UNIT_UNCERTAIN,
        weight=Severity.NOTE,
        sentence=f"{theirs} carries no unit and is read as {unit}, by its size; if it is not, give "
        f"--column {other}={theirs}.",
        touches=("inflight",),
    )


def _column_anomalies(draft: Draft, unread: Sequence[Unread]) -> list[Anomaly]:
    found = []
    if draft.borrowed:
        found.append(
            Anomaly(kind=AnomalyKind.USUAL_NAMES, weight=Severity.NOTE, sentence=borrowed_sentence(draft.borrowed))
        )
    if unread:
        found.append(Anomaly(kind=AnomalyKind.UNREAD_COLUMNS, weight=Severity.NOTE, sentence=unread_sentence(unread)))
    return found


def _lost_values(connection: DuckDBPyConnection, draft: Draft, table: str, rows: int) -> list[Anomaly]:
    """Columns of which values were left out, because they are no numbers that are read here."""
    if not draft.raw:
        return []
    columns = [name(f"lost_{ours}") for ours in draft.raw]
    counted = ", ".join(f"count({column}), first({column}) FILTER ({column} IS NOT NULL)" for column in columns)
    found = connection.execute(f"SELECT {counted} FROM {table} WHERE NOT other_").fetchall()[0]
    anomalies = []
    for place, ours in enumerate(draft.raw):
        lost, example = found[2 * place : 2 * place + 2]
        # Shown only where it looks like a number: a wrong column may hold anything, and anomalies are shared.
        shown = f" (the first: {example})" if lost and re.fullmatch(r"[-+]?\d[\w.,:%/ -]{0,20}", example) else ""
        if lost:
            anomalies.append(
                Anomaly(
                    kind=AnomalyKind.UNREAD_VALUES,
                    weight=Severity.SERIOUS if lost > GRAVE_DROPPED_FRACTION * rows else Severity.CAUTION,
                    sentence=f"{lost:,} value{'s' if lost > 1 else ''} of {draft.borrowed.get(ours, ours)} cannot be "
                    f"read as a number{shown}, and count as unknown.",
                    share_fraction=min(1.0, lost / rows),
                    touches=("lengths",) if ours.endswith("_tokens") else ("inflight",),
                )
            )
    return anomalies


def _row_anomalies(counts: RowCounts, draft: Draft) -> list[Anomaly]:
    anomalies = []
    for each in counts.dropped:
        share = each.rows / counts.read_rows
        first = f"; the first is row {each.first_row}" + (f" ({each.example})" if each.example else "")
        grave = Severity.SERIOUS if share > GRAVE_DROPPED_FRACTION else Severity.CAUTION
        anomalies.append(
            Anomaly(
                kind=AnomalyKind.ROWS_DROPPED,
                weight=Severity.NOTE if each.reason == draft.otherwise else grave,
                sentence=f"{each.rows:,} of {counts.read_rows:,} rows were left out: {each.reason}{first}.",
                share_fraction=share,
                touches=("arrivals", "lengths"),
            )
        )
    anomalies.extend(
        Anomaly(
            kind=AnomalyKind.ROWS_REPAIRED,
            weight=Severity.NOTE,
            sentence=f"{each.rows:,} of {counts.read_rows:,} rows were repaired: {each.reason}.",
            share_fraction=each.rows / counts.read_rows,
            touches=("lengths",),
        )
        for each in counts.repaired
    )
    return anomalies
