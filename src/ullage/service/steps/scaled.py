"""A step model scaled to measurements: four factors with plain meanings, on any kind of step model.

    fixed      on the step that one sequence takes: weights, launches, scheduling
    growth     on what more sequences and more KV add to it
    prefill    on what prompt tokens and their pairs add
    request    on what a request spends outside the engine's steps

All factors are 1 for the model as it was. Monotone models stay monotone, whatever the factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ullage.service.calibration.replay import RequestTimes
from ullage.service.steps.work import Floats

PARAMETERS = ("fixed", "growth", "prefill", "request")


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The four factors; 1 leaves the model as it is."""

    fixed_ratio: float = 1.0
    growth_ratio: float = 1.0
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
        one = self.times.decode_s(np.ones(1), np.ones(1))[0]
        more = self.times.decode_s(sequences, kv_tokens) - one
        grown = np.where(more > 0, self.factors.growth_ratio, 1.0) * more
        scaled: Floats = self.factors.fixed_ratio * one + grown
        return scaled

    def prefill_s(self, tokens: Floats) -> Floats:
        return self.factors.prefill_ratio * self.times.prefill_s(tokens)

    @property
    def pair_s(self) -> float:
        return self.factors.prefill_ratio * self.times.pair_s

    @property
    def request_overhead_s(self) -> float:
        return self.factors.request_ratio * self.times.request_overhead_s
