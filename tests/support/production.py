"""Production that is simulated: a planned pool with drifts planted in it, as its monitoring would have seen it.

The engine's answers at a few loads come from our simulator, with the drifted mix and step times; every hour of the
stretch then has what lies between them for its load, with the noise that so many requests have. Nothing here knows how
a reconciliation looks at it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.evaluate import Evaluation
from ullage.reconcile.expectation import FRACTIONS, Expectation
from ullage.reconcile.inputs import DriftInputs
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.service.trial.trial import Trial
from ullage.simulate.histogram import LogHistogram, bin_edges_s

Floats = NDArray[np.float64]
HOUR_S = 3600.0
# vLLM's own edges (notes on formats): it cannot resolve 10 ms between tokens.
TTFT_EDGES_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
ITL_EDGES_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
E2E_EDGES_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0)
EDGES_S = {ObservedQuantity.TTFT: TTFT_EDGES_S, ObservedQuantity.ITL: ITL_EDGES_S, ObservedQuantity.E2E: E2E_EDGES_S}
METRICS = {
    ObservedQuantity.TTFT: "vllm:time_to_first_token_seconds",
    ObservedQuantity.ITL: "vllm:inter_token_latency_seconds",
    ObservedQuantity.E2E: "vllm:e2e_request_latency_seconds",
}


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What is different in production from what was planned; these defaults are nothing."""

    inputs: DriftInputs = field(default_factory=DriftInputs)
    restarts_per_week: float = 0.0
    failed_fraction: float = 0.0
    slow_zone_ratio: float = 1.0  # one of three zones has steps so much longer


@dataclass(frozen=True, kw_only=True)
class Level:
    """One load of the pool: means of a request, and distributions."""

    rate_rps: float
    prompt_tokens: float
    output_tokens: float
    cached_fraction: float
    gaps_per_request: float
    running: float
    kv_use_fraction: float
    latencies: Mapping[ObservedQuantity, LogHistogram]


