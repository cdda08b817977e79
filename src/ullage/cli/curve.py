"""`ullage curve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Beside,
    Calibration,
    Definitions,
    Explain,
    NoColor,
    PlanArgument,
    Quiet,
    Seed,
    Slos,
)
from ullage.cli.terminal import answer, answer_refusal, answer_text, progress, talk
from ullage.errors import ExitCode, Rejection

if TYPE_CHECKING:
    from ullage.verbs.curve import CurveAnswer


def command(
    file: PlanArgument = None,
    slo: Slos = None,
    margin: Annotated[
        str | None, typer.Option("--margin", metavar="SHARE", help="What policy keeps free beyond the evidence: 10%.")
    ] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Try other engine settings and other traffic, one at a time.")
    ] = False,
    explain: Explain = None,
    definitions: Definitions = None,
    calibration: Calibration = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option("--measured", metavar="FILE", help="A load test to draw over the curve, by any tool. Repeat."),
    ] = None,
    beside: Beside = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Sweep the load of one replica: latency and goodput by load, the knee, and the load to run at.

    Every load is simulated on the plan file's mix. A load that is not sustained has no percentiles. Where no load
    meets the SLOs, the point is refused (exit 3).
    """
    from ullage.verbs.curve import curve

    if file is None:
        talk("No plan file given: the built-in example.", quiet=quiet)
    with progress("simulating", quiet=quiet) as report:
        found = curve(
            file,
            slos=slo or [],
            definitions=definitions,
            calibration=calibration,
            beside=beside,
            margin=margin,
            what_if=what_if,
            measured=measured or [],
            as_of=as_of,
            seed=seed,
            progress=report,
        )
    if isinstance(found, Rejection):
        return answer_refusal("curve", found, json=json, no_color=no_color)
    _print(found, explain=explain, json=json, no_color=no_color)
    return ExitCode.REFUSED if isinstance(found.point, Rejection) else ExitCode.OK


def _print(found: CurveAnswer, *, explain: str | None, json: bool, no_color: bool) -> None:
    from ullage.report.encode import document, explained_json, to_text
    from ullage.report.explanation import explanation
    from ullage.report.service.curve_page import curve_page

    pool, measured, agreement = found.pool, found.measured, found.agreement
    if explain is not None:
        figure = found.find(explain)
        if json:
            answer_text(to_text(explained_json("curve", figure, as_of=pool.as_of)))
        else:
            answer(explanation(figure, pool.as_of), no_color=no_color)
    elif json:
        behind = found.figures.values()
        answer_text(
            to_text(document("curve", found, as_of=pool.as_of, seed=found.seed, service=pool.service, behind=behind))
        )
    else:
        page = curve_page(
            found.curve, found.point, found.tried, title=pool.replica, measured=measured, agreement=agreement
        )
        answer(*page, no_color=no_color)
