"""`ullage portfolio`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, RunOn, Seed, Set, Traffic
from ullage.cli.terminal import answered, ask_verb


def command(
    plans: Annotated[list[Path], typer.Argument(help="Plan files, one per service.")],
    quotas: Annotated[
        Path | None,
        typer.Option("--quotas", metavar="FILE", help="What they share: regions with quotas, a budget, commitments."),
    ] = None,
    decide: Annotated[
        int,
        typer.Option(
            "--decide", metavar="COUNT", help="How many services to plan in full where the result depends on them."
        ),
    ] = 4,
    run_on: RunOn = None,
    changed: Set = None,
    traffic: Traffic = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Place many services under shared quotas, nodes, a budget and commitments.

    It shows where every pool runs, what is dropped first if not everything fits (by the cost of a request that is not
    served), and what moves where when a region is lost. Sizes are estimates unless they are marked decided.
    """
    from ullage import verbs

    ask = partial(verbs.portfolio, plans, quotas=quotas, decide=decide, run_on=run_on, as_of=as_of, seed=seed)
    found = ask_verb("first looks", ask, changed, traffic, quiet=quiet)
    return answered(found, json=json, no_color=no_color)
