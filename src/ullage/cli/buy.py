"""`ullage buy`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Explain, Fleet, Limit, NoColor, PlanArgument, Quiet, Seed, Set, Traffic
from ullage.cli.terminal import answered, ask_verb


def command(
    file: PlanArgument = None,
    fleet: Fleet = "following",
    months: Annotated[
        int | None,
        typer.Option("--months", metavar="COUNT", help="Months to cover. Default: the longest term, at least 12."),
    ] = None,
    regret: Annotated[
        str | None,
        typer.Option(
            "--regret", metavar="SHARE", help="Highest regret allowed in any case, such as 10%. Default: any."
        ),
    ] = None,
    changed: Set = None,
    traffic: Traffic = None,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Choose how to buy a plan's nodes: committed, on demand, spot; savings and regret.

    Futures of demand are drawn month by month, and an integer program finds the mix of least expected cost. It is
    compared with all on demand, all committed and a fixed 70 %, also where demand or list prices turn out
    differently. Existing commitments are prices.held, classes that may be interrupted prices.spot_classes.
    """
    from ullage import verbs

    ask = partial(verbs.buy, file, fleet=fleet, months=months, regret=regret, as_of=as_of, seed=seed, limit=limit)
    found = ask_verb("buying", ask, changed, traffic, quiet=quiet, example=file is None)
    return answered(found, json=json, no_color=no_color, explain=explain, verb="buy")
