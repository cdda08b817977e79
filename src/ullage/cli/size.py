"""`ullage size`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Beside, Calibration, Definitions, NoColor, PlanArgument, Quiet, Seed, Slos
from ullage.cli.terminal import answer, answer_refusal, answer_text, progress, talk
from ullage.errors import ExitCode, Rejection


def command(
    file: PlanArgument = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="The total rate, such as 50 req/s. Default: the planning rate."),
    ] = None,
    slo: Slos = None,
    definitions: Definitions = None,
    calibration: Calibration = None,
    beside: Beside = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Size a pool: the least replicas that meet every SLO at a rate, found by simulating the pool.

    Reserves for failures, rollouts and growth are not in it: those are lines of a plan. An SLO that no replica
    keeps is refused (exit 3).
    """
    from ullage.report.encode import document, to_text
    from ullage.report.service.curve_page import size_page
    from ullage.verbs.size import size

    if file is None:
        talk("No plan file given: the built-in example.", quiet=quiet)
    with progress("simulating", quiet=quiet) as report:
        found = size(
            file,
            rate=rate,
            slos=slo or [],
            definitions=definitions,
            calibration=calibration,
            beside=beside,
            as_of=as_of,
            seed=seed,
            progress=report,
        )
    if isinstance(found, Rejection):
        return answer_refusal("size", found, json=json, no_color=no_color)
    pool = found.pool
    if json:
        behind = found.size.figures.values()
        answer_text(
            to_text(document("size", found, as_of=pool.as_of, seed=found.seed, service=pool.service, behind=behind))
        )
    else:
        rate_from = "as stated" if found.is_rate_stated else "the plan's busiest hour"
        answer(*size_page(found.size, title=pool.replica, rate_from=rate_from), no_color=no_color)
    return ExitCode.OK
