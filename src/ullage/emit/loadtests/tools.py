"""The command of each load tool for one test, and what of the plan it cannot send.

Flags are those of GuideLLM 0.8, vLLM 0.32, SGLang 0.5.23, AIPerf 0.13 and inference-perf 0.7, from their own parsers.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ullage.emit.loadtests.design import REPLICA_ADDRESS, RateTest, limits_s
from ullage.emit.loadtests.traces import BLOCK_TOKENS, SGLANG_BLOCK_TOKENS
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text
from ullage.foreign import visible
from ullage.simulate.load import OpenLoop

RESULTS = "results"
_URL = '"$URL"'


@dataclass(frozen=True, kw_only=True)
class SentTest:
    """One test with the requests that were drawn for it."""

    test: RateTest
    load: OpenLoop

    @property
    def requests(self) -> int:
        return int(self.load.requests.prompt_tokens.size)


@dataclass(frozen=True, kw_only=True)
class ReplayRun:
    """One test as a tool is told of it.

    `loaded` is what the engine loads, whose tokenizer counts, and `served` what requests call it; `limits_s` are those
    of goodput by metric. `trace` is read, `result` is written: a file without its ending, or a folder.
    """

    url: str
    loaded: str
    served: str
    trace: str
    requests: int
    rate_rps: float
    seed: int
    result: str
    limits_s: Mapping[str, float]
    engine: str = "vllm"


@dataclass(frozen=True, kw_only=True)
class ReplayTool:
    """A tool that replays a trace: its command, one word after the other, and what it cannot send."""

    name: str
    words: Callable[[ReplayRun], list[str]]
    lost: tuple[str, ...]


def trace_name(pool: EmitPool, test: RateTest) -> str:
    return f"{pool.name}.loadtest.{test.name}.jsonl"


def sglang_trace_name(pool: EmitPool, test: RateTest) -> str:
    return f"{pool.name}.loadtest.{test.name}.sglang.jsonl"


def _model(pool: EmitPool) -> tuple[str, str]:
    """What the engine loads, whose tokenizer counts, and what requests call it."""
    return str(pool.need("model")), pool.served_model


def guidellm_words(run: ReplayRun) -> list[str]:
    source = {"kind": "json_file", "path": run.trace}
    data = json.dumps({"kind": "mooncake", "source": source, "hash_id_block_size": BLOCK_TOKENS})
    return [
        "guidellm", "run",
        "--backend", f"kind=openai_http,target={run.url},model={run.served}",
        "--tokenizer", f"kind=huggingface_auto,model={run.loaded}",
        "--data", data,
        "--profile", "kind=replay,time_scale=0.001,schedule_turn=timestamp",
        "--seed", f"kind=static,value={run.seed}",
        "--output", f"kind=json,path={run.result}.json",
    ]  # fmt: skip


def vllm_words(run: ReplayRun) -> list[str]:
    found = [
        "vllm", "bench", "serve", "--backend", "openai", "--base-url", run.url, "--endpoint", "/v1/completions",
        "--model", run.loaded, "--served-model-name", run.served,
        "--dataset-name", "timed_trace", "--dataset-path", run.trace,
        "--timed-trace-chunk-hash-size", str(BLOCK_TOKENS), "--timed-trace-sec-multiplier", "0.001",
        "--num-prompts", str(run.requests), "--request-rate", f"{run.rate_rps:.6g}",
        "--ignore-eos", "--seed", str(run.seed),
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99",
    ]  # fmt: skip
    names = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2el"}
    limits = [f"{names[metric]}:{limit_s * 1000:g}" for metric, limit_s in run.limits_s.items()]
    found += ["--goodput", *limits] if limits else []
    folder, _, name = run.result.rpartition("/")
    where = ["--result-dir", ".", "--result-filename", f"{run.result}.json"]
    if run.result.startswith("/"):
        where = ["--result-dir", folder, "--result-filename", f"{name}.json"]
    return [*found, "--save-result", "--save-detailed", *where]


def _sglang_words(run: ReplayRun) -> list[str]:
    backend = "sglang-oai" if run.engine == "sglang" else "vllm"
    return [
        "python3", "-m", "sglang.bench_serving", "--backend", backend, "--base-url", run.url,
        "--model", run.loaded, "--served-model-name", run.served,
        "--dataset-name", "mooncake", "--dataset-path", run.trace,
        "--use-trace-timestamps", "--mooncake-num-rounds", "1", "--num-prompts", str(run.requests),
        "--seed", str(run.seed), "--output-file", f"{run.result}.jsonl", "--output-details",
    ]  # fmt: skip


def aiperf_words(run: ReplayRun) -> list[str]:
    found = [
        "aiperf", "profile", "--model", run.served, "--tokenizer", run.loaded, "--url", run.url,
        "--endpoint-type", "completions", "--streaming",
        "--input-file", run.trace, "--custom-dataset-type", "mooncake_trace",
        "--fixed-schedule", "--isl-block-size", str(BLOCK_TOKENS), "--extra-inputs", "ignore_eos:true",
        "--random-seed", str(run.seed),
    ]  # fmt: skip
    names = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
    limits = [f"{names[metric]}:{limit_s * 1000:g}" for metric, limit_s in run.limits_s.items()]
    found += ["--goodput", " ".join(limits)] if limits else []
    return [*found, "--artifact-dir", run.result]


REPLAY_TOOLS = (
    ReplayTool(
        name="guidellm",
        words=guidellm_words,
        lost=("Arrivals, lengths and prefixes are the plan's. Its report does not separate classes.",),
    ),
    ReplayTool(
        name="vllm-bench",
        words=vllm_words,
        lost=(
            "Arrivals, lengths and prefixes are the plan's. Its report does not separate classes.",
            "timed_trace sends by the file's times; --request-rate is stated for the report alone.",
        ),
    ),
    ReplayTool(
        name="sglang-bench",
        words=_sglang_words,
        lost=(
            (
                "Arrivals and prefixes are the plan's. Its client ignores stated prompt lengths and makes about "
                f"{SGLANG_BLOCK_TOKENS} tokens of every block, so prompts are rounded to that, in a file of their "
                "own; the chat template's tokens come on top."
            ),
            "Its report does not separate classes.",
        ),
    ),
    ReplayTool(
        name="aiperf",
        words=aiperf_words,
        lost=("Arrivals, lengths and prefixes are the plan's. Its report does not separate classes.",),
    ),
)


def script(plan: EmitPlan, pool: EmitPool, tool: ReplayTool, sent: Sequence[SentTest]) -> EmittedFile:
    """A shell script that runs the tests of one tool, low load first."""
    lines = ["#!/bin/sh"]
    lines += [f"# {line}" for each in (*plan.head(), *tool.lost) for line in _wrapped(each)]
    lines += ["set -eu", f': "${{URL:?Set URL to {REPLICA_ADDRESS}}}"', f"mkdir -p {RESULTS}"]
    for each in sent:
        result = f"{RESULTS}/{pool.name}.{tool.name}.{each.test.name}"
        lines += ["", *(f"# {line}" for line in _wrapped(f"{each.test.name}: {each.test.why}"))]
        lines.append(_command(tool, pool, each, result))
    return EmittedFile(name=f"{pool.name}.loadtest.{tool.name}.sh", text="\n".join(lines) + "\n")


def _command(tool: ReplayTool, pool: EmitPool, sent: SentTest, result: str) -> str:
    """Words with their quotes, an option to a line; the address is the shell's own variable."""
    loaded, served = _model(pool)
    trace = sglang_trace_name if tool.words is _sglang_words else trace_name
    run = ReplayRun(
        url=_URL,
        loaded=loaded,
        served=served,
        trace=trace(pool, sent.test),
        requests=sent.requests,
        rate_rps=sent.test.rate_rps,
        seed=pool.plan.seed,
        result=result,
        limits_s=limits_s(pool),
        engine=pool.choice.engine,
    )
    text = ""
    for word in tool.words(run):
        quoted = _URL.join(shlex.quote(part) if part else "" for part in word.split(_URL))
        text += f" \\\n  {quoted}" if word.startswith("--") else f" {quoted}"
    return text.strip()


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible(text), width=116, break_long_words=False, break_on_hyphens=False)


