"""From rows to a summary: a handful of DuckDB scans, each of which groups and counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.workload.answers import arrays, literal, one_row
from ullage.workload.classes import ClassRule, RequestClass
from ullage.workload.profile.gaps import duplicates_of, order_and_gaps, stamps_of
from ullage.workload.profile.reuse import reuse_of
from ullage.workload.profile.series import (
    SecondCounts,
    merge_seconds,
    merge_values,
    second_counts,
    value_counts,
)
from ullage.workload.profile.sessions import SessionProfile, sessions_of
from ullage.workload.profile.summary import DIMENSIONS, TOKEN_COLUMNS, About, HeldLoad, JointCounts, Part, Summary
from ullage.workload.trace import Trace

# Groups of one dimension that are profiled by name; the rest are one group. Eight fit a page and bound memory.
MOST_GROUPS = 8
OTHERS = "(others)"
UNKNOWN = "(unknown)"
UNCLASSIFIED = "(unclassified)"
# Seconds of all groups together that are counted in one question; a longer log is asked for in stretches of time.
MOST_CELLS = 8_000_000
# Sessions of single groups are computed one group after another; beyond so many rows that takes minutes.
MOST_ROWS_FOR_GROUP_SESSIONS = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """How requests are told apart in one dimension: the SQL that names the group, and the names that are kept."""

    dimension: str
    expression: str
    names: tuple[str, ...]
    distinct_names: int

    @property
    def code(self) -> str:
        """SQL for the place of a request's group; names beyond those kept share one place."""
        cases = " ".join(f"WHEN {literal(each)} THEN {place}" for place, each in enumerate(self.names))
        return f"CASE WHEN {self.expression} IS NULL THEN {len(self.names) + 1} ELSE " + (
            f"CASE {self.expression} {cases} ELSE {len(self.names)} END END" if self.names else "0 END"
        )

    @property
    def labels(self) -> tuple[str, ...]:
        # A name of the source that looks like one of ours is put in quotes.
        own = (f"'{name}'" if name in (OTHERS, UNKNOWN) else name for name in self.names)
        return (*own, OTHERS, UNKNOWN)


def summarise(
    trace: Trace, *, classes: Sequence[RequestClass] = (), groupings: Sequence[Grouping] | None = None
) -> Summary:
    """Everything about a trace that adds up.

    Partitions to be merged are summarised with the groupings of the whole, so that they name the same groups.
    """
    groupings = groupings_of(trace, classes) if groupings is None else groupings
    origin_s = trace.start_epoch_s or 0.0
    first_s, last_s = _ends(trace, origin_s)
    ends = first_s - origin_s, last_s - origin_s
    groups = {grouping.dimension: _parts(trace, grouping, ends) for grouping in groupings}
    whole = _whole(trace, groups, ends)
    order, gaps = order_and_gaps(trace, whole.arrivals)
    in_order = order is not None and order.backward_steps == 0
    tenants = [name for name in groups.get("tenant", {}) if name not in (OTHERS, UNKNOWN)]
    found_sessions = sessions_of(trace)
    found_reuse = reuse_of(trace, tenants=tenants, in_order=in_order) if trace.clock.orders_requests else None
    return Summary(
        about=_about(trace),
        first_s=first_s,
        last_s=last_s,
        whole=whole,
        groups=groups,
        distinct={grouping.dimension: grouping.distinct_names for grouping in groupings},
        gaps=gaps,
        stamps=stamps_of(trace),
        order=order,
        duplicate_rows=duplicates_of(trace, whole.arrivals, gaps),
        missing_outputs=_missing_outputs(trace),
        sessions=found_sessions,
        group_sessions=_group_sessions(trace, groupings),
        reuse=found_reuse,
    )


def groupings_of(trace: Trace, classes: Sequence[RequestClass] = ()) -> list[Grouping]:
    """The dimensions in which this trace tells requests apart, each with its most frequent names."""
    found = []
    for dimension in DIMENSIONS:
        expression = group_expression(trace, dimension, classes)
        if expression is None:
            continue
        rows = trace.query(
            f"SELECT name_, count(*) AS requests_, count(*) OVER () AS distinct_ FROM "
            f"(SELECT {expression} AS name_ FROM trace) WHERE name_ IS NOT NULL GROUP BY name_ "
            f"ORDER BY requests_ DESC, name_ LIMIT {MOST_GROUPS}"
        ).fetchall()
        names = tuple(row[0] for row in rows)
        distinct = rows[0][2] if rows else 0
        found.append(Grouping(dimension=dimension, expression=expression, names=names, distinct_names=distinct))
    return found


