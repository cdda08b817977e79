"""The fleet as people look at it: replicas as bars, nodes, what binds and how far it is, headroom, routes, tools."""

from __future__ import annotations

import math

from rich.console import RenderableType
from rich.text import Text

from ullage.evidence import number
from ullage.fleet.packing import Packing
from ullage.fleet.steady import SteadyFleet
from ullage.foreign import visible
from ullage.planning.document import Plan
from ullage.planning.sun import SunSaving, following_the_sun
from ullage.report.quantity import counted, show
from ullage.report.tables import plain_table
from ullage.service.binding import RELIEF_RATIO, Binding, Constraint
from ullage.service.headroom import Headroom, LoadMargin
from ullage.workload.demand.routing import Routed
from ullage.workload.demand.tools import ToolLoads

BAR_COLUMNS = 40
"""Wide enough to tell one replica in forty, narrow enough for its words beside it on a page of 110 columns."""


def steady_parts(fleet: SteadyFleet) -> list[RenderableType]:
    """Replicas as a bar: those that would do nominal, and those that weak evidence adds."""
    size = fleet.size
    title = Text(f"Steady replicas for {show(size.rate_rps, 'req/s')}, without reserves", style="bold")
    rows = [
        ("nominal", fleet.nominal_replicas, 0, _least(fleet)),
        ("evidence", fleet.replicas - fleet.nominal_replicas, fleet.nominal_replicas, "what a load test can save"),
        ("total", fleet.replicas, 0, counted(fleet.devices, "device")),
    ]
    bars = [_bar(name, count, start, fleet.replicas, said) for name, count, start, said in rows]
    return [title, *bars, *(Text(f"Note: {note}") for note in fleet.notes)]


def _least(fleet: SteadyFleet) -> str:
    if fleet.nominal_replicas == 1:
        return "one replica is enough"
    return f"with one replica fewer, {fleet.size.binding} is violated"


def _bar(name: str, count: int, start: int, whole: int, said: str) -> Text:
    """A bar that begins where the one before it ends, so that parts add up before the eye."""
    scale = min(1.0, BAR_COLUMNS / max(1, whole))
    left = round(start * scale)
    length = max(1, round((start + count) * scale) - left) if count else 0
    text = Text(f"{name:<12}{count:>5} ")
    text.append(" " * left + "█" * length, style="green" if name != "evidence" else "yellow")
    text.append(" " * (round(whole * scale) - left - length + 1) + said, style="dim")
    return text


def binding_parts(found: Binding) -> list[RenderableType]:
    """Every constraint with its distance, the binding one first."""
    table = plain_table(
        "Binding constraints",
        "constraint",
        "now",
        "limit",
        "left",
        "limit at",
        f"with {RELIEF_RATIO - 1:.0%} more of it",
    )
    for place, line in enumerate(found.lines):
        name = Text(line.name, style="bold" if place == 0 else "")
        if place < 2:
            first = " (binds)" if found.is_met else " (nearest)"
            name.append(first if place == 0 else " (next)", style="dim")
        table.add_row(
            name,
            show(line.value, line.unit),
            show(line.limit_value, line.unit),
            f"{line.distance_fraction:.0%}",
            _growth(line.growth_fraction),
            _relief(line),
        )
    said = f"Last column: how much more load 25 % more of it would allow; {found.basis} step times."
    return [table, *(Text(f"Note: {note}") for note in found.notes), Text(said, style="dim")]


def _growth(growth: float | None) -> str:
    if growth is None:
        return ""
    return f"{growth:+.0%} traffic"


def _relief(line: Constraint) -> str:
    return "" if line.freed is None else f"{line.freed.value:+.0%} load"


def headroom_parts(found: Headroom) -> list[RenderableType]:
    """How much more of each the planned replicas take."""
    table = plain_table(
        f"Headroom of {counted(found.replicas, 'replica')} at {show(found.rate_rps, 'req/s')}",
        "change",
        "SLOs met up to",
        "",
        "then violated",
    )
    widest = max((line.holds_fraction for line in found.lines), default=0.0)
    for line in found.lines:
        table.add_row(line.what, f"{line.holds_fraction:.0%}", _share_bar(line.holds_fraction, widest), _then(line))
    return [table, *(Text(f"Note: {note}") for note in found.notes)]


def _share_bar(share: float, widest: float) -> Text:
    return Text("█" * round(BAR_COLUMNS / 2 * share / widest) if widest > 0.0 else "", style="cyan")


def _then(line: LoadMargin) -> str:
    if line.breaks_fraction is None:
        return "nothing tried"
    return f"{line.breaks} at {line.breaks_fraction:.0%}"


def packing_parts(found: Packing) -> list[RenderableType]:
    """The chosen machine first, the others to compare with; none that cannot hold the replica's parallelism."""
    table = plain_table("Nodes", "machine", "provider", "devices each", "nodes", "devices", "used", "spare", "stranded")
    rows = [each for each in found.rows if each is found.chosen or not each.spans_nodes]
    for row in sorted(rows, key=lambda each: each is not found.chosen):
        name = Text(row.shape.name, style="bold" if row is found.chosen else "dim")
        counts = (row.shape.devices, row.nodes, row.devices, row.used_devices, row.spare_devices, row.stranded_devices)
        said = [Text(str(each), style="" if row is found.chosen else "dim") for each in counts]
        if row.spans_nodes:
            name.append(" (tensor parallelism spans nodes)")
        table.add_row(name, Text(row.shape.provider, style="dim"), *said)
    return [table, *(Text(f"Note: {note}") for note in found.notes)]


def tool_parts(found: ToolLoads) -> list[RenderableType]:
    """What tasks wait for: load against capacity, and the KV it holds."""
    table = plain_table("Tools", "tool", "load", "capacity", "used", "waiting", "KV held", "recomputed")
    for line in found.lines:
        limited = math.isfinite(line.capacity_tasks_per_s)
        table.add_row(
            line.name,
            show(line.tasks_per_s, "tasks/s"),
            f"{show(line.capacity_tasks_per_s, 'tasks/s')} by {line.limited_by}" if limited else line.limited_by,
            f"{line.use_fraction:.0%}" if limited else "",
            show(line.waiting_requests, "sequences"),
            show(line.held_tokens, "tokens"),
            show(line.recomputed_tokens_per_s, "tokens/s"),
        )
    return [table, *(Text(f"Note: {note}") for note in found.notes)]


def routing_parts(found: Routed) -> list[RenderableType]:
    """Which pool sees what part of a class."""
    table = plain_table("Routes", "class", "pool", "part", "planning rate")
    for line in found.lines:
        table.add_row(line.request_class, line.pool, f"{line.part_fraction:.3g}", show(line.planning_rps, "req/s"))
    return [table, *(Text(f"Note: {note}") for note in found.notes)]


def sun_lines(plan: Plan) -> list[RenderableType]:
    """What regions would save that serve each other's users, one line for each pool that stands in several."""
    found = following_the_sun(plan)
    return ["", *(Text(_sun(each)) for each in found)] if found else []


def _sun(found: SunSaving) -> str:
    name = f"Following the sun, {visible(found.pool)}"
    if found.pooled_replicas is None:
        return f"{name}: {visible(found.why)}."
    pooled = int(number(found.pooled_replicas))
    return (
        f"{name}: sized apart, regions need {counted(found.apart_replicas, 'steady replica')}; serving each other's "
        "users, "
        f"{pooled}: {counted(found.saved_devices, 'device')} fewer, at the cost of cross-region requests."
    )
