"""The weight tensors of one layer: how many parameters, of which class, and how they can be sharded.

Matrices are counted exactly from the layer's shape; so are biases and norms where the model states them.
Each formula follows the model's published implementation; docs/explanation/model-configs.md names them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from ullage.facts.model import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Layer,
    LinearAttention,
    LinearKind,
    Mixer,
    MoeFeedForward,
    ShortConvolution,
    StateSpace,
    WeightFormat,
)


class TensorClass(enum.Enum):
    """What a weight is for; the lines of a memory budget."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    DENSE = "dense feed-forward"
    ROUTED = "routed experts"
    SHARED = "shared experts"
    ROUTER = "router"
    NORM = "norms"
    HEAD = "lm head"
    MTP = "mtp"
    DRAFT = "draft model"
    VISION = "vision"


class Split(enum.Enum):
    """Along what a tensor is sharded: heads and inner widths, key-value heads, whole experts, or not at all."""

    HEADS = "heads"
    KV_HEADS = "key-value heads"
    EXPERTS = "experts"
    NOT = "replicated"


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """Weights that are stored and sharded alike. `units` are the smallest pieces of a shard (heads, experts)."""

    tensor_class: TensorClass
    parameters: int
    format: WeightFormat
    split: Split = Split.NOT
    units: int = 1
    active_fraction: float = 1.0


def layer_tensors(layer: Layer, hidden_channels: int) -> Iterator[Tensor]:
    """All weights of a layer."""
    for mixer in layer.mixers:
        yield from _mixer_tensors(mixer, layer, hidden_channels)
    match layer.feed_forward:
        case DenseFeedForward() as dense:
            matrices = _feed_forward(hidden_channels, dense.inner_channels, gated=dense.gated, bias=dense.bias)
            yield Tensor(
                tensor_class=TensorClass.DENSE, parameters=matrices, format=layer.formats.dense, split=Split.HEADS
            )
        case MoeFeedForward() as moe:
            yield from _moe_tensors(moe, layer, hidden_channels)
        case None:
            pass
    small = layer.norms * hidden_channels + layer.other_parameters
    yield Tensor(tensor_class=TensorClass.NORM, parameters=small, format=layer.formats.other)


def _mixer_tensors(mixer: Mixer, layer: Layer, hidden: int) -> Iterator[Tensor]:
    match mixer:
        case GroupedAttention():
            yield from _grouped(mixer, layer, hidden)
        case LatentAttention():
            yield from _latent(mixer, layer, hidden)
        case CompressedAttention():
            yield from _compressed(mixer, layer, hidden)
        case LinearAttention():
            yield from _linear(mixer, layer, hidden)
        case StateSpace():
            yield from _state_space(mixer, layer, hidden)
        case ShortConvolution():
            inner = mixer.channels
            yield _into(layer, 3 * hidden * inner)
            yield _small(layer, inner * mixer.conv_taps)
            yield _out(layer, inner * hidden)
        case _:
            assert_never(mixer)


def _grouped(mixer: GroupedAttention, layer: Layer, hidden: int) -> Iterator[Tensor]:
    query = mixer.query_heads * mixer.key_channels
    key = 0 if mixer.reuses_cache else mixer.kv_heads * mixer.key_channels
    value = 0 if mixer.reuses_cache or mixer.shares_key_value else mixer.kv_heads * mixer.value_channels
    output = mixer.query_heads * mixer.value_channels
    yield _into(layer, hidden * (query + mixer.output_gate_channels))
    yield _into(layer, hidden * (key + value), split=Split.KV_HEADS, units=mixer.kv_heads)
    yield _out(layer, output * hidden)
    biases = (query + key + value if mixer.qkv_bias else 0) + (hidden if mixer.output_bias else 0)
    yield _small(layer, biases + mixer.sinks + mixer.qk_norm_channels)
    if mixer.indexer is not None:
        heads = mixer.indexer.heads + 1
        yield _indexing(layer, hidden * heads * mixer.indexer.key_channels + 2 * mixer.indexer.key_channels)


def _latent(mixer: LatentAttention, layer: Layer, hidden: int) -> Iterator[Tensor]:
    query = mixer.query_heads * (mixer.nope_channels + mixer.rope_channels)
    rank = mixer.query_latent_channels
    if rank is None:
        yield _into(layer, hidden * query)
    else:
        yield _into(layer, hidden * rank, split=Split.NOT)
        yield _into(layer, rank * query)
    yield _into(layer, hidden * (mixer.latent_channels + mixer.rope_channels), split=Split.NOT)
    yield _into(layer, mixer.latent_channels * mixer.query_heads * (mixer.nope_channels + mixer.value_channels))
    if mixer.output_gate_channels:
        yield _into(layer, hidden * mixer.output_gate_channels)
    yield _out(layer, mixer.query_heads * mixer.value_channels * hidden)
    yield _small(layer, (rank or 0) + mixer.latent_channels)
    if mixer.indexer is not None:
        yield _indexing(layer, _token_indexer(mixer.indexer, rank or hidden, hidden))


def _token_indexer(indexer: Indexer, query_channels: int, hidden: int) -> int:
    """Queries from the query latent, one key per token with its norm, and a weight per head."""
    width = indexer.key_channels
    return query_channels * indexer.heads * width + hidden * width + 2 * width + hidden * indexer.heads


