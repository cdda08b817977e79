"""How an engine divides its cache into blocks, and how many of them one sequence holds.

A block is the unit of allocation. For a model whose layers all keep everything it is simple: a block holds
`block_tokens` tokens of every layer. Hybrids differ by engine:

    vLLM      One pool serves all kinds of layers, so their pages must be equally large. Layers are dealt into
              groups of equal size; a sequence takes its blocks from each group. Small pages grow to the largest
              (more tokens a block where that divides, padding where not), a recurrent state is padded to a page,
              and the attention block first grows until a page can hold a state.
    others    Each kind has a pool of its own. No padding, but what a window or a state takes is set aside.

Both are written as groups: a sequence takes `blocks` of each group, and each of those is worth `weight_blocks` blocks
of the pool. vLLM's rules are those of its kv_cache_utils (0.11 to 0.27 alike).
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ullage.facts.model import CompressedAttention, GroupedAttention, LatentAttention, Layer, LayerGroup, Mixer, Model
from ullage.memory.kv import KvDtype, device_cache
from ullage.memory.sharding import Sharding, stage_layers


class Retention(enum.Enum):
    """What a layer keeps of a sequence."""

    ALL = "all tokens"
    WINDOW = "a sliding window"
    CHUNK = "the current chunk"
    STATE = "a state of fixed size"


@dataclass(frozen=True, kw_only=True)
class CachePart:
    """The cache of some equal layers on one device. Bytes are of one layer, and of one of a sequence's states."""

    kept: Retention
    layers: int
    layer_bytes_per_token: float = 0.0
    bound_tokens: int = 0
    state_bytes: int = 0
    states: int = 1

    def block_bytes(self, block_tokens: int) -> int:
        """What one layer keeps in one block."""
        if self.kept is Retention.STATE:
            return self.state_bytes
        return math.ceil(self.layer_bytes_per_token * block_tokens)


@dataclass(frozen=True, kw_only=True)
class BlockGroup:
    """Layers that share a block table. Each block a sequence takes here is worth `weight_blocks` blocks of the pool."""

    kept: Retention
    layers: int
    block_tokens: int
    bound_tokens: int = 0
    weight_blocks: float = 1.0
    states: int = 1

    def blocks(self, context_tokens: int, step_tokens: int) -> int:
        """Blocks one sequence holds at most: a window slides only after the tokens of a step are computed."""
        match self.kept:
            case Retention.ALL:
                return math.ceil(context_tokens / self.block_tokens)
            case Retention.WINDOW:
                held = min(self.bound_tokens - 1 + step_tokens, context_tokens)
                return math.ceil(held / self.block_tokens) + 1
            case Retention.CHUNK:
                return math.ceil(min(self.bound_tokens + step_tokens, context_tokens) / self.block_tokens)
            case Retention.STATE:
                return self.states


@dataclass(frozen=True, kw_only=True)
class BlockLayout:
    """The blocks of one device. `padding_fraction` is the part of a block that no layer uses."""

    block_tokens: int
    block_bytes: int
    groups: tuple[BlockGroup, ...]
    padding_fraction: float = 0.0

    def blocks_in(self, pool_bytes: int) -> int:
        return max(pool_bytes, 0) // self.block_bytes

    def sequence_blocks(self, context_tokens: int, step_tokens: int) -> float:
        """Blocks of the pool that one sequence of this length takes."""
        return sum(group.weight_blocks * group.blocks(context_tokens, step_tokens) for group in self.groups)

    def tokens_in(self, blocks: int, context_tokens: int, step_tokens: int) -> int:
        """Tokens that fit, as engines state it: sequences of the longest context that fit, times its length."""
        if self.is_uniform:
            return blocks * self.block_tokens
        return int(blocks / self.sequence_blocks(context_tokens, step_tokens) * context_tokens)

    @property
    def is_uniform(self) -> bool:
        """Whether every layer keeps every token, so that tokens and blocks are the same thing."""
        return (
            all(group.kept is Retention.ALL and group.weight_blocks == 1 for group in self.groups)
            and len(self.groups) == 1
        )


def cache_parts(
    model: Model, sharding: Sharding, dtype: KvDtype, *, stage: int = 0, copies: int = 1, mtp: bool = False
) -> tuple[CachePart, ...]:
    """What the layers of one pipeline stage keep on one device, equal layers together."""
    stages = stage_layers(model, sharding.pp)
    extra = model.mtp.groups if mtp and model.mtp is not None and stage == len(stages) - 1 else ()
    mixers: Counter[Mixer] = Counter()
    for group in (*stages[stage], *extra):
        for mixer in group.layer.mixers:
            mixers[mixer] += group.layers
    parts: Counter[CachePart] = Counter()
    for mixer, layers in mixers.items():
        for part in _parts_of(mixer, model, sharding, dtype, copies):
            parts[part] += layers
    return tuple(replace(part, layers=layers) for part, layers in parts.items())


def unbounded(parts: tuple[CachePart, ...], kinds: Collection[Retention]) -> tuple[CachePart, ...]:
    """The same where layers of these kinds keep every token, as engines do that cannot mix them with others.

    A model whose layers all have the same bound mixes nothing, and keeps its bound.
    """
    if len({(part.kept, part.bound_tokens) for part in parts}) == 1:
        return parts
    return tuple(replace(part, kept=Retention.ALL, bound_tokens=0) if part.kept in kinds else part for part in parts)


