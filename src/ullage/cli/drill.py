"""`ullage drill`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, talk, waiting
from ullage.errors import ExitCode, Rejection


def command(
    file: Annotated[str | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Which drills to play. Default: all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the drills and what each asks.")] = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Play on a plan what goes wrong in practice, each with a verdict, a figure and the change that would pass.

    Drills may be named without a file. The exit code is 3 where a drill fails.
    """
    from ullage import verbs
    from ullage.report.decisions.drill_page import drill_list, drill_page
    from ullage.report.encode import document, to_text

    if listed:
        answer(drill_list(), no_color=no_color)
        return ExitCode.OK
    asked = list(names or ())
    if file is not None and not Path(file).suffix and not Path(file).exists():
        # A word that is no file is meant as a drill, spelt well or not.
        asked = [file, *asked]
        file = None
    if file is None:
        talk("No plan file given: drilling the built-in example.", quiet=quiet)
    with waiting("drilling", quiet=quiet):
        found = verbs.drill(None if file is None else Path(file), asked, as_of=as_of, seed=seed)
    if isinstance(found, Rejection):
        return answer_refusal("drill", found, json=json, no_color=no_color)
    plan = found.plan
    if json:
        answer_text(to_text(document("drill", found.drills, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name)))
    else:
        answer(*drill_page(found.plan, found.drills), no_color=no_color)
    return ExitCode.REFUSED if found.drills.failed else ExitCode.OK
