"""Adapters (LoRA): memory that an engine sets aside for a number of slots, and what they slow a step down by.

The memory is set aside whether slots are filled or not.

Beside a matrix from `in` to `out` an adapter of rank r has r x in and r x out values. Under tensor
parallelism the side that the matrix is sharded along is sharded with it, and the other is whole on every device:

    queries, keys, values, gate, up     in whole, out sharded
    attention output, down              in sharded, out whole
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.model import (
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Mixer,
    Model,
    MoeFeedForward,
)
from ullage.memory.sharding import Sharding, stage_layers

TARGETS = ("attention", "feed-forward", "experts")
"""What adapters can be beside: attention's projections, dense and shared feed-forward blocks, routed experts."""

SLOWDOWN = Assumption(
    name="pool.adapters.slowdown",
    value=0.25,
    unit="fraction",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: throughput with adapters was published as 8 to 24 % lower (Llama-3.1-8B, vLLM pull "
        "request 15655) and, before its kernels were fused, as 34 % lower (Llama-2-7B on A100, 11267)",
        where="https://github.com/vllm-project/vllm/pull/15655",
        date=datetime.date(2025, 7, 18),
    ),
    low=0.05,
    high=0.5,
)
_VALUE_BYTES = 2
MOST_RANK = 1024


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """Slots for adapters of at most one rank, on these targets; `slowdown` is what they add to a step's computing."""

    slots: int
    rank_channels: int
    targets: tuple[str, ...] = ("attention", "feed-forward")
    slowdown: Assumption = SLOWDOWN

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InputError(
                field="adapters", value=self.slots, problem="is not a number of slots", fix="Give 1 or more."
            )
        if not 1 <= self.rank_channels <= MOST_RANK:
            raise InputError(
                field="adapter rank",
                value=self.rank_channels,
                problem="is not a rank",
                fix=f"Give a whole number from 1 to {MOST_RANK}.",
            )
        for target in self.targets:
            check_name(target, TARGETS, field="adapter targets")


def adapter_bytes(model: Model, sharding: Sharding, adapters: Adapters, *, stage: int = 0) -> int:
    """Bytes on one device of a pipeline stage for all slots."""
    channels = 0.0
    for group in stage_layers(model, sharding.pp)[stage]:
        if "attention" in adapters.targets:
            for mixer in group.layer.mixers:
                channels += group.layers * _sides(_attention(mixer, model, sharding))
        if group.layer.feed_forward is not None:
            blocks = _feed_forward(group.layer.feed_forward, model.hidden_channels, sharding, adapters.targets)
            channels += group.layers * _sides(blocks)
    return math.ceil(adapters.slots * adapters.rank_channels * channels * _VALUE_BYTES)


def _sides(matrices: Iterator[tuple[float, float]]) -> float:
    return sum(inside + outside for inside, outside in matrices)


def _attention(mixer: Mixer, model: Model, sharding: Sharding) -> Iterator[tuple[float, float]]:
    hidden, split = model.hidden_channels, sharding.attention_tp
    match mixer:
        case GroupedAttention():
            kv_heads = math.ceil(mixer.kv_heads / split)
            yield hidden, mixer.query_heads * mixer.key_channels / split
            yield hidden, kv_heads * mixer.key_channels
            if not mixer.shares_key_value:
                yield hidden, kv_heads * mixer.value_channels
            yield mixer.query_heads * mixer.value_channels / split, hidden
        case LatentAttention():
            queries = mixer.query_heads * (mixer.nope_channels + mixer.rope_channels) / split
            if mixer.query_latent_channels is not None:
                yield hidden, mixer.query_latent_channels
            yield mixer.query_latent_channels or hidden, queries
            yield hidden, mixer.latent_channels + mixer.rope_channels
            yield mixer.latent_channels, mixer.query_heads * (mixer.nope_channels + mixer.value_channels) / split
            yield mixer.query_heads * mixer.value_channels / split, hidden
        case _:
            raise InputError(
                field="adapter targets",
                value="attention",
                problem=f"adapters beside {type(mixer).__name__} layers are not described here",
                fix="Leave attention out of the targets, or take the adapters' bytes from an engine log.",
            )


def _feed_forward(
    block: FeedForward, hidden: int, sharding: Sharding, targets: tuple[str, ...]
) -> Iterator[tuple[float, float]]:
    match block:
        case DenseFeedForward() if "feed-forward" in targets:
            yield from _dense(hidden, block.inner_channels / sharding.attention_tp, gated=block.gated)
        case MoeFeedForward():
            beside = block.shared_channels + block.dense_channels
            if "feed-forward" in targets and beside:
                yield from _dense(hidden, beside / sharding.attention_tp, gated=block.gated)
            if "experts" in targets:
                inner = block.expert_channels / sharding.expert_tp
                for _ in range(math.ceil(block.routed_experts / sharding.ep)):
                    yield from _dense(block.latent_channels or hidden, inner, gated=block.gated)


def _dense(hidden: float, inner: float, *, gated: bool) -> Iterator[tuple[float, float]]:
    yield hidden, inner
    if gated:
        yield hidden, inner
    yield inner, hidden
