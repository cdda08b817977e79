"""What a rule looks at: signals under the names that engines and gateways export, and how they reach the rule.

A signal is sampled at the scrape interval, reaches the rule `delay_s` later, and is averaged over a window. Samples may
be missing by chance; a metric may die (no value) or go stale (the last value for ever) for a while.

    sum     over all pods that serve, those that drain included: what a query without labels sees
    mean    over ready pods
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.fleet import Signals

Places = NDArray[np.int64]


class Signal(enum.StrEnum):
    """What is measured. Shares are 0 to 1."""

    RUNNING = "running requests"
    WAITING = "waiting requests"
    OUTSTANDING = "requests in flight"
    ACTIVE_TOKENS = "KV tokens held"
    TOKEN_BACKLOG = "tokens waiting"
    KV_USE = "KV cache use"
    SATURATION = "pool saturation"
    QUEUE_AGE = "queue age"
    TTFT_P95 = "TTFT p95"
    TTFT_ATTAINMENT = "TTFT attainment"
    REQUEST_RATE = "requests per second"
    TOKEN_RATE = "tokens per second"
    BUSY = "busy share"


class Aggregate(enum.Enum):
    """Over pods."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"


# Where each signal stops to tell more load from less: at a full cache, an engine that never idles, all SLOs missed.
SATURATES = {Signal.KV_USE: 1.0, Signal.BUSY: 1.0, Signal.TTFT_ATTAINMENT: 0.0}