def _compressed(mixer: CompressedAttention, layer: Layer, hidden: int) -> Iterator[Tensor]:
    query = mixer.query_heads * mixer.head_channels
    yield _into(layer, hidden * (mixer.query_latent_channels + mixer.head_channels), split=Split.NOT)
    yield _into(layer, mixer.query_latent_channels * query)
    yield _out(layer, query * mixer.output_latent_channels)
    yield _out(layer, mixer.output_groups * mixer.output_latent_channels * hidden)
    yield _small(layer, mixer.query_latent_channels + mixer.head_channels + mixer.query_heads)
    if mixer.tokens_per_entry is not None:
        yield _small(layer, _compressor(mixer, mixer.head_channels, hidden))
    if mixer.indexer is not None:
        queries = mixer.query_latent_channels * mixer.indexer.heads * mixer.indexer.key_channels
        yield _indexing(layer, queries)
        weights = hidden * mixer.indexer.heads + _compressor(mixer, mixer.indexer.key_channels, hidden)
        yield _small(layer, weights)


def _compressor(mixer: CompressedAttention, width: int, hidden: int) -> int:
    """Projections of value and gate, a bias per position in an entry, a norm; twice as wide where entries overlap."""
    series = 2 if mixer.overlapping_entries else 1
    return 2 * hidden * series * width + (mixer.tokens_per_entry or 0) * series * width + width


def _linear(mixer: LinearAttention, layer: Layer, hidden: int) -> Iterator[Tensor]:
    key = mixer.key_heads * mixer.key_channels
    value = mixer.value_heads * mixer.value_channels
    conv = (2 * key + value) * mixer.conv_taps
    match mixer.kind:
        case LinearKind.GATED_DELTA:
            yield _into(layer, hidden * (2 * key + 2 * value + 2 * mixer.value_heads))
            yield _small(layer, conv + 2 * mixer.value_heads + mixer.value_channels)
        case LinearKind.KDA:
            rank = mixer.gate_rank_channels
            decay = rank * (hidden + key)
            gate = hidden * value if mixer.full_rank_gate else rank * (hidden + value)
            yield _into(layer, hidden * (2 * key + value + mixer.value_heads) + decay + gate)
            yield _small(layer, conv + mixer.value_heads + key + mixer.value_channels)
        case LinearKind.LIGHTNING:
            yield _into(layer, hidden * (2 * key + 2 * value))
            yield _small(layer, conv + value)
        case _:
            assert_never(mixer.kind)
    yield _out(layer, value * hidden)


def _state_space(mixer: StateSpace, layer: Layer, hidden: int) -> Iterator[Tensor]:
    inner = mixer.inner_channels
    if mixer.step_rank_channels is None:  # Mamba-2
        mixed = 2 * mixer.groups * mixer.state_channels
        yield _into(layer, hidden * (2 * inner + mixer.heads))
        yield _into(layer, hidden * mixed, split=Split.KV_HEADS, units=mixer.groups)
        norm = inner if mixer.gated_norm else 0
        yield _small(layer, (inner + mixed) * (mixer.conv_taps + 1) + 3 * mixer.heads + norm)
    else:  # Mamba-1
        rank = mixer.step_rank_channels
        yield _into(layer, 2 * hidden * inner + inner * (rank + 2 * mixer.state_channels) + rank * inner)
        yield _small(layer, inner * (mixer.conv_taps + 1) + inner * (mixer.state_channels + 2))
    yield _out(layer, inner * hidden)


def _moe_tensors(moe: MoeFeedForward, layer: Layer, hidden: int) -> Iterator[Tensor]:
    width = moe.latent_channels or hidden
    expert = _feed_forward(width, moe.expert_channels, gated=moe.gated, bias=moe.bias)
    yield Tensor(
        tensor_class=TensorClass.ROUTED,
        parameters=moe.routed_experts * expert,
        format=layer.formats.routed,
        split=Split.EXPERTS,
        units=moe.routed_experts,
        active_fraction=moe.experts_per_token / moe.routed_experts,
    )
    shared = _feed_forward(hidden, moe.shared_channels, gated=moe.gated, bias=moe.bias) if moe.shared_channels else 0
    yield Tensor(tensor_class=TensorClass.SHARED, parameters=shared, format=layer.formats.shared, split=Split.HEADS)
    latent = 2 * hidden * moe.latent_channels if moe.latent_channels else 0
    yield Tensor(tensor_class=TensorClass.SHARED, parameters=latent, format=layer.formats.shared)
    dense = _feed_forward(hidden, moe.dense_channels, gated=moe.gated, bias=moe.bias) if moe.dense_channels else 0
    yield Tensor(tensor_class=TensorClass.DENSE, parameters=dense, format=layer.formats.dense, split=Split.HEADS)
    router = moe.routed_experts * (hidden + (1 if moe.router_bias else 0)) + (hidden if moe.shared_gate else 0)
    yield Tensor(tensor_class=TensorClass.ROUTER, parameters=router, format=layer.formats.other)


def _feed_forward(width: int, inner: int, *, gated: bool, bias: bool) -> int:
    inputs = 2 if gated else 1
    return (inputs + 1) * width * inner + (inputs * inner + width if bias else 0)


def _into(layer: Layer, parameters: int, *, split: Split = Split.HEADS, units: int = 1) -> Tensor:
    return Tensor(
        tensor_class=TensorClass.ATTENTION,
        parameters=parameters,
        format=layer.formats.attention_in,
        split=split,
        units=units,
    )


def _out(layer: Layer, parameters: int) -> Tensor:
    return Tensor(
        tensor_class=TensorClass.ATTENTION,
        parameters=parameters,
        format=layer.formats.attention_out,
        split=Split.HEADS,
    )


def _indexing(layer: Layer, parameters: int) -> Tensor:
    return Tensor(tensor_class=TensorClass.ATTENTION, parameters=parameters, format=layer.formats.indexer)


def _small(layer: Layer, parameters: int) -> Tensor:
    """Biases, norms, convolutions, gates: never quantised; engines keep some of them whole on every device."""
    return Tensor(tensor_class=TensorClass.ATTENTION, parameters=parameters, format=layer.formats.other)
