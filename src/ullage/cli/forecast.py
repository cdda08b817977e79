"""`ullage forecast`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, By, Columns, Format, NoColor, Quiet, Seed, Zone
from ullage.cli.terminal import answered, progress, talk


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
        str, typer.Option("--percentile", metavar="SHARE", help="Chance that the planning rate is not exceeded.")
    ] = "95%",
    events: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="NAME:FROM:TO[:RATIO]", help="A holiday or launch, past or planned. Repeat."),
    ] = None,
    by: By = None,
    challenge: Annotated[
        bool, typer.Option("--challenge", help="Let statsforecast's MSTL take part, where it is installed.")
    ] = False,
    column: Columns = None,
    format_name: Format = None,
    zone: Zone = "",
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Forecast demand: a fan chart, the busiest hour to plan for, how good past forecasts were, and anomalies."""
    from ullage import verbs
    from ullage.load.typed import parse_columns
    from ullage.units import DURATION, FRACTION, parse

    if source is None:
        talk("No trace given: forecasting the built-in example.", quiet=quiet)
    with progress("forecasting", quiet=quiet) as report:
        found = verbs.forecast(
            source,
            horizon_s=parse(horizon, DURATION, field="--horizon"),
            step_s=None if step is None else parse(step, DURATION, field="--step"),
            percentile_fraction=parse(percentile, FRACTION, field="--percentile"),
            events=events or [],
            by=by or "class",
            challenge=challenge,
            columns=parse_columns(column or []),
            format_name=format_name,
            zone=zone,
            as_of=as_of,
            seed=seed,
            progress=report,
        )
    return answered(found, json=json, no_color=no_color)
