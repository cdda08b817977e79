"""`ullage brownfield`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Limit, NoColor, PlanOption, Quiet, Seed, Set, Traffic
from ullage.cli.terminal import answered, ask_verb


def command(
    running: Annotated[list[Path], typer.Argument(help="What kubectl get deployments,hpa,nodes -o yaml printed.")],
    plan: PlanOption = None,
    changed: Set = None,
    traffic: Traffic = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare a plan with what a cluster runs: gaps, risks, and the steps in order.

    It reads Deployments, StatefulSets, LeaderWorkerSets and services of KServe and Knative with their engine's
    arguments and autoscalers, values of vLLM's production stack and of llm-d, and Nodes.
    """
    from ullage import verbs

    ask = partial(verbs.brownfield, running, plan=plan, as_of=as_of, seed=seed, limit=limit)
    found = ask_verb("planning", ask, changed, traffic, quiet=quiet)
    return answered(found, json=json, no_color=no_color)
