"""Adapters (LoRA): memory that an engine sets aside for a number of slots, whether they are filled or not.

Beside a matrix from `in` to `out` an adapter of rank r has r x in and r x out values. Under tensor
parallelism the side that the matrix is sharded along is sharded with it, and the other is whole on every device:

    queries, keys, values, gate, up     in whole, out sharded
    attention output, down              in sharded, out whole
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ullage.errors import InputError, unknown_name
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

_VALUE_BYTES = 2
_MOST_RANK = 1024


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """Slots for adapters of at most one rank, on these targets."""

    slots: int
    rank_channels: int
    targets: tuple[str, ...] = ("attention", "feed-forward")

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InputError(
                field="adapters", value=self.slots, problem="is not a number of slots", fix="Give 1 or more."
            )
        if not 1 <= self.rank_channels <= _MOST_RANK:
            raise InputError(
                field="adapter rank",
                value=self.rank_channels,
                problem="is not a rank",
                fix=f"Give a whole number from 1 to {_MOST_RANK}.",
            )
        for target in self.targets:
            if target not in TARGETS:
                raise unknown_name(field="adapter targets", name=target, known=TARGETS)


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
