"""What one step asks of the busiest device: bytes to read, operations to do, messages to send.

    weights      every matrix once a step; of routed experts only those that some token is sent to: an expert that
                 a share p of tokens chooses is read with probability 1 - (1 - p)^b in a step of b tokens
    operations   2 x parameters for each token that passes a matrix
    KV cache     read once for each decoding sequence; at most a window where a layer has one
    pairs        a prefill compares each new token with all before it: 2 x heads x channels operations a pair and layer
    messages     two sums over the tensor-parallel devices in each layer

Work is a fact of model and sharding. Times come from dividing it by what a device does (`roofline`).
With pipeline stages a token passes all of them, one after the other, while other sequences are on the other stages:
so a step is the sum over the stages, at a `pp`-th of the sequences.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ullage.facts.model import (
    CompressedAttention,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Layer,
    Mixer,
    Model,
    MoeFeedForward,
    WeightFormat,
)
from ullage.memory.kv import KvDtype, device_cache
from ullage.memory.parameters import device_share
from ullage.memory.sharding import Sharding, check_sharding
from ullage.memory.tensors import Tensor, TensorClass, layer_tensors

Floats = NDArray[np.float64]

# Matrices whose inputs are brought to the same narrow format before every product, by kernels of their own.
_QUANTISED = ("fp8", "fp4", "int8")
ACTIVATION_BYTES = 2
"""Hidden states travel between devices in 16 bits, whatever the weights are stored in."""

ROUTING_SPREAD = 0.8
"""How unevenly experts are chosen: the spread of the logarithm of their popularity. One sigma is a factor of 2.2, as
published routing statistics have it within a layer; even routing would read nearly all experts at middling batches."""
_PARTS = 16


def _popularity() -> Floats:
    """How often experts are chosen, as multiples of the mean: the middles of equal parts of a log-normal law."""
    normal = NormalDist()
    spreads = [ROUTING_SPREAD * normal.inv_cdf((part + 0.5) / _PARTS) for part in range(_PARTS)]
    drawn = np.exp(np.array(spreads))
    popularity: Floats = drawn / drawn.mean()
    return popularity


_POPULARITY = _popularity()


@dataclass(frozen=True, kw_only=True)
class MatrixWork:
    """Matrices that are stored and multiplied alike.

    `flops_per_token` counts the tokens of the whole replica, so it is a `dp_attention`-th where groups of devices have
    tokens of their own. `experts` is 0 for a matrix that every token passes.
    """

    compute_dtype: str
    stored_bytes: float
    flops_per_token: float
    sampled_only: bool = False
    experts: int = 0
    experts_per_token: int = 0

    def read_bytes(self, tokens: Floats) -> Floats:
        """Bytes read in a step of this many tokens; a step of no tokens reads what one token would."""
        if not self.experts:
            return np.full_like(tokens, self.stored_bytes)
        chosen = np.minimum(self.experts_per_token / self.experts * _POPULARITY, 1.0)
        idle = (1.0 - chosen) ** np.maximum(tokens, 1.0)[..., None]
        read: Floats = self.stored_bytes * (1.0 - idle.mean(axis=-1))
        return read

    def flops(self, tokens: Floats) -> Floats:
        return self.flops_per_token * tokens


@dataclass(frozen=True, kw_only=True)
class AttentionWork:
    """Layers that look back equally far. `bound_tokens` is None where they look back to the start.

    All values are of one device: bytes and operations for one cached token of one of its sequences, and operations for
    one pair of a new token and a token it looks back to.
    """

    layers: int
    bound_tokens: int | None
    read_bytes_per_token: float
    decode_flops_per_token: float
    pair_flops: float

    def seen_tokens(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        """Cached tokens that this many sequences look at, when `kv_tokens` are spread evenly over them."""
        if self.bound_tokens is None:
            return kv_tokens
        return np.minimum(kv_tokens, sequences * self.bound_tokens)


@dataclass(frozen=True, kw_only=True)
class ReplicaWork:
    """All that a step of one replica asks of its busiest device."""

    sharding: Sharding
    layers: int
    kernels: int
    matrices: tuple[MatrixWork, ...]
    attention: tuple[AttentionWork, ...]
    state_bytes: float
    message_bytes_per_token: float
    messages: int

    @property
    def groups(self) -> int:
        """Sequences are spread over this many sets of devices, by data-parallel attention or by pipeline stages."""
        return self.sharding.dp_attention * self.sharding.pp


def replica_work(model: Model, sharding: Sharding, cache: KvDtype) -> ReplicaWork:
    """Count the work of a model under a sharding, with its KV cache stored in this dtype."""
    check_sharding(model, sharding)
    flat = Sharding(tp=sharding.tp, ep=sharding.ep, dp_attention=sharding.dp_attention)
    (cost,) = device_cache(model, flat, cache)
    halves = sum(
        group.layers * (bool(group.layer.mixers) + (group.layer.feed_forward is not None)) for group in model.layers
    )
    return ReplicaWork(
        sharding=sharding,
        layers=model.layer_count,
        kernels=sum(group.layers * _kernels(group.layer) for group in model.layers),
        matrices=tuple(_matrices(model, flat)),
        attention=tuple(_attention(model, flat, cache)),
        state_bytes=2.0 * cost.state_bytes,
        message_bytes_per_token=float(model.hidden_channels * ACTIVATION_BYTES),
        messages=halves if sharding.tp > 1 else 0,
    )


def _kernels(layer: Layer) -> int:
    """Kernels that an engine launches for a layer, about: each starts and ends once a step, however small the batch.

    Grouped attention: norm, projection, rotation, cache write, attention, output. Latent attention projects twice
    down and twice up around it. Experts: norm, router, choice, sorting, two matrices with an activation, and the way
    back; three more where their inputs are quantised; shared experts run beside them.
    """
    mixers = sum(12 if isinstance(each, LatentAttention | CompressedAttention) else 6 for each in layer.mixers)
    match layer.feed_forward:
        case MoeFeedForward() as moe:
            quantised = _compute_dtype(layer.formats.routed) in _QUANTISED
            return mixers + 7 + (3 if quantised else 0) + (4 if moe.shared_channels or moe.dense_channels else 0)
        case None:
            return mixers
        case _:
            return mixers + 4


def _matrices(model: Model, sharding: Sharding) -> Iterator[MatrixWork]:
    """One line for each way of storing, multiplying and routing; the embedding is a look-up and no work."""
    stored: dict[tuple[str, int, int], float] = defaultdict(float)
    flops: dict[tuple[str, int, int], float] = defaultdict(float)
    for group in model.layers:
        moe = group.layer.feed_forward if isinstance(group.layer.feed_forward, MoeFeedForward) else None
        for tensor in layer_tensors(group.layer, model.hidden_channels):
            routed = tensor.tensor_class is TensorClass.ROUTED and moe is not None
            key = (
                _compute_dtype(tensor.format),
                moe.routed_experts if routed and moe is not None else 0,
                moe.experts_per_token if routed and moe is not None else 0,
            )
            share = float(device_share(tensor, sharding))
            stored[key] += group.layers * share * tensor.format.stored_bytes(tensor.parameters)
            flops[key] += (
                group.layers * 2.0 * tensor.parameters * tensor.active_fraction * _token_share(tensor, share, sharding)
            )
    for (dtype, experts, each), size in stored.items():
        yield MatrixWork(
            compute_dtype=dtype,
            stored_bytes=size,
            flops_per_token=flops[dtype, experts, each],
            experts=experts,
            experts_per_token=each,
        )
    head = model.embedding_format if model.tied_embeddings else model.head_format
    parameters = model.vocabulary_tokens * model.hidden_channels
    share = 1.0 / sharding.attention_tp
    yield MatrixWork(
        compute_dtype=_compute_dtype(head),
        stored_bytes=share * head.stored_bytes(parameters),
        flops_per_token=2.0 * parameters * share / sharding.dp_attention,
        sampled_only=True,
    )


def _compute_dtype(form: WeightFormat) -> str:
    """MXFP4 weights have no rate of their own: devices with fp4 units multiply them as fp8, others in 16 bits."""
    return form.name if form.name == "mxfp4" else form.compute_dtype


def _token_share(tensor: Tensor, share: float, sharding: Sharding) -> float:
    """The part of the replica's operations in this tensor that one device does.

    Experts are spread over all devices and see all tokens; everything else sees the tokens of its attention group.
    """
    if tensor.tensor_class is TensorClass.ROUTED:
        return float(Fraction(1, sharding.tp))
    return share / sharding.dp_attention


def _attention(model: Model, sharding: Sharding, cache: KvDtype) -> Iterator[AttentionWork]:
    """Layers with the same bound together, the unbounded first."""
    layers: dict[int, int] = defaultdict(int)
    read: dict[int, float] = defaultdict(float)
    decode: dict[int, float] = defaultdict(float)
    pair: dict[int, float] = defaultdict(float)
    for group in model.layers:
        for mixer in group.layer.mixers:
            for bound, read_bytes, decode_flops, pair_flops in _looks(mixer, sharding.attention_tp, cache):
                layers[bound] += group.layers
                read[bound] += group.layers * read_bytes
                decode[bound] += group.layers * decode_flops
                pair[bound] += group.layers * pair_flops
    for bound in sorted(layers):
        yield AttentionWork(
            layers=layers[bound],
            bound_tokens=bound or None,
            read_bytes_per_token=read[bound],
            decode_flops_per_token=decode[bound],
            pair_flops=pair[bound],
        )


def _looks(mixer: Mixer, split: int, cache: KvDtype) -> Iterable[tuple[int, float, float, float]]:
    """(bound or 0, bytes read, operations when decoding, operations in a prefill) for a token a mixer looks at."""
    match mixer:
        case GroupedAttention():
            heads = math.ceil(mixer.kv_heads / split)
            channels = mixer.key_channels + (0 if mixer.shares_key_value else mixer.value_channels)
            pair = 2.0 * mixer.query_heads / split * (mixer.key_channels + mixer.value_channels)
            yield mixer.bound_tokens or _top(mixer.indexer), heads * channels * cache.value_bytes, pair, pair
        case LatentAttention():
            # Decoding multiplies the latent itself with absorbed matrices; a prefill expands it, which is cheaper.
            width = mixer.latent_channels + mixer.rope_channels
            pair = 2.0 * mixer.query_heads / split * (mixer.nope_channels + mixer.rope_channels + mixer.value_channels)
            absorbed = 2.0 * mixer.query_heads / split * (width + mixer.latent_channels)
            yield _top(mixer.indexer), width * cache.value_bytes, absorbed, pair
        case CompressedAttention():
            pair = 4.0 * mixer.query_heads / split * mixer.head_channels
            yield mixer.window_tokens, mixer.head_channels * cache.value_bytes, pair, pair
            if mixer.tokens_per_entry is not None:
                each = 1.0 / mixer.tokens_per_entry
                yield 0, mixer.head_channels * cache.value_bytes * each, pair * each, pair * each
        case _:
            return
    if mixer.indexer is not None:
        scorer = mixer.indexer
        each = 1.0 / scorer.tokens_per_key
        scored = 2.0 * scorer.heads * scorer.key_channels * each
        yield 0, scorer.key_channels * each, scored, scored


def _top(indexer: Indexer | None) -> int:
    return 0 if indexer is None else indexer.top_tokens
