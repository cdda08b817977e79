"""BurstGPT traces: CSV with times in seconds from the first midnight; a failed request has no response tokens."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import number, whole, words
from ullage.workload.trace import Clock

FIELDS = (
    "Timestamp",
    "Model",
    "Request tokens",
    "Response tokens",
    "Log Type",
    "Session ID",
    "Elapsed time",
)


def _recognises(file: Glimpse) -> bool:
    return file.has("Timestamp", "Model", "Request tokens", "Response tokens")


def _draft(files: Sequence[Glimpse]) -> Draft:
    answered = whole('"Response tokens"')
    columns = {
        "arrival_s": number('"Timestamp"'),
        "prompt_tokens": whole('"Request tokens"'),
        # The publisher marks a failure by a response of 0 tokens.
        "output_tokens": f"NULLIF({answered}, 0)",
        "status": f"CASE WHEN {answered} = 0 THEN 'failed' WHEN {answered} > 0 THEN 'ok' END",
        "model": words('"Model"'),
        "path": words('"Log Type"'),
    }
    if files[0].has("Session ID"):
        columns["session"] = words('"Session ID"')
    if files[0].has("Elapsed time"):
        columns["duration_s"] = number('"Elapsed time"')
    return Draft(rows=rows_of(files, FIELDS), columns=columns, clock=Clock.RELATIVE)


READER = TraceReader(name="burstgpt", title="BurstGPT trace (CSV)", recognises=_recognises, draft=_draft)
