"""`ullage simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import AsJson, AsOf, NoColor, Quiet, Seed
from ullage.cli.terminal import answer, answer_refusal, answer_text, progress, talk
from ullage.errors import ExitCode, Rejection

if TYPE_CHECKING:
    from ullage.verbs.simulate import Simulated


_Traces = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TRACE]...", help="Request logs to replay: files, folders or globs."),
]
_Plan = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", help="A plan file: its replica, its SLOs, and its traffic."),
]
_Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model: a name, or a config.json.")]
_Device = Annotated[str | None, typer.Option("--device", metavar="NAME", help="The device it runs on.")]
_Engine = Annotated[str | None, typer.Option("--engine", metavar="NAME", help="The engine. Default: vllm.")]
_Tp = Annotated[int, typer.Option("--tp", help="Devices that share every layer.")]
_Pp = Annotated[int, typer.Option("--pp", help="Pipeline stages.")]
_Ep = Annotated[int, typer.Option("--ep", help="Groups of experts, out of the tp devices.")]
_DpAttention = Annotated[int, typer.Option("--dp-attention", help="Attention groups, out of the tp devices.")]
_Context = Annotated[
    str | None, typer.Option("--context", metavar="TOKENS", help="The longest context the engine accepts.")
]
_KvTokens = Annotated[
    int | None, typer.Option("--kv-tokens", help="Tokens the cache holds, from the log. Default: the budget's.")
]
_MaxSequences = Annotated[int | None, typer.Option("--max-sequences", help="Sequences run at once.")]
_TokenBudget = Annotated[int | None, typer.Option("--token-budget", help="Tokens that one step may compute.")]
_KvDtype = Annotated[str | None, typer.Option("--kv-dtype", metavar="NAME", help="The cache's dtype.")]
_Profile = Annotated[
    str | None,
    typer.Option("--profile", metavar="FILE", help="A CSV of measured steps, or aiconfigurator where it is installed."),
]
_Beside = Annotated[
    str | None,
    typer.Option("--beside", metavar="SHARE", help="Other engines on the same device, and how busy they are: 50%."),
]
_Calibration = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="What ullage calibrate found for this configuration."),
]
_Replicas = Annotated[int, typer.Option("--replicas", min=1, help="Replicas behind the router.")]
_Routing = Annotated[str, typer.Option("--routing", metavar="NAME", help="How requests are given to replicas.")]
_QueueLimit = Annotated[
    int | None, typer.Option("--queue-limit", min=0, help="Requests that may wait at a replica; more are refused.")
]
_Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="When a client gives up. Default: never.")
]
_Rate = Annotated[
    str | None, typer.Option("--rate", metavar="RATE", help="The total rate to bring the traffic to: 5 req/s.")
]
_Scale = Annotated[float, typer.Option("--scale", help="Times the traffic, as so many more users would.")]
_PromptTokens = Annotated[
    int | None, typer.Option("--prompt-tokens", min=1, help="Made-up requests in place of a trace: their prompt.")
]
_OutputTokens = Annotated[int | None, typer.Option("--output-tokens", min=1, help="And their answer.")]
_Arrivals = Annotated[
    str, typer.Option("--arrivals", metavar="NAME", help="How made-up requests come: poisson or constant.")
]
_Span = Annotated[
    str | None,
    typer.Option("--span", metavar="TIME", help="How long: the first part of a trace. Default: all, or 10 min."),
]
_Slo = Annotated[
    list[str] | None,
    typer.Option("--slo", metavar="PROMISE", help="What makes a request good: chat:ttft_p95=500ms. Repeat."),
]
_Columns = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OURS=THEIRS", help="A column of the trace by our name. Repeat."),
]
_Zone = Annotated[str, typer.Option("--zone", metavar="ZONE", help="The zone of times that carry none.")]


def command(
    traces: _Traces = None,
    plan: _Plan = None,
    model: _Model = None,
    device: _Device = None,
    engine: _Engine = None,
    tp: _Tp = 1,
    pp: _Pp = 1,
    ep: _Ep = 1,
    dp_attention: _DpAttention = 1,
    context: _Context = None,
    kv_tokens: _KvTokens = None,
    max_sequences: _MaxSequences = None,
    token_budget: _TokenBudget = None,
    kv_dtype: _KvDtype = None,
    profile: _Profile = None,
    beside: _Beside = None,
    calibration: _Calibration = None,
    replicas: _Replicas = 1,
    routing: _Routing = "least_outstanding",
    queue_limit: _QueueLimit = None,
    timeout: _Timeout = None,
    rate: _Rate = None,
    scale: _Scale = 1.0,
    prompt_tokens: _PromptTokens = None,
    output_tokens: _OutputTokens = None,
    arrivals: _Arrivals = "poisson",
    span: _Span = None,
    slo: _Slo = None,
    columns: _Columns = None,
    zone: _Zone = "",
    json: AsJson = False,
    as_of: AsOf = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    no_color: NoColor = False,
) -> int:
    """Serve a trace, a plan's traffic or a plain load on replicas, and print what became of it.

    One run, until every request has ended. A replica that is not named is the plan file's, or that of the built-in
    example. Exit 3 where the replica does not fit its device.
    """
    from ullage.service.served import ServedPool
    from ullage.verbs.memory import share_of, tokens_of
    from ullage.verbs.profile import mapping_of
    from ullage.verbs.simulate import LoadChoice, ReplicaChoice, duration_of, rate_of, simulate

    if plan is None and model is None:
        talk("No replica named: that of the built-in example.", quiet=quiet)
    chosen = ReplicaChoice(
        model=model, device=device, engine=engine, tp=tp, pp=pp, ep=ep, dp_attention=dp_attention,
        max_sequences=max_sequences, budget_tokens=token_budget, max_context_tokens=tokens_of(context, "--context"),
        kv_dtype=kv_dtype, kv_tokens=kv_tokens, calibration=calibration, profile=profile,
        neighbours_busy_fraction=share_of(beside, "--beside") or 0.0,
    )  # fmt: skip
    load = LoadChoice(
        traces=tuple(traces or ()), mapping=tuple(mapping_of(columns or []).items()), zone=zone,
        prompt_tokens=prompt_tokens, output_tokens=output_tokens, arrivals=arrivals,
        rate_rps=rate_of(rate), scale_ratio=scale, span_s=duration_of(span, "--span"),
    )  # fmt: skip
    pool = ServedPool(
        replicas=replicas,
        routing=routing,
        waiting_requests=queue_limit,
        timeout_s=duration_of(timeout, "--timeout"),
    )
    with progress("simulating", quiet=quiet) as report:
        found = simulate(
            load, replica=chosen, plan=plan, pool=pool, slos=slo or [], as_of=as_of, seed=seed, progress=report
        )
    return _answered(found, json=json, no_color=no_color)


def _answered(found: Simulated | Rejection, *, json: bool, no_color: bool) -> int:
    from ullage.report.encode import document, to_text
    from ullage.report.service.simulation_page import simulation_page

    if isinstance(found, Rejection):
        return answer_refusal("simulate", found, json=json, no_color=no_color)
    if json:
        answer_text(to_text(document("simulate", found, as_of=found.as_of, seed=found.seed)))
    else:
        answer(*simulation_page(found), no_color=no_color)
    return ExitCode.OK
