"""A step model scaled to measurements: five factors with plain meanings, on any kind of step model.

    fixed      on the step that one sequence takes: weights, launches, scheduling
    sequences  on what more sequences add to it
    kv         on what their KV adds
    prefill    on what prompt tokens and their pairs add
    request    on what a request spends outside the engine's steps

All factors are 1 for the model as it was. Monotone models stay monotone, whatever the factors.

What a test finds on top of the estimated step of one sequence is a host that falls behind, or kernels too short to fill
the device. Longer kernels of larger batches hide part of it, so it does not add to the growth: the squares add up,

    step^2 = (one + sequences x more + kv x read)^2 + one^2 (fixed^2 - 1)      where fixed is above 1

What the estimate itself counts as overhead are gaps between kernels on the device, which nothing hides: below 1, the
factor is on the step of one sequence alone.
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

    def on_top_of(self, other: Factors) -> Factors:
        """Both sets of factors in one."""
        return Factors(
            **{f"{name}_ratio": getattr(self, f"{name}_ratio") * getattr(other, f"{name}_ratio") for name in PARAMETERS}
        )


@dataclass(frozen=True, kw_only=True)
class ScaledStep:
    """Step times times factors.

    With `is_hidden` the growth hides what load tests find on top of one sequence. Without, parts add up: for steps that
    are slowed alike, and for factors that were fitted so.
    """

    times: RequestTimes
    factors: Factors
    is_hidden: bool = True

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        one, more, read = self._parts(sequences, kv_tokens)
        first = one if self._hides else self.factors.fixed_ratio * one
        added: Floats = (
            first
            + np.where(more > 0, self.factors.sequences_ratio, 1.0) * more
            + np.where(read > 0, self.factors.kv_ratio, 1.0) * read
        )
        return np.hypot(added, self._beside_s(one)) if self._hides else added

    def decode_shares(self, sequences: float, kv_tokens: float) -> Floats:
        """What part of a decode step each factor moves; they sum to 1."""
        n, kv = np.array([sequences]), np.array([kv_tokens])
        one, more, read = self._parts(n, kv)
        factors = self.factors
        grown = np.array([factors.sequences_ratio * more[0], factors.kv_ratio * read[0]])
        if self._hides:
            # Of a root of squares each side moves as much as its square is of the sum.
            parts = np.array([(factors.fixed_ratio * one) ** 2, *(one + grown.sum()) * grown, 0.0, 0.0])
        else:
            parts = np.array([factors.fixed_ratio * one, *grown, 0.0, 0.0])
        shares: Floats = parts / parts.sum()
        return shares

    @property
    def _hides(self) -> bool:
        return self.is_hidden and self.factors.fixed_ratio > 1.0

    def _beside_s(self, one_s: float) -> float:
        """What passes beside the device's own work in every step: with it, one sequence takes as long as was found."""
        return one_s * math.sqrt(self.factors.fixed_ratio**2 - 1.0)

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
    """An estimate as published measurements of its configuration correct it: still an estimate, and no fit.

    Published configurations were fitted with parts that add up.
    """

    is_hidden: bool = False


def refitted(times: RequestTimes, factors: Factors) -> ScaledStep:
    """Factors on step times; where a fit scaled these already, on what it scaled, together with its own.

    So a fit that begins at another one comes to steps that one set of factors says.
    """
    below = times if isinstance(times, ScaledStep) else getattr(times, "times", None)
    if isinstance(below, ScaledStep) and below.is_hidden:
        return ScaledStep(times=below.times, factors=factors.on_top_of(below.factors))
    return ScaledStep(times=times, factors=factors)
