"""`ullage cost`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    By,
    Columns,
    Explain,
    Fleet,
    Force,
    LedgerPlace,
    Limit,
    NoColor,
    PlanArgument,
    Quiet,
    Seed,
    Set,
    Traffic,
)
from ullage.cli.terminal import answered, ask_verb

Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="NAME",
        help="causation, gpu_time, kv_token_seconds, tokens, weighted_tokens, requests, shapley or peak. Default: "
        "causation where it is known, else gpu_time.",
        show_default=False,
    ),
]
BasisName = Annotated[
    str, typer.Option("--basis", metavar="NAME", help="usage, or allocation by the shares of --allotted.")
]
Allotted = Annotated[
    list[str] | None, typer.Option("--allotted", metavar="NAME=SHARE", help="A share of the fleet: acme=40%. Repeat.")
]
IdleName = Annotated[
    str,
    typer.Option(
        "--idle",
        metavar="HOW",
        help="Idle time and reserves: as separate lines, or spread over the groups (apart, spread).",
    ),
]
SpreadBy = Annotated[
    str, typer.Option("--spread-by", metavar="RULE", help="The rule that spreads them. Default: --rule.")
]
Known = Annotated[
    list[str] | None,
    typer.Option("--known", metavar="NAME", help="Allowed names; all others count as unallocated. Repeat."),
]
Usage = Annotated[
    list[Path] | None, typer.Option("--usage", metavar="LOG", help="Request logs with who made each request. Repeat.")
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against", metavar="PROVIDER/MODEL", help="Compare with buying the same tokens; @batch: in that tier."
    ),
]
More = Annotated[bool, typer.Option("--marginal", help="Plan again with more demand, tighter SLOs, one more nine.")]
Commit = Annotated[
    str | None, typer.Option("--commit", metavar="PURCHASE", help="How much to commit, as 1y-no-upfront, and why.")
]
Before = Annotated[
    Path | None, typer.Option("--before", metavar="FILE", help="Another plan file: explain why this bill differs.")
]
Quarter = Annotated[bool, typer.Option("--quarter", help="A budget of the next three months, with its band.")]
Year = Annotated[bool, typer.Option("--year", help="A budget of the next twelve months, with its band.")]
Focus = Annotated[
    Path | None, typer.Option("--focus", metavar="FILE.csv", help="Also write the charges as a FOCUS 1.2 file.")
]

Table = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE.csv", help="Also write the chargeback as a plain table.")
]


def command(
    file: PlanArgument = None,
    changed: Set = None,
    traffic: Traffic = None,
    by: By = None,
    rule: Rule = "",
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
    quarter: Quarter = False,
    year: Year = False,
    fleet: Fleet = "fixed",
    ledger: LedgerPlace = None,
    focus: Focus = None,
    csv: Table = None,
    force: Force = False,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    limit: Limit = None,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Bill a plan: every line of a month, what a success costs, and who caused it.

    A line whose price or driver is not known says what to give and is never counted as 0. Rows of the attribution sum
    to every line, to the cent. With --quarter or --year future months are billed over many draws: P10, P50, P90, why
    they differ from today's bill, and the past months whose bills are in a ledger.
    """
    from ullage import verbs
    from ullage.files.whole import check_target, write_whole
    from ullage.load.typed import parse_columns, parse_shares
    from ullage.verbs.answer import Refusal
    from ullage.verbs.what_if import last

    for target, option in ((focus, "--focus"), (csv, "--csv")):
        if target is not None:
            check_target(target, field=option, force=force)
    ask = partial(
        verbs.cost,
        file, by=by, rule=rule, basis=basis, idle=idle, spread_rule=spread_by,
        allotted=parse_shares(allotted or [], "--allotted"),
        known=known, usage=usage or [], columns=parse_columns(column or []),
        against=against, marginal=marginal, commit=commit, before=before,
        months=12 if year else 3 if quarter else None, fleet=fleet, ledger=ledger,
        as_of=as_of, seed=seed, limit=limit,
    )  # fmt: skip
    found = ask_verb("planning", ask, changed, traffic, quiet=quiet, example=file is None)
    bill = last(found)
    if focus is not None and not isinstance(bill, Refusal):
        write_whole(focus, bill.focus(), field="--focus", force=force)
    if csv is not None and not isinstance(bill, Refusal):
        write_whole(csv, bill.chargeback(), field="--csv", force=force)
    return answered(found, json=json, no_color=no_color, explain=explain, verb="cost")
