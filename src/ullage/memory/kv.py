"""What a sequence keeps on a device: bytes per token, bytes that stop growing at a bound, and a fixed state.

By kind of layer, for one sequence of c tokens, with b bytes per stored value:

    grouped attention       kv heads on the device x (key + value channels) x b x c
      sliding or chunked    the same with min(c, bound)
      values = keys         key channels alone
      cache of another layer  nothing
    latent attention        (latent + rotary channels) x b x c, whole on every device of the group
    compressed attention    head channels x b x (min(c, window) + c / ratio), whole on every device,
                            and the compressor's open entry as a state
    sparse indexer          one key per token (or per entry), which engines keep in fp8 with a scale
    linear attention        value heads x key channels x value channels and the last inputs of its convolution
    state space             heads x head channels x state channels, likewise

Block rounding, which hybrids pay most for, is the budget's work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from ullage.errors import unknown_name
from ullage.facts.model import (
    CompressedAttention,
    GroupedAttention,
    Indexer,
    LatentAttention,
    LayerGroup,
    LinearAttention,
    Mixer,
    Model,
    ShortConvolution,
    StateSpace,
)
from ullage.memory.sharding import Sharding, check_sharding, stage_layers


@dataclass(frozen=True, kw_only=True)
class KvDtype:
    """How a cached key or value is stored. `stored_bits` has the share of a block's scale in it."""

    name: str
    stored_bits: float

    @property
    def value_bytes(self) -> float:
        return self.stored_bits / 8


_WIDTHS = {"fp32": 32.0, "bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.0, "nvfp4": 4.5}
KV_DTYPES: Mapping[str, KvDtype] = {name: KvDtype(name=name, stored_bits=bits) for name, bits in _WIDTHS.items()}
_OTHER_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_ds_mla": "fp8",
    "fp4": "nvfp4",
}


def kv_dtype(name: str, *, field: str = "kv_dtype") -> KvDtype:
    """The cache dtype of this name, under any of the names engines use.

    >>> kv_dtype("fp8_e4m3").value_bytes
    1.0
    """
    written = name.strip().lower()
    found = KV_DTYPES.get(_OTHER_NAMES.get(written, written))
    if found is None:
        raise unknown_name(field=field, name=name, known=(*KV_DTYPES, *_OTHER_NAMES))
    return found


@dataclass(frozen=True, kw_only=True)
class BoundedCache:
    """Layers that keep at most `bound_tokens` tokens of a sequence."""

    layers: int
    bound_tokens: int
    bytes_per_token: float

    def sequence_bytes(self, context_tokens: int) -> float:
        return min(context_tokens, self.bound_tokens) * self.bytes_per_token


@dataclass(frozen=True, kw_only=True)
class CacheCost:
    """What sequences keep on one device: the parts that a budget multiplies with tokens and with sequences.

    `kv_bytes_per_token` is what attention layers without a bound keep; an indexer's keys grow with it and are
    kept apart, because model cards do not count them.
    """

    kv_bytes_per_token: float
    indexer_bytes_per_token: float
    bounded: tuple[BoundedCache, ...]
    state_bytes: int

    @property
    def bytes_per_token(self) -> float:
        """Everything that grows with the context without a bound."""
        return self.kv_bytes_per_token + self.indexer_bytes_per_token

    @property
    def bounded_bytes(self) -> float:
        """The most the bounded layers keep for one sequence."""
        return sum(each.bound_tokens * each.bytes_per_token for each in self.bounded)

    def sequence_bytes(self, context_tokens: int) -> float:
        """All that one sequence of this length keeps."""
        bounded = sum(each.sequence_bytes(context_tokens) for each in self.bounded)
        return context_tokens * self.bytes_per_token + bounded + self.state_bytes


def cache_cost(model: Model, dtype: KvDtype = KV_DTYPES["bf16"], *, shared_kv_copies: int = 1) -> CacheCost:
    """The cost on a single device that holds the whole model."""
    (cost,) = device_cache(model, Sharding(), dtype, shared_kv_copies=shared_kv_copies)
    return cost


def device_cache(
    model: Model, sharding: Sharding, dtype: KvDtype, *, shared_kv_copies: int = 1, mtp: bool = False
) -> tuple[CacheCost, ...]:
    """The cost on one device of each pipeline stage, for a sequence of the device's attention group.

    With `dp_attention` groups a replica holds as many sequences as its groups together; the cost here is what
    one group's device pays for one of its own. `shared_kv_copies=2` is for engines that store a shared key
    and value twice (vLLM does for Gemma-4). `mtp` adds the cache of MTP layers, on the last stage.
    """
    check_sharding(model, sharding)
    stages = stage_layers(model, sharding.pp)
    extra = model.mtp.groups if mtp and model.mtp is not None else ()
    return tuple(
        _cost((*groups, *(extra if index == len(stages) - 1 else ())), sharding.attention_tp, dtype, shared_kv_copies)
        for index, groups in enumerate(stages)
    )


def _cost(groups: Iterable[LayerGroup], split: int, dtype: KvDtype, copies: int) -> CacheCost:
    growing, indexing, state = 0.0, 0.0, 0
    bounded: dict[tuple[int, float], int] = defaultdict(int)
    for group in groups:
        for mixer in group.layer.mixers:
            growing += group.layers * _growing_bytes(mixer, split, dtype, copies)
            indexing += group.layers * _indexer_bytes(mixer, dtype)
            state += group.layers * _state_bytes(mixer, split)
            if (bound := _bound(mixer, split, dtype, copies)) is not None:
                bounded[bound] += group.layers
    return CacheCost(
        kv_bytes_per_token=growing,
        indexer_bytes_per_token=indexing,
        bounded=tuple(
            BoundedCache(layers=layers, bound_tokens=tokens, bytes_per_token=layers * each)
            for (tokens, each), layers in sorted(bounded.items())
        ),
        state_bytes=state,
    )


