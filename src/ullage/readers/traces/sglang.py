"""SGLang request-metrics logs (`--export-metrics-to-file`): one JSON line a finished request.

The engine writes its `meta_info` beside `request_parameters`; some versions nest it. Both are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, json_path, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, whole, words
from ullage.workload.trace import Clock

META = (
    "id",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "request_received_ts",
    "prefill_finished_ts",
    "e2e_latency",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("request_parameters") and file.has_any("prompt_tokens", "meta_info.prompt_tokens")


def _meta(field: str) -> str:
    return f'COALESCE("{field}", "meta_info.{field}")'


def _draft(files: Sequence[Glimpse]) -> Draft:
    fields = {"request_parameters": json_path("request_parameters")}
    for field in META:
        fields[field] = json_path(field)
        fields[f"meta_info.{field}"] = json_path("meta_info", field)
    fields["finish"] = json_path("finish_reason", "type")
    fields["meta_info.finish"] = json_path("meta_info", "finish_reason", "type")
    received = number(_meta("request_received_ts"))
    parameter = "json_extract_string(TRY_CAST(\"request_parameters\" AS JSON), '$.{}')"
    return Draft(
        rows=rows_of(files, fields),
        columns={
            "arrival_s": received,
            "prompt_tokens": whole(_meta("prompt_tokens")),
            "output_tokens": whole(_meta("completion_tokens")),
            "cached_tokens": whole(_meta("cached_tokens")),
            "reasoning_tokens": whole(_meta("reasoning_tokens")),
            "duration_s": number(_meta("e2e_latency")),
            "ttft_s": f"{number(_meta('prefill_finished_ts'))} - {received}",
            "status": f"CASE {_meta('finish')} WHEN 'abort' THEN 'cancelled' WHEN 'stop' THEN 'ok' "
            "WHEN 'length' THEN 'ok' END",
            "model": words(parameter.format("model")),
            "session": first_of(words(parameter.format("session_id")), words(parameter.format("session_params.id"))),
            "request": words(_meta("id")),
        },
        clock=Clock.UTC,
    )


READER = TraceReader(name="sglang", title="SGLang request-metrics log", recognises=_recognises, draft=_draft)
