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
    every: Annotated[bool, typer.Option("--all", help="Print every figure of each stage, not the main ones.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the plan as Markdown.")] = False,
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

    A stage that this version does not have is listed as not built, by name.
    """
    from ullage import verbs
    from ullage.report.encode import document, explained_json, to_text
    from ullage.report.explanation import explanation
    from ullage.report.markdown import to_markdown
    from ullage.report.plan.difference import difference_page
    from ullage.report.plan.json_document import plan_json
    from ullage.report.plan.page import plan_page
    from ullage.verbs.compare import changed_since

    if file is None:
        talk("No plan file given: planning the built-in example.", quiet=quiet)
    with waiting("planning", quiet=quiet):
        plan = verbs.plan(file, as_of=as_of, seed=seed)
        changed = None if diff is None or isinstance(plan, Rejection) else changed_since(diff, plan)
    refused = plan if isinstance(plan, Rejection) else changed if isinstance(changed, Rejection) else None
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
        answer_text(to_markdown(plan_page(plan, every=every)))
    else:
        answer(*plan_page(plan, every=every), no_color=no_color)
    return ExitCode.OK