def group_expression(trace: Trace, dimension: str, classes: Sequence[RequestClass] = ()) -> str | None:
    """SQL for the name of a request's group: by the classes' own rules where they have any, else a column."""
    ruled = [(one.name, one.rule) for one in classes if one.rule is not None]
    if dimension == "class" and ruled:
        cases = " ".join(f"WHEN {_rule_sql(rule)} THEN {literal(name)}" for name, rule in ruled)
        return f"CASE {cases} ELSE {literal(UNCLASSIFIED)} END"
    return f'"{dimension}"' if trace.knows(dimension) else None


def _rule_sql(rule: ClassRule) -> str:
    conditions = [
        f"{column} GLOB {literal(pattern)}"
        for column, pattern in (
            ("model", rule.model),
            ("tenant", rule.tenant),
            ("product", rule.product),
            ("path", rule.path),
        )
        if pattern is not None
    ]
    for column, low, high in (
        ("prompt_tokens", rule.from_prompt_tokens, rule.below_prompt_tokens),
        ("output_tokens", rule.from_output_tokens, rule.below_output_tokens),
    ):
        conditions += [f"{column} >= {low}"] if low is not None else []
        conditions += [f"{column} < {high}"] if high is not None else []
    return " AND ".join(conditions) if conditions else "true"


# ---- requests, counted by second and by length -------------------------------------------------------


def second_sql(trace: Trace) -> str:
    """SQL for the second of the clock in which a request arrived."""
    if trace.start_epoch_s is None:
        return "CAST(floor(arrival_s) AS BIGINT)"
    whole_s = math.floor(trace.start_epoch_s)
    return f"CAST(floor(arrival_s + {trace.start_epoch_s - whole_s!r}) AS BIGINT) + {whole_s}"


def _ends(trace: Trace, origin_s: float) -> tuple[float, float]:
    if not trace.clock.orders_requests:
        return 0.0, 0.0
    least, most = one_row(trace.query("SELECT min(arrival_s), max(arrival_s) FROM trace"))
    return origin_s + least, origin_s + most


def _parts(trace: Trace, grouping: Grouping, ends: tuple[float, float]) -> dict[str, Part]:
    """One part for each group that has requests, in the order of the grouping."""
    places = len(grouping.labels)
    code = grouping.code
    seconds = _seconds(trace, code, places, ends) if trace.clock.orders_requests else None
    lengths = {
        column: _split(_counted(trace, code, column, f"{column} IS NOT NULL"), places)
        for column in TOKEN_COLUMNS
        if trace.knows(column)
    }
    requests, outcomes = _outcomes(trace, code)
    joints = _joints(trace, code) if grouping.dimension in ("", "class") else {}
    loads = _loads(trace, code)
    return {
        label: Part(
            requests=requests[place],
            arrivals=seconds[place] if seconds else _no_seconds(),
            lengths={column: value_counts(*split[place]) for column, split in lengths.items()},
            outcomes=outcomes.get(place, {}),
            joint=joints.get(place),
            load=loads.get(place),
        )
        for place, label in enumerate(grouping.labels)
        if place in requests
    }


def _whole(trace: Trace, groups: Mapping[str, Mapping[str, Part]], ends: tuple[float, float]) -> Part:
    """All requests: the sum of the groups of any dimension, or counted where there is none."""
    everything = Grouping(dimension="", expression="'all'", names=("all",), distinct_names=1)
    if not groups:
        return _parts(trace, everything, ends)["all"]
    whole = add_parts(list(next(iter(groups.values())).values()))
    return whole if whole.joint is not None else replace(whole, joint=_joints(trace, everything.code).get(0))


def add_parts(parts: Sequence[Part]) -> Part:
    """The union of parts that share no request."""
    columns = dict.fromkeys(column for part in parts for column in part.lengths)
    outcomes: dict[str, int] = {}
    for part in parts:
        for outcome, count in part.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    return Part(
        requests=sum(part.requests for part in parts),
        arrivals=merge_seconds([part.arrivals for part in parts]),
        lengths={
            column: merge_values([part.lengths[column] for part in parts if column in part.lengths])
            for column in columns
        },
        outcomes=dict(sorted(outcomes.items())),
        joint=add_joints([part.joint for part in parts if part.joint is not None]),
        load=add_loads([part.load for part in parts if part.load is not None]),
    )


