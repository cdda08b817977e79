"""Small replicas and loads whose answers are known, for tests of curves and points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ullage.evidence import Evidence
from ullage.service.replica import Replica
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.trial.bases import Bases, bases_of
from ullage.service.trial.decide import Effort
from ullage.service.trial.mix import LoadAt, simulated_class
from ullage.service.trial.trial import Trial
from ullage.simulate.engine import Engine, StepTable
from ullage.simulate.load import OpenLoop, Requests
from ullage.workload.classes import Metric, RequestClass, Slo

# A decision of a few windows: enough for laws, too little for a purchase.
QUICK = Effort(most_windows=8, first_fraction=0.4)


@dataclass(frozen=True, kw_only=True)
class PoissonLoad:
    """One class of equal requests, by a Poisson process: the k-th gap is the same draw at every rate."""

    classes: tuple[RequestClass, ...]
    prompt_tokens: int = 200
    output_tokens: int = 20

    def __call__(self, *, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
        rng = np.random.default_rng(seed)
        most = int(rate_rps * span_s + 8 * np.sqrt(rate_rps * span_s) + 16)
        arrival_s = np.cumsum(rng.exponential(1.0, most)) / rate_rps
        kept = max(1, int(np.searchsorted(arrival_s, span_s)))
        classes = tuple(simulated_class(each) for each in self.classes)
        return OpenLoop(
            requests=Requests(
                prompt_tokens=np.full(kept, self.prompt_tokens, np.int32),
                output_tokens=np.full(kept, self.output_tokens, np.int32),
                classes=classes,
                class_of=(np.arange(kept) % len(classes)).astype(np.int16),
            ),
            arrival_s=arrival_s[:kept],
        )


def class_with_slos(name: str = "chat", **limits_s: float) -> RequestClass:
    """A class by its limits: SLO("chat", ttft_p95=0.5)."""
    slos = []
    for key, limit_s in limits_s.items():
        metric, _, percentile = key.partition("_p")
        slos.append(Slo(metric=Metric(metric), percentile_fraction=float(percentile) / 100, limit_s=limit_s))
    return RequestClass(name=name, slos=tuple(slos))


def batching_replica(**changes: float) -> Replica:
    """A replica that decodes up to 16 sequences at 10 ms and a little more for each."""
    given = {"step_s": 0.01, "sequence_s": 2e-4, "prefill_token_s": 2e-5, "kv_blocks": 2_000, **changes}
    step = StepTable.affine(
        step_s=given["step_s"],
        sequence_s=given["sequence_s"],
        prefill_token_s=given["prefill_token_s"],
        max_sequences=16,
    )
    engine = Engine(
        step=step,
        kv_blocks=int(given["kv_blocks"]),
        max_sequences=16,
        budget_tokens=512,
        request_overhead_s=given.get("request_overhead_s", 0.0),
    )
    return Replica(engine=engine, devices=2)


def single_server(service_s: float) -> Replica:
    """One request at a time, each exactly one step of `service_s`: the server of an M/D/1 queue."""
    step = StepTable.affine(step_s=service_s, max_sequences=1)
    return Replica(engine=Engine(step=step, kv_blocks=1_000, max_sequences=1, budget_tokens=256))


def poisson_trial(
    *classes: RequestClass, replica: Replica | None = None, load_at: LoadAt | None = None, span_s: float = 60.0
) -> Trial:
    """One small replica under equal requests, in windows of a minute."""
    held = classes or (class_with_slos(ttft_p95=0.3, tpot_p95=0.02),)
    return Trial(
        replica=replica or batching_replica(),
        load_at=load_at or PoissonLoad(classes=held),
        classes=held,
        span_s=span_s,
    )


def short_bases(trial: Trial, evidence: Evidence = Evidence.STATED, *, seed: int = 3) -> Bases:
    """Both step bases of a trial, in windows as short as its own: those of a plan take 1024 s."""
    found = bases_of(trial, DEFAULT_BANDS[evidence], seed=seed)
    return replace(
        found,
        nominal=replace(found.nominal, span_s=trial.span_s),
        conservative=replace(found.conservative, span_s=trial.span_s),
    )
