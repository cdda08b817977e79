"""OpenInference spans (Phoenix and others): spans of kind LLM, with token counts under `llm.token_count`.

Read as span records, as OTLP, and as the flat tables that Phoenix exports (`attributes.llm.model_name`).
The convention has no first-token time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.gateways.spans import attribute, duration_s, has_attributes, spans_of, start_s
from ullage.readers.traces.sql import stamp, whole, words
from ullage.workload.trace import Clock

ATTRIBUTES = (
    "openinference.span.kind",
    "llm.model_name",
    "llm.token_count.prompt",
    "llm.token_count.completion",
    "llm.token_count.prompt_details.cache_read",
    "llm.token_count.completion_details.reasoning",
    "session.id",
    "user.id",
)
_FLAT = "attributes.llm.token_count.prompt"


def _is_flat(file: Glimpse) -> bool:
    return file.layout in (Layout.CSV, Layout.PARQUET) and file.has("start_time", "end_time", _FLAT)


def _recognises(file: Glimpse) -> bool:
    return _is_flat(file) or has_attributes(file, ("llm.token_count", "openinference.span.kind"))


def _draft(files: Sequence[Glimpse]) -> Draft:
    if _is_flat(files[0]):
        plain = ("start_time", "end_time", "status_code", "context.span_id", "span_kind")
        rows = rows_of(files, (*plain, *(f"attributes.{each}" for each in ATTRIBUTES)))
        failed, request, kind = "upper(status_code) = 'ERROR'", '"context.span_id"', "span_kind"
        duration = f"{stamp('end_time')} - {stamp('start_time')}"
        return _drafted(rows, lambda key: f'"attributes.{key}"', (stamp("start_time"), duration, failed, request), kind)
    failed = "upper(COALESCE(code, status_code, '')) IN ('2', 'ERROR', 'STATUS_CODE_ERROR')"
    times = (start_s(), duration_s(), failed, 'COALESCE(span_id, "spanId")')
    return _drafted(spans_of(files, ATTRIBUTES), attribute, times, attribute("openinference.span.kind"))


def _drafted(rows: str, value: Callable[[str], str], times: tuple[str, str, str, str], kind: str) -> Draft:
    arrival, duration, failed, request = times
    return Draft(
        rows=rows,
        columns={
            "arrival_s": arrival,
            "prompt_tokens": whole(value("llm.token_count.prompt")),
            "output_tokens": whole(value("llm.token_count.completion")),
            "cached_tokens": whole(value("llm.token_count.prompt_details.cache_read")),
            "reasoning_tokens": whole(value("llm.token_count.completion_details.reasoning")),
            "duration_s": duration,
            "status": f"CASE WHEN {failed} THEN 'failed' ELSE 'ok' END",
            "tenant": words(value("user.id")),
            "model": words(value("llm.model_name")),
            "session": words(value("session.id")),
            "request": words(request),
        },
        clock=Clock.UTC,
        # Chains, tools and retrievers wrap model calls; some repeat their token counts.
        is_request=f"COALESCE(upper({kind}), 'LLM') = 'LLM'",
        otherwise="a span that is not a model call",
        time="start_time",
    )


READER = TraceReader(name="openinference", title="OpenInference spans (Phoenix)", recognises=_recognises, draft=_draft)
