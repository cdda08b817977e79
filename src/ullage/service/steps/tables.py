"""From a step model to the kernel's integer tables.

Between two grid points the kernel interpolates linearly, so a table equals the function on the grid and lies above a
concave one by a hair between. Times never fall as KV or tokens grow: the kernel's arithmetic relies on it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

import numpy as np

from ullage.service.steps.work import Floats
from ullage.simulate.engine import PS_PER_S, StepTable

KV_SEGMENTS = 32
TOKEN_SEGMENT_TOKENS = 16
_MOST_SEGMENT_TOKENS = 1 << 40


class StepTimes(Protocol):
    """What every kind of step model can say: a decode step, what prompt tokens add, and what each pair adds.

    Prompt tokens pass the matrices together with the decodes beside them: p of them beside n add prefill_s(p + n) less
    shared_s(n), what the n have taken of it already. None says that they add prefill_s(p) beside any number.
    """

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats: ...

    def prefill_s(self, tokens: Floats) -> Floats: ...

    def shared_s(self, sequences: Floats, /) -> Floats | None: ...

    @property
    def pair_s(self) -> float: ...


def added_s(times: StepTimes, tokens: float, *, sequences: float) -> float:
    """What so many prompt tokens add to a step of so many decoding sequences, beside the pairs they are compared in."""
    beside = np.array([float(sequences)])
    shared = times.shared_s(beside)
    if shared is None:
        return float(times.prefill_s(np.array([float(tokens)]))[0])
    return float((times.prefill_s(tokens + beside) - shared)[0])


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
    shared = times.shared_s(sequences)
    table = StepTable(
        decode_base_ps=decode_ps[:, :-1].astype(np.int64),
        decode_slope_ps=_slope(decode_ps, segment),
        token_base_ps=prefill_ps[:-1].astype(np.int64),
        token_slope_ps=_slope(prefill_ps, TOKEN_SEGMENT_TOKENS),
        kv_segment_tokens=min(segment, _MOST_SEGMENT_TOKENS),
        token_segment_tokens=TOKEN_SEGMENT_TOKENS,
        pair_ps=times.pair_s * PS_PER_S,
    )
    if shared is None:
        return table
    # Between grid points the table lies below a concave function: no more may be shared than the table has.
    shared_ps = np.minimum(np.rint(shared * PS_PER_S).astype(np.int64), table.token_ps(np.arange(max_sequences + 1)))
    return replace(table, combine="joint", shared_ps=shared_ps)


def _slope(values_ps: Floats, segment: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.rint(np.diff(values_ps, axis=-1) / segment).astype(np.int64)
