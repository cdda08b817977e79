"""`ullage validate`."""

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
    Calibration,
    Force,
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


def command(
    files: Annotated[list[Path], typer.Argument(metavar="TEST", help="Result files of load tests, of any tool.")],
    plan: PlanOption = None,
    calibration: Calibration = None,
    changed: Set = None,
    traffic: Traffic = None,
    cached_share: CachedShare = None,
    replicas: Replicas = None,
    timeout: Timeout = None,
    accept: Accept = None,
    verdict: Annotated[
        Path | None,
        typer.Option("--verdict", metavar="FILE", help="Write the verdict, for evidence.validated of a plan file."),
    ] = None,
    force: Force = False,
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
    from ullage.files.whole import check_target, write_whole
    from ullage.report.encode import to_text
    from ullage.verbs.answer import Refusal
    from ullage.verbs.calibrate_fit import stated_test
    from ullage.verbs.what_if import last

    if verdict is not None:
        check_target(verdict, field="--verdict", force=force)
    ask = partial(
        verbs.validate,
        files,
        plan=plan,
        calibration=calibration,
        stated=stated_test(cached_share, replicas, timeout, accept),
        as_of=as_of,
        seed=seed,
    )
    found = ask_verb("validating", ask, changed, traffic, quiet=quiet, example=plan is None)
    code, done = answered(found, json=json, no_color=no_color), last(found)
    if isinstance(done, Refusal):
        return code
    if verdict is not None:
        write_whole(verdict, to_text(done.to_dict()), field="--verdict", force=force)
    return int(done.exit_code)
