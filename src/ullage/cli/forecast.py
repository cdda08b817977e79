"""`ullage forecast`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed, today
from ullage.cli.terminal import answer, answer_text, progress, talk
from ullage.errors import ExitCode


def command(
    source: Annotated[
        str | None, typer.Argument(metavar="TRACE|PROFILE", help="A trace, or a saved profile. Default: an example.")
    ] = None,
    horizon: Annotated[str, typer.Option("--horizon", metavar="DURATION", help="How far ahead.")] = "30d",
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="DURATION", help="The grid. Default: 1h, and 15min for horizons up to 2d."),
    ] = None,
    percentile: Annotated[
        str, typer.Option("--percentile", metavar="SHARE", help="How sure the planning rate is to hold.")
    ] = "95%",
    events: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="NAME:FROM:TO[:RATIO]", help="A holiday or launch, past or planned. Repeat."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="DIMENSION", help="What is forecast beside all: class, model or tenant.")
    ] = "class",
    challenge: Annotated[
        bool, typer.Option("--challenge", help="Let statsforecast's MSTL take part, where it is installed.")
    ] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="A column of ours and the file's name for it. Repeat."),
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="The format, where more than one fits.")
    ] = None,
    zone: Annotated[
        str, typer.Option("--zone", metavar="ZONE", help="The zone of times that carry none. Default: UTC.")
    ] = "",
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Forecast demand: a fan chart, the busiest hour to plan for, how good past forecasts were, and what to doubt."""
    from ullage.report.encode import document, to_text
    from ullage.report.workload.forecast_page import forecast_page
    from ullage.units import DURATION, FRACTION, parse
    from ullage.verbs.forecast import forecast
    from ullage.verbs.profile import mapping_of

    day = as_of or today()
    if source is None:
        talk("No trace given: forecasting the built-in example.", quiet=quiet)
    with progress("forecasting", quiet=quiet) as report:
        found = forecast(
            source,
            horizon_s=parse(horizon, DURATION, field="--horizon"),
            step_s=None if step is None else parse(step, DURATION, field="--step"),
            percentile_fraction=parse(percentile, FRACTION, field="--percentile"),
            events=events or [],
            by=by,
            challenge=challenge,
            mapping=mapping_of(columns or []),
            format_name=format_name,
            zone=zone,
            as_of=day,
            seed=seed,
            progress=report,
        )
    if json:
        answer_text(to_text(document("forecast", found, as_of=day, seed=seed)))
    else:
        answer(*forecast_page(found), no_color=no_color)
    return ExitCode.OK
