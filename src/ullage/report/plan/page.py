"""A plan as pages: the answer on one screen, sections by name, and the long document of all of them."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ullage.errors import NotGiven, check_name
from ullage.evidence import Assumption, Figure
from ullage.foreign import markdown, visible
from ullage.planning.answer.answer import answer
from ullage.planning.document import Plan, Stage
from ullage.report.evidence_style import evidence_text
from ullage.report.markdown import details, fenced, to_markdown
from ullage.report.money.bill_page import bill_parts
from ullage.report.plan import sheets as sheet_page
from ullage.report.plan.admission import admission_parts
from ullage.report.plan.fleet import (
    binding_parts,
    headroom_parts,
    packing_parts,
    routing_parts,
    steady_parts,
    sun_lines,
    tool_parts,
)
from ullage.report.plan.reserves import loss_parts, part_table, reserve_parts, stacked_lines
from ullage.report.plan.screen import Screen
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


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """A named part of the long document: the stages it shows, and tables of its own before and after them."""

    title: str
    stages: tuple[str, ...] = ()
    before: tuple[Callable[[Plan], list[RenderableType]], ...] = ()


def _stage_section(plan: Plan) -> list[RenderableType]:
    return [_stage_table(plan)]


def _inputs(plan: Plan) -> list[RenderableType]:
    return [*sheet_page.input_sheet(plan), "", _input_table(plan)]


SECTIONS = {
    "traffic": PageSection(title="Traffic and demand", stages=("workload", "demand", "routing")),
    "memory": PageSection(title="Device memory", stages=("memory",)),
    "curve": PageSection(
        title="Step times, service curve, operating point", stages=("step_model", "service_curve", "operating_point")
    ),
    "fleet": PageSection(
        title="Replicas and machines",
        stages=("steady_fleet", "packing", "disaggregated", "tools"),
        before=(sun_lines,),
    ),
    "growth": PageSection(title="Headroom and what binds", stages=("headroom", "binding")),
    "limits": PageSection(title="Admission limits", stages=("admission_limits",)),
    "startup": PageSection(title="Time to ready", stages=("time_to_ready",)),
    "reserves": PageSection(title="Reserves", stages=("reserves",), before=(stacked_lines,)),
    "shapley": PageSection(title="What the fleet is made up of", before=(part_table,)),
    "losses": PageSection(title="Losses", stages=("loss_checks",)),
    "scaling": PageSection(title="Scaling", stages=("scaling",)),
    "money": PageSection(title="Bill", stages=("bill",)),
    "risk": PageSection(title="Uncertainty", stages=("uncertainty", "reconcile")),
    "margins": PageSection(title="Margins", stages=("margins",), before=(sheet_page.margins,)),
    "scorecard": PageSection(title="Scorecard", stages=("utilisation", "scorecard"), before=(sheet_page.scorecard,)),
    "questions": PageSection(title="Questions a plan must answer", before=(sheet_page.questions,)),
    "inputs": PageSection(title="Inputs", before=(_inputs,)),
    "assumptions": PageSection(
        title="Assumptions",
        before=(sheet_page.basis_table, sheet_page.assumption_table, sheet_page.not_guaranteed_list),
    ),
    "stages": PageSection(title="Stages", before=(_stage_section,)),
}
"""Every stage is in one section, and every section can be asked for by name."""


def plan_page(plan: Plan) -> list[RenderableType]:
    """The answer on one screen."""
    return [Screen(answer=answer(plan))]


def plan_document(plan: Plan) -> list[RenderableType]:
    """The answer, every section with every figure, and what it was made from."""
    return [*plan_page(plan), *plan_sections(plan, tuple(SECTIONS), every=True), "", *_closing(plan)]


def plan_sections(plan: Plan, names: Sequence[str], *, every: bool) -> list[RenderableType]:
    """The named sections in the order of the document; `every` figure of their stages, or the main ones."""
    return [part for name in SECTIONS if name in names for part in ("", *_section(plan, name, every=every))]


def check_sections(names: Iterable[str]) -> tuple[str, ...]:
    """The names, all of them known; a plan takes seconds, and a slip is answered before it."""
    for name in names:
        check_name(name, SECTIONS, field="--section")
    return tuple(names)


def plan_markdown(plan: Plan, names: Sequence[str] = tuple(SECTIONS), *, every: bool = False) -> str:
    """A comment for a merge request: the answer, and sections that open on a click."""
    found = answer(plan)
    screen = "\n".join(line.plain for line in Screen(answer=found).lines())
    folded = [
        details(SECTIONS[name].title, to_markdown(parts))
        for name in SECTIONS
        if name in names and (parts := _section(plan, name, every=every))
    ]
    title = f"## {found.verdict.value}: {markdown(visible(found.service))}, {found.as_of.isoformat()}"
    return "\n\n".join([title, fenced(screen), *folded, to_markdown(_closing(plan))])


def _section(plan: Plan, name: str, *, every: bool) -> list[RenderableType]:
    section = SECTIONS[name]
    parts = [part for draw in section.before for part in draw(plan)]
    pool = ""
    for stage in (each for wanted in _pools(plan) for each in plan.stages if each.pool == wanted):
        drawn = _drawn(stage, every=every) if stage.name in section.stages else []
        if drawn and stage.pool != pool:
            parts += ["", Text(f"Pool {stage.pool}", style="bold")]
            pool = stage.pool
        parts += ["", *drawn] if drawn else []
    return parts[1:] if parts and parts[0] == "" else parts


def _pools(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.pool for each in plan.stages))


def _drawn(stage: Stage, *, every: bool) -> list[RenderableType]:
    """A stage's own page, the figures that are asked for, and its notes, once."""
    if isinstance(stage.answer, NotGiven):
        return [Text(f"{_title(stage).capitalize()}: {stage.answer.instead} {stage.answer.fix}")]
    page = _PAGES[stage.name](stage.answer) if stage.name in _PAGES else []
    shown = tuple(stage.figures.values()) if every else _main(stage)
    figures: list[RenderableType] = [_figures(_title(stage).capitalize(), shown)] if shown else []
    more = len(stage.figures) - len(shown)
    if more and figures:
        figures.append(Text(f"and {more} more: --all", style="dim"))
    notes = [] if page else [Text(f"Note: {note}") for note in stage.notes]
    return [*page, *([""] if page and figures else []), *figures, *notes]


def _input_table(plan: Plan) -> RenderableType:
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
        if isinstance(stage.answer, NotGiven):
            table.add_row(
                _title(stage), Text("not given", style="yellow"), f"{stage.answer.instead} {stage.answer.fix}"
            )
        else:
            table.add_row(_title(stage), Text("built", style="green"), f"{len(stage.figures)} figures")
    return table


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
    rests = f"{len(plan.assumptions)} assumptions, {len(plan.stale)} of them past their maximum age."
    return [
        Text(f"As of {plan.as_of.isoformat()}, seed {plan.seed}. {rests}"),
        Text("ullage plan --explain NAME traces any name above back to its sources.", style="dim"),
    ]


def _title(stage: Stage) -> str:
    title = stage.name.replace("_", " ")
    return f"{title} of {stage.pool}" if stage.pool else title
