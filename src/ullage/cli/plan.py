"""`ullage plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Diff,
    Every,
    Explain,
    Markdown,
    NoColor,
    PlanArgument,
    Quiet,
    Seed,
    Set,
    Traffic,
)
from ullage.cli.terminal import answer, answer_json, answer_text, answered, progress, talk
from ullage.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.verbs.plan_answer import PlanAnswer


def command(
    file: PlanArgument = None,
    changed: Set = None,
    traffic: Traffic = None,
    explain: Explain = None,
    section: Annotated[
        list[str] | None,
        typer.Option("--section", metavar="NAME", help="Print a section: limits, losses, money, fleet, ... Repeat."),
    ] = None,
    every: Every = False,
    markdown: Markdown = False,
    diff: Diff = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Plan a fleet: what to buy, why, what it costs and what it survives, on one screen.

    With --set or --traffic the plan is made twice, and printed with both answers side by side. The last line names what
    this version does not have. --section and --all print what the screen was made from.
    """
    from ullage import verbs
    from ullage.report.plan.page import check_sections
    from ullage.verbs.answer import Refusal
    from ullage.verbs.compare import changed_since
    from ullage.verbs.what_if import WhatIf, last, what_if

    names = check_sections(section or ())
    if file is None:
        talk("No plan file given: planning the built-in example.", quiet=quiet)
    with progress("planning", quiet=quiet) as report:
        found = what_if(
            lambda **what: verbs.plan(file, as_of=as_of, seed=seed, progress=report, **what), changed, traffic
        )
        plan = last(found)
        since = None if diff is None or isinstance(plan, Refusal) else changed_since(diff, plan)
    if isinstance(plan, Refusal) or isinstance(since, Refusal):
        return answered(since or found, json=json, no_color=no_color)
    if since is not None:
        return answered(since, json=json, markdown=True, no_color=no_color)
    if explain is not None:
        return _explain(plan, explain, json=json, no_color=no_color)
    if json:
        return answered(found, json=True)
    block = [*found.block(), ""] if isinstance(found, WhatIf) else []
    _print(plan, block, names, every=every, markdown=markdown, no_color=no_color)
    return ExitCode.OK


def _print(
    plan: PlanAnswer,
    block: list[RenderableType],
    names: Sequence[str],
    *,
    every: bool,
    markdown: bool,
    no_color: bool,
) -> None:
    """The screen, the sections that were asked for, or a comment for a merge request; a what-if's table first."""
    from ullage.report.markdown import to_markdown
    from ullage.report.plan.page import SECTIONS, plan_document, plan_markdown, plan_page, plan_sections

    if markdown:
        first = f"{to_markdown(block)}\n" if block else ""
        answer_text(first + plan_markdown(plan, tuple(names) or tuple(SECTIONS), every=every))
    elif names:
        answer(*block, *plan_sections(plan, names, every=every)[1:], no_color=no_color)
    else:
        answer(*block, *(plan_document(plan) if every else plan_page(plan)), no_color=no_color)


def _explain(plan: PlanAnswer, name: str, *, json: bool, no_color: bool) -> int:
    from ullage.report.encode import explained_json
    from ullage.report.explanation import explanation

    figure = plan.find(name)
    if json:
        answer_json(explained_json("plan", figure, as_of=plan.as_of))
    else:
        answer(explanation(figure, plan.as_of), no_color=no_color)
    return ExitCode.OK
