"""Metrics as monitoring systems export them in JSON: Prometheus `query_range`, CloudWatch, Azure Monitor.

    Prometheus  {"data": {"resultType": "matrix", "result": [{"metric": {labels}, "values": [[s, "12.4"], ...]}]}}
    CloudWatch  {"MetricDataResults": [{"Label", "Timestamps": [...], "Values": [...]}]}
                {"Label", "Datapoints": [{"Timestamp", "Sum"}]}
    Azure       {"value": [{"name": {"value"}, "timeseries": [{"metadatavalues": [...],
                                                               "data": [{"timeStamp", "total"}]}]}]}

A series without a name is what an expression gave, mostly `sum(rate(...))`. Sums of tokens in files beside it become
mean lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ullage.readers.traces.draft import extracted, json_path, records_of
from ullage.readers.traces.files import Glimpse
from ullage.readers.traces.rates.points import DIMENSIONS, LABELS, RateReader, meaning_of
from ullage.readers.traces.sql import moment, name, text

# Names of metrics, as exporters and clouds spell them; any other is judged by its words.
_EXPORTED = (
    "vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
    "vllm:prefix_cache_hits_total", "vllm:e2e_request_latency_seconds_count", "vllm:time_to_first_token_seconds_count",
    "sglang:num_requests_total", "sglang:prompt_tokens_total", "sglang:generation_tokens_total",
    "sglang:cached_tokens_total", "http_requests_total", "tgi_request_count", "nv_inference_request_success",
    "envoy_cluster_upstream_rq_total", "istio_requests_total", "nginx_ingress_controller_requests",
    "litellm_requests_metric_total", "litellm_proxy_total_requests_metric_total", "litellm_input_tokens_metric_total",
    "litellm_output_tokens_metric_total", "dynamo_frontend_requests_total", "inference_objective_request_total",
)  # fmt: skip
_CLOUD = (
    "Invocations", "InvocationCount", "RequestCount", "InputTokenCount", "OutputTokenCount", "CacheReadInputTokenCount",
    "AzureOpenAIRequests", "ModelRequests", "ProcessedPromptTokens", "GeneratedTokens", "InputTokens", "OutputTokens",
    "TokenTransaction", "SuccessfulCalls", "TotalCalls",
)  # fmt: skip
_KNOWN = {
    "vllm:prefix_cache_hits_total": ("cached_tokens", "counter"),
    "vllm:e2e_request_latency_seconds_count": ("requests", "counter"),
    "vllm:time_to_first_token_seconds_count": ("requests", "counter"),
    "vllm:request_success_total": ("requests", "counter"),
    "tgi_request_count": ("requests", "counter"),
    "nv_inference_request_success": ("requests", "counter"),
    "envoy_cluster_upstream_rq_total": ("requests", "counter"),
    "nginx_ingress_controller_requests": ("requests", "counter"),
    "ProcessedPromptTokens": ("prompt_tokens", "count"),
    "GeneratedTokens": ("output_tokens", "count"),
    "SuccessfulCalls": ("", ""),
}


def _judged(metric: str, unnamed: str) -> str:
    """SQL for `[role, measure]` of a metric's name; what has no name is what `unnamed` says."""
    known = {each: found for each in (*_EXPORTED, *_CLOUD) if (found := _KNOWN.get(each) or meaning_of(each))}
    cases = " ".join(
        f"WHEN {text(each)} THEN [{text(role)}, {text(measure or 'count')}]" for each, (role, measure) in known.items()
    )
    words = (
        f"CASE WHEN regexp_matches(lower({metric}), 'token') THEN CASE "
        f"WHEN regexp_matches(lower({metric}), 'cache') THEN ['cached_tokens', kind_] "
        f"WHEN regexp_matches(lower({metric}), 'prompt|input|context') THEN ['prompt_tokens', kind_] "
        f"WHEN regexp_matches(lower({metric}), 'output|completion|generat') THEN ['output_tokens', kind_] END "
        f"WHEN regexp_matches(lower({metric}), 'request|invocation|calls|quer') "
        f"AND NOT regexp_matches(lower({metric}), "
        "'fail|error|latency_seconds_(sum|bucket)|running|waiting|queue|throttle') "
        "THEN ['requests', kind_] END"
    )
    kind = f"CASE WHEN regexp_matches({metric}, '_(total|count)$') THEN 'counter' ELSE '' END"
    words = words.replace("kind_", kind)
    return f"CASE WHEN {metric} IS NULL THEN {unnamed} ELSE COALESCE(CASE {metric} {cases} END, {words}) END"


def _labelled(labels: str) -> str:
    """SQL for the dimensions out of a map of labels."""
    found = []
    for dimension in DIMENSIONS:
        paths = ", ".join(f"json_extract_string({labels}, '$.\"{label}\"')" for label in LABELS[dimension])
        found.append(f'COALESCE({paths}) AS "{dimension}"')
    return ", ".join(found)


def _points(source: str, judged: str, at: str, value: str, width: str, written: str, labels: str) -> str:
    return (
        f"SELECT {at} AS at_s, CAST(series AS VARCHAR) AS series, meaning[1] AS role, meaning[2] AS measure, "
        f"TRY_CAST({value} AS DOUBLE) AS "
        "value, "
        f"{width} AS width_s, {labels}, {written} AS time_ FROM (SELECT *, {judged} AS meaning FROM ({source})) "
        "WHERE meaning[1] <> ''"
    )


