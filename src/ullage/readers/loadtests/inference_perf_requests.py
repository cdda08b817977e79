"""inference-perf's single requests, `per_request_lifecycle_metrics.json`: a list, times in seconds of one clock.

One point is made for each stage, where the stage is kept. The first token's time is that of the first of
`output_token_times`; a request that was not streamed has none.
"""

from __future__ import annotations

from typing import Any

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields
from ullage.service.loadtests.loadtest import (
    CountedBy,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import known_sum, succeeded, summed_up


def recognise(content: Content) -> bool:
    return {"start_time", "end_time", "info"} <= set(content.first) and "error" in content.first


def read(content: Content) -> LoadTest:
    stages: dict[int | None, list[Fields]] = {}
    for index, each in enumerate(content.mappings):
        fields = Fields(each, content.file, f"[{index}]")
        stages.setdefault(fields.whole("stage_id") if "stage_id" in fields else None, []).append(fields)
    return LoadTest(
        file=content.file,
        reader="inference_perf_requests",
        tool="inference-perf",
        format_version="requests",
        points=tuple(
            _point("all requests" if stage is None else f"stage {stage}", records)
            for stage, records in sorted(stages.items(), key=lambda pair: -1 if pair[0] is None else pair[0])
        ),
    )


def _point(name: str, records: list[Fields]) -> Point:
    first_s = min(each.need("start_time") for each in records)
    requests = tuple(_request(each, first_s) for each in records)
    return summed_up(
        Point(
            name=name,
            subject=LoadTestSubject(),
            # When each request was due is kept; by what law is not.
            load=OfferedLoad(loop=Loop.TRACE),
            duration_s=max(each.need("end_time") for each in records) - first_s,
            tokens=Tokens(
                cached_prompt_tokens=known_sum(each.cached_tokens for each in succeeded(requests)),
                counted_by=CountedBy.CLIENT,
                other_output_tokens=_server_output(records),
            ),
            requests=requests,
        )
    )


def _request(record: Fields, first_s: float) -> MeasuredRequest:
    info = record.child("info")
    response = info.child("response_metrics") if "response_metrics" in info else info
    sent_s, end_s, due_s = record.need("start_time"), record.need("end_time"), record.number("scheduled_time")
    times = response.numbers("output_token_times") or []
    failed = record.raw("error") is not None
    return MeasuredRequest(
        status=Status.FAILED if failed else Status.OK,
        sent_s=sent_s - first_s,
        due_s=None if due_s is None else due_s - first_s,
        ttft_s=times[0] - sent_s if times and not failed else None,
        e2e_s=None if failed else end_s - sent_s,
        itl_s=(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 and not failed else None,
        prompt_tokens=info.whole("input_tokens"),
        output_tokens=None if failed else response.whole("output_tokens"),
        cached_tokens=response.child("server_usage", "prompt_tokens_details").whole("cached_tokens"),
    )


def _server_output(records: list[Fields]) -> float | None:
    found: list[Any] = [
        each.child("info", "response_metrics", "server_usage").amount("completion_tokens")
        for each in records
        if each.raw("error") is None
    ]
    return sum(found) if found and all(each is not None for each in found) else None
