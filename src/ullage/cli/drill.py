"""`ullage drill`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Explain, Limit, Listed, NoColor, Quiet, RunOn, Seed, Set, Traffic
from ullage.cli.terminal import answer, answered, explained, progress, talk
from ullage.errors import ExitCode


def command(
    file: Annotated[str | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Which drills to play. Default: all.")] = None,
    changed: Set = None,
    traffic: Traffic = None,
    listed: Listed = False,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    run_on: RunOn = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Simulate failures and overloads on a plan, each with a verdict, a figure and the change that would pass.

    Drills may be named without a file. The exit code is 3 where a drill fails.
    """
    from ullage import verbs
    from ullage.report.decisions.drill_page import drill_list
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last, what_if

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
    with progress("drilling", quiet=quiet) as report:
        found = what_if(
            lambda **what: verbs.drill(
                file, asked, as_of=as_of, seed=seed, limit=limit, run_on=run_on, progress=report, **what
            ),
            changed,
            traffic,
        )
    done = last(found)
    if explain is not None and not isinstance(done, Refusal):
        return explained(found, explain, verb="drill", json=json, no_color=no_color)
    code = answered(found, json=json, no_color=no_color)
    return ExitCode.REFUSED if not isinstance(done, Refusal) and done.drills.failed else code
