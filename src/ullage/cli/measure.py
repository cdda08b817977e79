"""`ullage measure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import Accept, AsJson, AsOf, NoColor, PlanOption, Quiet, Seed
from ullage.cli.terminal import answered, progress, talk
from ullage.errors import InputError


def command(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of one replica; no other host is contacted.")],
    plan: PlanOption = None,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Limit on the wall time of all tests, in minutes.")
    ] = 60.0,
    requests: Annotated[int, typer.Option("--most-requests", help="Limit on the requests of all tests.")] = 20_000,
    tokens: Annotated[int, typer.Option("--most-tokens", help="Limit on the tokens of all tests.")] = 50_000_000,
    usd: Annotated[
        float, typer.Option("--most-usd", help="Limit on the cost, at the plan's price of a replica.")
    ] = 100.0,
    within: Annotated[int, typer.Option("--within", min=0, help="Replicas that a decided number may be off.")] = 1,
    tool: Annotated[
        str | None,
        typer.Option("--tool", metavar="TOOL", help="guidellm, vllm or aiperf, or its path. Default: one on the PATH."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="NAME", help="The tokenizer to count with: a folder, or a cached name."),
    ] = None,
    served_model: Annotated[
        str | None,
        typer.Option("--served-model", metavar="NAME", help="The model name in requests. Default: as served."),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option("--folder", metavar="DIR", help="Where results are kept, and an interrupted run resumes from."),
    ] = Path("measure"),
    accept: Accept = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Measure one replica with a load tool, test by test, until the plan's number of replicas is decided.

    Each test is the one that narrows the number most for its device time. Results, a calibration and a diff of the
    plan file are written to --folder; an interrupted measurement resumes from there. The exit code is 5 where a bound
    was reached before the number was decided.
    """
    from ullage import verbs
    from ullage.verbs.answer import Refusal
    from ullage.verbs.measure import MeasureBound

    if plan is None:
        fix = "Give the plan file whose first pool the replica is of."
        raise InputError(field="--plan", value=None, problem="is missing: tests are made from its traffic", fix=fix)
    with progress("measuring", quiet=quiet) as report:
        found = verbs.measure(
            url,
            plan=plan,
            folder=folder,
            tool=tool,
            tokenizer=tokenizer,
            served_model=served_model,
            bound=MeasureBound(minutes=minutes, requests=requests, tokens=tokens, usd=usd),
            within=within,
            accept=tuple(accept or ()),
            as_of=as_of,
            seed=seed,
            progress=report,
            said=lambda text: talk(text, quiet=quiet),
        )
    code = answered(found, json=json, no_color=no_color)
    return code if isinstance(found, Refusal) else found.exit_code
