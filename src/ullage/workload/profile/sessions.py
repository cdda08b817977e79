"""Sessions: turns, time to think, time in tools, tool calls for each task, and prompts that repeat the last one."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.workload.answers import arrays, one_row
from ullage.workload.profile.series import Distribution, distribution
from ullage.workload.trace import Trace

# Two sessions with the same prompt lengths in the same order are one session recorded twice; fewer turns
# than this can agree by chance.
LEAST_REPEATED_TURNS = 4


@dataclass(frozen=True, kw_only=True)
class SessionProfile:
    """What sessions look like; None where the trace does not log what is needed.

    `think_s` is the pause between an answer and the next request of a person, `tool_s` the same where the
    request brings a tool's result. A request sent before the last answer ended has no pause and counts as
    overlapping. `waits_measured` is false where pauses were computed from arrivals alone,
    so that they include the answer's own time. `pace_ratio` compares the two clocks of a session, the time
    between arrivals with the answers and pauses logged for it; far from 1, one of them is in another unit.
    """

    sessions: int
    requests: int
    turns: Distribution
    length_s: Distribution | None
    think_s: Distribution | None
    tool_s: Distribution | None
    waits_measured: bool
    overlapping_requests: int
    pace_ratio: float | None
    tasks: int | None
    tool_calls_per_task: Distribution | None
    repeated_blocks_fraction: float | None
    repeated_sessions: int


def sessions_of(trace: Trace) -> SessionProfile | None:
    """Sessions of a trace that names them."""
    if not trace.knows("session", "arrival_s"):
        return None
    per_session = arrays(
        trace.query(
            "SELECT count(*) AS turns, max(arrival_s) - min(arrival_s) AS length FROM trace "
            "WHERE session IS NOT NULL GROUP BY session ORDER BY turns, length"
        )
    )
    turns = distribution(per_session["turns"], "requests")
    if turns is None:
        return None
    waits = arrays(trace.query(_waits_sql(trace)))
    apart = waits["wait"] >= 0
    tool = waits["after_tool"].astype(bool)
    tasks, per_task = _tasks(trace)
    return SessionProfile(
        sessions=len(per_session["turns"]),
        requests=int(per_session["turns"].sum()),
        turns=turns,
        length_s=distribution(per_session["length"], "s"),
        think_s=distribution(waits["wait"][apart & ~tool], "s"),
        tool_s=distribution(waits["wait"][apart & tool], "s"),
        waits_measured=trace.knows("wait_s") or trace.knows("duration_s"),
        overlapping_requests=int((~apart).sum()),
        pace_ratio=_pace(trace),
        tasks=tasks,
        tool_calls_per_task=per_task,
        repeated_blocks_fraction=_repeated_blocks(trace),
        repeated_sessions=_repeated_sessions(trace),
    )


def _waits_sql(trace: Trace) -> str:
    after_tool = "COALESCE(after_tool, false)"
    if trace.knows("wait_s"):
        known = "wait_s IS NOT NULL AND session IS NOT NULL"
        return f"SELECT wait_s AS wait, {after_tool} AS after_tool FROM trace WHERE {known}"
    end = "arrival_s + COALESCE(duration_s, 0)" if trace.knows("duration_s") else "arrival_s"
    return (
        "SELECT wait, after_tool FROM (SELECT arrival_s - lag(ended) OVER (PARTITION BY session ORDER BY arrival_s) "
        f"AS wait, after_tool FROM (SELECT session, arrival_s, {end} AS ended, {after_tool} AS after_tool FROM trace "
        "WHERE session IS NOT NULL)) WHERE wait IS NOT NULL"
    )


def _pace(trace: Trace) -> float | None:
    if not trace.knows("wait_s", "duration_s"):
        return None
    between, logged = one_row(
        trace.query(
            "SELECT COALESCE(sum(gap), 0), COALESCE(sum(ended + wait_s), 0) FROM (SELECT wait_s, "
            "arrival_s - lag(arrival_s) OVER turns AS gap, lag(duration_s) OVER turns AS ended FROM trace "
            "WHERE session IS NOT NULL WINDOW turns AS (PARTITION BY session ORDER BY arrival_s)) "
            "WHERE gap IS NOT NULL AND ended IS NOT NULL AND wait_s IS NOT NULL"
        )
    )
    return float(between / logged) if logged > 0 and between > 0 else None


def _tasks(trace: Trace) -> tuple[int | None, Distribution | None]:
    """A task runs from a person's request to the last tool result that follows it."""
    if not trace.knows("after_tool", "tool_calls"):
        return None, None
    per_task = arrays(
        trace.query(
            "SELECT sum(tool_calls)::BIGINT AS calls FROM (SELECT session, COALESCE(tool_calls, 0) AS tool_calls, "
            "sum(CASE WHEN COALESCE(after_tool, false) THEN 0 ELSE 1 END) OVER (PARTITION BY session "
            "ORDER BY arrival_s ROWS UNBOUNDED PRECEDING) AS task FROM trace WHERE session IS NOT NULL) "
            "GROUP BY session, task ORDER BY 1"
        )
    )
    return len(per_task["calls"]), distribution(per_task["calls"], "calls")


def _repeated_blocks(trace: Trace) -> float | None:
    if not trace.knows("prompt_blocks", "repeated_blocks"):
        return None
    repeated, blocks = one_row(trace.query("SELECT sum(repeated_blocks), sum(prompt_blocks) FROM trace"))
    return float(repeated / blocks) if blocks else None


def _repeated_sessions(trace: Trace) -> int:
    if not trace.knows("prompt_tokens"):
        return 0
    # Hashes of length and turn, combined: equal for equal sessions, and small however long a session is.
    row = one_row(
        trace.query(
            "SELECT COALESCE(sum(copies - 1), 0) FROM (SELECT count(*) AS copies FROM (SELECT count(*) AS turns, "
            "bit_xor(hash(prompt_tokens, turn)) AS signature FROM (SELECT session, prompt_tokens, row_number() OVER "
            "(PARTITION BY session ORDER BY arrival_s, prompt_tokens) AS turn FROM trace WHERE session IS NOT NULL) "
            f"GROUP BY session HAVING turns >= {LEAST_REPEATED_TURNS}) GROUP BY turns, signature)"
        )
    )
    return int(row[0])
