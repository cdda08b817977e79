"""The lines of one device, as plain numbers: what is fixed, what is left for the cache, what is unused.

An engine's memory fraction means one of three things (facts/engine.py), and the cache is what remains:

    everything       memory x fraction - weights - adapters - workspace - communication - activations (- graphs)
    weights-and-kv   (memory - context - communication) x fraction - weights - adapters
    kv-of-free       (memory - everything that is fixed) x fraction

Whatever the rule, the lines add up to the memory of the device: what no other line claims is the margin. A margin
below zero is an engine that would run out of memory.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ullage.errors import InputError
from ullage.evidence import Figure
from ullage.facts.engine import version_key
from ullage.facts.model import Model
from ullage.memory.activations import ActivationPeak, activation_peak
from ullage.memory.adapters import adapter_bytes
from ullage.memory.blocks import (
    BlockLayout,
    CachePart,
    Retention,
    cache_parts,
    is_compressed,
    is_latent,
    kept_states,
    own_pools_layout,
    shared_pool_layout,
    unbounded,
)
from ullage.memory.padding import expert_padding_bytes
from ullage.memory.parameters import StageWeights, device_weights
from ullage.memory.settings import Runtime, share, whole
from ullage.memory.tensors import TensorClass


class LineName(enum.Enum):
    """The lines of a budget, in the order in which they are printed; the value is what people read."""

    WEIGHTS = "weights"
    ADAPTERS = "adapters"
    CONTEXT = "driver context"
    WORKSPACE = "runtime workspace"
    COMMUNICATION = "communication buffers"
    ACTIVATIONS = "activations"
    GRAPHS = "CUDA graphs"
    FRAGMENTATION = "fragmentation"
    KV_CACHE = "KV cache"
    ROUNDING = "block rounding"
    MARGIN = "safety margin"


IN_FRACTION = (
    LineName.WEIGHTS,
    LineName.ADAPTERS,
    LineName.WORKSPACE,
    LineName.COMMUNICATION,
    LineName.ACTIVATIONS,
)
"""What vLLM takes out of its fraction before the cache; its graphs too, from 0.20 on."""

_SHARED_POOL_ENGINES = ("vllm",)
_TWO_COPIES_ENGINES = ("vllm",)
"""vLLM stores a key that is also the value twice (Gemma-4)."""


@dataclass(frozen=True, kw_only=True)
class MeasuredLines:
    """What an engine itself reported, by line; it takes the place of the estimate.

    The KV cache is of one device, its tokens are of the replica. `resident` is the most that a monitor saw in use.
    """

    lines: Mapping[LineName, Figure] = field(default_factory=dict)
    device_memory: Figure | None = None
    kv_pool: Figure | None = None
    kv_blocks: Figure | None = None
    kv_tokens: Figure | None = None
    resident: Figure | None = None


@dataclass(frozen=True, kw_only=True)
class StatePool:
    """Memory of one device that an engine sets aside for states, apart from the blocks of the KV cache: so many slots,
    of which a running sequence may take `slots_per_sequence`."""

    pool_bytes: int
    slot_bytes: int
    slots: int
    slots_per_sequence: int

    @property
    def sequences(self) -> int:
        return self.slots // self.slots_per_sequence


@dataclass(frozen=True, kw_only=True)
class StageEstimate:
    """One device of one pipeline stage. `estimated` has every fixed line as computed, `fixed` as used; the estimated
    pool is what would be left if the engine had reported nothing."""

    stage: int
    device_bytes: int
    weights: Mapping[TensorClass, int]
    peak: ActivationPeak
    estimated: Mapping[LineName, int]
    fixed: Mapping[LineName, int]
    pool_bytes: int
    estimated_pool_bytes: int
    parts: tuple[CachePart, ...]
    layout: BlockLayout
    blocks: int
    states: StatePool | None = None

    @property
    def kv_bytes(self) -> int:
        """The cache, with the states that are set aside beside its blocks."""
        beside = 0 if self.states is None else self.states.pool_bytes
        # An engine's own tokens and bytes may differ from ours in the last digits; its bytes are what is taken.
        return min(self.blocks * self.layout.block_bytes + beside, max(self.pool_bytes, 0))

    @property
    def stored_bytes_per_token(self) -> float:
        """What one token takes in the layers that keep every token, as the engine stores it."""
        return sum(part.layers * part.layer_bytes_per_token for part in self.parts if part.kept is Retention.ALL)

    @property
    def sequence_state_bytes(self) -> float:
        """What one sequence keeps at most beside what grows with its context: windows, chunks, states."""
        return sum(
            part.layers * (part.bound_tokens * part.layer_bytes_per_token + part.states * part.state_bytes)
            for part in self.parts
            if part.kept is not Retention.ALL
        )

    @property
    def lines(self) -> dict[LineName, int]:
        """Every line of the device; they add up to its memory."""
        used = {**self.fixed, LineName.KV_CACHE: self.kv_bytes, LineName.ROUNDING: self.pool_bytes - self.kv_bytes}
        used[LineName.MARGIN] = self.device_bytes - sum(used.values())
        return {name: used[name] for name in LineName}


def estimate_stages(
    model: Model, device_bytes: int, runtime: Runtime, measured: MeasuredLines | None = None
) -> tuple[StageEstimate, ...]:
    """One device of every pipeline stage; `device_bytes` is its memory as far as the catalogue knows."""
    settings = runtime.settings
    held = device_weights(model, runtime.sharding, mtp=settings.loads_mtp, vision=settings.vision)
    return tuple(
        _estimate_stage(model, device_bytes, runtime, measured or MeasuredLines(), weights) for weights in held
    )


def tightest(stages: tuple[StageEstimate, ...]) -> StageEstimate:
    """The stage that holds the fewest blocks: engines give every stage as many as the poorest has."""
    return min(stages, key=lambda stage: (stage.blocks, stage.pool_bytes))


def _estimate_stage(
    model: Model, device_bytes: int, runtime: Runtime, measured: MeasuredLines, held: StageWeights
) -> StageEstimate:
    sharding, stage = runtime.sharding, held.stage
    weights = {line.tensor_class: line.stored_bytes for line in held.lines}
    padding = expert_padding_bytes(
        model, sharding, engine=runtime.engine, architecture=runtime.architecture, stage=stage
    )
    if padding:
        weights[TensorClass.ROUTED] += padding
    if (drafted := draft_weight_bytes(runtime, stage)) > 0:
        weights[TensorClass.DRAFT] = drafted
    peak = activation_peak(
        model, sharding, step_tokens=whole(runtime.step_tokens), sequences=whole(runtime.max_sequences)
    )
    estimated = _fixed_lines(model, runtime, sum(weights.values()), peak, stage)
    fixed = {name: _replaced(measured.lines.get(name), value) for name, value in estimated.items()}
    fixed[LineName.FRAGMENTATION] = math.ceil(share(runtime.fragmentation) * fixed[LineName.ACTIVATIONS])
    parts = kept_parts(model, runtime, stage)
    has_pool = has_state_pool(runtime, parts)
    # The layout is of what shares the blocks; states that have a pool of their own are not in it.
    layout = block_layout(model, runtime, _without_states(parts) if has_pool else parts)
    memory_bytes = _replaced(measured.device_memory, device_bytes)
    blocks = _measured_blocks(measured, layout, runtime)
    ratio = 0.0 if not has_pool or runtime.state_cache_ratio is None else share(runtime.state_cache_ratio)
    pool = _measured_pool(measured, layout, blocks, _pool_bytes(memory_bytes, fixed, runtime), ratio)
    if measured.resident is not None:
        counted = pool + sum(value for name, value in fixed.items() if name is not LineName.FRAGMENTATION)
        fixed[LineName.FRAGMENTATION] = max(whole(measured.resident) - counted, 0)
    states = state_pool(runtime, parts, pool, layout, blocks) if has_pool else None
    return StageEstimate(
        stage=stage,
        device_bytes=memory_bytes,
        weights=weights,
        peak=peak,
        estimated=estimated,
        fixed=fixed,
        pool_bytes=pool,
        estimated_pool_bytes=_pool_bytes(device_bytes, estimated, runtime),
        parts=parts,
        layout=layout,
        blocks=layout.blocks_in(pool - (0 if states is None else states.pool_bytes)) if blocks is None else blocks,
        states=states,
    )


def has_state_pool(runtime: Runtime, parts: tuple[CachePart, ...]) -> bool:
    """Whether the engine sets memory aside for states beside a cache of tokens, by a rule that is known."""
    kinds = {part.kept for part in parts}
    has_rule = runtime.states_per_sequence is not None and (runtime.state_cache_ratio or runtime.state_slots)
    return bool(has_rule) and {Retention.STATE, Retention.ALL} <= kinds


def _without_states(parts: tuple[CachePart, ...]) -> tuple[CachePart, ...]:
    return tuple(part for part in parts if part.kept is not Retention.STATE)


def state_pool(
    runtime: Runtime, parts: tuple[CachePart, ...], pool_bytes: int, layout: BlockLayout, blocks: int | None
) -> StatePool:
    """SGLang's division of the pool: a fixed number of slots, or a fixed ratio of states to KV cache.

    One slot more than the sequences may use is for padding. With speculation each sequence keeps a state for every
    drafted token besides, so that k slots at r a sequence take k + 1 + (k / r + 1) x drafted states. Where the engine
    reported its tokens, states have what they leave.
    """
    assert runtime.states_per_sequence is not None
    slot_bytes = sum(part.layers * part.state_bytes for part in parts if part.kept is Retention.STATE)
    each, given = whole(runtime.states_per_sequence), runtime.settings.speculation
    drafted = 0 if given is None else given.positions
    if runtime.state_slots is not None:
        slots = whole(runtime.state_slots) // runtime.sharding.dp_attention
        taken_bytes = (slots + 1 + (slots // each + 1) * drafted) * slot_bytes
        return StatePool(pool_bytes=taken_bytes, slot_bytes=slot_bytes, slots=slots, slots_per_sequence=each)
    assert runtime.state_cache_ratio is not None
    ratio = share(runtime.state_cache_ratio)
    budget_bytes = math.floor(max(pool_bytes, 0) * ratio / (1 + ratio))
    if blocks is not None:
        budget_bytes = max(pool_bytes - blocks * layout.block_bytes, 0)
    slots = max(math.floor((budget_bytes / slot_bytes - 1 - drafted) / (1 + drafted / each)), 0)
    taken_bytes = (slots + 1 + math.ceil((slots / each + 1) * drafted)) * slot_bytes
    return StatePool(
        pool_bytes=min(taken_bytes, budget_bytes), slot_bytes=slot_bytes, slots=slots, slots_per_sequence=each
    )


def _fixed_lines(
    model: Model, runtime: Runtime, weights_bytes: int, peak: ActivationPeak, stage: int
) -> dict[LineName, int]:
    settings, sharding = runtime.settings, runtime.sharding
    adapters = 0 if settings.adapters is None else adapter_bytes(model, sharding, settings.adapters, stage=stage)
    return {
        LineName.WEIGHTS: max(weights_bytes - settings.weight_offload_bytes, 0),
        LineName.ADAPTERS: adapters,
        LineName.CONTEXT: whole(runtime.context_memory),
        LineName.WORKSPACE: whole(runtime.workspace_memory),
        LineName.COMMUNICATION: whole(runtime.communication_memory),
        LineName.ACTIVATIONS: peak.peak_bytes,
        LineName.GRAPHS: whole(runtime.graph_memory),
        LineName.FRAGMENTATION: math.ceil(share(runtime.fragmentation) * peak.peak_bytes),
    }


def _replaced(reported: Figure | None, estimate: int) -> int:
    return estimate if reported is None else whole(reported)


def _pool_bytes(device_bytes: int, fixed: Mapping[LineName, int], runtime: Runtime) -> int:
    stated = runtime.settings.kv_pool_bytes
    if stated is not None:
        return stated
    fraction = share(runtime.memory_fraction)
    match runtime.covers:
        case "everything":
            inside = (*IN_FRACTION, *((LineName.GRAPHS,) if runtime.graphs_in_fraction else ()))
            return math.floor(device_bytes * fraction) - sum(fixed[name] for name in inside)
        case "weights-and-kv":
            at_start = device_bytes - fixed[LineName.CONTEXT] - fixed[LineName.COMMUNICATION]
            return math.floor(at_start * fraction) - fixed[LineName.WEIGHTS] - fixed[LineName.ADAPTERS]
        case "kv-of-free":
            free = device_bytes - sum(fixed.values())
            return math.floor(free * fraction) if free > 0 else free
        case _:
            raise InputError(
                field="memory fraction covers",
                value=runtime.covers,
                problem="is not a rule this program knows",
                fix="Name one of everything, weights-and-kv, kv-of-free in the engine's sheet.",
            )


def _measured_blocks(measured: MeasuredLines, layout: BlockLayout, runtime: Runtime) -> int | None:
    """Blocks of one device, from the engine's blocks or from its tokens."""
    if measured.kv_blocks is not None:
        return whole(measured.kv_blocks)
    if measured.kv_tokens is None:
        return None
    tokens = whole(measured.kv_tokens) // runtime.sharding.dp_attention
    if layout.is_uniform:
        return tokens // layout.block_tokens
    context = whole(runtime.max_context)
    return math.ceil(tokens / context * layout.sequence_blocks(context, whole(runtime.step_tokens)))


