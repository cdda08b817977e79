"""Options that several verbs share, each spelt and explained once."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from ullage.errors import InputError


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError(
            field="--as-of",
            value=text,
            problem="is not a date",
            fix="Give year, month and day, for example 2026-11-15.",
        ) from None


def today() -> datetime.date:
    """The date that stands where `--as-of` is not given."""
    return datetime.datetime.now(tz=datetime.UTC).date()


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: the same bytes for the same input, seed and date.")]
AsOf = Annotated[
    datetime.date | None,
    typer.Option("--as-of", parser=_date, metavar="DATE", help="The date on which ages are counted. Default: today."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the answer alone: no notes, no progress.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colour, whatever the terminal can do.")]
PlanArgument = Annotated[Path | None, typer.Argument(help="The plan file. Default: the built-in example.")]
Explain = Annotated[str | None, typer.Option("--explain", metavar="NAME", help="Walk one number back to its sources.")]
Slos = Annotated[
    list[str] | None,
    typer.Option("--slo", metavar="PROMISE", help="An SLO in place of the file's: chat:ttft_p95=500ms. Repeat."),
]
Definitions = Annotated[
    str | None,
    typer.Option(
        "--definitions",
        metavar="TOOL",
        help="Count latencies as a load tool does: guidellm, vllm, or tpot=with_first_token,itl=per_request.",
    ),
]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="What ullage calibrate found for this configuration."),
]
Beside = Annotated[
    str | None,
    typer.Option("--beside", metavar="SHARE", help="Other engines on the same devices, and how busy they are: 50%."),
]
