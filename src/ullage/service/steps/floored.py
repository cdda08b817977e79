"""Step times times factors, and never below what physics allows: what a fit tries, and what it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ullage.service.steps.floor import Floor
from ullage.service.steps.scaled import Factors, ScaledStep, refitted
from ullage.service.steps.work import Floats

if TYPE_CHECKING:
    from ullage.service.calibration.replay import RequestTimes


@dataclass(frozen=True, kw_only=True)
class FlooredStep:
    """The scaled step times, raised to the floor where they would beat it."""

    times: ScaledStep
    floor: Floor

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return np.maximum(self.times.decode_s(sequences, kv_tokens), self.floor.decode_s(sequences, kv_tokens))

    def prefill_s(self, tokens: Floats) -> Floats:
        return np.maximum(self.times.prefill_s(tokens), self.floor.prefill_s(tokens))

    @property
    def pair_s(self) -> float:
        return 0.0 if self.times.pair_s == 0.0 else max(self.times.pair_s, self.floor.pair_s)

    @property
    def request_overhead_s(self) -> float:
        return self.times.request_overhead_s


def scaled(times: RequestTimes, floor: Floor, factors: Factors) -> FlooredStep:
    """The calibrated step times, not below the floor."""
    return FlooredStep(times=refitted(times, factors), floor=floor)
