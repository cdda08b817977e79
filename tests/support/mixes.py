"""A small mix on a small replica: quick to simulate, with lengths, reuse and bursts to change."""

from __future__ import annotations

from support.served_replicas import batching_replica, class_with_slos
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.trial import Trial
from ullage.workload.classes import RequestClass
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel, ReuseModel, SyntheticModel
from ullage.workload.synthetic.modulation import Modulation

# The rate varies by a half of itself, over blocks of a quarter of a minute and of a whole one.
BURSTS = Modulation(variances=(0.0, 0.0, 0.1, 0.15, 0.0, 0.0))


def small_model(name: str = "chat", rate_rps: float = 10.0, bursts: Modulation | None = None) -> ClassModel:
    """Prompts up to 800 tokens, answers up to 60, half of a prompt cached."""
    return ClassModel(
        bursts=bursts or Modulation(),
        name=name,
        mean_rate_rps=rate_rps,
        lengths=LengthModel(
            prompt_tokens=tuple(8 + 792 * each for each in FRACTIONS),
            output_tokens=tuple(2 + 58 * each for each in FRACTIONS),
        ),
        reuse=ReuseModel(
            first_turn_fractions=(0.3, 0.7), later_turn_fractions=(0.3, 0.7), distance_blocks=(10.0, 1_000.0)
        ),
    )


def small_trial(
    *classes: RequestClass,
    replicas: int = 3,
    span_s: float = 60.0,
    cache_blocks: float = 2_000.0,
    bursts: Modulation | None = None,
    **changes: float,
) -> Trial:
    """Replicas that decode 16 sequences at about 13 ms, under the small mix."""
    slo_class = classes or (class_with_slos("chat", ttft_p95=0.5, tpot_p95=0.05),)
    mix = MixLoad(
        model=SyntheticModel(classes=tuple(small_model(each.name, bursts=bursts) for each in slo_class)),
        classes=slo_class,
        cache_blocks=cache_blocks,
    )
    return Trial(replica=batching_replica(**changes), load_at=mix, classes=slo_class, span_s=span_s, replicas=replicas)
