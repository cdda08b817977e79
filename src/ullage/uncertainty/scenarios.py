"""Scenarios: futures that are planned for as if they were known, from the best to the worst.

The best and the worst are not every input at its extreme at once, which never happens: they are what the draws are like
on average whose need lies at the 10th and the 90th percentile, and the base those at the 50th. In such a world demand,
step times, lengths and cached share are known, so that its plan has no margin for them; reserves stay.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ullage.evidence import Assumption, Evidence, Source, number
from ullage.fleet.risk.load_draws import DEMAND, drawn_points, load_draws
from ullage.fleet.risk.surface import CACHED, OUTPUTS, PROMPTS, STEPS
from ullage.planning.again import with_demand_times
from ullage.planning.document import Plan
from ullage.planning.spec import ClassDemand, PlanSpec, PoolSpec
from ullage.uncertainty.pool_study import DRAWS, pool_surface
from ullage.workload.demand.demand import MeasuredClass
from ullage.workload.demand.stand_in import built_in_like
from ullage.workload.demand.stated import StatedShape
from ullage.workload.synthetic.model import ClassModel, SyntheticModel
from ullage.workload.synthetic.whatif import and_then, outputs, prompts

FRACTIONS: Mapping[str, float] = {"best": 0.1, "base": 0.5, "worst": 0.9}
# Draws this near to a percentile are what it is like.
_NEAR_FRACTION = 0.04


@dataclass(frozen=True, kw_only=True)
class FutureWorld:
    """One future: by name of each input, so many times what is planned with. Ratios of a pool are its own."""

    name: str
    demand_ratio: float
    pools: Mapping[str, Mapping[str, float]]


def worlds(plan: Plan, *, map: object = map, jobs: object = map) -> tuple[FutureWorld, ...]:  # noqa: A002
    """Best, base and worst, by what the largest pool needs; other pools are as they are in the same part of theirs."""
    by_pool: dict[str, dict[str, dict[str, float]]] = {}
    demands: dict[str, float] = {}
    largest = max(plan.pools, key=lambda each: each.reserves.total_replicas * each.reserves.devices_per_replica)
    for pool in plan.pools:
        given, surface = pool_surface(pool, plan.spec, seed=plan.seed, map=map, jobs=jobs)
        drawn = load_draws(given, surface, drawn_points(given, DRAWS, seed=plan.seed))
        need = drawn.busiest_rps * drawn.slowdowns
        order = need.argsort(kind="stable")
        shares = np.array([each.middle_rps for each in given.classes])
        level = drawn.levels @ shares / shares.sum()
        for name, fraction in FRACTIONS.items():
            middle, wide = fraction * need.size, _NEAR_FRACTION * need.size
            near = order[max(0, int(middle - wide)) : int(middle + wide) + 1]
            ratios = {key: _mean(each[near]) for key, each in drawn.ratios.items() if key in surface.axes}
            by_pool.setdefault(name, {})[pool.spec.name] = ratios
            if pool is largest:
                demands[name] = _mean(level[near])
    return tuple(FutureWorld(name=name, demand_ratio=demands[name], pools=by_pool[name]) for name in FRACTIONS)


def _mean(ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.exp(np.log(ratios).mean()))


def in_world(spec: PlanSpec, world: FutureWorld, *, as_of: datetime.date) -> PlanSpec:
    """The specification as it would be if this future were known."""
    source = Source(what=f"the {world.name} of the plan's own draws", where="ullage scenarios", date=as_of)
    even = replace(spec.policy.shortfall, value=0.5, low=None, high=None)
    known = with_demand_times(replace(spec, policy=replace(spec.policy, shortfall=even)), world.demand_ratio)
    # A class that several pools share has the lengths of the first of them.
    ratios = {
        each.request_class.name: world.pools.get(next(iter(_pools_of(spec, each))), {}) for each in spec.demands
    }  # fmt: skip
    traffic = known.traffic
    return replace(
        known,
        demands=tuple(_with_shape(each, ratios[each.request_class.name], source) for each in known.demands),
        traffic=None
        if traffic is None
        else replace(
            traffic,
            classes={name: _measured(each, ratios.get(name, {})) for name, each in traffic.classes.items()},
        ),
        pools=tuple(_with_steps(each, world.pools.get(each.name, {}), source) for each in known.pools),
    )


def _pools_of(spec: PlanSpec, demand: ClassDemand) -> tuple[str, ...]:
    found = tuple(each.name for each in spec.pools if demand in spec.served_by(each.name))
    return found or (demand.pool,)


def _with_steps(pool: PoolSpec, ratios: Mapping[str, float], source: Source) -> PoolSpec:
    ratio = Assumption(
        name=f"scenario.{pool.name}.step_ratio",
        value=ratios.get(STEPS, 1.0),
        unit="ratio",
        evidence=Evidence.STATED,
        source=source,
    )
    return replace(pool, step_ratio=ratio)


def _with_shape(demand: ClassDemand, ratios: Mapping[str, float], source: Source) -> ClassDemand:
    """Stated percentiles times the ratio; where nothing is stated, the built-in class with other lengths."""
    shape = demand.shape or StatedShape()
    longest = int(number(demand.longest_context))
    like = shape.model or built_in_like(demand.request_class.name, longest)
    cached = shape.cached
    if cached is not None:
        cached = replace(cached, value=min(1.0, number(cached) * ratios.get(CACHED, 1.0)), low=None, high=None)
    return replace(
        demand,
        shape=replace(
            shape,
            model=changed_model(like, ratios),
            model_source=shape.model_source or source,
            prompt=_scaled(shape.prompt, ratios.get(PROMPTS, 1.0)),
            output=_scaled(shape.output, ratios.get(OUTPUTS, 1.0)),
            cached=cached,
        ),
    )


def _scaled(stated: Mapping[float, Assumption] | None, ratio: float) -> Mapping[float, Assumption] | None:
    if stated is None:
        return None
    return {
        fraction: replace(each, value=max(1, round(number(each) * ratio)), low=None, high=None)
        for fraction, each in stated.items()
    }


def _measured(found: MeasuredClass, ratios: Mapping[str, float]) -> MeasuredClass:
    return replace(found, model=changed_model(found.model, ratios))


def changed_model(model: ClassModel, ratios: Mapping[str, float]) -> ClassModel:
    """The class with other lengths, and more or less of its prompts in the cache."""
    changed = and_then(
        SyntheticModel(classes=(model,)), prompts(ratios.get(PROMPTS, 1.0)), outputs(ratios.get(OUTPUTS, 1.0))
    )
    (found,) = changed.classes
    share = ratios.get(CACHED, 1.0)
    reuse = replace(
        found.reuse,
        first_turn_fractions=tuple(min(1.0, share * each) for each in found.reuse.first_turn_fractions),
        later_turn_fractions=tuple(min(1.0, share * each) for each in found.reuse.later_turn_fractions),
    )
    return replace(found, reuse=reuse)


def world_words(world: FutureWorld, pool: str) -> str:
    """What is different in a world, of one pool."""
    names = {STEPS: "steps", PROMPTS: "prompts", OUTPUTS: "answers", CACHED: "cached share"}
    said = [f"{DEMAND} x{world.demand_ratio:.2f}"]
    said += [f"{names[name]} x{ratio:.2f}" for name, ratio in world.pools.get(pool, {}).items()]
    return ", ".join(said)
