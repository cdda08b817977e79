"""`ullage calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import (
    Accept,
    AsJson,
    BatchWait,
    CachedShare,
    CapacityPolicyOption,
    Device,
    DpAttention,
    Engine,
    EngineVersion,
    Ep,
    Force,
    KvDtype,
    KvTokens,
    Launches,
    MaxOutput,
    MaxSequences,
    Model,
    NoColor,
    Out,
    PollSteps,
    Pp,
    Prefill,
    Replicas,
    Timeout,
    TokenBudget,
    Tp,
    Transfer,
)
from ullage.cli.terminal import answered
from ullage.errors import InputError

if TYPE_CHECKING:
    from ullage.verbs.calibrate_fit import Fitted


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Result files of load tests, of any tool.")],
    inspect: Annotated[bool, typer.Option("--inspect", help="Show what was read from each file, and stop.")] = False,
    goodput: Annotated[
        str | None,
        typer.Option(
            "--goodput", metavar="LIMITS", help="Recount goodput: 'ttft:500ms tpot:50ms'. Default: the file's own."
        ),
    ] = None,
    goodput_rule: Annotated[
        str | None,
        typer.Option(
            "--goodput-rule",
            metavar="TOOL",
            help="Whose conventions fill gaps in the limits. Default: Ullage's and the tool's.",
        ),
    ] = None,
    model: Model = None,
    device: Device = None,
    engine: Engine = None,
    engine_version: EngineVersion = None,
    tp: Tp = 1,
    pp: Pp = 1,
    ep: Ep = 1,
    dp_attention: DpAttention = 1,
    kv_tokens: KvTokens = None,
    max_sequences: MaxSequences = None,
    token_budget: TokenBudget = None,
    kv_dtype: KvDtype = None,
    poll_steps: PollSteps = None,
    batch_wait_steps: BatchWait = None,
    launch: Launches = None,
    capacity_policy: CapacityPolicyOption = None,
    max_output: MaxOutput = None,
    cached_share: CachedShare = None,
    replicas: Replicas = None,
    timeout: Timeout = None,
    prefill: Prefill = None,
    transfer: Transfer = None,
    accept: Accept = None,
    out: Out = None,
    force: Force = False,
    json: AsJson = False,
    no_color: NoColor = False,
) -> int:
    """Fit the step model of a replica to load tests of any tool, or with --inspect show what was read from them."""
    _check_out(out, inspect=inspect, force=force)
    if not inspect and model is not None and device is not None:
        from ullage.load.typed import parse_tokens
        from ullage.verbs.calibrate_fit import fit_calibration, stated_test

        fitted = fit_calibration(
            files,
            model=model,
            device=device,
            engine=engine,
            engine_version=engine_version,
            tp=tp,
            pp=pp,
            ep=ep,
            dp_attention=dp_attention,
            kv_tokens=kv_tokens,
            max_sequences=max_sequences,
            budget_tokens=parse_tokens(token_budget, "--token-budget"),
            kv_dtype=kv_dtype,
            poll_steps=poll_steps,
            batch_wait_steps=batch_wait_steps,
            capacity_policy=capacity_policy,
            output_limit_tokens=parse_tokens(max_output, "--max-output"),
            prefill=prefill,
            transfer=transfer,
            stated=stated_test(cached_share, replicas, timeout, accept, launch),
        )
        if out is not None:
            _write(fitted, out, force=force)
        return answered(fitted, json=json, no_color=no_color)
    from ullage import verbs

    found = verbs.calibrate(files, inspect=inspect, goodput=goodput, goodput_rule=goodput_rule)
    return answered(found, json=json, no_color=no_color)


def _check_out(out: Path | None, *, inspect: bool, force: bool) -> None:
    """Before the work: whether the calibration can be written where it is wanted."""
    if out is None:
        return
    from ullage.files.whole import check_target

    if inspect:
        fix = "Leave out one of the two."
        raise InputError(
            field="--out", value=str(out), problem="cannot be combined with --inspect, which fits nothing", fix=fix
        )
    check_target(out, field="--out", force=force)


def _write(fitted: Fitted, out: Path, *, force: bool) -> None:
    from ullage.files.whole import write_whole
    from ullage.report.encode import to_text

    write_whole(out, to_text(fitted.to_dict()), field="--out", force=force)
