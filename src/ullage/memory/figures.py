"""The numbers of a budget as figures: each with its formula and inputs, down to model, device, engine and user.

Figures are made once, here, from an outcome that was computed with plain numbers. Names start with `memory.`; those
of bytes are of one device, `kv_tokens` and `sequences` are of the replica.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ullage.evidence import Assumption, Evidence, Figure
from ullage.memory.assumed import ONE_SEQUENCE
from ullage.memory.case import Approved, Case, MemoryOutcome
from ullage.memory.estimate import IN_FRACTION, LineName
from ullage.memory.kv import device_cache
from ullage.memory.parameters import parameter_count
from ullage.memory.settings import Runtime


@dataclass(frozen=True, kw_only=True)
class BudgetFigures:
    """Figures by line, the estimates that measured lines replaced, and the results."""

    lines: Mapping[LineName, Figure]
    estimates: Mapping[LineName, Figure]
    weights: Mapping[str, Figure]
    pool: Figure
    block: Figure
    attention: Figure
    per_token: Figure
    results: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def kv_bytes_per_token(self) -> float:
        assert not isinstance(self.attention.value, str)
        return float(self.attention.value)

    @property
    def by_name(self) -> dict[str, Figure]:
        """Everything that can be explained, by name."""
        found = [*self.lines.values(), *self.weights.values(), self.pool, self.block, self.attention, self.per_token]
        return {figure.name: figure for figure in (*found, *self.results.values())}

    def with_results(
        self, outcome: MemoryOutcome, asked: Approved | None, longest_tokens: int, least_tp: int | None
    ) -> dict[str, Figure]:
        """Blocks, tokens, sequences and headroom, from the lines."""
        runtime, stage, capacity = outcome.runtime, outcome.stage, outcome.capacity
        cache = self.lines[LineName.KV_CACHE]
        blocks = outcome.measured.kv_blocks or _figure(
            "kv_blocks", stage.blocks, "blocks", "KV cache / bytes of a block, whole blocks", (cache, self.block)
        )
        tokens = outcome.measured.kv_tokens or _figure(
            "kv_tokens", outcome.kv_tokens, "tokens", _tokens_formula(outcome), (blocks, runtime.block_tokens)
        )
        approved = asked or outcome.least
        load = _load(asked, runtime)
        each = math.ceil(approved.sequences / capacity.groups)
        taken = math.ceil(capacity.blocks_of(approved.context_tokens, each)) + capacity.null_blocks
        held = capacity.sequences(approved.context_tokens)
        named = [
            _renamed("kv_blocks", blocks),
            _renamed("kv_tokens", tokens),
            _figure(
                "sequences",
                held,
                "sequences",
                "(usable blocks - blocks of a step) / blocks of a sequence, at most max sequences",
                (blocks, load[0], runtime.max_sequences, runtime.step_tokens),
            ),
            _figure(
                "headroom_bytes",
                max(stage.blocks - taken, 0) * stage.layout.block_bytes,
                "bytes",
                "(blocks - blocks of the approved load) x bytes of a block",
                (blocks, self.block, *load),
            ),
            _figure(
                "longest_context_tokens",
                longest_tokens,
                "tokens",
                "the longest context at which the approved sequences fit",
                (blocks, self.block, load[1]),
            ),
        ]
        if least_tp is not None:
            named.append(
                _figure(
                    "smallest_tp",
                    least_tp,
                    "devices",
                    "the smallest tp of 1, 2, 4, ... 64 at which the approved load fits",
                    (*self.lines.values(), *load),
                )
            )
        return {figure.name: figure for figure in named}


def _load(asked: Approved | None, runtime: Runtime) -> tuple[Assumption, Assumption]:
    if asked is None:
        return runtime.max_context, ONE_SEQUENCE
    return (
        runtime.settings.stated("approved context", asked.context_tokens, "tokens"),
        runtime.settings.stated("approved sequences", asked.sequences, "sequences"),
    )


def budget_figures(case: Case, outcome: MemoryOutcome) -> BudgetFigures:
    """The figures of every line of one device."""
    runtime, stage, measured = outcome.runtime, outcome.stage, outcome.measured
    model = _model_figure(case)
    weights = _weight_figures(outcome, model)
    estimated = _fixed_figures(outcome, model, weights)
    lines = {name: _renamed(_key(name), measured.lines.get(name, figure)) for name, figure in estimated.items()}
    memory = measured.device_memory or case.device.memory
    per_token = _figure(
        "stored_bytes_per_token",
        stage.stored_bytes_per_token,
        "bytes/token",
        "sum over layers that keep every token, as the engine stores them: heads on the device x channels x bytes",
        (model, runtime.kv_dtype, *_cuts(runtime)),
        Evidence.ESTIMATED,
    )
    attention = _figure(
        "kv_bytes_per_token",
        device_cache(case.model, runtime.sharding, runtime.cache)[stage.stage].kv_bytes_per_token,
        "bytes/token",
        "sum over attention layers without a bound: heads on the device x (key + value channels) x bytes of the dtype",
        (model, runtime.kv_dtype, *_cuts(runtime)),
        Evidence.ESTIMATED,
    )
    block = _figure(
        "kv_block_bytes",
        stage.layout.block_bytes,
        "bytes",
        "tokens of a block x bytes per token" if stage.layout.is_uniform else "largest page x layers of a group",
        (per_token, runtime.block_tokens),
    )
    pool = _pool(outcome, memory, lines, block)
    lines[LineName.FRAGMENTATION] = _fragmentation(outcome, lines, pool)
    lines |= _cache_lines(outcome, pool, block, memory, lines)
    estimates = {name: _as_estimate(figure) for name, figure in estimated.items() if name in measured.lines}
    if measured.kv_pool is not None or measured.kv_blocks is not None or measured.kv_tokens is not None:
        guess = _pool_figure(runtime, case.device.memory, estimated, stage.estimated_pool_bytes)
        estimates[LineName.KV_CACHE] = _as_estimate(guess)
    return BudgetFigures(
        lines={name: lines[name] for name in LineName},
        estimates=estimates,
        weights=weights,
        pool=pool,
        block=block,
        attention=attention,
        per_token=per_token,
    )


def _pool(
    outcome: MemoryOutcome, memory: Figure | Assumption, lines: Mapping[LineName, Figure], block: Figure
) -> Figure:
    """What the cache may take: as reported by the engine, from its blocks or tokens, or by the rule of its fraction."""
    measured, pool_bytes = outcome.measured, outcome.stage.pool_bytes
    if measured.kv_pool is not None:
        return _renamed("kv_pool_bytes", measured.kv_pool)
    told = measured.kv_blocks or measured.kv_tokens
    if told is not None:
        return _figure("kv_pool_bytes", pool_bytes, "bytes", "blocks or tokens, as logged, x bytes", (told, block))
    return _pool_figure(outcome.runtime, memory, lines, pool_bytes)


def _fragmentation(outcome: MemoryOutcome, lines: Mapping[LineName, Figure], pool: Figure) -> Figure:
    """What the allocator holds beyond the bytes in use: as a monitor saw it, or a share of the activations."""
    name, value = _key(LineName.FRAGMENTATION), outcome.stage.fixed[LineName.FRAGMENTATION]
    resident = outcome.measured.resident
    if resident is not None:
        seen = (resident, pool, *(line for line in lines.values() if line.value))
        return _figure(name, value, "bytes", "most bytes seen in use - what the other lines count", seen)
    parts = (lines[LineName.ACTIVATIONS], outcome.runtime.fragmentation)
    return _figure(name, value, "bytes", "activations x fragmentation", parts)


def _model_figure(case: Case) -> Figure:
    return Figure(
        name="memory.parameters",
        value=parameter_count(case.model, mtp=case.settings.loads_mtp, vision=case.settings.vision),
        unit="parameters",
        formula="sum over the tensors of the model's config",
        inputs=case.model.assumptions,
        sources=case.model.sources,
        own_evidence=Evidence.ESTIMATED,
    )


def _weight_figures(outcome: MemoryOutcome, model: Figure) -> dict[str, Figure]:
    return {
        name.value: _figure(
            f"weights.{name.name.lower()}_bytes",
            stored,
            "bytes",
            "parameters of this class x stored bits / 8 x the share of one device, padded as kernels need",
            (model, *_cuts(outcome.runtime)),
        )
        for name, stored in outcome.stage.weights.items()
    }


def _fixed_figures(outcome: MemoryOutcome, model: Figure, weights: Mapping[str, Figure]) -> dict[LineName, Figure]:
    runtime, stage = outcome.runtime, outcome.stage
    cuts = _cuts(runtime)
    formulas: dict[LineName, tuple[str, tuple[Figure | Assumption, ...]]] = {
        LineName.WEIGHTS: ("sum of the classes of weights, less what is offloaded", tuple(weights.values())),
        LineName.ADAPTERS: ("slots x rank x (in + out) of every target x 2 bytes", (model, *cuts)),
        LineName.CONTEXT: ("assumed", (runtime.context_memory,)),
        LineName.WORKSPACE: ("assumed", (runtime.workspace_memory,)),
        LineName.COMMUNICATION: ("assumed where a replica has several devices", (runtime.communication_memory,)),
        LineName.ACTIVATIONS: (
            f"widest moment of a step, here the {stage.peak.widest}: tokens x channels or sequences x vocabulary",
            (model, runtime.step_tokens, runtime.max_sequences, *cuts),
        ),
        LineName.GRAPHS: ("assumed", (runtime.graph_memory,)),
    }
    return {
        name: _figure(_key(name), stage.estimated[name], "bytes", formula, inputs, Evidence.ESTIMATED)
        for name, (formula, inputs) in formulas.items()
    }


def _cache_lines(
    outcome: MemoryOutcome,
    pool: Figure,
    block: Figure,
    memory: Figure | Assumption,
    fixed: Mapping[LineName, Figure],
) -> dict[LineName, Figure]:
    lines = outcome.stage.lines
    # Where the engine states its cache, that is the line; our bytes of a block say only how it is divided.
    inputs = (pool, block) if outcome.measured.kv_pool is None else (pool,)
    cache = _figure(_key(LineName.KV_CACHE), lines[LineName.KV_CACHE], "bytes", "whole blocks of the pool", inputs)
    rounding = _figure(_key(LineName.ROUNDING), lines[LineName.ROUNDING], "bytes", "pool - whole blocks", (pool, cache))
    margin = _figure(
        _key(LineName.MARGIN),
        lines[LineName.MARGIN],
        "bytes",
        "device memory - every other line",
        (memory, *fixed.values(), pool),
    )
    return {LineName.KV_CACHE: cache, LineName.ROUNDING: rounding, LineName.MARGIN: margin}


def _pool_figure(
    runtime: Runtime, memory: Figure | Assumption, lines: Mapping[LineName, Figure], pool_bytes: int
) -> Figure:
    stated = runtime.settings.kv_pool_bytes
    if stated is not None:
        given = runtime.settings.stated("KV memory", stated, "bytes")
        return _figure("kv_pool_bytes", stated, "bytes", "stated", (given,))
    inside = {
        "everything": (*IN_FRACTION, *((LineName.GRAPHS,) if runtime.graphs_in_fraction else ())),
        "weights-and-kv": (LineName.CONTEXT, LineName.COMMUNICATION, LineName.WEIGHTS, LineName.ADAPTERS),
        "kv-of-free": tuple(lines),
    }[runtime.covers]
    formula = {
        "everything": "memory x fraction - weights - adapters - workspace - communication - activations (- graphs)",
        "weights-and-kv": "(memory - context - communication) x fraction - weights - adapters",
        "kv-of-free": "(memory - all fixed lines) x fraction",
    }[runtime.covers]
    used = tuple(lines[name] for name in inside)
    return _figure("kv_pool_bytes", pool_bytes, "bytes", formula, (memory, runtime.memory_fraction, *used))


def _tokens_formula(outcome: MemoryOutcome) -> str:
    groups = outcome.runtime.sharding.dp_attention
    times = f" x {groups} attention groups" if groups > 1 else ""
    if outcome.stage.layout.is_uniform:
        return f"blocks x tokens of a block{times}"
    return f"blocks / blocks of a sequence of the longest context x its tokens{times}"


def _cuts(runtime: Runtime) -> tuple[Assumption, ...]:
    sharding = runtime.sharding
    degrees = {"tp": sharding.tp, "pp": sharding.pp, "ep": sharding.ep, "dp_attention": sharding.dp_attention}
    return tuple(
        runtime.settings.stated(name, degree, "devices")
        for name, degree in degrees.items()
        if degree > 1 or name == "tp"
    )


def _key(name: LineName) -> str:
    return f"{name.name.lower()}_bytes"


def _figure(
    name: str,
    value: int | float,
    unit: str,
    formula: str,
    inputs: tuple[Figure | Assumption, ...],
    evidence: Evidence | None = None,
) -> Figure:
    return Figure(name=f"memory.{name}", value=value, unit=unit, formula=formula, inputs=inputs, own_evidence=evidence)


def _as_estimate(figure: Figure) -> Figure:
    """The same under a name of its own: a name means one number, and the line's name is the measured one's."""
    return replace(figure, name=figure.name.replace("memory.", "memory.estimated.", 1))


def _renamed(name: str, figure: Figure) -> Figure:
    """The figure under the budget's own name; a reported value keeps its evidence and its sources."""
    full = name if name.startswith("memory.") else f"memory.{name}"
    if figure.name == full:
        return figure
    return Figure(name=full, value=figure.value, unit=figure.unit, formula="as the engine states it", inputs=(figure,))
