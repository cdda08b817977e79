"""Points in time, from any monitoring system, made into one table of requests counted in windows.

A reader of rates hands over SQL for points, one row each:

    at_s      when the window begins (a monitoring system's own stamp)
    series    what belongs together: one line of a chart
    role      requests, prompt_tokens, output_tokens or cached_tokens
    measure   count (in the window), rps, rpm, rph, counter (ever growing), or '' where nothing states it
    value     the number
    width_s   how long the window is, where the source says so
    model, tenant, product, class, time_ (the stamp as it was written)

The width is that of the finest series. Counters become differences, a fall in one being a restart. A value that nobody
named is a count where all of them are whole and a rate a second where they are not; the table says which was taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError
from ullage.readers.traces.clean import EARLIEST_EPOCH_S, LATEST_EPOCH_S, forget_rejected, rejected_lines
from ullage.readers.traces.dates import settle_order
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.rates.names import DIMENSIONS
from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity
from ullage.workload.trace import Clock, RateTable, RowCounts, RowReason

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROLES = ("requests", "prompt_tokens", "output_tokens", "cached_tokens")
_PER = {"rps": "* width", "rpm": "* width / 60.0", "rph": "* width / 3600.0", "count": "", "counter": ""}
_IN_WORDS = {
    "rps": "requests a second",
    "rpm": "requests a minute",
    "rph": "requests an hour",
    "count": "requests in each window",
}
_DAY_S = 86_400.0
_LONGEST_WINDOW_S = 366 * _DAY_S
# A year of minutes: what a counter grew by over more windows cannot be laid onto them.
_MOST_BETWEEN_SCRAPES = 500_000
# A gap of more than this share of the windows is worth a word.
_MISSING_FRACTION = 0.01
# Thirty years of points ten seconds apart.
_MOST_WINDOWS = 1e8


@dataclass(frozen=True, kw_only=True)
class RateReader:
    """One format of rates over time: what it is called, which files are its own, and SQL for their points."""

    name: str
    title: str
    recognises: Callable[[Glimpse], bool]
    points: Callable[[Sequence[Glimpse]], str]


def open_points(
    connection: DuckDBPyConnection, reader: RateReader, files: Sequence[Glimpse], *, zone: str, measure: str = ""
) -> RateTable:
    """The table of counted windows that a reader's points make; `measure` is what the user says that values are."""
    points = reader.points(files)
    _materialise(connection, points, files)
    ordered = settle_order(connection, "ullage_points", files[0].name)
    if ordered is not None:
        forget_rejected(connection)
        _materialise(connection, points, files)
    _refuse_other_clocks(connection, files)
    rows = _counted_rows(connection, files)
    repeated = _repeated(connection, rows)
    width_s = _width_s(connection, files)
    _refuse_too_many_windows(connection, files, width_s)
    if measure:
        connection.execute(f"UPDATE ullage_points SET measure = '{measure}' WHERE role = 'requests'")
    guessed = _settle_measure(connection)
    _fold_counters(connection)
    _align(connection, files, width_s)
    _pivot(connection)
    return RateTable(
        rates=connection.sql("SELECT * FROM ullage_windows"),
        width_s=width_s,
        rows=rows,
        format=reader.name,
        sources=tuple(file.name for file in files),
        clock=Clock.UTC,
        zone=_zone(connection, zone),
        anomalies=(
            *_anomalies(connection, rows, guessed, width_s),
            *repeated,
            *_zone_note(connection, zone),
            *([ordered] if ordered else []),
        ),
    )


def _materialise(connection: DuckDBPyConnection, points: str, files: Sequence[Glimpse]) -> None:
    import duckdb

    try:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE ullage_points AS {points}")
    except duckdb.Error as error:
        detail = re.sub(r"\s+", " ", str(error).split("\n\n")[0])[:200]
        raise InputError(
            field="trace",
            value=files[0].name,
            problem=f"cannot be read ({detail})",
            fix="It may be cut; export it again.",
        ) from None


