"""A request log with latencies as a load test: rows of when, how many tokens in and out, TTFT and duration.

Production is a test that nobody planned: arrivals as they came, so that it is repeated as a trace. A unit that no
column name carries is read off the durations, and said.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError
from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import MS, anomaly
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Flag,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    PointAnomaly,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import known_sum, succeeded, summed_up
from ullage.workload.anomalies import Severity

_SUFFIXES = (("_ms", MS), ("_milliseconds", MS), ("_seconds", 1.0), ("_secs", 1.0), ("_s", 1.0), ("", None))
_TIMES = {
    "ttft": ("ttft", "time_to_first_token", "first_token_latency", "time_to_first_chunk"),
    "e2e": ("duration", "latency", "e2e", "e2e_latency", "request_duration", "total_latency", "response_time"),
}
_COUNTS = {
    "prompt": ("prompt_tokens", "input_tokens", "context_tokens", "prompt_length", "input_length"),
    "output": ("completion_tokens", "output_tokens", "generated_tokens", "output_length"),
    "cached": ("cached_tokens", "cache_read_tokens", "cached_prompt_tokens"),
}
_STARTS = ("timestamp", "start_time", "start", "started_at", "arrival", "arrival_s", "created_at", "time", "starttime")
_STATUS = ("status", "status_code", "response_code", "http_status")
# A duration of an answer: a median of a hundred or more is one in milliseconds.
_MEDIAN_MS = 50.0


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The log's names for what is read, and seconds in one of each time's unit; None where no name carries it."""

    start: str
    ttft: tuple[str, float | None]
    e2e: tuple[str, float | None]
    prompt: str
    output: str
    cached: str
    status: str


def recognise(content: Content) -> bool:
    rows = _rows(content)
    return len(rows) > 1 and _columns(rows[0]) is not None


def read(content: Content) -> LoadTest:
    rows = _rows(content)
    columns = _columns(rows[0])
    assert columns is not None
    for index, cells in enumerate(content.rows):
        if len(cells) != len(content.rows[0]):
            raise _wrong(content, index - 1, len(cells), f"has another number of cells than {len(content.rows[0])}")
    scales, said = _scales(rows, columns)
    starts = [_moment(content, index, row.get(columns.start)) for index, row in enumerate(rows)]
    first_s = min(starts)
    requests = tuple(
        _request(content, index, row, columns, scales, start_s - first_s)
        for index, (row, start_s) in enumerate(zip(rows, starts, strict=True))
    )
    return LoadTest(
        file=content.file,
        reader="request_log",
        tool="a request log",
        format_version="rows of requests",
        points=(_point(requests, said),),
    )


def _rows(content: Content) -> list[Mapping[str, Any]]:
    if content.shape is FileShape.JSON:
        return list(content.mappings) if len(content.mappings) > 1 else []
    if content.shape is not FileShape.CSV or len(content.rows) < 2:
        return []
    header = [each.strip() for each in content.rows[0]]
    return [dict(zip(header, row, strict=False)) for row in content.rows[1:]]


def _columns(row: Mapping[str, Any]) -> _Columns | None:
    names = {str(each).strip().lower().replace(" ", "_"): str(each) for each in row}
    times = {what: _timed(names, known) for what, known in _TIMES.items()}
    counts = {what: next((names[each] for each in known if each in names), "") for what, known in _COUNTS.items()}
    start = next((names[each] for each in _STARTS if each in names), "")
    ttft, e2e = times["ttft"], times["e2e"]
    if ttft is None or e2e is None or not (start and counts["prompt"] and counts["output"]):
        return None
    status = next((names[each] for each in _STATUS if each in names), "")
    return _Columns(start=start, ttft=ttft, e2e=e2e, status=status, **counts)


def _timed(names: Mapping[str, str], known: Sequence[str]) -> tuple[str, float | None] | None:
    for suffix, scale in _SUFFIXES:
        for each in known:
            if f"{each}{suffix}" in names:
                return names[f"{each}{suffix}"], scale
    return None


