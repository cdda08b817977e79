"""Reserves and loss checks as they are printed: every line by itself, both sums, and every check with its verdict."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ullage.evidence import Figure, number
from ullage.fleet.losses import LossCheck, LossTable, LossVerdict
from ullage.fleet.reserves import Reserves
from ullage.foreign import visible
from ullage.planning.document import Plan
from ullage.planning.reserve_parts import FleetParts, fleet_parts
from ullage.report.evidence_style import evidence_text
from ullage.report.quantity import counted, show, show_usd
from ullage.report.tables import plain_table
from ullage.service.trial.attainment import Attainment

_STYLES = {
    LossVerdict.HOLDS: "green",
    LossVerdict.UNDECIDED: "yellow",
    LossVerdict.BREAKS: "red",
    LossVerdict.OUTAGE: "red",
}


def reserve_parts(answer: Reserves) -> list[RenderableType]:
    """The lines, what they come to both ways, and where all replicas stand."""
    table = plain_table("Reserves", "reserve", "replicas", "devices", "evidence", "rule", "protects")
    for line in answer.lines:
        table.add_row(
            line.name, str(line.replicas), str(line.devices), evidence_text(line.evidence), line.rule, line.protects
        )
    each = answer.devices_per_replica
    for name, replicas, why in (
        ("sum", answer.sum_replicas, "as if all of it happened at once"),
        ("overlap", answer.overlap_replicas, f"of {_groups(answer)} whichever is larger"),
        ("bought", answer.replicas, f"the {answer.settings.policy.counted.value}, on top of {answer.steady_replicas}"),
    ):
        style = "bold" if name == "bought" else "dim"
        table.add_row(*(Text(cell, style=style) for cell in (name, str(replicas), str(replicas * each), "", why, "")))
    return [table, "", _placement(answer), *(Text(f"Note: {note}") for note in answer.notes)]


def part_table(plan: Plan) -> list[RenderableType]:
    """The fleet by what makes it necessary, one after the other and by Shapley; both sum to what is bought."""
    parts: list[RenderableType] = []
    for each in fleet_parts(plan):
        of = f" of {visible(each.pool)}" if len(plan.pools) > 1 else ""
        table = plain_table(f"What the fleet{of} is made up of", "cause", "replicas, in order", "by Shapley")
        for one in each.parts:
            table.add_row(one.name, f"{one.replicas:g}", f"{one.shapley_replicas:.2f}")
        whole = sum(one.shapley_replicas for one in each.parts)
        table.add_row(*(Text(cell, style="bold") for cell in ("bought", str(each.replicas), f"{whole:.2f}")))
        parts += ["", table]
    return parts


def stacked_lines(plan: Plan) -> list[RenderableType]:
    """What margins that are stacked, each at its own percentile, would have bought."""
    return ["", *(Text(_stacked(each, several=len(plan.pools) > 1)) for each in fleet_parts(plan))]


def _stacked(found: FleetParts, *, several: bool) -> str:
    of = f"{visible(found.pool)}: " if several else ""
    stacked = found.stacked
    if stacked is None:
        return f"{of}Stacked margins would exceed the quotas."
    here = f"{counted(found.replicas, 'replica')} on {counted(found.nodes, 'machine')}{_month(found.usd)}"
    there = (
        f"{counted(stacked.replicas, 'replica')} ({stacked.steady_replicas} steady, {stacked.reserve_replicas} in "
        f"reserve) on {counted(stacked.nodes, 'machine')}{_month(stacked.usd)}"
    )
    return (
        f"{of}Bought: {here}. Stacked margins (the 95th percentile of demand at the 90th of step times, every reserve "
        f"by itself on top) would have bought {there}."
    )


def _month(usd: Figure | None) -> str:
    return "" if usd is None else f", {show_usd(number(usd))} USD a month"


def _groups(answer: Reserves) -> str:
    return ", ".join(" and ".join(group) for group in answer.settings.policy.groups) or "nothing"


def _placement(answer: Reserves) -> RenderableType:
    table = plain_table("Placement of steady fleet and reserves", "region", "zone", "replicas", "devices", "quota")
    for row in answer.placement.rows:
        quota = "not stated" if row.quota_devices is None else f"{row.quota_devices} devices"
        table.add_row(row.region, row.zone, str(row.replicas), str(row.devices), quota)
    return table


def loss_parts(answer: LossTable) -> list[RenderableType]:
    """Every check: attainment before, during and after it, how long it hurt, and what that says."""
    table = plain_table(
        "Loss checks, simulated", "check", "covered by", "before", "during", "after", "recovers in", "verdict"
    )
    for check in answer.checks:
        table.add_row(
            check.title,
            check.covered_by or Text("nothing", style="dim"),
            _kept(check.before),
            _kept(check.during),
            _kept(check.after),
            _recovery(check),
            Text(str(check.verdict), style=_STYLES[check.verdict]),
        )
    legend = Text("Share of requests within the worst-attained SLO, with 95 % intervals.", style="dim")
    reasons = [Text(f"{each.title}: {each.reason}.") for each in answer.checks if each.reason]
    return [table, legend, *reasons, *(Text(f"Note: {note}") for note in answer.notes)]


def _kept(part: Attainment | None) -> str:
    if part is None:
        return "-"
    found = part.attained
    return f"{100 * found.value:.1f} ± {50 * (found.high - found.low):.1f} %"


def _recovery(check: LossCheck) -> str:
    if check.verdict is LossVerdict.OUTAGE:
        return "-"
    if check.recover_s is None:
        return "not observed"
    return "at once" if check.recover_s == 0.0 else show(check.recover_s, "s")