def _of_prometheus(files: Sequence[Glimpse]) -> str:
    # Labels are taken once a series, in one parse: they may be long, and a series has thousands of points.
    paths = {"name_": json_path("metric", "__name__")}
    paths |= {label: json_path("metric", label) for labels in LABELS.values() for label in labels}
    series = f"(SELECT unnest(json_extract(json, '$.data.result[*]')) AS one FROM {records_of(files)})"
    apart = f"(SELECT one, json_extract(one, '$.values[*]') AS pairs, row_number() OVER () AS series FROM {series})"
    labelled = extracted(apart, "one", paths, beside=("pairs", "series"))
    named = ", ".join(
        f'COALESCE({", ".join(name(label) for label in LABELS[each])}) AS "told_{each}"' for each in DIMENSIONS
    )
    values = f"SELECT name_, series, {named}, unnest(pairs) AS pair FROM ({labelled})"
    return _points(
        values,
        _judged("name_", "['requests', '']"),
        moment("json_extract_string(pair, '$[0]')"),
        "json_extract_string(pair, '$[1]')",
        "NULL::DOUBLE",
        "NULL",
        ", ".join(f'"told_{dimension}" AS "{dimension}"' for dimension in DIMENSIONS),
    )


def _of_cloudwatch(files: Sequence[Glimpse]) -> str:
    data = (
        "SELECT json_extract_string(one, '$.Label') AS series, unnest(json_extract_string(one, '$.Timestamps[*]')) "
        "AS at_, "
        "unnest(json_extract_string(one, '$.Values[*]')) AS value_, NULL AS period FROM "
        f"(SELECT unnest(json_extract(json, '$.MetricDataResults[*]')) AS one FROM {records_of(files)})"
    )
    statistics = (
        "SELECT label AS series, json_extract_string(one, '$.Timestamp') AS at_, "
        "COALESCE(json_extract_string(one, '$.Sum'), json_extract_string(one, '$.SampleCount')) AS value_, NULL AS "
        "period "
        "FROM (SELECT json_extract_string(json, '$.Label') AS label, unnest(json_extract(json, '$.Datapoints[*]')) "
        "AS one "
        f"FROM {records_of(files)})"
    )
    # A label of several parts ends in the metric: `us.anthropic.claude Invocations`.
    named = "regexp_extract(series, '[A-Za-z]+$')"
    model = "NULLIF(trim(regexp_replace(series, '[A-Za-z]+$', '')), '') AS model"
    nothing = ", ".join(f'NULL::VARCHAR AS "{each}"' for each in DIMENSIONS if each != "model")
    return _points(
        f"{data} UNION ALL {statistics}",
        _judged(named, "['requests', 'count']"),
        moment("at_"),
        "value_",
        "NULL::DOUBLE",
        "at_",
        f"{model}, {nothing}",
    )


def _of_azure_monitor(files: Sequence[Glimpse]) -> str:
    metrics = f"SELECT unnest(json_extract(json, '$.value[*]')) AS one FROM {records_of(files)}"
    lines = (
        "SELECT json_extract_string(one, '$.name.value') AS name_, unnest(json_extract(one, '$.timeseries[*]')) AS "
        "line "
        f"FROM ({metrics})"
    )
    # Labels are a list of names and values; as one object they read like any other's.
    labels = "json_group_object(lower(json_extract_string(each, '$.name.value')), json_extract_string(each, '$.value'))"
    labelled = (
        "SELECT name_, line, COALESCE((SELECT "
        f"{labels} FROM (SELECT unnest(json_extract(line, '$.metadatavalues[*]')) AS each)), '{{}}') AS metric FROM "
        f"({lines})"
    )
    points = (
        "SELECT name_ || metric::VARCHAR AS series, name_, metric, unnest(json_extract(line, '$.data[*]')) AS point "
        f"FROM ({labelled})"
    )
    value = ", ".join(f"json_extract_string(point, '$.{each}')" for each in ("total", "count"))
    return _points(
        points,
        _judged("name_", "['', '']"),
        moment("json_extract_string(point, '$.timeStamp')"),
        f"COALESCE({value})",
        "NULL::DOUBLE",
        "json_extract_string(point, '$.timeStamp')",
        _labelled("metric"),
    )


def _has(*fields: str) -> Callable[[Glimpse], bool]:
    return lambda file: file.has_any(*fields)


PROMETHEUS = RateReader(
    name="prometheus",
    title="Prometheus query_range answer",
    recognises=_has("data.result[].values"),
    points=_of_prometheus,
)
CLOUDWATCH = RateReader(
    name="cloudwatch",
    title="CloudWatch metric data or statistics",
    recognises=_has("MetricDataResults[].Values", "Datapoints[].Timestamp"),
    points=_of_cloudwatch,
)
AZURE_MONITOR = RateReader(
    name="azure-monitor",
    title="Azure Monitor metrics",
    recognises=_has("value[].timeseries[].data"),
    points=_of_azure_monitor,
)


def without_points(file: Glimpse) -> tuple[str, str] | None:
    """The problem and the fix for an answer of Prometheus that holds no series over time; None for other files."""
    if file.has("status", "errorType", "error"):
        return "is an error that Prometheus answered", "Read its `error`, mend the query and save the answer again."
    if not file.has("data.resultType"):
        return None
    if file.has_any("data.result[].value"):
        return "is Prometheus' answer for one moment", "Ask query_range in place of query, with start, end and step."
    return (
        "is an answer of Prometheus without a series",
        "Check the name of the metric, its labels and the times: the query matched nothing.",
    )
