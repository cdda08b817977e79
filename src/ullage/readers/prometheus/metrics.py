"""What engines, gateways, Kubernetes and cost exporters call what we ask for: one table, by quantity, best first.

A quantity is read from the first name that has data; where a name ends and another begins, as when an engine is
upgraded, both are read and the change is noted. Arrivals come from counts of HTTP requests: counts of successes miss
those that were aborted, which are most where the service is overloaded.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ullage.reconcile.observation import ObservedQuantity


class SeriesKind(enum.Enum):
    """How a metric is read: what it counts in a step, its mean level, its buckets, or an expression as it stands."""

    COUNTER = "counter"
    LEVEL = "level"
    HISTOGRAM = "histogram"
    EXPRESSION = "expression"


@dataclass(frozen=True, kw_only=True)
class MetricName:
    """One name of a quantity. `over` is how the values of several replicas become one: sum, avg, max or count.

    `labels` select among its series; those of `within` are the whole that it is a part of: an engine has no series of a
    part that it never counted, and where the whole is there that part is none. `caveat` is what a reader should know.
    In an expression `{sel}` stands for the labels that were asked for, and `{step}` for the length of a step.
    """

    name: str
    engine: str
    kind: SeriesKind
    over: str = "sum"
    labels: str = ""
    within: str = ""
    scale_ratio: float = 1.0
    caveat: str = ""


def _named(kind: SeriesKind, over: str = "sum", **names: str) -> tuple[MetricName, ...]:
    """Names by engine, each several apart by blanks; an underscore in an engine's name is a hyphen."""
    return tuple(
        MetricName(name=name, engine=engine.replace("_", "-"), kind=kind, over=over)
        for engine, listed in names.items()
        for name in listed.split()
    )


_COUNTER, _LEVEL, _HISTOGRAM = SeriesKind.COUNTER, SeriesKind.LEVEL, SeriesKind.HISTOGRAM
_ABORTED = "requests that were aborted are not in it, so arrivals under overload are undercounted"
# Lists of models and probes are read with GET, and are no requests.
_ASKED = 'handler=~"/v1/.*",method=~"|POST"'
_FINISHED = "counts requests when they finish, so a growing backlog is counted late"

