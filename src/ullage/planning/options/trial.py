"""A candidate simulated: how many replicas it needs, what a success costs on it, and how sure both are.

Every candidate is tried on the same seeds (common random numbers): what differs between two of them is the candidate.
Runs come in batches of two. All runs of a round together say how many replicas are bought; each batch by itself says
what another pair of seeds would have answered, and the spread of those answers is the interval.

    cost of a success = USD per device-hour x devices paid for / successes per hour

Paid for are steady replicas, with the margin for weak evidence, reserves, and what is stranded on their machines.
Other lines of the bill do not depend on the device, so they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ullage.cost.pool_run import class_uses, level_runs, month_groups
from ullage.cost.service_use import SECONDS_PER_HOUR
from ullage.errors import InternalError, Rejection, Remedy
from ullage.evidence import Assumption, Evidence, Figure
from ullage.fleet.packing import Packing
from ullage.fleet.reserves import Reserves
from ullage.fleet.sites import Sites
from ullage.fleet.steady import SteadyFleet
from ullage.planning.machines import on_machines
from ullage.planning.options.screen import Fit
from ullage.service.curve.curve import Effort, StablePoint, point_of
from ullage.service.curve.highest import broken
from ullage.service.curve.load_run import Bench, LoadRun, run_requests, saturation_rps, span_of
from ullage.service.curve.sizing import (
    LEAST_REQUESTS,
    MOST_SPAN_S,
    POOL_SPAN_S,
    PoolSize,
    least_passing,
    likely_size,
)
from ullage.simulate.load import OpenLoop
from ullage.simulate.statistics import Interval, mean_interval, replication_seeds
from ullage.startup.ready import TimeToReady, time_to_ready

# A backlog needs two runs to be told from chance.
BATCH_RUNS = 2
MOST_BATCHES = 16
# The load of a nearly idle replica, in parts of its saturation: what it breaks, no number of replicas mends.
_IDLE_PARTS = 64.0
# The part that succeeds differs in its third digit between seeds, so a few batches speak for all.
_SHARE_BATCHES = 4
# How far latencies are from their limits is shown, not decided by, so it is asked of few runs.
_HEADROOM_RUNS = 4


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """What a candidate needs and costs, after so many batches.

    `score` is what it is ranked by, `unit` what that is in: USD per success, or devices where its device has no price.
    `batch_scores` are the same of each batch alone. `headroom_fraction` is the part of its limit that the SLO
    nearest to breaking leaves, at the planning rate and with nominal step times.
    """

    fit: Fit
    batches: int
    steady_replicas: int
    reserve_replicas: int
    paid_devices: int
    success_fraction: float
    headroom_fraction: float
    score: Interval
    unit: str
    batch_scores: tuple[float, ...]
    reserves: Reserves

    @property
    def name(self) -> str:
        return self.fit.candidate.name

    @property
    def replicas(self) -> int:
        return self.steady_replicas + self.reserve_replicas

    @property
    def is_priced(self) -> bool:
        return self.unit != DEVICES

    @property
    def evidence(self) -> Evidence:
        return self.fit.evidence

    @property
    def usd_per_hour(self) -> float | None:
        """Of all devices that are paid for."""
        each = self.fit.usd_per_hour
        return None if each is None else each * self.paid_devices


USD, DEVICES = "USD/success", "devices"


class CandidateTrial:
    """One candidate's simulations; sizes and seeds that were run are remembered between rounds."""

    def __init__(self, fit: Fit, *, map: Any = map) -> None:  # noqa: A002
        self.fit, self._map = fit, map
        self._seed, self._rate_rps = fit.asked.seed, fit.asked.rate_rps
        self._seeds = replication_seeds(self._seed, BATCH_RUNS * MOST_BATCHES)
        self._runs: dict[tuple[float, int], list[LoadRun]] = {}
        self._loads: dict[tuple[float, int], OpenLoop] = {}
        self._points: dict[int, StablePoint] = {}
        self._shares: dict[tuple[int, int], float] = {}
        self._last = 0

    # What follows is simulated, so it waits until the candidate's bounds have been looked at.

    @cached_property
    def _scale_rps(self) -> float:
        return saturation_rps(self.fit.replica, self.fit.mix, seed=self._seed)

    @cached_property
    def _alone_s(self) -> float:
        fit, requests = self.fit, Effort().requests
        return span_of(fit.replica, fit.mix, scale_rps=self._scale_rps, requests=requests, seed=self._seed)

    @cached_property
    def _bench(self) -> Bench:
        watched_s = max(self._alone_s, min(LEAST_REQUESTS / self._rate_rps, MOST_SPAN_S))
        span_s = min(watched_s, max(POOL_SPAN_S, Effort().requests / self._rate_rps))
        fit = self.fit
        return Bench(replica=fit.replica, load_at=fit.mix, classes=fit.asked.classes, span_s=span_s)

    @cached_property
    def _slow(self) -> Bench:
        """Sized for steps as slow as one time in ten: ignorance of a device costs devices, and is priced as such."""
        return replace(self._bench, replica=self.fit.replica.slowed(self.fit.band.slow_ratio))

    @cached_property
    def _ready(self) -> TimeToReady:
        return time_to_ready(self.fit.memory, self.fit.candidate.pool.start, rng=np.random.default_rng(self._seed))

    def idle_refusal(self) -> Rejection | None:
        """Why no number of replicas would do, where a nearly idle one already violates an SLO."""
        idle = replace(self._slow, span_s=self._alone_s)
        rate_rps = max(self._scale_rps / _IDLE_PARTS, LEAST_REQUESTS / self._alone_s)
        runs = list(
            self._map(
                lambda seed: run_requests(
                    idle, idle.load_at(rate_rps=rate_rps, span_s=idle.span_s, seed=seed), rate_rps, seed
                ),
                self._seeds[: 2 * BATCH_RUNS],
            )
        )
        # Few requests come and go in such a run; whether their number grows is chance, and not the question.
        names = [each for each in broken(idle, runs) if each != "stability"]
        if not names:
            return None
        slow = self.fit.band.slow_ratio
        return Rejection(
            stage="simulation",
            reason=f"a nearly idle replica, its steps {slow:.3g} times as long nominal, breaks {names[0]}",
            figure=Figure(
                name="option.idle_rps",
                value=rate_rps,
                unit="req/s",
                formula="the load of a nearly idle replica",
                inputs=self.fit.inputs,
            ),
            remedies=(
                Remedy(change="a load test of this configuration", effect="a narrower band of step times"),
                Remedy(change=f"a looser SLO than {names[0]}", effect="it may hold"),
            ),
        )

    def measured(self, batches: int) -> CandidateResult | Rejection:
        """The candidate after this many batches; a quota or a policy that it cannot meet is a refusal."""
        fit = self.fit
        replicas = self.least(batches)
        at_size = self._at_size(replicas)
        reserved = self._reserved(replicas, at_size)
        if isinstance(reserved, Rejection):
            return reserved
        reserves, packing = reserved
        most = fit.candidate.pool.most
        if most is not None and replicas + reserves.replicas > int(most.value):
            return _too_many(fit, replicas + reserves.replicas, most)
        paid = packing.chosen.devices
        shares = [self._success_fraction(replicas, batch) for batch in range(min(batches, _SHARE_BATCHES))]
        sizes = [self.least(batches, only=batch) for batch in range(batches)]
        reserve = reserves.replicas
        # A batch that asks for another number of replicas would also strand and reserve in proportion.
        scores = [
            self._score(paid * (size + reserve) / (replicas + reserve), shares[batch % len(shares)])
            for batch, size in enumerate(sizes)
        ]
        value = self._score(float(paid), sum(shares) / len(shares))
        spread = mean_interval(scores)
        half = (spread.high - spread.low) / 2.0
        return CandidateResult(
            fit=fit,
            batches=batches,
            steady_replicas=replicas,
            reserve_replicas=reserve,
            paid_devices=paid,
            success_fraction=sum(shares) / len(shares),
            headroom_fraction=_headroom_fraction(self._bench, at_size),
            score=Interval(
                value=value,
                low=max(0.0, value - half),
                high=value + half,
                confidence_fraction=spread.confidence_fraction,
            ),
            unit=DEVICES if fit.usd_per_hour is None else USD,
            batch_scores=tuple(scores),
            reserves=reserves,
        )

    def least(self, batches: int, *, only: int | None = None, rate_rps: float | None = None) -> int:
        """The least replicas that meet every SLO by all runs of these batches, or by those of one of them."""
        rate = rate_rps or self._rate_rps
        first, last = (0, batches) if only is None else (only, only + 1)

        def passes(replicas: int) -> bool:
            runs = self._runs_of(rate, replicas, BATCH_RUNS * last)[BATCH_RUNS * first :]
            names = broken(replace(self._slow, replicas=replicas), runs)
            # Two runs cannot tell a growing backlog from a burst at their end; their latencies tell what it does.
            return not [each for each in names if only is None or each != "stability"]

        slow_rps = self._scale_rps / self.fit.band.slow_ratio
        near = round(self._last * rate / self._rate_rps)
        always = self.fit.candidate.pool.least
        found = least_passing(passes, near or likely_size(rate, slow_rps / 1.5, slow_rps))
        found = max(found, 0 if always is None else int(always.value))
        if rate_rps is None and only is None:
            self._last = found
        return found

    def devices_at(self, rate_rps: float, batches: int) -> tuple[int, int]:
        """Replicas, and devices with reserves, at another rate of the same mix, whatever today's quotas hold."""
        replicas = self.least(batches, rate_rps=rate_rps)
        return replicas, self.with_reserves(replicas)[1]

    def with_reserves(self, replicas: int) -> tuple[int, int]:
        """Reserve replicas of a pool of this size, and the devices that are paid for with them, without quotas."""
        found = self._reserved(replicas, self._at_size(self._last or replicas), within_quotas=False)
        if isinstance(found, Rejection):
            raise InternalError(law="without quotas every fleet can be placed", left=found.reason, right=replicas)
        reserves, packing = found
        return reserves.replicas, packing.chosen.devices

    def _runs_of(self, rate_rps: float, replicas: int, count: int) -> list[LoadRun]:
        runs = self._runs.setdefault((rate_rps, replicas), [])
        missing = self._seeds[len(runs) : count]
        if missing:
            runs += self._simulated(replace(self._slow, replicas=replicas), rate_rps, missing)
        return runs[:count]

    def _simulated(self, bench: Bench, rate_rps: float, seeds: Sequence[int]) -> list[LoadRun]:
        """One run for each seed; the requests of a seed are drawn once."""
        for seed in seeds:
            if (rate_rps, seed) not in self._loads:
                self._loads[rate_rps, seed] = bench.load_at(rate_rps=rate_rps, span_s=bench.span_s, seed=seed)
        return list(self._map(lambda seed: run_requests(bench, self._loads[rate_rps, seed], rate_rps, seed), seeds))

    def _at_size(self, replicas: int) -> StablePoint:
        """The planned pool at the planning rate, with nominal step times."""
        if replicas not in self._points:
            self._points[replicas] = self._pointed(replicas)
        return self._points[replicas]

    def _pointed(self, replicas: int) -> StablePoint:
        """By few runs, and by more where those few cannot tell a burst at their end from a backlog that grows."""
        bench, wanted = replace(self._bench, replicas=replicas), Effort().relative_half_width_fraction
        runs: list[LoadRun] = []
        count = _HEADROOM_RUNS
        while count <= len(self._seeds):
            runs += self._simulated(bench, self._rate_rps, self._seeds[len(runs) : count])
            point = point_of(bench, self._rate_rps, runs, wanted_fraction=wanted)
            if isinstance(point, StablePoint):
                return point
            count *= 2
        raise InternalError(
            law="a pool that holds with slow steps holds with the believed ones",
            left=replicas,
            right=self.fit.candidate.name,
        )

    def _reserved(
        self, replicas: int, at_size: StablePoint, *, within_quotas: bool = True
    ) -> tuple[Reserves, Packing] | Rejection:
        fit, spec, pool = self.fit, self.fit.asked.spec, self.fit.candidate.pool
        return on_machines(
            pool,
            spec,
            pool.settings.sharding,
            _steady(fit, replicas, at_size, self._bench),
            self._ready,
            fit.asked.demand,
            sites=_placed_in(spec.options.sites.get(pool.device.name), within_quotas=within_quotas),
            seed=fit.asked.seed,
        )

    def _success_fraction(self, replicas: int, batch: int) -> float:
        """The part of a month's requests that end well and within their limits, over the levels of its hours."""
        if (replicas, batch) not in self._shares:
            self._shares[replicas, batch] = self._simulated_share(replicas, batch)
        return self._shares[replicas, batch]

    def _simulated_share(self, replicas: int, batch: int) -> float:
        asked = self.fit.asked
        seed = self._seeds[BATCH_RUNS * batch]
        runs = level_runs(asked.demand, asked.classes, self.fit.replica, replicas=replicas, seed=seed)
        groups = month_groups(runs, "class", period_hours=1.0)
        uses = class_uses(groups, asked.demand, asked.classes, pool="", period_hours=1.0)
        return sum(each.successes for each in uses) / sum(each.requests for each in uses)

    def _score(self, paid_devices: float, success_fraction: float) -> float:
        """USD for a success; where the device has no price, devices that are paid for."""
        hour = self.fit.usd_per_hour
        if hour is None:
            return paid_devices
        successes = mean_rps(self.fit) * success_fraction * SECONDS_PER_HOUR
        return hour * paid_devices / max(successes, 1e-12)