def _counted_rows(connection: DuckDBPyConnection, files: Sequence[Glimpse]) -> RowCounts:
    """Every point is kept or counted; those that cannot be used are taken out."""
    # A time outside the century is no time: one of them would stretch the others over decades of empty windows.
    usable = (
        f"at_s BETWEEN {EARLIEST_EPOCH_S} AND {LATEST_EPOCH_S} AND "
        "value IS NOT NULL AND NOT isnan(value) AND NOT isinf(value) AND value >= 0"
    )
    read, kept = _one(
        connection,
        f"SELECT count(*), count(*) FILTER ({usable}) FROM ullage_points WHERE role = 'requests'",
    )
    dropped = list(rejected_lines(connection, files))
    if read > kept:
        dropped.append(
            RowReason(reason="no time, or no number of 0 or more", rows=read - kept, first_row=0, example="")
        )
    if not kept:
        raise InputError(
            field="trace",
            value=", ".join(file.name for file in files[:3]),
            problem="has times and numbers, but no count or rate of requests that can be used",
            fix="Export the number of requests, or name its column, for example --column rate_rps=COLUMN.",
        )
    connection.execute(f"DELETE FROM ullage_points WHERE ({usable}) IS NOT TRUE")
    return RowCounts(read_rows=kept + sum(each.rows for each in dropped), kept_rows=kept, dropped=tuple(dropped))


def _repeated(connection: DuckDBPyConnection, rows: RowCounts) -> list[Anomaly]:
    """Points that another one repeats: exports that overlap, or columns that nobody read and that tell them apart."""
    dimensions = ", ".join(f'"{each}"' for each in DIMENSIONS)
    (repeated,) = _one(
        connection,
        f"SELECT count(*) - count(DISTINCT (series, at_s, value, {dimensions})) FROM ullage_points "
        "WHERE role = 'requests' AND value > 0",
    )
    if repeated <= _MISSING_FRACTION * rows.kept_rows:
        return []
    share = repeated / rows.kept_rows
    return [
        Anomaly(
            kind=AnomalyKind.DUPLICATES,
            weight=Severity.SERIOUS if share > 0.05 else Severity.CAUTION,
            sentence=f"{repeated:,} of {rows.kept_rows:,} points repeat another one, time and value; both are counted, "
            "so rates may be too high by that much: exports overlap, or a column that was not read tells them apart.",
            share_fraction=share,
            touches=("arrivals",),
        )
    ]


def _refuse_other_clocks(connection: DuckDBPyConnection, files: Sequence[Glimpse]) -> None:
    (middle,) = _one(connection, "SELECT median(at_s) FROM ullage_points WHERE isfinite(at_s)")
    if middle is None or EARLIEST_EPOCH_S <= middle <= LATEST_EPOCH_S:
        return
    raise InputError(
        field=f"{files[0].name}: time",
        value=middle,
        problem="is not a calendar time of this century, which rates over time need",
        fix="Give times as text, or in seconds or milliseconds since 1970.",
    )


def _width_s(connection: DuckDBPyConnection, files: Sequence[Glimpse]) -> float:
    stated, stepped = _one(
        connection,
        # Scrapes of a counter jitter and may be doubled, so that their least distance says nothing.
        "SELECT min(width_s), least(min(step) FILTER (measure <> 'counter'), median(step) FILTER (measure = 'counter'))"
        " FROM (SELECT width_s, measure, at_s - lag(at_s) OVER (PARTITION BY series, role "
        "ORDER BY at_s) AS step FROM ullage_points) WHERE step > 0 OR step IS NULL",
    )
    (only_s,) = _one(connection, "SELECT max(at_s) FROM ullage_points")
    # A report with one row, stamped at midnight, is of a day.
    width_s = stated or stepped or (_DAY_S if only_s % _DAY_S == 0 else None)
    if width_s is None:
        raise InputError(
            field="trace",
            value=files[0].name,
            problem="has one point in time, and its duration is not stated",
            fix="Export at least two points.",
        )
    if not width_s >= 1.0:
        raise InputError(
            field=f"{files[0].name}: time",
            value=width_s,
            problem="points are that many seconds apart, and windows of less than a second are not read",
            fix="Check the unit of the times, or list requests instead of counting them.",
        )
    if width_s > _LONGEST_WINDOW_S:
        raise InputError(
            field=f"{files[0].name}: time",
            value=f"{width_s:.4g} s",
            problem="is the length of a window, and rates need windows of a year at most",
            fix="Check the ends of the windows, or export narrower ones.",
        )
    connection.execute(f"ALTER TABLE ullage_points ADD COLUMN width DOUBLE DEFAULT {round(width_s)!r}")
    return float(round(width_s))