def add_joints(joints: Sequence[JointCounts]) -> JointCounts | None:
    """Counts of equal cells added up; grids of one trace have the same columns."""
    if not joints:
        return None
    cells, place = np.unique(np.concatenate([joint.cells for joint in joints]), axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), weights=np.concatenate([joint.counts for joint in joints]))
    return replace(joints[0], cells=cells, counts=counts.astype(np.int64))


def add_loads(loads: Sequence[HeldLoad]) -> HeldLoad | None:
    """Steps of equal seconds added up."""
    if not loads:
        return None
    seconds, place = np.unique(np.concatenate([load.seconds for load in loads]), return_inverse=True)
    added = [
        np.bincount(place, weights=np.concatenate([getattr(load, steps) for load in loads]), minlength=len(seconds))
        for steps in ("request_steps", "token_steps", "slope_steps")
    ]
    return HeldLoad(
        seconds=seconds,
        request_steps=added[0].astype(np.int64),
        token_steps=added[1].astype(np.float64),
        slope_steps=added[2].astype(np.float64),
        timed_requests=sum(load.timed_requests for load in loads),
        busy_s=math.fsum(load.busy_s for load in loads),
    )


def _seconds(trace: Trace, code: str, places: int, ends: tuple[float, float]) -> list[SecondCounts]:
    """Requests of each place by second, asked for stretch by stretch, so that memory does not grow with the log."""
    span_s = ends[1] - ends[0]
    stretches = max(1, math.ceil(min(span_s * places, trace.rows.kept_rows) / MOST_CELLS))
    borders = [ends[0] + span_s * at / stretches for at in range(1, stretches)]
    found: list[list[SecondCounts]] = [[] for _ in range(places)]
    for low, high in zip([None, *borders], [*borders, None], strict=True):
        conditions = [] if low is None else [f"arrival_s >= {low!r}"]
        conditions += [] if high is None else [f"arrival_s < {high!r}"]
        counted = _counted(trace, code, second_sql(trace), " AND ".join(conditions) or "true")
        for place, split in enumerate(_split(counted, places)):
            found[place].append(second_counts(*split))
    return [merge_seconds(each) for each in found]


def _counted(trace: Trace, code: str, value: str, where: str = "true") -> dict[str, NDArray[Any]]:
    return arrays(
        trace.query(
            f"SELECT CAST({code} AS INTEGER) AS code, {value} AS value, count(*) AS n FROM trace "
            f"WHERE {where} GROUP BY ALL"
        )
    )


