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
    Keep,
    LedgerPlace,
    Limit,
    Markdown,
    NoColor,
    PlanArgument,
    Quiet,
    RunOn,
    Seed,
    Set,
    Traffic,
)
from ullage.cli.terminal import answer, answer_text, answered, explained, progress, talk
from ullage.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

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
    quick: Annotated[bool, typer.Option("--quick", help="Skip the risk study.")] = False,
    markdown: Markdown = False,
    diff: Diff = None,
    keep: Keep = False,
    ledger: LedgerPlace = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    run_on: RunOn = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Plan a fleet: what to buy, why, what it costs and what it survives, on one screen.

    With --set or --traffic the plan is made twice, and printed with both answers side by side. The last
    line of the screen names the options with more detail: --section and --all print what it was made from.
    """
    from ullage import verbs
    from ullage.report.plan.page import check_sections
    from ullage.verbs.answer import Refusal
    from ullage.verbs.compare import changed_since
    from ullage.verbs.what_if import WhatIf, last, what_if

    names = check_sections(section or ())
    if not keep and not _asks_risk(names, explain, json=json):
        quick = True
    if file is None:
        talk("No plan file given: planning the built-in example.", quiet=quiet)
    with progress("planning", quiet=quiet) as report:
        found = what_if(
            lambda **what: verbs.plan(
                file, as_of=as_of, seed=seed, quick=quick, limit=limit, run_on=run_on, progress=report, **what
            ),
            changed,
            traffic,
        )
        plan = last(found)
        since = None
        if diff is not None and not isinstance(plan, Refusal):
            since = changed_since(
                diff,
                plan,
                at_seed=lambda other: verbs.plan(
                    file, set=changed or (), traffic=traffic, as_of=as_of, seed=other, limit=limit
                ),
            )
    if isinstance(plan, Refusal) or isinstance(since, Refusal):
        return answered(since or found, json=json, no_color=no_color)
    if keep:
        _keep(plan, file, changed, traffic, ledger=ledger, quiet=quiet)
    if since is not None:
        return answered(since, json=json, markdown=True, no_color=no_color)
    if explain is not None:
        return explained(plan, explain, verb="plan", json=json, no_color=no_color)
    if json:
        return answered(found, json=True)
    block = [*found.block(), ""] if isinstance(found, WhatIf) else []
    _print(plan, block, names, every=every, markdown=markdown, no_color=no_color)
    return ExitCode.OK


def _asks_risk(sections: tuple[str, ...], explain: str | None, *, json: bool) -> bool:
    """Whether what is printed has anything of the risk in it; a study takes as long as the plan."""
    if explain is not None:
        return "risk" in explain
    return json or not sections or bool({"risk", "questions", "assumptions"} & {*sections})


def _keep(
    plan: PlanAnswer,
    file: Path | None,
    changed: list[str] | None,
    traffic: str | None,
    *,
    ledger: str | None,
    quiet: bool,
) -> None:
    """Keep the plan with its changes, and say under which name."""
    from ullage.load.changes import parse_changes
    from ullage.verbs.ledger import keep_plan

    digest, place, is_new = keep_plan(plan, file, parse_changes(changed or (), traffic), ledger=ledger)
    talk(f"{'Stored' if is_new else 'Already stored'} as {digest[:12]} in {place}.", quiet=quiet)


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