def _refuse_too_many_windows(connection: DuckDBPyConnection, files: Sequence[Glimpse], width_s: float) -> None:
    """A stray time may lie decades before the others, all of which would be windows in which nothing was recorded."""
    (span_s,) = _one(connection, "SELECT max(at_s) - min(at_s) FROM ullage_points")
    if span_s <= _MOST_WINDOWS * width_s:
        return
    raise InputError(
        field=f"{files[0].name}: time",
        value=span_s,
        problem=f"seconds lie between the first point and the last, more than {_MOST_WINDOWS:.0e} windows of "
        f"{width_s:g} s",
        fix="Leave out points of another time, or export wider windows.",
    )


def _settle_measure(connection: DuckDBPyConnection) -> str:
    """Points of requests that nobody gave a unit: whole numbers are counts, others are rates a second."""
    unsaid, whole = _one(
        connection,
        "SELECT count(*), COALESCE(bool_and(value = floor(value)), true) FROM ullage_points "
        "WHERE measure = '' AND role = 'requests'",
    )
    taken = "count" if whole else "rps"
    connection.execute(
        f"UPDATE ullage_points SET measure = CASE WHEN role = 'requests' THEN '{taken}' ELSE 'count' END WHERE "
        "measure = ''"
    )
    return taken if unsaid else ""


