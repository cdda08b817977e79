"""A plan laid over what runs: have, need and change by pool, then risks, then steps in order."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ullage.planning.brownfield.brownfield import Brownfield
from ullage.planning.brownfield.risks import Risk, RiskSeverity
from ullage.planning.brownfield.running import Running
from ullage.report.tables import plain_table


def brownfield_page(found: Brownfield, running: Running) -> list[RenderableType]:
    table = plain_table("Running and needed", "pool", "runs as", "have", "need", "change", "devices")
    for each in found.changes:
        run = each.running
        table.add_row(
            each.pool,
            "nothing" if run is None else f"{run.kind} {run.name}",
            f"{each.have_replicas} replicas",
            f"{each.need_replicas} replicas",
            f"{each.change_replicas:+d} replicas",
            f"{each.change_devices:+d}",
        )
    parts: list[RenderableType] = [table]
    free = "not known: no node was read" if found.free_devices is None else str(found.free_devices)
    parts.append(Text(f"Devices free today: {free}."))
    parts += [
        Text(f"{each.kind} {each.name} is running but in no plan; it keeps its devices.") for each in found.unplanned
    ]
    settings = [(each.pool, one) for each in found.changes for one in each.settings]
    if settings:
        table = plain_table("Settings that differ from the plan", "pool", "setting", "have", "need")
        for pool, one in settings:
            table.add_row(pool, one.name, one.have, one.need)
        parts += ["", table]
    table = plain_table("Limits of the plan", "pool", "limit", "have", "need")
    for each in found.changes:
        for one in each.limits:
            table.add_row(each.pool, one.name, one.have or "not stated", one.need)
    parts += ["", table]
    risks = [*(("", one) for one in found.risks), *((each.pool, one) for each in found.changes for one in each.risks)]
    parts += ["", Text("Risks", style="bold"), *_risks(risks)]
    parts += ["", Text("Steps, in order", style="bold")]
    steps = found.steps or ("Nothing to change.",)
    parts += [Text(f"{number}. {step}") for number, step in enumerate(steps, start=1)]
    parts += [Text(f"Not read: {each}", style="dim") for each in running.unread]
    return parts


def _risks(risks: list[tuple[str, Risk]]) -> list[RenderableType]:
    ranked = sorted(risks, key=lambda pair: pair[1].weight is not RiskSeverity.STOPS)
    lines = [f"- {each.weight.value}: {f'{pool}: ' if pool else ''}{each.sentence}" for pool, each in ranked]
    return [Text(line) for line in lines or ["- none found"]]
