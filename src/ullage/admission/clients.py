"""Clients of an overloaded pool: the experiment that every admission limit is read from.

A few of the pool's replicas are simulated behind the same router, on the step basis that the fleet was sized with, by
the trial of the service stage. Traffic is the mix as a Poisson process, because here bursts are the question and are
put in by hand: `step_load` adds one to a steady stream. The simulator's limits stand in for those of a gateway: a
bound on the requests that wait at a replica, and a time by which the first token must be out, whoever takes the
request down (the gateway, the client, the engine).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.admission.policy import AdmissionPolicy, Success
from ullage.evidence import number
from ullage.service.curve.curve import ServiceCurve
from ullage.service.replica import Replica
from ullage.service.trial.attainment import rows_by_class
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.trial import Guard, Trial, requests_of
from ullage.simulate.fleet import Fleet, FleetEvent
from ullage.simulate.load import PS_PER_S, LoadClass, OpenLoop, Retry
from ullage.simulate.outcome import Outcome
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
class Clients:
    """Who sends requests to the trial's pool, and how they behave. Rates are per replica.

    A stream is taken up `lead_s` after its beginning: before that no session has a history, and no prefix is cached.
    """

    trial: Trial
    policy: AdmissionPolicy
    lead_s: float
    seed: int

    @property
    def replicas(self) -> int:
        return self.trial.replicas

    @property
    def replica(self) -> Replica:
        return self.trial.replica

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        return self.trial.classes

    @property
    def span_s(self) -> float:
        return self.trial.span_s

    @property
    def error_fraction(self) -> float:
        return self.trial.error_fraction

    def of(self, **changes: Any) -> Clients:
        """The same clients of another pool: other replicas, span or mix."""
        return replace(self, trial=replace(self.trial, **changes))

    def steady(self, rate_rps: float, *, span_s: float | None = None) -> OpenLoop:
        whole_s = self.lead_s + (span_s or self.span_s)
        drawn = self.trial.load_at(rate_rps=rate_rps * self.replicas, span_s=whole_s, seed=self.seed)
        return _after(drawn, self.lead_s)

    def run(
        self,
        load: OpenLoop,
        *,
        guard: Guard | None = None,
        retry: Retry | None = None,
        patient: bool = False,
        from_s: float | None = None,
        fleet: Fleet | None = None,
        **kept: Any,
    ) -> Outcome:
        """Simulate the load. Clients who are not `patient` give up at their timeouts, and repeat as `retry` says."""
        requests = replace(load.requests, classes=tuple(self._class(e, guard, patient) for e in load.requests.classes))
        return self.trial.play(
            replace(load, requests=requests, retry=retry),
            seed=self.seed,
            guard=guard,
            fleet=fleet,
            warmup_s=WARMUP_FRACTION * self.span_s if from_s is None else from_s,
            is_shared=True,
            **kept,
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


def clients_of(curve: ServiceCurve, policy: AdmissionPolicy, *, replicas: int) -> Clients:
    """Clients of so many of the curve's replicas, in runs long enough for a percentile and for forty requests."""
    trial = curve.bases.conservative
    alone_s = curve.stable[0].mean_e2e.value if curve.stable else 0.0
    scale_rps = curve.bases.conservative_probe.saturation_rps
    return Clients(
        trial=replace(
            trial,
            replicas=replicas,
            load_at=trial.load_at.smooth if isinstance(trial.load_at, MixLoad) else trial.load_at,
            span_s=max(REQUESTS / (replicas * scale_rps), 40.0 * alone_s),
        ),
        policy=policy,
        lead_s=WARMUP_FRACTION * trial.span_s,
        seed=curve.seed,
    )


