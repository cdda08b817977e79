"""`ullage profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, Columns, Force, Format, NoColor, Quiet, Seed, Zone
from ullage.cli.terminal import answer_json, answered, progress, talk
from ullage.errors import ExitCode


def command(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE", help="Files, folders or quoted globs.")],
    column: Columns = None,
    format_name: Format = None,
    zone: Zone = "",
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="NAME:RULE",
            help="A class by rule, for example chat:model=llama*,below_prompt_tokens=4000. Repeat.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Save the profile, without tenants' names.")
    ] = None,
    force: Force = False,
    tenant_key: Annotated[
        str | None,
        typer.Option(
            "--tenant-key",
            envvar="ULLAGE_TENANT_KEY",
            metavar="SECRET",
            help="Hash tenants with this key in --save and --json. Default: name them by rank.",
        ),
    ] = None,
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="DURATION", help="The age beyond which a trace is too old.")
    ] = "30d",
    synthesize: Annotated[
        bool,
        typer.Option("--synthesize", help="Print the synthetic model fitted to the trace, as JSON to edit and share."),
    ] = False,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Profile request logs: arrivals, bursts, lengths, seasons, sessions, reuse, and anomalies.

    Reads the formats listed in docs/reference/trace-formats.md and any table by --column.
    """
    from ullage import verbs
    from ullage.files.whole import check_target
    from ullage.load.typed import parse_class, parse_columns
    from ullage.report.encode import document
    from ullage.units import DURATION, parse
    from ullage.verbs.profile import save_profile, synthesis_of

    if save is not None:
        check_target(save, field="--save", force=force)
    with progress("profiling", quiet=quiet) as report:
        profiled = verbs.profile(
            traces,
            columns=parse_columns(column or []),
            format_name=format_name,
            zone=zone,
            classes=[parse_class(text) for text in classes or []],
            as_of=as_of,
            max_age_s=parse(max_age, DURATION, field="--max-age"),
            tenant_key=tenant_key,
            progress=report,
        )
    if save is not None:
        save_profile(profiled, save, force=force)
        talk(f"Saved {save}.", quiet=quiet)
    if not synthesize:
        return answered(profiled, json=json, no_color=no_color)
    found = synthesis_of(profiled, seed=seed)
    for sentence in found.broken:
        talk(sentence, quiet=quiet)
    answer_json(document("synthetic", found, as_of=profiled.as_of, seed=seed))
    return ExitCode.OK
