"""GuideLLM reports: the requests that a benchmark kept, of every benchmark in the file.

A report holds requests by outcome. Each benchmark becomes a class of its own, because each was another load.
The arrival is when the request was due (`targeted_start`), where the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, extracted, json_path, records_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, text, whole, words
from ullage.workload.trace import Clock

OUTCOMES = {"successful": "ok", "errored": "failed", "incomplete": "cancelled"}
# 0.4 and later write `info.timings` and `*_metrics`; before, the same stood flat in the request.
FIELDS = {
    "due": json_path("info", "timings", "targeted_start"),
    "sent": json_path("info", "timings", "request_start"),
    "sent_flat": json_path("start_time"),
    "first": json_path("info", "timings", "first_token_iteration"),
    "first_flat": json_path("first_token_time"),
    "finished": json_path("info", "timings", "request_end"),
    "finished_flat": json_path("end_time"),
    "prompt": json_path("input_metrics", "text_tokens"),
    "prompt_flat": json_path("prompt_tokens"),
    "cached": json_path("input_metrics", "cached_tokens"),
    "output": json_path("output_metrics", "text_tokens"),
    "output_flat": json_path("output_tokens"),
    "session": json_path("info", "conversation_id"),
    "request": json_path("request_id"),
}


def _recognises(file: Glimpse) -> bool:
    return file.has("benchmarks") and file.has_any("benchmarks[].requests", "benchmarks[].requests.successful")


def _draft(files: Sequence[Glimpse]) -> Draft:
    benchmarks = (
        "(SELECT unnest(json_extract(json, '$.benchmarks[*]')) AS benchmark, "
        f"unnest(range(json_array_length(json, '$.benchmarks')::BIGINT)) AS place FROM {records_of(files)})"
    )
    load = "COALESCE(benchmark ->> '$.config.strategy.type_', benchmark ->> '$.args.strategy.type_', 'benchmark')"
    parts = " UNION ALL ".join(
        f"SELECT unnest(json_extract(benchmark, '$.requests.{theirs}[*]')) AS request_, "
        f"{text(ours)} AS outcome, {load} || '-' || place AS load FROM {benchmarks}"
        for theirs, ours in OUTCOMES.items()
    )
    fields = extracted(f"({parts})", "request_", FIELDS, beside=("outcome", "load"))
    due = number(first_of("due", "sent", "sent_flat"))
    return Draft(
        rows=fields,
        columns={
            "arrival_s": due,
            "prompt_tokens": whole(first_of("prompt", "prompt_flat")),
            "output_tokens": whole(first_of("output", "output_flat")),
            "cached_tokens": whole("cached"),
            "duration_s": f"{number(first_of('finished', 'finished_flat'))} - {due}",
            "ttft_s": f"{number(first_of('first', 'first_flat'))} - {due}",
            "status": "outcome",
            "class": "load",
            "session": words("session"),
            "request": words("request"),
        },
        clock=Clock.UTC,
    )


READER = TraceReader(name="guidellm", title="GuideLLM report with requests", recognises=_recognises, draft=_draft)
