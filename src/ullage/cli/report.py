"""`ullage report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsOf, Force, LedgerPlace, Limit, NoColor, Out, PlanArgument, Quiet, Seed, Set, Traffic
from ullage.cli.terminal import answer_text, answered, progress, talk
from ullage.errors import ExitCode


def command(
    file: PlanArgument = None,
    out: Out = None,
    force: Force = False,
    changed: Set = None,
    traffic: Traffic = None,
    drills: Annotated[
        Path | None, typer.Option("--drills", metavar="FILE", help="Show these too: what ullage drill --json wrote.")
    ] = None,
    reconciled: Annotated[
        str | None,
        typer.Option(
            "--reconciled",
            metavar="FILE",
            help="Show this too: what ullage reconcile --json wrote, or its name in the ledger, such as latest.",
        ),
    ] = None,
    ledger: LedgerPlace = None,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Write a plan as one HTML file: each question with its answer, the chart below it, every number explained.

    The file is a plan file, or what ullage plan --json wrote. The report is written to plan.html unless --out names
    another file; --out - prints it. It needs no network, can be printed, and is the same bytes for the same plan.
    """
    from ullage import verbs
    from ullage.files.whole import check_target
    from ullage.verbs.answer import Refusal

    to_stdout, target = str(out) == "-", out or Path("plan.html")
    if not to_stdout:
        check_target(target, field="--out", force=force)
    if file is None:
        talk("No plan file given: reporting the built-in example.", quiet=quiet)
    with progress("reporting", quiet=quiet) as report:
        made = verbs.report(
            file,
            set=changed or (),
            traffic=traffic,
            drills=drills,
            reconciled=reconciled,
            ledger=ledger,
            as_of=as_of,
            seed=seed,
            limit=limit,
            progress=report,
        )
    if isinstance(made, Refusal):
        return answered(made, json=False, no_color=no_color)
    if to_stdout:
        answer_text(made.html)
        return ExitCode.OK
    made.write(target, force=force)
    talk(f"Written to {target}.", quiet=quiet)
    return ExitCode.OK
