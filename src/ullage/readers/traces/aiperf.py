"""AIPerf per-request records (`profile_export.jsonl`): times in nanoseconds since 1970, metrics with their units.

The arrival is when the request was due (`credit_issued_ns`), not when a busy client got round to sending it.
Token counts of the server (`usage_*`) are preferred to those of the client's tokenizer, which can differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, json_path, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, whole, words
from ullage.workload.trace import Clock

META = (
    "conversation_id",
    "x_request_id",
    "credit_issued_ns",
    "request_start_ns",
    "request_end_ns",
    "benchmark_phase",
    "was_cancelled",
)
METRICS = (
    "usage_prompt_tokens",
    "input_sequence_length",
    "usage_completion_tokens",
    "output_sequence_length",
    "usage_prompt_cache_read_tokens",
    "reasoning_token_count",
    "time_to_first_token",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("metadata.request_start_ns", "metrics")


def _draft(files: Sequence[Glimpse]) -> Draft:
    fields = {field: json_path("metadata", field) for field in META}
    fields |= {field: json_path("metrics", field, "value") for field in METRICS}
    fields["ttft_unit"] = json_path("metrics", "time_to_first_token", "unit")
    fields["error"] = json_path("error")
    due = f"({first_of(whole('credit_issued_ns'), whole('request_start_ns'))})"
    return Draft(
        rows=rows_of(files, fields),
        columns={
            "arrival_s": f"{due} / 1e9",
            "prompt_tokens": whole(first_of("usage_prompt_tokens", "input_sequence_length")),
            "output_tokens": whole(first_of("usage_completion_tokens", "output_sequence_length")),
            "cached_tokens": whole("usage_prompt_cache_read_tokens"),
            "reasoning_tokens": whole("reasoning_token_count"),
            # In whole nanoseconds first: seconds since 1970 have no room left for them.
            "duration_s": f"({whole('request_end_ns')} - {due}) / 1e9",
            "ttft_s": f"CASE ttft_unit WHEN 'ms' THEN {number('time_to_first_token', 0.001)} "
            f"WHEN 'sec' THEN {number('time_to_first_token')} WHEN 's' THEN {number('time_to_first_token')} END",
            "status": "CASE WHEN TRY_CAST(was_cancelled AS BOOLEAN) THEN 'cancelled' "
            "WHEN error IS NOT NULL THEN 'failed' ELSE 'ok' END",
            "session": words("conversation_id"),
            "request": words("x_request_id"),
        },
        clock=Clock.UTC,
        is_request="COALESCE(benchmark_phase, 'profiling') = 'profiling'",
        otherwise="sent in a warm-up phase",
    )


READER = TraceReader(name="aiperf", title="AIPerf per-request records", recognises=_recognises, draft=_draft)