def _growing_bytes(mixer: Mixer, split: int, dtype: KvDtype, copies: int) -> float:
    match mixer:
        case GroupedAttention():
            return _grouped_bytes(mixer, split, dtype, copies) if mixer.bound_tokens is None else 0.0
        case LatentAttention():
            return _latent_bytes(mixer, dtype)
        case CompressedAttention():
            if mixer.tokens_per_entry is None:
                return 0.0
            return _entry_bytes(mixer, dtype) / mixer.tokens_per_entry
        case LinearAttention() | StateSpace() | ShortConvolution():
            return 0.0
        case _:
            assert_never(mixer)


def _bound(mixer: Mixer, split: int, dtype: KvDtype, copies: int) -> tuple[int, float] | None:
    match mixer:
        case GroupedAttention() if mixer.bound_tokens is not None and not mixer.reuses_cache:
            return mixer.bound_tokens, _grouped_bytes(mixer, split, dtype, copies)
        case CompressedAttention():
            return mixer.window_tokens, _entry_bytes(mixer, dtype)
        case _:
            return None


def _grouped_bytes(mixer: GroupedAttention, split: int, dtype: KvDtype, copies: int) -> float:
    if mixer.reuses_cache:
        return 0.0
    heads = math.ceil(mixer.kv_heads / split)
    if mixer.shares_key_value:
        return heads * mixer.key_channels * dtype.value_bytes * copies
    return heads * (mixer.key_channels + mixer.value_channels) * dtype.value_bytes


def _latent_bytes(mixer: LatentAttention, dtype: KvDtype) -> float:
    """One latent and one rotary key. Sparse attention in fp8 has a layout of its own, in vLLM and SGLang alike:
    the latent in fp8 with an fp32 scale for every 128 values, the rotary key in bf16 (656 bytes for 512 + 64)."""
    if dtype.name == "fp8" and (mixer.indexer is not None or mixer.indexer_is_shared):
        return mixer.latent_channels + 4 * math.ceil(mixer.latent_channels / 128) + 2 * mixer.rope_channels
    return (mixer.latent_channels + mixer.rope_channels) * dtype.value_bytes


def _entry_bytes(mixer: CompressedAttention, dtype: KvDtype) -> float:
    """One stored vector. In fp8 the rotary part stays bf16 and every 64 of the other values share a byte of
    scale, padded to 8 bytes (584 bytes for 448 + 64)."""
    if dtype.name == "fp8":
        plain = mixer.head_channels - mixer.rope_channels
        return plain + 2 * mixer.rope_channels + 8 * math.ceil(plain / 64 / 8)
    return mixer.head_channels * dtype.value_bytes


def _indexer_bytes(mixer: Mixer, dtype: KvDtype) -> float:
    match mixer:
        case LatentAttention(indexer=Indexer() as indexer):
            return _indexer_key_bytes(indexer)
        case CompressedAttention(indexer=Indexer() as indexer, tokens_per_entry=int() as tokens):
            return _indexer_key_bytes(indexer) / tokens
        case GroupedAttention(indexer=Indexer() as indexer):
            return indexer.key_channels * dtype.value_bytes
        case _:
            return 0.0


def _indexer_key_bytes(indexer: Indexer) -> float:
    """An fp8 key and an fp32 scale for every 128 values of it, whatever the dtype of the main cache."""
    return indexer.key_channels + 4 * math.ceil(indexer.key_channels / 128)


_CONVOLUTION_BYTES = 2  # engines keep the last inputs of a convolution in the model's own 16-bit dtype


def _state_bytes(mixer: Mixer, split: int) -> int:
    match mixer:
        case LinearAttention():
            key_heads, value_heads = math.ceil(mixer.key_heads / split), math.ceil(mixer.value_heads / split)
            inputs = 2 * key_heads * mixer.key_channels + value_heads * mixer.value_channels
            matrix = value_heads * mixer.key_channels * mixer.value_channels
            return _kept_inputs(inputs, mixer.conv_taps) + matrix * mixer.state_bits // 8
        case StateSpace():
            heads, groups = math.ceil(mixer.heads / split), math.ceil(mixer.groups / split)
            mixed = 2 * groups * mixer.state_channels if mixer.step_rank_channels is None else 0
            matrix = heads * mixer.head_channels * mixer.state_channels
            return _kept_inputs(heads * mixer.head_channels + mixed, mixer.conv_taps) + matrix * mixer.state_bits // 8
        case ShortConvolution():
            return _kept_inputs(math.ceil(mixer.channels / split), mixer.conv_taps)
        case CompressedAttention(tokens_per_entry=int() as tokens):
            widths = mixer.head_channels + (mixer.indexer.key_channels if mixer.indexer is not None else 0)
            series = 2 if mixer.overlapping_entries else 1
            return series * tokens * 2 * series * widths * 4  # value and gate, fp32, of the tokens not yet closed
        case _:
            return 0


def _kept_inputs(channels: int, taps: int) -> int:
    return channels * max(taps - 1, 0) * _CONVOLUTION_BYTES
