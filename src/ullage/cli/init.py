"""`ullage init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsOf, Quiet
from ullage.cli.terminal import answer_text, talk, waiting
from ullage.errors import ExitCode


def command(
    model: Annotated[str | None, typer.Option("--model", help="A model of the catalogue, or its config.json.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="A device of the catalogue.")] = None,
    trace: Annotated[list[Path] | None, typer.Option("--trace", help="A request log; may be repeated.")] = None,
    profile: Annotated[Path | None, typer.Option("--profile", help="What ullage profile --save wrote.")] = None,
    load_test: Annotated[
        list[Path] | None, typer.Option("--load-test", help="A result of a load tool; may be repeated.")
    ] = None,
    engine_log: Annotated[
        list[Path] | None,
        typer.Option("--engine-log", "--metrics", help="A start-up log or a /metrics dump; may be repeated."),
    ] = None,
    service: Annotated[str | None, typer.Option("--service", help="What the plan is called.")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write it; - prints it. An existing file is kept.")
    ] = Path("plan.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_of: AsOf = None,
    quiet: Quiet = False,
) -> int:
    """Write a first plan file from what there is: a trace, a load test, an engine's log, a model's name.

    Every line that was found says where; every line that nobody said is marked to be decided.
    """
    from ullage import verbs
    from ullage.verbs.init import save_starter

    to_stdout = str(out) == "-"
    with waiting("reading", quiet=quiet):
        text = verbs.init(
            model=model,
            device=device,
            traces=trace or (),
            profile=profile,
            load_tests=load_test or (),
            engine_logs=engine_log or (),
            service=service,
            folder=Path() if to_stdout else out.parent,
            as_of=as_of,
        )
    if to_stdout:
        answer_text(text)
        return ExitCode.OK
    save_starter(text, out, force=force)
    talk(f"Wrote {out}. Look for `decide`, then: ullage plan {out}", quiet=quiet)
    return ExitCode.OK