def _placed_in(sites: Sites | None, *, within_quotas: bool) -> Sites | None:
    """The sites, or the same without quotas."""
    if sites is None or within_quotas:
        return sites
    return Sites(
        regions=tuple(
            replace(region, quota=None, zones=tuple(replace(zone, quota=None) for zone in region.zones))
            for region in sites.regions
        )
    )


def mean_rps(fit: Fit) -> float:
    """The mean rate of all classes."""
    return sum(each.mean_rps for each in fit.asked.demand.classes)


def least_score(fit: Fit) -> float:
    """No run of this candidate can score below: fewest replicas, no reserve, every request a success."""
    devices = float(fit.fewest_replicas * fit.devices)
    hour = fit.usd_per_hour
    return devices if hour is None else hour * devices / (mean_rps(fit) * SECONDS_PER_HOUR)


def _too_many(fit: Fit, replicas: int, most: Assumption) -> Rejection:
    return Rejection(
        stage="replicas",
        reason=f"{replicas} replicas are needed with reserves, and {most.value} may run",
        figure=Figure(
            name="option.replicas",
            value=replicas,
            unit="replicas",
            formula="steady replicas + reserves",
            inputs=(*fit.inputs, most),
        ),
        remedies=(Remedy(change=f"most_replicas of {replicas}", effect="it may run"),),
    )


