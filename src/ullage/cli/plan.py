"""`ullage plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Every, Explain, Markdown, NoColor, PlanArgument, Quiet, Seed, Set, Traffic
from ullage.cli.terminal import answer, answer_text, answered, progress, talk
from ullage.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.verbs.plan_answer import PlanAnswer


def command(
    file: PlanArgument = None,
    changed: Set = None,
    traffic: Traffic = None,
    explain: Explain = None,
    every: Every = False,
    markdown: Markdown = False,
    diff: Annotated[
        Path | None,
        typer.Option("--diff", metavar="OLD", help="Print as Markdown what changed since an older plan, and why."),
    ] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Plan a fleet: every stage in order, from traffic to cost, each number with its evidence.

    With --set or --traffic the plan is made twice, and printed with both answers side by side. A stage that this
    version does not have is listed as not built, by name.
    """
    from ullage import verbs
    from ullage.verbs.answer import Refusal
    from ullage.verbs.compare import changed_since
    from ullage.verbs.what_if import WhatIf, last, what_if

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
    _print(plan, block, every=every, markdown=markdown, no_color=no_color)
    return ExitCode.OK


def _print(plan: PlanAnswer, block: list[RenderableType], *, every: bool, markdown: bool, no_color: bool) -> None:
    from ullage.report.markdown import to_markdown
    from ullage.report.plan.page import plan_page

    page = [*block, *plan_page(plan, every=every)]
    if markdown:
        answer_text(to_markdown(page))
    else:
        answer(*page, no_color=no_color)


def _explain(plan: PlanAnswer, name: str, *, json: bool, no_color: bool) -> int:
    from ullage.report.explanation import explanation
    from ullage.report.plan.json_document import explanation_json, to_text

    figure = plan.find(name)
    if json:
        answer_text(to_text(explanation_json(figure)))
    else:
        answer(explanation(figure, plan.as_of), no_color=no_color)
    return ExitCode.OK
