"""`ullage check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, talk, waiting
from ullage.errors import ExitCode, Rejection


def command(
    file: Annotated[str | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Which checks to make. Default: all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the checks and what each looks for.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a merge request.")] = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Look for mistakes in a plan and in what is claimed of the service: each with both numbers and what mends it.

    Claims stand in the plan file, under claims. The exit code is 3 where a mistake is found; doubts are only printed.
    """
    from ullage import verbs
    from ullage.report.decisions.check_page import check_list, check_page
    from ullage.report.encode import document, to_text
    from ullage.report.markdown import to_markdown

    if listed:
        answer(check_list(), no_color=no_color)
        return ExitCode.OK
    asked = list(names or ())
    if file is not None and not Path(file).suffix and not Path(file).exists():
        # A word that is no file is meant as a check, spelt well or not.
        asked = [file, *asked]
        file = None
    if file is None:
        talk("No plan file given: checking the built-in example.", quiet=quiet)
    with waiting("checking", quiet=quiet):
        found = verbs.check(None if file is None else Path(file), asked, as_of=as_of, seed=seed)
    if isinstance(found, Rejection):
        return answer_refusal("check", found, json=json, no_color=no_color)
    plan = found.plan
    if json:
        answer_text(to_text(document("check", found.checks, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name)))
    elif markdown:
        answer_text(to_markdown(check_page(found.plan, found.checks)))
    else:
        answer(*check_page(found.plan, found.checks), no_color=no_color)
    return ExitCode.REFUSED if found.checks.mistakes else ExitCode.OK
