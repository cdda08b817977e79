"""The service curve: what one replica does with the production mix, load by load, each figure with its interval.

    replica_curve(replica, load_at, classes, seed=...)  ->  ServiceCurve of StablePoint | UnstablePoint

Loads far from the knee are few; between two loads whose latencies differ most, and between the last load that is
sustained and the first that is not, more are tried. Every load is replicated on the same seeds until its SLOs are
decided or its intervals are narrow; a point whose budget ran out first says so. A load that is not sustained has no
percentiles at all: `UnstablePoint` has no field for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure
from ullage.service.curve.knee import knee_rps
from ullage.service.curve.load_run import (
    SHOWN_FRACTIONS,
    Bench,
    LoadRun,
    name_of,
    overhead_of,
    run_load,
    saturation_rps,
    span_of,
)
from ullage.service.curve.mix import LoadAt, MixLoad
from ullage.service.curve.pooled import pooled_quantile
from ullage.service.curve.stability import Instability, instability
from ullage.service.replica import Replica
from ullage.simulate.statistics import Interval, mean_interval, replication_seeds
from ullage.workload.classes import Metric, RequestClass

# Shares of the saturation scale at which a curve begins: an idle replica, and some on the way.
FIRST_FRACTIONS = (0.1, 0.4, 0.7, 0.95)
# From there loads grow by this much until one is not sustained, so that every curve shows its end. The scale is good
# to a factor of two; twelve steps are a factor of fourteen.
GROWTH_RATIO = 1.25
MOST_GROWTH_STEPS = 12


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much simulation a curve may cost.

    A run holds `requests` at saturation: six thousand, less the warm-up, leave twenty-four beyond the 99th percentile
    of a class that sends half of them. Replications of a point double from `least_replications`; four give an
    interval, sixteen halve it. A search takes `search_replications` at every load, always the same ones: a number that
    adapted itself to the answer could make a stricter SLO look cheaper than a looser one.
    """

    requests: int = 6000
    least_replications: int = 4
    most_replications: int = 16
    search_replications: int = 8
    refined_points: int = 6
    relative_half_width_fraction: float = 0.05

    def __post_init__(self) -> None:
        if not 2 <= self.least_replications <= self.most_replications:
            raise InputError(
                field="effort.least_replications",
                value=self.least_replications,
                problem=f"must lie between 2 and most_replications = {self.most_replications}",
                fix="An interval needs at least two replications.",
            )
        if self.requests < 100:
            raise InputError(
                field="effort.requests", value=self.requests, problem="is too few for a percentile", fix="Give 1000."
            )


@dataclass(frozen=True, kw_only=True)
class StablePoint:
    """One load that the replica sustains. Rates are per replica; latencies by class, then `ttft_p95`, in seconds.

    `busy` is the share of time in which a step ran: a batching engine is busy long before it is full, so it is no
    measure of load. `broken` names the SLOs whose mean is beyond its limit; `is_narrow` is false where the budget
    of replications ended before the intervals were narrow or the SLOs decided.
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
    broken: tuple[str, ...]
    replications: int
    is_narrow: bool

    @property
    def passes(self) -> bool:
        return not self.broken


@dataclass(frozen=True, kw_only=True)
class UnstablePoint:
    """One load that is more than the replica can do: how fast it falls behind, and nothing else."""

    offered_rps: float
    achieved: Interval
    instability: Instability
    replications: int


CurvePoint = StablePoint | UnstablePoint


_PREFIX_NOTE = (
    "A prefix counts as cached where a cache of one replica's size would still hold it after all the traffic of the "
    "service; a router that sends sessions back to their replica does better."
)


@dataclass(frozen=True, kw_only=True)
class ServiceCurve:
    """Points by rising load, and what is needed to ask the same replica and mix more questions.

    `saturation_rps` is the scale of the search, not a capacity.
    """

    # Arrays have no single truth of equality; curves are equal where seed, effort and points are.
    bench: Bench = field(compare=False)
    effort: Effort
    seed: int
    saturation_rps: float
    points: tuple[CurvePoint, ...]
    inputs: tuple[Figure | Assumption, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What every load of the curve takes for granted."""
        counted = tuple(
            f"Latencies of {each.name} are counted as {', '.join(each.definitions.changed)}."
            for each in self.bench.classes
            if each.definitions.changed
        )
        if not isinstance(self.bench.load_at, MixLoad) or self.bench.load_at.cache_blocks <= 0:
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
        """What a plan prints of the curve; empty where the caller did not say what the curve rests on."""
        if not self.inputs:
            return {}
        values: list[tuple[str, float, str, str]] = [
            ("curve.sustained_rps", self.stable[-1].offered_rps, "req/s", "highest load tried that keeps up"),
        ]
        if self.unstable:
            values.append(
                ("curve.unstable_rps", self.unstable[0].offered_rps, "req/s", "lowest load tried that falls behind")
            )
        if self.knee_rps is not None:
            values.append(("curve.knee_rps", self.knee_rps, "req/s", "furthest below the chord of mean E2E by load"))
        return {
            name: Figure(name=name, value=value, unit=unit, formula=formula, inputs=self.inputs)
            for name, value, unit, formula in values
        }

    @property
    def evidence(self) -> Evidence | None:
        return max((each.evidence for each in self.inputs), key=lambda each: each.rank, default=None)


