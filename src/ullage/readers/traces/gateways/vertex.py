"""Vertex AI request-and-response logs: rows of its BigQuery table, exported, or the same inside a collector's record.

The answer is an object, a text that holds one, or a list of chunks of which the last counts tokens. The record is
written when the answer is complete; the call came its latency earlier. Thinking is billed and computed as output, and
counted apart from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, json_path, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, stamp, whole, words
from ullage.workload.trace import Clock

COLUMNS = ("logging_time", "request_id", "api_method", "model", "full_response", "metadata", "endpoint")
WRAPPED = ("gcp", "vertexai", "prompt_response_logs")


def _recognises(file: Glimpse) -> bool:
    inner = ".".join(WRAPPED)
    return file.has("logging_time", "full_response") or file.has(f"{inner}.logging_time", f"{inner}.full_response")


def _answer(*spellings: str) -> str:
    """A count of the answer, in either spelling, from an object or the last chunk of a list."""
    found: list[str] = []
    for spelt in spellings:
        usage = "usageMetadata" if "_" not in spelt else "usage_metadata"
        found += [f"json_extract_string(answer_, '${last}.{usage}.{spelt}')" for last in ("", "[#-1]")]
    return whole(first_of(*found))


def _draft(files: Sequence[Glimpse]) -> Draft:
    is_wrapped = files[0].has(".".join((*WRAPPED, "logging_time")))
    paths = {field: json_path(*(WRAPPED if is_wrapped else ()), field) for field in COLUMNS}
    rows = rows_of(files, paths if files[0].is_nested else COLUMNS)
    rows = f"SELECT *, TRY_CAST(full_response AS JSON) AS answer_, TRY_CAST(metadata AS JSON) AS about_ FROM ({rows})"
    latency_s = number("json_extract_string(about_, '$.request_latency')", 0.001)
    thoughts = _answer("thoughtsTokenCount", "thoughts_token_count")
    written = _answer("candidatesTokenCount", "candidates_token_count")
    return Draft(
        rows=rows,
        columns={
            "arrival_s": f"{stamp('logging_time')} - COALESCE({latency_s}, 0)",
            "prompt_tokens": _answer("promptTokenCount", "prompt_token_count"),
            "output_tokens": f"{written} + COALESCE({thoughts}, 0)",
            "cached_tokens": _answer("cachedContentTokenCount", "cached_content_token_count"),
            "reasoning_tokens": thoughts,
            "duration_s": latency_s,
            "status": f"CASE WHEN {written} IS NULL THEN 'failed' ELSE 'ok' END",
            "model": f"regexp_extract({words('model')}, '[^/]+$')",
            "path": words("api_method"),
            "request": words("request_id"),
        },
        clock=Clock.UTC,
        time="logging_time",
    )


READER = TraceReader(name="vertex", title="Vertex AI request-and-response log", recognises=_recognises, draft=_draft)
