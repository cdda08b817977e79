"""`ullage facts`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Facts, NoColor
from ullage.cli.terminal import answered


def command(
    kind: Annotated[
        str,
        typer.Argument(
            help="devices, models, engines, startups, efficiencies, operations or prices.", show_default=False
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(help="One of them by name or alias, or words to search for. Default: all.")
    ] = None,
    facts: Facts = None,
    json: AsJson = False,
    as_of: AsOf = None,
    no_color: NoColor = False,
) -> int:
    """Show what is known about devices, models and engines: each value with range, source and age."""
    from ullage import verbs

    return answered(verbs.facts(kind, name, directory=facts, as_of=as_of), json=json, no_color=no_color)
