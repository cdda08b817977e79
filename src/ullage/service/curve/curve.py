"""The service curve: what one replica does with the production mix, load by load, each figure with its interval.

    replica_curve(bases, seed=...)  ->  ServiceCurve of StablePoint | UnstablePoint

Loads far from the knee are few; between two loads whose latencies differ most, and between the last load that is
sustained and the first that is not, more are tried. Every load is tried on the same windows until its SLOs are
decided; a point whose budget ran out first says so. A load that is not sustained has no percentiles at all:
`UnstablePoint` has no field for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from ullage.evidence import Assumption, Evidence, Figure
from ullage.service.curve.knee import knee_rps
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import BRIEF, SCOUT, Decision, Effort, Sample, decide
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.stability import Instability
from ullage.service.trial.trial import NOMINAL, Trial
from ullage.service.trial.window import SHOWN_FRACTIONS, Probe, name_of
from ullage.simulate.statistics import Interval
from ullage.workload.classes import Metric, RequestClass

# Shares of the saturation scale at which a curve begins: an idle replica, and some on the way.
FIRST_FRACTIONS = (0.1, 0.4, 0.7, 0.95)
# From there loads grow by this much until one is not sustained, so that every curve shows its end. The scale is good
# to a factor of two; twelve steps are a factor of fourteen.
GROWTH_RATIO = 1.25
MOST_GROWTH_STEPS = 12
# Clients who give up at their deadlines keep any backlog short. A load is not sustained either where load alone makes
# one request in twenty of a class give up.
GIVEN_UP_FRACTION = 0.05
# So many more loads go where the curve bends.
REFINED_POINTS = 6


@dataclass(frozen=True, kw_only=True)
class StablePoint:
    """One load that the replica sustains. Rates are per replica; latencies by class, then `ttft_p95`, in seconds.

    `busy` is the share of time in which a step ran: a batching engine is busy long before it is full, so it is no
    measure of load. `violated` names the SLOs that are violated at it; `is_decided` is false where the windows at hand
    cannot tell for one of them.
    """

    offered_rps: float
    achieved: Interval
    goodput: Interval
    latencies: Mapping[str, Mapping[str, Interval]]
    errors: Mapping[str, Interval]
    mean_e2e: Interval
    service_time: Interval
    queue_age: Interval
    waiting: Interval
    running: Interval
    active_tokens: Interval
    kv_use: Interval
    kv_peak_fraction: float
    busy: Interval
    preemptions: Interval
    cached: Interval
    violated: tuple[str, ...]
    windows: int
    is_decided: bool

    @property
    def passes(self) -> bool:
        return not self.violated


@dataclass(frozen=True, kw_only=True)
class UnstablePoint:
    """One load that is more than the replica can do: how fast it falls behind, and nothing else."""

    offered_rps: float
    achieved: Interval
    instability: Instability
    windows: int


CurvePoint = StablePoint | UnstablePoint


_PREFIX_NOTE = (
    "A prefix counts as cached where a cache of one replica's size would still hold it after all the traffic of the "
    "service; a router that sends sessions back to their replica does better."
)


@dataclass(frozen=True, kw_only=True)
class ServiceCurve:
    """Points by rising load on one step basis, and what is needed to simulate the same replica and mix further.

    `saturation_rps` is the scale of the search, not a capacity.
    """

    # Arrays have no single truth of equality; curves are equal where seed, effort and points are.
    bases: Bases = field(compare=False)
    basis: str
    effort: Effort
    seed: int
    points: tuple[CurvePoint, ...]
    inputs: tuple[Figure | Assumption, ...] = ()

    @property
    def trial(self) -> Trial:
        return self.bases.trial(self.basis)

    @property
    def probe(self) -> Probe:
        return self.bases.probe(self.basis)

    @property
    def saturation_rps(self) -> float:
        return self.probe.saturation_rps

    @property
    def notes(self) -> tuple[str, ...]:
        """What every load of the curve takes for granted."""
        counted = tuple(
            f"Latencies of {each.name} are counted as {', '.join(each.definitions.changed)}."
            for each in self.trial.classes
            if each.definitions.changed
        )
        if not isinstance(self.trial.load_at, MixLoad) or self.trial.load_at.cache_blocks <= 0:
            return counted
        return (_PREFIX_NOTE, *counted)

    @property
    def stable(self) -> tuple[StablePoint, ...]:
        return tuple(each for each in self.points if isinstance(each, StablePoint))

    @property
    def unstable(self) -> tuple[UnstablePoint, ...]:
        return tuple(each for each in self.points if isinstance(each, UnstablePoint))

    @cached_property
    def knee_rps(self) -> float | None:
        """Where mean E2E bends, over the loads that are sustained; None where it does not."""
        found = self.stable
        return knee_rps([each.offered_rps for each in found], [each.mean_e2e.value for each in found])

    @property
    def figures(self) -> Mapping[str, Figure]:
        """What a plan prints of the curve; empty where the caller gave no inputs."""
        if not self.inputs:
            return {}
        values = [("curve.sustained_rps", self.stable[-1].offered_rps, "highest load tried that is sustained")]
        if self.unstable:
            values.append(
                ("curve.unstable_rps", self.unstable[0].offered_rps, "lowest load tried that is not sustained")
            )
        if self.knee_rps is not None:
            values.append(("curve.knee_rps", self.knee_rps, "furthest below the chord of mean E2E by load"))
        # The operating point beside it is of nominal step times, and may lie above a curve of conservative ones.
        steps = f", {self.basis} step times"
        return {
            name: Figure(name=name, value=value, unit="req/s", formula=f"{formula}{steps}", inputs=self.inputs)
            for name, value, formula in values
        }

    @property
    def evidence(self) -> Evidence | None:
        return max((each.evidence for each in self.inputs), key=lambda each: each.rank, default=None)


def replica_curve(
    bases: Bases,
    *,
    seed: int,
    basis: str = NOMINAL,
    effort: Effort = SCOUT,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> ServiceCurve:
    """The curve of one replica under a mix, from idle to more than it can do.

    `map` may spread windows over cores (see ullage.execute); the answer does not depend on it. `inputs` are what
    figures end in.
    """
    trial, scale = bases.trial(basis), bases.probe(basis)

    def measure(rate_rps: float) -> CurvePoint:
        return load_point(trial, rate_rps, scale, seed=seed, effort=effort, map=map)

    points = [measure(each * scale.saturation_rps) for each in FIRST_FRACTIONS]
    while isinstance(points[-1], StablePoint) and len(points) < len(FIRST_FRACTIONS) + MOST_GROWTH_STEPS:
        points.append(measure(points[-1].offered_rps * GROWTH_RATIO))
    return ServiceCurve(
        bases=bases,
        basis=basis,
        effort=effort,
        seed=seed,
        points=_refined(measure, points, REFINED_POINTS),
        inputs=inputs,
    )


def load_point(
    trial: Trial,
    rate_rps: float,
    scale: Probe,
    *,
    seed: int,
    effort: Effort = BRIEF,
    map: Any = map,  # noqa: A002
) -> CurvePoint:
    """One load, simulated until its SLOs are decided or the effort is spent."""
    return point_of(trial, decide(trial, rate_rps, scale, seed=seed, effort=effort, map=map))


def point_of(trial: Trial, found: Decision) -> CurvePoint:
    """The verdict of the windows of one load together; rates are per replica."""
    sample, replicas = found.sample, trial.replicas
    achieved = sample.mean(lambda each: each.achieved_rps / replicas)
    offered_rps = found.rate_rps / replicas
    errors = {
        each.name: sample.mean(lambda one, name=each.name: one.error_fractions.get(name, 0.0))  # type: ignore[misc]
        for each in trial.classes
    }
    unstable = found.instability or _given_up(trial, errors)
    if unstable is not None:
        return UnstablePoint(offered_rps=offered_rps, achieved=achieved, instability=unstable, windows=found.windows)
    return StablePoint(
        offered_rps=offered_rps,
        achieved=achieved,
        goodput=sample.mean(lambda each: each.goodput_rps / replicas),
        latencies={each.name: latencies_of(sample, each) for each in trial.classes},
        errors=errors,
        mean_e2e=sample.mean(lambda each: each.mean_e2e_s),
        service_time=sample.mean(lambda each: each.service_s),
        queue_age=sample.mean(lambda each: each.queue_age_s),
        waiting=sample.mean(lambda each: each.waiting_requests),
        running=sample.mean(lambda each: each.running_requests),
        active_tokens=sample.mean(lambda each: each.active_tokens),
        kv_use=sample.mean(lambda each: each.kv_fraction),
        kv_peak_fraction=max(each.kv_peak_fraction for each in sample.each),
        busy=sample.mean(lambda each: each.busy_fraction),
        preemptions=sample.mean(lambda each: each.preemptions_per_request),
        cached=sample.mean(lambda each: each.cached_fraction),
        violated=found.violated,
        windows=found.windows,
        is_decided=found.is_decided,
    )


def _given_up(trial: Trial, errors: Mapping[str, Interval]) -> Instability | None:
    """Why a load is not sustained though its backlog does not grow: those in it leave unserved."""
    for name, lost in errors.items():
        if lost.value - trial.idle_error_fractions.get(name, 0.0) > GIVEN_UP_FRACTION:
            return Instability(reason=f"{lost.value:.1%} of {name} fail or are abandoned", growth=lost)
    return None


def latencies_of(sample: Sample, request_class: RequestClass) -> dict[str, Interval]:
    """Every shown percentile of a class, and every one that an SLO names, that the windows can tell."""
    by_metric = {
        metric: (
            *SHOWN_FRACTIONS,
            *(slo.percentile_fraction for slo in request_class.slos if slo.metric is metric),
        )
        for metric in Metric
    }
    known = {
        (metric, fraction): interval
        for metric, fractions in by_metric.items()
        for fraction, interval in zip(fractions, sample.quantiles(request_class, metric, fractions), strict=True)
    }
    wanted = [(metric, fraction) for metric in Metric for fraction in SHOWN_FRACTIONS]
    wanted += [(slo.metric, slo.percentile_fraction) for slo in request_class.slos]
    return {name_of(*each): interval for each in wanted if (interval := known[each]) is not None}


def _refined(measure: Callable[[float], CurvePoint], points: list[CurvePoint], more: int) -> tuple[CurvePoint, ...]:
    """Halve the gap between neighbours that differs most, `more` times; a gap into instability differs most of all."""
    for _ in range(more):
        gaps = [_steepness(left, right) for left, right in pairwise(points)]
        place = max(range(len(gaps)), key=gaps.__getitem__)
        if gaps[place] <= 0.0:
            break
        points.insert(place + 1, measure((points[place].offered_rps + points[place + 1].offered_rps) / 2))
    return tuple(points)


def _steepness(left: CurvePoint, right: CurvePoint) -> float:
    if isinstance(left, UnstablePoint):
        return 0.0
    width = right.offered_rps / left.offered_rps - 1.0
    if isinstance(right, UnstablePoint):
        # The edge of stability is searched to 3 %; then the bend below it matters more.
        return math.inf if width > 0.03 else 0.0
    rise = math.log(max(right.mean_e2e.value, 1e-12) / max(left.mean_e2e.value, 1e-12))
    return max(rise, 0.0) + 0.05 * width
