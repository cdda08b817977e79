"""The built-in example as far as its steady fleet, planned once for every test that starts there."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

import numpy as np

from support.served_replicas import QUICK
from ullage.errors import Rejection
from ullage.fleet.steady import KeptFree, SteadyFleet, steady_fleet
from ullage.load.plan import load_plan
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.planning.planned_for import planned_for
from ullage.planning.spec import PlanSpec
from ullage.service.stage import band_of, pool_bases, rests_on
from ullage.service.steps.step_model import StepModel, replica_step
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class PlannedPool:
    """What the stages before the reserves found."""

    spec: PlanSpec
    demand: Demand
    memory: MemoryBudget
    step: StepModel
    ready: TimeToReady
    steady: SteadyFleet


@functools.cache
def planned_pool() -> PlannedPool:
    """The example's pool, at seed 0."""
    spec = load_plan(None, as_of=datetime.date(2026, 11, 15))
    pool = spec.pool
    point, demand, _ = planned_for(spec)
    memory = memory_budget(
        pool.model, pool.device, pool.settings, approved=pool.approved, reported=pool.reported, engines=pool.engines
    )
    assert not isinstance(memory, Rejection)
    step = replica_step(pool.model, pool.device, memory.runtime)
    planned = point.of_pool(band_of(step), demand)
    bases = pool_bases(step, memory, demand, spec.classes, seed=0, band=planned.band)
    inputs = rests_on(step, memory, demand, spec.slo_limits)
    kept = KeptFree(need=planned.need)
    steady = steady_fleet(bases, planning_rps=demand.planning_rps, seed=0, inputs=inputs, kept=kept, effort=QUICK)
    assert not isinstance(steady, Rejection)
    ready = time_to_ready(memory, pool.start, rng=np.random.default_rng(0))
    return PlannedPool(spec=spec, demand=demand, memory=memory, step=step, ready=ready, steady=steady)
