"""Which class makes how much of a pool necessary: the pool is sized again for some of its classes at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ullage.cost.attribution.causation import Causation, causation
from ullage.cost.attribution.usage import GroupUse
from ullage.planning.pool_plan import PoolPlan
from ullage.service.trial.decide import STEEPNESS, Decision, Effort, judge, sampled, scout_windows
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import LeastReplicas, highest_load, least_replicas, tested_pool
from ullage.service.trial.strata import strata_of
from ullage.service.trial.trial import Trial

# A part of a fleet is told to about a replica by so few windows, on the bursts of the whole; nothing is bought by it.
EFFORT = Effort(most_windows=8, most_requests=1e6, first_fraction=0.4)
# Of so many replicas one number that is nearly right tells where nothing would be left to spare, by how steep the whole
# pool is there; a few samples come as near.
_MANY_REPLICAS, _NEAR_EXCESS, _MOST_LOOKS = 8, 0.4, 3
_LEAST_STEEPNESS, _MOST_STEEPNESS = STEEPNESS / 2.0, STEEPNESS * 2.0


def caused_replicas(pool: PoolPlan, *, seed: int, map: Any = map) -> Causation | None:  # noqa: A002
    """The steady replicas of the pool by class, at the planning rate; None where there is nothing to tell apart."""
    steady = pool.steady_fleet
    trial, mix = steady.size.bases.conservative, steady.size.bases.conservative.load_at
    if len(trial.classes) < 2 or not isinstance(mix, MixLoad):
        return None
    work_s, probe = steady.size.probe.work_s, steady.size.probe
    rates_rps = {each.name: each.mean_rate_rps for each in mix.model.classes}
    scale = steady.size.rate_rps / sum(rates_rps.values())
    busy = {name: rate * scale * work_s.get(name, 0.0) for name, rate in rates_rps.items()}
    steepness = pool_steepness(steady.size.conservative)

    def needed(names: frozenset[str]) -> float:
        share = sum(busy[each] for each in names) / max(sum(busy.values()), 1e-300)
        part = _with_classes(trial, mix, names)
        if part is None:
            # These have no SLO: they need the time that they keep engines busy.
            return sum(busy[each] for each in names)
        rate_rps = scale * sum(rates_rps[each] for each in names)
        start = max(1, round(share * steady.size.conservative.replicas))
        strata = strata_of(part.load_at, span_s=part.span_s, seed=seed, work_s=work_s)

        def at(replicas: int) -> Decision:
            tested, tested_rps = tested_pool(part, rate_rps, replicas)
            return judge(tested, tested_rps, sampled(tested, tested_rps, strata, scout_windows(strata), map=map))

        told = told_replicas(at, start, steepness)
        if told is not None:
            return told
        found = least_replicas(part, rate_rps, probe, seed=seed, effort=EFFORT, start=start, is_bought=False, map=map)
        if found.replicas > 1 and found.below is not None:
            return between_replicas(found)
        one = highest_load(part, probe, seed=seed, effort=EFFORT, with_interval=False, map=map)
        return min(1.0, rate_rps / one.rps) if one.rps > 0.0 else 1.0

    return causation(busy, needed)


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
    """The group with its part of the steady devices: a pool's only class, or its model, makes all of it necessary."""
    replicas: float = pool.steady_fleet.replicas
    if caused is not None and group.name in caused.caused:
        replicas *= caused.caused[group.name] / max(caused.replicas, 1)
    return replace(group, caused_devices=replicas * pool.memory.runtime.sharding.devices)


def _with_classes(trial: Trial, mix: MixLoad, names: frozenset[str]) -> Trial | None:
    """The same replica under some of its classes; None where none of them has an SLO."""
    classes = tuple(each for each in trial.classes if each.name in names)
    if not any(each.slos for each in classes):
        return None
    return replace(trial, load_at=mix.part(names), classes=classes)
