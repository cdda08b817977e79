"""A trace as every stage sees it: a DuckDB relation with canonical columns, and what is known about it.

Readers make traces; nothing below this line of the pipeline knows what a file is. All canonical columns
stand in the relation; those the source does not know are NULL throughout and missing from `columns`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ullage.workload.anomalies import Anomaly

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation


@dataclass(frozen=True, kw_only=True)
class TraceColumn:
    """One canonical column: its name, its SQL type, its unit and what it means."""

    name: str
    sql_type: str
    unit: str
    meaning: str


COLUMNS: tuple[TraceColumn, ...] = (
    TraceColumn(
        name="arrival_s", sql_type="DOUBLE", unit="s", meaning="when the request arrived, from the trace's start"
    ),
    TraceColumn(name="prompt_tokens", sql_type="BIGINT", unit="tokens", meaning="prompt length, cached part included"),
    TraceColumn(name="output_tokens", sql_type="BIGINT", unit="tokens", meaning="answer length, reasoning included"),
    TraceColumn(
        name="cached_tokens", sql_type="BIGINT", unit="tokens", meaning="part of the prompt served from a cache"
    ),
    TraceColumn(
        name="reasoning_tokens", sql_type="BIGINT", unit="tokens", meaning="part of the answer that is reasoning"
    ),
    TraceColumn(name="duration_s", sql_type="DOUBLE", unit="s", meaning="from arrival to the end of the answer"),
    TraceColumn(name="ttft_s", sql_type="DOUBLE", unit="s", meaning="from arrival to the first token"),
    TraceColumn(name="status", sql_type="VARCHAR", unit="", meaning="ok, failed or cancelled"),
    TraceColumn(name="class", sql_type="VARCHAR", unit="", meaning="request class, where the source names it"),
    TraceColumn(name="tenant", sql_type="VARCHAR", unit="", meaning="who pays or is limited: key, team, client"),
    TraceColumn(name="product", sql_type="VARCHAR", unit="", meaning="what the request was made for"),
    TraceColumn(name="model", sql_type="VARCHAR", unit="", meaning="model requested"),
    TraceColumn(name="path", sql_type="VARCHAR", unit="", meaning="route or operation of the API"),
    TraceColumn(name="session", sql_type="VARCHAR", unit="", meaning="conversation or agent run"),
    TraceColumn(name="request", sql_type="VARCHAR", unit="", meaning="identifier of the request, to find duplicates"),
    TraceColumn(
        name="wait_s", sql_type="DOUBLE", unit="s", meaning="from the session's previous answer to this request"
    ),
    TraceColumn(name="after_tool", sql_type="BOOLEAN", unit="", meaning="whether the request brings a tool's result"),
    TraceColumn(name="tool_calls", sql_type="BIGINT", unit="", meaning="tool calls that the answer requests"),
    TraceColumn(name="prompt_blocks", sql_type="BIGINT", unit="blocks", meaning="prefix blocks of the prompt"),
    TraceColumn(
        name="repeated_blocks",
        sql_type="BIGINT",
        unit="blocks",
        meaning="of these, equal to the session's previous request",
    ),
    TraceColumn(name="block_hashes", sql_type="UBIGINT[]", unit="", meaning="one hash for each prefix block, in order"),
)
SQL_TYPES: dict[str, str] = {column.name: column.sql_type for column in COLUMNS}


class Clock(enum.Enum):
    """What the times of a trace can be compared with.

    UTC: with the calendar. RELATIVE: with each other. SESSION: only inside one session. NONE: there are
    no times, only lengths.
    """

    UTC = "utc"
    RELATIVE = "relative"
    SESSION = "session"
    NONE = "none"

    @property
    def orders_requests(self) -> bool:
        """Whether one can say which of two requests of different sessions came first."""
        return self in (Clock.UTC, Clock.RELATIVE)


@dataclass(frozen=True, kw_only=True)
class RowReason:
    """Rows that were left out or mended for one reason, with the first of them to look at."""

    reason: str
    rows: int
    first_row: int
    example: str


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """Every row of the source is accounted for: read = kept + dropped."""

    read_rows: int
    kept_rows: int
    dropped: tuple[RowReason, ...] = ()
    repaired: tuple[RowReason, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Requests, and what is known about their source.

    `start_epoch_s` is the calendar time of arrival_s = 0 in UTC. `zone` is the zone the source wrote in:
    `UTC`, an offset, a name the user gave, or empty where the stamps carry none. `block_tokens` is the
    number of prompt tokens in a prefix block, where the format fixes it. `unread` names columns of the source that
    nothing was read from: while there are any, nothing can be said not to be logged.
    """

    relation: DuckDBPyRelation = field(compare=False)
    columns: frozenset[str]
    clock: Clock
    rows: RowCounts
    format: str
    sources: tuple[str, ...]
    start_epoch_s: float | None = None
    zone: str = ""
    block_tokens: int | None = None
    anomalies: tuple[Anomaly, ...] = ()
    unread: tuple[str, ...] = ()

    def query(self, sql: str) -> DuckDBPyRelation:
        """The answer to SQL in which the trace is called `trace`."""
        answer = self.relation.query("trace", sql)
        # DuckDB gives None for a statement that selects nothing, such as CREATE.
        assert answer is not None
        return answer

    def knows(self, *names: str) -> bool:
        return self.columns.issuperset(names)


@dataclass(frozen=True, kw_only=True)
class RateTable:
    """Requests counted in windows instead of listed: what monitoring systems, reports and some publishers give.

    `rates` has window_s (the start of the window), the dimensions, requests, gap_cv and the sums of prompt_tokens,
    output_tokens and cached_tokens in the window, each NULL where not known; a row for every window that was watched,
    with 0 where nothing came. `lengths` has tenant, model, class, field (a token column's name) and mean_tokens, or is
    None.
    """

    rates: DuckDBPyRelation = field(compare=False)
    lengths: DuckDBPyRelation | None = field(compare=False, default=None)
    width_s: float
    rows: RowCounts
    format: str
    sources: tuple[str, ...]
    clock: Clock = Clock.RELATIVE
    zone: str = ""
    anomalies: tuple[Anomaly, ...] = ()
