"""Every time of a step model times one ratio, as `Replica.slowed` does to a compiled table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage.evidence import Assumption, Evidence, number
from ullage.service.calibration.replay import RequestTimes
from ullage.service.steps.step_model import StepModel
from ullage.service.steps.work import Floats


@dataclass(frozen=True, kw_only=True)
class SlowedTimes:
    """What an error of the step model by this ratio would do."""

    times: RequestTimes
    ratio: float

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return self.ratio * self.times.decode_s(sequences, kv_tokens)

    def prefill_s(self, tokens: Floats) -> Floats:
        return self.ratio * self.times.prefill_s(tokens)

    @property
    def pair_s(self) -> float:
        return self.ratio * self.times.pair_s

    @property
    def request_overhead_s(self) -> float:
        return self.ratio * self.times.request_overhead_s


def known_steps(step: StepModel, ratio: Assumption) -> StepModel:
    """The step model in a world in which every step is known to take so many times as long: nothing is left to err.

    No step is faster than the device's floor, whatever the ratio says.
    """
    times = SlowedTimes(times=step, ratio=number(ratio))
    return replace(
        step,
        kind=f"{step.kind}, as a scenario states it",
        times=times,
        evidence=Evidence.STATED,
        request_overhead_s=times.request_overhead_s,
        facts=(*step.facts, ratio),
        spread=None,
    )
