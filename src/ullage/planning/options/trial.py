"""A candidate simulated: the replicas it needs, the cost of a success on it, and the confidence of both.

Every candidate is tried on the same seeds (common random numbers), by the same trial and the same rule that size a
plan: the plan's own candidate gets the plan's own number. Early rounds decide on fewer windows, the last on all.

    cost of a success = USD per device-hour x devices paid for / successes per hour

Paid for are steady replicas, with the margin for weak evidence, reserves, and what is stranded on their machines.
Other lines of the bill do not depend on the device, so they are left out.
"""

from __future__ import annotations

import math
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
from ullage.service.curve.curve import StablePoint, point_of
from ullage.service.curve.sizing import PoolSize, idle_rejection
from ullage.service.stage import pool_bases
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import FULL, Effort
from ullage.service.trial.search import LeastReplicas, least_replicas
from ullage.simulate.statistics import Interval
from ullage.startup.ready import TimeToReady, time_to_ready

# Windows that decide a size in each round; the last has as many as a plan.
ROUNDS = (Effort(most_windows=20), Effort(most_windows=52), FULL)


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """What a candidate needs and costs, as far as a round decided it.

    `score` is what it is ranked by, `unit` what that is in: USD per success, or devices where its device has no price.
    Its interval ends where the undecided numbers of replicas end. `headroom_fraction` is the part of its limit that the
    SLO nearest to being violated leaves, at the planning rate and with conservative step times. `tested_score` is the
    score where a load test finds steps as long as they are estimated: the margin for weak evidence is then not needed.
    """

    fit: Fit
    steady_replicas: int
    reserve_replicas: int
    paid_devices: int
    success_fraction: float
    headroom_fraction: float
    score: Interval
    tested_score: float
    unit: str
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
    """One candidate's simulations; what a round found is remembered for the next.

    `start` is where the search for its number begins, where something like it was measured.
    """

    def __init__(self, fit: Fit, *, start: int | None = None, map: Any = map) -> None:  # noqa: A002
        self.fit, self._map = fit, map
        self._seed, self._rate_rps = fit.asked.seed, fit.asked.rate_rps
        self._start = start

    # What follows is simulated, so it waits until the candidate's bounds have been checked.

    @cached_property
    def bases(self) -> Bases:
        fit, asked = self.fit, self.fit.asked
        deadlines_s = asked.spec.admission.deadlines_s(asked.classes)
        return pool_bases(
            fit.step, fit.memory, asked.demand, asked.classes,
            seed=self._seed, deadlines_s=deadlines_s, band=fit.band,
        )  # fmt: skip

    @cached_property
    def _ready(self) -> TimeToReady:
        return time_to_ready(self.fit.memory, self.fit.candidate.pool.start, rng=np.random.default_rng(self._seed))

    def idle_refusal(self) -> Rejection | None:
        """Why no number of replicas would do, where a nearly idle one already violates an SLO."""
        found = idle_rejection(self.bases, seed=self._seed, inputs=self.fit.inputs, map=self._map)
        return None if found is None else replace(found, stage="simulation")

    def measured(self, effort: Effort) -> CandidateResult | Rejection:
        """The candidate as this effort decides it; a quota or a policy that it cannot meet is a refusal."""
        fit, size = self.fit, self.least(effort)
        replicas = self._at_least(size.replicas)
        steady = self._steady(size, replicas)
        reserved = self._reserved(steady)
        if isinstance(reserved, Rejection):
            return reserved
        reserves, packing = reserved
        most = fit.candidate.pool.most
        if most is not None and replicas + reserves.replicas > int(most.value):
            return _too_many(fit, replicas + reserves.replicas, most)
        paid, reserve = packing.chosen.devices, reserves.replicas
        share = self._success_fraction(steady)
        value = self._score(float(paid), share)
        # A smaller number would also strand and reserve in proportion.
        low = self._at_least(size.low_replicas)
        tested = self._at_least(math.ceil(low / fit.band.slow_ratio))
        return CandidateResult(
            fit=fit,
            steady_replicas=replicas,
            reserve_replicas=reserve,
            paid_devices=paid,
            success_fraction=share,
            headroom_fraction=_headroom_fraction(steady.size),
            score=Interval(
                value=value,
                low=value * (low + reserve) / (replicas + reserve),
                high=value,
                confidence_fraction=0.95,
            ),
            tested_score=value * (tested + reserve) / (replicas + reserve),
            unit=DEVICES if fit.usd_per_hour is None else USD,
            reserves=reserves,
        )

    def least(self, effort: Effort, *, rate_rps: float | None = None) -> LeastReplicas:
        """The least replicas that meet every SLO with conservative step times."""
        rate, start = rate_rps or self._rate_rps, self._start
        found = least_replicas(
            self.bases.conservative,
            rate,
            self.bases.conservative_probe,
            seed=self._seed,
            effort=effort,
            start=None if start is None else max(1, round(start * rate / self._rate_rps)),
            map=self._map,
        )
        if rate_rps is None:
            self._start = found.replicas
        return found

    def looked(self, effort: Effort) -> tuple[CandidateResult | Rejection, int | None]:
        """What this effort decides, and where the next round begins, for work on another core."""
        return self.measured(effort), self._start

    def goes_on_from(self, start: int | None) -> None:
        """The next round begins where work on another core left off."""
        self._start = start

    def _at_least(self, replicas: int) -> int:
        always = self.fit.candidate.pool.least
        return max(replicas, 0 if always is None else int(always.value))

    def devices_at(self, rate_rps: float) -> tuple[int, int]:
        """Replicas, and devices with reserves, at another rate of the same mix, whatever today's quotas hold."""
        size = self.least(ROUNDS[0], rate_rps=rate_rps)
        return size.replicas, self._without_quotas(self._steady(size, self._at_least(size.replicas)))[1]

    def with_reserves(self, replicas: int) -> tuple[int, int]:
        """Reserve replicas of a pool of this size, and the devices that are paid for with them, without quotas."""
        return self._without_quotas(self._steady(self.least(ROUNDS[0]), replicas))

    def _without_quotas(self, steady: SteadyFleet) -> tuple[int, int]:
        found = self._reserved(steady, within_quotas=False)
        if isinstance(found, Rejection):
            raise InternalError(
                law="without quotas every fleet can be placed", left=found.reason, right=steady.replicas
            )
        reserves, packing = found
        return reserves.replicas, packing.chosen.devices

    def _steady(self, size: LeastReplicas, replicas: int) -> SteadyFleet:
        """The steady fleet as the reserves need it."""
        fit = self.fit
        at_size = point_of(replace(self.bases.conservative, replicas=size.tested_replicas), size.at)
        if not isinstance(at_size, StablePoint):
            raise InternalError(law="a pool that meets its SLOs is sustained", left=replicas, right=self._rate_rps)
        figure = Figure(
            name="fleet.replicas",
            value=replicas,
            unit="replicas",
            formula=f"least pool of {fit.candidate.name} that meets every SLO with conservative step times",
            inputs=fit.inputs,
        )
        found = PoolSize(
            rate_rps=self._rate_rps,
            bases=self.bases,
            nominal=size,
            conservative=size,
            at_size=at_size,
            devices=fit.devices,
            figures={},
        )
        return SteadyFleet(
            size=found,
            replicas=replicas,
            nominal_replicas=size.replicas,
            devices=replicas * fit.devices,
            figures={"fleet.replicas": figure},
            need=fit.need,
        )

    def _reserved(self, steady: SteadyFleet, *, within_quotas: bool = True) -> tuple[Reserves, Packing] | Rejection:
        fit, spec, pool = self.fit, self.fit.asked.spec, self.fit.candidate.pool
        return on_machines(
            pool,
            spec,
            pool.settings.sharding,
            steady,
            self._ready,
            fit.asked.demand,
            sites=_placed_in(spec.options.sites.get(pool.device.name), within_quotas=within_quotas),
            seed=fit.asked.seed,
        )

    def _success_fraction(self, steady: SteadyFleet) -> float:
        """The part of a month's requests that end well and within their limits, over the levels of its hours."""
        asked = self.fit.asked
        runs = level_runs(asked.demand, steady.trial, seed=self._seed, map=self._map)
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
        reason=f"{replicas} replicas are needed with reserves, but only {most.value} may run",
        figure=Figure(
            name="option.replicas",
            value=replicas,
            unit="replicas",
            formula="steady replicas + reserves",
            inputs=(*fit.inputs, most),
        ),
        remedies=(Remedy(change=f"most_replicas of {replicas}", effect="it may run"),),
    )


def _headroom_fraction(size: PoolSize) -> float:
    uses = [
        found.value / slo.limit_s
        for each in size.bases.conservative.classes
        for slo in each.slos
        if (found := size.at_size.latencies[each.name].get(slo.name)) is not None
    ]
    return 1.0 - max(uses, default=0.0)
