"""Scaling rules side by side: a table, a chart of a day, the thresholds as a formula, bursts and robustness."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.tables import plain_table
from ullage.scaling.compare import ScalingChart, ScalingComparison
from ullage.scaling.judged import RuleResult

_BLOCKS = " ▁▂▃▄▅▆▇█"


def scaling_page(found: ScalingComparison, *, is_alone: bool = True) -> list[RenderableType]:
    """`is_alone` where the plan has one pool, so that its `scaling` section can state the rule."""
    plan = found.plan
    stated = f"{{{', '.join(f'{key}: {value}' for key, value in found.settings.items())}}}"
    parts: list[RenderableType] = [
        Text(f"Scaling of {found.pool}: {_saved(found)}", style="bold"),
        Text(f"Signal      {plan.signal}: {plan.query}"),
        Text(f"Derived     {found.derived.formula} for each replica"),
        Text(f"Searched    {_searched(found)}"),
        Text(
            f"Replicas    {plan.least_replicas} to {plan.most_replicas}; up at once, down after "
            f"{plan.down_window_s:.0f} s" + (", floor scheduled by hour of week" if plan.schedule else "")
        ),
        *([Text(f"Plan key    scaling: {stated}")] if is_alone else []),
        Text(
            f"Chosen on   hours of {', '.join(found.searched)}{_days(found)}; {found.tried_rules} rules tried"
            f"{_violated(found)}",
            style="dim",
        ),
        Text(f"Judged on   {', '.join(found.traffic)}", style="dim"),
        *_cheaper(found),
        *_equal(found),
        "",
        _table(found),
        "",
    ]
    parts += _chart(found.chart)
    parts += ["", Text("SLO violations by cause", style="bold"), *_causes(found.results)]
    parts += ["", *_bursts(found), "", _robustness(found)]
    parts += ["", *(Text(f"Note: {each}", style="dim") for each in found.notes)]
    return parts


_STEPS = {
    "threshold_value": "threshold",
    "window_s": "averaging window",
    "floor_fraction": "floor",
    "down_s": "down window",
    "least_replicas": "minimum",
    "most_replicas": "maximum",
    "node_held_s": "nodes held empty",
    "sleepers": "engines asleep",
}
_UNITS = {"window_s": " s", "down_s": " s", "node_held_s": " s"}


def _searched(found: ScalingComparison) -> str:
    """What the search made of each value, in order, and the cost of its weeks by then."""
    said = []
    for each in found.steps:
        unit = _UNITS.get(each.name, "")
        moved = (
            f"{each.derived_value:g} -> {each.chosen_value:g}"
            if each.chosen_value != each.derived_value
            else f"{each.derived_value:g}"
        )
        said.append(f"{_STEPS[each.name]} {moved}{unit} ({each.cost_hours:.0f} h)")
    return ", ".join(said)


def _days(found: ScalingComparison) -> str:
    return f", then whole days ({', '.join(found.searched_days)})" if found.searched_days else ""


def _violated(found: ScalingComparison) -> str:
    """A rule may be chosen on a week that no fleet of this size serves within the SLOs: then it is held to less."""
    margin = found.searched_margin_fraction
    if margin >= 0.0:
        return ""
    return f"; on the worst of them {-100 * margin:.1f} points below its SLO: required only to match the fixed fleet"


def _saved(found: ScalingComparison) -> str:
    met = "meets every SLO" if found.ours.is_met else f"violates {found.ours.attainment.slo_name}"
    return f"{found.saving_fraction:.0%} fewer replica-hours than the fixed fleet of {found.fixed.most_replicas}, {met}"


def _cheaper(found: ScalingComparison) -> list[RenderableType]:
    """Rules that meet every SLO for fewer hours on this traffic, those of warm levels among them, as the search counts
    them; and why ours is not one of them."""
    ours = found.ours
    names = [each.name for each in found.results if each.is_met and each.paid_hours < ours.paid_hours]
    if not names or not ours.is_met:
        return []
    least = min(each.least_replicas for each in found.results if each.name in names)
    why = (
        f"they scale down to {least}, this rule keeps {found.plan.least_replicas} (scaling.least sets the minimum)"
        if least < found.plan.least_replicas
        else "this rule keeps room for days that ramp faster"
    )
    return [Text(f"Cheaper     {', '.join(names)} meet every SLO here too: {why}")]


def _equal(found: ScalingComparison) -> list[RenderableType]:
    """Ours where nobody is to wait longer than under a rule that attains more than the SLOs ask for."""
    equal = found.equal
    if equal is None:
        return []
    stated = f"{{{', '.join(f'{key}: {value}' for key, value in equal.chosen.choice.settings().items())}}}"
    more = "fewer" if equal.saving_fraction >= 0.0 else "more"
    return [
        Text(
            f"Equal       to attain as much as {equal.chosen.against}: scaling: {stated}; "
            f"{abs(equal.saving_fraction):.0%} {more} replica-hours than it"
        )
    ]


def _table(found: ScalingComparison) -> RenderableType:
    table = plain_table(
        "", "rule", "worst SLO", "met", "replica-h", "lag", "over", "under", "reversals/h", "max queue", "replicas"
    )
    equal = [] if found.equal is None else [found.equal.result]
    rows = [*found.results, *equal, found.fixed, *([] if found.clairvoyant is None else [found.clairvoyant])]
    for each in rows:
        name = f"{each.name} (running now)" if each.name in found.present else each.name
        attained = each.attainment.attained
        half = (attained.high - attained.low) / 2.0
        table.add_row(
            name,
            f"{100 * attained.value:.2f} ± {100 * half:.2f} % of {each.attainment.slo_name}",
            Text("yes", style="green") if each.is_met else Text("no", style="red"),
            f"{each.replica_hours:.0f}",
            show(each.decision_lag_s, "s"),
            f"{each.overshoot_fraction:.0%}",
            f"{each.undershoot_fraction:.1%}",
            f"{each.turns_per_hour:.2g}",
            f"{each.most_waiting_requests:,}",
            f"{each.least_replicas}-{each.most_replicas}",
        )
    return table


def _causes(results: Sequence[RuleResult]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for each in results:
        ordered = sorted(each.causes.items(), key=lambda pair: -pair[1])
        said = ", ".join(f"{cause} {count / max(each.requests, 1):.2%}" for cause, count in ordered)
        lines.append(Text(f"  {each.name}: {said or 'none'}"))
    return lines


def _bursts(found: ScalingComparison) -> list[RenderableType]:
    """What a rule without any lag still violates, and what would take it."""
    head: list[RenderableType] = [Text("Bursts that no reactive rule absorbs", style="bold")]
    head += [
        Text(
            f"  {each.traffic} {_clock(each.at_s)}: {each.lasted_s / 60:.0f} min, need {each.peak_ratio:.2f} "
            f"times what was ready, {each.violated_requests:,} requests outside their SLO"
        )
        for each in found.bursts
    ]
    if not found.bursts:
        head.append(Text("  none in the hours searched"))
    if found.reserve_replicas is None:
        head.append(Text("  No warm reserve of up to 16 replicas absorbs them: shed load, or start hot."))
    elif found.reserve_replicas:
        head.append(Text(f"  {found.reserve_replicas} more warm replicas would absorb them."))
    return head


def _clock(at_s: float) -> str:
    """
    >>> _clock(36_120.0)
    '10:02'
    """
    return f"{int(at_s // 3600):02d}:{int(at_s % 3600 // 60):02d}"


def _robustness(found: ScalingComparison) -> RenderableType:
    table = plain_table("When it is worse than planned", "case", "worst SLO", "met", "replica-h", "lag", "max queue")
    for each in found.robustness:
        one = each.result
        table.add_row(
            each.name,
            f"{100 * one.attainment.attained.value:.2f} % of {one.attainment.slo_name}",
            Text("yes", style="green") if one.is_met else Text("no", style="red"),
            f"{one.replica_hours:.0f}",
            show(one.decision_lag_s, "s"),
            f"{one.most_waiting_requests:,}",
        )
    return table


def _chart(chart: ScalingChart) -> list[RenderableType]:
    """A day as lines of blocks, all of replicas on one scale."""
    most = max(*chart.needed_replicas, *chart.ready_replicas, *chart.asked_replicas, 1.0)
    waited = max(*chart.waiting_requests, 1.0)
    lines: list[RenderableType] = [Text(f"{chart.rule} on {chart.traffic}", style="bold")]
    for name, values, top in (
        ("need", chart.needed_replicas, most),
        ("requested", chart.asked_replicas, most),
        ("ready", chart.ready_replicas, most),
        ("waiting", chart.waiting_requests, waited),
    ):
        # Two points to a column, so that a line fits a terminal of 80.
        pairs = [sum(values[at : at + 2]) / len(values[at : at + 2]) for at in range(0, len(values), 2)]
        drawn = "".join(_BLOCKS[round((len(_BLOCKS) - 1) * value / top)] for value in pairs)
        lines.append(Text(f"  {name:<10}{drawn} {top:,.0f}"))
    return lines
