"""`ullage options`; the options that verbs share stand in options.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_text, talk, waiting
from ullage.errors import ExitCode


def command(
    file: Annotated[Path | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare devices, cuts and settings: ranked by cost per success, refused with reasons, and when to order.

    Candidates are those that the section options of the plan file names. They are screened by memory, bounded by the
    roofline, and the rest is simulated in rounds on the same traffic.
    """
    from ullage import verbs
    from ullage.report.decisions.options_page import options_page
    from ullage.report.encode import document, to_text

    if file is None:
        talk("No plan file given: comparing options of the built-in example.", quiet=quiet)
    with waiting("simulating candidates", quiet=quiet):
        found = verbs.options(file, as_of=as_of, seed=seed)
    if json:
        answer_text(to_text(document("options", found, as_of=found.as_of, seed=found.seed)))
    else:
        answer(*options_page(found), no_color=no_color)
    return ExitCode.OK if found.holds else ExitCode.REFUSED
