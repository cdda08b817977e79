"""k6's summary: `--summary-export`, or what `handleSummary` is given, times in milliseconds.

`http_req_duration` is the whole response. `http_req_waiting` ends with the first byte, which an engine sends before its
first token, so it is no TTFT; a Trend of the test's own is (`ttft`, `time_to_first_token`, `tpot`, ...).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import MS, Fields, anomaly, present, rate
from ullage.readers.loadtests.general.clients import clients_by_little
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
    Tokens,
)

_TRENDS = {
    Definition.TTFT: re.compile(r"(^|_)(ttft|time_to_first_token)(_ms|_s|_seconds)?$"),
    Definition.TPOT: re.compile(r"(^|_)(tpot|time_per_output_token)(_ms|_s|_seconds)?$"),
    Definition.ITL_POOLED: re.compile(r"(^|_)(itl|inter_token_latency)(_ms|_s|_seconds)?$"),
}
_COUNTERS = {
    "prompt": re.compile(r"(^|_)(prompt|input)_tokens(_total)?$"),
    "output": re.compile(r"(^|_)(completion|output|generated)_tokens(_total)?$"),
}
_PERCENTILE = re.compile(r"^p\((\d{1,2}(?:\.\d+)?)\)$")


def recognise(content: Content) -> bool:
    metrics = content.first.get("metrics") if content.shape is FileShape.JSON and len(content.documents) == 1 else None
    return isinstance(metrics, dict) and {"http_req_duration", "http_reqs"} <= set(metrics)


def read(content: Content) -> LoadTest:
    whole = Fields(content.first, content.file)
    metrics = {name: _values(whole, name) for name in whole.child("metrics")}
    return LoadTest(
        file=content.file,
        reader="k6",
        tool="k6",
        format_version="summary" if "state" in whole else "summary export",
        points=(_point(whole, metrics),),
    )


def _values(whole: Fields, name: str) -> Fields:
    """The values of a metric, which stand one step deeper where `handleSummary` wrote them."""
    metric = whole.child("metrics").child(name)
    return metric.child("values") if "values" in metric else metric


def _point(whole: Fields, metrics: Mapping[str, Fields]) -> Point:
    sent, rps = metrics["http_reqs"].need_whole("count"), metrics["http_reqs"].amount("rate")
    spent_ms = whole.child("state").amount("testRunDurationMs")
    duration_s = spent_ms * MS if spent_ms else sent / rps if rps else None
    failed = _failed(metrics, sent)
    completed = None if failed is None else sent - failed
    e2e = _latency(metrics["http_req_duration"], Definition.E2E, MS)
    load, said = _load(metrics, rps, e2e)
    others = [
        _latency(each, definition, _scale(name))
        for definition, pattern in _TRENDS.items()
        for name, each in metrics.items()
        if pattern.search(name)
    ]
    latencies = present(e2e, *others)
    if not any(each.definition is Definition.TTFT for each in latencies):
        note = "k6 keeps no time to first token (http_req_waiting ends with the first byte): add a Trend named ttft."
        said = (*said, anomaly(Flag.STATED_BY_TOOL, note))
    return Point(
        name="k6",
        subject=LoadTestSubject(),
        load=load,
        duration_s=duration_s,
        completed_count=completed,
        failed_count=failed,
        achieved_rps=rate(completed, duration_s),
        tokens=Tokens(prompt_tokens=_counted(metrics, "prompt"), output_tokens=_counted(metrics, "output")),
        latencies=latencies,
        anomalies=said,
    )


def _load(
    metrics: Mapping[str, Fields], rps: float | None, e2e: LatencySummary | None
) -> tuple[OfferedLoad, tuple[PointAnomaly, ...]]:
    """The virtual users at their most; without them, by Little's law."""
    users = next((metrics[name].whole("max") for name in ("vus", "vus_max") if name in metrics), None)
    if users:
        return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=users), ()
    return clients_by_little(rps, None if e2e is None else e2e.mean_s)


def _failed(metrics: Mapping[str, Fields], sent: int) -> int | None:
    """`passes` of the rate http_req_failed are requests that failed; an export may keep the share alone."""
    if "http_req_failed" not in metrics:
        return None
    found = metrics["http_req_failed"]
    count = found.whole("passes")
    share = found.amount("value") if "value" in found else found.amount("rate")
    return count if count is not None else None if share is None else min(sent, round(share * sent))


def _counted(metrics: Mapping[str, Fields], side: str) -> float | None:
    return next((each.amount("count") for name, each in metrics.items() if _COUNTERS[side].search(name)), None)


def _scale(name: str) -> float:
    """Trends are in milliseconds, as k6 keeps time, unless their name says seconds."""
    return 1.0 if name.endswith(("_s", "_seconds")) else MS


def _latency(values: Fields, definition: Definition, scale: float) -> LatencySummary | None:
    pairs: dict[float, float] = {}
    for key in values:
        match = _PERCENTILE.match(key)
        value: Any = values.amount(key) if match or key == "med" else None
        if value:
            pairs[0.5 if match is None else round(float(match.group(1)) / 100.0, 9)] = value * scale
    mean, low, high = (values.amount(name) for name in ("avg", "min", "max"))
    found = LatencySummary(
        definition=definition,
        mean_s=None if not mean else mean * scale,
        min_s=None if low is None else low * scale,
        max_s=None if high is None else high * scale,
        percentiles=tuple(sorted(pairs.items())),
    )
    return None if found.is_empty else found
