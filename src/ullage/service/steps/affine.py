"""The affine step model: a straight line through measured steps.

    step = step_s + n x sequence_s + v x kv_token_s + p x prefill_token_s + a x pair_s

for n decoding sequences that hold v tokens, p new prompt tokens and a pairs. It is what few measurements can carry;
outside their range it is a guess that the physical floor keeps honest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError
from ullage.service.steps.work import Floats


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """One engine step that somebody timed."""

    sequences: int
    kv_tokens: int
    prefill_tokens: int
    pairs: int
    duration_s: float


@dataclass(frozen=True, kw_only=True)
class AffineStep:
    """Five coefficients, none negative."""

    step_s: float
    sequence_s: float
    kv_token_s: float
    prefill_token_s: float
    pair_token_s: float

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return self.step_s + sequences * self.sequence_s + kv_tokens * self.kv_token_s

    def prefill_s(self, tokens: Floats) -> Floats:
        return tokens * self.prefill_token_s

    @property
    def pair_s(self) -> float:
        return self.pair_token_s


def fit_affine(steps: Sequence[MeasuredStep], *, rounds: int = 400) -> AffineStep:
    """Least squares on relative errors with no coefficient below 0 (multiplicative updates, which cannot cross it)."""
    if len(steps) < 2:
        raise InputError(
            field="steps", value=len(steps), problem="is too few to fit a line", fix="Give at least two steps."
        )
    rows = np.array([(1, s.sequences, s.kv_tokens, s.prefill_tokens, s.pairs) for s in steps], dtype=np.float64)
    times = np.array([step.duration_s for step in steps])
    if bool((times <= 0).any()):
        raise InputError(
            field="steps.duration_s", value=float(times.min()), problem="is not a duration", fix="Give seconds above 0."
        )
    scaled = rows / times[:, None]
    size = np.maximum(scaled.max(axis=0), 1e-300)
    design, target = scaled / size, np.ones(len(steps))
    found = np.where(rows.max(axis=0) > 0, 1.0, 0.0)
    for _ in range(rounds):
        found = found * (design.T @ target) / np.maximum(design.T @ (design @ found), 1e-300)
    values = (found / size).tolist()
    return AffineStep(
        step_s=values[0], sequence_s=values[1], kv_token_s=values[2], prefill_token_s=values[3], pair_token_s=values[4]
    )
