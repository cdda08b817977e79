"""A stream of requests served by a pool: what became of them, how long they took, and what the replicas did.

    serve(replica, stream, classes, pool=Pool(...), seed=...)  ->  Served

One run, from the first arrival until the last request has ended, nothing cut off. It answers "what would this traffic
have met"; what load a replica carries within its SLOs is the question of a service curve, which repeats runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InternalError, check_name, unknown_name
from ullage.memory.settings import OFF, PREFIX_CACHES, PREFIX_ROUTERS, SIMULATED
from ullage.service.replica import Replica
from ullage.service.steps.floor import Floor, PeakUse
from ullage.service.trial.mix import SessionTurns, known_sessions, simulated_class, simulated_prefixes
from ullage.service.trial.stability import Drift, drift
from ullage.service.trial.trial import play
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import BETWEEN_TURNS, DEFAULT_ROUTER, ROUTINGS, Fleet
from ullage.simulate.histogram import LogHistogram
from ullage.simulate.load import OpenLoop, Requests
from ullage.simulate.outcome import Counts, GroupOutcome, Outcome, Series
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.synthetic.stream import BLOCK_TOKENS, Stream

SHOWN_FRACTIONS = (0.5, 0.9, 0.95, 0.99)
# Queues and caches are sampled this often while requests arrive.
_SAMPLES = 240


@dataclass(frozen=True, kw_only=True)
class ServedPool:
    """The replicas that serve the stream, and when work is refused or given up.

    `replicas` is None where it is left to who knows the traffic: as many as it needs, or one. `waiting_requests` bounds
    the queue of a replica, `timeout_s` is when a client gives up; None is never. The router's knowledge is renewed
    every `refresh_s`. `prefix_cache` says whether hits are as stated, found by simulated caches, or none; left out,
    they are simulated where the traffic says which prompt begins like which, where the router goes by it, or where a
    replica has a tier in host memory. With `between_turns` a session's next turn comes after the answer to the one
    before, and this is what becomes of its KV until then.
    """

    replicas: int | None = None
    routing: str = DEFAULT_ROUTER
    waiting_requests: int | None = None
    timeout_s: float | None = None
    refresh_s: float = 0.0
    prefix_cache: str | None = None
    between_turns: str | None = None

    def __post_init__(self) -> None:
        check_name(self.routing, ROUTINGS, field="--routing")
        if self.prefix_cache is not None and self.prefix_cache not in PREFIX_CACHES:
            raise unknown_name(field="--prefix-cache", name=self.prefix_cache, known=PREFIX_CACHES)
        if self.between_turns is not None and self.between_turns not in BETWEEN_TURNS:
            raise unknown_name(field="--between-turns", name=self.between_turns, known=BETWEEN_TURNS)

    @property
    def count(self) -> int:
        return self.replicas or 1

    @property
    def is_plain(self) -> bool:
        """No request is refused or cancelled earlier than the plan states."""
        plain = self.waiting_requests is None and self.timeout_s is None and self.prefix_cache is None
        return plain and self.routing == DEFAULT_ROUTER and self.refresh_s == 0.0 and self.between_turns is None

    def behind(self, router: str | None, refresh_s: float) -> ServedPool:
        """The same pool behind the router that a plan states, where none was named for this run."""
        if router is None or (self.routing, self.refresh_s) != (DEFAULT_ROUTER, 0.0):
            return self
        return replace(self, routing=router, refresh_s=refresh_s)

    def simulates_prefixes(self, stream: Stream, engine: Engine) -> bool:
        if self.prefix_cache is not None:
            return self.prefix_cache == SIMULATED
        follows = self.routing in PREFIX_ROUTERS or engine.host_blocks > 0 or self.between_turns is not None
        return stream.parent is not None or follows


@dataclass(frozen=True, kw_only=True)
class Latency:
    """One latency of one class: its mean and its percentiles, by fraction; nan where no request came to it."""

    mean_s: float
    quantiles_s: Mapping[float, float]


@dataclass(frozen=True, kw_only=True)
class SloAttainment:
    """An SLO and what was found; an SLO to requests that never came to it is not kept."""

    slo: Slo
    found_s: float

    @property
    def is_kept(self) -> bool:
        return self.found_s <= self.slo.limit_s


@dataclass(frozen=True, kw_only=True)
class ClassServed:
    """The requests of one class. A good one ended well and within the limits of its class."""

    name: str
    counts: Counts
    latencies: Mapping[str, Latency]
    slo_limits: tuple[SloAttainment, ...]
    goodput_rps: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    preemptions: int

    @property
    def good_fraction(self) -> float:
        return self.counts.success / self.counts.requests if self.counts.requests else math.nan


@dataclass(frozen=True, kw_only=True)
class Law:
    """A physical or counting law that the run is checked against: the left side is the right one, or at most it."""

    name: str
    left_value: float
    right_value: float
    unit: str
    is_equality: bool = False

    @property
    def holds(self) -> bool:
        if self.is_equality:
            return self.left_value == self.right_value
        return self.left_value <= self.right_value * (1 + 1e-9)


@dataclass(frozen=True, kw_only=True)
class PrefixUse:
    """What prefix caches did. Without simulated caches hits are as stated, and blocks are not known.

    `share` is of prompt tokens of requests that completed, `blocks_fraction` the most blocks that requests held on any
    replica at once, shared ones counted once. `loaded_fraction` is of the tokens that were found, those that came from
    host memory.
    """

    is_simulated: bool
    share_fraction: float
    blocks_fraction: float | None
    evicted_blocks: int | None
    loaded_fraction: float | None


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a pool made of a stream. Queues, caches and use are read while requests came."""

    requests: int
    span_s: float
    duration_s: float
    offered_rps: float
    goodput_rps: float
    output_tokens_per_s: float
    classes: tuple[ClassServed, ...]
    waiting_requests: float
    most_waiting_requests: int
    running_requests: float
    kv_fraction: float
    kv_peak_fraction: float
    busy_fraction: float
    preemptions: int
    recomputed_tokens: int
    hits: PrefixUse
    peak: PeakUse
    laws: tuple[Law, ...]
    drift: Drift

    @property
    def is_keeping_up(self) -> bool:
        """Whether the backlog stopped growing; one that grows says that more time would have made all of it worse."""
        return not self.drift.is_growing

    @property
    def broken(self) -> tuple[str, ...]:
        """SLOs that were not kept, as `class name`."""
        return tuple(
            f"{each.name} {one.slo.name}" for each in self.classes for one in each.slo_limits if not one.is_kept
        )


