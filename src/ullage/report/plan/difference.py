"""What changed between two plans, as a page or as Markdown for a merge request."""

from __future__ import annotations

import fnmatch

from rich.console import RenderableType
from rich.text import Text

from ullage.planning.differences.difference import Difference, FigureChange
from ullage.planning.differences.record import Entry
from ullage.report.quantity import show, show_usd
from ullage.report.tables import plain_table

# What a reviewer wants to see first, in this order; everything else follows by name with --all.
_MAIN = (
    "*fleet.replicas",
    "*fleet.devices",
    "*reserve.*_replicas",
    "bill.total_usd*",
    "bill.per_success_usd*",
    "*point.operating_rps",
    "*limit.*",
    "*memory.kv_tokens",
    "demand.planning_rate",
    "*ready.cold_p90_s",
)
_CAUSES = 4
_NO_REPLICA = 1e-9


def difference_page(found: Difference, *, every: bool = False) -> list[RenderableType]:
    """Inputs first, because they are the reason; then the figures that moved, each with the inputs that moved it."""
    head = Text(f"{found.new.service}: plan of {found.new.as_of} against plan of {found.old.as_of}", style="bold")
    if found.is_empty:
        return [head, Text("Nothing changed.")]
    parts: list[RenderableType] = [head]
    if found.inputs:
        table = plain_table("Inputs that changed", "input", "old", "new", "source")
        for each in found.inputs:
            table.add_row(each.name, _shown(each.old), _shown(each.new), "" if each.new is None else each.new.source)
        parts += ["", table]
    if found.causes:
        parts += ["", _causes(found)]
    shown = found.figures if every else _main(found.figures)
    if shown:
        table = plain_table("Figures that changed", "figure", "old", "new", "change", "because of")
        for each in shown:
            table.add_row(each.name, _shown(each.old), _shown(each.new), _change(each), _because(each))
        parts += ["", table]
    more = len(found.figures) - len(shown)
    if more:
        parts.append(Text(f"and {more} more: --all", style="dim"))
    parts += [Text(f"Note: {each}.") for each in found.also]
    return parts


def _causes(found: Difference) -> RenderableType:
    """What changed the fleet and the bill; the last row is their sum."""
    table = plain_table("What changed the fleet and the bill", "cause", "replicas", "USD a month", "because of")
    for each in found.causes:
        of = f"{each.pool}: " if each.pool and len({one.pool for one in found.causes if one.pool}) > 1 else ""
        table.add_row(f"{of}{each.name}", _signed(each.replicas), _usd(each.usd), _named(each.because))
    total = [each.usd for each in found.causes if each.usd is not None]
    usd = sum(total) if total else None
    table.add_row("total", _signed(sum(each.replicas for each in found.causes)), _usd(usd), "")
    return table


def _signed(replicas: float) -> str:
    return f"{replicas:+.3g}" if abs(replicas) > _NO_REPLICA else ""


def _usd(usd: float | None) -> str:
    return "" if usd is None else f"{'-' if usd < 0 else '+'}{show_usd(abs(usd))}"


def _main(changes: tuple[FigureChange, ...]) -> tuple[FigureChange, ...]:
    ranked = [
        (rank, each)
        for each in changes
        for rank in (next((i for i, one in enumerate(_MAIN) if fnmatch.fnmatchcase(each.name, one)), None),)
        if rank is not None
    ]
    return tuple(each for _, each in sorted(ranked, key=lambda pair: (pair[0], pair[1].name)))


def _shown(entry: Entry | None) -> str:
    return "none" if entry is None else f"{show(entry.value, entry.unit)} ({entry.evidence})"


def _change(each: FigureChange) -> str:
    return "" if each.ratio is None else f"{100 * (each.ratio - 1):+.3g} %"


def _because(each: FigureChange) -> str:
    return _named(each.because)


def _named(because: tuple[str, ...]) -> str:
    named = ", ".join(because[:_CAUSES])
    more = len(because) - _CAUSES
    return f"{named} and {more} more" if more > 0 else named
