"""A step model scaled to measurements: five factors with plain meanings, on any kind of step model.

    fixed      on the step that one sequence takes: weights, launches, scheduling
    sequences  on what more sequences add to it
    kv         on what their KV adds
    prefill    on what prompt tokens and their pairs add
    request    on what a request spends outside the engine's steps

All factors are 1 for the model as it was. Monotone models stay monotone, whatever the factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ullage.service.steps.work import Floats

if TYPE_CHECKING:
    from ullage.service.calibration.replay import RequestTimes

PARAMETERS = ("fixed", "sequences", "kv", "prefill", "request")


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The five factors; 1 leaves the model as it is."""

    fixed_ratio: float = 1.0
    sequences_ratio: float = 1.0
    kv_ratio: float = 1.0
    prefill_ratio: float = 1.0
    request_ratio: float = 1.0

    @classmethod
    def of_logs(cls, logs: Floats) -> Factors:
        return cls(**{f"{name}_ratio": math.exp(value) for name, value in zip(PARAMETERS, logs.tolist(), strict=True)})

    def log(self, name: str) -> float:
        return math.log(getattr(self, f"{name}_ratio"))


@dataclass(frozen=True, kw_only=True)
class ScaledStep:
    """Step times times factors."""

    times: RequestTimes
    factors: Factors

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        one, more, read = self._parts(sequences, kv_tokens)
        scaled: Floats = (
            self.factors.fixed_ratio * one
            + np.where(more > 0, self.factors.sequences_ratio, 1.0) * more
            + np.where(read > 0, self.factors.kv_ratio, 1.0) * read
        )
        return scaled

    def decode_shares(self, sequences: float, kv_tokens: float) -> Floats:
        """What part of a decode step each factor moves; they sum to 1."""
        n, kv = np.array([sequences]), np.array([kv_tokens])
        one, more, read = self._parts(n, kv)
        factors = self.factors
        parts = (factors.fixed_ratio * one, factors.sequences_ratio * more[0], factors.kv_ratio * read[0], 0.0, 0.0)
        shares: Floats = np.array(parts) / sum(parts)
        return shares

    def _parts(self, sequences: Floats, kv_tokens: Floats) -> tuple[float, Floats, Floats]:
        """The step of one sequence, what the others add with next to no KV, and what the KV adds to that."""
        one = float(self.times.decode_s(np.ones(1), np.ones(1))[0])
        short = self.times.decode_s(sequences, np.minimum(kv_tokens, sequences))
        return one, short - one, self.times.decode_s(sequences, kv_tokens) - short

    def prefill_s(self, tokens: Floats) -> Floats:
        return self.factors.prefill_ratio * self.times.prefill_s(tokens)

    @property
    def pair_s(self) -> float:
        return self.factors.prefill_ratio * self.times.pair_s

    @property
    def request_overhead_s(self) -> float:
        return self.factors.request_ratio * self.times.request_overhead_s


@dataclass(frozen=True, kw_only=True)
class CorrectedStep(ScaledStep):
    """An estimate as published measurements of its configuration correct it: still an estimate, and no fit."""
