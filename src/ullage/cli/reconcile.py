"""`ullage reconcile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import (
    AsJson,
    Force,
    HttpConfig,
    Keep,
    LedgerPlace,
    Markdown,
    MetricNames,
    NoColor,
    PlanOption,
    Prometheus,
    Quiet,
    RangeAnswers,
    Since,
    Until,
)
from ullage.cli.terminal import answer, answered, progress, talk
from ullage.errors import ExitCode, InputError


def command(
    files: RangeAnswers = None,
    plan: PlanOption = None,
    prometheus: Prometheus = None,
    since: Since = None,
    until: Until = None,
    http_config: HttpConfig = None,
    names: MetricNames = None,
    paid: Annotated[
        Path | None, typer.Option("--paid", metavar="FILE", help="What was paid: a FOCUS export or OpenCost's JSON.")
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option("--apply", metavar="DIFF", help="Write a diff of the plan file, and a calibration next to it."),
    ] = None,
    force: Force = False,
    backtest: Annotated[
        bool, typer.Option("--backtest", help="Backtest: replan the observed period week by week, at several risks.")
    ] = False,
    queries: Annotated[bool, typer.Option("--queries", help="Print the queries, to run them by hand.")] = False,
    keep: Keep = False,
    ledger: LedgerPlace = None,
    markdown: Markdown = False,
    json: AsJson = False,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Compare a stored plan with production: scorecard, error by cause, assumptions, SLOs, forecast, what to change.

    The exit code is 3 where the plan is past its tolerances: more than one replica off, a forecast error beyond 30 %,
    an hour that certainly violated an SLO, or an out-of-memory kill. Nothing is changed; --apply writes a diff.
    """
    from ullage import verbs
    from ullage.files.whole import check_target, write_whole
    from ullage.report.decisions.reconcile_page import query_table
    from ullage.report.encode import to_text
    from ullage.verbs.reconcile import production_queries

    if queries:
        if since is None or until is None:
            raise InputError(field="--from", value=since, problem="and --until are missing", fix="Give both.")
        answer(query_table(production_queries(since, until, names=names)), no_color=no_color)
        return ExitCode.OK
    fitted = Path("calibration.json") if apply is None else apply.with_suffix(".calibration.json")
    if apply is not None:
        check_target(apply, field="--apply", force=force)
        check_target(fitted, field="--apply", force=force)
    with progress("reconciling", quiet=quiet) as report:
        found = verbs.reconcile(
            plan or "latest",
            files=files or (),
            prometheus=prometheus,
            http_config=http_config,
            names=names,
            paid=paid,
            from_=since,
            until=until,
            ledger=ledger,
            keep=keep,
            backtest=backtest,
            calibration=fitted,
            progress=report,
        )
    answered(found, json=json, markdown=markdown, no_color=no_color)
    if found.kept_as:
        talk(f"Kept as {found.kept_as[:12]}.", quiet=quiet)
    if apply is not None:
        if found.diff:
            write_whole(apply, found.diff, field="--apply", force=force)
        talk(f"The diff is in {apply}." if found.diff else "There is nothing to change.", quiet=quiet)
        if found.calibration is not None:
            write_whole(fitted, to_text(dict(found.calibration)), field="--apply", force=force)
            talk(f"Step times fitted to production are in {fitted}.", quiet=quiet)
    return ExitCode.REFUSED if found.found.past else ExitCode.OK