def kept_states(parts: tuple[CachePart, ...], states: int) -> tuple[CachePart, ...]:
    """The same where a sequence keeps so many states of each layer that has one."""
    return tuple(replace(part, states=states) if part.kept is Retention.STATE else part for part in parts)


def shared_pool_layout(parts: tuple[CachePart, ...], block_tokens: int, *, latent: bool) -> BlockLayout:
    """vLLM: one pool, pages of one size, groups of equal layer counts."""
    kinds = {(part.kept, part.bound_tokens) for part in parts}
    if len(kinds) == 1:
        return _one_group(parts, block_tokens)
    block_tokens = _grown_for_states(parts, block_tokens, latent=latent)
    page_bytes = max(part.block_bytes(block_tokens) for part in parts)
    size = _group_size([part.layers for part in parts])
    groups, used_bytes = [], 0
    for part in parts:
        own_bytes = part.block_bytes(block_tokens)
        times = page_bytes // own_bytes if part.kept is not Retention.STATE and page_bytes % own_bytes == 0 else 1
        count = math.ceil(part.layers / size)
        used_bytes += part.layers * own_bytes * times
        groups += [
            BlockGroup(
                kept=part.kept,
                layers=size,
                block_tokens=block_tokens * times,
                bound_tokens=part.bound_tokens,
                states=part.states,
            )
        ] * count
    return BlockLayout(
        block_tokens=block_tokens,
        block_bytes=page_bytes * size,
        groups=tuple(groups),
        padding_fraction=1 - used_bytes / (page_bytes * size * len(groups)),
    )


def own_pools_layout(parts: tuple[CachePart, ...], block_tokens: int) -> BlockLayout:
    """Engines that keep a pool per kind of layer: bytes add up without padding."""
    kinds = {(part.kept, part.bound_tokens) for part in parts}
    if len(kinds) == 1:
        return _one_group(parts, block_tokens)
    # The unit is a block of the layers that keep everything; where there are none, of all layers together.
    growing = [part for part in parts if part.kept is Retention.ALL] or list(parts)
    unit_bytes = sum(part.layers * part.block_bytes(block_tokens) for part in growing)
    groups = tuple(
        BlockGroup(
            kept=part.kept,
            layers=part.layers,
            block_tokens=block_tokens,
            bound_tokens=part.bound_tokens,
            weight_blocks=part.layers * part.block_bytes(block_tokens) / unit_bytes,
        )
        for part in parts
    )
    return BlockLayout(block_tokens=block_tokens, block_bytes=unit_bytes, groups=groups)


def is_latent(model: Model) -> bool:
    return any(isinstance(mixer, LatentAttention) for group in model.layers for mixer in group.layer.mixers)


def is_compressed(model: Model) -> bool:
    """DeepSeek-V4 packs its pages in a way of its own, which `shared_pool_layout` does not state."""
    return any(isinstance(mixer, CompressedAttention) for group in model.layers for mixer in group.layer.mixers)


def _parts_of(mixer: Mixer, model: Model, sharding: Sharding, dtype: KvDtype, copies: int) -> Iterable[CachePart]:
    alone = replace(model, layers=(LayerGroup(layer=Layer(mixers=(mixer,)), layers=1),), mtp=None)
    (cost,) = device_cache(alone, Sharding(tp=sharding.attention_tp), dtype, shared_kv_copies=copies)
    for growing in (cost.kv_bytes_per_token, cost.indexer_bytes_per_token):
        if growing:
            yield CachePart(kept=Retention.ALL, layers=1, layer_bytes_per_token=growing)
    chunked = isinstance(mixer, GroupedAttention) and mixer.chunk_tokens is not None
    for bounded in cost.bounded:
        yield CachePart(
            kept=Retention.CHUNK if chunked else Retention.WINDOW,
            layers=1,
            layer_bytes_per_token=bounded.bytes_per_token,
            bound_tokens=bounded.bound_tokens,
        )
    if cost.state_bytes:
        yield CachePart(kept=Retention.STATE, layers=1, state_bytes=cost.state_bytes)


def _one_group(parts: tuple[CachePart, ...], block_tokens: int) -> BlockLayout:
    group = BlockGroup(
        kept=parts[0].kept,
        layers=sum(part.layers for part in parts),
        block_tokens=block_tokens,
        bound_tokens=parts[0].bound_tokens,
        states=parts[0].states,
    )
    block_bytes = sum(part.layers * part.block_bytes(block_tokens) for part in parts)
    return BlockLayout(block_tokens=block_tokens, block_bytes=block_bytes, groups=(group,))


def _grown_for_states(parts: tuple[CachePart, ...], block_tokens: int, *, latent: bool) -> int:
    """The attention block that is large enough for one page to hold a state."""
    state_bytes = max((part.state_bytes for part in parts), default=0)
    token_bytes = max((part.layer_bytes_per_token for part in parts), default=0.0)
    if not state_bytes or not token_bytes:
        return block_tokens
    step = max(block_tokens, _LATENT_STEP_TOKENS if latent else 0)
    return max(block_tokens, step * math.ceil(state_bytes / (step * token_bytes)))


_LATENT_STEP_TOKENS = 128
"""vLLM keeps blocks of hybrids with latent attention a multiple of 128 tokens, for its decode kernels."""

_MUCH_LARGER = 1.5
"""vLLM pads the smaller kinds up to the largest while that has less than this many times their layers."""


def _group_size(layers: list[int]) -> int:
    return max(layers) if max(layers) < min(layers) * _MUCH_LARGER else min(layers)
