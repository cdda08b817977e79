"""The work of one step on the busiest device: bytes to read, operations, messages.

    weights      every matrix once a step; of routed experts only those that some token is sent to: an expert that
                 a share p of tokens chooses is read with probability 1 - (1 - p)^b in a step of b tokens
    operations   2 x parameters for each token that passes a matrix; rows of experts are filled up to tiles
    activations  what norms, activations and the way to experts and back read and write between the matrices
    KV cache     read once for each decoding sequence; at most a window where a layer has one
    pairs        a prefill compares each new token with all before it: 2 x heads x channels operations a pair and layer
    collectives  sums over the tensor-parallel devices in each half of a layer; under data-parallel attention tokens
                 travel to their experts and back instead
    imbalance    with whole experts on each group of devices, the group that more tokens choose decides

Work is a fact of model and sharding. Times come from dividing it by what a device does (`roofline`).
With pipeline stages a token passes all of them, one after the other, while other sequences are on the other stages:
so a step is the sum over the stages, at a `pp`-th of the sequences.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ullage.facts.model import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Layer,
    LinearAttention,
    Mixer,
    Model,
    MoeFeedForward,
    ShortConvolution,
    StateSpace,
    WeightFormat,
)
from ullage.memory.kv import KvDtype, device_cache
from ullage.memory.parameters import device_share
from ullage.memory.sharding import Sharding, check_sharding
from ullage.memory.tensors import Tensor, TensorClass, layer_tensors

Floats = NDArray[np.float64]

# Matrices whose inputs are brought to the same narrow format before every product, by kernels of their own.
_QUANTISED = ("fp8", "fp4", "int8")
BLOCK_SCALED = "-block"
"""Marks products whose weights and inputs have a scale for every small block."""
ACTIVATION_BYTES = 2
"""Hidden states travel between devices in 16 bits, whatever the weights are stored in."""

ROUTING_SPREAD = 1.1
"""How unevenly experts are chosen: the spread of the logarithm of their popularity. One sigma is a factor of 3.0, as
published routing statistics have it within a layer; even routing would read nearly all experts at middling batches."""
_PARTS = 16
LOAD_SPREAD = 0.5
"""How unevenly the tokens of a large batch are spread over experts, as a share of the mean: routers are trained to even
that out, however much a few tokens at a time agree."""
TILE_ROWS = 64
"""Kernels multiply rows of an expert in tiles; the last one of each expert is half empty in the mean."""


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
    tokens of their own. `experts` is 0 for a matrix that every token passes. `expert_groups` are the groups of devices
    that hold whole experts, each its own; `stored_bytes` and `flops_per_token` are then the mean over them.
    """

    compute_dtype: str
    stored_bytes: float
    flops_per_token: float
    sampled_only: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_groups: int = 1

    def read_bytes(self, tokens: Floats) -> Floats:
        """Bytes that the busiest device reads in a step of this many tokens; of no tokens, what one would."""
        if not self.experts:
            return np.full_like(tokens, self.stored_bytes)
        return self.stored_bytes * self._chosen_fraction(tokens)

    def _chosen_fraction(self, tokens: Floats) -> Floats:
        """The part of its experts that the busiest group of devices reads."""
        idle = self._idle(tokens)
        mean = self._even_fraction(tokens)
        # The group with most experts to read decides: so many deviations above the mean as the largest of them lies.
        own = self.experts / self.expert_groups
        deviation = np.sqrt((idle * (1.0 - idle)).mean(axis=-1) / own)
        chosen: Floats = np.minimum(1.0, mean + _largest(self.expert_groups) * deviation)
        return chosen

    def even_bytes(self, tokens: Floats) -> Floats:
        """The same where every group of devices had as many chosen experts as the others: never more."""
        if not self.experts:
            return np.full_like(tokens, self.stored_bytes)
        return self.stored_bytes * self._even_fraction(tokens)

    def _even_fraction(self, tokens: Floats) -> Floats:
        """The part of all experts that some token chooses; one token chooses its number of them."""
        even: Floats = np.maximum(1.0 - self._idle(tokens).mean(axis=-1), self.experts_per_token / self.experts)
        return even

    def flops(self, tokens: Floats) -> Floats:
        """Operations on this many tokens; experts fill the last tile of their rows with nothing, and the group that
        most tokens choose decides."""
        if not self.experts:
            return self.flops_per_token * tokens
        touched = self.experts * self._even_fraction(tokens)
        rows = self.experts_per_token * tokens + np.where(tokens > 0.0, touched * TILE_ROWS / 2.0, 0.0)
        spread = LOAD_SPREAD * math.sqrt(self.expert_groups / self.experts)
        busiest = min(float(self.expert_groups), 1.0 + _largest(self.expert_groups) * spread)
        flops: Floats = self.flops_per_token / self.experts_per_token * rows * busiest
        return flops

    def _idle(self, tokens: Floats) -> Floats:
        """The chance that an expert is chosen by none, by how popular it is."""
        chosen = np.minimum(self.experts_per_token / self.experts * _POPULARITY, 1.0)
        idle: Floats = (1.0 - chosen) ** np.maximum(tokens, 1.0)[..., None]
        return idle


