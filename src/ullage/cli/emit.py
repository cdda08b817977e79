"""`ullage emit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Force, Listed, NoColor, PlanArgument, Quiet, Seed
from ullage.cli.terminal import answer, answer_text, answered, progress, talk
from ullage.errors import ExitCode, InputError


def command(
    file: PlanArgument = None,
    stored: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="What ullage plan --json wrote: emit from it, without planning again."
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="NAMES", help="What to make files for, such as keda,vllm,pdb. Repeat."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write them. Default: print them.")
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option("--diff", metavar="DIR", help="Print what would change in a folder, and write nothing."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit with 3 where the folder of --diff or --out does not say what the plan says."
        ),
    ] = False,
    force: Force = False,
    listed: Listed = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Write a plan as the files that a cluster, a gateway and a monitoring stack take, each number with its reason.

    Names and labels come from the plan file's emit section. All files are written, or none.
    """
    from ullage import verbs
    from ullage.emit.targets import TARGETS
    from ullage.files.whole import check_folder
    from ullage.report.decisions.emit_page import target_list
    from ullage.verbs.answer import Refusal

    if listed:
        answer(target_list({name: each.gives for name, each in TARGETS.items()}), no_color=no_color)
        return ExitCode.OK
    against = diff or (out if check else None)
    if check and against is None:
        raise InputError(field="--check", value=True, problem="has no folder to look at", fix="Give --diff DIR.")
    if out is not None:
        check_folder(out, field="--out")
    names = [name.strip() for each in target or () for name in each.split(",") if name.strip()]
    with progress("emitting", quiet=quiet) as report:
        made = verbs.emit(file, names, stored=stored, against=against, as_of=as_of, seed=seed, progress=report)
    if isinstance(made, Refusal):
        return answered(made, json=json, no_color=no_color)
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
