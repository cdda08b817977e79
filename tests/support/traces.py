"""Traces made in a test: canonical columns from plain lists."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from ullage.workload.trace import SQL_TYPES, Clock, RowCounts, Trace


def make_trace(
    *,
    clock: Clock = Clock.RELATIVE,
    start_epoch_s: float | None = None,
    zone: str = "",
    block_tokens: int | None = None,
    **columns: Sequence[object],
) -> Trace:
    """A trace with these columns; `class_` stands for class, which is a word of Python."""
    named = {name.rstrip("_"): list(values) for name, values in columns.items()}
    lists = {name: f"unnest(${name}::{SQL_TYPES[name]}[])" for name in named}
    connection = duckdb.connect(config={"threads": 2})
    listed = ", ".join(f'{lists.get(name, f"NULL::{kind}")} AS "{name}"' for name, kind in SQL_TYPES.items())
    connection.execute(f"CREATE TABLE made AS SELECT {listed}", named)
    rows = len(next(iter(named.values())))
    return Trace(
        relation=connection.sql("SELECT * FROM made"),
        columns=frozenset(named),
        clock=clock,
        rows=RowCounts(read_rows=rows, kept_rows=rows),
        format="made",
        sources=("made",),
        start_epoch_s=start_epoch_s if clock is Clock.UTC else None,
        zone=zone,
        block_tokens=block_tokens,
    )


def where(trace: Trace, condition: str) -> Trace:
    """The rows of a trace that meet a condition, as a partition of it: same clock, same columns."""
    from dataclasses import replace

    relation = trace.query(f"SELECT * FROM trace WHERE {condition}")
    rows = len(relation.fetchall())
    return replace(trace, relation=relation, rows=RowCounts(read_rows=rows, kept_rows=rows))