class Production:
    """A pool under an expected demand; `weeks` hours of it can be had with any drift."""

    def __init__(self, expected: Expectation, evaluation: Evaluation, *, replicas: int) -> None:
        self.expected, self.evaluation, self.replicas = expected, evaluation, replicas
        self._levels: dict[Any, list[Level]] = {}

    def observation(self, planted: Planted, *, start_s: float, weeks: float, seed: int) -> Observation:
        """As a server with hourly steps would give it."""
        rng = np.random.default_rng(seed)
        hours = round(weeks * 168)
        at_s: Floats = start_s + HOUR_S * (np.arange(hours, dtype=np.float64) + 0.5)
        rates = self._rates(planted, at_s, rng)
        requests = rng.poisson(sum(rates.values()) * HOUR_S).astype(np.float64)
        share = {name: each / sum(rates.values()) for name, each in rates.items()}
        levels = self._levels_of(planted)
        counted: dict[ObservedQuantity, Floats] = {ObservedQuantity.ARRIVALS: requests}
        # A mean over n requests whose lengths vary by as much as their mean.
        noise = 1.0 + rng.normal(size=(3, hours)) * 1.2 / np.sqrt(np.maximum(requests, 1.0))
        counted[ObservedQuantity.PROMPT_TOKENS] = requests * self._at(levels, requests, "prompt_tokens") * noise[0]
        counted[ObservedQuantity.OUTPUT_TOKENS] = requests * self._at(levels, requests, "output_tokens") * noise[1]
        counted[ObservedQuantity.CACHE_QUERIES] = counted[ObservedQuantity.PROMPT_TOKENS]
        hits = self._at(levels, requests, "cached_fraction") * noise[2]
        counted[ObservedQuantity.CACHED_TOKENS] = counted[ObservedQuantity.PROMPT_TOKENS] * np.clip(hits, 0.0, 1.0)
        counted[ObservedQuantity.FAILURES] = rng.binomial(requests.astype(int), planted.failed_fraction).astype(
            np.float64
        )
        counted[ObservedQuantity.SUCCESSES] = requests - counted[ObservedQuantity.FAILURES]
        counted[ObservedQuantity.RESTARTS] = rng.poisson(planted.restarts_per_week / 168.0, hours).astype(np.float64)
        counted[ObservedQuantity.OOM_KILLS] = np.zeros(hours)
        pool = self.expected.pools[0]
        spread = np.log(pool.ready_high_s / pool.ready_low_s) / 2.56
        starts = np.where(
            rng.random(hours) < 0.05,
            pool.ready_s * planted.inputs.ready_ratio * np.exp(rng.normal(size=hours) * spread),
            np.nan,
        )
        price = (self.expected.replica_usd_per_hour or 0.0) / pool.devices * planted.inputs.price_ratio
        return Observation(
            source="simulated production",
            start_s=start_s,
            step_s=HOUR_S,
            steps=hours,
            counted=counted,
            levels={
                ObservedQuantity.REPLICAS: np.full(hours, float(self.replicas)),
                ObservedQuantity.RUNNING: self._at(levels, requests, "running"),
                ObservedQuantity.WAITING: np.zeros(hours),
                ObservedQuantity.KV_USE: self._at(levels, requests, "kv_use_fraction"),
                ObservedQuantity.TIME_TO_READY: starts,
                ObservedQuantity.DEVICE_HOUR_USD: np.full(hours, price),
            },
            latencies={each: self._histograms(levels, requests, each, rng) for each in EDGES_S},
            arrivals_by_class={name: requests * each for name, each in share.items()},
        )

    def _rates(self, planted: Planted, at_s: Floats, rng: Generator) -> dict[str, Floats]:
        """Rates by class: the expected ones, levels that wander by 3 % around them, and the drift."""
        wander = np.zeros(at_s.size)
        for place in range(1, at_s.size):
            wander[place] = 0.8 * wander[place - 1] + rng.normal() * 0.03 * 0.6
        found = {}
        for each in self.expected.classes:
            middle = each.quantiles_rps(at_s, dated_s=self.expected.dated_s)[:, FRACTIONS.index(0.5)]
            ratio = planted.inputs.traffic_ratio * planted.inputs.class_ratios.get(each.name, 1.0)
            found[each.name] = middle * ratio * np.exp(wander)
        return found

    def _levels_of(self, planted: Planted) -> list[Level]:
        inputs = replace(planted.inputs, traffic_ratio=1.0, ready_ratio=1.0, price_ratio=1.0)
        key = (repr(inputs), planted.slow_zone_ratio)
        if key not in self._levels:
            top = 1.3 * max(1.0, planted.inputs.traffic_ratio) * sum(each.mean_rps for each in self.expected.classes)
            zones = (1.0, 1.0, planted.slow_zone_ratio) if planted.slow_zone_ratio != 1.0 else (1.0,)
            self._levels[key] = [
                _blended([self._level(inputs, part * top, zone) for zone in zones]) for part in (0.2, 0.5, 0.8, 1.1)
            ]
        return self._levels[key]

    def _level(self, inputs: DriftInputs, rate_rps: float, zone_ratio: float) -> Level:
        drawn = replace(inputs, step_ratio=inputs.step_ratio * zone_ratio)
        count = min(8, self.replicas)
        trial: Trial = replace(self.evaluation.trial(drawn), replicas=count)
        found = trial.play(trial.load(rate_rps * count / self.replicas, 991), seed=991)
        total = found.total
        requests = max(total.counts.requests, 1)
        gaps = LogHistogram.merged(found.itl.values())
        held = (total.prompt_tokens + total.output_tokens / 2) / requests
        return Level(
            rate_rps=rate_rps,
            prompt_tokens=total.prompt_tokens / requests,
            output_tokens=total.output_tokens / requests,
            cached_fraction=total.cached_tokens / max(total.prompt_tokens, 1),
            gaps_per_request=total.output_tokens / requests - 1.0,
            running=found.mean_outstanding_requests * self.replicas / count,
            # A request holds its prompt and, on average, half of its answer.
            kv_use_fraction=found.mean_outstanding_requests / count * held / trial.replica.engine.kv_tokens,
            latencies={ObservedQuantity.TTFT: total.ttft, ObservedQuantity.ITL: gaps, ObservedQuantity.E2E: total.e2e},
        )

    def _at(self, levels: list[Level], requests: Floats, name: str) -> Floats:
        rates = [each.rate_rps for each in levels]
        found: Floats = np.interp(requests / HOUR_S, rates, [getattr(each, name) for each in levels])
        return found

    def _histograms(
        self, levels: list[Level], requests: Floats, quantity: ObservedQuantity, rng: Generator
    ) -> tuple[BucketCounts | None, ...]:
        """Counts by bucket of the two levels around every hour's load, in proportion; so many as there were."""
        rates = np.array([each.rate_rps for each in levels])
        shares = np.array([_shares(each.latencies[quantity], EDGES_S[quantity]) for each in levels])
        means = np.array([each.latencies[quantity].mean_s for each in levels])
        gaps = (
            self._at(levels, requests, "gaps_per_request")
            if quantity is ObservedQuantity.ITL
            else np.ones(requests.size)
        )
        found: list[BucketCounts | None] = []
        for count, gap in zip(requests, gaps, strict=True):
            at = count / HOUR_S
            row = np.array([np.interp(at, rates, shares[:, place]) for place in range(shares.shape[1])])
            size = round(count * gap)
            if size < 1:
                found.append(None)
                continue
            drawn = rng.multinomial(size, row / row.sum())
            mean_s = float(np.interp(at, rates, means)) * (1.0 + rng.normal() * 0.5 / np.sqrt(size))
            found.append(
                BucketCounts(edges_s=EDGES_S[quantity], counts=tuple(drawn.astype(float).tolist()), sum_s=size * mean_s)
            )
        return tuple(found)


