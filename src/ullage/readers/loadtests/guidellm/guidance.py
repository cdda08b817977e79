"""GuideLLM 0.1's guidance report, `guidance_report.json`: single requests in seconds, and no statistics at all.

`first_token_time` is a duration. Where the server gave no token counts, words were counted in their place, and the
file does not say which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly
from ullage.service.loadtests.loadtest import (
    Flag,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
)
from ullage.service.loadtests.requests import sending_rate_rps, succeeded, summed_up


def recognise(content: Content) -> bool:
    inner: Any = content.first.get("benchmarks")
    for _ in range(2):
        if not isinstance(inner, list) or not inner or not isinstance(inner[0], dict):
            return False
        if {"mode", "results"} <= set(inner[0]):
            return True
        inner = inner[0].get("benchmarks")
    return False


def read(content: Content) -> LoadTest:
    report = Fields(content.first, content.file)
    points = [
        _point(each, outer.child("args"), f"report {first + 1}, benchmark {second + 1}")
        for first, outer in enumerate(report.children("benchmarks"))
        for second, each in enumerate(outer.children("benchmarks"))
    ]
    return LoadTest(
        file=content.file,
        reader="guidellm_guidance",
        tool="guidellm",
        format_version="guidance report of 0.1",
        points=tuple(points),
    )


def _point(fields: Fields, arguments: Fields, name: str) -> Point:
    requests = tuple(_requests(fields))
    return summed_up(
        Point(
            name=name,
            subject=LoadTestSubject(model=arguments.text("model")),
            load=_load(fields, arguments),
            # When those that failed were sent is not kept.
            sent_rps=sending_rate_rps(succeeded(requests)),
            requests=requests,
            anomalies=(
                anomaly(
                    Flag.STATED_BY_TOOL,
                    "GuideLLM 0.1 counts words where the server gave no tokens, and does not say so.",
                ),
            ),
        )
    )


def _load(fields: Fields, arguments: Fields) -> OfferedLoad:
    mode = fields.text("mode")
    if mode == "synchronous":
        return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=1)
    if mode == "throughput":
        return OfferedLoad(loop=Loop.BURST)
    if mode == "asynchronous":
        kind = arguments.text("mode") or arguments.text("rate_type")
        return OfferedLoad(
            loop=Loop.OPEN,
            offered_rps=fields.amount("rate"),
            burstiness_ratio=1.0 if kind == "poisson" else None,
            even=True if kind == "constant" else None,
        )
    raise fields.wrong("mode", "is not a mode that is known here", "Known: synchronous, throughput, asynchronous.")


def _requests(fields: Fields) -> Iterator[MeasuredRequest]:
    results = fields.children("results")
    first_s = min((each.need("start_time") for each in results), default=0.0)
    for each in results:
        start_s = each.need("start_time")
        yield MeasuredRequest(
            status=Status.OK,
            sent_s=start_s - first_s,
            ttft_s=each.amount("first_token_time"),
            e2e_s=each.need("end_time") - start_s,
            prompt_tokens=each.whole("prompt_token_count"),
            output_tokens=each.whole("output_token_count"),
        )
    for _ in fields.children("errors"):
        yield MeasuredRequest(status=Status.FAILED)