def _measured_pool(
    measured: MeasuredLines, layout: BlockLayout, blocks: int | None, estimate: int, beside_ratio: float
) -> int:
    if measured.kv_pool is not None:
        return whole(measured.kv_pool)
    return estimate if blocks is None else math.ceil(blocks * layout.block_bytes * (1 + beside_ratio))


def kept_parts(model: Model, runtime: Runtime, stage: int) -> tuple[CachePart, ...]:
    """What the layers of a stage keep on one device, as this engine keeps it."""
    copies = 2 if runtime.engine in _TWO_COPIES_ENGINES else 1
    parts = cache_parts(
        model, runtime.sharding, runtime.cache, stage=stage, copies=copies, mtp=runtime.settings.loads_mtp
    )
    parts = (*parts, *_draft_parts(runtime, stage))
    if runtime.engine not in _SHARED_POOL_ENGINES:
        return parts
    if (given := runtime.settings.speculation) is not None:
        # Of the drafted tokens vLLM cannot tell which will be accepted: it keeps the state after each of them.
        parts = kept_states(parts, given.positions)
    kept_whole = [kept for kept, since in _BOUNDED_SINCE.items() if version_key(runtime.version) < since]
    return unbounded(parts, kept_whole)


def draft_weight_bytes(runtime: Runtime, stage: int) -> int:
    """The draft model on one device of a stage: sharded as the model is, on the last stage."""
    given, sharding = runtime.settings.speculation, runtime.sharding
    if given is None or given.draft is None or stage != sharding.pp - 1:
        return 0
    (held,) = device_weights(given.draft, replace(sharding, pp=1, ep=1), vision=False)
    return held.stored_bytes


