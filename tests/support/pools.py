"""A pool of a real model on a real device under a mix of one's choice, with every stage's own value."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass, replace

from support.served_replicas import class_with_slos, short_bases
from ullage.evidence import Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.service.stage import replica_of
from ullage.service.steps.step_model import StepModel, replica_step
from ullage.service.trial.bases import Bases
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.trial import Trial
from ullage.workload.classes import RequestClass
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel, SyntheticModel

SOURCE = Source(what="a made-up pool", where="tests", date=datetime.date(2026, 11, 15))


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The step model and memory of llama-3.1-8b on one H100, and a trial of so many replicas."""

    step: StepModel
    memory: MemoryBudget
    trial: Trial

    def bases(self, evidence: Evidence = Evidence.STATED, *, seed: int = 5) -> Bases:
        return short_bases(self.trial, evidence, seed=seed)


@functools.cache
def _llama() -> tuple[StepModel, MemoryBudget]:
    model, device = find_model("llama-3.1-8b"), find_device("h100-sxm")
    settings = RuntimeSettings(
        source=SOURCE, evidence=Evidence.STATED, engine="vllm", max_sequences=256, max_context_tokens=16384
    )
    memory = memory_budget(model, device, settings)
    assert isinstance(memory, MemoryBudget)
    return replica_step(model, device, memory.runtime), memory


def pool(
    prompt_tokens: int,
    output_tokens: int,
    *classes: RequestClass,
    replicas: int = 2,
    span_s: float = 120.0,
    kv_blocks: int | None = None,
    max_sequences: int | None = None,
) -> Pool:
    """Prompts and answers up to twice these lengths, half of them at least half as long."""
    step, memory = _llama()
    slo_class = classes or (class_with_slos("chat", ttft_p95=2.0, tpot_p95=0.1),)
    replica = replica_of(step, memory)
    engine = replace(
        replica.engine,
        kv_blocks=kv_blocks or replica.engine.kv_blocks,
        max_sequences=max_sequences or replica.engine.max_sequences,
    )
    models = tuple(
        ClassModel(
            name=each.name,
            mean_rate_rps=1.0,
            lengths=LengthModel(
                prompt_tokens=tuple(max(2.0, 2 * prompt_tokens * at) for at in FRACTIONS),
                output_tokens=tuple(max(2.0, 2 * output_tokens * at) for at in FRACTIONS),
            ),
        )
        for each in slo_class
    )
    trial = Trial(
        replica=replace(replica, engine=engine),
        load_at=MixLoad(model=SyntheticModel(classes=models), classes=slo_class),
        classes=slo_class,
        span_s=span_s,
        replicas=replicas,
    )
    return Pool(step=step, memory=memory, trial=trial)
