"""Rules in the shadow of the live autoscaler, as a page: hours and violations side by side, and where they differ."""

from __future__ import annotations

import datetime

from rich.console import RenderableType
from rich.text import Text

from ullage.foreign import visible
from ullage.reconcile.shadow import ShadowedPool, ShadowStretch
from ullage.report.tables import plain_table
from ullage.scaling.judged import RuleResult


def shadow_page(found: ShadowedPool) -> list[RenderableType]:
    span = f"{_time(found.start_s)} to {_time(found.end_s)} UTC"
    parts: list[RenderableType] = [
        Text(f"{visible(found.pool)}: rules on production's traffic, {span}", style="bold"),
        Text(f"{found.requests:,} requests, from {visible(found.source)}", style="dim"),
        "",
        _sides(found),
    ]
    if found.stretches:
        parts += ["", _differences(found)]
    parts += ["", *(Text(each, style="dim") for each in found.notes)]
    return parts


def _sides(found: ShadowedPool) -> RenderableType:
    columns = ("rule", "replica-hours", "replicas", "violated", "SLOs", "worst", "why")
    table = plain_table("", *columns)
    table.add_row(*_side(found.live, found.live_hours))
    for each in found.rules:
        table.add_row(*_side(each, each.replica_hours))
    return table


def _side(found: RuleResult, hours: float) -> tuple[str, ...]:
    why = ", ".join(f"{name} {count:,}" for name, count in found.causes.items())
    return (
        visible(found.name),
        f"{hours:,.1f}",
        f"{found.least_replicas} to {found.most_replicas}",
        f"{found.violated_requests:,} of {found.requests:,}",
        "met" if found.is_met else "violated",
        visible(found.attainment.slo_name),
        why or "-",
    )


def _differences(found: ShadowedPool) -> RenderableType:
    more = f"; {found.more_stretches} more" if found.more_stretches else ""
    title = f"Where they differ, most violations first{more}"
    table = plain_table(title, "from", "until", "live", "rule", "need", "why")
    for each in found.stretches:
        table.add_row(*_stretch(each))
    return table


def _stretch(each: ShadowStretch) -> tuple[str, ...]:
    return (
        _time(each.from_s),
        _time(each.until_s)[11:],
        f"{each.live_replicas:.1f}",
        f"{each.rule_replicas:.1f}",
        f"{each.needed_replicas:.1f}",
        visible(each.why),
    )


def _time(at_s: float) -> str:
    return datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M")
