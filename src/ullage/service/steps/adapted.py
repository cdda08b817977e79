"""Step times with adapters (LoRA): two small products beside each large one, for every token of a step.

They cost launches and reads more than arithmetic, so the slow-down is an assumption with a range and no roofline. It
is of all that a step does but reading keys and values.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.evidence import Evidence
from ullage.memory.settings import Runtime
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import StepModel


def with_adapters(step: StepModel, runtime: Runtime) -> StepModel:
    """The step model of an engine that applies adapters; the same model where it has none."""
    given = runtime.settings.adapters
    if given is None:
        return step
    ratio = 1.0 + float(given.slowdown.value)
    factors = Factors(fixed_ratio=ratio, sequences_ratio=ratio, prefill_ratio=ratio)
    return replace(
        step,
        kind=f"{step.kind} with adapters",
        times=ScaledStep(times=step, factors=factors, is_hidden=False),
        evidence=max(step.evidence, Evidence.ESTIMATED, key=lambda each: each.rank),
        facts=(*step.facts, given.slowdown),
        notes=(*step.notes, _note(given.slots, ratio - 1.0)),
    )


def _note(slots: int, slowdown_fraction: float) -> str:
    return (
        f"Adapters ({slots} slots) are assumed to slow a step by {slowdown_fraction:.0%}; a load test with them on "
        "would measure it. Every adapter in use is assumed to have a slot."
    )