def _split(counted: dict[str, NDArray[Any]], places: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    order = np.argsort(counted["code"], kind="stable")
    codes = counted["code"][order]
    ends = np.searchsorted(codes, np.arange(places + 1))
    values, counts = counted["value"][order].astype(np.int64), counted["n"][order].astype(np.int64)
    return [(values[ends[at] : ends[at + 1]], counts[ends[at] : ends[at + 1]]) for at in range(places)]


def _outcomes(trace: Trace, code: str) -> tuple[dict[int, int], dict[int, dict[str, int]]]:
    """Requests of each place, and how they ended where the source says so."""
    outcome = "COALESCE(status, 'unknown')" if trace.knows("status") else "''"
    if trace.knows("status", "output_tokens"):
        # Without one token written no work was done worth the name: a quota, a wrong key, a filter.
        outcome = f"CASE WHEN status = 'failed' AND COALESCE(output_tokens, 0) = 0 THEN 'refused' ELSE {outcome} END"
    rows = trace.query(f"SELECT {code} AS code, {outcome} AS outcome, count(*) FROM trace GROUP BY ALL ORDER BY ALL")
    requests: dict[int, int] = {}
    outcomes: dict[int, dict[str, int]] = {}
    for place, ending, count in rows.fetchall():
        requests[place] = requests.get(place, 0) + count
        if ending:
            outcomes.setdefault(place, {})[ending] = count
    return requests, outcomes


def _no_seconds() -> SecondCounts:
    nothing = np.zeros(0, dtype=np.int64)
    return second_counts(nothing, nothing)


# ---- lengths together, load, the rest ----------------------------------------------------------------


def _joints(trace: Trace, code: str) -> dict[int, JointCounts]:
    columns = tuple(column for column in TOKEN_COLUMNS if trace.knows(column))
    if not {"prompt_tokens", "output_tokens"} <= set(columns):
        return {}
    # Four lengths at the fine grid would give more cells than a page of JSON should hold.
    per_octave = 4 if len(columns) == 2 else 2
    bins = [
        f"CASE WHEN {column} IS NULL THEN -2 WHEN {column} <= 0 THEN -1 "
        f"ELSE CAST(floor(log2({column}) * {per_octave}) AS INTEGER) END AS bin_{place}"
        for place, column in enumerate(columns)
    ]
    found = arrays(
        trace.query(f"SELECT {code} AS code, {', '.join(bins)}, count(*) AS n FROM trace GROUP BY ALL ORDER BY ALL")
    )
    cells = np.stack([found[f"bin_{place}"].astype(np.int64) for place in range(len(columns))], axis=1)
    return {
        int(place): JointCounts(
            columns=columns,
            bins_per_octave=per_octave,
            cells=cells[found["code"] == place],
            counts=found["n"][found["code"] == place].astype(np.int64),
        )
        for place in np.unique(found["code"])
    }


def _loads(trace: Trace, code: str) -> dict[int, HeldLoad]:
    """Steps at whole seconds: a request counts at second k if it arrived at or before k and ends after k.

    Its tokens at k are its prompt and the part of the answer written by then, at an even pace.
    """
    if not trace.clock.orders_requests or not trace.knows("duration_s"):
        return {}
    whole_s = 0 if trace.start_epoch_s is None else math.floor(trace.start_epoch_s)
    fraction_s = 0.0 if trace.start_epoch_s is None else trace.start_epoch_s - whole_s
    known = (
        f"SELECT {code} AS code, arrival_s + {fraction_s!r} AS t, duration_s AS d, COALESCE(prompt_tokens, 0) AS p, "
        "COALESCE(output_tokens, 0) / greatest(duration_s, 1e-6) AS slope FROM trace WHERE duration_s > 0"
    )
    found = arrays(
        trace.query(
            f"WITH known AS ({known}), steps AS (SELECT code, ceil(t) AS k, 1 AS requests, "
            "p + slope * (ceil(t) - t) AS tokens, slope, 1 AS timed, d AS busy FROM known UNION ALL SELECT code, "
            "ceil(t + d), -1, -(p + slope * (ceil(t + d) - t)), -slope, 0, 0 FROM known) "
            "SELECT code, CAST(k AS BIGINT) AS k, sum(requests)::BIGINT AS requests, sum(tokens) AS tokens, "
            "sum(slope) AS slope, sum(timed)::BIGINT AS timed, sum(busy) AS busy "
            "FROM steps GROUP BY ALL ORDER BY code, k"
        )
    )
    loads = {}
    for place in np.unique(found["code"]):
        mine = found["code"] == place
        loads[int(place)] = HeldLoad(
            seconds=found["k"][mine].astype(np.int64) + whole_s,
            request_steps=found["requests"][mine].astype(np.int64),
            token_steps=found["tokens"][mine].astype(np.float64),
            slope_steps=found["slope"][mine].astype(np.float64),
            timed_requests=int(found["timed"][mine].sum()),
            busy_s=math.fsum(found["busy"][mine].tolist()),
        )
    return loads


def _group_sessions(trace: Trace, groupings: Sequence[Grouping]) -> dict[str, dict[str, SessionProfile]]:
    """Sessions of each named group: a session is one group's where its requests are."""
    if not trace.knows("session") or trace.rows.kept_rows > MOST_ROWS_FOR_GROUP_SESSIONS:
        return {}
    found: dict[str, dict[str, SessionProfile]] = {}
    for grouping in groupings:
        for name in grouping.names:
            relation = trace.query(f"SELECT * FROM trace WHERE {grouping.expression} = {literal(name)}")
            sessions = sessions_of(replace(trace, relation=relation))
            if sessions is not None:
                found.setdefault(grouping.dimension, {})[name] = sessions
    return found


def _missing_outputs(trace: Trace) -> int:
    if not trace.knows("output_tokens"):
        return trace.rows.kept_rows
    succeeded = "AND COALESCE(status, 'ok') = 'ok'" if trace.knows("status") else ""
    return int(one_row(trace.query(f"SELECT count(*) FROM trace WHERE output_tokens IS NULL {succeeded}"))[0])


def _about(trace: Trace) -> About:
    return About(
        format=trace.format,
        sources=trace.sources,
        clock=trace.clock,
        zone=trace.zone,
        rows=trace.rows,
        columns=trace.columns,
        block_tokens=trace.block_tokens,
        anomalies=trace.anomalies,
        unread=trace.unread,
    )
