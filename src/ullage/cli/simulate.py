"""`ullage simulate`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import (
    AsJson,
    AsOf,
    BatchWait,
    Beside,
    CachedShare,
    Calibration,
    CapacityPolicyOption,
    Columns,
    Context,
    Device,
    DpAttention,
    Engine,
    EngineVersion,
    Ep,
    KvDtype,
    KvTokens,
    LoadTests,
    MaxOutput,
    MaxSequences,
    MemoryFraction,
    Model,
    NoColor,
    PlanOption,
    PollSteps,
    Pp,
    Prefill,
    Quiet,
    Rate,
    Replicas,
    Seed,
    Set,
    Slos,
    Speculation,
    Timeout,
    TokenBudget,
    Tp,
    Traffic,
    Transfer,
    Zone,
)
from ullage.cli.terminal import answered, ask_verb, talk

if TYPE_CHECKING:
    from ullage.service.served import ServedPool

_Traces = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TRACE]...", help="Request logs to replay: files, folders or globs."),
]
_StepProfile = Annotated[
    str | None,
    typer.Option(
        "--step-profile", metavar="FILE", help="Measured steps: a CSV, a sweep of Dynamo, aiconfigurator or aisimulate."
    ),
]
_Routing = Annotated[
    str,
    typer.Option("--routing", metavar="NAME", help="Routing: least_outstanding, sticky, prefix_aware, ..."),
]
_RouterRefresh = Annotated[
    str | None,
    typer.Option(
        "--router-refresh", metavar="TIME", help="How often the router's view of loads and caches is updated."
    ),
]
_PrefixCache = Annotated[
    str | None,
    typer.Option("--prefix-cache", metavar="HITS", help="Prefix hits: stated, simulated or off."),
]
_HostCache = Annotated[
    str | None,
    typer.Option(
        "--host-cache", metavar="SIZE:SPEED", help="Prefix cache in a replica's host memory, such as 200GB:25GB/s."
    ),
]
_BetweenTurns = Annotated[
    str | None,
    typer.Option(
        "--between-turns",
        metavar="NAME",
        help="Turns follow answers; a session's KV meanwhile: cached, kept, offloaded or dropped.",
    ),
]
_QueueLimit = Annotated[
    int | None, typer.Option("--queue-limit", min=0, help="Requests that may wait per replica; more are rejected.")
]
_PromptTokens = Annotated[
    int | None, typer.Option("--prompt-tokens", min=1, help="Synthetic requests instead of a trace: prompt tokens.")
]
_OutputTokens = Annotated[int | None, typer.Option("--output-tokens", min=1, help="Synthetic requests: output tokens.")]
_Arrivals = Annotated[
    str, typer.Option("--arrivals", metavar="NAME", help="Synthetic requests: poisson or constant arrivals.")
]
_Clients = Annotated[
    int | None,
    typer.Option("--clients", min=1, help="Synthetic requests: closed-loop clients instead of a rate."),
]
_Requests = Annotated[
    int | None,
    typer.Option("--requests", min=1, help="Synthetic requests: how many in total. Default: ten per client."),
]
_LengthsFrom = Annotated[
    str | None,
    typer.Option(
        "--lengths-from",
        metavar="SHARE",
        help="Synthetic lengths: spread from this share up. Default: all equal; with clients 80%.",
    ),
]
_Span = Annotated[
    str | None,
    typer.Option("--span", metavar="TIME", help="How much of a trace, or how long. Default: all, or 10 min."),
]


def command(
    traces: _Traces = None,
    plan: PlanOption = None,
    changed: Set = None,
    traffic: Traffic = None,
    model: Model = None,
    device: Device = None,
    engine: Engine = None,
    engine_version: EngineVersion = None,
    tp: Tp = 1, pp: Pp = 1, ep: Ep = 1, dp_attention: DpAttention = 1,
    context: Context = None,
    kv_tokens: KvTokens = None,
    memory_fraction: MemoryFraction = None,
    max_sequences: MaxSequences = None,
    token_budget: TokenBudget = None,
    kv_dtype: KvDtype = None,
    speculation: Speculation = None,
    step_profile: _StepProfile = None,
    beside: Beside = None,
    calibration: Calibration = None,
    replicas: Replicas = None,
    prefill: Prefill = None,
    transfer: Transfer = None,
    routing: _Routing = "least_outstanding", router_refresh: _RouterRefresh = None,
    prefix_cache: _PrefixCache = None, host_cache: _HostCache = None, between_turns: _BetweenTurns = None,
    queue_limit: _QueueLimit = None, timeout: Timeout = None,
    rate: Rate = None,
    prompt_tokens: _PromptTokens = None,
    output_tokens: _OutputTokens = None,
    arrivals: _Arrivals = "poisson",
    load_test: LoadTests = None,
    clients: _Clients = None,
    requests: _Requests = None,
    lengths_from: _LengthsFrom = None,
    cached_share: CachedShare = None,
    poll_steps: PollSteps = None, batch_wait_steps: BatchWait = None,
    capacity_policy: CapacityPolicyOption = None, max_output: MaxOutput = None,
    span: _Span = None,
    slo: Slos = None,
    column: Columns = None,
    zone: Zone = "",
    json: AsJson = False, as_of: AsOf = None, seed: Seed = 0, quiet: Quiet = False, no_color: NoColor = False,
) -> int:  # fmt: skip
    """Simulate a trace, a plan's traffic or a synthetic load on replicas: latency, outcomes, queues.

    One run, until every request has ended, on named replicas or the plan's. Exit 3 where one does not fit its device.
    """
    from ullage import verbs
    from ullage.load.pool import ReplicaChoice
    from ullage.load.typed import parse_columns, parse_duration, parse_rate, parse_share, parse_tokens
    from ullage.verbs.simulate import LoadChoice

    talk("No replica named: that of the built-in example.", quiet=quiet or plan is not None or model is not None)
    chosen = ReplicaChoice(
        memory_fraction=parse_share(memory_fraction, "--memory-fraction"), batch_wait_steps=batch_wait_steps, pp=pp,
        neighbours_busy_fraction=parse_share(beside, "--beside") or 0.0, engine_version=engine_version, device=device,
        budget_tokens=parse_tokens(token_budget, "--token-budget"), max_sequences=max_sequences, poll_steps=poll_steps,
        max_context_tokens=parse_tokens(context, "--context"), dp_attention=dp_attention, step_profile=step_profile,
        speculation=speculation, calibration=calibration, kv_tokens=kv_tokens, kv_dtype=kv_dtype, engine=engine, tp=tp,
        output_limit_tokens=parse_tokens(max_output, "--max-output"), capacity_policy=capacity_policy,
        model=model, ep=ep, host_cache=host_cache,
    )  # fmt: skip
    load = LoadChoice(
        traces=tuple(traces or ()), columns=tuple(parse_columns(column or []).items()), zone=zone, clients=clients,
        prompt_tokens=prompt_tokens, output_tokens=output_tokens, arrivals=arrivals, rate_rps=parse_rate(rate),
        span_s=parse_duration(span, "--span"), load_tests=tuple(map(str, load_test or ())), request_count=requests,
        cached_fraction=parse_share(cached_share, "--cached-share"), least_fraction=_least_fraction(lengths_from),
    )  # fmt: skip
    pool = _pool(
        replicas, routing, queue_limit, prefix_cache, between_turns, timeout=timeout, refresh=router_refresh
    )  # fmt: skip
    ask = partial(verbs.simulate, load, replica=chosen, plan=plan, pool=pool, prefill=prefill, transfer=transfer)
    found = ask_verb("simulating", partial(ask, slos=slo or [], as_of=as_of, seed=seed), changed, traffic, quiet=quiet)
    return answered(found, json=json, no_color=no_color)


def _pool(
    replicas: int | None,
    routing: str,
    queue_limit: int | None,
    prefix_cache: str | None,
    between_turns: str | None,
    *,
    timeout: str | None,
    refresh: str | None,
) -> ServedPool:
    from ullage.load.typed import parse_duration
    from ullage.service.served import ServedPool

    return ServedPool(
        replicas=replicas,
        routing=routing,
        waiting_requests=queue_limit,
        timeout_s=parse_duration(timeout, "--timeout"),
        refresh_s=parse_duration(refresh, "--router-refresh") or 0.0,
        prefix_cache=prefix_cache,
        between_turns=between_turns,
    )


def _least_fraction(lengths_from: str | None) -> float | None:
    from ullage.load.typed import parse_share

    return None if lengths_from is None else parse_share(lengths_from, "--lengths-from") or 0.0
