"""Amazon Bedrock model invocation logs: one JSON record a call, in S3 as JSON lines.

Token counts stand beside the bodies. The latency stands inside the answer: in `metrics` of Converse, and in the last
event of a stream. A call that a guardrail stopped, or that the service refused, has counts of 0, which are no lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, json_path, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, stamp, whole, words
from ullage.workload.trace import Clock

_BODY = '$."output"."outputBodyJson"'
_STREAMED = f'{_BODY}[#-1]."amazon-bedrock-invocationMetrics"'
FIELDS = {
    "timestamp": json_path("timestamp"),
    "request": json_path("requestId"),
    "operation": json_path("operation"),
    "model": json_path("modelId"),
    "who": json_path("identity", "arn"),
    "product": json_path("requestMetadata", "product"),
    "project": json_path("requestMetadata", "project"),
    "prompt": json_path("input", "inputTokenCount"),
    "cached": json_path("input", "cacheReadInputTokenCount"),
    "output": json_path("output", "outputTokenCount"),
    "error": json_path("errorCode"),
    "latency": f'{_BODY}."metrics"."latencyMs"',
    "stream_latency": f'{_STREAMED}."invocationLatency"',
    "stream_first": f'{_STREAMED}."firstByteLatency"',
    "converse_latency": f'{_BODY}[#-1]."metadata"."metrics"."latencyMs"',
}


def _recognises(file: Glimpse) -> bool:
    return file.has("modelId", "operation") and file.has_any("input.inputTokenCount", "schemaType")


def _draft(files: Sequence[Glimpse]) -> Draft:
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": stamp('"timestamp"'),
            "prompt_tokens": f"NULLIF({whole('prompt')}, 0)",
            "output_tokens": f"CASE WHEN {whole('prompt')} > 0 THEN {whole('output')} END",
            "cached_tokens": whole("cached"),
            "duration_s": number(first_of("latency", "stream_latency", "converse_latency"), 0.001),
            "ttft_s": number("stream_first", 0.001),
            "status": f"CASE WHEN error IS NOT NULL OR COALESCE({whole('prompt')}, 0) = 0 THEN 'failed' ELSE 'ok' END",
            "tenant": words("who"),
            "product": first_of(words("product"), words("project")),
            "model": words("model"),
            "path": words("operation"),
            "request": words("request"),
        },
        clock=Clock.UTC,
        time='"timestamp"',
    )


READER = TraceReader(name="bedrock", title="Amazon Bedrock model invocation log", recognises=_recognises, draft=_draft)
