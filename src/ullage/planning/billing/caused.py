"""Which class makes how much of a pool necessary: the pool is sized again for some of its classes at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ullage.cost.attribution.causation import Causation, causation
from ullage.cost.attribution.usage import GroupUse
from ullage.planning.pool_plan import PoolPlan
from ullage.service.trial.decide import STEEPNESS, Decision, Effort, judge, sampled, scout_windows
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import LeastReplicas, highest_load, least_replicas, tested_pool
from ullage.service.trial.strata import strata_of

# A part of a fleet is told to about a replica by so few windows, on the bursts of the whole; nothing is bought by it.
EFFORT = Effort(most_windows=8, most_requests=1e6, first_fraction=0.4)
# Of so many replicas one number that is nearly right tells where nothing would be left to spare, by how steep the whole
# pool is there; a few looks come as near.
_MANY_REPLICAS, _NEAR_EXCESS, _MOST_LOOKS = 8, 0.4, 3
_LEAST_STEEPNESS, _MOST_STEEPNESS = STEEPNESS / 2.0, STEEPNESS * 2.0


@dataclass(frozen=True, kw_only=True)
class PartLoad:
    """Some of a pool's traffic: its mix, its rate, and how many replicas' time it takes where each is idle before."""

    mix: MixLoad
    rate_rps: float
    busy_fraction: float


def caused_replicas(pool: PoolPlan, *, seed: int, map: Any = map) -> Causation | None:  # noqa: A002
    """The steady replicas of the pool by class, at the planning rate; None where there is nothing to tell apart."""
    size = pool.steady_fleet.size
    mix = size.bases.conservative.load_at
    if len(size.bases.conservative.classes) < 2 or not isinstance(mix, MixLoad):
        return None
    rates_rps = planning_rates_rps(pool, mix)
    busy = {name: rate * size.probe.work_s.get(name, 0.0) for name, rate in rates_rps.items()}

    def needed(names: frozenset[str]) -> float:
        part = PartLoad(
            mix=mix.part(names),
            rate_rps=sum(rates_rps[each] for each in names),
            busy_fraction=sum(busy[each] for each in names),
        )
        return part_replicas(pool, part, share=part.busy_fraction / max(sum(busy.values()), 1e-300), seed=seed, map=map)

    return causation(busy, needed)


def planning_rates_rps(pool: PoolPlan, mix: MixLoad) -> dict[str, float]:
    """What the steady replicas were sized for, by class."""
    seen_rps = {each.name: each.mean_rate_rps for each in mix.model.classes}
    scale = pool.steady_fleet.size.rate_rps / sum(seen_rps.values())
    return {name: rate * scale for name, rate in seen_rps.items()}


def part_replicas(pool: PoolPlan, load: PartLoad, *, share: float, seed: int, map: Any = map) -> float:  # noqa: A002
    """How many replicas of the pool this part of its traffic would need, in parts of one; `share` is where to look."""
    size = pool.steady_fleet.size
    names = {each.name for each in load.mix.model.classes}
    classes = tuple(each for each in size.bases.conservative.classes if each.name in names)
    if not any(each.slos for each in classes):
        # Nobody holds these to a limit: they need the time that they keep engines busy.
        return load.busy_fraction
    part = replace(size.bases.conservative, load_at=load.mix, classes=classes)
    strata = strata_of(part.load_at, span_s=part.span_s, seed=seed, work_s=size.probe.work_s)

    def at(replicas: int) -> Decision:
        tested, tested_rps = tested_pool(part, load.rate_rps, replicas)
        return judge(tested, tested_rps, sampled(tested, tested_rps, strata, scout_windows(strata), map=map))

    start = max(1, round(share * size.conservative.replicas))
    told = told_replicas(at, start, pool_steepness(size.conservative))
    if told is not None:
        return told
    found = least_replicas(
        part, load.rate_rps, size.probe, seed=seed, effort=EFFORT, start=start, is_bought=False, map=map
    )
    if found.replicas > 1 and found.below is not None:
        return between_replicas(found)
    one = highest_load(part, size.probe, seed=seed, effort=EFFORT, with_interval=False, map=map)
    return min(1.0, load.rate_rps / one.rps) if one.rps > 0.0 else 1.0


def told_replicas(at: Callable[[int], Decision], start: int, steepness: float) -> float | None:
    """Where nothing would be left to spare, told by one number near it; None for few replicas, or where none is near.

    What is missed grows by `steepness` times what the load of a replica does.
    """
    replicas = start
    for _ in range(_MOST_LOOKS):
        if replicas < _MANY_REPLICAS:
            return None
        excess = at(replicas).excess
        told = replicas * math.exp(excess / steepness)
        if abs(excess) <= _NEAR_EXCESS:
            return told
        replicas = round(told)
    return None


def pool_steepness(found: LeastReplicas) -> float:
    """How many times as fast as its load what a pool misses grows, by its size and a step fewer."""
    fewer = found.replicas - found.step_replicas
    if found.below is None or fewer < 1:
        return STEEPNESS
    grown = (found.below.excess - found.at.excess) / math.log(found.replicas / fewer)
    return min(max(grown, _LEAST_STEEPNESS), _MOST_STEEPNESS)


def between_replicas(found: LeastReplicas) -> float:
    """Where between the least that is enough and the next smaller one nothing would be left to spare.

    A straight line through what is used of the allowance at both; a step of a large pool is several replicas.
    """
    assert found.below is not None
    over, under = found.below.excess, found.at.excess
    step = found.step_replicas
    return found.replicas - step + step * (over / (over - under) if over > under and over > 0.0 else 1.0)


def with_cause(group: GroupUse, pool: PoolPlan, caused: Causation | None) -> GroupUse:
    """The group with its part of the steady devices: a pool's only group makes all of it necessary."""
    replicas: float = pool.steady_fleet.replicas
    if caused is not None:
        replicas *= caused.caused.get(group.name, 0.0) / max(caused.replicas, 1e-300)
    return replace(group, caused_devices=replicas * pool.memory.runtime.sharding.devices)
