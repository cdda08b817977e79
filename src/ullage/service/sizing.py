"""How many replicas a rate needs, found by simulating the pool with its router and not by dividing.

Dividing the rate by one replica's highest load is the bracket: a pool evens out what single replicas cannot, and a
router adds what no replica sees. The answer is the least number of replicas at which all requests together keep every
promise; the interval says what the noise of the simulation and the evidence's own band make of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.errors import InputError, InternalError, Rejection
from ullage.evidence import Assumption, Figure
from ullage.service.curve import CurvePoint, Effort, StablePoint, point_of
from ullage.service.highest import LIKELY, POSSIBLE, SURE, HighestLoad, broken, highest_load
from ullage.service.load_run import Bench, LoadRun, run_load, saturation_rps, span_of
from ullage.service.margin import StepBand
from ullage.service.mix import LoadAt
from ullage.service.point import idle_refusal, weak_evidence
from ullage.service.replica import Replica
from ullage.simulate.statistics import replication_seeds
from ullage.workload.classes import RequestClass

MOST_REPLICAS = 4096
# A pool has so many requests a second that its runs need not be as long as one replica's; but a run shorter than the
# longest burst of a mix (workload/modulation.py) would not show it.
POOL_SPAN_S = 1024.0


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """The least replicas that keep every promise at this rate.

    `low_replicas` to `high_replicas` is what another seed would answer (95 %). `careful_replicas` is the answer where
    every step takes as long as one in ten cases of this evidence: what to buy until somebody has measured. `bench` is
    the pool at `replicas` as it was simulated, to ask it more questions.
    """

    rate_rps: float
    replicas: int
    low_replicas: int
    high_replicas: int
    careful_replicas: int
    binding: str
    at_size: StablePoint
    highest_rps: float
    band: StepBand
    devices: int
    # Arrays have no single truth of equality.
    bench: Bench = field(compare=False)
    figures: Mapping[str, Figure]


def size_pool(
    replica: Replica,
    load_at: LoadAt,
    classes: tuple[RequestClass, ...],
    *,
    rate_rps: float,
    band: StepBand,
    seed: int,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> PoolSize | Rejection:
    """Size a pool for a total rate, or refuse where not even an idle replica keeps the promises."""
    if not (math.isfinite(rate_rps) and rate_rps > 0.0):
        raise InputError(
            field="rate", value=rate_rps, problem="must be greater than 0", fix="Give a rate, for example 50 req/s."
        )
    scale_rps = saturation_rps(replica, load_at, seed=seed)
    span_s = span_of(replica, load_at, scale_rps=scale_rps, requests=effort.requests, seed=seed)
    alone = Bench(replica=replica, load_at=load_at, classes=classes, span_s=span_s)
    slow = replace(alone, replica=replica.slowed(band.slow_ratio))

    def alone_rps(bench: Bench) -> HighestLoad:
        return highest_load(
            bench, scale_rps=scale_rps, seed=seed, replications=effort.least_replications, with_interval=False, map=map
        )

    one = alone_rps(alone)
    if one.rps <= 0.0:
        return idle_refusal(alone, one, seed=seed, effort=effort, inputs=inputs, map=map)
    pool_span_s = min(span_s, max(POOL_SPAN_S, effort.requests / rate_rps))
    pool = _Pool(replace(alone, span_s=pool_span_s), rate_rps, seed, effort, map)
    replicas = pool.least(math.ceil(rate_rps / one.rps), LIKELY)
    slower = one if band.slow_ratio == 1.0 else alone_rps(slow)
    if slower.rps <= 0.0:
        return weak_evidence(one, band, inputs)
    careful = pool if slower is one else _Pool(replace(slow, span_s=pool_span_s), rate_rps, seed, effort, map)
    at_size = pool.point(replicas)
    if not isinstance(at_size, StablePoint):
        raise InternalError(law="a pool that keeps its promises is sustained", left=replicas, right=rate_rps)
    found = PoolSize(
        rate_rps=rate_rps,
        replicas=replicas,
        low_replicas=pool.least(replicas, POSSIBLE),
        high_replicas=pool.least(replicas, SURE),
        careful_replicas=max(replicas, careful.least(math.ceil(replicas * one.rps / slower.rps), LIKELY)),
        binding=pool.binding(replicas - 1) if replicas > 1 else "one replica is enough",
        at_size=at_size,
        highest_rps=one.rps,
        band=band,
        devices=replica.devices,
        bench=replace(alone, span_s=pool_span_s, replicas=replicas),
        figures={},
    )
    return replace(found, figures=_figures(found, inputs))


class _Pool:
    """Pools of any size under one rate, on the same seeds; a size that was simulated is remembered."""

    def __init__(self, alone: Bench, rate_rps: float, seed: int, effort: Effort, map: Any) -> None:  # noqa: A002
        self._alone, self._rate_rps, self._effort, self._map = alone, rate_rps, effort, map
        self._seeds = replication_seeds(seed, effort.least_replications)
        self._known: dict[int, list[LoadRun]] = {}

    def _bench(self, replicas: int) -> Bench:
        return replace(self._alone, replicas=replicas)

    def _runs(self, replicas: int) -> list[LoadRun]:
        if replicas not in self._known:
            bench = self._bench(replicas)
            self._known[replicas] = list(self._map(lambda each: run_load(bench, self._rate_rps, each), self._seeds))
        return self._known[replicas]

    def _passes(self, replicas: int, view: str) -> bool:
        return not broken(self._bench(replicas), self._runs(replicas), view)

    def least(self, start: int, view: str) -> int:
        """The least size that passes, looked for in growing steps around `start`."""
        return least_passing(lambda replicas: self._passes(replicas, view), start)

    def binding(self, replicas: int) -> str:
        """What one replica fewer breaks."""
        return next(iter(broken(self._bench(replicas), self._runs(replicas))), "none")

    def point(self, replicas: int) -> CurvePoint:
        wanted = self._effort.relative_half_width_fraction
        return point_of(self._bench(replicas), self._rate_rps, self._runs(replicas), wanted_fraction=wanted)


def least_passing(passes: Callable[[int], bool], start: int) -> int:
    """The least number from 1 on that passes, if larger ones pass whenever smaller ones do.

    >>> least_passing(lambda n: n >= 7, 3), least_passing(lambda n: n >= 7, 30), least_passing(lambda n: True, 5)
    (7, 7, 1)
    """
    # Steps begin at an eighth: brackets are rarely better than that, and bisection ends them quickly.
    high, step = max(1, start), max(1, start // 8)
    low = max(0, high - step)
    if passes(high):
        while low > 0 and passes(low):
            high, step = low, 2 * step
            low = max(0, high - step)
    else:
        while not passes(high + step):
            high, step = high + step, 2 * step
            if high > MOST_REPLICAS:
                raise InputError(
                    field="rate",
                    value=start,
                    problem=f"needs more than {MOST_REPLICAS} replicas, or no number of them keeps the promises",
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
        formula=f"least pool whose simulation keeps every promise; one fewer breaks {found.binding}",
        inputs=inputs,
    )
    careful = Figure(
        name="size.careful_replicas",
        value=found.careful_replicas,
        unit="replicas",
        formula=f"the same with every step {found.band.slow_ratio:.3g} times as long",
        inputs=(replicas, found.band.assumption),
    )
    goodput = Figure(
        name="size.goodput_per_device_rps",
        value=found.at_size.goodput.value / found.devices,
        unit="req/s",
        formula=f"requests a second and replica that meet every limit / {found.devices} devices",
        inputs=(replicas,),
    )
    return {each.name: each for each in (replicas, careful, goodput)}
