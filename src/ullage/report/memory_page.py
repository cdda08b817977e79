"""A memory budget in the terminal, one bar a line, each starting where the last one ended; and the same as JSON."""

from __future__ import annotations

import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.errors import Rejection
from ullage.evidence import Assumption, Figure, assumptions_of
from ullage.foreign import visible
from ullage.memory.budget import Concurrency, Line, MemoryBudget
from ullage.memory.estimate import LineName
from ullage.memory.host import HostBudget
from ullage.memory.parameters import active_parameter_count, parameter_count
from ullage.report.evidence_style import evidence_text
from ullage.report.foreign_parts import OwnLines
from ullage.report.quantity import show
from ullage.units import brief_number

_BAR_WIDTH = 36
_SOURCE_WIDTH = 34
_GIB = 2**30
_STYLES = {
    LineName.WEIGHTS: "blue",
    LineName.KV_CACHE: "green",
    LineName.MARGIN: "dim",
}
_LABELS = {name.name.lower(): name.value for name in LineName}


def memory_page(budget: MemoryBudget, as_of: datetime.date) -> list[RenderableType]:
    """The lines with bars, what they hold, and what they rest on."""
    return [
        _headline(budget),
        "",
        _lines_table(budget),
        "",
        _results_table(budget),
        "",
        _concurrency_table(budget),
        "",
        _host_text(budget.host),
        *_differences(budget),
        *_assumption_lines(budget, as_of),
        *(Text(f"Note: {note}") for note in budget.notes),
    ]


def refused_page(rejection: Rejection) -> list[RenderableType]:
    """Why it does not fit, the lines that were tried, and what was worked out to help."""
    figure = rejection.figure
    parts: list[RenderableType] = [
        Text(f"Does not fit. {_sentence(rejection.reason)}", style="bold"),
        Text(f"Missing: {_gib(_number(figure))}."),
    ]
    tried = [each for each in figure.inputs if isinstance(each, Figure) and _number(each) > 0]
    if tried:
        table = _plain_table("line", "GiB", "evidence")
        for each in tried:
            label = _LABELS.get(_line_name(each), _line_name(each))
            table.add_row(label, f"{_number(each) / _GIB:,.2f}", evidence_text(each.evidence))
        parts += ["", table]
    if not rejection.remedies:
        return [*parts, "", Text("No single change makes it fit.")]
    offers = _plain_table("what would make it fit", "then")
    for each_offer in rejection.remedies:
        offers.add_row(each_offer.change, each_offer.effect)
    return [*parts, "", offers]


# ---- terminal ------------------------------------------------------------------------------------------


def _headline(budget: MemoryBudget) -> Text:
    runtime, sharding = budget.runtime, budget.runtime.sharding
    degrees = {"tp": sharding.tp, "pp": sharding.pp, "ep": sharding.ep, "attention groups": sharding.dp_attention}
    cut = ", ".join(f"{name} {degree}" for name, degree in degrees.items() if degree > 1 or name == "tp")
    subject = f"{budget.model.name} on {budget.device.name}, {runtime.engine} {runtime.version}, {cut}"
    text = OwnLines(visible(subject), style="bold")
    whole, active = parameter_count(budget.model), active_parameter_count(budget.model)
    # A dense model passes a token through all of itself but the ends; only experts leave most of it out.
    if 2 * active < whole:
        text.append(f"\n{brief_number(whole / 1e9)} billion parameters, {brief_number(active / 1e9)} active per token.")
    load = f"{budget.approved.sequences:,} x {budget.approved.context_tokens:,} tokens"
    return text.append(f"\nFits: {load}, with {_gib(budget.headroom_bytes)} of KV cache to spare per device.")


def _lines_table(budget: MemoryBudget) -> Table:
    table = _plain_table("line", "GiB", "%", f"{budget.device_bytes / _GIB:,.2f} GiB per device", "evidence")
    table.columns[3].no_wrap = True
    start = 0
    for line in budget.lines:
        if line.line_bytes:
            table.add_row(*_line_cells(line, budget, start))
            if line.name is LineName.WEIGHTS and line.estimate is None:
                _add_weight_classes(table, budget)
        start += line.line_bytes
    return table


def _line_cells(line: Line, budget: MemoryBudget, start_bytes: int) -> tuple[RenderableType, ...]:
    return (
        line.name.value,
        f"{line.line_bytes / _GIB:,.2f}",
        f"{100 * line.line_bytes / budget.device_bytes:.1f}",
        _bar(start_bytes, line.line_bytes, budget.device_bytes, _STYLES.get(line.name, "yellow")),
        evidence_text(line.evidence),
    )