def _headroom_fraction(bench: Bench, point: StablePoint) -> float:
    uses = [
        found.value / slo.limit_s
        for each in bench.classes
        for slo in each.slos
        if (found := point.latencies[each.name].get(slo.name)) is not None
    ]
    return 1.0 - max(uses, default=0.0)


def _steady(fit: Fit, replicas: int, at_size: StablePoint, bench: Bench) -> SteadyFleet:
    """The steady fleet as the reserves want it."""
    figure = Figure(
        name="fleet.replicas",
        value=replicas,
        unit="replicas",
        formula=f"least pool of {fit.candidate.name} that meets every SLO with slow steps",
        inputs=fit.inputs,
    )
    rate_rps = fit.asked.rate_rps
    size = PoolSize(
        rate_rps=rate_rps,
        replicas=replicas,
        low_replicas=replicas,
        high_replicas=replicas,
        conservative_replicas=replicas,
        binding="",
        at_size=at_size,
        highest_rps=rate_rps / replicas,
        band=fit.band,
        devices=fit.devices,
        bench=replace(bench, replicas=replicas),
        figures={},
    )
    return SteadyFleet(
        size=size,
        replicas=replicas,
        nominal_replicas=replicas,
        devices=replicas * fit.devices,
        figures={"fleet.replicas": figure},
    )
