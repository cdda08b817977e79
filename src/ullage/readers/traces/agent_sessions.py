"""Coding-agent sessions: turns of agents with tool results, prefix blocks and a clock that starts with each session.

There is no common clock: `arrival_in_session_s` orders the turns of one session and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.readers.traces.draft import Draft, TraceReader, rows_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.sql import number, whole, words
from ullage.workload.trace import Clock

FIELDS = (
    "session",
    "turn",
    "arrival_in_session_s",
    "prompt_tokens",
    "output_tokens",
    "model",
    "tool_result_in",
    "tool_use_out",
    "api_time_s",
    "think_time_s",
    "ttft_s",
    "blocks",
    "prefix_blocks_from_prev",
)
BLOCK_TOKENS = 64


def _recognises(file: Glimpse) -> bool:
    return file.has("session", "arrival_in_session_s", "prompt_tokens")


def _draft(files: Sequence[Glimpse]) -> Draft:
    return Draft(
        rows=rows_of(files, FIELDS),
        columns={
            "arrival_s": number('"arrival_in_session_s"'),
            "prompt_tokens": whole('"prompt_tokens"'),
            "output_tokens": whole('"output_tokens"'),
            "duration_s": number('"api_time_s"'),
            "ttft_s": number('"ttft_s"'),
            "model": words('"model"'),
            "session": words('"session"'),
            # The first turn of a session waits for nothing; the source writes 0 there.
            "wait_s": f"CASE WHEN {whole('turn')} > 0 THEN {number('think_time_s')} END",
            "after_tool": 'TRY_CAST("tool_result_in" AS BOOLEAN)',
            # The source says whether tools were called, not how many: a lower bound.
            "tool_calls": 'CAST(TRY_CAST("tool_use_out" AS BOOLEAN) AS BIGINT)',
            "prompt_blocks": whole('"blocks"'),
            "repeated_blocks": whole('"prefix_blocks_from_prev"'),
        },
        clock=Clock.SESSION,
        block_tokens=BLOCK_TOKENS,
    )


READER = TraceReader(name="agent-sessions", title="coding-agent sessions", recognises=_recognises, draft=_draft)
