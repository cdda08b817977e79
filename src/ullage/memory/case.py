"""One question about memory, and whether the answer is yes: model, device, settings, and the load to hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ullage.errors import InputError
from ullage.evidence import Figure
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import Device
from ullage.facts.model import Model
from ullage.memory.engine_report import EngineMemory
from ullage.memory.estimate import LineName, MeasuredLines, StageEstimate, estimate_stages, tightest
from ullage.memory.measured import measured_lines
from ullage.memory.settings import Runtime, RuntimeSettings, resolve, whole

_NULL_BLOCKS = {"vllm": 1}
"""Blocks an engine keeps for itself: vLLM's block 0 stands for padding."""


@dataclass(frozen=True, kw_only=True)
class Approved:
    """The worst load that was approved: so many sequences at once, each of this context."""

    context_tokens: int
    sequences: int

    def __post_init__(self) -> None:
        for name, value in (("context", self.context_tokens), ("concurrency", self.sequences)):
            if value < 1:
                raise InputError(field=name, value=value, problem="is less than 1", fix="Give 1 or more.")


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many sequences the cache of a replica holds. `groups` are attention groups, each with a cache of its own."""

    stage: StageEstimate
    step_tokens: int
    max_sequences: int
    groups: int
    null_blocks: int

    def blocks_of(self, context_tokens: int, sequences: int = 1) -> float:
        """Blocks that so many sequences of one attention group take, with a step's tokens in flight in one of them.

        A window slides only when the tokens of a step are computed, so a sequence that is being read in holds more
        than its window; those that only write hold their window and one token.
        """
        layout = self.stage.layout
        resting = layout.sequence_blocks(context_tokens, 1)
        return sequences * resting + layout.sequence_blocks(context_tokens, self.step_tokens) - resting

    def held(self, context_tokens: int) -> int:
        """Sequences of this context that fit at once, whatever the engine's limit on sequences."""
        layout = self.stage.layout
        resting = layout.sequence_blocks(context_tokens, 1)
        if not resting:
            return self.max_sequences * self.groups
        usable = self.stage.blocks - self.null_blocks - (self.blocks_of(context_tokens) - resting)
        # Rounding of a sum of fractions must not lose a sequence that fits exactly.
        return max(math.floor(usable / resting + 1e-9), 0) * self.groups

    def sequences(self, context_tokens: int) -> int:
        """Sequences that run at once: as many as fit, and no more than the engine allows."""
        return min(self.held(context_tokens), self.max_sequences * self.groups)

    def longest_context(self, sequences: int, most_tokens: int) -> int:
        """The longest context of which so many sequences fit; 0 where not even one token of each does."""
        low, high = 0, most_tokens
        while low < high:
            middle = (low + high + 1) // 2
            if self.held(middle) >= sequences:
                low = middle
            else:
                high = middle - 1
        return low


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """Why a case does not fit: the line, the bytes that are missing, and a sentence."""

    line: LineName
    missing_bytes: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class MemoryOutcome:
    """A case, worked out."""

    runtime: Runtime
    measured: MeasuredLines
    stage: StageEstimate
    capacity: Capacity
    shortfall: Shortfall | None

    @property
    def least(self) -> Approved:
        """What an engine must hold to start at all."""
        return Approved(context_tokens=whole(self.runtime.max_context), sequences=1)

    @property
    def kv_tokens(self) -> int:
        """Tokens the replica's cache holds, as the engine would state it."""
        if self.measured.kv_tokens is not None:
            return whole(self.measured.kv_tokens)
        context = whole(self.runtime.max_context)
        held = self.stage.layout.tokens_in(self.stage.blocks, context, whole(self.runtime.step_tokens))
        return held * self.runtime.sharding.dp_attention


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is asked. Without an approved load, one sequence of the longest context has to fit: engines refuse to
    start otherwise. `margin` is what has to stay free, where memory ran out before."""

    model: Model
    device: Device
    settings: RuntimeSettings
    approved: Approved | None = None
    reported: EngineMemory | None = None
    margin: Figure | None = None
    engines: Catalogue | None = None
    device_bytes: int | None = None

    def outcome(self) -> MemoryOutcome:
        runtime = resolve(self.settings, self.model, self.device, self.engines)
        memory_bytes = self.device.memory_bytes if self.device_bytes is None else self.device_bytes
        measured = MeasuredLines() if self.reported is None else measured_lines(self.reported, runtime)
        stage = tightest(estimate_stages(self.model, memory_bytes, runtime, measured))
        if (lowered := _lowered_by_states(runtime, stage)) is not None:
            runtime = lowered
            stage = tightest(estimate_stages(self.model, memory_bytes, runtime, measured))
        capacity = Capacity(
            stage=stage,
            step_tokens=whole(runtime.step_tokens),
            max_sequences=whole(runtime.max_sequences),
            groups=runtime.sharding.dp_attention,
            null_blocks=_NULL_BLOCKS.get(runtime.engine, 0),
        )
        return MemoryOutcome(
            runtime=runtime,
            measured=measured,
            stage=stage,
            capacity=capacity,
            shortfall=self._shortfall(runtime, stage, capacity),
        )

    def with_settings(self, settings: RuntimeSettings) -> Case:
        """The same with other settings: measured lines hold for the measured settings alone, so they go."""
        return replace(self, settings=replace(settings, logged={}), reported=None)

    def with_approved(self, approved: Approved | None, *, max_context_tokens: int | None = None) -> Case:
        context = max_context_tokens or self.settings.max_context_tokens
        return replace(self, approved=approved, settings=replace(self.settings, max_context_tokens=context))

    def _shortfall(self, runtime: Runtime, stage: StageEstimate, capacity: Capacity) -> Shortfall | None:
        return (
            _no_pool(stage, runtime)
            or _no_margin(stage, self.margin, runtime)
            or _too_long(runtime, capacity)
            or _too_much(self.approved, runtime, capacity)
        )


def _lowered_by_states(runtime: Runtime, stage: StageEstimate) -> Runtime | None:
    """The same where the states that are set aside allow fewer sequences; None where they do not, or a log has said
    how many run."""
    pool, each = stage.states, runtime.states_per_sequence
    if pool is None or each is None or "max sequences" in runtime.settings.logged:
        return None
    if pool.sequences >= whole(runtime.max_sequences):
        return None
    few = max(pool.sequences, 1)
    lowered = replace(each, name="max sequences", value=few, unit="sequences", low=None, high=None)
    return replace(runtime, max_sequences=lowered)


def _no_pool(stage: StageEstimate, runtime: Runtime) -> Shortfall | None:
    if stage.pool_bytes > 0:
        return None
    largest = max(stage.fixed, key=lambda name: stage.fixed[name])
    return Shortfall(
        line=largest,
        missing_bytes=1 - stage.pool_bytes,
        reason=(
            f"{largest.value} of {_gib(stage.fixed[largest])} and the other fixed lines leave nothing for the KV cache "
            f"in {_gib(stage.device_bytes)} of device memory at a memory fraction of {runtime.memory_fraction.value}"
        ),
    )


def _no_margin(stage: StageEstimate, wanted: Figure | None, runtime: Runtime) -> Shortfall | None:
    margin = stage.lines[LineName.MARGIN]
    required = 0 if wanted is None else whole(wanted)
    if margin >= required:
        return None
    after = "" if wanted is None else f" after memory ran out, where {_gib(required)} must stay free"
    return Shortfall(
        line=LineName.MARGIN,
        missing_bytes=required - margin,
        reason=(
            f"at a memory fraction of {runtime.memory_fraction.value} the lines leave "
            f"{_gib(margin)} of {_gib(stage.device_bytes)}{after}: the engine would run out of memory"
        ),
    )


def _too_long(runtime: Runtime, capacity: Capacity) -> Shortfall | None:
    context = whole(runtime.max_context)
    needed = math.ceil(capacity.blocks_of(context)) + capacity.null_blocks
    if needed <= capacity.stage.blocks:
        return None
    block_bytes = capacity.stage.layout.block_bytes
    return Shortfall(
        line=LineName.KV_CACHE,
        missing_bytes=(needed - capacity.stage.blocks) * block_bytes,
        reason=(
            f"one sequence of {context:,} tokens needs {_gib(needed * block_bytes)} of KV cache on a device, "
            f"and {_gib(capacity.stage.kv_bytes)} fit"
        ),
    )


def _too_much(approved: Approved | None, runtime: Runtime, capacity: Capacity) -> Shortfall | None:
    if approved is None:
        return None
    if (few := _too_few_states(approved, runtime, capacity)) is not None:
        return few
    _check_limits(approved, runtime, capacity)
    if capacity.held(approved.context_tokens) >= approved.sequences:
        return None
    each = math.ceil(approved.sequences / capacity.groups)
    needed = math.ceil(capacity.blocks_of(approved.context_tokens, each)) + capacity.null_blocks
    block_bytes = capacity.stage.layout.block_bytes
    return Shortfall(
        line=LineName.KV_CACHE,
        missing_bytes=(needed - capacity.stage.blocks) * block_bytes,
        reason=(
            f"{approved.sequences:,} sequences of {approved.context_tokens:,} tokens need {_gib(needed * block_bytes)} "
            f"of KV cache on a device, and {_gib(capacity.stage.kv_bytes)} fit"
        ),
    )


def _too_few_states(approved: Approved, runtime: Runtime, capacity: Capacity) -> Shortfall | None:
    pool, most = capacity.stage.states, capacity.max_sequences * capacity.groups
    if pool is None or approved.sequences <= most or capacity.max_sequences != max(pool.sequences, 1):
        return None
    missing = math.ceil(approved.sequences / capacity.groups) * pool.slots_per_sequence - pool.slots
    return Shortfall(
        line=LineName.KV_CACHE,
        missing_bytes=missing * pool.slot_bytes,
        reason=(
            f"{approved.sequences:,} sequences reserve {pool.slots_per_sequence} states each, of "
            f"{_gib(pool.slot_bytes)} on a device, and {runtime.engine} sets {pool.slots:,} aside beside the KV cache"
        ),
    )


def _check_limits(approved: Approved, runtime: Runtime, capacity: Capacity) -> None:
    context, most = whole(runtime.max_context), capacity.max_sequences * capacity.groups
    if approved.context_tokens > context:
        raise InputError(
            field="approved context",
            value=approved.context_tokens,
            problem=f"is more than the {context} tokens the engine is started with",
            fix="Raise the engine's context, or approve less.",
        )
    if approved.sequences > most:
        raise InputError(
            field="concurrency",
            value=approved.sequences,
            problem=f"is more than the {most} sequences the engine runs at once",
            fix=f"State max sequences of at least {math.ceil(approved.sequences / capacity.groups)}, or approve less.",
        )


def _gib(value: int) -> str:
    return f"{value / 2**30:,.2f} GiB"
