"""A plan as a page: the verdict first, then the fleet, the questions, inputs, margins, stages and the scorecard."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ullage.cost.bill import Bill
from ullage.errors import NotBuilt, NotGiven
from ullage.evidence import Assumption, Figure
from ullage.fleet.losses import LossVerdict as Loss
from ullage.planning.document import Plan, Stage
from ullage.planning.pool_plan import PoolPlan
from ullage.report.evidence_style import evidence_text
from ullage.report.money.bill_page import bill_parts, money
from ullage.report.plan import sheets as sheet_page
from ullage.report.plan.admission import admission_parts
from ullage.report.plan.fleet import (
    binding_parts,
    counted,
    headroom_parts,
    packing_parts,
    routing_parts,
    steady_parts,
    tool_parts,
)
from ullage.report.plan.reserves import loss_parts, reserve_parts
from ullage.report.quantity import show
from ullage.report.tables import plain_table

_DAY = datetime.timedelta(days=1)

# What a reader wants first of each stage, as patterns of names; a stage that is not listed shows everything.
_MAIN = {
    "workload": (
        "workload.requests",
        "workload.mean_arrival_rate",
        "workload.dispersion_*",
        "workload.prompt_length_p*",
        "workload.output_length_p*",
        "workload.peak_hour_over_mean",
        "workload.prefix_reuse*",
    ),
    "demand": ("demand.planning_rate", "demand.token_rate", "demand.*.planning_rate", "demand.*.peak_minute"),
    "memory": (
        "memory.weights_bytes",
        "memory.kv_cache_bytes",
        "memory.margin_bytes",
        "memory.kv_tokens",
        "memory.sequences",
        "memory.headroom_bytes",
        "memory.longest_context_tokens",
    ),
    "operating_point": (
        "point.highest_rps",
        "point.margin_*",
        "point.operating_rps",
        "point.alone_goodput_per_device_rps",
    ),
    "time_to_ready": ("ready.cold_p?0_s", "ready.warm_p?0_s", "ready.hot_p?0_s"),
    "steady_fleet": ("fleet.replicas", "fleet.devices", "fleet.evidence_replicas", "size.pooled_goodput*"),
    # Their tables stand above and below.
    "margins": (),
    "scorecard": (),
    "routing": (),
    "headroom": (),
    "tools": (),
    "binding": (),
    "packing": (),
    "admission_limits": (),
    "reserves": (),
    "loss_checks": (),
    "bill": (),
}


# Stages whose figures are tables of their own, and the functions that draw them.
_PAGES: dict[str, Callable[[Any], list[RenderableType]]] = {
    "routing": routing_parts,
    "steady_fleet": steady_parts,
    "headroom": headroom_parts,
    "tools": tool_parts,
    "binding": binding_parts,
    "packing": packing_parts,
    "admission_limits": admission_parts,
    "reserves": reserve_parts,
    "loss_checks": loss_parts,
    "bill": bill_parts,
}


def plan_page(plan: Plan, *, every: bool = False) -> list[RenderableType]:
    """The parts of the page, top to bottom; `every` figure of each stage and every default, or the main ones."""
    return [
        _headline(plan),
        *_answers(plan),
        *sheet_page.questions(plan),
        *sheet_page.input_sheet(plan),
        *sheet_page.margins(plan),
        "",
        _input_sheet(plan),
        "",
        _stage_table(plan),
        *_figure_tables(plan, every=every),
        *sheet_page.scorecard(plan),
        *(sheet_page.assumption_table(plan) if every else []),
        *sheet_page.slo_limits(plan),
        "",
        *_closing(plan),
    ]


def _answers(plan: Plan) -> list[RenderableType]:
    """What a reader came for: fleet, reserves, limits and the bill, each drawn by its own page."""
    parts: list[RenderableType] = []
    pool = ""
    for stage in plan.stages:
        if stage.name in _PAGES and not isinstance(stage.answer, NotBuilt | NotGiven):
            if stage.pool and stage.pool != pool:
                parts += ["", Text(f"Pool {stage.pool}", style="bold")]
            pool = stage.pool
            parts += ["", *_PAGES[stage.name](stage.answer)]
    return parts


def _headline(plan: Plan) -> RenderableType:
    """The verdict, then each pool in two sentences, then what it costs."""
    missing = [each.name.replace("_", " ") for each in plan.stages if not each.is_built]
    text = Text(f"Plan for {plan.spec.name}: {plan.verdict.value}.", style="bold")
    if missing:
        text.append(f" Not built in this version: {', '.join(dict.fromkeys(missing))}.", style="not bold")
    for pool in plan.pools:
        named = f"{pool.spec.name}: " if len(plan.pools) > 1 else ""
        text.append(f"\n{named}{_fleet_sentence(pool)}\n{named}{_stress_sentence(pool)}", style="not bold")
    bill = next((each.answer for each in plan.stages if each.name == "bill"), None)
    if isinstance(bill, Bill):
        text.append(f"\n{_bill_sentence(bill)}", style="not bold")
    return text


def _fleet_sentence(pool: PoolPlan) -> str:
    steady, each = pool.steady_fleet, pool.memory.runtime.sharding.devices
    whole = steady.replicas + pool.reserves.replicas
    bare = (
        f" {steady.nominal_replicas} would do for that rate if step times were exactly nominal."
        if steady.nominal_replicas < steady.replicas
        else ""
    )
    return (
        f"{counted(whole, 'replica')} on {counted(whole * each, 'device')}: {steady.replicas} for "
        f"{show(pool.demand.planning_rps, 'req/s')} and {pool.reserves.replicas} in reserve.{bare}"
    )


def _stress_sentence(pool: PoolPlan) -> str:
    checks = pool.loss_checks.checks
    failing = [each.name for each in checks if each.verdict in (Loss.BREAKS, Loss.OUTAGE)]
    held = f"{len(checks) - len(failing)} of {len(checks)} simulated losses hold"
    broken = [each.name for each in pool.loss_checks.broken]
    uncovered = [each for each in failing if each not in broken]
    but = (f"; broken in spite of a reserve: {', '.join(broken)}" if broken else "") + (
        f"; not covered: {', '.join(uncovered)}" if uncovered else ""
    )
    return f"{_binding_sentence(pool)} {held}{but}."


def _binding_sentence(pool: PoolPlan) -> str:
    binding = pool.binding.binding
    if binding.growth_fraction is not None and binding.growth_fraction < 0.0:
        most, planned = show(binding.limit_value, binding.unit), show(binding.value, binding.unit)
        return f"Short of the plan already is {binding.name}, at most {most} of {planned}."
    if pool.binding.is_met:
        return f"What binds first is {binding.name}."
    tried = pool.headroom.line("traffic").holds_fraction
    return f"No SLO breaks up to {tried:.0%} more traffic; nearest is {binding.name}."


def _bill_sentence(bill: Bill) -> str:
    each = bill.figures.get("bill.per_success_usd")
    unpriced = f", {len(bill.unpriced)} lines not priced" if bill.unpriced else ""
    if not bill.is_of_devices:
        return f"No price of its devices is known: {money(bill.total_usd)} USD a month is for all else{unpriced}."
    per = "" if each is None else f"; {money(float(each.value))} USD a success"
    return f"{money(bill.total_usd)} USD a month{per}{unpriced}."


def _input_sheet(plan: Plan) -> RenderableType:
    table = plain_table("Inputs", "name", "value", "evidence", "source", "age")
    for each in plan.spec.inputs:
        table.add_row(*_input_row(each, plan.as_of))
    return table


def _input_row(each: Assumption, as_of: datetime.date) -> tuple[RenderableType, ...]:
    stale = " (past its maximum age)" if each.is_stale(as_of) else ""
    return (
        each.name,
        show(each.value, each.unit),
        evidence_text(each.evidence),
        each.source.what,
        f"{each.age(as_of) // _DAY} d{stale}",
    )


def _stage_table(plan: Plan) -> RenderableType:
    table = plain_table("Stages", "stage", "", "gives")
    for stage in plan.stages:
        if isinstance(stage.answer, NotBuilt):
            table.add_row(_title(stage), Text("not built", style="dim"), Text(stage.answer.gives, style="dim"))
        elif isinstance(stage.answer, NotGiven):
            table.add_row(
                _title(stage), Text("not given", style="yellow"), f"{stage.answer.instead} {stage.answer.fix}"
            )
        else:
            table.add_row(_title(stage), Text("built", style="green"), f"{len(stage.figures)} figures")
    return table


def _figure_tables(plan: Plan, *, every: bool) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for stage in plan.stages:
        shown = tuple(stage.figures.values()) if every else _main(stage)
        if shown:
            more = len(stage.figures) - len(shown)
            parts += ["", _figures(_title(stage).capitalize(), shown)]
            parts += [Text(f"and {more} more: --all", style="dim")] if more else []
            parts += [Text(f"Note: {note}") for note in stage.notes]
    return parts


def _main(stage: Stage) -> tuple[Figure, ...]:
    patterns = _MAIN.get(stage.name, ("*",))
    return tuple(
        figure
        for key, figure in stage.figures.items()
        if any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)
    )


def _figures(title: str, figures: tuple[Figure, ...]) -> RenderableType:
    table = plain_table(title, "figure", "value", "evidence", "how")
    for figure in figures:
        table.add_row(figure.name, show(figure.value, figure.unit), evidence_text(figure.evidence), figure.formula)
    return table


def _closing(plan: Plan) -> list[RenderableType]:
    rests = f"It rests on {len(plan.assumptions)} assumptions, {len(plan.stale)} of them past their maximum age."
    return [
        Text(f"As of {plan.as_of.isoformat()}, seed {plan.seed}. {rests}"),
        Text("ullage plan --explain NAME walks any name above back to its sources.", style="dim"),
    ]


def _title(stage: Stage) -> str:
    title = stage.name.replace("_", " ")
    return f"{title} of {stage.pool}" if stage.pool else title
