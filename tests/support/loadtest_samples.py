"""One small result file for each load-test format, written by hand, all of the same run.

The run: 40 requests in 10 s by 4 clients or at 4 a second, prompts of 200 tokens and answers of 46, TTFT 100 ms, TPOT
20 ms, so E2E is 0.1 + 45 x 0.02 = 1 s and Little's law keeps 4 under way. `k` multiplies every latency, to say the same
in a wrong unit.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TTFT_S, TPOT_S, E2E_S = 0.1, 0.02, 1.0
REQUESTS, DURATION_S, PROMPT, OUTPUT = 40, 10.0, 200, 46


@dataclass(frozen=True, kw_only=True)
class Sample:
    """`make(k)` is the file with latencies times k; `older` is the same run as another version of the tool wrote it."""

    make: Callable[[float], bytes]
    older: Callable[[], bytes]
    wrong_factor: float = 1000.0


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def to_lines(values: list[Any]) -> bytes:
    return b"".join(to_json(value) + b"\n" for value in values)


def to_csv(rows: list[list[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def spread(mean: float, **more: float) -> dict[str, float]:
    """A narrow distribution around a mean, by the keys most tools use."""
    return {
        "mean": mean,
        "min": mean * 0.9,
        "median": mean,
        "p90": mean * 1.05,
        "p99": mean * 1.1,
        "max": mean * 1.1,
    } | more


# ---- vLLM and its descendants --------------------------------------------------------------------------


def flat(k: float, unit: float, **suffixes: float) -> dict[str, float]:
    """`mean_ttft_ms` and the like, in a unit of which a second has so many."""
    return {
        f"{name}_{suffix}": value
        for suffix, seconds in suffixes.items()
        for name, value in (
            ("mean", seconds * k * unit),
            ("median", seconds * k * unit),
            ("std", seconds * k * unit * 0.05),
            ("p90", seconds * k * unit * 1.05),
            ("p99", seconds * k * unit * 1.1),
        )
    }


def vllm_run(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "date": "20261101-101010",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": "example/model",
        "num_prompts": REQUESTS,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 4,
        "duration": DURATION_S,
        "completed": REQUESTS,
        "failed": 0,
        "total_input_tokens": REQUESTS * PROMPT,
        "total_output_tokens": REQUESTS * OUTPUT,
        "request_throughput": REQUESTS / DURATION_S,
        "request_goodput": None,
        "output_throughput": REQUESTS * OUTPUT / DURATION_S,
        **flat(k, 1000.0, ttft_ms=TTFT_S, tpot_ms=TPOT_S, itl_ms=TPOT_S, e2el_ms=E2E_S),
        **changes,
    }


def vllm_arrays(count: int = REQUESTS, *, gap_s: float = 0.25, waited_s: float = 0.0) -> dict[str, Any]:
    """What --save-detailed adds: parallel arrays in seconds."""
    return {
        "input_lens": [PROMPT] * count,
        "output_lens": [OUTPUT] * count,
        "ttfts": [TTFT_S] * count,
        "itls": [[TPOT_S] * (OUTPUT - 1)] * count,
        "latencies": [E2E_S] * count,
        "start_times": [100.0 + gap_s * each for each in range(count)],
        "queue_times": [waited_s] * count,
        "errors": [""] * count,
    }


def vllm_older() -> bytes:
    run = vllm_run()
    for name in ("failed", "endpoint_type", "label", "request_goodput"):
        del run[name]
    return to_json({**run, "request_goodput:": 3.5})


def sglang_run(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 4,
        "random_input_len": PROMPT,
        "random_output_len": OUTPUT,
        "server_info": {"version": "0.5.23", "model_path": "example/model", "tp_size": 2},
        "duration": DURATION_S,
        "completed": REQUESTS,
        "total_input_tokens": REQUESTS * PROMPT,
        "total_output_tokens": REQUESTS * OUTPUT,
        "total_output_tokens_retokenized": REQUESTS * OUTPUT,
        "request_throughput": REQUESTS / DURATION_S,
        "output_throughput": REQUESTS * OUTPUT / DURATION_S,
        **flat(k, 1000.0, ttft_ms=TTFT_S, tpot_ms=TPOT_S, itl_ms=TPOT_S, e2e_latency_ms=E2E_S),
        "concurrency": 4.0,
        "goodput_slos_ms": {"ttft": 500.0, "tpot": 60.0},
        "request_goodput": 4.0,
        "slo_attainment": 1.0,
        **changes,
    }


def sglang_older() -> bytes:
    run = sglang_run(server_info=None)
    for name in ("goodput_slos_ms", "request_goodput", "slo_attainment"):
        del run[name]
    return to_json(run)


def inferencex_run(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    latencies = flat(k, 1.0, ttft=TTFT_S, tpot=TPOT_S, itl=TPOT_S, e2el=E2E_S)
    return {
        "hw": "h200",
        "conc": 4,
        "image": "vllm:0.11",
        "model": "example/model",
        "infmax_model_prefix": "ex",
        "framework": "vllm",
        "precision": "fp8",
        "spec_decoding": "none",
        "disagg": False,
        "isl": PROMPT,
        "osl": OUTPUT,
        "tp": 2,
        "pp": 1,
        "pcp_size": 1,
        "dcp_size": 2,
        "ep": 1,
        "dp_attention": "false",
        "tput_per_gpu": REQUESTS * (PROMPT + OUTPUT) / DURATION_S / 2,
        "output_tput_per_gpu": REQUESTS * OUTPUT / DURATION_S / 2,
        "std_intvty": 1000.0,
        "p99_intvty": 1 / (TPOT_S * 1.1),
        **latencies,
        **changes,
    }


def inferencex_older() -> bytes:
    run = vllm_run()
    latencies = {name.removesuffix("_ms"): value / 1000.0 for name, value in run.items() if name.endswith("_ms")}
    kept = {name: value for name, value in run.items() if not name.endswith("_ms")}
    return to_json({**kept, **latencies, "good_completed": None})


# ---- GuideLLM ------------------------------------------------------------------------------------------


def guide_statistic(mean: float, count: int = REQUESTS) -> dict[str, Any]:
    points = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")
    shares = (0.9, 0.9, 0.92, 0.93, 0.95, 1.0, 1.02, 1.05, 1.07, 1.1, 1.1)
    return {
        "mean": mean,
        "median": mean,
        "std_dev": mean * 0.05,
        "min": mean * 0.9,
        "max": mean * 1.1,
        "count": count,
        "percentiles": {name: mean * share for name, share in zip(points, shares, strict=True)},
    }


def guide_metrics(k: float, tpot_s: float) -> dict[str, Any]:
    values = {
        "requests_per_second": 3.9,
        "request_concurrency": 4.0,
        "request_latency": E2E_S * k,
        "prompt_token_count": float(PROMPT),
        "output_token_count": float(OUTPUT),
        "time_to_first_token_ms": TTFT_S * k * 1000,
        "time_per_output_token_ms": tpot_s * k * 1000,
        "inter_token_latency_ms": TPOT_S * k * 1000,
        "output_tokens_per_second": REQUESTS * OUTPUT / DURATION_S,
    }
    return {name: {"successful": guide_statistic(value), "errored": {}} for name, value in values.items()}


def guide_request(index: int, output: int = OUTPUT) -> dict[str, Any]:
    sent = 1000.0 + index * 0.25
    return {
        "info": {"timings": {"targeted_start": sent - 0.001, "request_start": sent}},
        "prompt_tokens": PROMPT,
        "cached_tokens": 128,
        "output_tokens": output,
        "request_latency": TTFT_S + TPOT_S * (output - 1),
        "time_to_first_token_ms": TTFT_S * 1000,
        "inter_token_latency_ms": TPOT_S * 1000 if output > 1 else None,
    }


def guidellm_report(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    metrics = guide_metrics(k, E2E_S / OUTPUT) | {
        "request_totals": {"successful": REQUESTS, "errored": 0, "incomplete": 1, "total": REQUESTS + 1},
        "request_dispatch_delay": {"total": guide_statistic(0.001)},
        "slo_attainment": 0.9,
        "request_goodput": {"successful": {"mean": 3.6}},
    }
    benchmark = {
        "type_": "generative_benchmark",
        "config": {
            "strategy": {"type_": "concurrent", "streams": 4, "max_concurrency": 4},
            "profile": {"max_concurrency": None},
            "backend": {"model": "example/model"},
            "slo": {"ttft_ms": 150.0, "tpot_ms": 25.0, "e2el_ms": None},
        },
        "metrics": metrics,
        "requests": {"successful": [guide_request(each) for each in range(5)], "errored": [], "incomplete": []},
        "warnings": [],
        "duration": DURATION_S,
        **changes,
    }
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {}, "benchmarks": [benchmark]}


def guidellm_oldest() -> bytes:
    """0.3 and earlier: no metadata, arguments in the benchmark, TPOT without the time of the first token."""
    benchmark = {
        "type_": "generative_benchmark",
        "start_time": 1000.0,
        "end_time": 1000.0 + DURATION_S,
        "args": {"strategy": {"type_": "constant", "rate": 4.0}, "profile": {}},
        "run_stats": {"request_start_time_targeted_delay_avg": 0.002},
        "worker": {"backend_model": "example/model"},
        "request_totals": {"successful": REQUESTS, "errored": 0, "incomplete": 0},
        "metrics": guide_metrics(1.0, TPOT_S * (OUTPUT - 1) / OUTPUT),
        "requests": {
            "successful": [
                {
                    "start_time": 1000.0,
                    "scheduler_info": {"targeted_start_time": 999.99},
                    "prompt_tokens": PROMPT,
                    "output_tokens": 1,
                    "request_latency": TTFT_S,
                    "time_to_first_token_ms": TTFT_S * 1000,
                    "inter_token_latency_ms": 0.0,
                }
            ],
            "errored": [],
            "incomplete": [],
        },
    }
    return to_json({"benchmarks": [benchmark]})


def guidellm_csv(
    k: float = 1.0, *, strategy: str = "concurrent@4", profile: dict[str, Any] | None = None, place: int = 0
) -> bytes:
    # The list in a cell has the extremes in it and the median not.
    shares = (0.9, 0.9, 0.9, 0.92, 0.93, 0.95, 1.02, 1.05, 1.07, 1.1, 1.1)
    columns: list[tuple[str, str, str, Any]] = [
        ("Run Info", "Run ID", "", "an-id"),
        ("Run Info", "Run Index", "", place),
        ("Run Info", "Profile", "", json.dumps(profile or {})),
        ("Run Info", "Backend", "", json.dumps({"model": "example/model"})),
        ("Benchmark", "Strategy", "", strategy),
        ("Timings", "Duration", "Sec", DURATION_S),
        ("Request Counts", "Successful", "", REQUESTS),
        ("Request Counts", "Incomplete", "", 1),
        ("Request Counts", "Errored", "", 0),
    ]
    for group, status, mean in (
        ("Request Latency", "Successful Sec", E2E_S * k),
        ("Time to First Token", "Successful ms", TTFT_S * k * 1000),
        ("Time per Output Token", "Successful ms", E2E_S * k * 1000 / OUTPUT),
        ("Inter Token Latency", "Successful ms", TPOT_S * k * 1000),
        ("Token Metrics", "Successful Input Tokens", PROMPT),
        ("Token Metrics", "Successful Output Tokens", OUTPUT),
    ):
        listed = json.dumps([mean * share for share in shares])
        for statistic, value in (("Mean", mean), ("Median", mean), ("Std Dev", 0.0), ("Percentiles", listed)):
            columns.append((group, status, statistic, value))
    columns.append(("Runtime Info", "Metadata", "", json.dumps({"guidellm_version": "0.8.1"})))
    return to_csv([[column[row] for column in columns] for row in range(4)])


def guidellm_csv_older() -> bytes:
    titles: list[str] = ["Type", "Run Id", "Name", "Duration", "Successful Requests", "Errored Requests"]
    cells: list[Any] = ["generative_benchmark", "an-id", "constant@4.00", DURATION_S, REQUESTS, 0]
    for title, mean in (
        ("Request latency", E2E_S),
        ("Time to first token ms", TTFT_S * 1000),
        ("Time per output token ms", TPOT_S * 1000),
        ("Inter token latency ms", TPOT_S * 1000),
        ("Output token count", OUTPUT),
    ):
        titles += [f"Successful {title} {each}" for each in ("mean", "median", "std dev")]
        titles.append(f"Successful {title} [min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max]")
        cells += [mean, mean, 0.0, json.dumps([mean * (0.9 + 0.02 * each) for each in range(11)])]
    return to_csv([titles, cells])


def guidance_report(k: float = 1.0, mode: str = "asynchronous") -> bytes:
    results = [
        {
            "start_time": 1000.0 + index * 0.25 * k,
            "end_time": 1000.0 + (index * 0.25 + E2E_S) * k,
            "first_token_time": TTFT_S * k,
            "prompt_token_count": PROMPT,
            "output_token_count": OUTPUT,
        }
        for index in range(REQUESTS)
    ]
    benchmark = {"mode": mode, "rate": 4.0 / k if mode == "asynchronous" else None, "results": results, "errors": []}
    return to_json(
        {"benchmarks": [{"benchmarks": [benchmark], "args": {"model": "example/model", "mode": "constant"}}]}
    )


# ---- AIPerf and genai-perf -----------------------------------------------------------------------------


def perf_metric(unit: str, avg: float, **more: float) -> dict[str, Any]:
    return {"unit": unit, "avg": avg, **more}


def perf_latency(mean_s: float) -> dict[str, Any]:
    ms = mean_s * 1000
    return perf_metric("ms", ms, p50=ms, p90=ms * 1.05, p99=ms * 1.1, min=ms * 0.9, max=ms * 1.1, std=ms * 0.05)


def aiperf_export(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_throughput": perf_metric("requests/sec", REQUESTS / DURATION_S),
        "request_latency": perf_latency(E2E_S * k),
        "request_count": perf_metric("requests", REQUESTS),
        "time_to_first_token": perf_latency(TTFT_S * k),
        "inter_token_latency": perf_latency(TPOT_S * k),
        "output_sequence_length": perf_metric("tokens", OUTPUT),
        "input_sequence_length": perf_metric("tokens", PROMPT),
        "total_isl": perf_metric("tokens", REQUESTS * PROMPT),
        "total_osl": perf_metric("tokens", REQUESTS * OUTPUT),
        "benchmark_duration": perf_metric("sec", DURATION_S),
        "goodput": perf_metric("requests/sec", 3.5),
        "input_config": {
            "models": {"items": [{"name": "example/model"}]},
            "phases": [{"kind": "profiling", "type": "poisson", "rate": 4.0}],
            "slos": {"time_to_first_token": 150.0, "inter_token_latency": 25.0},
        },
        "error_summary": [],
        **changes,
    }


def aiperf_older() -> bytes:
    run = aiperf_export(
        input_config={
            "endpoint": {"model_names": ["example/model"]},
            "loadgen": {"concurrency": 4, "request_rate": None},
        }
    )
    for name in ("schema_version", "aiperf_version"):
        del run[name]
    return to_json(run)


def aiperf_record(index: int, k: float = 1.0, **changes: Any) -> dict[str, Any]:
    sent_ns = 1_700_000_000_000_000_000 + index * 250_000_000
    values = {
        "time_to_first_token": (TTFT_S * k * 1000, "ms"),
        "request_latency": (E2E_S * k * 1000, "ms"),
        "inter_token_latency": (TPOT_S * k * 1000, "ms"),
        "input_sequence_length": (PROMPT, "tokens"),
        "output_sequence_length": (OUTPUT, "tokens"),
    }
    return {
        "metadata": {
            "credit_issued_ns": sent_ns - 1_000_000,
            "request_start_ns": sent_ns,
            "request_end_ns": sent_ns + 1_000_000_000,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {name: {"value": value, "unit": unit} for name, (value, unit) in values.items()},
        **changes,
    }


def aiperf_server(k: float = 1.0) -> dict[str, Any]:
    def histogram(mean_s: float, count: int, first_edge: float) -> dict[str, Any]:
        stats = {"count": count, "sum": mean_s * k * count, "count_rate": count / 14.0, "p50_estimate": mean_s * k}
        return {"type": "histogram", "series": [{"stats": stats, "buckets": {str(first_edge): 0, "+Inf": count}}]}

    def counter(total: float) -> dict[str, Any]:
        return {"type": "counter", "series": [{"stats": {"total": total, "rate": total / 14.0}}]}

    return {
        "schema_version": "1.1",
        "aiperf_version": "0.13.0",
        "summary": {"phase_time_ranges": {"profiling": {"start_ns": 0, "end_ns": int(DURATION_S * 1e9)}}},
        "metrics_phase": "profiling",
        "metrics": {
            "vllm:time_to_first_token_seconds": histogram(TTFT_S, REQUESTS, 0.001),
            "vllm:inter_token_latency_seconds": histogram(TPOT_S, REQUESTS * (OUTPUT - 1), 0.01),
            "vllm:e2e_request_latency_seconds": histogram(E2E_S, REQUESTS, 0.3),
            "vllm:prompt_tokens": counter(REQUESTS * PROMPT),
            "vllm:generation_tokens": counter(REQUESTS * OUTPUT),
        },
    }


def aiperf_server_older() -> bytes:
    run = aiperf_server()
    run["metrics"]["vllm:time_per_output_token_seconds"] = run["metrics"].pop("vllm:inter_token_latency_seconds")
    return to_json({**run, "schema_version": "1.0"})


def genai_perf(k: float = 1.0, **config: Any) -> bytes:
    run = aiperf_export(k)
    for name in ("schema_version", "aiperf_version", "goodput", "benchmark_duration", "total_isl", "total_osl"):
        del run[name]
    stated = {"model": ["example/model"], "backend": "vllm", "concurrency": 4, "request_rate": None, "goodput": None}
    return to_json({**run, "input_config": config or stated})


# ---- inference-perf ------------------------------------------------------------------------------------


def lifecycle(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "load_summary": {
            "count": REQUESTS,
            "schedule_delay": spread(0.0005),
            "send_duration": DURATION_S,
            "requested_rate": 4.0,
            "achieved_rate": 4.0,
        },
        "successes": {
            "count": REQUESTS,
            "latency": {
                "request_latency": spread(E2E_S * k),
                "normalized_time_per_output_token": spread(E2E_S * k / OUTPUT),
                "time_per_output_token": spread(TPOT_S * k),
                "time_to_first_token": spread(TTFT_S * k),
                "inter_token_latency": spread(TPOT_S * k),
            },
            "throughput": {
                "requests_per_sec": REQUESTS / DURATION_S,
                "output_tokens_per_sec": REQUESTS * OUTPUT / DURATION_S,
            },
            "prompt_len": spread(float(PROMPT)),
            "output_len": spread(float(OUTPUT)),
        },
        "failures": {"count": 0, "request_latency": None, "prompt_len": None},
        **changes,
    }


def lifecycle_newer() -> bytes:
    run = lifecycle(benchmark_time_seconds=DURATION_S)
    good = run["successes"]
    del good["prompt_len"]
    good["prompt_tokens"] = {"total": REQUESTS * PROMPT, "cached": REQUESTS * 128.0, "uncached": 0.0, **spread(PROMPT)}
    good["output_tokens"] = {"total": REQUESTS * OUTPUT, **spread(OUTPUT)}
    good["goodput_metrics"] = {"request_goodput": 3.2, "goodput_percentage": 80.0, "total_requests": REQUESTS}
    return to_json(run)


def lifecycle_record(index: int, k: float = 1.0, **changes: Any) -> dict[str, Any]:
    sent = 1000.0 + index * 0.25 * k
    times = [sent + (TTFT_S + TPOT_S * each) * k for each in range(OUTPUT)]
    return {
        "stage_id": 0,
        "scheduled_time": sent,
        "start_time": sent,
        "end_time": sent + E2E_S * k,
        "request_data": "",
        "info": {
            "input_tokens": PROMPT,
            "response_metrics": {
                "output_tokens": OUTPUT,
                "output_token_times": times,
                "server_usage": {"completion_tokens": OUTPUT, "prompt_tokens_details": {"cached_tokens": 128}},
            },
        },
        "error": None,
        **changes,
    }


def lifecycle_record_older(index: int) -> dict[str, Any]:
    record = lifecycle_record(index)
    inside = record["info"].pop("response_metrics")
    record["info"] |= {"output_tokens": inside["output_tokens"], "output_token_times": inside["output_token_times"]}
    del record["stage_id"]
    return record


def prometheus(k: float = 1.0, *, prompt_mean: float = PROMPT, kv: float = 0.4) -> dict[str, Any]:
    return {
        "load_summary": {},
        "successes": {
            "count": REQUESTS,
            "rate": REQUESTS / DURATION_S,
            "prompt_len": {"mean": prompt_mean, "rate": REQUESTS * PROMPT / DURATION_S},
            "output_len": {"mean": OUTPUT, "rate": REQUESTS * OUTPUT / DURATION_S},
            "queue_len": {"mean": 0},
            "request_latency": spread(E2E_S * k),
            "time_to_first_token": spread(TTFT_S * k),
            "time_per_output_token": spread(TPOT_S * k),
            "kv_cache_usage_percentage": {"mean": kv},
        },
        "failures": {},
    }


# ---- llm-d, MLPerf, LLMPerf, timestamps, our own CSV ---------------------------------------------------


def llmd_report(k: float = 1.0, version: str = "0.2.1", unit: str = "s") -> dict[str, Any]:
    scale = k if unit == "s" else k * 1000.0

    def statistic(seconds: float, per: str = "") -> dict[str, Any]:
        value = seconds * scale
        return {"units": unit + per, "mean": value, "p50": value, "p99": value * 1.1, "p99p9": value * 1.1}

    def count(value: float) -> dict[str, Any]:
        return {"units": "count", "mean": value, "min": value, "max": value}

    return {
        "version": version,
        "run": {"time": {"duration": f"PT{DURATION_S}S", "start": "2026-11-01T10:00:00Z"}},
        "scenario": {
            "load": {
                "standardized": {
                    "tool": "inference-perf",
                    "tool_version": "0.3.0",
                    "rate_qps": 4.0,
                    "concurrency": float("inf"),
                    "stage": 2,
                    "input_seq_len": {"distribution": "fixed", "value": PROMPT},
                }
            },
            "stack": [
                {
                    "standardized": {
                        "kind": "inference_engine",
                        "tool": "vllm",
                        "tool_version": "0.11",
                        "replicas": 2,
                        "model": {"name": "example/model"},
                        "accelerator": {"model": "H100", "count": 2, "parallelism": {"tp": 2, "pp": 1, "ep": 1}},
                    }
                },
                {"standardized": {"kind": "generic", "tool": "router"}},
            ],
        },
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": {
                        "total": REQUESTS,
                        "failures": 0,
                        "input_length": count(PROMPT),
                        "output_length": count(OUTPUT),
                    },
                    "latency": {
                        "time_to_first_token": statistic(TTFT_S),
                        "time_per_output_token": statistic(TPOT_S, "/token"),
                        "request_latency": statistic(E2E_S),
                    },
                    "throughput": {"request_rate": {"units": "queries/s", "mean": 4.0}},
                }
            }
        },
    }


def llmd_older() -> bytes:
    newer = llmd_report(unit="ms")["results"]["request_performance"]["aggregate"]
    return to_json(
        {
            "version": "0.1",
            "scenario": {
                "host": {"type": ["replica"], "accelerator": [{"model": "H100", "count": 2}]},
                "platform": {"engine": [{"name": "vllm", "version": "0.9.0"}]},
                "model": {"name": "example/model"},
                "load": {"name": "inference-perf", "args": {"qps_values": 4.0}},
            },
            "metrics": {
                "time": {"duration": DURATION_S},
                "requests": newer["requests"],
                "latency": newer["latency"],
                "throughput": {"requests_per_sec": 4.0, "output_tokens_per_sec": 184.0},
            },
        }
    )


def mlperf_summary(k: float = 1.0, *, ttft_ms: int = 2000, tpot_ms: int = 200, verdict: str = "VALID") -> bytes:
    def printed(title: str, lower: str, seconds: float) -> str:
        ns = seconds * k * 1e9
        return (
            f"Mean {title} (ns) : {ns:.0f}\n50.00 percentile {lower} (ns) : {ns:.0f}\n"
            f"99.00 percentile {lower} (ns) : {ns * 1.1:.0f}\n99.90 percentile {lower} (ns) : {ns * 1.1:.0f}\n"
        )

    banner = "=" * 48
    return (
        f"{banner}\nMLPerf Results Summary\n{banner}\nSUT name : PySUT\nScenario : Server\nMode     : PerformanceOnly\n"
        f"Completed samples per second    : 4.00\nCompleted tokens per second: 184.0\nResult is : {verdict}\n"
        f"{banner}\nAdditional Stats\n{banner}\nScheduled samples per second : 4.00\n"
        + printed("latency", "latency", E2E_S)
        + printed("First Token latency", "first token latency", TTFT_S)
        + printed("Time to Output Token", "time to output token", TPOT_S)
        + f"{banner}\nTest Parameters Used\n{banner}\nsamples_per_query : 1\ntarget_qps : 4\n"
        f"ttft_latency (ns): {ttft_ms * 10**6}\ntpot_latency (ns): {tpot_ms * 10**6}\nmin_duration (ms): 600000\n"
    ).encode()


def mlperf_offline_summary() -> bytes:
    banner = "=" * 48
    return (
        f"{banner}\nMLPerf Results Summary\n{banner}\nScenario : Offline\nSamples per second: 4.0\n"
        "Tokens per second: 184.0\nResult is : VALID\nMean latency (ns) : 6000000000\n"
        f"{banner}\nTest Parameters Used\n{banner}\nsamples_per_query : 36\n"
        "WARNING: sample_concatenate_permutation was set to true.\n"
    ).encode()


def mlperf_detail(k: float = 1.0, scenario: str = "Server") -> bytes:
    values: dict[str, Any] = {
        "loadgen_version": "5.1.0",
        "test_datetime": "2026-11-01T10:00:00Z",
        "effective_scenario": scenario,
        "effective_target_qps": 4,
        "requested_server_ttft_latency": 2_000_000_000,
        "requested_server_tpot_latency": 200_000_000,
        "generated_query_count": REQUESTS if scenario == "Server" else 1,
        "generated_samples_per_query": 1 if scenario == "Server" else REQUESTS,
        "result_query_count": REQUESTS,
        "result_overlatency_query_count": REQUESTS,
        "result_token_throughput": 6.9e-09,
        "result_mean_latency_ns": E2E_S * k * 1e9,
        "result_99.00_percentile_latency_ns": E2E_S * k * 1.1e9,
        "result_validity": "VALID",
    }
    if scenario == "Server":
        values |= {
            "result_scheduled_samples_per_sec": 4.0,
            "result_completed_samples_per_sec": 4.0,
            "result_completed_tokens_per_second": 184.0,
            "result_first_token_mean_latency_ns": TTFT_S * k * 1e9,
            "result_first_token_99.00_percentile_latency_ns": TTFT_S * k * 1.1e9,
            "result_time_to_output_token_mean": TPOT_S * k * 1e9,
            "result_time_per_output_token_99.00_percentile_ns": TPOT_S * k * 1.1e9,
        }
    else:
        values |= {"result_samples_per_second": 4.0, "result_tokens_per_second": 184.0}
    order = [name for name in values if name != "result_validity"] + ["result_validity"]
    return b"".join(b":::MLLOG " + to_json({"key": name, "value": values[name]}) + b"\n" for name in order)


def llmperf_summary(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    run: dict[str, Any] = {
        "version": "2023-08-31",
        "name": "model_200_46_summary",
        "model": "example/model",
        "mean_input_tokens": PROMPT,
        "mean_output_tokens": OUTPUT,
        "num_concurrent_requests": 4,
        "results_num_completed_requests": REQUESTS,
        "results_num_completed_requests_per_min": 60.0 * REQUESTS / DURATION_S,
        "results_number_errors": 0,
    }
    for name, mean in (
        ("ttft_s", TTFT_S * k),
        ("inter_token_latency_s", E2E_S * k / OUTPUT),
        ("end_to_end_latency_s", E2E_S * k),
        ("number_input_tokens", float(PROMPT)),
        ("number_output_tokens", float(OUTPUT)),
    ):
        run |= {
            f"results_{name}_mean": mean,
            f"results_{name}_quantiles_p99": mean * 1.1,
            f"results_{name}_min": str(int(mean)),
        }
    return {**run, **changes}


def llmperf_record(k: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": E2E_S * k / OUTPUT,
        "ttft_s": TTFT_S * k,
        "end_to_end_latency_s": E2E_S * k,
        "number_output_tokens": OUTPUT,
        "number_input_tokens": PROMPT,
        **changes,
    }


def engine_record(index: int, k: float = 1.0, **changes: Any) -> dict[str, Any]:
    queued = 500.0 + index * 0.25 * k
    return {
        "request_id": f"r{index}",
        "input_toks": PROMPT,
        "output_toks": OUTPUT,
        "queued_ts": queued,
        "scheduled_ts": queued,
        "first_token_ts": queued + TTFT_S * k,
        "last_token_ts": queued + E2E_S * k,
        **changes,
    }


def points_csv(k: float = 1.0, unit: str = "ms") -> bytes:
    scale = 1000.0 if unit == "ms" else 1.0
    header = ["name", "model", "concurrency", "duration_s", "completed", "failed", "prompt_tokens_mean"]
    header += ["output_tokens_mean", f"ttft_mean_{unit}", f"ttft_p99_{unit}", f"tpot_mean_{unit}", f"e2e_mean_{unit}"]
    latencies = [each * k * scale for each in (TTFT_S, TTFT_S * 1.1, TPOT_S, E2E_S)]
    return to_csv([header, ["four", "example/model", 4, DURATION_S, REQUESTS, 0, PROMPT, OUTPUT, *latencies]])


def each_request(make: Callable[..., dict[str, Any]], k: float) -> list[dict[str, Any]]:
    return [make(index, k) for index in range(REQUESTS)]


def engine_metrics(k: float = 1.0, *, engine: str = "vllm", scrapes: bool = True, tpot: bool = True) -> bytes:
    """Two scrapes of a page, ten seconds apart, or the last alone; the engine had served a warm-up before the first."""

    def page(served: int) -> str:
        gaps = served * (OUTPUT - 1)
        values = {
            "num_requests_running": 0.0,
            "prompt_tokens_total": served * PROMPT,
            "generation_tokens_total": served * OUTPUT,
            "iteration_tokens_total_count": served * OUTPUT / 4,
            "iteration_tokens_total_sum": served * (PROMPT + OUTPUT),
            "request_prompt_tokens_sum": served * PROMPT,
            "request_generation_tokens_sum": served * OUTPUT,
            "time_to_first_token_seconds_count": served,
            "time_to_first_token_seconds_sum": served * TTFT_S * k,
            "inter_token_latency_seconds_count": gaps,
            "inter_token_latency_seconds_sum": gaps * TPOT_S * k,
            "e2e_request_latency_seconds_count": served,
            "e2e_request_latency_seconds_sum": served * E2E_S * k,
        }
        if tpot:
            values["request_time_per_output_token_seconds_count"] = served
            values["request_time_per_output_token_seconds_sum"] = served * TPOT_S * k
        buckets = f'{engine}:time_to_first_token_seconds_bucket{{le="0.001",model_name="example"}} 0.0\n'
        return buckets + "".join(f'{engine}:{name}{{model_name="example"}} {value}\n' for name, value in values.items())

    if not scrapes:
        return page(REQUESTS).encode()
    return f"# SCRAPE 1000.0\n{page(10)}# SCRAPE {1000.0 + DURATION_S}\n{page(10 + REQUESTS)}".encode()


def console_text(k: float = 1.0, *, backend: str = "vllm", cap: int = 4) -> bytes:
    """What a serving benchmark prints, with the arguments it was started with."""
    values = flat(k, 1000.0, ttft_ms=TTFT_S, tpot_ms=TPOT_S, e2el_ms=E2E_S)
    titles = {"mean": "Mean", "median": "Median", "std": "Std", "p99": "P99"}
    lines = [
        f"Namespace(backend='{backend}', model='example/model', dataset_name='random', random_range_ratio=0.0)",
        "Traffic request rate: inf",
        f"Maximum request concurrency: {cap}",
        "============ Serving Benchmark Result ============",
        f"Successful requests:                     {REQUESTS}",
        f"Benchmark duration (s):                  {DURATION_S}",
        f"Total input tokens:                      {REQUESTS * PROMPT:,}",
        f"Total generated tokens:                  {REQUESTS * OUTPUT}",
        f"Request throughput (req/s):              {REQUESTS / DURATION_S}",
    ]
    for name, value in values.items():
        which, latency, _ = name.split("_")
        if which in titles:
            lines.append(f"{titles[which]} {latency.upper()} (ms):      {value}")
    return ("\n".join([*lines, "=" * 50]) + "\n").encode()


def aiperf_csv(k: float = 1.0, *, request_count: bool = True) -> bytes:
    head = ["Metric", "avg", "min", "max", "sum", "p50", "p99", "std"]
    rows: list[list[Any]] = [head]
    for name, mean in (("Time to First Token", TTFT_S), ("Inter Token Latency", TPOT_S), ("Request Latency", E2E_S)):
        ms = 1000.0 * mean * k
        rows.append([f"{name} (ms)", ms, ms * 0.9, ms * 1.1, "", ms, ms * 1.1, ms * 0.05])
    rows.append(["Output Sequence Length (tokens)", OUTPUT, OUTPUT, OUTPUT, REQUESTS * OUTPUT, OUTPUT, OUTPUT, 0])
    rows.append(["Input Sequence Length (tokens)", PROMPT, PROMPT, PROMPT, REQUESTS * PROMPT, PROMPT, PROMPT, 0])
    single: list[list[Any]] = [["Benchmark Duration (sec)", DURATION_S]]
    single += [["Request Count", float(REQUESTS)]] if request_count else []
    single += [["Completed Requests (Success + Error)", float(REQUESTS)], ["Request Throughput (requests/sec)", 4.0]]
    return to_csv(rows) + b"\r\n" + to_csv([["Metric", "Value"], *single])


def locust_stats(k: float = 1.0, *, aggregated: bool = True) -> bytes:
    head = ["Type", "Name", "Request Count", "Failure Count", "Median Response Time", "Average Response Time"]
    head += ["Min Response Time", "Max Response Time", "Average Content Size", "Requests/s", "Failures/s", "50%", "99%"]
    rows: list[list[Any]] = [head]
    for kind, name, mean in (
        ("POST", "/v1/chat/completions", E2E_S),
        ("LLM", "ttft", TTFT_S),
        ("LLM", "tpot", TPOT_S),
        ("GET", "/health", 0.003),
        *((("", "Aggregated", E2E_S),) if aggregated else ()),
    ):
        ms = 1000.0 * mean * k
        rows.append(
            [kind, name, REQUESTS, 0, ms, ms, ms * 0.9, ms * 1.1, 59.7, REQUESTS / DURATION_S, 0.0, ms, ms * 1.1]
        )
    return to_csv(rows)


def k6_summary(k: float = 1.0, *, exported: bool = True) -> bytes:
    def trend(mean: float) -> dict[str, Any]:
        ms = 1000.0 * mean * k
        values = {"avg": ms, "min": ms * 0.9, "med": ms, "max": ms * 1.1, "p(90)": ms, "p(99)": ms * 1.1}
        return values if exported else {"type": "trend", "contains": "time", "values": values}

    def plain(**values: float) -> dict[str, Any]:
        return dict(values) if exported else {"type": "counter", "contains": "default", "values": values}

    metrics = {
        "http_req_duration": trend(E2E_S),
        "http_req_waiting": trend(TTFT_S / 2),
        "ttft": trend(TTFT_S),
        "llm_tpot": trend(TPOT_S),
        "http_reqs": plain(count=REQUESTS, rate=REQUESTS / DURATION_S),
        "http_req_failed": plain(passes=0, fails=REQUESTS, value=0),
        "vus": plain(value=4, min=4, max=4),
        "output_tokens": plain(count=REQUESTS * OUTPUT, rate=1.0),
        "prompt_tokens": plain(count=REQUESTS * PROMPT, rate=1.0),
    }
    return to_json({"metrics": metrics} if exported else {"metrics": metrics, "state": {"testRunDurationMs": 10_000}})


def request_log(k: float = 1.0, *, as_lines: bool = False) -> bytes:
    """A log of one's own: times as ISO and milliseconds in a CSV, as epoch and seconds in lines of JSON."""
    if as_lines:
        return to_lines(
            [
                {
                    "timestamp": 1_790_000_000.0 + 0.25 * index,
                    "input_tokens": PROMPT,
                    "output_tokens": OUTPUT,
                    "time_to_first_token_s": TTFT_S * k,
                    "latency_s": E2E_S * k,
                }
                for index in range(REQUESTS)
            ]
        )
    rows: list[list[Any]] = [["start_time", "prompt_tokens", "completion_tokens", "ttft_ms", "duration_ms", "status"]]
    for index in range(REQUESTS):
        at = f"2026-11-15T10:00:{index // 4:02d}.{250 * (index % 4):03d}+00:00"
        rows.append([at, PROMPT, OUTPUT, 1000.0 * TTFT_S * k, 1000.0 * E2E_S * k, 200])
    return to_csv(rows)


