"""`ullage plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, talk, waiting
from ullage.errors import ExitCode, Rejection


def command(
    file: Annotated[Path | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="NAME", help="Walk one number back to its sources.")
    ] = None,
    section: Annotated[
        list[str] | None,
        typer.Option("--section", metavar="NAME", help="Print a section: limits, losses, money, fleet, ... Repeat."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print all sections with every figure, or every figure of the named ones.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a comment for a merge request: the answer, sections folded.")
    ] = False,
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
    """Plan a fleet: what to buy, why, what it costs and what it survives, on one screen.

    The last line names what this version does not have. --section and --all print what the screen was made from.
    """
    from ullage import verbs
    from ullage.report.encode import document, explained_json, to_text
    from ullage.report.explanation import explanation
    from ullage.report.markdown import to_markdown
    from ullage.report.plan.difference import difference_page
    from ullage.report.plan.json_document import plan_json
    from ullage.report.plan.page import SECTIONS, check_sections, plan_document, plan_markdown, plan_page, plan_sections
    from ullage.report.refusal import refusal_page
    from ullage.verbs.compare import changed_since

    names = check_sections(section or ())
    if file is None:
        talk("No plan file given: planning the built-in example.", quiet=quiet)
    with waiting("planning", quiet=quiet):
        plan = verbs.plan(file, as_of=as_of, seed=seed)
        changed = None if diff is None or isinstance(plan, Rejection) else changed_since(diff, plan)
    refused = plan if isinstance(plan, Rejection) else changed if isinstance(changed, Rejection) else None
    if refused is not None and markdown and not json:
        answer_text(to_markdown(refusal_page(refused)))
        return ExitCode.REFUSED
    if refused is not None:
        return answer_refusal("plan", refused, json=json, no_color=no_color)
    assert not isinstance(plan, Rejection)
    assert not isinstance(changed, Rejection)
    if changed is not None:
        answer_text(
            to_text(document("compare", changed)) if json else to_markdown(difference_page(changed, every=every))
        )
    elif explain is not None:
        found = plan.find(explain)
        if json:
            answer_text(to_text(explained_json("plan", found, as_of=plan.as_of)))
        else:
            answer(explanation(found, plan.as_of), no_color=no_color)
    elif json:
        answer_text(to_text(plan_json(plan)))
    elif markdown:
        answer_text(plan_markdown(plan, names or tuple(SECTIONS), every=every))
    elif names:
        answer(*plan_sections(plan, names, every=every)[1:], no_color=no_color)
    else:
        answer(*(plan_document(plan) if every else plan_page(plan)), no_color=no_color)
    return ExitCode.OK
