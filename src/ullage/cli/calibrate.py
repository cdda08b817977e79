"""`ullage calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, NoColor
from ullage.cli.terminal import answer, answer_text
from ullage.errors import ExitCode


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Result files of load tests, of any tool.")],
    inspect: Annotated[bool, typer.Option("--inspect", help="Show what was read from each file, and stop.")] = False,
    goodput: Annotated[
        str | None,
        typer.Option(
            "--goodput", metavar="LIMITS", help="Judge requests anew: 'ttft:500ms tpot:50ms'. Default: the file's own."
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule", metavar="TOOL", help="Whose habits decide what limits leave open. Default: ours and the tool's."
        ),
    ] = None,
    json: AsJson = False,
    no_color: NoColor = False,
) -> int:
    """Read load tests of any tool: what each point was, by which definitions, and what is odd about it.

    Fitting a step model to them is not built in this version.
    """
    from ullage import verbs
    from ullage.report.loadtest_json import loadtests_json
    from ullage.report.loadtest_page import loadtests_page
    from ullage.report.plan_json import to_text

    found = verbs.calibrate(files, inspect=inspect, goodput=goodput, rule=rule)
    pairs = [(each.loadtest, each.goodputs) for each in found]
    if json:
        answer_text(to_text(loadtests_json(pairs)))
    else:
        answer(*loadtests_page(pairs), no_color=no_color)
    return ExitCode.OK
