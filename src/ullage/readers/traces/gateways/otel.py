"""OpenTelemetry GenAI spans, under the names of today's conventions and under those engines still write.

`gen_ai.usage.input_tokens` includes cached tokens and `output_tokens` includes reasoning. vLLM writes
`prompt_tokens` and `completion_tokens`, and its latencies as attributes in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.gateways.spans import (
    IS_ERROR,
    REQUEST,
    attribute,
    duration_s,
    has_attributes,
    innermost,
    spans_of,
    start_s,
)
from ullage.readers.traces.sql import first_of, number, whole, words
from ullage.workload.trace import Clock

# Operations that put a prompt through a model; tool and agent spans wrap these and would count them twice.
MODEL_CALLS = ("chat", "text_completion", "generate_content", "completion")

ATTRIBUTES = (
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.request.id",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.latency.time_to_first_token",
    "gen_ai.latency.e2e",
    "gen_ai.conversation.id",
    "session.id",
    "enduser.id",
    "user.id",
    "error.type",
)


def _recognises(file: Glimpse) -> bool:
    return has_attributes(file, ("gen_ai.",))


def _draft(files: Sequence[Glimpse]) -> Draft:
    prompt = first_of(attribute("gen_ai.usage.input_tokens"), attribute("gen_ai.usage.prompt_tokens"))
    output = first_of(attribute("gen_ai.usage.output_tokens"), attribute("gen_ai.usage.completion_tokens"))
    operation = attribute("gen_ai.operation.name")
    cancelled = f"{attribute('gen_ai.response.finish_reasons')} LIKE '%abort%'"
    calls = ", ".join(f"'{call}'" for call in MODEL_CALLS)
    is_call = f"({operation} IN ({calls}) OR ({operation} IS NULL AND {prompt} IS NOT NULL))"
    tenant = words(first_of(attribute("enduser.id"), attribute("user.id")))
    model = words(first_of(attribute("gen_ai.request.model"), attribute("gen_ai.response.model")))
    session = words(first_of(attribute("gen_ai.conversation.id"), attribute("session.id")))
    outer = {"tenant": tenant, "model": model, "session": session}
    return Draft(
        rows=innermost(spans_of(files, ATTRIBUTES), is_call, outer),
        columns={
            "arrival_s": start_s(),
            "prompt_tokens": whole(prompt),
            "output_tokens": whole(output),
            "cached_tokens": whole(attribute("gen_ai.usage.cache_read.input_tokens")),
            "reasoning_tokens": whole(attribute("gen_ai.usage.reasoning.output_tokens")),
            "duration_s": first_of(number(attribute("gen_ai.latency.e2e")), duration_s()),
            "ttft_s": number(
                first_of(
                    attribute("gen_ai.response.time_to_first_chunk"),
                    attribute("gen_ai.latency.time_to_first_token"),
                )
            ),
            "status": f"CASE WHEN {cancelled} THEN 'cancelled' "
            f"WHEN {IS_ERROR} OR {attribute('error.type')} IS NOT NULL THEN 'failed' ELSE 'ok' END",
            "tenant": first_of(tenant, "outer_tenant"),
            "model": first_of(model, "outer_model"),
            "path": words(operation),
            "session": first_of(session, "outer_session"),
            "request": words(first_of(attribute("gen_ai.request.id"), REQUEST)),
        },
        clock=Clock.UTC,
        is_request=f"{is_call} AND NOT around_",
        otherwise="a span that is not a model call, or lies around one",
        time="start_time",
    )


READER = TraceReader(name="otel", title="OpenTelemetry GenAI spans", recognises=_recognises, draft=_draft)