def serve(
    replica: Replica,
    stream: Stream,
    classes: Sequence[RequestClass],
    *,
    floor: Floor,
    pool: ServedPool = ServedPool(),  # noqa: B008 - frozen
    seed: int,
    report: Callable[[float], None] | None = None,
) -> Served:
    """Simulate the stream on the pool. Classes of the stream that `classes` does not name have no SLOs.

    A prefix counts as cached where a simulated cache of its replica has it, or else where a cache of one replica's size
    would still hold it.
    """
    engine = replica.engine
    slo_class = {each.name: each for each in classes}
    finds = pool.simulates_prefixes(stream, engine)
    served = stream.served_by_cache(-1.0 if pool.prefix_cache == OFF else engine.kv_tokens / BLOCK_TOKENS)
    own = [slo_class.get(name) or RequestClass(name=name, slos=()) for name in stream.class_names]
    load = OpenLoop(
        requests=Requests(
            prompt_tokens=served.prompt_tokens,
            output_tokens=served.output_tokens,
            cached_tokens=None if finds else np.minimum(served.cached_tokens, served.prompt_tokens - 1),
            prefixes=simulated_prefixes(stream) if finds else None,
            session_of=known_sessions(stream) if finds else None,
            turns=None if pool.between_turns is None else SessionTurns.on(engine, pool.between_turns).of(served),
            classes=tuple(replace(simulated_class(each), total_timeout_s=pool.timeout_s) for each in own),
            class_of=served.class_index,
        ),
        arrival_ps=served.arrival_ps,
    )
    outcome = play(
        replace(engine, waiting_requests=pool.waiting_requests),
        Fleet(replicas=pool.count, routing=pool.routing, refresh_s=pool.refresh_s),
        load,
        seed=seed,
        sample_s=max(stream.span_s / _SAMPLES, 1e-3),
        report=report,
    )
    return _read(replica, stream, own, outcome, floor, pool)


