"""Small replicas to test step models with: a dense model, one with experts, and the rates of a made-up device."""

from __future__ import annotations

import datetime

from ullage.evidence import Source
from ullage.facts.model import (
    BF16,
    DenseFeedForward,
    GroupedAttention,
    Layer,
    LayerGroup,
    Model,
    MoeFeedForward,
)
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.steps.floor import Floor
from ullage.service.steps.roofline import Efficiencies, Rates, Roofline
from ullage.service.steps.work import replica_work

SOURCE = Source(what="a made-up model", where="tests", date=datetime.date(2026, 11, 15))
RATES = Rates(memory_bytes_per_s=3e12, compute_flops={"bf16": 1e15, "fp8": 2e15}, link_bytes_per_s=4e11)
EFFICIENCIES = Efficiencies(
    bandwidth_fraction=0.8,
    expert_bandwidth_fraction=0.75,
    kv_bandwidth_fraction=0.65,
    compute_fraction=0.6,
    narrow_compute_fraction=0.6,
    fp4_compute_fraction=0.5,
    block_compute_fraction=0.8,
    expert_compute_fraction=0.4,
    attention_compute_fraction=0.4,
    link_fraction=0.5,
    collective_latency_s=9e-6,
    step_overhead_s=6e-4,
    kernel_overhead_s=4e-6,
    sequence_overhead_s=6e-6,
    prefill_kernel_overhead_s=2e-5,
    request_overhead_s=0.02,
)


def small_model(*, experts: int = 0, window_tokens: int | None = None) -> Model:
    attention = GroupedAttention(
        query_heads=32, kv_heads=8, key_channels=128, value_channels=128, window_tokens=window_tokens
    )
    dense = DenseFeedForward(inner_channels=14336)
    moe = MoeFeedForward(
        routed_experts=max(experts, 1), experts_per_token=min(8, max(experts, 1)), expert_channels=1024
    )
    layer = Layer(mixers=(attention,), feed_forward=moe if experts else dense)
    return Model(
        name="small",
        architecture="Small",
        hidden_channels=4096,
        vocabulary_tokens=128_256,
        layers=(LayerGroup(layer=layer, layers=32),),
        max_context_tokens=131_072,
        tied_embeddings=False,
        base_format=BF16,
        embedding_format=BF16,
        head_format=BF16,
        sources=(SOURCE,),
    )


def roofline(model: Model | None = None, *, tp: int = 1, efficiencies: Efficiencies = EFFICIENCIES) -> Roofline:
    work = replica_work(model or small_model(), Sharding(tp=tp), kv_dtype("bf16"))
    return Roofline(work=work, rates=RATES, efficiencies=efficiencies)


def floor_of(times: Roofline) -> Floor:
    return Floor(work=times.work, rates=times.rates)
