"""Mooncake traces: JSON lines with times in milliseconds and one hash for each 512-token block of the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import hashes, number, whole
from ullage.workload.trace import Clock

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
# The block size is part of the format, not of the file.
BLOCK_TOKENS = 512


def _recognises(file: Glimpse) -> bool:
    return file.has("timestamp", "input_length", "output_length")


def _draft(files: Sequence[Glimpse]) -> Draft:
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": number('"timestamp"', 0.001),
            "prompt_tokens": whole('"input_length"'),
            "output_tokens": whole('"output_length"'),
            "block_hashes": hashes('"hash_ids"'),
        },
        clock=Clock.RELATIVE,
        block_tokens=BLOCK_TOKENS,
    )


READER = TraceReader(name="mooncake", title="Mooncake trace with block hashes", recognises=_recognises, draft=_draft)
