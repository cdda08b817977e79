"""What a language model is made of, as far as memory and step time depend on it.

    Model
    ├── layers: LayerGroup(layer, count)         runs of equal layers, in the order they execute
    │   └── Layer
    │       ├── mixers                           GroupedAttention | LatentAttention | CompressedAttention |
    │       │                                    LinearAttention | StateSpace | ShortConvolution
    │       ├── feed_forward                     DenseFeedForward | MoeFeedForward | None
    │       └── formats: LayerFormats            how each class of weights is stored
    ├── mtp: MtpHead | None                      multi-token prediction layers; weights only when they are used
    └── vision: VisionTower | None               counted as one number, and flagged

A mixer is what carries information between tokens. Most layers have one; a layer without attention has none
(Nemotron's no-op blocks), Falcon-H1 runs two side by side. `*_channels` is the length of a vector, so
`hidden_channels` is what Hugging Face calls `hidden_size` and `key_channels` is the size of one key head.

Values here are plain facts. Counting parameters and bytes is the work of `ullage.memory`.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from ullage.evidence import Assumption, Source


def _require_positive(value: object, *names: str) -> None:
    for name in names:
        number = getattr(value, name)
        _require(isinstance(number, int) and number > 0, f"{name} is a positive whole number", number)


def _require(holds: bool, law: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{law}; got {value!r}")


@dataclass(frozen=True, kw_only=True)
class WeightFormat:
    """How the values of a weight matrix are stored, and in which precision they are multiplied.

    `values_per_scale` counts the weights that share one scale (and zero point); 0 says one scale for the
    whole tensor, which is too small to count.
    """

    name: str
    weight_bits: float
    scale_bits: float = 0.0
    values_per_scale: int = 0
    compute_dtype: str = "bf16"

    def __post_init__(self) -> None:
        _require(0 < self.weight_bits <= 64, "a weight takes up to 64 bits", self.weight_bits)
        _require(self.scale_bits >= 0, "scale bits are not negative", self.scale_bits)
        _require(self.values_per_scale >= 0, "values per scale are not negative", self.values_per_scale)

    @property
    def stored_bits(self) -> float:
        """Bits one weight takes with its share of the scale.

        >>> WeightFormat(name="nvfp4", weight_bits=4, scale_bits=8, values_per_scale=16).stored_bits
        4.5
        """
        return self.weight_bits + (self.scale_bits / self.values_per_scale if self.values_per_scale else 0.0)

    def stored_bytes(self, parameters: int) -> float:
        return parameters * self.stored_bits / 8


# Unquantised formats, by the names configs use for them.
PLAIN_FORMATS: dict[str, WeightFormat] = {
    "bfloat16": WeightFormat(name="bf16", weight_bits=16),
    "float16": WeightFormat(name="fp16", weight_bits=16, compute_dtype="fp16"),
    "float32": WeightFormat(name="fp32", weight_bits=32, compute_dtype="fp32"),
}
BF16 = PLAIN_FORMATS["bfloat16"]


@dataclass(frozen=True, kw_only=True)
class LayerFormats:
    """The storage of a layer's weight classes. Norms, routers, biases and convolutions keep `other`."""

    attention_in: WeightFormat = BF16
    attention_out: WeightFormat = BF16
    indexer: WeightFormat = BF16
    dense: WeightFormat = BF16
    routed: WeightFormat = BF16
    shared: WeightFormat = BF16
    other: WeightFormat = BF16


@dataclass(frozen=True, kw_only=True)
class GroupedAttention:
    """Multi-head attention whose query heads share key and value heads (multi-head, grouped and multi-query).

    At most one bound may be set: a sliding window keeps the last `window_tokens` tokens; chunked attention
    keeps at most the current chunk of `chunk_tokens`. `shares_key_value` says that the values are the keys:
    one projection, one stored vector. `reuses_cache` says that an earlier layer's keys and values are read:
    no projection, nothing stored.
    """

    query_heads: int
    kv_heads: int
    key_channels: int
    value_channels: int
    window_tokens: int | None = None
    chunk_tokens: int | None = None
    shares_key_value: bool = False
    reuses_cache: bool = False
    output_gate_channels: int = 0
    qk_norm_channels: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    sinks: int = 0
    indexer: Indexer | None = None

    def __post_init__(self) -> None:
        _require_positive(self, "query_heads", "kv_heads", "key_channels", "value_channels")
        _require(
            self.query_heads % self.kv_heads == 0, "kv heads divide query heads", (self.query_heads, self.kv_heads)
        )
        _require(
            self.window_tokens is None or self.chunk_tokens is None,
            "attention is bounded by a window or by a chunk, not by both",
            (self.window_tokens, self.chunk_tokens),
        )

    @property
    def bound_tokens(self) -> int | None:
        """The most tokens of one sequence whose keys and values this layer keeps; None: all of them."""
        return self.window_tokens if self.window_tokens is not None else self.chunk_tokens


