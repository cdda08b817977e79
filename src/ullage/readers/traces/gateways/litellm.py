"""LiteLLM: spend logs (table exports, JSON) and standard logging payloads, which share their names for what counts.

Cached tokens stand only inside `metadata.usage_object`, which a table export holds as text in a column.
The first-token time equals the end where nothing was streamed, and is then no first-token time at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, stamp, status, whole, words
from ullage.workload.trace import Clock

FIELDS = (
    "request_id",
    "id",
    "call_type",
    "api_key",
    "startTime",
    "endTime",
    "completionStartTime",
    "model",
    "model_group",
    "user",
    "team_id",
    "metadata",
    "prompt_tokens",
    "completion_tokens",
    "session_id",
    "status",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("call_type", "startTime", "endTime", "prompt_tokens", "completion_tokens")


def _usage(*keys: str) -> str:
    path = "$.usage_object" + "".join(f".{key}" for key in keys)
    # TRY_CAST: a table export may hold text that is not JSON.
    return f"json_extract_string(TRY_CAST(\"metadata\" AS JSON), '{path}')"


def _draft(files: Sequence[Glimpse]) -> Draft:
    start, first, end = stamp('"startTime"'), stamp('"completionStartTime"'), stamp('"endTime"')
    key_hash = "json_extract_string(TRY_CAST(\"metadata\" AS JSON), '$.user_api_key_hash')"
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": start,
            "prompt_tokens": whole('"prompt_tokens"'),
            "output_tokens": whole('"completion_tokens"'),
            "cached_tokens": whole(_usage("prompt_tokens_details", "cached_tokens")),
            "reasoning_tokens": whole(_usage("completion_tokens_details", "reasoning_tokens")),
            "duration_s": f"{end} - {start}",
            "ttft_s": f"CASE WHEN {first} < {end} THEN {first} - {start} END",
            "status": status('"status"'),
            "tenant": first_of(words('"team_id"'), words('"api_key"'), words(key_hash), words('"user"')),
            "model": first_of(words('"model_group"'), words('"model"')),
            "path": words('"call_type"'),
            "session": words('"session_id"'),
            "request": first_of(words('"request_id"'), words('"id"')),
        },
        clock=Clock.UTC,
        time='"startTime"',
    )


READER = TraceReader(
    name="litellm", title="LiteLLM spend logs and logging payloads", recognises=_recognises, draft=_draft
)
