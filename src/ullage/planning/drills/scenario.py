"""What drills are simulated on: one pool as it was planned, its traffic at the planning rate, and how to judge a run.

The fleet is the steady one with the reserves that stand behind the router, and steps take as long as it was sized for,
as in the loss checks (fleet/losses.py). Unlike those, drills search for the smallest change that would pass, and
simulate it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.cost.bill import Bill
from ullage.errors import InternalError, Rejection
from ullage.evidence import Assumption, Figure
from ullage.fleet.loss_scenarios import RETRY
from ullage.fleet.sites import Placement, place
from ullage.planning.document import Plan
from ullage.planning.drills.result import DrillResult, DrillVerdict
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.spec import PlanSpec
from ullage.service.replica import Replica
from ullage.service.trial.attainment import Attainment, part
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.scenario import Scenario, watched
from ullage.service.trial.trial import Trial
from ullage.simulate.load import PS_PER_S, OpenLoop
from ullage.simulate.statistics import replication_seeds
from ullage.workload.classes import RequestClass

# Three runs tell an SLO that is kept from one that was lucky.
RUNS = 3
LEAD_S = 120.0
BEFORE_S = 240.0
# A repair or a start takes this long or longer, so the queue that builds up in it is realistic.
EVENT_S = 600.0
# Requests that came shortly before the event are still running when it comes.
EDGE_S = 60.0
# So few requests in an event tell a p95 from a p90. A service with less traffic is simulated for longer.
_LEAST_REQUESTS = 600
# A fleet of more than four times the size is another plan, and is not searched.
MOST_RATIO = 4.0


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a run's parts begin: counted from `counted_s`, something happens from `hit_s` to `end_s`."""

    counted_s: float
    hit_s: float
    end_s: float

    @property
    def run_s(self) -> float:
        return self.end_s + EDGE_S


@dataclass(frozen=True, kw_only=True)
class DrillAttainment:
    """The SLO that was attained worst during the event, and the same SLO before it."""

    before: Attainment
    during: Attainment

    @property
    def holds(self) -> bool:
        return self.during.holds

    @property
    def verdict(self) -> DrillVerdict:
        if self.holds:
            return DrillVerdict.PASSES
        return DrillVerdict.FAILS if self.during.surely_breaks else DrillVerdict.UNDECIDED


