"""`ullage memory`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor
from ullage.cli.terminal import answer, answer_text
from ullage.errors import ExitCode, Rejection

if TYPE_CHECKING:
    from ullage.verbs.memory import MemoryAnswer

_ModelArgument = Annotated[
    str, typer.Argument(help="A name in the catalogue, or a config.json or its directory.", show_default=False)
]
_Device = Annotated[str, typer.Option("--device", metavar="NAME", help="The device.", show_default=False)]
_Tp = Annotated[int, typer.Option("--tp", help="Devices that share every layer.")]
_Pp = Annotated[int, typer.Option("--pp", help="Pipeline stages.")]
_Ep = Annotated[int, typer.Option("--ep", help="Groups of experts, out of the tp devices.")]
_DpAttention = Annotated[int, typer.Option("--dp-attention", help="Attention groups, out of the tp devices.")]
_Context = Annotated[
    str | None,
    typer.Option("--context", metavar="TOKENS", help="The longest context. Default: the log's, or the model's."),
]
_Concurrency = Annotated[
    int | None, typer.Option("--concurrency", help="Sequences of that context that must fit at once. Default: 1.")
]
_KvDtype = Annotated[
    str | None, typer.Option("--kv-dtype", metavar="NAME", help="The cache's dtype. Default: the model's own.")
]
_Engine = Annotated[
    str | None, typer.Option("--engine", metavar="NAME", help="The engine. Default: the log's, or vllm.")
]
_EngineVersion = Annotated[
    str | None, typer.Option("--engine-version", metavar="VERSION", help="Its version. Default: the newest known.")
]
_MemoryFraction = Annotated[
    str | None, typer.Option("--memory-fraction", metavar="SHARE", help="The engine's memory fraction: 0.9 or 90%.")
]
_TokenBudget = Annotated[
    str | None, typer.Option("--token-budget", metavar="TOKENS", help="Tokens that one step may compute.")
]
_MaxSequences = Annotated[int | None, typer.Option("--max-sequences", help="Sequences that the engine runs at once.")]
_KvMemory = Annotated[
    str | None, typer.Option("--kv-memory", metavar="BYTES", help="The cache's size, in place of a fraction.")
]
_Adapters = Annotated[
    str | None, typer.Option("--adapters", metavar="SLOTS:RANK", help="Slots for adapters, for example 8:16.")
]
_Eager = Annotated[bool, typer.Option("--eager", help="Without CUDA graphs.")]
_Mtp = Annotated[bool, typer.Option("--mtp", help="With the model's multi-token prediction layers.")]
_WeightOffload = Annotated[
    str | None, typer.Option("--weight-offload", metavar="BYTES", help="Weights of a device kept on the host.")
]
_KvOffload = Annotated[
    str | None, typer.Option("--kv-offload", metavar="BYTES", help="Cache of a device kept on the host.")
]
_HostMemory = Annotated[
    str | None, typer.Option("--host-memory", metavar="BYTES", help="What the host has for this replica.")
]
_Mig = Annotated[
    str | None, typer.Option("--mig", metavar="PROFILE", help="A slice of the device, for example 3g.40gb.")
]
_Logs = Annotated[
    list[Path] | None,
    typer.Option("--log", metavar="FILE", help="The engine's log, metrics or a device monitor's file. Repeat."),
]
_Facts = Annotated[Path | None, typer.Option("--facts", metavar="DIR", help="Your own facts, laid over ours.")]
_Explain = Annotated[str | None, typer.Option("--explain", metavar="NAME", help="Walk one number back to its sources.")]


def command(
    model: _ModelArgument,
    device: _Device,
    tp: _Tp = 1,
    pp: _Pp = 1,
    ep: _Ep = 1,
    dp_attention: _DpAttention = 1,
    context: _Context = None,
    concurrency: _Concurrency = None,
    kv_dtype: _KvDtype = None,
    engine: _Engine = None,
    engine_version: _EngineVersion = None,
    memory_fraction: _MemoryFraction = None,
    token_budget: _TokenBudget = None,
    max_sequences: _MaxSequences = None,
    kv_memory: _KvMemory = None,
    adapters: _Adapters = None,
    eager: _Eager = False,
    mtp: _Mtp = False,
    weight_offload: _WeightOffload = None,
    kv_offload: _KvOffload = None,
    host_memory: _HostMemory = None,
    mig: _Mig = None,
    log: _Logs = None,
    facts: _Facts = None,
    explain: _Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    no_color: NoColor = False,
) -> int:
    """Budget the memory of a device: does a model fit, and how much fits beside it.

    Every line carries its evidence. A log of the engine replaces estimates line by line. What does not fit is
    refused (exit 3), with changes that were worked out to fit.
    """
    from ullage import verbs
    from ullage.verbs.memory import adapters_of, bytes_of, share_of, tokens_of

    answered = verbs.memory(
        model,
        device=device,
        tp=tp,
        pp=pp,
        ep=ep,
        dp_attention=dp_attention,
        concurrency=concurrency,
        host_bytes=bytes_of(host_memory, "--host-memory"),
        mig=mig,
        logs=log or [],
        facts=facts,
        as_of=as_of,
        engine=engine,
        version=engine_version,
        memory_fraction=share_of(memory_fraction, "--memory-fraction"),
        step_tokens=tokens_of(token_budget, "--token-budget"),
        max_sequences=max_sequences,
        kv_dtype=kv_dtype,
        max_context_tokens=tokens_of(context, "--context"),
        kv_pool_bytes=bytes_of(kv_memory, "--kv-memory"),
        graphs=not eager,
        mtp=mtp,
        adapters=adapters_of(adapters),
        weight_offload_bytes=bytes_of(weight_offload, "--weight-offload") or 0,
        kv_offload_bytes=bytes_of(kv_offload, "--kv-offload") or 0,
    )
    return _print(answered, explain=explain, json=json, no_color=no_color)


def _print(answered: MemoryAnswer, *, explain: str | None, json: bool, no_color: bool) -> int:
    from ullage.report.encode import document, explained_json, refusal_json, to_text
    from ullage.report.explanation import explanation
    from ullage.report.memory_page import memory_page, refused_page
    from ullage.verbs.memory import figure_of

    found, day = answered.found, answered.as_of
    if isinstance(found, Rejection):
        if json:
            answer_text(to_text(refusal_json("memory", found)))
        else:
            answer(*refused_page(found), no_color=no_color)
        return ExitCode.REFUSED
    if explain is not None:
        figure = figure_of(found, explain)
        if json:
            answer_text(to_text(explained_json("memory", figure, as_of=day)))
        else:
            answer(explanation(figure, day), no_color=no_color)
    elif json:
        answer_text(to_text(document("memory", found, as_of=day, behind=found.figures.values())))
    else:
        answer(*memory_page(found, day), no_color=no_color)
    return ExitCode.OK