def _read(
    replica: Replica, stream: Stream, classes: Sequence[RequestClass], outcome: Outcome, floor: Floor, pool: ServedPool
) -> Served:
    series, total = outcome.series, outcome.total
    if series is None:
        raise InternalError(law="a run that asked for samples has them", left=None, right=_SAMPLES)
    came = series.at_s <= stream.span_s * (1 + 1e-9)
    kv_tokens = replica.engine.kv_tokens
    peak = _peak(outcome, floor)
    served = Served(
        requests=stream.requests,
        span_s=stream.span_s,
        duration_s=outcome.duration_s,
        offered_rps=stream.rate_rps,
        goodput_rps=total.counts.success / stream.span_s,
        output_tokens_per_s=total.output_tokens / outcome.duration_s,
        classes=tuple(_class(stream, each, outcome) for each in classes if _has(outcome, each.name)),
        waiting_requests=_mean(series.waiting[came].sum(axis=1)),
        most_waiting_requests=int(series.waiting[came].sum(axis=1).max(initial=0)),
        running_requests=_mean(series.running[came].sum(axis=1)),
        kv_fraction=_mean(series.kv_tokens[came]) / kv_tokens,
        kv_peak_fraction=float(series.kv_tokens[came].max(initial=0)) / kv_tokens,
        busy_fraction=min(1.0, _mean(series.utilisation[came])),
        preemptions=total.preemptions,
        recomputed_tokens=total.recomputed_tokens,
        hits=_hits(outcome, replica.engine, is_simulated=pool.simulates_prefixes(stream, replica.engine)),
        peak=peak,
        laws=_laws(stream, total, peak),
        drift=_drift(series, stream),
    )
    for law in served.laws:
        if not law.holds:
            raise InternalError(law=law.name, left=law.left_value, right=law.right_value)
    return served


def _hits(outcome: Outcome, engine: Engine, *, is_simulated: bool) -> PrefixUse:
    total = outcome.total
    loaded = sum(each.loaded_blocks for each in outcome.replicas) * engine.block_tokens
    return PrefixUse(
        is_simulated=is_simulated,
        share_fraction=total.cached_tokens / total.prompt_tokens if total.prompt_tokens else 0.0,
        blocks_fraction=max(each.peak_blocks for each in outcome.replicas) / engine.kv_blocks if is_simulated else None,
        evicted_blocks=sum(each.evicted_blocks for each in outcome.replicas) if is_simulated else None,
        loaded_fraction=loaded / max(1, total.cached_tokens) if is_simulated and engine.host_blocks else None,
    )


def _has(outcome: Outcome, name: str) -> bool:
    return any(each.class_name == name and each.counts.requests for each in outcome.groups)


def _class(stream: Stream, slo_class: RequestClass, outcome: Outcome) -> ClassServed:
    group = outcome.of_class(slo_class.name)
    histograms = {
        Metric.TTFT: group.ttft,
        Metric.TPOT: group.tpot,
        Metric.ITL: outcome.itl[slo_class.name],
        Metric.E2E: group.e2e,
    }
    return ClassServed(
        name=slo_class.name,
        counts=group.counts,
        latencies={
            **{str(metric): _latency(each) for metric, each in histograms.items()},
            "queue": _latency(group.queue),
        },
        slo_limits=tuple(
            SloAttainment(
                slo=slo,
                found_s=histograms[slo.metric].quantile_s(slo.percentile_fraction),
            )
            for slo in slo_class.slos
        ),
        goodput_rps=group.counts.success / stream.span_s,
        prompt_tokens=group.prompt_tokens,
        output_tokens=group.output_tokens,
        cached_tokens=group.cached_tokens,
        preemptions=group.preemptions,
    )


def _latency(histogram: LogHistogram) -> Latency:
    return Latency(
        mean_s=histogram.mean_s,
        quantiles_s={each: histogram.quantile_s(each) for each in SHOWN_FRACTIONS},
    )


def _drift(series: Series, stream: Stream) -> Drift:
    """How the number in the system moved, from a fifth of the span on: before that an empty pool fills."""
    return drift(
        series.at_s,
        (series.running + series.waiting).sum(axis=1).astype(np.float64),
        arrivals=max(1, round(0.8 * stream.requests)),
        from_s=0.2 * stream.span_s,
        until_s=stream.span_s,
    )


def _peak(outcome: Outcome, floor: Floor) -> PeakUse:
    return floor.peak_use(
        steps=sum(each.steps for each in outcome.replicas),
        tokens=sum(each.prefill_tokens + each.decode_tokens for each in outcome.replicas),
        busy_s=sum(each.busy_s for each in outcome.replicas),
    )


def _laws(stream: Stream, total: GroupOutcome, peak: PeakUse) -> tuple[Law, ...]:
    """What can be said in one line each; Little's law and the conservation of tokens are checked inside every run."""
    counts = total.counts
    return (
        Law(
            name="requests sent = requests ended",
            left_value=stream.requests,
            right_value=counts.requests - counts.unfinished,
            unit="requests",
            is_equality=True,
        ),
        Law(
            name="operations <= the devices' peak rate x busy time",
            left_value=peak.compute_fraction,
            right_value=1.0,
            unit="fraction",
        ),
        Law(
            name="weights read once a step <= peak bandwidth x busy time",
            left_value=peak.bandwidth_fraction,
            right_value=1.0,
            unit="fraction",
        ),
    )


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> float:
    return float(values.mean()) if values.size else 0.0