@dataclass(frozen=True, kw_only=True)
class Indexer:
    """The small scorer that picks the tokens a sparse attention layer reads; it keeps keys of its own."""

    heads: int
    key_channels: int
    top_tokens: int
    tokens_per_key: int = 1

    def __post_init__(self) -> None:
        _require_positive(self, "heads", "key_channels", "top_tokens", "tokens_per_key")


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: one compressed vector per token, shared by all heads, and a rotary key.

    `indexer_is_shared` marks a layer that attends sparsely with the choice of an earlier layer's indexer.
    """

    query_heads: int
    latent_channels: int
    nope_channels: int
    value_channels: int
    rope_channels: int = 0
    query_latent_channels: int | None = None
    indexer: Indexer | None = None
    indexer_is_shared: bool = False
    output_gate_channels: int = 0

    def __post_init__(self) -> None:
        # Rotary channels may be absent: Kimi's latent layers carry no position.
        _require_positive(self, "query_heads", "latent_channels", "nope_channels", "value_channels")
        _require(self.rope_channels >= 0, "rotary channels are not negative", self.rope_channels)


@dataclass(frozen=True, kw_only=True)
class CompressedAttention:
    """DeepSeek-V4 attention: a sliding window of raw tokens and, beyond it, one entry for every few tokens.

    Keys are values and there is one head of them. `tokens_per_entry` is the compress ratio; None says that
    the layer keeps its window alone. The output projection is split into groups of low rank.
    """

    query_heads: int
    head_channels: int
    query_latent_channels: int
    output_groups: int
    output_latent_channels: int
    window_tokens: int
    rope_channels: int = 0
    tokens_per_entry: int | None = None
    overlapping_entries: bool = False
    indexer: Indexer | None = None

    def __post_init__(self) -> None:
        _require_positive(self, "query_heads", "head_channels", "query_latent_channels", "output_groups")
        _require_positive(self, "output_latent_channels", "window_tokens")
        _require(
            self.query_heads % self.output_groups == 0,
            "output groups divide query heads",
            (self.query_heads, self.output_groups),
        )


class LinearKind(enum.Enum):
    """Which recurrence a linear attention layer runs; they differ in their gates, hence in weights."""

    GATED_DELTA = "gated-delta"  # Qwen3-Next, Qwen3.5, OLMo-Hybrid
    KDA = "kda"  # Kimi-Linear, Kimi-K3: a gate per channel
    LIGHTNING = "lightning"  # MiniMax-01, Ling-Linear: a decay per head


@dataclass(frozen=True, kw_only=True)
class LinearAttention:
    """Attention as a recurrence: a matrix per value head and sequence, whatever the context.

    KDA's decay is projected through `gate_rank_channels`; so is its output gate, unless that has full rank.
    """

    kind: LinearKind
    key_heads: int
    value_heads: int
    key_channels: int
    value_channels: int
    conv_taps: int = 0
    state_bits: int = 32
    gate_rank_channels: int = 0
    full_rank_gate: bool = False

    def __post_init__(self) -> None:
        _require_positive(self, "key_heads", "value_heads", "key_channels", "value_channels", "state_bits")
        _require(self.conv_taps >= 0, "convolution taps are not negative", self.conv_taps)


@dataclass(frozen=True, kw_only=True)
class StateSpace:
    """A Mamba layer. `step_rank_channels` is set for Mamba-1 (one head per channel), None for Mamba-2."""

    heads: int
    head_channels: int
    state_channels: int
    groups: int
    conv_taps: int
    state_bits: int = 32
    step_rank_channels: int | None = None
    gated_norm: bool = True

    def __post_init__(self) -> None:
        _require_positive(self, "heads", "head_channels", "state_channels", "groups", "conv_taps", "state_bits")

    @property
    def inner_channels(self) -> int:
        return self.heads * self.head_channels


@dataclass(frozen=True, kw_only=True)
class ShortConvolution:
    """LFM2's mixer: a gated convolution over a few tokens, whose last inputs are kept per sequence."""

    channels: int
    conv_taps: int

    def __post_init__(self) -> None:
        _require_positive(self, "channels", "conv_taps")


