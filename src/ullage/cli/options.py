"""Options of the verbs. An option that several verbs take means one thing, and is spelt and explained here once."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from ullage.errors import InputError


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError(
            field="--as-of",
            value=text,
            problem="is not a date",
            fix="Give year, month and day, for example 2026-11-15.",
        ) from None


def plan_and_names(file: str | None, names: list[str] | None) -> tuple[str | None, list[str]]:
    """A plan file and names after it; a word without a suffix that is no file is the first name, spelt well or not."""
    if file is None or Path(file).suffix or Path(file).exists():
        return file, list(names or ())
    return None, [file, *(names or ())]


# ---- every verb ----------------------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: the same bytes for the same input, seed and date.")]
AsOf = Annotated[
    datetime.date | None,
    typer.Option("--as-of", parser=_date, metavar="DATE", help="The date from which ages are counted. Default: today."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed of everything random.")]
Limit = Annotated[
    str | None,
    typer.Option("--limit", metavar="CEILING", help="Refuse work estimated above it. Default: cpu=10min,memory=8GiB."),
]
RunOn = Annotated[
    str | None,
    typer.Option("--run-on", metavar="PLACE", help="ray, or ray://head:10001: the workers of a Ray cluster."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the answer alone: no notes, no progress.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colour, whatever the terminal can do.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")]
Listed = Annotated[bool, typer.Option("--list", help="List the names that can be given.")]
Explain = Annotated[str | None, typer.Option("--explain", metavar="NAME", help="Trace one number back to its sources.")]
Every = Annotated[bool, typer.Option("--all", help="Print everything, not only the main part.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="PLACE", help="Where to write it: a file, or for emit a folder.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Facts = Annotated[
    Path | None,
    typer.Option("--facts", metavar="DIR", help="Your own facts, which override ours: DIR/devices/*.toml and so on."),
]

# ---- a plan, and what if -------------------------------------------------------------------------------

PlanArgument = Annotated[Path | None, typer.Argument(help="The plan file. Default: the built-in example.")]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="PLAN",
        help="The plan file, default: the built-in example. For emit a plan that was printed as JSON, for "
        "reconcile also an entry of the ledger, by default the latest.",
    ),
]
Diff = Annotated[
    Path | None,
    typer.Option(
        "--diff", metavar="OLD", help="Print what changed since an older plan, and why; for emit, in a folder of files."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="What if: a key of the plan file, such as pool.tensor_parallel=4 or workload.classes.chat.rate='9 req/s'. "
        "Repeat.",
    ),
]
Traffic = Annotated[
    str | None,
    typer.Option("--traffic", metavar="CHANGE", help="What if: all traffic, such as +30%, -20% or x2."),
]

Fleet = Annotated[
    str,
    typer.Option("--fleet", metavar="HOW", help="fixed within a month, or following the hours of the week."),
]

Rules = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules", metavar="FILE", help="What kubectl get hpa,scaledobject,ksvc,isvc -o yaml printed. Repeat."
    ),
]

# ---- what was kept -------------------------------------------------------------------------------------

Keep = Annotated[bool, typer.Option("--keep", help="Keep the answer in the ledger, to be scored later.")]
LedgerPlace = Annotated[
    str | None,
    typer.Option("--ledger", metavar="PLACE", help="The ledger: a file, or postgresql://... Default: ULLAGE_LEDGER."),
]

# ---- request logs --------------------------------------------------------------------------------------

Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="OURS=THEIRS", help="A column of ours and the log's name for it. Repeat."),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="NAME", help="The log's format, where more than one fits.")
]
Zone = Annotated[str, typer.Option("--zone", metavar="ZONE", help="The zone of times that carry none. Default: UTC.")]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="DIMENSION",
        help="What traffic is divided by: class, model, tenant, product; for cost also two: product,class.",
    ),
]

# ---- a replica -----------------------------------------------------------------------------------------

Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model: a name, or a config.json or its folder.")
]
Device = Annotated[
    str | None, typer.Option("--device", metavar="NAME", help="The device by name: ullage facts devices lists them.")
]
Engine = Annotated[
    str | None, typer.Option("--engine", metavar="NAME", help="The engine. Default: the log's, or vllm.")
]
EngineVersion = Annotated[
    str | None, typer.Option("--engine-version", metavar="VERSION", help="Its version. Default: the newest known.")
]
MemoryFraction = Annotated[
    str | None, typer.Option("--memory-fraction", metavar="SHARE", help="The engine's memory fraction: 0.9 or 90%.")
]
PollSteps = Annotated[
    int | None,
    typer.Option(
        "--poll-steps", min=1, help="Steps between two polls for requests (SGLang's recv interval). Default: its own."
    ),
]
BatchWait = Annotated[
    int | None,
    typer.Option(
        "--batch-wait-steps",
        min=1,
        help="Steps that requests wait to be admitted together (TensorRT-LLM's batch_wait).",
    ),
]
Launches = Annotated[
    list[str] | None,
    typer.Option(
        "--launch",
        metavar="CLIENTS:FLAG=VALUE",
        help="Flags of tests of so many clients or more: 16:poll-steps=30,token-budget=32Ki. Repeatable.",
    ),
]
CapacityPolicyOption = Annotated[
    str | None,
    typer.Option(
        "--capacity-policy",
        metavar="NAME",
        help="What must fit before a request is admitted; new_token_ratio:0.3 is SGLang's conservativeness.",
    ),
]
MaxOutput = Annotated[
    str | None,
    typer.Option(
        "--max-output", metavar="TOKENS", help="The max_tokens of requests. Default: the p99 of output lengths."
    ),
]
Tp = Annotated[int, typer.Option("--tp", help="Tensor parallelism: devices that share every layer.")]
Pp = Annotated[int, typer.Option("--pp", help="Pipeline parallelism: stages.")]
Ep = Annotated[int, typer.Option("--ep", help="Expert parallelism: groups of experts, out of the tp devices.")]
DpAttention = Annotated[int, typer.Option("--dp-attention", help="Attention groups, out of the tp devices.")]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="TOKENS", help="The longest context. Default: the log's, or the model's."),
]
KvTokens = Annotated[
    int | None, typer.Option("--kv-tokens", help="Tokens the cache holds, from the log. Default: the budget's.")
]
MaxSequences = Annotated[
    int | None, typer.Option("--max-sequences", help="Sequences that the engine runs at once. Default: its own.")
]
TokenBudget = Annotated[
    str | None,
    typer.Option("--token-budget", metavar="TOKENS", help="Tokens that one step may compute. Default: the engine's."),
]
KvDtype = Annotated[
    str | None, typer.Option("--kv-dtype", metavar="NAME", help="The cache's dtype. Default: the model's own.")
]
Speculation = Annotated[
    str | None,
    typer.Option(
        "--speculation",
        metavar="METHOD:TOKENS[:PER_STEP][@DRAFT]",
        help="Tokens drafted ahead by mtp, eagle, draft or ngram, tokens per step, and the model that drafts.",
    ),
]
Replicas = Annotated[
    int | None, typer.Option("--replicas", min=1, help="Replicas behind the router. Default: the load test's, or 1.")
]
CachedShare = Annotated[
    str | None,
    typer.Option(
        "--cached-share", metavar="SHARE", help="Share of prompt tokens that are prefix hits. Default: the file's."
    ),
]
Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="NAME", help="Use the tests despite this anomaly: model, device, physics."),
]
Timeout = Annotated[
    str | None,
    typer.Option("--timeout", metavar="TIME", help="When clients give up. Default: the load test's, or never."),
]
LoadTests = Annotated[
    list[Path] | None, typer.Option("--load-test", metavar="FILE", help="A result of a load tool; may be repeated.")
]
EngineLogs = Annotated[
    list[Path] | None,
    typer.Option(
        "--engine-log", metavar="FILE", help="The engine's log, a /metrics dump or a device monitor's file. Repeat."
    ),
]

# ---- its service ---------------------------------------------------------------------------------------

Rate = Annotated[
    str | None, typer.Option("--rate", metavar="RATE", help="The total rate, such as 50 req/s. Default: its own.")
]
Slos = Annotated[
    list[str] | None,
    typer.Option("--slo", metavar="SLO", help="An SLO in place of the plan's: chat:ttft_p95=500ms. Repeat."),
]
Definitions = Annotated[
    str | None,
    typer.Option(
        "--definitions",
        metavar="TOOL",
        help="Count latencies as a load tool does: guidellm, vllm, or tpot=with_first_token,itl=per_request.",
    ),
]
Calibration = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="What ullage calibrate found for this configuration."),
]
Beside = Annotated[
    str | None,
    typer.Option("--beside", metavar="SHARE", help="Other engines on the same devices, and how busy they are: 50%."),
]
Prefill = Annotated[
    str | None,
    typer.Option(
        "--prefill",
        metavar="REPLICAS[:KEY=VALUE]...",
        help="Prefill on separate replicas, the others decode: 2, or 2:tp=4:device=h200-sxm:budget=16k:sequences=16.",
    ),
]
Transfer = Annotated[
    str | None,
    typer.Option(
        "--transfer",
        metavar="BANDWIDTH[:OVERLAP]",
        help="KV from one replica to another, such as 50GB/s, and the share sent while it is computed: 50GB/s:30%.",
    ),
]

# Production, from a server or from files.
RangeAnswers = Annotated[
    list[Path] | None, typer.Argument(help="Answers to range queries, as JSON, in place of a server.")
]
Prometheus = Annotated[
    str | None, typer.Option("--prometheus", metavar="URL", help="Prometheus, Thanos, Mimir or VictoriaMetrics.")
]
Since = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="The start of the period: a day or a time, UTC.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Its end.")]
HttpConfig = Annotated[
    Path | None,
    typer.Option("--http-config", metavar="FILE", help="Credentials and TLS, as promtool's --http.config.file."),
]
MetricNames = Annotated[
    Path | None, typer.Option("--names", metavar="FILE", help="Your names of metrics, and the label of classes.")
]
