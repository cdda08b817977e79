"""Single requests with vLLM's own timestamps, one JSON object a line: when each was queued, and its tokens came.

The engine's clock and the client's are not the same one, so latencies are counted from `queued_ts` and what the client
waited before that is not known.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly, rate
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
from ullage.service.loadtests.requests import lengths_of, sending_rate_rps, succeeded, summaries
from ullage.workload.anomalies import Severity


def recognise(content: Content) -> bool:
    return {"input_toks", "output_toks", "queued_ts", "first_token_ts", "last_token_ts"} <= set(content.first)


def read(content: Content) -> LoadTest:
    records = [Fields(each, content.file, f"line {index + 1}") for index, each in enumerate(content.mappings)]
    first_s = min(each.need("queued_ts") for each in records)
    requests = tuple(_request(each, first_s) for each in records)
    good = succeeded(requests)
    ends = [each.sent_s + each.e2e_s for each in good if each.sent_s is not None and each.e2e_s is not None]
    duration_s = max(ends, default=None)
    output = sum(each.output_tokens or 0 for each in good)
    point = Point(
        name="all requests",
        subject=LoadTestSubject(engine="vllm"),
        load=OfferedLoad(loop=Loop.TRACE),
        duration_s=duration_s,
        completed_count=len(good),
        failed_count=len(requests) - len(good),
        achieved_rps=rate(len(good), duration_s),
        sent_rps=sending_rate_rps(requests),
        output_tokens_per_s=rate(output, duration_s),
        tokens=Tokens(
            prompt_tokens=float(sum(each.prompt_tokens or 0 for each in good)),
            output_tokens=float(output),
            counted_by=CountedBy.SERVER,
            prompt_lengths=lengths_of(each.prompt_tokens for each in good),
            output_lengths=lengths_of(each.output_tokens for each in good),
        ),
        latencies=tuple(replace(each, seen_by=SeenBy.ENGINE) for each in summaries(requests)),
        requests=requests,
        anomalies=(
            anomaly(
                Flag.STATED_BY_TOOL,
                "Times are the engine's, from when a request was queued: they leave out the network and the client.",
                Severity.NOTE,
            ),
        ),
    )
    return LoadTest(
        file=content.file,
        reader="engine_timestamps",
        tool="vLLM timestamps",
        format_version="requests",
        points=(point,),
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