def _fold_counters(connection: DuckDBPyConnection) -> None:
    """Growth of each counter from point to point; after a restart it has grown by what it shows."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE ullage_points AS SELECT * EXCLUDE (before, previous_s) REPLACE ("
        "CASE WHEN measure = 'counter' THEN previous_s ELSE at_s END AS at_s, CASE WHEN measure <> 'counter' THEN "
        "value "
        "WHEN value < before THEN value ELSE value - before END AS value), at_s AS until_s FROM (SELECT *, "
        "lag(value) OVER (PARTITION BY series, role ORDER BY at_s) AS before, "
        "lag(at_s) OVER (PARTITION BY series, role ORDER BY at_s) AS previous_s FROM ullage_points) "
        "WHERE measure <> 'counter' OR before IS NOT NULL"
    )


def _align(connection: DuckDBPyConnection, files: Sequence[Glimpse], width_s: float) -> None:
    """Points as they were scraped, each instance at its own moment, laid onto windows that all of them share.

    What a counter grew by between two scrapes is divided over the windows that lie between them; the first and the last
    window, which scrapes cover only in part, are left out. Without this an instance would stand alone in each window.
    """
    shift = f"at_s - {width_s!r} * floor(at_s / {width_s!r})"
    (is_scraped,) = _one(
        connection, f"SELECT max({shift}) - min({shift}) > 0.001 FROM ullage_points WHERE measure = 'counter'"
    )
    if not is_scraped:
        return
    (longest_s,) = _one(connection, "SELECT max(until_s - at_s) FROM ullage_points WHERE measure = 'counter'")
    if longest_s > _MOST_BETWEEN_SCRAPES * width_s:
        raise InputError(
            field=f"{files[0].name}: time",
            value=f"{longest_s:.4g} s",
            problem="lie between two scrapes of a counter, and nothing says when it grew",
            fix="Leave out scrapes of another time.",
        )
    first = f"CAST(floor(at_s / {width_s!r}) AS BIGINT)"
    last = f"CASE WHEN measure = 'counter' THEN CAST(ceil(until_s / {width_s!r}) AS BIGINT) ELSE {first} + 1 END"
    overlap = f"(least(until_s, at_ + {width_s!r}) - greatest(at_s, at_)) / (until_s - at_s)"
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE ullage_points AS SELECT * EXCLUDE (at_, until_s) REPLACE (at_ AS at_s, "
        f"CASE WHEN measure = 'counter' THEN value * {overlap} ELSE value END AS value) FROM (SELECT *, "
        f"CAST({width_s!r} AS DOUBLE) * unnest(range({first}, {last})) AS at_ "
        "FROM ullage_points WHERE until_s > at_s OR measure <> 'counter')"
    )
    connection.execute(
        "DELETE FROM ullage_points WHERE (SELECT count(DISTINCT at_s) FROM ullage_points) > 3 AND at_s IN "
        "((SELECT min(at_s) FROM ullage_points), (SELECT max(at_s) FROM ullage_points))"
    )


def _pivot(connection: DuckDBPyConnection) -> None:
    scaled = " ".join(f"WHEN '{measure}' THEN value {factor}" for measure, factor in _PER.items())
    amounts = ", ".join(f"sum(amount) FILTER (role = '{role}') AS {role}" for role in ROLES)
    listed = ", ".join(f'"{dimension}"' for dimension in DIMENSIONS)
    connection.execute(
        f"CREATE TEMP TABLE ullage_windows AS SELECT at_s AS window_s, {listed}, {amounts}, NULL::DOUBLE AS gap_cv "
        f"FROM (SELECT *, CASE measure {scaled} END AS amount FROM ullage_points) GROUP BY window_s, {listed} "
        "HAVING requests IS NOT NULL"
    )


def _zone(connection: DuckDBPyConnection, zone: str) -> str:
    return "" if _has_bare_stamps(connection) and not zone else zone or "UTC"


def _has_bare_stamps(connection: DuckDBPyConnection) -> bool:
    (found,) = _one(
        connection,
        "SELECT count(*) FROM ullage_points WHERE time_ LIKE '%:%' AND NOT "
        "regexp_matches(time_, '(Z|UTC|GMT|[+-]\\d\\d:?\\d\\d|[+-]\\d\\d)$')",
    )
    return bool(found)


def _zone_note(connection: DuckDBPyConnection, zone: str) -> list[Anomaly]:
    if zone or not _has_bare_stamps(connection):
        return []
    return [
        Anomaly(
            kind=AnomalyKind.LOCAL_TIME,
            weight=Severity.NOTE,
            sentence="The times carry no zone and are read as UTC; name the zone with --zone if they are local.",
            touches=("season",),
        )
    ]


def _anomalies(connection: DuckDBPyConnection, rows: RowCounts, measure: str, width_s: float) -> list[Anomaly]:
    found = [
        Anomaly(
            kind=AnomalyKind.COUNTED,
            weight=Severity.NOTE,
            sentence=f"Requests are counted in windows of {width_s:g} s, not listed: bursts shorter than that, "
            "sessions, "
            "durations and the tails of lengths are not in this source.",
            touches=("bursts", "lengths"),
        )
    ]
    found += [
        Anomaly(
            kind=AnomalyKind.ROWS_DROPPED,
            weight=Severity.SERIOUS if each.rows > 0.05 * rows.read_rows else Severity.CAUTION,
            sentence=f"{each.rows:,} of {rows.read_rows:,} points were left out: {each.reason}.",
            share_fraction=each.rows / rows.read_rows,
            touches=("arrivals",),
        )
        for each in rows.dropped
    ]
    if measure:
        other = "rate_rps" if measure == "count" else "requests"
        found.append(
            Anomaly(
                kind=AnomalyKind.UNIT_UNCERTAIN,
                weight=Severity.NOTE if measure == "count" else Severity.CAUTION,
                sentence=f"Nothing states the unit of the values; they are read as {_IN_WORDS[measure]}, because they "
                f"are {'whole' if measure == 'count' else 'not whole'} numbers. If they are not, name them by their "
                f"unit: --column {other}=COLUMN (rate_rps, rate_rpm, requests; `value` for a series in JSON).",
                touches=("arrivals",),
            )
        )
    windows, first_s, last_s = _one(
        connection, "SELECT count(DISTINCT window_s), min(window_s), max(window_s) FROM ullage_windows"
    )
    missing = round((last_s - first_s) / width_s) + 1 - windows
    if missing > _MISSING_FRACTION * (windows + missing):
        share = missing / (windows + missing)
        found.append(
            Anomaly(
                kind=AnomalyKind.HOLES,
                weight=Severity.SERIOUS if share > 0.05 else Severity.CAUTION,
                sentence=f"{missing:,} of {windows + missing:,} windows are missing ({share:.0%}): nothing was "
                "recorded, which does not mean no "
                "traffic.",
                share_fraction=share,
                touches=("arrivals", "season"),
            )
        )
    return found


def _one(connection: DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(sql).fetchall()[0]
    return row
