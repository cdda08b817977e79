"""`ullage facts`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor
from ullage.cli.terminal import answer, answer_text
from ullage.errors import ExitCode


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
    facts: Annotated[
        Path | None,
        typer.Option("--facts", metavar="DIR", help="Your own facts, laid over ours: DIR/devices/*.toml and so on."),
    ] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    no_color: NoColor = False,
) -> int:
    """Show what is known about devices, models and engines: each value with range, source and age."""
    from ullage import verbs
    from ullage.report.encode import document, to_text
    from ullage.report.facts_page import list_page, one_page

    found = verbs.facts(kind, name, directory=facts, as_of=as_of)
    if json:
        answer_text(to_text(document("facts", found, as_of=found.as_of)))
    elif found.is_one:
        answer(*one_page(found.kind, found.sheets[0], found.as_of), no_color=no_color)
    else:
        answer(*list_page(found.kind, found.sheets), no_color=no_color)
    return ExitCode.OK
