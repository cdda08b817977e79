"""`ullage scenarios`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Limit, NoColor, PlanArgument, Quiet, RunOn, Seed, Set, Traffic
from ullage.cli.terminal import answered, ask_verb


def command(
    file: PlanArgument = None,
    own: Annotated[
        list[str] | None,
        typer.Option("--own", metavar="SCENARIO", help="Your own: 'launch: traffic=+80%, policy.zones=3'. Repeat."),
    ] = None,
    changed: Set = None,
    traffic: Traffic = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    run_on: RunOn = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Plan the best, base and worst case and your own scenarios, side by side.

    Best and worst are draws of the plan's own inputs, at the 10th and the 90th percentile of need.
    """
    from ullage import verbs

    ask = partial(verbs.scenarios, file, own or (), as_of=as_of, seed=seed, limit=limit, run_on=run_on)
    found = ask_verb("planning", ask, changed, traffic, quiet=quiet, example=file is None)
    return answered(found, json=json, no_color=no_color)
