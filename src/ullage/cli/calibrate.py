"""`ullage calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import AsJson, NoColor
from ullage.cli.terminal import answer, answer_text
from ullage.errors import ExitCode

if TYPE_CHECKING:
    from ullage.verbs.calibrate_fit import Fitted


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Result files of load tests, of any tool.")],
    inspect: Annotated[bool, typer.Option("--inspect", help="Show what was read from each file, and stop.")] = False,
    goodput: Annotated[
        str | None,
        typer.Option(
            "--goodput", metavar="LIMITS", help="Judge requests anew: 'ttft:500ms tpot:50ms'. Default: the file's own."
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule", metavar="TOOL", help="Whose habits decide what limits leave open. Default: ours and the tool's."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model that was tested: a name, or a config.json.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="The device it ran on.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", metavar="NAME", help="The engine. Default: vllm.")] = None,
    tp: Annotated[int, typer.Option("--tp", help="Devices that share every layer.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline stages.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="Groups of experts, out of the tp devices.")] = 1,
    dp_attention: Annotated[int, typer.Option("--dp-attention", help="Attention groups, out of the tp devices.")] = 1,
    kv_tokens: Annotated[
        int | None, typer.Option("--kv-tokens", help="Tokens the cache holds, from the log. Default: the budget's.")
    ] = None,
    max_sequences: Annotated[int | None, typer.Option("--max-sequences", help="Sequences run at once.")] = None,
    token_budget: Annotated[
        int | None, typer.Option("--token-budget", help="Tokens that one step may compute.")
    ] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", metavar="NAME", help="The cache's dtype.")] = None,
    poll_steps: Annotated[
        int, typer.Option("--poll-steps", min=1, help="Steps between two looks for requests (SGLang's recv interval).")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write the calibration. Default: nowhere.")
    ] = None,
    json: AsJson = False,
    no_color: NoColor = False,
) -> int:
    """Fit the step model of a replica to load tests of any tool, or with --inspect show what was read from them."""
    if not inspect and model is not None and device is not None:
        from ullage.verbs.calibrate_fit import fit_calibration

        fitted = fit_calibration(
            files,
            model=model,
            device=device,
            engine=engine,
            tp=tp,
            pp=pp,
            ep=ep,
            dp_attention=dp_attention,
            kv_tokens=kv_tokens,
            max_sequences=max_sequences,
            budget_tokens=token_budget,
            kv_dtype=kv_dtype,
            poll_steps=poll_steps,
        )
        return _answer_fitted(fitted, out=out, json=json, no_color=no_color)
    from ullage import verbs
    from ullage.report.encode import document, to_text
    from ullage.report.service.loadtest_page import loadtests_page
    from ullage.verbs.calibrate import Inspected

    found = verbs.calibrate(files, inspect=inspect, goodput=goodput, rule=rule)
    pairs = [(each.loadtest, each.goodputs) for each in found]
    if json:
        answer_text(to_text(document("calibrate", Inspected(loadtests=found))))
    else:
        answer(*loadtests_page(pairs), no_color=no_color)
    return ExitCode.OK


def _answer_fitted(fitted: Fitted, *, out: Path | None, json: bool, no_color: bool) -> int:
    from ullage.files.whole import write_whole
    from ullage.report.service.calibration_page import calibration_page

    text = fitted.text()
    if out is not None:
        write_whole(out, text, field="--out")
    if json:
        answer_text(text)
        return ExitCode.OK
    page = calibration_page(
        fitted.calibration,
        fitted.provenance,
        fitted.next_test,
        left_out=[(each.point, each.reason) for each in fitted.left_out],
        breaches=[(point, breach.sentence) for point, breach in fitted.breaches],
        agreement=fitted.agreement,
    )
    answer(*page, no_color=no_color)
    return ExitCode.OK
