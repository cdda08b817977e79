"""One load, simulated once: what a replication shows, reduced to the numbers a curve is made of.

The run goes on until every request has ended, so that none of the latencies is cut off; rates, backlog and use are
read between the warm-up and the last arrival, where the load was what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError, InternalError
from ullage.service.curve.defined import good_requests, histograms, needs_requests
from ullage.service.curve.mix import LoadAt
from ullage.service.curve.stability import Drift, drift
from ullage.service.replica import Replica
from ullage.simulate.fleet import Fleet
from ullage.simulate.histogram import LogHistogram
from ullage.simulate.load import PS_PER_S, OpenLoop
from ullage.simulate.outcome import Counts, Outcome, Series
from ullage.simulate.simulation import simulate
from ullage.workload.classes import Metric, RequestClass, Slo

SHOWN_FRACTIONS = (0.5, 0.95, 0.99)
# The number in the system is sampled this often in a run: enough to see thirds, cheap against the steps between.
SAMPLES = 60
# A fifth of a run fills the engine; several times the longest request in all but tiny runs (see span_of).
WARMUP_FRACTION = 0.2


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What is tested: replicas of one kind behind a router, a mix of requests, and the SLOs made to them.

    `error_fraction` is the error budget: the share of a class's requests that may be refused, time out or fail.
    """

    replica: Replica
    load_at: LoadAt
    classes: tuple[RequestClass, ...]
    span_s: float
    replicas: int = 1
    routing: str = "least_outstanding"
    error_fraction: float = 0.001

    def __post_init__(self) -> None:
        if not any(each.slos for each in self.classes):
            raise InputError(
                field="classes",
                value=[each.name for each in self.classes],
                problem="none has an SLO, so every load would pass",
                fix="Promise at least one percentile, for example ttft_p95: 1s.",
            )


@dataclass(frozen=True, kw_only=True)
class LoadRun:
    """One replication: latencies as histograms by class and metric, everything else as means over the window."""

    seed: int
    rate_rps: float
    drift: Drift
    histograms: Mapping[str, Mapping[Metric, LogHistogram]]
    mean_e2e_s: float
    service_s: float
    queue_age_s: float
    waiting_requests: float
    goodput_rps: float
    achieved_rps: float
    error_fractions: Mapping[str, float]
    busy_fraction: float
    kv_fraction: float
    kv_peak_fraction: float
    active_tokens: float
    running_requests: float
    preemptions_per_request: float


def run_load(bench: Bench, rate_rps: float, seed: int) -> LoadRun:
    """Simulate the mix at a total offered rate."""
    return run_requests(bench, bench.load_at(rate_rps=rate_rps, span_s=bench.span_s, seed=seed), rate_rps, seed)


def run_requests(bench: Bench, load: OpenLoop, rate_rps: float, seed: int) -> LoadRun:
    """Simulate requests that are drawn already: pools of several sizes are compared on the same ones."""
    _require_classes(load, bench.classes)
    from_s = WARMUP_FRACTION * bench.span_s
    outcome = simulate(
        bench.replica.engine,
        Fleet(replicas=bench.replicas, routing=bench.routing),
        load,
        seed=seed,
        warmup_s=from_s,
        sample_s=bench.span_s / SAMPLES,
        keep_requests=needs_requests(bench.classes),
        attribution=False,
    )
    return _read(bench, load, outcome, rate_rps=rate_rps, seed=seed, from_s=from_s)


