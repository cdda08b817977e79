"""What may happen to a fleet, as events and loads for the simulator: one function for each, listed in SCENARIOS.

Every scenario runs over the same times: a lead that fills the engines, a part before, the loss from `lost_s` to
`back_s`, and a part after. The loss lasts as long as a replacement takes to be ready, so that the backlog grows
as it would in production.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.evidence import Figure, number
from ullage.fleet.failure import domains_of
from ullage.fleet.region import carried_fraction
from ullage.fleet.reserves import Reserves
from ullage.fleet.sites import Placement
from ullage.service.replica import Replica
from ullage.service.trial.mix import LoadAt, MixLoad
from ullage.service.trial.scenario import Scenario
from ullage.service.trial.trial import Trial
from ullage.simulate.fleet import Fleet, FleetEvent
from ullage.simulate.load import PS_PER_S, OpenLoop, Retry
from ullage.workload.demand.demand import Demand

# A request that a failure cuts off is sent again once, as a gateway does; nothing else is repeated.
RETRY = Retry(most_attempts=2, backoff_s=0.1, on_shed=False, on_timeout=False)
# A device that is throttled by heat or power, or shares a link with one that is broken, runs at half its speed.
SLOW_RATIO = 2.0
BURST_S = 60.0
# A cache is full again when as many tokens have passed as it holds; not sooner than a minute, as sessions come back.
LEAST_REFILL_S = 60.0
# A part of a fleet evens out less of what chance brings than the whole, so what it survives the whole survives.
MOST_PLAYED = 128
# Of the planning rate: what stands for hours in which nobody comes.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class Times:
    """When a scenario's parts begin, from the start of the run."""

    counted_s: float
    lost_s: float
    back_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class LossFleet:
    """What scenarios are played on: the fleet as it serves, its traffic, and the reserves it was given.

    `serving` places the replicas behind the router; those beyond its number are devices kept free. Of a very large
    fleet only MOST_PLAYED replicas are simulated, with their share of the load and of every loss, rounded up. Traffic
    too rare to be judged in a day is `brisk_ratio` times as brisk, which no fewer replicas serve.
    """

    trial: Trial
    demand: Demand
    reserves: Reserves
    serving: Placement
    times: Times
    brisk_ratio: float = 1.0

    @property
    def replicas(self) -> int:
        return min(self.serving.replicas, MOST_PLAYED)

    @property
    def share_fraction(self) -> float:
        return self.replicas / self.serving.replicas

    @property
    def load_fraction(self) -> float:
        """The load of the part that is simulated, in loads of the fleet."""
        return self.share_fraction * self.brisk_ratio

    def part(self, replicas: int) -> int:
        """So many of the fleet's replicas in the part of it that is simulated."""
        return math.ceil(replicas * self.share_fraction - 1e-9)

    def some(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The part's own replicas that stand for these of the fleet."""
        return tuple(numbers) if self.share_fraction == 1.0 else tuple(range(self.part(len(numbers))))

    @property
    def replica(self) -> Replica:
        return self.trial.replica

    @property
    def mix(self) -> LoadAt:
        return self.trial.load_at

    @property
    def ordinary(self) -> LoadAt:
        """The mix in the proportions of an ordinary hour, not of the busiest."""
        mix = self.trial.load_at
        return replace(mix, model=self.demand.model) if isinstance(mix, MixLoad) else mix

    @property
    def planning_rps(self) -> float:
        return self.demand.planning_rps * self.load_fraction

    @property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """The replicas of each node, the fullest first."""
        numbers = iter(range(self.serving.replicas))
        sizes = domains_of(self.serving, self.reserves.settings.reliability).nodes
        return tuple(sorted((tuple(islice(numbers, size)) for size in sizes), key=len, reverse=True))


LoadOf = Callable[[int], OpenLoop]


@dataclass(frozen=True, kw_only=True)
class LossScenario(Scenario):
    """A loss to watch. `is_calm` has nothing happen at the planning rate."""

    is_calm: bool = False
    is_on_calm_load: bool = False


Impossible = str
"""Why a scenario cannot be played: nothing would be left to simulate."""


def normal_day(setup: LossFleet) -> LossScenario:
    rate_rps = setup.load_fraction * sum(each.mean_rps for each in setup.demand.classes)

    def load(seed: int) -> OpenLoop:
        return _retried(setup.ordinary(rate_rps=rate_rps, span_s=setup.times.end_s, seed=seed))

    return _scenario(setup, (), load_of=load)


def peak_hour(setup: LossFleet) -> LossScenario:
    return replace(_scenario(setup, ()), is_calm=True)


def lost_replica(setup: LossFleet) -> LossScenario | Impossible:
    return _lost(setup, (0,), "the only replica is lost")


def lost_node(setup: LossFleet) -> LossScenario | Impossible:
    return _lost(setup, setup.nodes[0], "all replicas are on one node")


def lost_zone(setup: LossFleet) -> LossScenario | Impossible:
    largest = max(setup.serving.rows, key=lambda row: row.replicas)
    return _lost(setup, setup.serving.replicas_in(largest.zone), "all replicas are in one zone")


def lost_region(setup: LossFleet) -> LossScenario | Impossible:
    """The region that the loss of another fills most, by itself: its traffic rises while the other is down."""
    regions = setup.reserves.region.shares
    if len(regions) < 2:
        return "all replicas are in one region"
    shares = tuple(each.traffic_fraction for each in regions)
    held = [len(setup.serving.replicas_in_region(each.name)) for each in regions]
    failover = number(setup.reserves.settings.regions.failover)
    carried = [carried_fraction(place, shares, failover) for place in range(len(shares))]
    own = max(range(len(regions)), key=lambda each: carried[each] / max(held[each], 1))
    if held[own] == 0:
        return f"{regions[own].name} has no replica"
    times, ratio = setup.times, carried[own] / shares[own]

    def load(seed: int) -> OpenLoop:
        full = setup.mix(rate_rps=setup.planning_rps * carried[own], span_s=times.end_s, seed=seed)
        return _retried(_thinned(full, _between(full, times.lost_s, times.back_s, 1.0, 1.0 / ratio), seed))

    return LossScenario(fleet=Fleet(replicas=setup.part(held[own])), engines=(setup.replica.engine,), load_of=load)


def rollout_in_its_hours(setup: LossFleet) -> LossScenario:
    """New replicas take the place of old ones, turn by turn, until the time is over."""
    rollout, times = setup.reserves.rollout, setup.times
    surge = setup.part(rollout.surge_replicas)
    free = list(range(setup.replicas, setup.replicas + surge))
    old = list(range(setup.replicas))
    events: list[FleetEvent] = []
    started_count = retired_count = 0
    for turn in rollout.course.turns:
        at_s = times.lost_s + turn.at_s
        if at_s >= times.back_s:
            break
        before, started_count = started_count, started_count + turn.ready_replicas
        # Of a part of the fleet whole replicas come and go: those that go are rounded up, those that come down.
        ready = min(_floor(started_count * setup.share_fraction) - _floor(before * setup.share_fraction), len(free))
        if ready > 0:
            started, free = free[:ready], free[ready:]
            events.append(FleetEvent(at_s=at_s, kind="ready", replicas=tuple(started)))
        before, retired_count = retired_count, retired_count + turn.retired_replicas
        gone = min(setup.part(retired_count) - setup.part(before), len(old))
        if gone > 0:
            retired, old = old[:gone], old[gone:]
            events.append(FleetEvent(at_s=at_s, kind="drain", replicas=tuple(retired)))
            free += retired
    return _scenario(setup, tuple(events), spare_replicas=surge, load_of=_quiet(setup, rollout.figures, "rollout"))


def _floor(count: float) -> int:
    return math.floor(count + 1e-9)


def maintenance_in_its_window(setup: LossFleet) -> LossScenario | Impossible:
    out = setup.some([one for node in setup.nodes[: setup.reserves.maintenance.nodes] for one in node])
    if len(out) >= setup.replicas:
        return "all replicas are drained at once"
    times = setup.times
    return _scenario(
        setup,
        (
            FleetEvent(at_s=times.lost_s, kind="drain", replicas=out),
            FleetEvent(at_s=times.back_s, kind="ready", replicas=out),
        ),
        load_of=_quiet(setup, setup.reserves.maintenance.figures, "maintenance"),
    )


def burst_during_scale_up(setup: LossFleet) -> LossScenario:
    """Demand has risen by what it rises in one start, the replicas for it are still starting, and a burst comes."""
    times, warm = setup.times, setup.reserves.warm
    below = 1.0 - warm.rise_rps / setup.demand.planning_rps
    missing = int(setup.part(setup.reserves.steady_replicas) * (1.0 - below))
    peak = sum(each.peak_minute_rps for each in setup.demand.classes)
    height = max(1.0, peak / sum(each.planning_rps for each in setup.demand.classes))

    def load(seed: int) -> OpenLoop:
        full = setup.mix(rate_rps=setup.planning_rps * height, span_s=times.end_s, seed=seed)
        keep = _between(full, times.lost_s, times.lost_s + BURST_S, 1.0, 1.0 / height)
        early = _arrival_s(full) < times.lost_s
        return _retried(_thinned(full, np.where(early, below / height, keep), seed))

    late = tuple(range(setup.replicas - missing, setup.replicas))
    events = (FleetEvent(at_s=times.back_s, kind="ready", replicas=late),) if late else ()
    fleet = Fleet(replicas=setup.replicas, ready_replicas=setup.replicas - missing, events=events)
    return LossScenario(fleet=fleet, engines=(setup.replica.engine,), load_of=load)


def cache_flush(setup: LossFleet) -> LossScenario:
    """All cached prefixes are lost at once, and every prompt is computed in full until caches are full again."""
    tokens_per_s = setup.load_fraction * float(setup.demand.figures["demand.token_rate"].value)
    refill_s = max(LEAST_REFILL_S, setup.replica.engine.kv_tokens * setup.replicas / tokens_per_s)
    times = setup.times

    def load(seed: int) -> OpenLoop:
        calm = _calm(setup, seed)
        cold = _between(calm, times.lost_s, times.lost_s + refill_s, 1.0, 0.0) > 0.5
        return replace(calm, requests=calm.requests.without_hits(cold))

    return replace(_scenario(setup, (), load_of=load), is_on_calm_load=True)


def slow_replica(setup: LossFleet) -> LossScenario:
    """One replica is replaced by one at half its speed, and later by a sound one again."""
    times, last = setup.times, setup.replicas
    events = (
        FleetEvent(at_s=times.lost_s, kind="ready", replicas=(last,)),
        FleetEvent(at_s=times.lost_s, kind="drain", replicas=(0,)),
        FleetEvent(at_s=times.back_s, kind="ready", replicas=(0,)),
        FleetEvent(at_s=times.back_s, kind="drain", replicas=(last,)),
    )
    return LossScenario(
        fleet=Fleet(replicas=(setup.replicas, 1), ready_replicas=setup.replicas, events=events),
        engines=(setup.replica.engine, setup.replica.slowed(SLOW_RATIO).engine),
        load_of=lambda seed: _calm(setup, seed),
        is_on_calm_load=True,
    )


SCENARIOS: dict[str, Callable[[LossFleet], LossScenario | Impossible]] = {
    "normal_day": normal_day,
    "peak_hour": peak_hour,
    "replica": lost_replica,
    "node": lost_node,
    "zone": lost_zone,
    "region": lost_region,
    "rollout": rollout_in_its_hours,
    "maintenance": maintenance_in_its_window,
    "burst": burst_during_scale_up,
    "cache_flush": cache_flush,
    "slow_replica": slow_replica,
}


def _lost(setup: LossFleet, of_fleet: tuple[int, ...], why_not: str) -> LossScenario | Impossible:
    lost = setup.some(of_fleet)
    if len(lost) >= setup.replicas:
        return why_not
    times = setup.times
    return _scenario(
        setup,
        (
            FleetEvent(at_s=times.lost_s, kind="fail", replicas=lost),
            FleetEvent(at_s=times.back_s, kind="repair", replicas=lost),
        ),
    )


def _scenario(
    setup: LossFleet, events: tuple[FleetEvent, ...], *, spare_replicas: int = 0, load_of: LoadOf | None = None
) -> LossScenario:
    """These events on the serving fleet; at the planning rate where no other load is given."""
    fleet = Fleet(replicas=setup.replicas + spare_replicas, ready_replicas=setup.replicas, events=events)
    return LossScenario(
        fleet=fleet,
        engines=(setup.replica.engine,),
        load_of=load_of or (lambda seed: _calm(setup, seed)),
        is_on_calm_load=load_of is None,
    )


def _calm(setup: LossFleet, seed: int, share_fraction: float = 1.0) -> OpenLoop:
    rate_rps = share_fraction * setup.planning_rps
    return _retried(setup.mix(rate_rps=rate_rps, span_s=setup.times.end_s, seed=seed))


def _quiet(setup: LossFleet, figures: Mapping[str, Figure], work: str) -> LoadOf | None:
    """The load that planned work meets in its own hours; None where those are as busy as any.

    Users who are at work by day leave the night without a request, and from none nothing can be learnt: it gets some.
    """
    share = max(_LEAST_SHARE, number(figures[f"reserve.{work}_demand_fraction"]))
    return None if share >= 1.0 else lambda seed: _calm(setup, seed, share)


def _retried(load: OpenLoop) -> OpenLoop:
    return replace(load, retry=RETRY)


def _arrival_s(load: OpenLoop) -> NDArray[np.float64]:
    assert load.arrival_ps is not None
    return np.asarray(load.arrival_ps / PS_PER_S)


def _between(load: OpenLoop, from_s: float, until_s: float, inside: float, outside: float) -> NDArray[np.float64]:
    """One number for requests that arrive between two times, another for all others."""
    at_s = _arrival_s(load)
    return np.where((at_s >= from_s) & (at_s < until_s), inside, outside)


def _thinned(load: OpenLoop, keep: NDArray[Any], seed: int) -> OpenLoop:
    """Each request kept with its own chance, by a stream of draws of this seed."""
    kept = np.random.default_rng((seed, 2)).random(load.requests.count) < keep
    assert load.arrival_ps is not None
    return replace(load, arrival_ps=load.arrival_ps[kept], requests=load.requests.part(kept))
