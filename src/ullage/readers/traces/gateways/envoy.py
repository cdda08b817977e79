"""Envoy and Istio access logs in JSON: the names of Envoy AI Gateway's published example and of Istio's default.

A field that Envoy cannot fill is a dash or null. Token counts are present only where `llmRequestCosts`
asks for them. The response flags DC and the code 499 mark a client that went away.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, stamp, status, whole, words
from ullage.workload.trace import Clock

FIELDS = (
    "start_time",
    "duration",
    "response_code",
    "response_flags",
    "connection_termination_details",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.reasoning_tokens",
    "session.id",
    "request.path",
    "x-envoy-origin-path",
    "x-request-id",
    "path",
    "request_id",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("start_time", "response_code", "duration") and file.has_any(
        "gen_ai.request.model", "gen_ai.usage.input_tokens", "response_flags", "upstream_cluster"
    )


def _draft(files: Sequence[Glimpse]) -> Draft:
    gone = "(\"response_flags\" LIKE '%DC%' OR \"connection_termination_details\" LIKE '%downstream%')"
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": stamp('"start_time"'),
            "prompt_tokens": whole(words('"gen_ai.usage.input_tokens"')),
            "output_tokens": whole(words('"gen_ai.usage.output_tokens"')),
            "cached_tokens": whole(words('"gen_ai.usage.cached_input_tokens"')),
            "reasoning_tokens": whole(words('"gen_ai.usage.reasoning_tokens"')),
            "duration_s": number('"duration"', 0.001),
            "status": f"CASE WHEN {gone} THEN 'cancelled' WHEN {whole('response_code')} = 0 THEN 'cancelled' "
            f"ELSE {status('response_code')} END",
            "model": first_of(words('"gen_ai.request.model"'), words('"gen_ai.response.model"')),
            "path": first_of(words('"x-envoy-origin-path"'), words('"request.path"'), words('"path"')),
            "session": words('"session.id"'),
            "request": first_of(words('"x-request-id"'), words('"request_id"')),
        },
        clock=Clock.UTC,
        time='"start_time"',
    )


READER = TraceReader(
    name="envoy", title="Envoy, Envoy AI Gateway or Istio access log (JSON)", recognises=_recognises, draft=_draft
)
