"""`ullage memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor
from ullage.cli.terminal import answer, answer_text
from ullage.errors import ExitCode, Rejection


def command(
    model: Annotated[
        str, typer.Argument(help="A name in the catalogue, or a config.json or its directory.", show_default=False)
    ],
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="The device.", show_default=False)],
    tp: Annotated[int, typer.Option("--tp", help="Devices that share every layer.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline stages.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="Groups of experts, out of the tp devices.")] = 1,
    dp_attention: Annotated[int, typer.Option("--dp-attention", help="Attention groups, out of the tp devices.")] = 1,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="TOKENS", help="The longest context. Default: the log's, or the model's."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="Sequences of that context that must fit at once. Default: 1.")
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", metavar="NAME", help="The cache's dtype. Default: the model's own.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="The engine. Default: the log's, or vllm.")
    ] = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="VERSION", help="Its version. Default: the newest known.")
    ] = None,
    memory_fraction: Annotated[
        str | None, typer.Option("--memory-fraction", metavar="SHARE", help="The engine's memory fraction: 0.9 or 90%.")
    ] = None,
    token_budget: Annotated[
        str | None, typer.Option("--token-budget", metavar="TOKENS", help="Tokens that one step may compute.")
    ] = None,
    max_sequences: Annotated[
        int | None, typer.Option("--max-sequences", help="Sequences that the engine runs at once.")
    ] = None,
    kv_memory: Annotated[
        str | None, typer.Option("--kv-memory", metavar="BYTES", help="The cache's size, in place of a fraction.")
    ] = None,
    adapters: Annotated[
        str | None, typer.Option("--adapters", metavar="SLOTS:RANK", help="Slots for adapters, for example 8:16.")
    ] = None,
    eager: Annotated[bool, typer.Option("--eager", help="Without CUDA graphs.")] = False,
    mtp: Annotated[bool, typer.Option("--mtp", help="With the model's multi-token prediction layers.")] = False,
    weight_offload: Annotated[
        str | None, typer.Option("--weight-offload", metavar="BYTES", help="Weights of a device kept on the host.")
    ] = None,
    kv_offload: Annotated[
        str | None, typer.Option("--kv-offload", metavar="BYTES", help="Cache of a device kept on the host.")
    ] = None,
    host_memory: Annotated[
        str | None, typer.Option("--host-memory", metavar="BYTES", help="What the host has for this replica.")
    ] = None,
    mig: Annotated[
        str | None, typer.Option("--mig", metavar="PROFILE", help="A slice of the device, for example 3g.40gb.")
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="The engine's log, metrics or a device monitor's file. Repeat."),
    ] = None,
    facts: Annotated[
        Path | None, typer.Option("--facts", metavar="DIR", help="Your own facts, laid over ours.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="NAME", help="Walk one number back to its sources.")
    ] = None,
    json: AsJson = False,
    as_of: AsOf = None,
    no_color: NoColor = False,
) -> int:
    """Budget the memory of a device: does a model fit, and how much fits beside it.

    Every line carries its evidence. A log of the engine replaces estimates line by line. What does not fit is
    refused (exit 3), with changes that were worked out to fit.
    """
    from ullage import verbs
    from ullage.report.explanation import explanation
    from ullage.report.memory import memory_json, memory_page, refused_json, refused_page
    from ullage.report.plan_json import explanation_json, to_text
    from ullage.units import BYTES, FRACTION, TOKENS
    from ullage.verbs.memory import adapters_of, figure_of, share_of, whole_of

    answered = verbs.memory(
        model,
        device=device,
        tp=tp,
        pp=pp,
        ep=ep,
        dp_attention=dp_attention,
        concurrency=concurrency,
        host_bytes=whole_of(host_memory, BYTES, "--host-memory"),
        mig=mig,
        logs=log or [],
        facts=facts,
        as_of=as_of,
        engine=engine,
        version=engine_version,
        memory_fraction=share_of(memory_fraction, FRACTION, "--memory-fraction"),
        step_tokens=whole_of(token_budget, TOKENS, "--token-budget"),
        max_sequences=max_sequences,
        kv_dtype=kv_dtype,
        max_context_tokens=whole_of(context, TOKENS, "--context"),
        kv_pool_bytes=whole_of(kv_memory, BYTES, "--kv-memory"),
        graphs=not eager,
        mtp=mtp,
        adapters=adapters_of(adapters),
        weight_offload_bytes=whole_of(weight_offload, BYTES, "--weight-offload") or 0,
        kv_offload_bytes=whole_of(kv_offload, BYTES, "--kv-offload") or 0,
    )
    found = answered.found
    if isinstance(found, Rejection):
        if json:
            answer_text(to_text(refused_json(found, answered.as_of)))
        else:
            answer(*refused_page(found), no_color=no_color)
        return ExitCode.REFUSED
    if explain is not None:
        figure = figure_of(found, explain)
        if json:
            answer_text(to_text(explanation_json(figure)))
        else:
            answer(explanation(figure, answered.as_of), no_color=no_color)
    elif json:
        answer_text(to_text(memory_json(found, answered.as_of)))
    else:
        answer(*memory_page(found, answered.as_of), no_color=no_color)
    return ExitCode.OK