def replica_curve(
    replica: Replica,
    load_at: LoadAt,
    classes: Sequence[RequestClass],
    *,
    seed: int,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> ServiceCurve:
    """The curve of one replica under a mix, from idle to more than it can do.

    `load_at(rate_rps=, span_s=, seed=)` makes the mix at a total rate (see mix.py). `map` may spread replications
    over cores (see ullage.execute); the answer does not depend on it. `inputs` are what figures end in.
    """
    scale_rps = saturation_rps(replica, load_at, seed=seed)
    bench = Bench(
        replica=replica,
        load_at=load_at,
        classes=tuple(classes),
        span_s=span_of(replica, load_at, scale_rps=scale_rps, requests=effort.requests, seed=seed),
    )

    def measure(rate_rps: float) -> CurvePoint:
        return load_point(bench, rate_rps, seed=seed, effort=effort, map=map)

    points = [measure(each * scale_rps) for each in FIRST_FRACTIONS]
    while isinstance(points[-1], StablePoint) and len(points) < len(FIRST_FRACTIONS) + MOST_GROWTH_STEPS:
        points.append(measure(points[-1].offered_rps * GROWTH_RATIO))
    return ServiceCurve(
        bench=bench,
        effort=effort,
        seed=seed,
        saturation_rps=scale_rps,
        points=_refined(measure, points, effort.refined_points),
        inputs=inputs,
    )


def load_point(bench: Bench, rate_rps: float, *, seed: int, effort: Effort, map: Any = map) -> CurvePoint:  # noqa: A002
    """One load, replicated until its SLOs are decided, its intervals are narrow, or the budget is spent."""
    seeds = replication_seeds(seed, effort.most_replications)
    runs: list[LoadRun] = []
    while True:
        upto = min(len(seeds), max(effort.least_replications, 2 * len(runs)))
        runs += list(map(lambda each: run_load(bench, rate_rps, each), seeds[len(runs) : upto]))
        point = point_of(bench, rate_rps, runs, wanted_fraction=effort.relative_half_width_fraction)
        is_done = point.instability.is_decided if isinstance(point, UnstablePoint) else point.is_narrow
        if is_done or len(runs) == len(seeds):
            return point


def point_of(bench: Bench, rate_rps: float, runs: Sequence[LoadRun], *, wanted_fraction: float) -> CurvePoint:
    """What replications of one load say together."""
    unstable = instability([each.drift for each in runs])
    achieved = mean_interval([each.achieved_rps / bench.replicas for each in runs])
    offered_rps = rate_rps / bench.replicas
    if unstable is not None:
        return UnstablePoint(offered_rps=offered_rps, achieved=achieved, instability=unstable, replications=len(runs))
    latencies = {each.name: latencies_of(bench, runs, each) for each in bench.classes}
    errors = {
        each.name: mean_interval([run.error_fractions.get(each.name, 0.0) for run in runs]) for each in bench.classes
    }

    def over(read: Callable[[LoadRun], float]) -> Interval:
        return mean_interval([read(each) for each in runs])

    return StablePoint(
        offered_rps=offered_rps,
        achieved=achieved,
        goodput=over(lambda run: run.goodput_rps / bench.replicas),
        latencies=latencies,
        errors=errors,
        mean_e2e=over(lambda run: run.mean_e2e_s),
        service_time=over(lambda run: run.service_s),
        queue_age=over(lambda run: run.queue_age_s),
        waiting=over(lambda run: run.waiting_requests),
        running=over(lambda run: run.running_requests),
        active_tokens=over(lambda run: run.active_tokens),
        kv_use=over(lambda run: run.kv_fraction),
        kv_peak_fraction=max(each.kv_peak_fraction for each in runs),
        busy=over(lambda run: run.busy_fraction),
        preemptions=over(lambda run: run.preemptions_per_request),
        broken=_broken(bench, latencies, errors),
        replications=len(runs),
        is_narrow=_is_narrow(bench, latencies, wanted_fraction),
    )


def latencies_of(bench: Bench, runs: Sequence[LoadRun], slo_class: RequestClass) -> dict[str, Interval]:
    """Every shown and every promised percentile of a class that the runs can tell."""
    wanted = [(metric, fraction) for metric in Metric for fraction in SHOWN_FRACTIONS]
    wanted += [(slo.metric, slo.percentile_fraction) for slo in slo_class.slos]
    found = {
        name_of(metric, fraction): pooled_quantile(
            [run.histograms[slo_class.name][metric] for run in runs], fraction, offset_s=overhead_of(bench, metric)
        )
        for metric, fraction in wanted
    }
    return {name: interval for name, interval in found.items() if interval is not None}


def _broken(
    bench: Bench, latencies: Mapping[str, Mapping[str, Interval]], errors: Mapping[str, Interval]
) -> tuple[str, ...]:
    broken = [f"{name} error budget" for name, share in errors.items() if share.value > bench.error_fraction]
    for each in bench.classes:
        for slo in each.slos:
            found = latencies[each.name].get(slo.name)
            if found is not None and found.value > slo.limit_s:
                broken.append(f"{each.name} {slo.name}")
    return tuple(broken)


def _is_narrow(bench: Bench, latencies: Mapping[str, Mapping[str, Interval]], wanted_fraction: float) -> bool:
    """Every promised percentile is known well enough, or lies with its whole interval on one side of its limit."""
    return all(
        found.relative_half_width_fraction <= wanted_fraction or not found.low <= slo.limit_s <= found.high
        for each in bench.classes
        for slo in each.slos
        if (found := latencies[each.name].get(slo.name)) is not None
    )


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
        # The edge of stability is looked for until it is known to 3 %; then the bend below it matters more.
        return math.inf if width > 0.03 else 0.0
    rise = math.log(max(right.mean_e2e.value, 1e-12) / max(left.mean_e2e.value, 1e-12))
    return max(rise, 0.0) + 0.05 * width
