"""`ullage risk`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Explain, Limit, NoColor, PlanArgument, Quiet, RunOn, Seed, Set, Traffic
from ullage.cli.terminal import answered, ask_verb


def command(
    file: PlanArgument = None,
    bad_hour: Annotated[
        str | None,
        typer.Option(
            "--bad-hour", metavar="USD", help="What an hour of shortfall costs: names the fleet of least expected cost."
        ),
    ] = None,
    changed: Set = None,
    traffic: Traffic = None,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    run_on: RunOn = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Estimate how often a fleet falls short, which inputs drive it, and which measurement pays first.

    Demand, step times, lengths, cached share, failures and prices are drawn together. The risk accepted is
    policy.shortfall: --set policy.shortfall=1% changes it.
    """
    from ullage import verbs

    ask = partial(verbs.risk, file, bad_hour=bad_hour, as_of=as_of, seed=seed, limit=limit, run_on=run_on)
    found = ask_verb("studying", ask, changed, traffic, quiet=quiet, example=file is None)
    return answered(found, json=json, no_color=no_color, explain=explain, verb="risk")
