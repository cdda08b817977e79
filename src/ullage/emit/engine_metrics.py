"""What each engine tells Prometheus, by the questions that rules ask; None is what an engine does not tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.emit.request import EmitPool

# Upper bounds of the engines' own histograms: a rule can ask only for a bound that is there.
_TTFT = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
    2560.0,
)
_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_E2E = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
    1920.0,
    7680.0,
)
_SGLANG_TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0)
_SGLANG_ITL = (
    0.002,
    0.004,
    0.006,
    0.008,
    0.01,
    0.015,
    0.02,
    0.025,
    0.03,
    0.035,
    0.04,
    0.06,
    0.08,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    2.0,
    4.0,
    6.0,
    8.0,
)
_SGLANG_E2E = (
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    2.0,
    4.0,
    6.0,
    8.0,
    10.0,
    20.0,
    40.0,
    60.0,
    80.0,
    100.0,
    200.0,
    400.0,
    600.0,
    1200.0,
    1800.0,
    2400.0,
)


@dataclass(frozen=True, kw_only=True)
class LatencyHistogram:
    """A histogram of the engine, by its base name, and the bounds of its buckets."""

    series: str
    bounds_s: tuple[float, ...]

    def bound_s(self, limit_s: float) -> float | None:
        """The least bound that is not below the limit; None where the histogram ends before it.

        >>> LatencyHistogram(series="x", bounds_s=(0.5, 1.0)).bound_s(0.6)
        1.0
        """
        return next((each for each in self.bounds_s if each >= limit_s - 1e-12), None)


@dataclass(frozen=True, kw_only=True)
class EngineMetrics:
    """PromQL selectors of one pool's series: gauges, counters and histograms under our names."""

    running: str
    waiting: str
    kv_use: str
    preempted: str | None
    succeeded: str
    hits: str
    lookups: str
    latencies: Mapping[str, LatencyHistogram]
    matcher: str

    def bucket(self, metric: str, bound_s: float) -> str:
        """The bucket of a latency up to a bound; clients print a whole bound with or without its decimals."""
        texts = dict.fromkeys((f"{bound_s:g}", str(bound_s)))
        bound = "|".join(each.replace(".", "[.]") for each in texts)
        return f'{self.latencies[metric].series}_bucket{self.matcher[:-1]}, le=~"{bound}"}}'

    def count(self, metric: str) -> str:
        return f"{self.latencies[metric].series}_count{self.matcher}"


_NAMES: Mapping[str, Mapping[str, str | None]] = {
    "vllm": {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv_use": "vllm:kv_cache_usage_perc",
        "preempted": "vllm:num_preemptions_total",
        "succeeded": "vllm:request_success_total",
        "hits": "vllm:prefix_cache_hits_total",
        "lookups": "vllm:prefix_cache_queries_total",
    },
    "sglang": {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "kv_use": "sglang:token_usage",
        "preempted": "sglang:num_retracted_requests_total",
        "succeeded": "sglang:num_requests_total",
        "hits": "sglang:cached_tokens_total",
        "lookups": "sglang:prompt_tokens_total",
    },
    "tensorrt-llm": {
        "running": "trtllm_num_requests_running",
        "waiting": "trtllm_num_requests_waiting",
        "kv_use": "trtllm_kv_cache_utilization",
        "preempted": None,
        "succeeded": "trtllm_request_success_total",
        "hits": "trtllm_prompt_cached_tokens_total",
        "lookups": "trtllm_prompt_tokens_total",
    },
}
_LATENCIES: Mapping[str, Mapping[str, LatencyHistogram]] = {
    "vllm": {
        "ttft": LatencyHistogram(series="vllm:time_to_first_token_seconds", bounds_s=_TTFT),
        "tpot": LatencyHistogram(series="vllm:request_time_per_output_token_seconds", bounds_s=_TPOT),
        "itl": LatencyHistogram(series="vllm:inter_token_latency_seconds", bounds_s=_TPOT),
        "e2e": LatencyHistogram(series="vllm:e2e_request_latency_seconds", bounds_s=_E2E),
    },
    "sglang": {
        "ttft": LatencyHistogram(series="sglang:time_to_first_token_seconds", bounds_s=_SGLANG_TTFT),
        "itl": LatencyHistogram(series="sglang:inter_token_latency_seconds", bounds_s=_SGLANG_ITL),
        "e2e": LatencyHistogram(series="sglang:e2e_request_latency_seconds", bounds_s=_SGLANG_E2E),
    },
    "tensorrt-llm": {
        "ttft": LatencyHistogram(series="trtllm_time_to_first_token_seconds", bounds_s=_TTFT),
        "tpot": LatencyHistogram(series="trtllm_time_per_output_token_seconds", bounds_s=_TPOT),
        "e2e": LatencyHistogram(series="trtllm_e2e_request_latency_seconds", bounds_s=_E2E),
    },
}


def engine_metrics(pool: EmitPool) -> EngineMetrics:
    """The series of the pool's engine, selected by the labels that the cluster's people gave."""
    labels = ", ".join(f"{key}={json.dumps(value)}" for key, value in pool.need("series").items())
    matcher = f"{{{labels}}}"
    names = {key: None if name is None else f"{name}{matcher}" for key, name in _NAMES[pool.choice.engine].items()}
    preempted = names.pop("preempted")
    return EngineMetrics(
        **{key: str(each) for key, each in names.items()},
        preempted=preempted,
        latencies=_LATENCIES[pool.choice.engine],
        matcher=matcher,
    )