def _largest(count: int) -> float:
    """How many deviations above the mean the largest of so many normal values lies, by Blom's approximation."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0


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
class CollectiveWork:
    """Messages of one kind: how many in a step, and the bytes each sends over a device's link for every token of the
    replica, in each direction."""

    count: int
    sent_bytes_per_token: float


@dataclass(frozen=True, kw_only=True)
class ReplicaWork:
    """The work of a step of one replica on its busiest device."""

    sharding: Sharding
    layers: int
    kernels: int
    matrices: tuple[MatrixWork, ...]
    attention: tuple[AttentionWork, ...]
    state_bytes: float
    activation_bytes_per_token: float
    collectives: tuple[CollectiveWork, ...]

    @property
    def groups(self) -> int:
        """Sequences are spread over this many sets of devices, by data-parallel attention or by pipeline stages."""
        return self.sharding.dp_attention * self.sharding.pp


def replica_work(model: Model, sharding: Sharding, cache: KvDtype) -> ReplicaWork:
    """Count the work of a model under a sharding, with its KV cache stored in this dtype."""
    check_sharding(model, sharding)
    flat = Sharding(tp=sharding.tp, ep=sharding.ep, dp_attention=sharding.dp_attention)
    (cost,) = device_cache(model, flat, cache)
    return ReplicaWork(
        sharding=sharding,
        layers=model.layer_count,
        kernels=sum(group.layers * _kernels(group.layer) for group in model.layers),
        matrices=tuple(_matrices(model, flat)),
        attention=tuple(_attention(model, flat, cache)),
        state_bytes=2.0 * cost.state_bytes,
        activation_bytes_per_token=sum(
            group.layers * _activation_values(group.layer, model.hidden_channels, flat) for group in model.layers
        )
        * ACTIVATION_BYTES,
        collectives=tuple(_collectives(model, flat)),
    )


def _collectives(model: Model, sharding: Sharding) -> Iterator[CollectiveWork]:
    """Sums over the devices that share a matrix, after each mixer and each feed-forward.

    A sum over d devices sends 2 (d - 1) / d of its bytes. Where attention groups have tokens of their own, these are
    gathered before experts and scattered after them, or sent only to the devices of the experts they chose if that is
    less: two messages in place of one sum.
    """
    hidden = float(model.hidden_channels * ACTIVATION_BYTES)
    dp, shared = sharding.dp_attention, sharding.attention_tp
    routed = [group for group in model.layers if isinstance(group.layer.feed_forward, MoeFeedForward)]
    apart = dp > 1
    halves = sum(
        group.layers
        * (bool(group.layer.mixers) + (group.layer.feed_forward is not None and not (apart and group in routed)))
        for group in model.layers
    )
    norms = sum(group.layers * sum(_norm_spans_heads(mixer) for mixer in group.layer.mixers) for group in model.layers)
    if shared > 1 and norms:
        # Two sums of squares for each token.
        yield CollectiveWork(count=norms, sent_bytes_per_token=2.0 * (shared - 1) / shared * 8.0 / dp)
    if shared > 1:
        yield CollectiveWork(count=halves, sent_bytes_per_token=2.0 * (shared - 1) / shared * hidden / dp)
    if not apart:
        return
    for group in routed:
        assert isinstance(group.layer.feed_forward, MoeFeedForward)
        gathered = (sharding.tp - 1) / sharding.tp
        copies = min(group.layer.feed_forward.experts_per_token, sharding.ep)
        sent = copies / sharding.tp * (sharding.ep - 1) / sharding.ep if sharding.ep > 1 else gathered
        yield CollectiveWork(count=2 * group.layers, sent_bytes_per_token=min(gathered, sent) * hidden)


def _activation_values(layer: Layer, hidden: int, sharding: Sharding) -> float:
    """Values that the kernels between the matrices read and write for one token of the replica, on one device.

    Each half of a layer adds to the residual and takes a norm: four vectors of the hidden size. Attention writes its
    projections, turns them, and writes its result; a feed-forward reads two vectors of its width and writes one. Every
    chosen expert is handed a copy of the token, and its answer is written and added up: slices of an expert each do
    that for all tokens, whole experts for those that chose them.
    """
    dp, split = sharding.dp_attention, sharding.attention_tp
    values = sum(4.0 * hidden + 4.0 * _mixer_channels(mixer) / split for mixer in layer.mixers) / dp
    match layer.feed_forward:
        case MoeFeedForward() as moe:
            width = hidden if moe.latent_channels is None else moe.latent_channels
            copies = moe.experts_per_token / sharding.ep
            beside = 3.0 * (moe.shared_channels + moe.dense_channels) / split
            values += (4.0 * hidden + beside) / dp
            values += copies * (3.0 * width + 3.0 * moe.expert_channels / sharding.expert_tp)
        case DenseFeedForward() as dense:
            values += (4.0 * hidden + 3.0 * dense.inner_channels / split) / dp
        case None:
            pass
    return values


def _mixer_channels(mixer: Mixer) -> int:
    """The channels of all that a mixer projects into, about."""
    match mixer:
        case GroupedAttention():
            return mixer.query_heads * mixer.key_channels + mixer.kv_heads * (mixer.key_channels + mixer.value_channels)
        case LatentAttention():
            return mixer.query_heads * (mixer.nope_channels + mixer.rope_channels + mixer.value_channels)
        case CompressedAttention():
            return mixer.query_heads * mixer.head_channels
        case LinearAttention():
            return 2 * mixer.key_heads * mixer.key_channels + 2 * mixer.value_heads * mixer.value_channels
        case StateSpace():
            return 2 * mixer.inner_channels + 2 * mixer.groups * mixer.state_channels
        case ShortConvolution():
            return 3 * mixer.channels


_MIXER_KERNELS: Mapping[type, int] = {
    GroupedAttention: 6,
    LatentAttention: 14,
    CompressedAttention: 16,
    LinearAttention: 10,
    StateSpace: 8,
    ShortConvolution: 5,
}
"""Kernels of a mixer. Grouped attention: norm, projection, rotation, cache write, attention, output. Latent
attention projects twice down and twice up around it, with norms between; compressed attention has a window and entries
beside. A linear recurrence projects values and gates apart, convolves, takes norms of queries and keys, runs, and has a
gated norm after it; a state space does with one projection."""
INDEXER_KERNELS = 7
"""Two projections, norm, rotation, quantising, scores, and the choice of the best."""


def _kernels(layer: Layer) -> int:
    """Kernels that an engine launches for a layer, about: each starts and ends once a step, however small the batch.

    Inputs of narrow matrices are quantised, where that is not part of the kernel before. Experts: norm, router, choice,
    two matrices, and the way back; sorting and quantising twice where their inputs are narrow; shared experts run
    beside them.
    """
    formats = layer.formats
    mixers = sum(_MIXER_KERNELS[type(each)] + _extra_kernels(each) for each in layer.mixers)
    if layer.mixers and _compute_dtype(formats.attention_in) in _QUANTISED:
        mixers += 2
    match layer.feed_forward:
        case MoeFeedForward() as moe:
            sorting = {True: 4, False: 1}[_compute_dtype(formats.routed) in _QUANTISED]
            return mixers + 6 + sorting + (5 if moe.shared_channels or moe.dense_channels else 0)
        case None:
            return mixers
        case _:
            return mixers + 4 + (1 if _compute_dtype(formats.dense) in _QUANTISED else 0)


def _norm_spans_heads(mixer: Mixer) -> bool:
    """Whether the norm of queries and keys is over all heads, so that devices that share them have to sum it up."""
    return isinstance(mixer, GroupedAttention) and mixer.qk_norm_channels > mixer.key_channels + mixer.value_channels


def _extra_kernels(mixer: Mixer) -> int:
    """A norm of queries and keys, in several kernels where it spans all heads, and the scorer of sparse attention."""
    match mixer:
        case GroupedAttention():
            norm = 4 if _norm_spans_heads(mixer) else 1 if mixer.qk_norm_channels else 0
            return norm + (INDEXER_KERNELS if mixer.indexer is not None else 0)
        case LatentAttention() | CompressedAttention():
            return INDEXER_KERNELS if mixer.indexer is not None else 0
        case _:
            return 0


def _matrices(model: Model, sharding: Sharding) -> Iterator[MatrixWork]:
    """One line for each way of storing, multiplying and routing; the embedding is a look-up and no work."""
    stored: dict[tuple[str, int, int], float] = defaultdict(float)
    flops: dict[tuple[str, int, int], float] = defaultdict(float)
    for group in model.layers:
        moe = group.layer.feed_forward if isinstance(group.layer.feed_forward, MoeFeedForward) else None
        for tensor in layer_tensors(group.layer, model.hidden_channels):
            routed = tensor.tensor_class is TensorClass.ROUTED and moe is not None
            key = (
                _scaled_dtype(tensor.format),
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
            expert_groups=sharding.ep if experts else 1,
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


def _scaled_dtype(form: WeightFormat) -> str:
    """The precision of a product, and whether its scales are of small blocks, which the product has to apply."""
    dtype = _compute_dtype(form)
    return f"{dtype}{BLOCK_SCALED}" if dtype == "fp8" and form.values_per_scale else dtype


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
