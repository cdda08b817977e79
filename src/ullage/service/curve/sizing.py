"""How many replicas a rate needs, found by simulating the pool with its router and not by dividing.

Dividing the rate by one replica's highest load is the bracket: a pool evens out what single replicas cannot, and a
router adds what no replica sees. The answer is the least number of replicas at which all requests together keep every
SLO; the interval says what the noise of the simulation and the evidence's own band make of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.errors import InputError, InternalError, Rejection
from ullage.evidence import Assumption, Figure
from ullage.service.curve.curve import CurvePoint, Effort, StablePoint, point_of
from ullage.service.curve.highest import LIKELY, POSSIBLE, SURE, HighestLoad, Replications, highest_load
from ullage.service.curve.load_run import Bench, LoadRun, run_requests, saturation_rps, span_of
from ullage.service.curve.margin import StepBand
from ullage.service.curve.mix import LoadAt
from ullage.service.curve.point import idle_refusal, weak_evidence
from ullage.service.replica import Replica
from ullage.simulate.load import OpenLoop
from ullage.simulate.statistics import replication_seeds
from ullage.workload.classes import RequestClass

MOST_REPLICAS = 4096
# A pool has so many requests a second that its runs need not be as long as one replica's; but a run shorter than the
# longest burst of a mix (workload/synthetic/modulation.py) would not show it.
POOL_SPAN_S = 1024.0
# A trickle is watched until it has sent enough for a percentile, but for no more than a day.
LEAST_REQUESTS = 200
MOST_SPAN_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """The least replicas that meet every SLO at this rate.

    `low_replicas` to `high_replicas` is what another seed would answer (95 %). `conservative_replicas` is the answer
    where every step takes as long as one in ten cases of this evidence: what to buy until somebody has measured.
    `bench` is the pool at `replicas` as it was simulated, to ask it more questions.
    """

    rate_rps: float
    replicas: int
    low_replicas: int
    high_replicas: int
    conservative_replicas: int
    binding: str
    at_size: StablePoint
    highest_rps: float
    band: StepBand
    devices: int
    # Arrays have no single truth of equality.
    bench: Bench = field(compare=False)
    figures: Mapping[str, Figure]


@dataclass(frozen=True, kw_only=True)
class Alone:
    """One replica of the pool and what is known of it: the scale of loads, its highest load, and the same where every
    step is as slow as in one case of ten (None where nobody has looked)."""

    bench: Bench = field(compare=False)
    scale_rps: float
    highest: HighestLoad
    slow_rps: float | None = None


def replica_alone(
    replica: Replica,
    load_at: LoadAt,
    classes: tuple[RequestClass, ...],
    *,
    seed: int,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    map: Any = map,  # noqa: A002
) -> Alone:
    """What a pool is bracketed by, for callers that have no curve and no point of the replica."""
    scale_rps = saturation_rps(replica, load_at, seed=seed)
    span_s = span_of(replica, load_at, scale_rps=scale_rps, requests=effort.requests, seed=seed)
    bench = Bench(replica=replica, load_at=load_at, classes=classes, span_s=span_s)
    count = effort.least_replications
    highest = highest_load(bench, scale_rps=scale_rps, seed=seed, replications=count, with_interval=False, map=map)
    return Alone(bench=bench, scale_rps=scale_rps, highest=highest)


def size_pool(
    alone: Alone,
    *,
    rate_rps: float,
    band: StepBand,
    seed: int,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> PoolSize | Rejection:
    """Size a pool for a total rate, or refuse where not even an idle replica meets the SLOs."""
    if not (math.isfinite(rate_rps) and rate_rps > 0.0):
        raise InputError(
            field="rate", value=rate_rps, problem="must be greater than 0", fix="Give a rate, for example 50 req/s."
        )
    one = alone.highest
    if one.rps <= 0.0:
        return idle_refusal(alone.bench, one, seed=seed, effort=effort, inputs=inputs, map=map)
    watched_s = max(alone.bench.span_s, min(LEAST_REQUESTS / rate_rps, MOST_SPAN_S))
    span_s = min(watched_s, max(POOL_SPAN_S, effort.requests / rate_rps))
    seeds = replication_seeds(seed, effort.least_replications)
    bench = replace(alone.bench, span_s=span_s)
    loads: dict[int, OpenLoop] = {}
    pool = _Pool(bench, rate_rps, seeds, loads=loads, map=map)
    slow = _Pool(bench, rate_rps, seeds, loads=loads, slow_ratio=band.slow_ratio, map=map)
    if not slow.keeps_idle(alone):
        return weak_evidence(one, band, inputs)
    replicas = pool.least(likely_size(rate_rps, one.rps, alone.scale_rps), LIKELY)
    conservative = replicas
    if band.slow_ratio > 1.0:
        slow_rps = alone.slow_rps or one.rps / band.slow_ratio**2
        start = likely_size(rate_rps, slow_rps, alone.scale_rps / band.slow_ratio)
        conservative = max(replicas, slow.least(max(start, replicas), LIKELY))
    at_size = pool.point(replicas, effort.relative_half_width_fraction)
    if not isinstance(at_size, StablePoint):
        raise InternalError(law="a pool that meets its SLOs is sustained", left=replicas, right=rate_rps)
    found = PoolSize(
        rate_rps=rate_rps,
        replicas=replicas,
        low_replicas=min(replicas, pool.least(replicas, POSSIBLE)),
        high_replicas=max(replicas, pool.least(replicas, SURE)),
        conservative_replicas=conservative,
        binding=pool.binding(replicas - 1) if replicas > 1 else "one replica is enough",
        at_size=at_size,
        highest_rps=one.rps,
        band=band,
        devices=alone.bench.replica.devices,
        bench=replace(bench, replicas=replicas),
        figures={},
    )
    return replace(found, figures=_figures(found, inputs))


def likely_size(rate_rps: float, highest_rps: float, scale_rps: float) -> int:
    """Where to begin to look: what saturated replicas would need, and of what one alone needs beyond that a share that
    falls with the root of the number, as the room that evens out chance does.

    >>> likely_size(50.0, 1.5, 2.4), likely_size(1.0, 1.5, 2.4)
    (22, 1)
    """
    fewest, alone = rate_rps / scale_rps, rate_rps / highest_rps
    return max(1, math.floor(fewest + (alone - fewest) / math.sqrt(max(alone, 1.0))))


class _Pool:
    """Pools of any size under one rate, on the same requests; a size that was simulated is remembered.

    With `slow_ratio` every step is so much longer; `loads` are requests by seed, drawn already or to be kept.
    """

    def __init__(
        self,
        alone: Bench,
        rate_rps: float,
        seeds: Sequence[int],
        *,
        loads: dict[int, OpenLoop],
        slow_ratio: float = 1.0,
        map: Any,  # noqa: A002
    ) -> None:
        self._alone = replace(alone, replica=alone.replica.slowed(slow_ratio))
        self._rate_rps, self._seeds, self._loads, self._map = rate_rps, tuple(seeds), loads, map
        self._jury = Replications(lambda size: (self._bench(size), rate_rps), seeds=self._seeds, run=self._run, map=map)

    def _bench(self, replicas: int) -> Bench:
        return replace(self._alone, replicas=replicas)

    def _run(self, bench: Bench, rate_rps: float, seed: int) -> LoadRun:
        if seed not in self._loads:
            self._loads[seed] = bench.load_at(rate_rps=rate_rps, span_s=bench.span_s, seed=seed)
        return run_requests(bench, self._loads[seed], rate_rps, seed)

    def keeps_idle(self, alone: Alone) -> bool:
        """Whether one of these replicas meets the SLOs at the least load of the grid."""
        if alone.slow_rps is not None:
            return alone.slow_rps > 0.0
        idle = replace(self._alone, span_s=alone.bench.span_s)
        return not Replications(
            lambda place: (idle, place * alone.highest.step_rps), seeds=self._seeds, map=self._map
        ).broken(1, LIKELY)

    def least(self, start: int, view: str) -> int:
        """The least size that passes, looked for in growing steps around `start`.

        On the way scouts may speak for a size; the answer itself is confirmed by all of its runs.
        """
        found = least_passing(lambda replicas: not self._jury.broken(replicas, view), start)
        while self._jury.broken(found, view, by_all=True):
            found = least_passing(lambda replicas: not self._jury.broken(replicas, view, by_all=True), found + 1)
        return found

    def binding(self, replicas: int) -> str:
        """What one replica fewer breaks."""
        return next(iter(self._jury.broken(replicas, LIKELY)), "none")

    def point(self, replicas: int, wanted_fraction: float) -> CurvePoint:
        runs = self._jury.runs(replicas)
        return point_of(self._bench(replicas), self._rate_rps, runs, wanted_fraction=wanted_fraction)


def least_passing(passes: Callable[[int], bool], start: int) -> int:
    """The least number from 1 on that passes, if larger ones pass whenever smaller ones do.

    >>> least_passing(lambda n: n >= 7, 3), least_passing(lambda n: n >= 7, 30), least_passing(lambda n: True, 5)
    (7, 7, 1)
    """
    # Steps begin small, because the start is usually good to one or two in thirty-two, and double from the second on.
    start = max(1, start)
    high, step = start, max(1, start // 32)
    low = max(0, high - step)
    if passes(high):
        while low > 0 and passes(low):
            high, step = low, step if high == start else 2 * step
            low = max(0, high - step)
    else:
        while not passes(high + step):
            high, step = high + step, step if high == start else 2 * step
            if high > MOST_REPLICAS:
                raise InputError(
                    field="rate",
                    value=start,
                    problem=f"needs more than {MOST_REPLICAS} replicas, or no number of them meets the SLOs",
                    fix="Split the service into several pools.",
                )
        low, high = high, high + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _figures(found: PoolSize, inputs: tuple[Figure | Assumption, ...]) -> dict[str, Figure]:
    if not inputs:
        return {}
    replicas = Figure(
        name="size.replicas",
        value=found.replicas,
        unit="replicas",
        formula=f"least pool whose simulation meets every SLO; one fewer breaks {found.binding}",
        inputs=inputs,
    )
    conservative = Figure(
        name="size.conservative_replicas",
        value=found.conservative_replicas,
        unit="replicas",
        formula=f"the same with every step {found.band.slow_ratio:.3g} times as long",
        inputs=(replicas, found.band.assumption),
    )
    goodput = Figure(
        name="size.pooled_goodput_per_device_rps",
        value=found.at_size.goodput.value / found.devices,
        unit="req/s",
        formula=f"requests a second and replica that meet every limit / {found.devices} devices",
        inputs=(replicas,),
    )
    return {each.name: each for each in (replicas, conservative, goodput)}