def step_load(
    clients: Clients, *, base_rps: float, burst_rps: float, at_s: float, length_s: float, span_s: float
) -> OpenLoop:
    """A steady stream of `base_rps` a replica, and from `at_s` for `length_s` so much more that `burst_rps` come."""
    base = clients.steady(base_rps, span_s=span_s)
    if burst_rps <= base_rps:
        return base
    # Another stream than the base: its gaps and lengths must not repeat those of the base.
    extra = replace(clients, seed=clients.seed + 1).steady(burst_rps - base_rps, span_s=length_s)
    arrival_ps = np.concatenate([_arrivals(base), _arrivals(extra) + round(at_s * PS_PER_S)])
    order = np.argsort(arrival_ps, kind="stable")
    return OpenLoop(requests=base.requests.beside(extra.requests).part(order), arrival_ps=arrival_ps[order])


def _after(load: OpenLoop, lead_s: float) -> OpenLoop:
    """The load from a time on, its clock set to zero there."""
    arrival_ps = _arrivals(load)
    first = int(np.searchsorted(arrival_ps, round(lead_s * PS_PER_S)))
    if first in (0, arrival_ps.size):
        return load
    requests = load.requests.part(np.arange(first, arrival_ps.size))
    return OpenLoop(requests=requests, arrival_ps=arrival_ps[first:] - round(lead_s * PS_PER_S))


def arrivals_at(replicas: int, more: int, *, at_s: float) -> Fleet:
    """A fleet that `more` replicas join at a time."""
    joining = FleetEvent(at_s=at_s, kind="ready", replicas=tuple(range(replicas, replicas + more)))
    return Fleet(replicas=replicas + more, ready_replicas=replicas, events=(joining,) if more else ())


# ---- what a run shows -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AdmittedAttainment:
    """One SLO in one run: what was found against what was required."""

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


def slos_met(clients: Clients, outcome: Outcome) -> tuple[AdmittedAttainment, ...]:
    """Every SLO against those requests of the run that were admitted and answered."""
    found = []
    for each in clients.classes:
        group = outcome.of_class(each.name)
        histograms = {
            Metric.TTFT: group.ttft,
            Metric.TPOT: group.tpot,
            Metric.E2E: group.e2e,
            Metric.ITL: outcome.itl[each.name],
        }
        for slo in each.slos:
            value_s = histograms[slo.metric].quantile_s(slo.percentile_fraction)
            found.append(AdmittedAttainment(class_name=each.name, slo=slo, found_s=value_s))
    return tuple(found)


Latencies = Mapping[tuple[str, Metric], Floats]


def window_latencies(clients: Clients, load: OpenLoop, outcome: Outcome, *, from_s: float, until_s: float) -> Latencies:
    """The latencies of the requests that came in a window, by class and metric; not a number where there is none.

    Gaps between tokens are not kept request by request, so there are none of them here.
    """
    times = requests_of(outcome)
    by_class = rows_by_class(load, (times.arrival_s >= from_s) & (times.arrival_s < until_s))
    names = [each.name for each in load.requests.classes]
    found = {
        Metric.TTFT: times.first_token_s - times.arrival_s + times.outside_s,
        Metric.E2E: times.end_s - times.arrival_s + times.outside_s,
        Metric.TPOT: (times.end_s - times.first_token_s) / np.maximum(load.requests.output_tokens - 1, 1),
    }
    return {
        (each.name, metric): values[by_class[names.index(each.name)]]
        for each in clients.classes
        for metric, values in found.items()
    }


def quantile(values: Floats, fraction: float) -> float:
    """The percentile of durations of which those that never ended are the longest; nan where there are none."""
    if not values.size:
        return math.nan
    ordered = np.sort(np.where(np.isfinite(values), values, math.inf))
    return float(ordered[max(0, math.ceil(fraction * ordered.size) - 1)])


def _arrivals(load: OpenLoop) -> NDArray[np.int64]:
    if load.arrival_ps is not None:
        return np.asarray(load.arrival_ps, np.int64)
    assert load.arrival_s is not None
    return np.rint(np.asarray(load.arrival_s, np.float64) * PS_PER_S).astype(np.int64)