METRICS: dict[ObservedQuantity, tuple[MetricName, ...]] = {
    ObservedQuantity.ARRIVALS: (
        *_named(_COUNTER, dynamo="dynamo_frontend_requests_started_total"),
        *_named(_COUNTER, gateway="inference_objective_request_total inference_model_request_total"),
        MetricName(name="http_requests_total", engine="vllm", kind=_COUNTER, labels=_ASKED),
        *_named(_COUNTER, tgi="tgi_request_count"),
        *(
            MetricName(name=f"{engine}:time_to_first_token_seconds_count", engine=engine, kind=_COUNTER, caveat=said)
            for engine, said in (
                ("vllm", "counts first tokens: requests that never had one are not in it"),
                ("sglang", "counts first tokens: requests that never had one are not in it"),
            )
        ),
        MetricName(name="sglang:num_requests_total", engine="sglang", kind=_COUNTER, caveat=_FINISHED),
        MetricName(name="trtllm_num_requests_completed_total", engine="tensorrt-llm", kind=_COUNTER, caveat=_FINISHED),
        MetricName(name="nv_inference_request_success", engine="tensorrt-llm", kind=_COUNTER, caveat=_ABORTED),
        MetricName(name="vllm:request_success_total", engine="vllm", kind=_COUNTER, caveat=_ABORTED),
    ),
    ObservedQuantity.SUCCESSES: _named(
        _COUNTER,
        vllm="vllm:request_success_total",
        sglang="sglang:num_requests_total",
        tensorrt_llm="trtllm_request_success_total trtllm_num_requests_completed_total nv_inference_request_success",
        tgi="tgi_request_success",
        dynamo="dynamo_frontend_requests_total",
    ),
    ObservedQuantity.FAILURES: (
        MetricName(
            name="http_requests_total",
            engine="vllm",
            kind=_COUNTER,
            labels=f'{_ASKED},status=~"5..|4.."',
            within=_ASKED,
        ),
        *_named(
            _COUNTER,
            sglang="sglang:num_aborted_requests_total",
            tensorrt_llm="trtllm_request_error_total nv_inference_request_failure",
            tgi="tgi_request_failure",
            gateway="inference_objective_request_error_total inference_model_request_error_total",
        ),
    ),
    ObservedQuantity.PROMPT_TOKENS: _named(
        _COUNTER,
        vllm="vllm:prompt_tokens_total",
        sglang="sglang:prompt_tokens_total",
        tensorrt_llm="trtllm_prompt_tokens_total",
        tgi="tgi_request_input_length_sum",
        dynamo="dynamo_frontend_input_sequence_tokens_sum",
        gateway="inference_objective_input_tokens_sum inference_model_input_tokens_sum",
    ),
    ObservedQuantity.OUTPUT_TOKENS: _named(
        _COUNTER,
        vllm="vllm:generation_tokens_total",
        sglang="sglang:generation_tokens_total",
        tensorrt_llm="trtllm_generation_tokens_total",
        tgi="tgi_request_generated_tokens_sum",
        dynamo="dynamo_frontend_output_sequence_tokens_sum",
        gateway="inference_objective_output_tokens_sum inference_model_output_tokens_sum",
    ),
    ObservedQuantity.CACHED_TOKENS: _named(
        _COUNTER,
        vllm="vllm:prefix_cache_hits_total vllm:gpu_prefix_cache_hits_total vllm:prompt_tokens_cached_total",
        sglang="sglang:cached_tokens_total",
        gateway="inference_objective_prompt_cached_tokens_sum",
    ),
    ObservedQuantity.CACHE_QUERIES: _named(
        _COUNTER,
        vllm="vllm:prefix_cache_queries_total vllm:gpu_prefix_cache_queries_total",
    ),
    ObservedQuantity.PREEMPTIONS: _named(
        _COUNTER, vllm="vllm:num_preemptions_total", tensorrt_llm="trtllm_num_preemptions_total"
    ),
    ObservedQuantity.RUNNING: _named(
        _LEVEL,
        vllm="vllm:num_requests_running",
        sglang="sglang:num_running_reqs",
        tensorrt_llm="trtllm_num_requests_running",
        tgi="tgi_batch_current_size",
        dynamo="dynamo_frontend_inflight_requests",
    ),
    ObservedQuantity.WAITING: _named(
        _LEVEL,
        vllm="vllm:num_requests_waiting",
        sglang="sglang:num_queue_reqs",
        tensorrt_llm="trtllm_num_requests_waiting",
        tgi="tgi_queue_size",
        dynamo="dynamo_frontend_queued_requests",
        gateway="inference_extension_flow_control_queue_size",
    ),
    ObservedQuantity.KV_USE: _named(
        _LEVEL,
        "avg",
        vllm="vllm:kv_cache_usage_perc vllm:gpu_cache_usage_perc",
        sglang="sglang:token_usage",
        tensorrt_llm="trtllm_kv_cache_utilization",
        dynamo="dynamo_component_gpu_cache_usage_percent",
        gateway="inference_pool_average_kv_cache_utilization",
    ),
    ObservedQuantity.KV_PEAK: _named(
        _LEVEL,
        "max",
        vllm="vllm:kv_cache_usage_perc vllm:gpu_cache_usage_perc",
        sglang="sglang:token_usage",
        tensorrt_llm="trtllm_kv_cache_utilization",
    ),
    ObservedQuantity.REPLICAS: (
        *_named(
            _LEVEL,
            "count",
            vllm="vllm:num_requests_running",
            sglang="sglang:num_running_reqs",
            tensorrt_llm="trtllm_num_requests_running",
            tgi="tgi_batch_current_size",
        ),
        *_named(_LEVEL, gateway="inference_pool_ready_pods", kubernetes="kube_deployment_status_replicas_ready"),
    ),
    ObservedQuantity.DESIRED_REPLICAS: _named(
        _LEVEL, kubernetes="kube_horizontalpodautoscaler_status_desired_replicas"
    ),
    ObservedQuantity.RESTARTS: (
        *_named(_COUNTER, kubernetes="kube_pod_container_status_restarts_total"),
        # A process that is started anew is not there for minutes, so that its last start may be many steps back.
        MetricName(
            name="count(last_over_time(process_start_time_seconds{sel}[{step}s]) != "
            "last_over_time(process_start_time_seconds{sel}[6h] offset {step}s)) "
            "or 0 * count(last_over_time(process_start_time_seconds{sel}[{step}s]))",
            engine="any",
            kind=SeriesKind.EXPRESSION,
        ),
    ),
    ObservedQuantity.OOM_KILLS: _named(_COUNTER, kubernetes="container_oom_events_total"),
    ObservedQuantity.DEVICE_MEMORY: (
        MetricName(name="DCGM_FI_DEV_FB_USED", engine="dcgm", kind=_LEVEL, over="avg", scale_ratio=float(2**20)),
    ),
    ObservedQuantity.TIME_TO_READY: (
        MetricName(
            name="avg((kube_pod_status_ready_time{sel} - on(namespace, pod) kube_pod_created{sel}) "
            "and on(namespace, pod) (kube_pod_status_ready_time{sel} > time() - {step}))",
            engine="kubernetes",
            kind=SeriesKind.EXPRESSION,
        ),
    ),
    ObservedQuantity.DEVICE_HOUR_USD: _named(_LEVEL, "avg", opencost="node_gpu_hourly_cost"),
    ObservedQuantity.TTFT: _named(
        _HISTOGRAM,
        vllm="vllm:time_to_first_token_seconds",
        sglang="sglang:time_to_first_token_seconds",
        tensorrt_llm="trtllm_time_to_first_token_seconds",
        dynamo="dynamo_frontend_time_to_first_token_seconds",
        gateway="inference_objective_request_ttft_seconds",
    ),
    ObservedQuantity.TPOT: _named(
        _HISTOGRAM,
        vllm="vllm:request_time_per_output_token_seconds",
        sglang="sglang:request_time_per_output_token_seconds",
        tensorrt_llm="trtllm_time_per_output_token_seconds",
        tgi="tgi_request_mean_time_per_token_duration",
        gateway="inference_objective_request_tpot_seconds",
    ),
    ObservedQuantity.ITL: _named(
        _HISTOGRAM,
        vllm="vllm:inter_token_latency_seconds vllm:time_per_output_token_seconds",
        sglang="sglang:inter_token_latency_seconds sglang:time_per_output_token_seconds",
        dynamo="dynamo_frontend_inter_token_latency_seconds",
    ),
    ObservedQuantity.E2E: _named(
        _HISTOGRAM,
        vllm="vllm:e2e_request_latency_seconds",
        sglang="sglang:e2e_request_latency_seconds",
        tensorrt_llm="trtllm_e2e_request_latency_seconds",
        tgi="tgi_request_duration",
        dynamo="dynamo_frontend_request_duration_seconds",
        gateway="inference_objective_request_duration_seconds inference_model_request_duration_seconds",
    ),
    ObservedQuantity.QUEUE_TIME: _named(
        _HISTOGRAM,
        vllm="vllm:request_queue_time_seconds",
        sglang="sglang:queue_time_seconds",
        tensorrt_llm="trtllm_request_queue_time_seconds",
        tgi="tgi_request_queue_duration",
        gateway="inference_extension_flow_control_request_queue_duration_seconds",
    ),
}