@dataclass(frozen=True, kw_only=True)
class PoolScenario:
    """A pool of a plan, ready to be drilled."""

    plan: Plan
    pool: PoolPlan

    @property
    def spec(self) -> PlanSpec:
        return self.plan.spec

    @property
    def seed(self) -> int:
        return self.plan.seed

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        return tuple(each.request_class for each in self.pool.demands)

    @property
    def planning_rps(self) -> float:
        return self.pool.demand.planning_rps

    @property
    def bill(self) -> Bill | None:
        found = next((each.answer for each in self.plan.stages if each.name == "bill"), None)
        return found if isinstance(found, Bill) else None

    @property
    def slow_ratio(self) -> float:
        return self.pool.steady_fleet.size.band.slow_ratio

    @property
    def trial(self) -> Trial:
        """The pool on the step basis it was sized with."""
        return self.pool.steady_fleet.trial

    @property
    def replica(self) -> Replica:
        return self.trial.replica

    @property
    def mix(self) -> MixLoad:
        mix = self.trial.load_at
        assert isinstance(mix, MixLoad)
        return mix

    @property
    def replicas(self) -> int:
        """Those behind the router: the steady ones and the reserves that serve."""
        return self.pool.reserves.steady_replicas + self.pool.reserves.serving_replicas

    def placed(self, more: int = 0) -> Placement:
        """The serving replicas, and so many more, over the zones; quotas do not apply, only the spread counts."""
        found = place(
            self.replicas + more,
            self.pool.reserves.placement.sites.without_quotas(),
            devices=self.pool.reserves.devices_per_replica,
            node_replicas=self.pool.reserves.placement.node_replicas,
            spread_nodes=self.pool.reserves.placement.spread_nodes,
        )
        if isinstance(found, Rejection):
            raise InternalError(law="replicas without quotas can be placed", left=found.reason, right=more)
        return found

    @property
    def rests(self) -> tuple[Figure | Assumption, ...]:
        """What every figure of a drill on the fleet was computed from."""
        reserves = self.pool.reserves
        return (
            self.pool.steady_fleet.figures["fleet.replicas"],
            *(reserves.figures[f"reserve.{line.name}_replicas"] for line in reserves.lines),
            self.pool.steady_fleet.size.band.slow_input,
        )

    def span(self, event_s: float = EVENT_S) -> Span:
        longer = max(1.0, _LEAST_REQUESTS / (self.planning_rps * event_s))
        hit_s = longer * (LEAD_S + BEFORE_S)
        return Span(counted_s=longer * LEAD_S, hit_s=hit_s, end_s=hit_s + longer * event_s)

    def calm(self, seed: int, span_s: float) -> OpenLoop:
        """The planning rate, bursts included; what a failure cuts off is sent again once."""
        return replace(self.mix(rate_rps=self.planning_rps, span_s=span_s, seed=seed), retry=RETRY)

    def play(self, setup: Scenario, span: Span, *, runs: int = RUNS) -> DrillAttainment:
        """Simulate the scenario and judge it by the SLO with the least attainment."""
        trial = replace(self.trial, classes=self.classes)
        found = [watched(trial, setup, until_s=span.run_s, seed=seed) for seed in replication_seeds(self.seed, runs)]
        hit_s = span.hit_s - EDGE_S
        during = part(found, from_s=hit_s, until_s=span.end_s)
        if during is None:
            raise InternalError(law="a drill has requests to judge", left=0, right=self.planning_rps)
        same = [{during.slo_name: each[during.slo_name]} for each in found]
        before = part(same, from_s=span.counted_s, until_s=hit_s)
        return DrillAttainment(before=before or during, during=during)

    def least_more(self, passes: Callable[[int], bool]) -> int | None:
        """The fewest further replicas that pass, to a thirty-second of the fleet; None where none does."""
        most = max(4, math.ceil((MOST_RATIO - 1.0) * self.replicas))
        return least_of(passes, most=most, grain=max(1, self.replicas // 32))

    def figure(self, name: str, value: float, unit: str, formula: str, *beside: Figure | Assumption) -> Figure:
        several = len(self.plan.pools) > 1
        return Figure(
            name=f"{self.pool.spec.name}.drill.{name}" if several else f"drill.{name}",
            value=value,
            unit=unit,
            formula=formula,
            inputs=(*self.rests, *beside),
        )

    def judged(
        self,
        name: str,
        title: str,
        kept: DrillAttainment,
        *,
        played: str,
        change: Callable[[], str],
        beside: Sequence[Figure | Assumption] = (),
    ) -> DrillResult:
        """The result of a drill that is judged by SLOs; the change is searched only where it is needed."""
        required, slo_name = kept.during.required_fraction, kept.during.slo_name
        return DrillResult(
            name=name,
            title=title,
            pool=self.pool.spec.name,
            verdict=kept.verdict,
            figure=f"requests within {slo_name}",
            before=self.figure(
                f"{name}.before_fraction",
                kept.before.attained.value,
                "fraction",
                f"requests that met {slo_name} before {title}, simulated",
                *beside,
            ),
            during=self.figure(
                f"{name}.during_fraction",
                kept.during.attained.value,
                "fraction",
                f"requests that met {slo_name} during {title}, simulated; {required:g} is required",
                *beside,
            ),
            wanted=f"{100 * required:g} %",
            played=played,
            change="" if kept.holds else change(),
        )


def least_of(passes: Callable[[int], bool], *, most: int, grain: int = 1) -> int | None:
    """The least number from 1 to `most` that passes, in steps of `grain`; None where `most` does not pass.

    >>> least_of(lambda n: n >= 7, most=20), least_of(lambda n: n >= 7, most=20, grain=4), least_of(bool, most=0)
    (7, 8, None)
    """
    places = math.ceil(most / grain)
    if places < 1 or not passes(places * grain):
        return None
    low, high = 0, places
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle * grain) else (middle, high)
    return high * grain


def arrival_s(load: OpenLoop) -> NDArray[np.float64]:
    assert load.arrival_ps is not None
    return np.asarray(load.arrival_ps / PS_PER_S)