def _read(bench: Bench, load: OpenLoop, outcome: Outcome, *, rate_rps: float, seed: int, from_s: float) -> LoadRun:
    series, total = outcome.series, outcome.total
    if series is None:
        raise InternalError(law="a run that asked for samples has them", left=series, right=SAMPLES)
    window = (series.at_s > from_s) & (series.at_s <= bench.span_s * (1 + 1e-9))
    moved = drift(
        series.at_s,
        (series.running + series.waiting).sum(axis=1).astype(np.float64),
        arrivals=total.counts.requests,
        from_s=from_s,
        until_s=bench.span_s,
    )
    errors = {each.class_name: _errors(each.counts) for each in outcome.groups}
    window_s = bench.span_s - from_s
    kv = _mean_of(series, "kv_tokens", window)
    kv_tokens = bench.replica.engine.kv_tokens
    sent = max(total.counts.requests, 1)
    overhead_s = bench.replica.request_overhead_s
    good = good_requests(outcome, load, bench.classes, from_s=from_s, overhead_s=overhead_s)
    return LoadRun(
        seed=seed,
        rate_rps=rate_rps,
        drift=moved,
        histograms={
            each.name: histograms(outcome, load, each, from_s=from_s, overhead_s=overhead_s) for each in bench.classes
        },
        mean_e2e_s=_or_zero(total.e2e.mean_s) + overhead_s,
        service_s=max(0.0, _or_zero(total.e2e.mean_s) - _or_zero(total.queue.mean_s)),
        queue_age_s=_or_zero(total.queue.quantile_s(0.95)),
        waiting_requests=_mean_of(series, "waiting", window),
        # Late in a window that empties afterwards, requests succeed that an endless run would still hold.
        goodput_rps=min(good / window_s, moved.ended_rps),
        achieved_rps=moved.ended_rps * (1.0 - _errors(total.counts)),
        error_fractions=errors,
        busy_fraction=min(1.0, _mean_of(series, "utilisation", window)),
        kv_fraction=kv / kv_tokens,
        kv_peak_fraction=float(series.kv_tokens[window].max(initial=0)) / kv_tokens,
        active_tokens=kv,
        running_requests=_mean_of(series, "running", window),
        preemptions_per_request=total.preemptions / sent,
    )


def overhead_of(bench: Bench, metric: Metric) -> float:
    """What a request's own overhead adds to this latency: it is spent before the first token."""
    return bench.replica.request_overhead_s if metric in (Metric.TTFT, Metric.E2E) else 0.0


def name_of(metric: Metric, fraction: float) -> str:
    return Slo(metric=metric, percentile_fraction=fraction, limit_s=1.0).name


def _errors(counts: Counts) -> float:
    lost = counts.shed + counts.oversize + counts.timed_out + counts.failed
    return lost / counts.requests if counts.requests else 0.0


def _mean_of(series: Series, what: str, window: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    """The mean over the window and over replicas."""
    inside = getattr(series, what)[window]
    return float(inside.mean()) if inside.size else 0.0


def _or_zero(value: float) -> float:
    return value if np.isfinite(value) else 0.0


def _require_classes(load: OpenLoop, classes: Sequence[RequestClass]) -> None:
    names = [each.name for each in load.requests.classes]
    missing = [each.name for each in classes if each.name not in names]
    if missing:
        raise InputError(
            field="classes",
            value=missing[0],
            problem=f"is promised something, but the load has only {names}",
            fix="Name the classes of the load and of the SLOs alike.",
        )


# ---- how long a run is ---------------------------------------------------------------------------------

_PROBE_REQUESTS = 1500


def saturation_rps(replica: Replica, load_at: LoadAt, *, seed: int) -> float:
    """About how many requests a second a replica completes when it always has more than enough of them.

    It only sets the scale of a search: 1500 requests come at once, and the rate is that of the middle half of their
    endings. SLOs do not enter, so that all searches on one replica and mix share one grid.
    """
    rate_rps = 1000.0
    load = load_at(rate_rps=rate_rps, span_s=_PROBE_REQUESTS / rate_rps, seed=seed)
    outcome = simulate(replica.engine, Fleet(), load, seed=seed, keep_requests=True, attribution=False)
    if outcome.requests is None:
        raise InternalError(law="a run that asked for its requests has them", left=None, right=load.requests.count)
    ends = np.sort(outcome.requests.end_s[np.isfinite(outcome.requests.end_s)])
    if ends.size < 8:
        raise InputError(
            field="load",
            value=int(load.requests.count),
            problem="has too few requests that this engine can serve at all",
            fix="Look at the lengths of the requests against the engine's KV blocks.",
        )
    early, late = ends[ends.size // 4], ends[3 * ends.size // 4]
    return float((ends.size // 2) / max(late - early, 1.0 / PS_PER_S))


def span_of(replica: Replica, load_at: LoadAt, *, scale_rps: float, requests: int, seed: int) -> float:
    """How long a run must be to hold `requests` at saturation, and forty requests of the unloaded length in a row."""
    span_s = _PROBE_REQUESTS / scale_rps
    load = load_at(rate_rps=scale_rps / 10.0, span_s=span_s, seed=seed)
    alone = simulate(replica.engine, Fleet(), load, seed=seed, attribution=False).total.e2e.mean_s
    return max(requests / scale_rps, 40.0 * _or_zero(alone))