def _draft_parts(runtime: Runtime, stage: int) -> tuple[CachePart, ...]:
    """What the draft model keeps beside the model's own cache."""
    given, sharding = runtime.settings.speculation, runtime.sharding
    if given is None or given.draft is None or stage != sharding.pp - 1:
        return ()
    return cache_parts(given.draft, replace(sharding, pp=1, ep=1), runtime.cache)


def block_layout(model: Model, runtime: Runtime, parts: tuple[CachePart, ...]) -> BlockLayout:
    """How this engine divides what a stage keeps into blocks."""
    block_tokens = whole(runtime.block_tokens)
    if not parts:
        # A stage of no-op layers keeps nothing, but still needs a unit to count in.
        return BlockLayout(block_tokens=block_tokens, block_bytes=1, groups=())
    if runtime.engine in _SHARED_POOL_ENGINES and not is_compressed(model):
        return shared_pool_layout(parts, block_tokens, latent=is_latent(model))
    return own_pools_layout(parts, block_tokens)


_BOUNDED_SINCE = {Retention.WINDOW: (0, 9, 1), Retention.CHUNK: (0, 14)}
"""The vLLM versions that free what a window or a chunk no longer needs, where other layers keep everything; those
before keep it all (the hybrid manager of 0.9.1; chunks wait for 0.14, which admits them by default)."""
