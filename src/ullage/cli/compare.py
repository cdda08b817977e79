"""`ullage compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, waiting
from ullage.errors import ExitCode, Rejection


def command(
    old: Annotated[Path, typer.Argument(help="A plan file, or what ullage plan --json wrote.")],
    new: Annotated[Path, typer.Argument(help="The same, newer.")],
    every: Annotated[bool, typer.Option("--all", help="Print every figure that changed, not the main ones.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a merge request.")] = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare two plans: which inputs changed, which figures moved, and which input moved each of them."""
    from ullage import verbs
    from ullage.report.encode import document, to_text
    from ullage.report.markdown import to_markdown
    from ullage.report.plan.difference import difference_page

    with waiting("comparing", quiet=quiet):
        found = verbs.compare(old, new, as_of=as_of, seed=seed)
    if isinstance(found, Rejection):
        return answer_refusal("compare", found, json=json, no_color=no_color)
    if json:
        answer_text(to_text(document("compare", found)))
    elif markdown:
        answer_text(to_markdown(difference_page(found, every=every)))
    else:
        answer(*difference_page(found, every=every), no_color=no_color)
    return ExitCode.OK
