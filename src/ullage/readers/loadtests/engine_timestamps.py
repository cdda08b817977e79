"""Single requests with vLLM's own timestamps, one JSON object a line: when each was queued, and its tokens came.

The engine's clock and the client's are not the same one, so latencies are counted from `queued_ts` and what the client
waited before that is not known.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Flag,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    SeenBy,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import summed_up
from ullage.workload.anomalies import Severity


def recognise(content: Content) -> bool:
    return {"input_toks", "output_toks", "queued_ts", "first_token_ts", "last_token_ts"} <= set(content.first)


def read(content: Content) -> LoadTest:
    records = [Fields(each, content.file, f"line {index + 1}") for index, each in enumerate(content.mappings)]
    first_s = min(each.need("queued_ts") for each in records)
    requests = tuple(_request(each, first_s) for each in records)
    point = Point(
        name="all requests",
        subject=LoadTestSubject(engine="vllm"),
        load=OfferedLoad(loop=Loop.TRACE),
        tokens=Tokens(counted_by=CountedBy.SERVER),
        requests=requests,
        anomalies=(
            anomaly(
                Flag.STATED_BY_TOOL,
                "Times are the engine's, from when a request was queued: they leave out the network and the client.",
                Severity.NOTE,
            ),
        ),
    )
    point = summed_up(point)
    return LoadTest(
        file=content.file,
        reader="engine_timestamps",
        tool="vLLM timestamps",
        format_version="requests",
        points=(replace(point, latencies=tuple(replace(each, seen_by=SeenBy.ENGINE) for each in point.latencies)),),
    )


def _request(fields: Fields, first_s: float) -> MeasuredRequest:
    queued_s, token_s, end_s = (fields.number(name) for name in ("queued_ts", "first_token_ts", "last_token_ts"))
    done = queued_s is not None and token_s is not None and end_s is not None
    return MeasuredRequest(
        status=Status.OK if done else Status.FAILED,
        sent_s=None if queued_s is None else queued_s - first_s,
        ttft_s=None if queued_s is None or token_s is None else token_s - queued_s,
        e2e_s=None if queued_s is None or end_s is None else end_s - queued_s,
        prompt_tokens=fields.whole("input_toks"),
        output_tokens=fields.whole("output_toks"),
    )