def _scales(rows: Sequence[Mapping[str, Any]], columns: _Columns) -> tuple[dict[str, float], tuple[PointAnomaly, ...]]:
    """Seconds in a unit of each time; one that no name carries is that of the durations."""
    known = [value for row in rows if (value := _number(row.get(columns.e2e[0]))) is not None]
    guessed = MS if known and statistics.median(known) >= _MEDIAN_MS else 1.0
    unnamed = [name for name, scale in (columns.ttft, columns.e2e) if scale is None]
    scales = {
        what: guessed if scale is None else scale for what, (_, scale) in (("ttft", columns.ttft), ("e2e", columns.e2e))
    }
    if not unnamed:
        return scales, ()
    unit = "milliseconds" if guessed == MS else "seconds"
    sentence = f"No unit is named for {', '.join(unnamed)}: by their size they are read as {unit}."
    return scales, (anomaly(Flag.STATED_BY_TOOL, sentence),)


def _request(
    content: Content, index: int, row: Mapping[str, Any], columns: _Columns, scales: Mapping[str, float], sent_s: float
) -> MeasuredRequest:
    ttft, e2e = _number(row.get(columns.ttft[0])), _number(row.get(columns.e2e[0]))
    if (ttft is not None and ttft < 0.0) or (e2e is not None and e2e < 0.0):
        raise _wrong(content, index, min(each for each in (ttft, e2e) if each is not None), "a latency is not negative")
    prompt, output = (_count(content, index, row.get(name)) for name in (columns.prompt, columns.output))
    is_done = _is_ok(row.get(columns.status)) and e2e is not None and prompt is not None and output is not None
    return MeasuredRequest(
        status=Status.OK if is_done else Status.FAILED,
        sent_s=sent_s,
        ttft_s=None if ttft is None else ttft * scales["ttft"],
        e2e_s=None if e2e is None else e2e * scales["e2e"],
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=_count(content, index, row.get(columns.cached)) if columns.cached else None,
    )


def _point(requests: tuple[MeasuredRequest, ...], said: tuple[PointAnomaly, ...]) -> Point:
    note = anomaly(
        Flag.STATED_BY_TOOL,
        "It is a log of production, not a test: arrivals are repeated as they were, and other traffic of the same "
        "replicas is not in it.",
        Severity.NOTE,
    )
    cached = known_sum(each.cached_tokens for each in succeeded(requests))
    return summed_up(
        Point(
            name="all requests",
            subject=LoadTestSubject(),
            load=OfferedLoad(loop=Loop.TRACE),
            tokens=Tokens(cached_prompt_tokens=cached, counted_by=CountedBy.SERVER),
            requests=requests,
            anomalies=(note, *said),
        )
    )


def _is_ok(status: Any) -> bool:
    """No status, a word that says so, or a code of the two hundreds."""
    text = "" if status is None else str(status).strip().lower()
    return text in ("", "ok", "success", "succeeded", "true", "completed") or text.startswith("2")


def _moment(content: Content, index: int, value: Any) -> float:
    """Seconds since 1970 from a number in s, ms, us or ns, or from an ISO time; one without a zone is UTC."""
    number = _number(value)
    if number is not None:
        for scale in (1.0, 1e3, 1e6):
            if number / scale < 1e11:
                return number / scale
        return number / 1e9
    try:
        found = datetime.datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise _wrong(content, index, value, "is not a time") from None
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()


def _count(content: Content, index: int, value: Any) -> int | None:
    number = _number(value)
    if number is None:
        return None
    if not 0.0 <= number < 1e9 or number != int(number):
        raise _wrong(content, index, value, "is not a number of tokens")
    return int(number)


def _number(value: Any) -> float | None:
    """A finite number of a cell; None where it holds none."""
    if value is None or isinstance(value, bool | dict | list):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) <= 1e21 else None


def _wrong(content: Content, index: int, value: object, problem: str) -> InputError:
    return InputError(
        field=f"{content.file}: row {index + 1}", value=value, problem=problem, fix="Correct the row, or leave it out."
    )
