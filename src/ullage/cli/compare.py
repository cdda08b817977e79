"""`ullage compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Every, Limit, Markdown, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_text, answered, progress
from ullage.errors import ExitCode


def command(
    old: Annotated[Path, typer.Argument(help="A plan file, or what ullage plan --json wrote.")],
    new: Annotated[Path, typer.Argument(help="The same, newer.")],
    every: Every = False,
    markdown: Markdown = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare two plans: which inputs changed, which figures moved, and which input moved each of them."""
    from ullage import verbs
    from ullage.report.markdown import to_markdown
    from ullage.report.plan.difference import difference_page
    from ullage.verbs.answer import Refusal

    with progress("comparing", quiet=quiet) as report:
        found = verbs.compare(old, new, as_of=as_of, seed=seed, limit=limit, progress=report)
    if json or isinstance(found, Refusal):
        return answered(found, json=json, no_color=no_color)
    page = difference_page(found, every=every)
    if markdown:
        answer_text(to_markdown(page))
    else:
        answer(*page, no_color=no_color)
    return ExitCode.OK
