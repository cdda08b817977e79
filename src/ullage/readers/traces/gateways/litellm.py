"""LiteLLM: spend logs (table exports, JSON) and standard logging payloads, which share their names for what counts.

The product is the first tag that a user set, or else what the key, the project or the team is called: all three are
how people tell their products apart behind one proxy. Tags that the proxy sets itself, such as the client's name, are
none. Cached tokens stand only inside `metadata.usage_object`, which a table export holds as text in a column.
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
    "request_tags",
    "organization_id",
    "end_user",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("call_type", "startTime", "endTime", "prompt_tokens", "completion_tokens")


def _usage(*keys: str) -> str:
    path = "$.usage_object" + "".join(f".{key}" for key in keys)
    # TRY_CAST: a table export may hold text that is not JSON.
    return f"json_extract_string(TRY_CAST(\"metadata\" AS JSON), '{path}')"


def _about(key: str) -> str:
    return words(f"json_extract_string(TRY_CAST(\"metadata\" AS JSON), '$.{key}')")


def _tag() -> str:
    listed = 'TRY_CAST(TRY_CAST("request_tags" AS JSON) AS VARCHAR[])'
    return f"list_filter({listed}, lambda tag: NOT starts_with(tag, 'User-Agent:') AND tag <> '')[1]"


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
            "product": first_of(
                words(_tag()),
                _about("user_api_key_project_alias"),
                _about("user_api_key_alias"),
                _about("user_api_key_team_alias"),
                words('"organization_id"'),
            ),
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
