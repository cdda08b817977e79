"""Langfuse: generations out of ingestion batches, downloads of traces and exports of observations.

Names are in camel or snake case. A downloaded trace holds its observations beside it, or inside it.

An observation of another type (span, event, the trace itself) is no request. Keys of `usageDetails`
beside input and output come from the provider; the cached ones that are known are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, extracted, json_path, records_of, rows_of
from ullage.readers.traces.files import Glimpse, Layout
from ullage.readers.traces.sql import first_of, stamp, whole, words
from ullage.workload.trace import Clock

FIELDS = (
    "id",
    "type",
    "startTime",
    "start_time",
    "endTime",
    "end_time",
    "completionStartTime",
    "completion_start_time",
    "model",
    "providedModelName",
    "provided_model_name",
    "usage",
    "usageDetails",
    "usage_details",
    "level",
    "traceId",
    "trace_id",
    "sessionId",
    "session_id",
    "userId",
    "user_id",
    "tags",
)
GENERATION = ("GENERATION", "generation-create")


def _recognises(file: Glimpse) -> bool:
    if file.has("batch[].type", "batch[].body") or _observations(file):
        return True
    return (
        file.has_any("usageDetails", "usage_details") and file.has_any("startTime", "start_time") and file.has("type")
    )


def _observations(file: Glimpse) -> str:
    """Where a downloaded trace keeps its observations; nothing where the file is no such trace."""
    places = {
        "observations[].startTime": "$.observations[*]",
        "trace.observations[].startTime": "$.trace.observations[*]",
    }
    return next((path for field, path in places.items() if file.has(field)), "")


def _either(camel: str, snake: str) -> str:
    return f'COALESCE("{camel}", "{snake}")'


def _usage(*keys: str) -> str:
    details = f"TRY_CAST({_either('usageDetails', 'usage_details')} AS JSON)"
    found = [f"json_extract_string({details}, '{json_path(key)}')" for key in keys]
    older = [f"json_extract_string(TRY_CAST(\"usage\" AS JSON), '{json_path(key)}')" for key in keys]
    return first_of(*found, *older)


def _draft(files: Sequence[Glimpse]) -> Draft:
    if files[0].has("batch[].type"):
        events = f"(SELECT unnest(json_extract(json, '$.batch[*]')) AS event FROM {records_of(files)})"
        paths = {field: json_path("body", field) for field in FIELDS} | {"type": json_path("type")}
        rows = extracted(events, "event", paths)
    elif _observations(files[0]):
        place = _observations(files[0])
        rows = (
            f"(SELECT unnest(json_extract(json, '{place}')) AS event, "
            "json_extract_string(json, ['$.trace.tags[0]', '$.tags[0]', '$.trace.userId', '$.userId']) AS trace_ "
            f"FROM {records_of(files)})"
        )
        rows = extracted(rows, "event", {field: json_path(field) for field in FIELDS}, beside=("trace_",))
        rows = (
            'SELECT * REPLACE (COALESCE("userId", trace_[3], trace_[4]) AS "userId", '
            f"COALESCE(tags, trace_[1], trace_[2]) AS tags) FROM ({rows})"
        )
    elif files[0].layout in (Layout.CSV, Layout.PARQUET):
        rows = _as_text(rows_of(files, FIELDS))
    else:
        rows = rows_of(files, FIELDS)
    start = _either("startTime", "start_time")
    first = stamp(_either("completionStartTime", "completion_start_time"))
    end = stamp(_either("endTime", "end_time"))
    kinds = ", ".join(f"'{kind}'" for kind in GENERATION)
    return Draft(
        rows=rows,
        columns={
            "arrival_s": stamp(start),
            "prompt_tokens": whole(_usage("input", "prompt_tokens", "promptTokens")),
            "output_tokens": whole(_usage("output", "completion_tokens", "completionTokens")),
            "cached_tokens": whole(
                _usage(
                    "cache_read_input_tokens", "input_cached_tokens", "input_cache_read", "prompt_details.cache_read"
                )
            ),
            "reasoning_tokens": whole(
                _usage("output_reasoning_tokens", "reasoning_tokens", "completion_details.reasoning")
            ),
            "duration_s": f"{end} - {stamp(start)}",
            # Equal to the end where nothing was streamed.
            "ttft_s": f"CASE WHEN {first} < {end} THEN {first} - {stamp(start)} END",
            "status": "CASE WHEN upper(level) = 'ERROR' THEN 'failed' ELSE 'ok' END",
            "tenant": words(_either("userId", "user_id")),
            "product": words("COALESCE(json_extract_string(TRY_CAST(tags AS JSON), '$[0]'), tags)"),
            "model": words('COALESCE("model", "providedModelName", "provided_model_name")'),
            "session": words(f"COALESCE({_either('sessionId', 'session_id')}, {_either('traceId', 'trace_id')})"),
            "request": words('"id"'),
        },
        clock=Clock.UTC,
        is_request=f"COALESCE(\"type\", 'GENERATION') IN ({kinds})",
        otherwise="an observation that is not a generation",
        time=start,
    )


def _as_text(rows: str) -> str:
    """Typed columns as text, so that the same expressions hold for tables and for JSON."""
    listed = ", ".join(f'CAST("{field}" AS VARCHAR) AS "{field}"' for field in FIELDS)
    return f"SELECT {listed}, unreadable_ FROM ({rows})"


READER = TraceReader(
    name="langfuse",
    title="Langfuse ingestion batches, downloads of traces and observation exports",
    recognises=_recognises,
    draft=_draft,
)