Mixer = GroupedAttention | LatentAttention | CompressedAttention | LinearAttention | StateSpace | ShortConvolution


@dataclass(frozen=True, kw_only=True)
class DenseFeedForward:
    """Two matrices, or three when the first is gated (SwiGLU, GeGLU)."""

    inner_channels: int
    gated: bool = True
    bias: bool = False

    def __post_init__(self) -> None:
        _require_positive(self, "inner_channels")


@dataclass(frozen=True, kw_only=True)
class MoeFeedForward:
    """Routed experts of which each token uses `experts_per_token`, beside experts that every token uses.

    `shared_channels` is the width of all shared experts together. `dense_channels` is a dense block that
    runs beside the experts (Gemma-4, Arctic). `latent_channels` is the narrower width that routed experts
    work in where a model projects down before them and up after them (Nemotron-3 Super).
    """

    routed_experts: int
    experts_per_token: int
    expert_channels: int
    shared_channels: int = 0
    dense_channels: int = 0
    latent_channels: int | None = None
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False

    def __post_init__(self) -> None:
        _require_positive(self, "routed_experts", "experts_per_token", "expert_channels")
        _require(
            self.experts_per_token <= self.routed_experts,
            "a token uses no more experts than there are",
            (self.experts_per_token, self.routed_experts),
        )
        _require(self.shared_channels >= 0 and self.dense_channels >= 0, "widths are not negative", self)


FeedForward = DenseFeedForward | MoeFeedForward


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One decoder layer: its mixers, its feed-forward block, its storage.

    `norms` counts the norm vectors of hidden size; `other_parameters` the small tensors that belong to no
    named part (hyper-connections, per-layer embeddings' projections).
    """

    mixers: tuple[Mixer, ...] = ()
    feed_forward: FeedForward | None = None
    formats: LayerFormats = field(default_factory=LayerFormats)
    norms: int = 2
    other_parameters: int = 0


@dataclass(frozen=True, kw_only=True)
class LayerGroup:
    """A run of equal layers."""

    layer: Layer
    layers: int

    def __post_init__(self) -> None:
        _require_positive(self, "layers")


@dataclass(frozen=True, kw_only=True)
class MtpHead:
    """Multi-token prediction: whole layers after the last one, each behind a projection of two hidden vectors.

    The embedding and the language-model head are the main model's.
    """

    groups: tuple[LayerGroup, ...]
    projections: int

    @property
    def layers(self) -> int:
        return sum(each.layers for each in self.groups)


@dataclass(frozen=True, kw_only=True)
class VisionTower:
    """Encoders for images or sound with their projector: one number, computed from the tower's own config."""

    parameters: int
    format: WeightFormat = BF16
    layers: int = 0


@dataclass(frozen=True, kw_only=True)
class PublishedSize:
    """The size that the publisher states, to check our count against."""

    total_parameters: int
    active_parameters: int | None
    source: Source


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model as its checkpoint states it. `assumptions` lists every value the config left to a class default."""

    name: str
    architecture: str
    hidden_channels: int
    vocabulary_tokens: int
    layers: tuple[LayerGroup, ...]
    max_context_tokens: int
    tied_embeddings: bool
    base_format: WeightFormat
    embedding_format: WeightFormat
    head_format: WeightFormat
    sources: tuple[Source, ...]
    kv_dtype: str | None = None
    position_embeddings: int = 0
    extra_embedding_parameters: int = 0
    mtp: MtpHead | None = None
    vision: VisionTower | None = None
    aliases: tuple[str, ...] = ()
    published: PublishedSize | None = None
    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_positive(self, "hidden_channels", "vocabulary_tokens", "max_context_tokens")
        _require(bool(self.layers), "a model has layers", self.layers)
        _require(bool(self.sources), "a model names its source", self.name)

    @property
    def layer_count(self) -> int:
        return sum(each.layers for each in self.layers)

    @property
    def is_quantised(self) -> bool:
        return any(
            getattr(group.layer.formats, each.name) != self.base_format
            for group in self.layers
            for each in fields(LayerFormats)
        )

    def each_layer(self) -> Iterator[Layer]:
        """Every layer in order, runs unrolled."""
        for group in self.layers:
            yield from itertools.repeat(group.layer, group.layers)


def grouped(layers: list[Layer]) -> tuple[LayerGroup, ...]:
    """Runs of equal layers, in order; the inverse of `Model.each_layer`."""
    return tuple(LayerGroup(layer=layer, layers=sum(1 for _ in run)) for layer, run in itertools.groupby(layers))
