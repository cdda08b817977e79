"""`ullage check`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Limit,
    Listed,
    Markdown,
    NoColor,
    Quiet,
    Rules,
    Seed,
    Set,
    Traffic,
    plan_and_names,
)
from ullage.cli.terminal import answer, answered, ask_verb
from ullage.errors import ExitCode


def command(
    file: Annotated[str | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Which checks to run. Default: all.")] = None,
    rules: Rules = None,
    changed: Set = None,
    traffic: Traffic = None,
    listed: Listed = False,
    markdown: Markdown = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Check a plan and claims about the service for known mistakes: each with both numbers and a fix.

    Claims are in the plan file, under claims. The exit code is 3 where a mistake is found; warnings are only printed.
    """
    from ullage import verbs
    from ullage.report.decisions.check_page import check_list
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last

    if listed:
        answer(check_list(), no_color=no_color)
        return ExitCode.OK
    file, chosen = plan_and_names(file, names)
    ask = partial(verbs.check, file, chosen, rules=rules or (), as_of=as_of, seed=seed, limit=limit)
    found = ask_verb("checking", ask, changed, traffic, quiet=quiet, example=file is None)
    code = answered(found, json=json, markdown=markdown, no_color=no_color)
    done = last(found)
    return ExitCode.REFUSED if not isinstance(done, Refusal) and done.checks.mistakes else code
