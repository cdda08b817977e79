"""`ullage cost`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, progress, talk
from ullage.errors import ExitCode, InputError, Rejection

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.verbs.cost import CostAnswer


By = Annotated[
    str | None,
    typer.Option(
        "--attribute", metavar="BY", help="Divide by product, tenant, model or class. Default: class; of a log tenant."
    ),
]
Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="NAME",
        help="gpu_time, kv_token_seconds, tokens, weighted_tokens, requests, shapley or peak.",
    ),
]
BasisName = Annotated[
    str, typer.Option("--basis", metavar="NAME", help="usage, or allocation by the parts of --allotted.")
]
Allotted = Annotated[
    list[str] | None, typer.Option("--allotted", metavar="NAME=SHARE", help="A part of the fleet: acme=40%. Repeat.")
]
IdleName = Annotated[
    str, typer.Option("--idle", metavar="HOW", help="Idle time and reserves: apart, or spread over the groups.")
]
SpreadBy = Annotated[
    str, typer.Option("--spread-by", metavar="RULE", help="The rule that spreads them. Default: --rule.")
]
Known = Annotated[
    list[str] | None,
    typer.Option("--known", metavar="NAME", help="Names that are allowed; others are unallocated. Repeat."),
]
Usage = Annotated[
    list[Path] | None, typer.Option("--usage", metavar="LOG", help="Request logs that say who used it. Repeat.")
]
Columns = Annotated[
    list[str] | None, typer.Option("--column", metavar="OURS=THEIRS", help="A column of the logs. Repeat.")
]
Against = Annotated[
    str | None, typer.Option("--against", metavar="PROVIDER/MODEL", help="Compare with buying the same tokens.")
]
More = Annotated[bool, typer.Option("--marginal", help="Plan again with more demand, tighter SLOs, one more nine.")]
Commit = Annotated[
    str | None, typer.Option("--commit", metavar="PURCHASE", help="How much to commit, as 1y-no-upfront, and why.")
]
Before = Annotated[
    Path | None, typer.Option("--before", metavar="FILE", help="Another plan file: why this bill differs from its.")
]
Focus = Annotated[
    Path | None, typer.Option("--focus", metavar="FILE.csv", help="Write the charges as a FOCUS 1.2 file too.")
]


def command(
    file: Annotated[Path | None, typer.Argument(help="The plan file. Default: the built-in example.")] = None,
    attribute: By = None,
    rule: Rule = "gpu_time",
    basis: BasisName = "usage",
    allotted: Allotted = None,
    idle: IdleName = "apart",
    spread_by: SpreadBy = "",
    known: Known = None,
    usage: Usage = None,
    column: Columns = None,
    against: Against = None,
    marginal: More = False,
    commit: Commit = None,
    before: Before = None,
    focus: Focus = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Bill a plan: every line of a month, what a success costs, and who caused it.

    A line whose price or driver is not known says what to give and is never counted as 0. Rows of the attribution sum
    to every line, to the cent.
    """
    from ullage.files.whole import write_whole
    from ullage.report.encode import document, to_text
    from ullage.verbs.cost import cost

    if file is None:
        talk("No plan file given: the built-in example.", quiet=quiet)
    with progress("planning", quiet=quiet) as report:
        found = cost(
            file,
            attribute=attribute,
            rule=rule,
            basis=basis,
            idle=idle,
            spread_rule=spread_by,
            allotted=_shares(allotted or []),
            known=known,
            usage=usage or [],
            mapping=_pairs(column or [], "--column") or None,
            against=against,
            marginal=marginal,
            commit=commit,
            before=before,
            as_of=as_of,
            seed=seed,
            progress=report,
        )
    if isinstance(found, Rejection):
        return answer_refusal("cost", found, json=json, no_color=no_color)
    if focus is not None:
        write_whole(focus, found.focus(), field="--focus")
    if json:
        service, behind = found.bill.use.service, found.bill.figures.values()
        answer_text(
            to_text(document("cost", found, as_of=found.as_of, seed=found.seed, service=service, behind=behind))
        )
    else:
        answer(*_page(found), no_color=no_color)
    return ExitCode.OK


def _page(found: CostAnswer) -> list[RenderableType]:
    from ullage.report.money.bill_page import (
        against_parts,
        attribution_parts,
        bill_parts,
        change_table,
        commitment_parts,
        marginal_parts,
    )

    parts = [*bill_parts(found.bill)]
    if found.attribution is not None:
        parts += ["", *attribution_parts(found.attribution, found.spread)]
    parts += [*against_parts(found.against), *marginal_parts(found.marginals, found.replicas)]
    parts += commitment_parts(found.commitments)
    parts += [] if found.change is None else ["", change_table(found.change)]
    return [*parts, *(f"Note: {note}" for note in found.notes)]


def _pairs(written: list[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in written:
        name, equals, value = each.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise InputError(
                field=option, value=each, problem="is not two names with = between them", fix="Give NAME=VALUE."
            )
        found[name.strip()] = value.strip()
    return found


def _shares(written: list[str]) -> dict[str, float]:
    from ullage.units import FRACTION, parse

    return {
        name: parse(share, FRACTION, field=f"--allotted {name}")
        for name, share in _pairs(written, "--allotted").items()
    }