def _blended(zones: list[Level]) -> Level:
    """A third of the requests in each zone."""
    if len(zones) == 1:
        return zones[0]
    first = zones[0]
    merged = {quantity: LogHistogram.merged(each.latencies[quantity] for each in zones) for quantity in first.latencies}
    return replace(first, latencies=merged)


def _shares(given: LogHistogram, edges_s: tuple[float, ...]) -> Floats:
    middle = (bin_edges_s(given.counts.size)[1:] + bin_edges_s(given.counts.size)[:-1]) / 2
    place = np.searchsorted(np.array(edges_s), middle)
    found = np.bincount(place, weights=given.counts, minlength=len(edges_s) + 1).astype(np.float64)
    shares: Floats = found / max(float(found.sum()), 1.0)
    return shares


def open_metrics(seen: Observation, *, scrape_s: float = 300.0, replicas: int = 2) -> Iterator[str]:
    """The counters and levels of a stretch as lines of OpenMetrics, as so many replicas would have exposed them."""
    names = {
        ObservedQuantity.PROMPT_TOKENS: "vllm:prompt_tokens",
        ObservedQuantity.OUTPUT_TOKENS: "vllm:generation_tokens",
        ObservedQuantity.CACHE_QUERIES: "vllm:prefix_cache_queries",
        ObservedQuantity.CACHED_TOKENS: "vllm:prefix_cache_hits",
        ObservedQuantity.SUCCESSES: "vllm:request_success",
        ObservedQuantity.RESTARTS: "kube_pod_container_status_restarts",
    }
    times: Floats = seen.start_s + scrape_s * np.arange(
        round(seen.steps * seen.step_s / scrape_s) + 1, dtype=np.float64
    )
    edges = seen.start_s + seen.step_s * np.arange(seen.steps + 1)
    step_at = np.clip(((times - seen.start_s - 1e-6) // seen.step_s).astype(int), 0, seen.steps - 1)

    def total(values: Any) -> Floats:
        found: Floats = np.interp(times, edges, np.concatenate([[0.0], np.cumsum(np.nan_to_num(np.array(values)))]))
        return found

    yield "# TYPE http_requests counter\n"
    arrived = np.maximum(seen.counted[ObservedQuantity.ARRIVALS], 1.0)
    failed = np.array(seen.counted[ObservedQuantity.FAILURES]) / arrived
    for name, values in seen.arrivals_by_class.items():
        for status, parts in (("200", 1.0 - failed), ("500", failed)):
            asked = f'handler="/v1/chat",product="{name}",status="{status}"'
            yield from _counter("http_requests_total", total(np.array(values) * parts), times, replicas, asked)
    for quantity, metric in names.items():
        yield f"# TYPE {metric} counter\n"
        yield from _counter(f"{metric}_total", total(seen.counted[quantity]), times, replicas, "")
    for quantity, metric in (
        (ObservedQuantity.RUNNING, "vllm:num_requests_running"),
        (ObservedQuantity.WAITING, "vllm:num_requests_waiting"),
        (ObservedQuantity.KV_USE, "vllm:kv_cache_usage_perc"),
    ):
        yield f"# TYPE {metric} gauge\n"
        share = 1.0 if quantity is ObservedQuantity.KV_USE else 1.0 / replicas
        for pod in range(replicas):
            values = seen.levels[quantity][step_at] * share
            yield from (
                f'{metric}{{pod="{pod}"}} {value:.6g} {at:.0f}\n' for at, value in zip(times, values, strict=True)
            )
    yield from _starts(seen, scrape_s)
    yield "# TYPE node_gpu_hourly_cost gauge\n"
    prices = seen.levels[ObservedQuantity.DEVICE_HOUR_USD][step_at]
    yield from (
        f'node_gpu_hourly_cost{{node="0"}} {value:.6g} {at:.0f}\n' for at, value in zip(times, prices, strict=True)
    )
    for quantity, metric in METRICS.items():
        yield f"# TYPE {metric} histogram\n"
        buckets = seen.latencies[quantity]
        tables = np.array([(0,) * (len(EDGES_S[quantity]) + 1) if each is None else each.counts for each in buckets])
        upto = np.cumsum(tables, axis=1)
        labels = [*(f"{each}" for each in EDGES_S[quantity]), "+Inf"]
        for place, edge in enumerate(labels):
            yield from _counter(f"{metric}_bucket", total(upto[:, place]), times, replicas, f'le="{edge}"')
        yield from _counter(f"{metric}_count", total(upto[:, -1]), times, replicas, "")
        sums = [0.0 if each is None else each.sum_s for each in buckets]
        yield from _counter(f"{metric}_sum", total(sums), times, replicas, "")
    yield "# EOF\n"


def _starts(seen: Observation, scrape_s: float) -> Iterator[str]:
    """What Kubernetes says of a pod that became ready in the middle of a step, until the step ends."""
    took = seen.levels[ObservedQuantity.TIME_TO_READY]
    for metric, before in (("kube_pod_created", 1.0), ("kube_pod_status_ready_time", 0.0)):
        yield f"# TYPE {metric} gauge\n"
        for step in np.flatnonzero(~np.isnan(took)):
            end_s = seen.start_s + seen.step_s * (step + 1)
            ready_s = end_s - seen.step_s / 2
            labels = f'namespace="serving",pod="started-{step}"'
            for at in np.arange(ready_s, end_s + scrape_s / 2, scrape_s):
                yield f"{metric}{{{labels}}} {ready_s - before * took[step]:.3f} {at:.0f}\n"


def _counter(name: str, total: Floats, times: Floats, replicas: int, labels: str) -> Iterator[str]:
    for pod in range(replicas):
        said = ",".join(each for each in (f'pod="{pod}"', labels) if each)
        yield from (
            f"{name}{{{said}}} {value / replicas:.9g} {at:.0f}\n" for at, value in zip(times, total, strict=True)
        )


def write_answers(folder: Path, lines: Iterator[str]) -> Path:
    """The same samples as one file of answers to range queries, one series each."""
    import re

    series: dict[str, list[list[object]]] = {}
    for line in lines:
        if not line.startswith("#"):
            name, value, at = line.rsplit(" ", 2)
            series.setdefault(name, []).append([float(at), value])
    result = []
    for full, values in series.items():
        name, _, rest = full.partition("{")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        result.append({"metric": {"__name__": name, **labels}, "values": values})
    file = folder / "answers.json"
    file.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return file
