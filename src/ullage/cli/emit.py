"""`ullage emit`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Diff,
    Force,
    Limit,
    Listed,
    NoColor,
    Out,
    PlanArgument,
    PlanOption,
    Quiet,
    Seed,
    Set,
    Traffic,
)
from ullage.cli.terminal import answer, answer_text, answered, ask_verb, talk
from ullage.errors import ExitCode, InputError


def command(
    file: PlanArgument = None,
    stored: PlanOption = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="NAMES", help="Targets to write, such as keda,vllm,pdb. Repeat."),
    ] = None,
    out: Out = None,
    diff: Diff = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 3 if the folder of --diff or --out differs from the plan."),
    ] = False,
    searched: Annotated[
        bool,
        typer.Option("--searched", help="Search the scaling rule first, as ullage scale does, and write that one."),
    ] = False,
    force: Force = False,
    changed: Set = None,
    traffic: Traffic = None,
    listed: Listed = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Write a plan as files for a cluster, a gateway and a monitoring stack, each number with its reason.

    Names and labels come from the plan file's emit section. All files are written, or none. With --diff a patch is
    printed and nothing is written.
    """
    from ullage import verbs
    from ullage.emit.targets import TARGETS
    from ullage.files.whole import check_folder
    from ullage.report.decisions.emit_page import target_list
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last

    if listed:
        answer(target_list({name: each.gives for name, each in TARGETS.items()}), no_color=no_color)
        return ExitCode.OK
    against = diff or (out if check else None)
    if check and against is None:
        raise InputError(field="--check", value=True, problem="has no folder to compare with", fix="Give --diff DIR.")
    if out is not None:
        check_folder(out, field="--out")
    names = [name.strip() for each in target or () for name in each.split(",") if name.strip()]
    ran: dict[str, Any] = {"as_of": as_of, "seed": seed, "limit": limit}
    ask = partial(verbs.emit, file, names, stored=stored, against=against, searched=searched, **ran)
    found = ask_verb("emitting", ask, changed, traffic, quiet=quiet)
    made = last(found)
    if isinstance(made, Refusal):
        return answered(found, json=json, no_color=no_color)
    if out is not None and not check and diff is None:
        made.write(out, force=force)
        talk(f"{len(made.files)} files written to {out}", quiet=quiet)
    if json:
        answered(made, json=True)
    elif diff is not None and not check:
        answer_text(made.difference or f"# {diff} needs no change")
    elif out is None and not check:
        answer_text("---\n".join(each.text for each in made.files))
    else:
        answered(made, json=False, no_color=no_color)
    return ExitCode.REFUSED if check and made.drift else ExitCode.OK
