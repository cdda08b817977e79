"""The memory budget of one device: every line with its evidence, and what follows from them.

`memory_budget` is the stage. It hands back a `MemoryBudget`, whose lines add up to the device, or a `Rejection` that
names the line to change and the changes that were worked out to help.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ullage.errors import InternalError, Rejection, Remedy
from ullage.evidence import Evidence, Figure
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import Device
from ullage.facts.model import Model
from ullage.memory.case import Approved, Case, MemoryOutcome, Shortfall
from ullage.memory.engine_report import EngineMemory, OomEvent
from ullage.memory.estimate import LineName
from ullage.memory.figures import BudgetFigures, budget_figures
from ullage.memory.host import HostBudget, host_budget
from ullage.memory.measured import check_same, required_margin, settings_with
from ullage.memory.remedies import longest_context, remedies, smallest_tp
from ullage.memory.settings import Runtime, RuntimeSettings, whole


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the device. `estimate` is what was computed before a value reported by the engine took its place."""

    name: LineName
    figure: Figure
    estimate: Figure | None = None

    @property
    def line_bytes(self) -> int:
        return whole(self.figure)

    @property
    def evidence(self) -> Evidence:
        return self.figure.evidence

    @property
    def difference_bytes(self) -> int | None:
        """Measured less estimated."""
        return None if self.estimate is None else self.line_bytes - whole(self.estimate)


@dataclass(frozen=True, kw_only=True)
class Concurrency:
    """How many sequences of one context run at once on a replica, and what stops more: memory or max sequences."""

    context_tokens: int
    sequences: int
    bound_by: str


@dataclass(frozen=True, kw_only=True)
class MemoryBudget:
    """What one device of a replica holds, and what the replica can serve with it.

    Lines, bytes per token and headroom are of one device (of the fullest pipeline stage); tokens and sequences are of
    the replica. `headroom_bytes` is the cache beyond the worst approved load. `kv_bytes_per_token` counts the keys and
    values of attention once, as model cards do; `stored_bytes_per_token` is what this engine keeps for a token, with an
    indexer's keys and second copies.
    """

    model: Model
    device: Device
    runtime: Runtime
    stage: int
    device_bytes: int
    lines: tuple[Line, ...]
    weights: Mapping[str, Figure]
    kv_bytes_per_token: float
    stored_bytes_per_token: float
    sequence_state_bytes: float
    kv_block_tokens: int
    kv_block_bytes: int
    kv_blocks: int
    kv_tokens: int
    padding_fraction: float
    worst: Concurrency
    approved: Approved
    concurrency: tuple[Concurrency, ...]
    headroom_bytes: int
    longest_context_tokens: int
    smallest_tp: int | None
    host: HostBudget
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    def line(self, name: LineName) -> Line:
        return next(line for line in self.lines if line.name is name)

    @property
    def evidence(self) -> Evidence:
        return self.figures["memory.kv_tokens"].evidence


def memory_budget(
    model: Model,
    device: Device,
    settings: RuntimeSettings,
    *,
    approved: Approved | None = None,
    contexts_tokens: Iterable[int] = (),
    reported: EngineMemory | None = None,
    host_bytes: int | None = None,
    device_bytes: int | None = None,
    engines: Catalogue | None = None,
    devices: Iterable[Device] = (),
) -> MemoryBudget | Rejection:
    """Budget one device, or refuse.

    `approved` is the worst load that must fit; without it one sequence of the longest context must. Concurrency is
    also given at `contexts_tokens` (percentiles of the workload). `reported` is what an engine
    states about itself, `devices` are those that may be offered instead, `device_bytes` a part of the device (a MIG
    slice).
    """
    total_bytes = device.memory_bytes if device_bytes is None else device_bytes
    case = Case(
        model=model,
        device=device,
        settings=settings if reported is None else settings_with(settings, reported),
        approved=approved,
        reported=reported,
        margin=None if reported is None else required_margin(reported, total_bytes),
        engines=engines,
        device_bytes=device_bytes,
    )
    outcome = case.outcome()
    figures = budget_figures(case, outcome)
    if reported is not None:
        check_same(reported, outcome.stage, device, model)
    if outcome.shortfall is not None:
        return _rejection(outcome.shortfall, figures, remedies(case, devices))
    budget = _budget(case, outcome, figures, tuple(contexts_tokens), host_bytes)
    return budget if (budget.host.headroom_bytes or 0) >= 0 else _host_rejection(budget)