def _add_weight_classes(table: Table, budget: MemoryBudget) -> None:
    for name, figure in budget.weights.items():
        stored = _number(figure)
        table.add_row(
            Text(f"  {name}", style="dim"), Text(f"{stored / _GIB:,.2f}", style="dim"), "", "", "", style="dim"
        )


def _bar(start_bytes: int, line_bytes: int, device_bytes: int, style: str) -> Text:
    """A stretch of the device, from where the last line ended; at least a thin mark."""
    start = round(_BAR_WIDTH * start_bytes / device_bytes)
    end = round(_BAR_WIDTH * (start_bytes + line_bytes) / device_bytes)
    mark = "█" * (end - start) if end > start else "▏"
    start = min(start, _BAR_WIDTH - 1)
    return Text(" " * start).append(mark, style=style)


def _results_table(budget: MemoryBudget) -> Table:
    table = _plain_table("result", "value", "evidence")
    state = f", and {show(budget.sequence_state_bytes, 'bytes')} a sequence" if budget.sequence_state_bytes else ""
    rows = [
        ("KV tokens per replica", f"{budget.kv_tokens:,}", "memory.kv_tokens"),
        ("KV blocks", f"{budget.kv_blocks:,} of {budget.kv_block_tokens:,} tokens", "memory.kv_blocks"),
        (
            "KV bytes per token",
            f"{brief_number(budget.stored_bytes_per_token, 6)} on a device, {budget.runtime.cache.name}{state}",
            "memory.stored_bytes_per_token",
        ),
        ("longest context that fits", f"{budget.longest_context_tokens:,} tokens", "memory.longest_context_tokens"),
        ("smallest tp that fits", f"{budget.smallest_tp}", "memory.smallest_tp"),
    ]
    for label, value, name in rows:
        if name in budget.figures:
            table.add_row(label, value, evidence_text(budget.figures[name].evidence))
    return table


def _concurrency_table(budget: MemoryBudget) -> Table:
    table = _plain_table("context, tokens", "sequences at once", "limited by")
    table.columns[0].justify = table.columns[1].justify = "right"
    for each in _each_once(budget):
        table.add_row(f"{each.context_tokens:,}", f"{each.sequences:,}", each.bound_by)
    return table


def _each_once(budget: MemoryBudget) -> list[Concurrency]:
    return sorted(dict.fromkeys((*budget.concurrency, budget.worst)), key=lambda each: each.context_tokens)


def _host_text(host: HostBudget) -> Text:
    parts = ", ".join(f"{line.label} {_gib(line.line_bytes)}" for line in host.lines)
    text = (
        f"Host memory of a replica: {_gib(host.needed_bytes)} needed, {_gib(host.wanted_bytes)} to load fast ({parts})."
    )
    if host.offloaded_kv_tokens:
        text += f" The offloaded cache keeps {host.offloaded_kv_tokens:,} tokens more."
    if host.cached_kv_tokens:
        text += f" The prefix cache keeps {host.cached_kv_tokens:,} tokens there."
    return Text(text)


def _differences(budget: MemoryBudget) -> list[RenderableType]:
    """Where a reported value took the place of an estimate, and by how much they differ."""
    lines = [line for line in budget.lines if line.estimate is not None]
    if not lines:
        return []
    table = _plain_table("measured line", "GiB", "estimated", "difference")
    for line in lines:
        assert line.estimate is not None
        difference = line.difference_bytes or 0
        table.add_row(
            line.name.value,
            f"{line.line_bytes / _GIB:,.2f}",
            f"{_number(line.estimate) / _GIB:,.2f}",
            f"{difference / _GIB:+,.2f} GiB",
        )
    return ["", table]


def _assumption_lines(budget: MemoryBudget, as_of: datetime.date) -> list[RenderableType]:
    table = _plain_table("rests on", "value", "evidence", "age", "source")
    for column in table.columns:
        column.no_wrap = True
    table.columns[-1].max_width = _SOURCE_WIDTH
    for each in _assumptions(budget):
        age = f"{each.age(as_of).days} d" + (", stale" if each.is_stale(as_of) else "")
        table.add_row(each.name, show(each.value, each.unit), evidence_text(each.evidence), age, each.source.what)
    return ["", table]


def _assumptions(budget: MemoryBudget) -> tuple[Assumption, ...]:
    """What the numbers rest on, without the lines that this engine does not have."""
    return tuple(each for each in assumptions_of(budget.figures.values()) if each.value != 0)


def _plain_table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("GiB", "%", "estimated", "difference") else "left")
    return table


def _gib(value: int | float) -> str:
    return f"{value / _GIB:,.2f} GiB"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# ---- JSON ----------------------------------------------------------------------------------------------


def _line_name(figure: Figure) -> str:
    return figure.name.removeprefix("memory.").removesuffix("_bytes")


def _number(figure: Figure) -> int | float:
    assert not isinstance(figure.value, str), figure.name
    return figure.value
