"""`ullage curve`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Beside,
    Calibration,
    Definitions,
    Explain,
    Limit,
    NoColor,
    PlanArgument,
    Quiet,
    Seed,
    Set,
    Slos,
    Traffic,
)
from ullage.cli.terminal import answered, ask_verb
from ullage.errors import ExitCode, Rejection


def command(
    file: PlanArgument = None,
    changed: Set = None,
    traffic: Traffic = None,
    slo: Slos = None,
    margin: Annotated[
        str | None,
        typer.Option("--margin", metavar="SHARE", help="Margin that policy adds to that of the evidence: 10%."),
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Try other engine settings and other traffic, one at a time.")
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
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Sweep the load of one replica: latency and goodput by load, the knee, and the load to run at.

    Every load is simulated on the plan file's mix. A load that is not sustained has no percentiles. Where no load
    meets the SLOs, the point is refused (exit 3).
    """
    from ullage import verbs
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last

    ask = partial(
        verbs.curve,
        file,
        slos=slo or [],
        definitions=definitions,
        calibration=calibration,
        beside=beside,
        margin=margin,
        sensitivity=sensitivity,
        measured=measured or [],
        as_of=as_of,
        seed=seed,
        limit=limit,
    )
    found = ask_verb("simulating", ask, changed, traffic, quiet=quiet, example=file is None)
    swept = last(found)
    code = answered(found, json=json, no_color=no_color, explain=explain, verb="curve")
    return ExitCode.REFUSED if not isinstance(swept, Refusal) and isinstance(swept.point, Rejection) else code