def _budget(
    case: Case, outcome: MemoryOutcome, figures: BudgetFigures, contexts_tokens: tuple[int, ...], host_bytes: int | None
) -> MemoryBudget:
    stage, runtime = outcome.stage, outcome.runtime
    approved = case.approved or outcome.least
    _check_sum(stage.lines, stage.device_bytes)
    longest, least = longest_context(case, outcome), smallest_tp(case)
    found = replace(figures, results=figures.with_results(outcome, case.approved, longest, least))
    host = host_budget(case.model, case.settings, stage.stored_bytes_per_token, host_bytes)
    return MemoryBudget(
        model=case.model,
        device=case.device,
        runtime=runtime,
        stage=stage.stage,
        device_bytes=stage.device_bytes,
        lines=tuple(
            Line(name=name, figure=figures.lines[name], estimate=figures.estimates.get(name)) for name in LineName
        ),
        weights=figures.weights,
        kv_bytes_per_token=figures.kv_bytes_per_token,
        stored_bytes_per_token=stage.stored_bytes_per_token,
        sequence_state_bytes=stage.sequence_state_bytes,
        kv_block_tokens=stage.layout.block_tokens,
        kv_block_bytes=stage.layout.block_bytes,
        kv_blocks=stage.blocks,
        kv_tokens=outcome.kv_tokens,
        padding_fraction=stage.layout.padding_fraction,
        worst=_concurrency(outcome, approved.context_tokens),
        approved=approved,
        concurrency=tuple(_concurrency(outcome, each) for each in contexts_tokens),
        headroom_bytes=whole(found.results["memory.headroom_bytes"]),
        longest_context_tokens=longest,
        smallest_tp=least,
        host=host,
        figures={**found.by_name, **{line.figure.name: line.figure for line in host.lines}},
        notes=_notes(case, outcome),
    )


def _concurrency(outcome: MemoryOutcome, context_tokens: int) -> Concurrency:
    held, running = outcome.capacity.held(context_tokens), outcome.capacity.sequences(context_tokens)
    states = outcome.stage.states
    is_states = states is not None and outcome.capacity.max_sequences == max(states.sequences, 1)
    limit = "states set aside" if is_states else "max sequences"
    return Concurrency(
        context_tokens=context_tokens,
        sequences=running,
        bound_by=limit if held > running else "KV cache",
    )


def _notes(case: Case, outcome: MemoryOutcome) -> tuple[str, ...]:
    """Caveats that no figure carries."""
    model, runtime, stage = case.model, outcome.runtime, outcome.stage
    notes = [runtime.fallback] if runtime.fallback else []
    if runtime.sharding.pp > 1:
        notes.append(f"Lines are of pipeline stage {stage.stage + 1} of {runtime.sharding.pp}, which holds the fewest.")
    if stage.layout.padding_fraction > 0.01:
        share = f"{stage.layout.padding_fraction:.0%}"
        notes.append(f"{share} of the KV cache is padding: {runtime.engine} gives layers of every kind equal pages.")
    if model.vision is not None and case.settings.vision:
        notes.append("The vision tower's weights are counted, its activations are not: check an engine log.")
    if model.mtp is not None and not case.settings.mtp:
        notes.append("The MTP layers are left out: engines load them only for speculative decoding.")
    if case.reported is not None:
        notes += [f"Restarts in the log: {len(case.reported.restarts)}."] if case.reported.restarts else []
        notes += [_oom_note(event) for event in case.reported.oom_events]
    return (*notes, *model.notes)


def _oom_note(event: OomEvent) -> str:
    when = "while serving" if event.while_serving else "at start-up"
    return f"Memory ran out {when} ({event.kind.value}), {event.source.where}."


def _rejection(shortfall: Shortfall, figures: BudgetFigures, offers: tuple[Remedy, ...]) -> Rejection:
    return Rejection(
        stage="memory",
        reason=f"{shortfall.line.value}: {shortfall.reason}",
        figure=Figure(
            name="memory.missing_bytes",
            value=shortfall.missing_bytes,
            unit="bytes",
            formula=f"how much more {shortfall.line.value} would need",
            inputs=tuple(figures.lines.values()),
        ),
        remedies=offers,
    )


def _host_rejection(budget: MemoryBudget) -> Rejection:
    """The device holds it, the host does not: what is offloaded is too much, or the workers alone are."""
    host = budget.host
    assert host.host_bytes is not None
    missing = host.needed_bytes - host.host_bytes
    settings = budget.runtime.settings
    each_bytes = -(-missing // settings.sharding.devices)
    offers = [
        Remedy(change=f"{label} of {(now - each_bytes) / 2**30:.2f} GiB per device", effect="the host holds it")
        for label, now in (("KV offload", settings.kv_offload_bytes), ("weight offload", settings.weight_offload_bytes))
        if now > each_bytes and (label == "KV offload" or budget.headroom_bytes >= each_bytes)
    ]
    return Rejection(
        stage="memory",
        reason=(
            f"host memory: a replica needs {host.needed_bytes / 2**30:.2f} GiB of its host, "
            f"which has {host.host_bytes / 2**30:.2f} GiB for it"
        ),
        figure=Figure(
            name="memory.missing_host_bytes",
            value=missing,
            unit="bytes",
            formula="required - host memory available",
            inputs=tuple(line.figure for line in host.lines if not line.gives_way),
        ),
        remedies=tuple(offers),
    )


def _check_sum(lines: Mapping[LineName, int], device_bytes: int) -> None:
    if sum(lines.values()) != device_bytes or min(lines.values()) < 0:
        raise InternalError(
            law="the lines of a device add up to its memory, and none is negative",
            left={name.value: value for name, value in lines.items()},
            right=device_bytes,
        )
