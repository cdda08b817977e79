"""`ullage brownfield`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, waiting
from ullage.errors import ExitCode, Rejection


def command(
    running: Annotated[list[Path], typer.Argument(help="What kubectl get deployments,hpa,nodes -o yaml printed.")],
    plan: Annotated[Path | None, typer.Option("--plan", help="The plan file. Default: the built-in example.")] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Lay a plan over what runs: have, need, change, risk, and the order of steps.

    Read are Deployments, StatefulSets and LeaderWorkerSets with their engine's arguments, their autoscalers, and Nodes.
    """
    from ullage import verbs
    from ullage.report.decisions.brownfield_page import brownfield_page
    from ullage.report.encode import document, to_text

    with waiting("planning", quiet=quiet):
        found = verbs.brownfield(running, plan_file=plan, as_of=as_of, seed=seed)
    if isinstance(found, Rejection):
        return answer_refusal("brownfield", found, json=json, no_color=no_color)
    if json:
        made = found.plan
        text = to_text(document("brownfield", found, as_of=made.as_of, seed=made.seed, service=made.spec.name))
        answer_text(text)
    else:
        answer(*brownfield_page(found.found, found.running), no_color=no_color)
    return ExitCode.OK
