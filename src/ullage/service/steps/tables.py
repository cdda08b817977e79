"""From a step model to the kernel's integer tables.

Between two grid points the kernel interpolates linearly, so a table equals the function on the grid and lies above a
concave one by a hair between. Times never fall as KV or tokens grow: the kernel's arithmetic relies on it.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from ullage.service.steps.work import Floats
from ullage.simulate.engine import PS_PER_S, StepTable

KV_SEGMENTS = 32
TOKEN_SEGMENT_TOKENS = 64
_MOST_SEGMENT_TOKENS = 1 << 40


class StepTimes(Protocol):
    """What every kind of step model can say: a decode step, what prompt tokens add, and what each pair adds."""

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats: ...

    def prefill_s(self, tokens: Floats) -> Floats: ...

    @property
    def pair_s(self) -> float: ...


def step_table(times: StepTimes, *, max_sequences: int, budget_tokens: int, kv_tokens: int) -> StepTable:
    """The table for an engine of these limits; beyond `kv_tokens` the last segment goes on."""
    segment = 1 << max(0, math.ceil(math.log2(max(kv_tokens, KV_SEGMENTS) / KV_SEGMENTS)))
    grid = np.arange(KV_SEGMENTS + 1, dtype=np.float64) * segment
    sequences = np.arange(max_sequences + 1, dtype=np.float64)
    # A sequence has at least a token of context, so cells below that are never visited.
    decode = times.decode_s(sequences[:, None], np.maximum(grid[None, :], sequences[:, None]))
    decode_ps = np.maximum.accumulate(np.maximum(1, np.rint(decode * PS_PER_S)), axis=1)
    tokens = np.arange(math.ceil(budget_tokens / TOKEN_SEGMENT_TOKENS) + 1, dtype=np.float64) * TOKEN_SEGMENT_TOKENS
    prefill = times.prefill_s(np.maximum(tokens, 1.0))
    prefill_ps = np.maximum.accumulate(np.maximum(0, np.rint(prefill * PS_PER_S)))
    return StepTable(
        decode_base_ps=decode_ps[:, :-1].astype(np.int64),
        decode_slope_ps=_slope(decode_ps, segment),
        token_base_ps=prefill_ps[:-1].astype(np.int64),
        token_slope_ps=_slope(prefill_ps, TOKEN_SEGMENT_TOKENS),
        kv_segment_tokens=min(segment, _MOST_SEGMENT_TOKENS),
        token_segment_tokens=TOKEN_SEGMENT_TOKENS,
        pair_ps=times.pair_s * PS_PER_S,
    )


def _slope(values_ps: Floats, segment: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.rint(np.diff(values_ps, axis=-1) / segment).astype(np.int64)
