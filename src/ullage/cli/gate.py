"""`ullage gate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import (
    Accept,
    AsJson,
    AsOf,
    CachedShare,
    Limit,
    NoColor,
    PlanOption,
    Quiet,
    Replicas,
    Seed,
    Set,
    Timeout,
    Traffic,
)
from ullage.cli.terminal import answered, ask_verb

_SIDE = "A calibration, a load test of any tool, or a folder of load tests"


def command(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help=f"{_SIDE}: what runs.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help=f"{_SIDE}: what is to run.")],
    plan: PlanOption = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", metavar="SHARE", help="How much more device time a request may take.")
    ] = "5%",
    fast: Annotated[bool, typer.Option("--no-replicas", help="Leave out the effect on replicas and USD.")] = False,
    changed: Set = None,
    traffic: Traffic = None,
    cached_share: CachedShare = None,
    replicas: Replicas = None,
    timeout: Timeout = None,
    accept: Accept = None,
    limit: Limit = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare a plan's replica before and after a change of engine, flags, driver or quantisation; for CI.

    The exit code is 3 where it is significantly slower than the tolerance allows, 5 where the tests are too coarse
    to tell, and 0 otherwise.
    """
    from ullage import verbs
    from ullage.load.typed import parse_share
    from ullage.verbs.answer import Refusal
    from ullage.verbs.calibrate_fit import stated_test
    from ullage.verbs.what_if import last

    ask = partial(
        verbs.gate,
        before,
        after,
        plan=plan,
        tolerance_fraction=parse_share(tolerance, "--tolerance") or 0.0,
        stated=stated_test(cached_share, replicas, timeout, accept),
        quick=fast,
        limit=limit,
        as_of=as_of,
        seed=seed,
    )
    found = ask_verb("simulating", ask, changed, traffic, quiet=quiet, example=plan is None)
    code, done = answered(found, json=json, no_color=no_color), last(found)
    return code if isinstance(done, Refusal) else done.exit_code
