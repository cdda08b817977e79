"""Azure LLM inference traces: one CSV line a request, times as text without a zone."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import stamp, whole
from ullage.workload.trace import Clock

FIELDS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _recognises(file: Glimpse) -> bool:
    return file.has(*FIELDS)


def _draft(files: Sequence[Glimpse]) -> Draft:
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": stamp('"TIMESTAMP"'),
            "prompt_tokens": whole('"ContextTokens"'),
            "output_tokens": whole('"GeneratedTokens"'),
        },
        clock=Clock.UTC,
        time='"TIMESTAMP"',
    )


READER = TraceReader(name="azure", title="Azure LLM inference trace (CSV)", recognises=_recognises, draft=_draft)
