"""`ullage drill`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Explain,
    Limit,
    Listed,
    NoColor,
    Quiet,
    RunOn,
    Seed,
    Set,
    Traffic,
    plan_and_names,
)
from ullage.cli.terminal import answer, answered, ask_verb
from ullage.errors import ExitCode


def command(
    file: Annotated[str | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Which drills to simulate. Default: all.")] = None,
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
    from ullage.verbs.what_if import last

    if listed:
        answer(drill_list(), no_color=no_color)
        return ExitCode.OK
    file, chosen = plan_and_names(file, names)
    ask = partial(verbs.drill, file, chosen, as_of=as_of, seed=seed, limit=limit, run_on=run_on)
    found = ask_verb("drilling", ask, changed, traffic, quiet=quiet, example=file is None)
    code, done = answered(found, json=json, no_color=no_color, explain=explain, verb="drill"), last(found)
    failed = explain is None and not isinstance(done, Refusal) and done.drills.failed
    return ExitCode.REFUSED if failed else code
