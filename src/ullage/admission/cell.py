"""A few replicas under more than they can do: the experiment that every admission limit is read from.

A `Cell` is a handful of a pool's replicas behind the same router. Traffic is the mix as a Poisson process, because
here bursts are the question and are put in by hand: `step_load` lays one upon a steady stream. A `Guard` is a set of
limits as an engine and the gateway in front of it apply them.

What the simulator has stands for what a gateway does: a bound on the requests that wait at a replica, and a time by
which the first token must be out, whoever takes the request down (the gateway, the client, the engine).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.admission.policy import AdmissionPolicy, Success
from ullage.errors import InternalError
from ullage.evidence import number
from ullage.service.curve.curve import ServiceCurve
from ullage.service.curve.mix import LoadAt, MixLoad
from ullage.service.replica import Replica
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import Fleet, FleetEvent
from ullage.simulate.load import PS_PER_S, LoadClass, OpenLoop, Retry
from ullage.simulate.outcome import Outcome, RequestArrays
from ullage.simulate.simulation import simulate
from ullage.workload.classes import Metric, RequestClass, Slo

# In overload every replica is full and a large pool behaves like a small one; eight show what a router does.
MOST_REPLICAS = 8
# Requests of a run: a hundred of them lie beyond the 95th percentile.
REQUESTS = 2000
WARMUP_FRACTION = 0.2
# A percentile of one such run lies within about 5 % of the next seed's: a limit that is to hold keeps that much clear.
CLEAR_FRACTION = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Limits of one replica. `first_token_s` by class: without a token by then the request is taken down."""

    running_requests: int
    waiting_requests: int | None
    first_token_s: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Replicas of one kind, the mix they serve, and the clients who send it. Rates are per replica.

    A stream is taken up `lead_s` after its beginning: at first nobody has been here before, and no prefix is cached.
    `error_fraction` is the error budget: the share of requests that may fail, such as by clients who give up.
    """

    replica: Replica
    replicas: int
    load_at: LoadAt
    classes: tuple[RequestClass, ...]
    policy: AdmissionPolicy
    span_s: float
    lead_s: float
    error_fraction: float
    seed: int

    def steady(self, rate_rps: float, *, span_s: float | None = None) -> OpenLoop:
        whole_s = self.lead_s + (span_s or self.span_s)
        return _after(self.load_at(rate_rps=rate_rps * self.replicas, span_s=whole_s, seed=self.seed), self.lead_s)

    def run(
        self,
        load: OpenLoop,
        *,
        guard: Guard | None = None,
        retry: Retry | None = None,
        patient: bool = False,
        from_s: float | None = None,
        fleet: Fleet | None = None,
        keep_requests: bool = False,
        attribution: bool = False,
    ) -> Outcome:
        """Simulate the load. Clients who are not `patient` give up at their timeouts, and repeat as `retry` says."""
        requests = replace(load.requests, classes=tuple(self._class(e, guard, patient) for e in load.requests.classes))
        return simulate(
            _guarded(self.replica.engine, guard),
            fleet or Fleet(replicas=self.replicas),
            replace(load, requests=requests, retry=retry),
            seed=self.seed,
            warmup_s=WARMUP_FRACTION * self.span_s if from_s is None else from_s,
            keep_requests=keep_requests,
            attribution=attribution,
        )

    def _class(self, given: LoadClass, guard: Guard | None, patient: bool) -> LoadClass:
        policy, overhead_s = self.policy.of_class(given.name), self.replica.request_overhead_s
        deadline_s = number(self.policy.deadline_of(given.name))
        first = [] if patient else [number(self.policy.first_token_timeout)]
        if guard is not None and given.name in guard.first_token_s:
            first.append(guard.first_token_s[given.name])
        if policy.success is not Success.SLOS:
            given = LoadClass(
                name=given.name,
                priority=given.priority,
                e2e_slo_s=deadline_s if policy.success is Success.DEADLINE else None,
            )
        return replace(
            given,
            ttft_timeout_s=max(min(first) - overhead_s, 1e-9) if first else None,
            total_timeout_s=None if patient else max(deadline_s - overhead_s, 1e-9),
        )

    def overhead_s(self, metric: Metric) -> float:
        return self.replica.request_overhead_s if metric in (Metric.TTFT, Metric.E2E) else 0.0


def _guarded(engine: Engine, guard: Guard | None) -> Engine:
    """The engine with these limits. Priority scheduling belongs to them: without it the patient starve the urgent."""
    if guard is None:
        return engine
    return replace(
        engine,
        max_sequences=min(engine.max_sequences, guard.running_requests),
        waiting_requests=guard.waiting_requests,
        scheduling="priority",
    )


def cell_of(curve: ServiceCurve, policy: AdmissionPolicy, *, replicas: int) -> Cell:
    """A cell of this many of the curve's replicas, its runs long enough for a percentile and for forty requests."""
    bench = curve.bench
    alone_s = curve.stable[0].mean_e2e.value if curve.stable else 0.0
    return Cell(
        replica=bench.replica,
        replicas=replicas,
        load_at=bench.load_at.smooth if isinstance(bench.load_at, MixLoad) else bench.load_at,
        classes=bench.classes,
        policy=policy,
        span_s=max(REQUESTS / (replicas * curve.saturation_rps), 40.0 * alone_s),
        lead_s=WARMUP_FRACTION * bench.span_s,
        error_fraction=bench.error_fraction,
        seed=curve.seed,
    )


