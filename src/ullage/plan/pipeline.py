"""The plan, told in one function."""

from __future__ import annotations

import datetime

import numpy as np

from ullage.admission.limits import admission_limits
from ullage.admission.ready import time_to_ready
from ullage.cost.bill import monthly_bill
from ullage.errors import NotGiven, Rejection
from ullage.fleet.reserves import named_reserves
from ullage.fleet.steady import steady_fleet
from ullage.memory.budget import memory_budget
from ullage.plan.document import Plan, stages
from ullage.plan.spec import PlanSpec
from ullage.scaling.rule import scaling_rule
from ullage.service.stage import pool_curve, pool_point
from ullage.service.step_model import replica_step
from ullage.workload.demand import forecast_demand

NO_TRACE = NotGiven(
    stage="workload",
    instead="No trace: shapes come from the built-in profile.",
    fix="Give workload.trace.",
)


def plan(spec: PlanSpec, *, as_of: datetime.date, seed: int) -> Plan | Rejection:
    """From traffic to cost, stage by stage; each works from what the ones before it found."""
    pool = spec.pool
    workload = spec.traffic or NO_TRACE
    demand = forecast_demand(
        spec.demands,
        horizon=spec.policy.horizon,
        percentile=spec.policy.planning_percentile,
        measured=None if spec.traffic is None else spec.traffic.classes,
    )
    memory = memory_budget(
        pool.model,
        pool.device,
        pool.settings,
        approved=pool.approved,
        word=pool.word,
        engines=pool.engines,
        devices=pool.alternatives,
    )
    if isinstance(memory, Rejection):
        return memory
    step = replica_step(pool.model, pool.device, memory.runtime)
    curve = pool_curve(step, memory, demand, spec.classes, seed=seed, promises=spec.promises)
    point = pool_point(curve, step)
    if isinstance(point, Rejection):
        return point
    ready = time_to_ready(memory, pool.start, rng=np.random.default_rng(seed))
    limits = admission_limits(curve, point, ready)
    steady = steady_fleet(step, memory, demand, spec.classes, seed=seed, promises=spec.promises)
    if isinstance(steady, Rejection):
        return steady
    reserves = named_reserves(steady, ready, spec.policy.zones)
    scaling = scaling_rule(demand, steady, ready)
    bill = monthly_bill(steady, reserves, demand)
    return Plan(
        spec=spec,
        as_of=as_of,
        seed=seed,
        stages=stages(
            workload=workload,
            demand=demand,
            memory=memory,
            step_model=step,
            service_curve=curve,
            operating_point=point,
            time_to_ready=ready,
            admission_limits=limits,
            steady_fleet=steady,
            reserves=reserves,
            scaling=scaling,
            bill=bill,
        ),
    )
