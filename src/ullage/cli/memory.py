"""`ullage memory`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    Context,
    Device,
    DpAttention,
    Engine,
    EngineLogs,
    EngineVersion,
    Ep,
    Explain,
    Facts,
    KvDtype,
    MaxSequences,
    MemoryFraction,
    NoColor,
    Pp,
    Speculation,
    TokenBudget,
    Tp,
)
from ullage.cli.terminal import answered, explained
from ullage.errors import ExitCode, InputError, Rejection

_ModelArgument = Annotated[
    str, typer.Argument(help="A name in the catalogue, or a config.json or its directory.", show_default=False)
]
_Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", help="Sequences of that context that must fit at the same time. Default: 1."),
]
_KvMemory = Annotated[
    str | None, typer.Option("--kv-memory", metavar="BYTES", help="The cache's size, in place of a fraction.")
]
_Adapters = Annotated[
    str | None, typer.Option("--adapters", metavar="SLOTS:RANK", help="Slots for adapters, for example 8:16.")
]
_Eager = Annotated[bool, typer.Option("--eager", help="Without CUDA graphs.")]
_Mtp = Annotated[bool, typer.Option("--mtp", help="With the model's multi-token prediction layers.")]
_WeightOffload = Annotated[
    str | None, typer.Option("--weight-offload", metavar="BYTES", help="Weights per device kept on the host.")
]
_KvOffload = Annotated[
    str | None, typer.Option("--kv-offload", metavar="BYTES", help="KV cache per device kept on the host.")
]
_HostMemory = Annotated[
    str | None, typer.Option("--host-memory", metavar="BYTES", help="Host memory available to this replica.")
]
_Mig = Annotated[
    str | None, typer.Option("--mig", metavar="PROFILE", help="A slice of the device, for example 3g.40gb.")
]


def command(
    model: _ModelArgument,
    device: Device = None,
    tp: Tp = 1,
    pp: Pp = 1,
    ep: Ep = 1,
    dp_attention: DpAttention = 1,
    context: Context = None,
    concurrency: _Concurrency = None,
    kv_dtype: KvDtype = None,
    engine: Engine = None,
    engine_version: EngineVersion = None,
    memory_fraction: MemoryFraction = None,
    token_budget: TokenBudget = None,
    max_sequences: MaxSequences = None,
    kv_memory: _KvMemory = None,
    adapters: _Adapters = None,
    eager: _Eager = False,
    mtp: _Mtp = False,
    speculation: Speculation = None,
    weight_offload: _WeightOffload = None,
    kv_offload: _KvOffload = None,
    host_memory: _HostMemory = None,
    mig: _Mig = None,
    engine_log: EngineLogs = None,
    facts: Facts = None,
    explain: Explain = None,
    json: AsJson = False,
    as_of: AsOf = None,
    no_color: NoColor = False,
) -> int:
    """Budget the memory of a device: does a model fit, and how much KV cache is left.

    Every line carries its evidence. A log of the engine replaces estimates line by line. What does not fit is
    refused (exit 3), with changes that would make it fit.
    """
    from ullage import verbs
    from ullage.load.typed import parse_adapters, parse_bytes, parse_share, parse_tokens

    if device is None:
        fix = "Give --device NAME; ullage facts devices lists them."
        raise InputError(field="--device", value="not given", problem="a budget is that of a device", fix=fix)
    found = verbs.memory(
        model,
        device=device,
        tp=tp,
        pp=pp,
        ep=ep,
        dp_attention=dp_attention,
        concurrency=concurrency,
        host_bytes=parse_bytes(host_memory, "--host-memory"),
        mig=mig,
        engine_logs=engine_log or [],
        facts=facts,
        as_of=as_of,
        engine=engine,
        version=engine_version,
        memory_fraction=parse_share(memory_fraction, "--memory-fraction"),
        step_tokens=parse_tokens(token_budget, "--token-budget"),
        max_sequences=max_sequences,
        kv_dtype=kv_dtype,
        max_context_tokens=parse_tokens(context, "--context"),
        kv_pool_bytes=parse_bytes(kv_memory, "--kv-memory"),
        graphs=not eager,
        mtp=mtp,
        adapters=parse_adapters(adapters),
        speculation=speculation,
        weight_offload_bytes=parse_bytes(weight_offload, "--weight-offload") or 0,
        kv_offload_bytes=parse_bytes(kv_offload, "--kv-offload") or 0,
    )
    if isinstance(found.found, Rejection):
        answered(found, json=json, no_color=no_color)
        return ExitCode.REFUSED
    if explain is None:
        return answered(found, json=json, no_color=no_color)
    return explained(found, explain, verb="memory", json=json, no_color=no_color)