SAMPLES: dict[str, Sample] = {
    "aiperf_csv": Sample(make=aiperf_csv, older=lambda: aiperf_csv(request_count=False)),
    "locust": Sample(make=locust_stats, older=lambda: locust_stats(aggregated=False)),
    "k6": Sample(make=k6_summary, older=lambda: k6_summary(exported=False)),
    "request_log": Sample(make=request_log, older=lambda: request_log(as_lines=True)),
    "console": Sample(make=console_text, older=lambda: console_text(backend="sglang")),
    "vllm": Sample(make=lambda k: to_json(vllm_run(k)), older=vllm_older),
    "sglang": Sample(make=lambda k: to_lines([sglang_run(k)]), older=sglang_older),
    "guidellm": Sample(make=lambda k: to_json(guidellm_report(k)), older=guidellm_oldest),
    "guidellm_csv": Sample(make=guidellm_csv, older=guidellm_csv_older),
    "guidellm_guidance": Sample(make=guidance_report, older=lambda: guidance_report(mode="throughput")),
    "aiperf": Sample(make=lambda k: to_json(aiperf_export(k)), older=aiperf_older),
    "aiperf_requests": Sample(
        make=lambda k: to_lines(each_request(aiperf_record, k)),
        older=lambda: to_lines(
            [
                {**each, "metadata": {n: v for n, v in each["metadata"].items() if n != "credit_issued_ns"}}
                for each in each_request(aiperf_record, 1.0)
            ]
        ),
    ),
    "aiperf_server": Sample(make=lambda k: to_json(aiperf_server(k)), older=aiperf_server_older),
    "genai_perf": Sample(
        make=genai_perf,
        older=lambda: genai_perf(1.0, model_names=["example/model"], perf_analyzer={"stimulus": {"concurrency": 4}}),
    ),
    "engine_metrics": Sample(
        make=engine_metrics, older=lambda: engine_metrics(engine="sglang", scrapes=False, tpot=False)
    ),
    "inference_perf": Sample(make=lambda k: to_json(lifecycle(k)), older=lifecycle_newer),
    "inference_perf_requests": Sample(
        make=lambda k: to_json(each_request(lifecycle_record, k)),
        older=lambda: to_json([lifecycle_record_older(index) for index in range(REQUESTS)]),
    ),
    "inference_perf_server": Sample(
        make=lambda k: to_json(prometheus(k)), older=lambda: to_json(prometheus(prompt_mean=10721, kv=0.0))
    ),
    "llmd_report": Sample(make=lambda k: to_json(llmd_report(k)), older=llmd_older),
    "inferencex": Sample(make=lambda k: to_json(inferencex_run(k)), older=inferencex_older),
    "mlperf_summary": Sample(make=mlperf_summary, older=mlperf_offline_summary, wrong_factor=1e6),
    "mlperf_detail": Sample(make=mlperf_detail, older=lambda: mlperf_detail(scenario="Offline"), wrong_factor=1e6),
    "llmperf_summary": Sample(
        make=lambda k: to_json(llmperf_summary(k)), older=lambda: to_json(llmperf_summary(version="2023-06-01"))
    ),
    "llmperf_requests": Sample(
        make=lambda k: to_json([llmperf_record(k)] * REQUESTS),
        older=lambda: to_json([llmperf_record()] * (REQUESTS - 1) + [llmperf_record(error_code=429)]),
    ),
    "engine_timestamps": Sample(
        make=lambda k: to_lines(each_request(engine_record, k)),
        older=lambda: to_lines([engine_record(index, scheduled_ts=None) for index in range(REQUESTS)]),
    ),
    "points_csv": Sample(make=points_csv, older=lambda: points_csv(unit="s")),
}