def step_load(
    cell: Cell, *, base_rps: float, burst_rps: float, at_s: float, length_s: float, span_s: float
) -> OpenLoop:
    """A steady stream of `base_rps` a replica, and from `at_s` for `length_s` so much more that `burst_rps` come."""
    base = cell.steady(base_rps, span_s=span_s)
    if burst_rps <= base_rps:
        return base
    # Another stream than the base: its gaps and lengths must not repeat those of the base.
    extra = replace(cell, seed=cell.seed + 1).steady(burst_rps - base_rps, span_s=length_s)
    arrival_ps = np.concatenate([_arrivals(base), _arrivals(extra) + round(at_s * PS_PER_S)])
    order = np.argsort(arrival_ps, kind="stable")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(each.requests, name) for each in (base, extra)])[order] for name in _columns(base)
    }
    return OpenLoop(requests=replace(base.requests, **columns), arrival_ps=arrival_ps[order])


def _after(load: OpenLoop, lead_s: float) -> OpenLoop:
    """The load from a time on, its clock set to zero there."""
    arrival_ps = _arrivals(load)
    first = int(np.searchsorted(arrival_ps, round(lead_s * PS_PER_S)))
    if first in (0, arrival_ps.size):
        return load
    columns: dict[str, Any] = {name: getattr(load.requests, name)[first:] for name in _columns(load)}
    requests = replace(load.requests, **columns)
    return OpenLoop(requests=requests, arrival_ps=arrival_ps[first:] - round(lead_s * PS_PER_S))


def _columns(load: OpenLoop) -> list[str]:
    """The columns that a load has, one element a request."""
    names = ("prompt_tokens", "output_tokens", "cached_tokens", "cancel_after_s", "class_of", "tenant_of")
    return [name for name in names if getattr(load.requests, name) is not None]


def arrivals_at(replicas: int, more: int, *, at_s: float) -> Fleet:
    """A fleet that `more` replicas join at a time."""
    joining = FleetEvent(at_s=at_s, kind="ready", replicas=tuple(range(replicas, replicas + more)))
    return Fleet(replicas=replicas + more, ready_replicas=replicas, events=(joining,) if more else ())


# ---- what a run shows -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AdmittedAttainment:
    """One SLO in one run: what was found against what was promised."""

    class_name: str
    slo: Slo
    found_s: float

    @property
    def is_kept(self) -> bool:
        return not self.found_s > self.slo.limit_s

    @property
    def is_clear(self) -> bool:
        """Kept with so much to spare that the next seed would keep it too."""
        return not self.found_s > CLEAR_FRACTION * self.slo.limit_s

    @property
    def name(self) -> str:
        return f"{self.class_name} {self.slo.name}"

    @property
    def is_on_wait(self) -> bool:
        """Whether waiting counts towards it."""
        return self.slo.metric in (Metric.TTFT, Metric.E2E)


def slos_met(cell: Cell, outcome: Outcome) -> tuple[AdmittedAttainment, ...]:
    """Every SLO against those requests of the run that were admitted and answered."""
    found = []
    for each in cell.classes:
        group = outcome.of_class(each.name)
        histograms = {
            Metric.TTFT: group.ttft,
            Metric.TPOT: group.tpot,
            Metric.E2E: group.e2e,
            Metric.ITL: outcome.itl[each.name],
        }
        for slo in each.slos:
            value_s = histograms[slo.metric].quantile_s(slo.percentile_fraction) + cell.overhead_s(slo.metric)
            found.append(AdmittedAttainment(class_name=each.name, slo=slo, found_s=value_s))
    return tuple(found)


Latencies = Mapping[tuple[str, Metric], Floats]


def window_latencies(cell: Cell, load: OpenLoop, outcome: Outcome, *, from_s: float, until_s: float) -> Latencies:
    """The latencies of the requests that came in a window, by class and metric; not a number where there is none.

    Gaps between tokens are not kept request by request, so there are none of them here.
    """
    times = requests_of(outcome)
    inside = (times.arrival_s >= from_s) & (times.arrival_s < until_s)
    class_of = np.zeros(inside.size, np.int16) if load.requests.class_of is None else load.requests.class_of
    names = [each.name for each in load.requests.classes]
    found = {
        Metric.TTFT: times.first_token_s - times.arrival_s,
        Metric.E2E: times.end_s - times.arrival_s,
        Metric.TPOT: (times.end_s - times.first_token_s) / np.maximum(load.requests.output_tokens - 1, 1),
    }
    return {
        (each.name, metric): values[inside & (class_of == names.index(each.name))] + cell.overhead_s(metric)
        for each in cell.classes
        for metric, values in found.items()
    }


def requests_of(outcome: Outcome) -> RequestArrays:
    if outcome.requests is None:
        raise InternalError(law="a run that asked for its requests has them", left=None, right=outcome.duration_s)
    return outcome.requests


def quantile(values: Floats, fraction: float) -> float:
    """The percentile of durations of which those that never ended are the longest."""
    ordered = np.sort(np.where(np.isfinite(values), values, math.inf))
    return float(ordered[max(0, math.ceil(fraction * ordered.size) - 1)])


def _arrivals(load: OpenLoop) -> NDArray[np.int64]:
    if load.arrival_ps is not None:
        return np.asarray(load.arrival_ps, np.int64)
    assert load.arrival_s is not None
    return np.rint(np.asarray(load.arrival_s, np.float64) * PS_PER_S).astype(np.int64)