def inference_perf(plan: EmitPlan, pool: EmitPool, sent: Sequence[SentTest]) -> EmittedFile:
    """One configuration with a stage for every rate: the only tool here that cannot replay lengths with prefixes."""
    loaded, served = _model(pool)
    drawn = max(sent, key=lambda each: each.requests).load.requests
    cached = np.zeros(1) if drawn.cached_tokens is None else np.asarray(drawn.cached_tokens, float)
    prefix = round(float(cached.mean()))
    question = np.maximum(np.asarray(drawn.prompt_tokens, float) - cached, 1.0)
    most = max(each.requests for each in sent)
    goodput = {{"e2e": "request_latency"}.get(name, name): limit_s for name, limit_s in limits_s(pool).items()}
    tree = {
        "api": {"type": "completion", "streaming": True},
        "server": {
            "type": "sglang" if pool.choice.engine == "sglang" else "vllm",
            "model_name": served,
            "base_url": Reasoned(value="http://REPLICA:8000", why=f"put here {REPLICA_ADDRESS}"),
            "ignore_eos": True,
        },
        "tokenizer": {"pretrained_model_name_or_path": loaded},
        "data": {
            "type": "shared_prefix",
            "shared_prefix": {
                "num_unique_system_prompts": 1,
                "num_users_per_system_prompt": most,
                "system_prompt_len": Reasoned(value=prefix, why="the plan's mean cached tokens per request"),
                "question_len": _distribution(question),
                "output_len": _distribution(np.asarray(drawn.output_tokens, float)),
                "seed": pool.plan.seed,
            },
        },
        "load": {
            "type": "poisson",
            "interval": 30,
            "base_seed": pool.plan.seed,
            "stages": [
                {
                    "rate": Reasoned(value=float(f"{each.test.rate_rps:.6g}"), why=each.test.why),
                    "duration": round(each.test.span_s),
                }
                for each in sent
            ],
        },
        "report": {
            "request_lifecycle": {"summary": True, "per_stage": True, "per_request": True},
            **({"goodput": {"constraints": goodput}} if goodput else {}),
        },
        "storage": {"local_storage": {"path": f"{RESULTS}/{pool.name}.inference-perf"}},
    }
    head = plan.head(
        "Run it with: inference-perf --config_file FILE, once base_url is the address of one replica.",
        "What is lost: bursts (arrivals are Poisson), joint lengths (prompts and answers are drawn independently, "
        "log-normal "
        "with the plan's mean, deviation and ends), and the spread of prefixes (every request shares one of mean "
        "length, so that the share of cached tokens is the plan's on average).",
    )
    return EmittedFile(name=f"{pool.name}.loadtest.inference-perf.yaml", text=yaml_text(head, tree))


def _distribution(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Mapping[str, object]:
    return {
        "type": "lognormal",
        "mean": round(float(values.mean()), 1),
        "std_dev": round(float(values.std()), 1),
        "min": int(values.min()),
        "max": int(values.max()),
    }
