"""Values reported by an engine, put into the lines of a budget.

A log does not say exactly what a line means: vLLM from 0.20 on prints activations with the graphs' estimate in them,
from 0.32 on weights and workspace as one number; SGLang prints context and collectives as one. Each is taken apart
here with the other reported values, and only then with an estimate. The engine's settings in the log fill the gaps in
what the user stated; where both speak, they must agree, because measured lines hold for the measured settings alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.facts.device import Device
from ullage.facts.model import Model
from ullage.memory.engine_report import EngineMemory, OomKind
from ullage.memory.estimate import LineName, MeasuredLines, StageEstimate
from ullage.memory.settings import Runtime, RuntimeSettings, whole

_OOM_MARGIN_FRACTION = 0.02
"""What an out-of-memory error without a stated shortfall adds to the margin: about the largest single allocation
(a layer's activations) on common devices. The stated shortfall is taken where there is one."""


def settings_with(settings: RuntimeSettings, reported: EngineMemory) -> RuntimeSettings:
    """The settings, with gaps filled from the settings that the engine reports."""
    if reported.engine and settings.engine and reported.engine != settings.engine:
        raise InputError(
            field="log",
            value=reported.engine,
            problem=f"is the log of another engine than {settings.engine}",
            fix=f"State --engine {reported.engine}, or give a log of {settings.engine}.",
        )
    numbers = {
        name: _agreed(name, getattr(settings, field), reported.figures.get(quantity))
        for name, (field, quantity) in _LOGGED.items()
    }
    logged = {
        name: _source(reported.figures[quantity])
        for name, (field, quantity) in {**_LOGGED, "context": ("max_context_tokens", "context_tokens")}.items()
        if getattr(settings, field) is None and quantity in reported.figures
    }
    return replace(
        settings,
        engine=settings.engine or reported.engine or None,
        version=settings.version or reported.version or None,
        memory_fraction=numbers["memory fraction"],
        step_tokens=_whole_or_none(numbers["token budget"]),
        max_sequences=_whole_or_none(numbers["max sequences"]),
        block_tokens=_whole_or_none(numbers["block size"]),
        max_context_tokens=settings.max_context_tokens or _whole_or_none(reported.number("context_tokens")),
        logged=logged,
    )


_LOGGED = {
    "memory fraction": ("memory_fraction", "memory_fraction"),
    "token budget": ("step_tokens", "token_budget"),
    "max sequences": ("max_sequences", "max_sequences"),
    "block size": ("block_tokens", "block_size"),
}
"""Settings that an engine states: name, field of RuntimeSettings, quantity of the log."""


def _source(figure: Figure) -> Source:
    return figure.sources[0] if figure.sources else next(source for each in figure.inputs for source in each.sources)


def _agreed(name: str, stated: float | None, found: Figure | None) -> float | None:
    if found is None:
        return stated
    logged = float(found.value)
    if stated is not None and stated != logged:
        raise InputError(
            field=name,
            value=stated,
            problem=f"{_source(found).where} says {logged:g}, and its lines only hold for that",
            fix="Leave the option out, or give a log of an engine started with it.",
        )
    return logged


def _whole_or_none(value: float | None) -> int | None:
    return None if value is None else int(value)


_SAME_DEVICE_FRACTION = 0.1
_SAME_TOKEN_FRACTION = 0.05
"""How far a log may be from what is asked before it must be of something else: devices of one name differ by a few
percent between drivers, and a cache by what a connector keeps beside it (1.1 % was seen)."""


def check_same(reported: EngineMemory, stage: StageEstimate, device: Device, model: Model) -> None:
    """Refuse a log that is plainly of another device, model, tp or cache dtype."""
    memory, per_token = reported.number("device_memory"), reported.kv_bytes_per_token
    if memory is not None and abs(memory - device.memory_bytes) > _SAME_DEVICE_FRACTION * device.memory_bytes:
        raise InputError(
            field=_source(reported.figures["device_memory"]).where,
            value=f"{memory / 2**30:.2f} GiB of device memory",
            problem=f"{device.name} has {device.memory_bytes / 2**30:.2f} GiB: the log is of another device",
            fix="State the device that the log is of.",
        )
    ours = stage.stored_bytes_per_token
    if per_token is None or not stage.layout.is_uniform:
        return
    if abs(per_token - ours) > _SAME_TOKEN_FRACTION * ours:
        raise InputError(
            field=_source(reported.figures["kv_tokens"]).where,
            value=f"{per_token:,.0f} KV bytes per token",
            problem=f"{model.name} takes {ours:,.0f} per device as configured: the log is of something else",
            fix="State the model, tp, pp and KV dtype that the log is of.",
        )


def measured_lines(reported: EngineMemory, runtime: Runtime) -> MeasuredLines:
    """What takes the place of estimates, line by line."""
    reader = _Lines(reported=reported, runtime=runtime)
    found = {
        LineName.WEIGHTS: reader.weights(),
        LineName.WORKSPACE: reader.workspace(),
        LineName.ACTIVATIONS: reader.activations(),
        LineName.GRAPHS: reported.figures.get("graphs"),
        LineName.CONTEXT: reader.context(),
        LineName.COMMUNICATION: reader.communication(),
    }
    return MeasuredLines(
        lines={name: figure for name, figure in found.items() if figure is not None},
        device_memory=reader.device_memory(),
        kv_pool=reader.pool(),
        kv_blocks=reader.blocks(),
        kv_tokens=reported.figures.get("kv_tokens"),
        resident=reported.figures.get("resident_peak"),
    )


@dataclass(frozen=True, kw_only=True)
class _Lines:
    reported: EngineMemory
    runtime: Runtime

    def device_memory(self) -> Figure | None:
        """A monitor's total has the driver's own reserve in it (0.5 GiB on an H100), which no process ever gets."""
        figures = self.reported.figures
        from_monitor = "resident_peak" in figures and not {"free_at_start", "requested_memory"} & figures.keys()
        return None if from_monitor else figures.get("device_memory")

    def weights(self) -> Figure | None:
        figures = self.reported.figures
        if "weights" in figures or "weights_and_non_torch" not in figures:
            return figures.get("weights")
        both, workspace = figures["weights_and_non_torch"], self.runtime.workspace_memory
        return _less("weights_alone", both, (workspace,), "weights and workspace, as logged, - assumed workspace")

    def workspace(self) -> Figure | None:
        figures = self.reported.figures
        for key in ("non_torch", "workspace"):
            if key in figures:
                return figures[key]
        if "weights_and_non_torch" in figures and "weights" in figures:
            formula = "weights and workspace, as logged, - weights"
            return _less("workspace_alone", figures["weights_and_non_torch"], (figures["weights"],), formula)
        return None

    def activations(self) -> Figure | None:
        """vLLM's figure has the graphs in it from the version on that takes them out of the fraction."""
        figures = self.reported.figures
        peak = figures.get("activations")
        if peak is None or not (self.runtime.covers == "everything" and self.runtime.graphs_in_fraction):
            return peak
        graphs = figures.get("graphs_estimated") or figures.get("graphs")
        if graphs is None:
            return _less("activations_alone", peak, (self.runtime.graph_memory,), "peak, as logged, - assumed graphs")
        return _less("activations_alone", peak, (graphs,), "peak, as logged, - graphs")

    def context(self) -> Figure | None:
        figures = self.reported.figures
        if "device_memory" in figures and "free_at_start" in figures:
            formula = "device memory - free at start"
            return _less("taken_at_start", figures["device_memory"], (figures["free_at_start"],), formula)
        return None

    def communication(self) -> Figure | None:
        both = self.reported.figures.get("communication")
        if both is None:
            return None
        formula = "context and collectives, as logged, - assumed context"
        return _less("communication_alone", both, (self.runtime.context_memory,), formula)

    def pool(self) -> Figure | None:
        figures = self.reported.figures
        cache, state = figures.get("kv_cache"), figures.get("state_cache")
        if cache is None or state is None:
            return cache
        return Figure(
            name="kv_and_state_cache",
            value=whole(cache) + whole(state),
            unit="bytes",
            formula="KV cache + state cache",
            inputs=(cache, state),
        )

    def blocks(self) -> Figure | None:
        """Blocks of one device; a log's sum is over the attention groups."""
        found, groups = self.reported.figures.get("kv_blocks"), self.runtime.sharding.dp_attention
        if found is None or groups == 1:
            return found
        return Figure(
            name="kv_blocks_of_a_group",
            value=whole(found) // groups,
            unit="blocks",
            formula="blocks of all attention groups / groups",
            inputs=(found,),
        )


def _less(name: str, whole_figure: Figure, parts: tuple[Figure | Assumption, ...], formula: str) -> Figure:
    rest = whole(whole_figure) - sum(whole(part) for part in parts)
    return Figure(name=name, value=max(rest, 0), unit="bytes", formula=formula, inputs=(whole_figure, *parts))


def required_margin(reported: EngineMemory, device_bytes: int) -> Figure | None:
    """What has to stay free after the device ran out of memory: the largest shortfall seen; None where it never did."""
    events = [event for event in reported.oom_events if event.kind is OomKind.DEVICE]
    if not events:
        return None
    usual = round(_OOM_MARGIN_FRACTION * device_bytes)
    needed = max(usual if event.shortfall_bytes is None else event.shortfall_bytes for event in events)
    return Figure(
        name="margin required",
        value=needed,
        unit="bytes",
        sources=tuple(_each_once(event.source for event in events)),
        own_evidence=Evidence.MEASURED,
    )


def _each_once(sources: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(sources))
