"""`ullage gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, PlanOption, Quiet, Replicas, Seed, Set, Timeout
from ullage.cli.terminal import answered, progress, talk
from ullage.errors import ExitCode

_SIDE = "A calibration, a load test of any tool, or a folder of load tests"


def command(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help=f"{_SIDE}: what runs.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help=f"{_SIDE}: what is to run.")],
    plan: PlanOption = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", metavar="SHARE", help="How much longer a request may take a device.")
    ] = "5%",
    fast: Annotated[
        bool, typer.Option("--no-replicas", help="Leave out what the difference means in replicas and USD.")
    ] = False,
    changed: Set = None,
    cached_share: Annotated[
        str | None,
        typer.Option("--cached-share", metavar="SHARE", help="Of prompt tokens, prefix hits. Default: the file's."),
    ] = None,
    replicas: Replicas = None,
    timeout: Timeout = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="NAME", help="Use tests in spite of this anomaly: model, device, precision."),
    ] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare a plan's replica before and after a change of engine, flags, driver or quantisation; for CI.

    The exit code is 3 where it is slower by more than the tolerance and not by luck, 5 where the tests are too coarse
    to tell, and 0 otherwise.
    """
    from ullage import verbs
    from ullage.load.typed import parse_duration, parse_share
    from ullage.verbs.answer import Refusal
    from ullage.verbs.calibrate_fit import StatedTest

    if plan is None:
        talk("No plan file given: comparing on the built-in example.", quiet=quiet)
    with progress("comparing", quiet=quiet) as report:
        found = verbs.gate(
            before,
            after,
            plan=plan,
            tolerance_fraction=parse_share(tolerance, "--tolerance") or 0.0,
            set=changed or (),
            stated=StatedTest(
                cached_fraction=parse_share(cached_share, "--cached-share"),
                replicas=replicas,
                timeout_s=parse_duration(timeout, "--timeout"),
                accepted=tuple(accept or ()),
            ),
            quick=fast,
            as_of=as_of,
            seed=seed,
            progress=report,
        )
    code = answered(found, json=json, no_color=no_color)
    return code if isinstance(found, Refusal) else ExitCode(found.exit_code)
