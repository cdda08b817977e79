"""`ullage scale`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Limit, NoColor, PlanArgument, Quiet, Rules, Seed, Set, Traffic
from ullage.cli.terminal import answered, ask_verb


def command(
    file: PlanArgument = None,
    rules: Rules = None,
    days: Annotated[int, typer.Option("--days", min=1, max=7, help="Days of each evaluation week to simulate.")] = 1,
    weeks: Annotated[
        int,
        typer.Option(
            "--weeks", min=1, max=8, help="Weeks to evaluate rules on; Ullage's rule is chosen on three others."
        ),
    ] = 2,
    changed: Set = None,
    traffic: Traffic = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare scaling rules on the plan's traffic: yours, ours, common ones, a fixed fleet and a clairvoyant.

    Each with attainment, replica-hours, lag, thrash and why requests violated an SLO; bursts that no rule absorbs; and
    how our rule copes when ramps, starts, metrics or capacity are worse than planned.
    """
    from ullage import verbs

    ask = partial(verbs.scale, file, rules=rules or (), days=days, weeks=weeks, as_of=as_of, seed=seed, limit=limit)
    found = ask_verb("scaling", ask, changed, traffic, quiet=quiet, example=file is None)
    return answered(found, json=json, no_color=no_color)
