"""Pieces of SQL that readers are made of: quoting, casts that give NULL instead of failing, words for a status."""

from __future__ import annotations

from collections.abc import Sequence


def text(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("'", "''") + "'"


def name(column: str) -> str:
    """A quoted identifier."""
    return '"' + column.replace('"', '""') + '"'


def file_list(paths: Sequence[str]) -> str:
    """A list literal of file names; a name is never read as a glob again."""
    return "[" + ", ".join(text(_literal(path)) for path in paths) + "]"


def _literal(path: str) -> str:
    # DuckDB expands globs in file names; a bracket around the magic character makes it plain.
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def whole(value: str) -> str:
    """A whole number, from a number or from text such as `12` and `12.0`; NULL where it is not one."""
    return f"COALESCE(TRY_CAST({value} AS BIGINT), TRY_CAST(TRY_CAST({value} AS DOUBLE) AS BIGINT))"


def number(value: str, factor: float = 1.0) -> str:
    """A number, scaled to our unit."""
    cast = f"TRY_CAST({value} AS DOUBLE)"
    return cast if factor == 1.0 else f"({cast} * {factor!r})"


def stamp(value: str) -> str:
    """Seconds since 1970 from a time written as text (dates.py says in which ways).

    A stamp without a zone is read in the connection's zone: UTC, or the one the user named.
    """
    return f"ullage_epoch(CAST({value} AS VARCHAR))"


def moment(value: str, kind: str = "") -> str:
    """Seconds since 1970 from a time of unknown make: text, a timestamp, or a number whose size shows its unit.

    No calendar time in seconds reaches 1e11 (the year 5138), and none in milliseconds is below it since 1973. A smaller
    number counts from some start and is left as it is. Fourteen digits of this century are a date and a time of day
    (20261118130500), which no count of milliseconds reaches before the year 2600.
    """
    if kind.startswith(("TIMESTAMP", "DATE")):
        return f"epoch(CAST({value} AS TIMESTAMPTZ))"
    count = f"TRY_CAST({value} AS DOUBLE)"
    sized = (
        f"CASE WHEN {count} BETWEEN 2.0e13 AND 2.1e13 THEN {stamp(value)} WHEN {count} >= 1e17 THEN {count} / 1e9 "
        f"WHEN {count} >= 1e14 THEN {count} / 1e6 WHEN {count} >= 1e11 THEN {count} / 1e3 ELSE {count} END"
    )
    return f"CASE WHEN {count} IS NULL THEN {stamp(value)} ELSE {sized} END"


def serial_day(value: str) -> str:
    """Seconds since 1970 from a day as Excel counts them, in the connection's zone."""
    past = f"to_microseconds(CAST(round(TRY_CAST({value} AS DOUBLE) * 86400e6) AS BIGINT))"
    return f"epoch(CAST(TIMESTAMP '1899-12-30' + {past} AS TIMESTAMPTZ))"


def words(value: str) -> str:
    """Text, with the empty string and the dash of access logs meaning nothing."""
    return f"NULLIF(NULLIF(CAST({value} AS VARCHAR), ''), '-')"


def first_of(*values: str) -> str:
    return values[0] if len(values) == 1 else f"COALESCE({', '.join(values)})"


def hashes(value: str, *, is_list: bool = False) -> str:
    """A list of block hashes, hashed again from whatever they are, because only their equality matters."""
    listed = value if is_list else f"TRY_CAST({value} AS VARCHAR[])"
    return f"list_transform({listed}, lambda block: hash(block))"


# Spellings seen in the formats read here and in users' own tables; anything else is unknown, never `ok`.
STATUS_WORDS: dict[str, tuple[str, ...]] = {
    "ok": (
        "ok",
        "success",
        "succeed",
        "succeeded",
        "successful",
        "completed",
        "complete",
        "finished",
        "stop",
        "length",
    ),
    "failed": ("failed", "fail", "failure", "error", "errored", "timeout", "timed_out", "rejected"),
    "cancelled": ("cancelled", "canceled", "cancel", "abort", "aborted", "incomplete", "disconnected"),
}


def status(value: str) -> str:
    """`ok`, `failed` or `cancelled` from a status word or an HTTP status code; NULL for a word not known."""
    # One WHEN a word: DuckDB turns a longer IN list into a join that every query over the rows would pay for.
    words_ = " ".join(f"WHEN {text(word)} THEN {text(ours)}" for ours, spelt in STATUS_WORDS.items() for word in spelt)
    code = whole(value)
    coded = (
        f"CASE WHEN {code} = 499 THEN 'cancelled' WHEN {code} BETWEEN 200 AND 399 THEN 'ok' "
        f"WHEN {code} BETWEEN 400 AND 599 THEN 'failed' END"
    )
    return f"CASE lower(CAST({value} AS VARCHAR)) {words_} ELSE {coded} END"