# Of what several of these say the same: engines count a request each, a gateway in front of them counts it once more.
COUNTED = frozenset(each for each, names in METRICS.items() if names[0].kind is SeriesKind.COUNTER)
HISTOGRAMS = frozenset(each for each, names in METRICS.items() if names[0].kind is SeriesKind.HISTOGRAM)


def query_of(metric: MetricName, *, step_s: int, selector: str, by: str = "") -> str:
    """The query whose value at the end of a step is what the step had."""
    labels = ",".join(each for each in (metric.labels, selector) if each)
    sel = f"{{{labels}}}" if labels else ""
    if metric.kind is SeriesKind.EXPRESSION:
        return metric.name.replace("{sel}", sel).replace("{step}", str(step_s))
    if metric.kind is SeriesKind.COUNTER:
        grouped = f" by ({by})" if by else ""
        part = f"sum{grouped} (increase({metric.name}{sel}[{step_s}s]))"
        if not metric.within or by:
            return part
        whole = ",".join(each for each in (metric.within, selector) if each)
        return f"{part} or 0 * sum (increase({metric.name}{{{whole}}}[{step_s}s]))"
    if metric.kind is SeriesKind.HISTOGRAM:
        return f"sum by (le) (increase({metric.name}_bucket{sel}[{step_s}s]))"
    if metric.over == "count":
        # A pod that was replaced within the step would be counted twice; so the count itself is averaged.
        return f"avg_over_time(count({metric.name}{sel})[{step_s}s:{max(15, step_s // 20)}s])"
    if metric.over == "max":
        return f"max(max_over_time({metric.name}{sel}[{step_s}s]))"
    return f"{metric.over}(avg_over_time({metric.name}{sel}[{step_s}s]))"


def sum_query(metric: MetricName, *, step_s: int, selector: str) -> str:
    """What a histogram's values add up to in a step."""
    labels = ",".join(each for each in (metric.labels, selector) if each)
    sel = f"{{{labels}}}" if labels else ""
    return f"sum (increase({metric.name}_sum{sel}[{step_s}s]))"