# As exported. Prometheus' own suffixes (_total, _bucket, _sum, _count) are cut off before a name is looked up, and a
# colon may have become an underscore on the way.
NAMES: Mapping[str, Signal] = {
    # vLLM, V1 and before it.
    "vllm:num_requests_running": Signal.RUNNING,
    "vllm:num_requests_waiting": Signal.WAITING,
    "vllm:num_requests_waiting_by_reason": Signal.WAITING,
    "vllm:kv_cache_usage_perc": Signal.KV_USE,
    "vllm:gpu_cache_usage_perc": Signal.KV_USE,
    "vllm:time_to_first_token_seconds": Signal.TTFT_P95,
    "vllm:request_queue_time_seconds": Signal.QUEUE_AGE,
    "vllm:request_success": Signal.REQUEST_RATE,
    "vllm:prompt_tokens": Signal.TOKEN_RATE,
    "vllm:generation_tokens": Signal.TOKEN_RATE,
    # SGLang.
    "sglang:num_running_reqs": Signal.RUNNING,
    "sglang:num_queue_reqs": Signal.WAITING,
    "sglang:token_usage": Signal.KV_USE,
    "sglang:num_used_tokens": Signal.ACTIVE_TOKENS,
    "sglang:time_to_first_token_seconds": Signal.TTFT_P95,
    "sglang:queue_time_seconds": Signal.QUEUE_AGE,
    "sglang:num_requests": Signal.REQUEST_RATE,
    "sglang:prompt_tokens": Signal.TOKEN_RATE,
    "sglang:generation_tokens": Signal.TOKEN_RATE,
    "sglang:gen_throughput": Signal.TOKEN_RATE,
    # TensorRT-LLM by itself and behind Triton.
    "trtllm_num_requests_running": Signal.RUNNING,
    "trtllm_num_requests_waiting": Signal.WAITING,
    "trtllm_kv_cache_utilization": Signal.KV_USE,
    "trtllm_request_queue_time_seconds": Signal.QUEUE_AGE,
    "trtllm_time_to_first_token_seconds": Signal.TTFT_P95,
    "trtllm_request_success": Signal.REQUEST_RATE,
    "nv_trt_llm_request_metrics": Signal.OUTSTANDING,
    "nv_trt_llm_kv_cache_block_metrics": Signal.KV_USE,
    "nv_inference_pending_request_count": Signal.WAITING,
    "nv_inference_request_success": Signal.REQUEST_RATE,
    # Gateways: the inference extension under its names so far, llm-d's router, Envoy, Istio, NGINX.
    "inference_pool_average_queue_size": Signal.WAITING,
    "inference_pool_per_pod_queue_size": Signal.WAITING,
    "inference_pool_average_kv_cache_utilization": Signal.KV_USE,
    "inference_model_running_requests": Signal.OUTSTANDING,
    "inference_objective_running_requests": Signal.OUTSTANDING,
    "inference_model_request": Signal.REQUEST_RATE,
    "inference_objective_request": Signal.REQUEST_RATE,
    "inference_extension_flow_control_queue_size": Signal.WAITING,
    "inference_extension_flow_control_pool_saturation": Signal.SATURATION,
    "llm_d_epp_flow_control_queue_size": Signal.WAITING,
    "llm_d_epp_request_running": Signal.OUTSTANDING,
    "llm_d_epp_flow_control_pool_saturation": Signal.SATURATION,
    "envoy_cluster_upstream_rq_active": Signal.OUTSTANDING,
    "envoy_cluster_upstream_rq": Signal.REQUEST_RATE,
    "istio_requests": Signal.REQUEST_RATE,
    "nginx_ingress_controller_requests": Signal.REQUEST_RATE,
    # What says how busy a pod is.
    "dcgm_fi_dev_gpu_util": Signal.BUSY,
    "container_cpu_usage_seconds": Signal.BUSY,
    "cpu": Signal.BUSY,
    "concurrency": Signal.OUTSTANDING,
    "rps": Signal.REQUEST_RATE,
}
# Exported as a mean over pods, whatever a query does with it.
_MEANS = frozenset({"inference_pool_average_queue_size", "inference_pool_average_kv_cache_utilization"})
# Exported as a percentage.
_PERCENT = frozenset({"dcgm_fi_dev_gpu_util"})
_OF_PODS = ("vllm", "sglang", "trtllm", "nv_", "dcgm", "container", "cpu", "inference_pool_average")
_SUFFIXES = ("_total", "_bucket", "_sum", "_count")
_BY_LABEL = {
    "waiting": Signal.WAITING,
    "scheduled": Signal.RUNNING,
    "active": Signal.OUTSTANDING,
    "used": Signal.ACTIVE_TOKENS,
}
_WORD = re.compile(r"[A-Za-z_][\w:]*")
_LABEL = re.compile(r"(?:request_type|kv_cache_block_type)\s*=~?\s*[\"'](\w+)[\"']")
_RANGE = re.compile(r"\[(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DEFAULT_WINDOW_S = 0.0


@dataclass(frozen=True, kw_only=True)
class MetricQuery:
    """A query as far as a rule depends on it: which signals it adds up, over pods how, over which window.

    What pods export themselves (`from_pods`) is gone when the last of them is.
    """

    signals: tuple[Signal, ...]
    aggregate: Aggregate
    window_s: float = DEFAULT_WINDOW_S
    factor_ratio: float = 1.0
    from_pods: bool = True

    @property
    def label(self) -> str:
        return " + ".join(str(each) for each in self.signals)


def known_signal(name: str) -> Signal | None:
    """The signal of an exported name, old or new, with or without Prometheus' suffixes; None where it is not known.

    >>> known_signal("vllm:gpu_cache_usage_perc"), known_signal("vllm_num_requests_waiting")
    (<Signal.KV_USE: 'KV cache use'>, <Signal.WAITING: 'waiting requests'>)
    """
    found = _plain(name)
    return _SPELT.get(found)


def _plain(name: str) -> str:
    plain = name.strip().lower().replace(":", "_").replace("-", "_").replace("/", "_").replace("|", "_")
    plain = plain.rsplit("prometheus_googleapis_com_", 1)[-1].removesuffix("_gauge").removesuffix("_counter")
    for suffix in _SUFFIXES:
        if plain not in _SPELT and plain.endswith(suffix):
            plain = plain.removesuffix(suffix)
    return plain


# The number of series or pods, however it is guarded against none.
_COUNT = re.compile(
    r"[\s(]*(?:(?:on|ignoring)\s*\([^)]*\)[\s(]*)?(?:(?:scalar|clamp_min)[\s(]+)*count\b", re.IGNORECASE
)

_SPELT = {name.lower().replace(":", "_"): signal for name, signal in NAMES.items()}


def read_query(text: str) -> MetricQuery | None:
    """What a PromQL query, or the plain name of a metric, measures; None where no known metric is in it.

    >>> read_query('sum(vllm:num_requests_waiting{model_name="x"}) + sum(vllm:num_requests_running)').label
    'waiting requests + running requests'
    >>> read_query("avg(avg_over_time(vllm:gpu_cache_usage_perc[2m])) * 100")
    MetricQuery(signals=(<Signal.KV_USE: 'KV cache use'>,), aggregate=<Aggregate.MEAN: 'mean'>, window_s=120.0, \
factor_ratio=100.0, from_pods=True)
    """
    names = [word for word in _WORD.findall(text) if known_signal(word) is not None]
    divided = _divided(text)
    if not names or divided is None:
        return None
    signals = tuple(dict.fromkeys(_labelled(name, text) for name in names))
    window = _RANGE.search(text)
    lowered = text.lower()
    if (
        divided.is_mean
        or any(_plain(name) in _MEANS for name in names)
        or re.search(r"\bavg\s*(by|without|\()", lowered)
    ):
        aggregate = Aggregate.MEAN
    elif re.search(r"\bmax\s*(by|without|\()", lowered):
        aggregate = Aggregate.MAX
    else:
        aggregate = Aggregate.SUM
    factor = 100.0 if any(_plain(name) in _PERCENT for name in names) else 1.0
    times = re.search(r"\*\s*(\d+(?:\.\d+)?)\s*$", text)
    return MetricQuery(
        signals=signals,
        aggregate=aggregate,
        window_s=float(window.group(1)) * _UNIT_S[window.group(2)] if window else DEFAULT_WINDOW_S,
        factor_ratio=factor * (float(times.group(1)) if times else 1.0) / divided.by_ratio,
        from_pods=all(_plain(name).startswith(_OF_PODS) for name in names),
    )


@dataclass(frozen=True, kw_only=True)
class _Division:
    """What a query is divided by: the number of its series, which makes a sum a mean, and plain numbers."""

    is_mean: bool = False
    by_ratio: float = 1.0


def _divided(text: str) -> _Division | None:
    """None of a ratio of two metrics, which is neither of them.

    >>> _divided("sum(vllm:num_requests_waiting) / count(vllm:num_requests_waiting)").is_mean
    True
    >>> _divided("sum(a{model='x/y'}) / 4").by_ratio, _divided("sum(a) / sum(b)")
    (4.0, None)
    """
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    if "(" not in bare:
        # A name may have a slash.
        return _Division()
    found = _Division()
    for divisor in bare.split("/")[1:]:
        number = re.match(r"\s*(\d+(?:\.\d+)?)\s*\)*\s*(?:[-+*]|$)", divisor)
        if _COUNT.match(divisor):
            found = replace(found, is_mean=True)
        elif number is not None and float(number.group(1)) > 0.0:
            found = replace(found, by_ratio=found.by_ratio * float(number.group(1)))
        else:
            return None
    return found


def _labelled(name: str, text: str) -> Signal:
    """Triton has one metric for several states, told apart by a label."""
    found = known_signal(name)
    assert found is not None, name
    label = _LABEL.search(text)
    return _BY_LABEL.get(label.group(1), found) if label and _plain(name).startswith("nv_trt_llm") else found


# ---- how it reaches the rule ---------------------------------------------------------------------------


class FaultKind(enum.Enum):
    DEAD = "dead"
    STALE = "stale"


@dataclass(frozen=True, kw_only=True)
class MetricFault:
    """Between these times no sample comes in: the rule reads nothing, or the last value again and again."""

    kind: FaultKind
    from_s: float
    until_s: float


@dataclass(frozen=True, kw_only=True)
class SignalTerms:
    """From an engine to a rule. The defaults are Prometheus' scrape interval and what an adapter adds to it."""

    scrape_s: float = 15.0
    delay_s: float = 5.0
    missing_fraction: float = 0.0
    fault: MetricFault | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicaTerms:
    """What turns counts into shares: KV tokens and sequences of a replica, and the limit that TTFTs are held to; and
    what rules that plan ask of it, the tokens of a step and what it carries within the SLOs."""

    kv_tokens: int
    max_sequences: int
    ttft_limit_s: float
    budget_tokens: int = 0
    each_rps: float = math.inf


_COUNTED = {
    Signal.RUNNING: ("running",),
    Signal.WAITING: ("waiting",),
    Signal.OUTSTANDING: ("running", "waiting"),
    Signal.ACTIVE_TOKENS: ("kv_tokens",),
    Signal.TOKEN_BACKLOG: ("queue_tokens",),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class SignalReader:
    """Reads queries off a run under way. `lost` says of every scrape whether it went missing; drawn before the run."""

    terms: SignalTerms
    replica: ReplicaTerms
    sample_s: float
    lost: NDArray[np.bool_] | None = None

    def value(self, query: MetricQuery, seen: Signals) -> float | None:
        """What the query says now; None where nothing was scraped in its window."""
        last_s = seen.at_s - self.terms.delay_s
        fault = self.terms.fault
        if fault is not None and fault.from_s <= last_s < fault.until_s:
            if fault.kind is FaultKind.DEAD:
                return None
            last_s = fault.from_s
        last = min(int(last_s / self.terms.scrape_s + 1e-9) * self._stride, len(seen.gauges))
        wide = max(1, int(query.window_s / self.terms.scrape_s + 1e-9)) * self._stride
        places = np.arange(last - 1, max(last - 1 - wide, -1), -self._stride)
        if self.lost is not None:
            places = places[~self.lost[(places // self._stride) % self.lost.size]]
        if places.size == 0:
            return None
        total = sum(self._signal(each, query, seen, places) for each in query.signals)
        return query.factor_ratio * total

    def highest(self, signal: Signal, seen: Signals, window_s: float) -> float | None:
        """Of a gauge's sum over pods, the highest scrape of the window; None where nothing was scraped in it."""
        query = MetricQuery(signals=(signal,), aggregate=Aggregate.SUM)
        scrapes = range(max(1, int(window_s / self.terms.scrape_s + 1e-9)))
        found = [self.value(query, replace(seen, at_s=seen.at_s - each * self.terms.scrape_s)) for each in scrapes]
        known = [each for each in found if each is not None]
        return max(known) if known else None

    def mean_lengths(self, seen: Signals, window_s: float) -> tuple[float, float]:
        """Prompt tokens that were computed and tokens made of a request, over the window; none came: 0."""
        rows = seen.gauges[-max(2, int(window_s / self.sample_s)) :]
        if len(rows) < 2:
            return 0.0, 0.0
        first, last = rows[0], rows[-1]
        issued = max(1, int(last["issued"]) - int(first["issued"]))
        prompt, output = (int(last[name]) - int(first[name]) for name in ("prefill_tokens", "decode_tokens"))
        return prompt / issued, output / issued

    def has_begun(self, seen: Signals) -> bool:
        """Whether a first scrape has reached the rule. Before it nothing has failed: a run begins in the midst of a
        rule's life, and what was scraped before the run is not there to be read."""
        return seen.at_s - self.terms.delay_s >= self.terms.scrape_s - 1e-9

    @property
    def _stride(self) -> int:
        return max(1, round(self.terms.scrape_s / self.sample_s))

    def _signal(self, signal: Signal, query: MetricQuery, seen: Signals, places: Places) -> float:
        if signal in (Signal.REQUEST_RATE, Signal.TOKEN_RATE, Signal.BUSY):
            return self._rate(signal, query, seen, places)
        # Scrapes that all arrived are every so many rows: a part of the table, not a copy of its rows.
        end = int(places[-1]) - 1
        rows = seen.gauges[int(places[0]) : end if end >= 0 else None : -self._stride]
        if self.lost is not None:
            rows = seen.gauges[places]
        if signal in (Signal.TTFT_P95, Signal.TTFT_ATTAINMENT):
            return self._ttft(signal, query, seen, rows)
        if signal is Signal.QUEUE_AGE:
            at_ps = (places + 1) * round(self.sample_s * 1e12)
            return float(np.maximum(0, at_ps - rows["oldest_ps"]).mean()) / 1e12
        return self._level(signal, query, rows)

    def _level(self, signal: Signal, query: MetricQuery, rows: NDArray[np.void]) -> float:
        """A gauge: its mean over the window, summed over pods or a pod's mean."""
        if signal in _COUNTED and query.aggregate is Aggregate.SUM:
            return float(sum(rows[name].sum() for name in _COUNTED[signal])) / len(rows)
        pods = np.maximum(1, rows["ready"])
        if signal is Signal.SATURATION:
            # As the router computes it: how near the pods are to a full queue or a full cache.
            kv = rows["kv_tokens"] / (pods * self.replica.kv_tokens)
            return float(np.maximum(kv, rows["waiting"] / (pods * 5.0)).mean())
        if signal is Signal.KV_USE:
            if query.aggregate is Aggregate.MAX:
                return float(rows["fullest_kv_tokens"].mean()) / self.replica.kv_tokens
            use = rows["kv_tokens"] / self.replica.kv_tokens
            return float((use if query.aggregate is Aggregate.SUM else use / pods).mean())
        first, *others = _COUNTED[signal]
        count = rows[first]
        for each in others:
            count = count + rows[each]
        return float((count if query.aggregate is Aggregate.SUM else count / pods).mean())

    def _rate(self, signal: Signal, query: MetricQuery, seen: Signals, places: Places) -> float:
        """A counter's growth over the window, at least two scrapes apart."""
        last = int(places[0])
        first = min(int(places[-1]), last - self._stride)
        span_s = (last - max(first, -1)) * self.sample_s
        end = seen.gauges[last]
        begin = seen.gauges[first] if first >= 0 else None
        names = {
            Signal.REQUEST_RATE: ("issued",),
            Signal.TOKEN_RATE: ("prefill_tokens", "decode_tokens"),
            Signal.BUSY: ("busy_ps",),
        }[signal]
        grown = sum(int(end[name]) - (0 if begin is None else int(begin[name])) for name in names)
        rate = grown / span_s * (1e-12 if signal is Signal.BUSY else 1.0)
        pods = max(1, int(end["ready"]) + int(end["draining"]))
        if signal is Signal.BUSY:
            return min(1.0, rate / pods) * (pods if query.aggregate is Aggregate.SUM else 1.0)
        return rate if query.aggregate is Aggregate.SUM else rate / max(1, int(end["ready"]))

    def _ttft(self, signal: Signal, query: MetricQuery, seen: Signals, rows: NDArray[np.void]) -> float:
        """Of first tokens in the window: their p95, or the share within the limit; none came: as of an idle pool."""
        assert seen.first_tokens is not None
        until_s = seen.at_s - self.terms.delay_s
        window_s = max(query.window_s, self.terms.scrape_s)
        waits = np.maximum(0.0, seen.at_s - rows["oldest_ps"] / 1e12)
        age_s = 60.0 + 2.0 * float(waits.max(initial=0.0)) + window_s
        found = seen.first_tokens(until_s - window_s, until_s, age_s)
        if not len(found):
            return 0.0 if signal is Signal.TTFT_P95 else 1.0
        if signal is Signal.TTFT_P95:
            return float(np.quantile(found, 0.95))
        return float((found <= self.replica.ttft_limit_s).mean())
