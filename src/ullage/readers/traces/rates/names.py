"""What a series is by its name: requests or tokens, and whether counted, a rate or a counter.

Names come from exporters (`vllm:request_success_total`), from columns of reports (`requests per minute`) and from
legends, which hold a name with its labels (`vllm:prompt_tokens_total{model_name="m"}`), an expression
(`sum(rate(vllm:request_success_total[5m]))`) or labels alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ullage.readers.traces.sql import text

DIMENSIONS = ("model", "tenant", "product", "class")
# Labels and columns that tell series apart, in other systems' words.
LABELS = {
    "model": (
        "model_name", "model", "modelid", "modeldeploymentname", "deployment", "model_group", "served_model_name",
    ),
    "tenant": (
        "tenant", "team", "team_alias", "user", "user_id", "api_key_id", "api_key_alias", "namespace", "customer",
    ),
    "product": ("product", "app", "application", "service", "project", "project_id", "feature"),
    "class": ("class", "request_class"),
}  # fmt: skip
# Names of metrics, as exporters and clouds spell them; any other is judged by its words.
EXPORTED = (
    "vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
    "vllm:prefix_cache_hits_total", "vllm:e2e_request_latency_seconds_count", "vllm:time_to_first_token_seconds_count",
    "sglang:num_requests_total", "sglang:prompt_tokens_total", "sglang:generation_tokens_total",
    "sglang:cached_tokens_total", "http_requests_total", "tgi_request_count", "nv_inference_request_success",
    "envoy_cluster_upstream_rq_total", "istio_requests_total", "nginx_ingress_controller_requests",
    "litellm_requests_metric_total", "litellm_proxy_total_requests_metric_total", "litellm_input_tokens_metric_total",
    "litellm_output_tokens_metric_total", "dynamo_frontend_requests_total", "inference_objective_request_total",
)  # fmt: skip
CLOUD = (
    "Invocations", "InvocationCount", "RequestCount", "InputTokenCount", "OutputTokenCount", "CacheReadInputTokenCount",
    "AzureOpenAIRequests", "ModelRequests", "ProcessedPromptTokens", "GeneratedTokens", "InputTokens", "OutputTokens",
    "TokenTransaction", "SuccessfulCalls", "TotalCalls",
)  # fmt: skip
KNOWN = {
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


# What a metric means that nobody asked for.
NO_ROLE = "['', '']"


def judged(metric: str, unnamed: str) -> str:
    """SQL for `[role, measure]` of a metric's name; what has no name is what `unnamed` says."""
    known = {each: found for each in (*EXPORTED, *CLOUD) if (found := KNOWN.get(each) or meaning_of(each))}
    cases = " ".join(
        f"WHEN {text(each)} THEN [{text(role)}, {text(measure or 'count')}]" for each, (role, measure) in known.items()
    )
    lower = f"lower({metric})"
    words = (
        f"CASE WHEN regexp_matches({lower}, '_(bucket|created)$') THEN NULL WHEN regexp_matches({lower}, 'token') THEN "
        f"CASE WHEN regexp_matches({lower}, 'cache') THEN ['cached_tokens', kind_] "
        f"WHEN regexp_matches({lower}, 'prompt|input|context') THEN ['prompt_tokens', kind_] "
        f"WHEN regexp_matches({lower}, 'output|completion|generat') THEN ['output_tokens', kind_] END "
        f"WHEN regexp_matches({lower}, 'request|invocation|calls|quer|\\b(rps|qps|rpm)\\b') "
        f"AND NOT regexp_matches({lower}, "
        "'fail|error|_(sum|max|min)$|latency_seconds_|running|waiting|queue|throttle|cache|size|bytes') "
        "THEN ['requests', kind_] END"
    )
    kind = (
        f"CASE WHEN regexp_matches({metric}, '_(total|count|sum)$') THEN 'counter' "
        f"WHEN regexp_matches({lower}, '\\b(rps|qps|reqps)\\b|per ?second|/ ?s(ec)?\\b') THEN 'rps' "
        f"WHEN regexp_matches({lower}, '\\brpm\\b|per ?minute|/ ?min\\b') THEN 'rpm' ELSE '' END"
    )
    words = words.replace("kind_", kind)
    return f"CASE WHEN {metric} IS NULL THEN {unnamed} ELSE COALESCE(CASE {metric} {cases} END, {words}) END"


