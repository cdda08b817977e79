"""`ullage ledger`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.options import AsJson, Every, Force, LedgerPlace, Markdown, NoColor, Out
from ullage.cli.terminal import answered
from ullage.errors import ExitCode


def command(
    action: Annotated[
        str, typer.Argument(help="list, show, diff, export, import, verify or prune. Default: list.")
    ] = "list",
    names: Annotated[
        list[str] | None, typer.Argument(help="Entries by the first digits of their names, or latest; files to import.")
    ] = None,
    ledger: LedgerPlace = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="List one kind: plan, observation, bill, reconciliation, ..."),
    ] = None,
    service: Annotated[str | None, typer.Option("--service", help="Name of the service.")] = None,
    every: Every = False,
    out: Out = None,
    force: Force = False,
    newest: Annotated[
        int | None, typer.Option("--newest", min=1, help="Prune: keep this many of each kind and service.")
    ] = None,
    younger: Annotated[
        str | None,
        typer.Option("--younger", metavar="TIME", help="Prune: keep everything younger, such as 365d."),
    ] = None,
    really: Annotated[bool, typer.Option("--really", help="Prune: remove entries instead of listing them.")] = False,
    markdown: Markdown = False,
    json: AsJson = False,
    no_color: NoColor = False,
) -> int:
    """List what --keep stored, in order of time; nothing in a ledger is ever changed.

    diff compares two plans. export writes entries as lines of JSON and import adds them, each checked by its digest.
    verify recomputes every digest; its exit code is 3 where an entry is damaged. prune removes the bodies that a rule
    does not keep, and leaves their lines.
    """
    from ullage import verbs
    from ullage.verbs.ledger import LISTED, LedgerAnswer

    found = verbs.ledger(
        action,
        names or (),
        ledger=ledger,
        kind=kind,
        service=service,
        most=None if every else LISTED,
        out=out,
        force=force,
        newest=newest,
        younger=younger,
        really=really,
    )
    code = answered(found, json=json, markdown=markdown, no_color=no_color)
    return ExitCode.REFUSED if isinstance(found, LedgerAnswer) and found.damage else code
