"""Helicone request exports: CSV of the page, or JSON of the API; latencies in milliseconds.

Custom properties are a user's own; one called `app`, `product` or `feature` is taken for the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import first_of, number, stamp, status, whole, words
from ullage.workload.trace import Clock

FIELDS = ("request_id", "response_id", "request_created_at", "response_created_at", "response_status",
          "request_user_id", "request_model", "response_model", "request_path", "prompt_tokens", "completion_tokens",
          "prompt_cache_read_tokens", "reasoning_tokens", "latency", "delay_ms", "time_to_first_token",
          "request_properties", "properties", "app", "product", "feature", "session_id")  # fmt: skip


def _recognises(file: Glimpse) -> bool:
    return file.has("request_created_at", "response_status") and file.has_any("prompt_tokens", "completion_tokens")


def _property(name: str) -> str:
    given = "TRY_CAST(COALESCE(request_properties, properties) AS JSON)"
    return words(
        first_of(name, f"json_extract_string({given}, '$.{name}')", f"json_extract_string({given}, '$.{name.title()}')")
    )


def _draft(files: Sequence[Glimpse]) -> Draft:
    # -1 is Helicone's mark for a call that was cut off by its client.
    code = whole("response_status")
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": stamp("request_created_at"),
            "prompt_tokens": whole("prompt_tokens"),
            "output_tokens": whole("completion_tokens"),
            "cached_tokens": whole("prompt_cache_read_tokens"),
            "reasoning_tokens": whole("reasoning_tokens"),
            "duration_s": first_of(
                number(first_of("latency", "delay_ms"), 0.001),
                f"{stamp('response_created_at')} - {stamp('request_created_at')}",
            ),
            "ttft_s": number("time_to_first_token", 0.001),
            "status": f"CASE WHEN {code} IN (-1, -3, -4) THEN 'cancelled' ELSE {status('response_status')} END",
            "tenant": words("request_user_id"),
            "product": first_of(_property("product"), _property("app"), _property("feature")),
            "model": words(first_of("response_model", "request_model")),
            "path": words("request_path"),
            "session": words("session_id"),
            "request": words(first_of("request_id", "response_id")),
        },
        clock=Clock.UTC,
        time="request_created_at",
    )


READER = TraceReader(name="helicone", title="Helicone request export", recognises=_recognises, draft=_draft)
