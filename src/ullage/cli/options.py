"""Options that several verbs share, each spelt and explained once."""

from __future__ import annotations

import datetime
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


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: the same bytes for the same input, seed and date.")]
AsOf = Annotated[
    datetime.date | None,
    typer.Option("--as-of", parser=_date, metavar="DATE", help="The date on which ages are counted. Default: today."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the answer alone: no notes, no progress.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colour, whatever the terminal can do.")]
