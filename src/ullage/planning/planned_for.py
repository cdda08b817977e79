"""What a plan is made for: the percentile of demand and the pace of steps at which its chosen risk is met."""

from __future__ import annotations

from dataclasses import replace

from ullage.errors import Rejection
from ullage.evidence import Assumption
from ullage.fleet.risk.planning_point import (
    NeedSpread,
    PlanningPoint,
    need_spread,
    planned_percentile,
    planning_point,
    pool_chance,
)
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.planning.sides import pool_asked
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.service.calibration.aged import aged_steps
from ullage.service.calibration.pool_step import pool_step
from ullage.service.calibration.slowed import known_steps
from ullage.service.stage import band_of
from ullage.service.steps.step_model import StepModel
from ullage.workload.demand.demand import Demand, forecast_demand

_EVEN = 0.5


def demand_at(spec: PlanSpec, percentile: Assumption) -> Demand:
    """The whole service's demand at a percentile of its busiest hour."""
    return forecast_demand(spec.demands, horizon=spec.policy.horizon, percentile=percentile, measured=spec.measured)


def demand_fraction(spec: PlanSpec, fraction: float) -> Assumption:
    """A fraction to ask the demand at, beside the one that is planned for."""
    return replace(planned_percentile(spec.policy.shortfall), value=fraction)


def even_odds(spec: PlanSpec) -> Demand:
    """The service's demand as often exceeded as not."""
    return demand_at(spec, demand_fraction(spec, _EVEN))


# The latest budgets. A plan asks for each several times, most moves on a page leave the replica as it
# is, and a process that is forked knows what its parent knew.
_BUDGETS: list[tuple[tuple[object, ...], MemoryBudget | Rejection]] = []
_MOST_BUDGETS = 8


def pool_memory(pool: PoolSpec) -> MemoryBudget | Rejection:
    """What a replica of the pool holds."""
    key = (pool.model, pool.device, pool.settings, pool.approved, pool.reported, pool.engines, pool.alternatives)
    known = next((budget for asked, budget in tuple(_BUDGETS) if asked == key), None)
    if known is not None:
        return known
    found = memory_budget(
        pool.model,
        pool.device,
        pool.settings,
        approved=pool.approved,
        reported=pool.reported,
        engines=pool.engines,
        devices=pool.alternatives,
    )
    _BUDGETS.append((key, found))
    del _BUDGETS[:-_MOST_BUDGETS]
    return found


def pool_steps(pool: PoolSpec, memory: MemoryBudget) -> StepModel:
    """The step times of the pool, past their age where they are; in a scenario they are known."""
    step = pool_step(memory, pool.tested)
    if pool.step_ratio is not None:
        return known_steps(step, pool.step_ratio)
    return step if pool.step_drift is None else aged_steps(step, pool.step_drift)


def planned_for(spec: PlanSpec) -> tuple[PlanningPoint, Demand, Demand]:
    """The planning point of a plan, the service's demand there, and its median demand."""
    middle, planned = even_odds(spec), demand_at(spec, planned_percentile(spec.policy.shortfall))
    point = planning_point(spec.policy.shortfall, middle, planned)
    if len(spec.pools) > 1:
        spreads = _spreads(spec, point, planned)
        point = replace(point, pool_shortfall=pool_chance(spec.policy.shortfall, spreads))
    return point, planned, middle


def _spreads(spec: PlanSpec, point: PlanningPoint, demand: Demand) -> list[NeedSpread]:
    """How far the need of every pool may be off; one that does not fit its memory is refused later, and has none."""
    found = []
    for pool in spec.pools:
        memory = pool_memory(pool)
        if isinstance(memory, Rejection):
            continue
        asked = pool_asked(spec, pool, demand)
        band = band_of(pool_steps(pool, memory))
        found.append(need_spread(point.demand_deviation_fraction, band, asked))
    return found
