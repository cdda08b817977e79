"""`ullage init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsOf, Device, EngineLogs, Force, LoadTests, Model, Out, Quiet
from ullage.cli.terminal import answer_text, progress, talk
from ullage.errors import ExitCode


def command(
    model: Model = None,
    device: Device = None,
    trace: Annotated[list[Path] | None, typer.Option("--trace", help="A request log; may be repeated.")] = None,
    profile: Annotated[Path | None, typer.Option("--profile", help="What ullage profile --save wrote.")] = None,
    load_test: LoadTests = None,
    engine_log: EngineLogs = None,
    service: Annotated[str | None, typer.Option("--service", help="Name of the service.")] = None,
    out: Out = None,
    force: Force = False,
    as_of: AsOf = None,
    quiet: Quiet = False,
) -> int:
    """Write a first plan file from what you have: a trace, a load test, an engine's log, a model's name.

    It is written to plan.yaml unless --out names another file; --out - prints it. Every value found names its source;
    every unknown one is marked `decide`.
    """
    from ullage import verbs
    from ullage.files.whole import check_target
    from ullage.foreign import shell_word
    from ullage.verbs.init import save_starter

    to_stdout, file = str(out) == "-", out or Path("plan.yaml")
    if not to_stdout:
        check_target(file, field="--out", force=force)
    with progress("reading", quiet=quiet):
        text = verbs.init(
            model=model,
            device=device,
            traces=trace or (),
            profile=profile,
            load_tests=load_test or (),
            engine_logs=engine_log or (),
            service=service,
            folder=Path() if to_stdout else file.parent,
            as_of=as_of,
        )
    if to_stdout:
        answer_text(text)
        return ExitCode.OK
    save_starter(text, file, force=force)
    talk(f"Wrote {file}. Look for `decide`, then: ullage plan {shell_word(str(file))}", quiet=quiet)
    return ExitCode.OK
