"""`ullage validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Calibration, NoColor, PlanOption, Quiet, Replicas, Seed, Set, Timeout
from ullage.cli.terminal import answered, progress, talk
from ullage.errors import ExitCode


def command(
    files: Annotated[list[Path], typer.Argument(metavar="TEST", help="Result files of load tests, of any tool.")],
    plan: PlanOption = None,
    calibration: Calibration = None,
    changed: Set = None,
    cached_share: Annotated[
        str | None,
        typer.Option("--cached-share", metavar="SHARE", help="Of prompt tokens, prefix hits. Default: the file's."),
    ] = None,
    replicas: Replicas = None,
    timeout: Timeout = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="NAME", help="No difference, though the file says so: model, device, engine."),
    ] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Predict load tests from a plan, then score them: every statistic with its band, a verdict and what differs.

    The exit code is 0 where the tests are validated, 3 where one is not, and 5 where they cannot tell.
    """
    from ullage import verbs
    from ullage.load.typed import parse_duration, parse_share
    from ullage.verbs.answer import Refusal
    from ullage.verbs.calibrate_fit import StatedTest

    if plan is None:
        talk("No plan file given: validating the built-in example.", quiet=quiet)
    with progress("validating", quiet=quiet) as report:
        found = verbs.validate(
            files,
            plan=plan,
            set=changed or (),
            calibration=calibration,
            stated=StatedTest(
                cached_fraction=parse_share(cached_share, "--cached-share"),
                replicas=replicas,
                timeout_s=parse_duration(timeout, "--timeout"),
                accepted=tuple(accept or ()),
            ),
            as_of=as_of,
            seed=seed,
            progress=report,
        )
    code = answered(found, json=json, no_color=no_color)
    return code if isinstance(found, Refusal) else ExitCode(found.exit_code)