def first_of_its_kind(metric: str) -> str:
    """SQL to order metrics that say the same of one traffic, so that each role is taken from one of them.

    An engine counts a request in a dozen histograms beside its counter of requests; together they would count it a
    dozen times. Names not listed here count together, but for histograms, of which the first is enough.
    """
    listed = " ".join(f"WHEN {text(each)} THEN '{place:03d}'" for place, each in enumerate(EXPORTED))
    others = f"CASE WHEN regexp_matches({metric}, '_(count|sum)$') THEN '200' || {metric} ELSE '100' END"
    return f"CASE {metric} {listed} ELSE {others} END"


# A metric before its labels or the window of a rate.
NAMED = r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{|\[[\d$])"
# How an expression turns a counter into what its points say.
TURNED = {"rps": r"\bi?rate\(", "count": r"\b(?:increase|delta)\("}


def legend(shown: str) -> tuple[str, dict[str, str], str]:
    """The metric's name in a legend, its labels, and the measure that an expression makes of it.

    >>> legend('{__name__="tgi_request_count", model_name="m"}')
    ('tgi_request_count', {'model_name': 'm'}, '')
    >>> legend("sum(rate(vllm:prompt_tokens_total[5m]))"), legend("chat rate (req/s)")
    (('vllm:prompt_tokens_total', {}, 'rps'), ('chat rate (req/s)', {}, ''))
    """
    labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', shown)) if "{" in shown else {}
    found = re.search(NAMED, shown)
    named = labels.pop("__name__", "") or (found.group(1) if found else "")
    if not named and not labels:
        return shown, {}, ""
    return named, labels, next((measure for measure, turned in TURNED.items() if re.search(turned, shown)), "")


def _of_legend(name: str, how: str) -> tuple[str, str] | None:
    """Role and measure of a metric inside a legend; what has labels alone is what an expression gave."""
    if not name:
        return "requests", how
    role, measure = KNOWN.get(name) or meaning_of(name) or ("", "")
    return (role, how or measure) if role else None


def dimensions_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The dimensions that a legend's labels state."""
    found = {each: next((labels[label] for label in LABELS[each] if label in labels), "") for each in DIMENSIONS}
    return {each: value for each, value in found.items() if value}


def meaning_of(name: str) -> tuple[str, str] | None:
    """Role and measure of a series by its name; None where it does not speak of requests or tokens.

    >>> meaning_of("vllm:prompt_tokens_total"), meaning_of("requests per minute"), meaning_of("Invocations (Sum)")
    (('prompt_tokens', 'counter'), ('requests', 'rpm'), ('requests', ''))
    """
    metric, _, how = legend(name)
    if metric != name:
        return _of_legend(metric, how)
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    words = re.sub(r"[^a-z0-9/]+", " ", spaced).strip()
    # The name of a metric ends in its kind; a column of a report ends so only because it is a sum.
    is_metric = re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*(_total|_count)", name) is not None and not name.startswith("n_")
    role = _role(words)
    if role is None:
        return None
    for measure, pattern in (
        ("rps", r"\b(rps|qps|reqps|tps|\w*/ ?s(ec)?|rate)\b|per ?second|/s\b"),
        ("rpm", r"\brpm\b|per ?minute|/ ?min"),
        ("rph", r"\brph\b|per ?hour|/ ?h\b"),
    ):
        if re.search(pattern, words):
            return role, measure
    return role, "counter" if is_metric else ""


def _role(words: str) -> str | None:
    if "token" in words:
        # Parts of another column, and what is written into a cache instead of read from it.
        if re.search(r"audio|image|text|uncached|creat|write|total tokens", words):
            return None
        if re.search(r"cache", words):
            return "cached_tokens"
        if re.search(r"prompt|input|context", words):
            return "prompt_tokens"
        if re.search(r"output|completion|generat|candidate", words):
            return "output_tokens"
        return None
    if re.search(r"\b(fail|failed|error|errors|latency|duration|time|ttft|queue|waiting|running|pending)\b", words):
        return None
    # One request, call or query is a thing that a row is about; several, or a rate of them, are a count.
    several = r"requests\b|\binvocations?\b|\bcalls\b|\bqueries\b|\breqs\b|\brequest (count|rate|total|num)"
    return "requests" if re.search(rf"{several}|\b(rps|qps|reqps|rpm|rph|req/s)\b", words) else None


def dimensions_in(labels: str) -> str:
    """SQL for the dimensions out of a map of labels."""
    found = []
    for dimension in DIMENSIONS:
        paths = ", ".join(f"json_extract_string({labels}, '$.\"{label}\"')" for label in LABELS[dimension])
        found.append(f'COALESCE({paths}) AS "{dimension}"')
    return ", ".join(found)
