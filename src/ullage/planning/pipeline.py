"""The plan, told in one function: traffic first, then pool by pool (planning/pool_plan.py), then what it costs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ullage.errors import NotGiven, Rejection
from ullage.evidence import Figure
from ullage.planning.billing.service_bill import service_bill
from ullage.planning.document import Plan, Stage, service_stages
from ullage.planning.names import PoolNames, shared_names
from ullage.planning.planned_for import planned_for
from ullage.planning.pool_plan import PoolPlan, PoolTraffic, plan_pool
from ullage.planning.progress import Report, part_of, unheard
from ullage.planning.sides import pool_asked, pool_classes, sides_together
from ullage.planning.spec import PlanSpec
from ullage.workload.demand.routing import routed
from ullage.workload.demand.tools import saturated_tool

NO_TRACE = NotGiven(
    stage="workload",
    instead="No trace: shapes come from the built-in profile.",
    fix="Give workload.trace.",
)
NO_ROUTES = NotGiven(
    stage="routing",
    instead="No routes: every class has one pool.",
    fix="Give routing if a class goes to more than one model.",
)


def plan(
    spec: PlanSpec,
    *,
    as_of: datetime.date,
    seed: int,
    map: Any = map,  # noqa: A002
    report: Report = unheard,
) -> Plan | Rejection:
    """From traffic to cost, stage by stage; each works from what the ones before it found."""
    point, demand, even = planned_for(spec)
    full = saturated_tool(spec.tools, demand)
    if full is not None:
        return full
    pools: list[PoolPlan] = []
    for index, pool in enumerate(spec.pools):
        said = part_of(report, index, len(spec.pools), pool.name)
        asked, middling = (pool_asked(spec, pool, each) for each in (demand, even))
        taken = _taken(pools, pool.device.name)
        found = plan_pool(
            pool, pool_classes(spec, pool, asked), PoolTraffic(point=point, demand=asked, middling=middling), spec,
            seed=seed, taken=taken, service=demand, map=map, report=said,
        )  # fmt: skip
        if isinstance(found, Rejection):
            return found
        pools.append(found)
    routes = routed(spec.routing, demand) if spec.routing.routes else NO_ROUTES
    before = service_stages(workload=spec.traffic or NO_TRACE, demand=demand, routing=routes)
    shared = shared_names(
        (*spec.inputs, *(figure for stage in before for figure in stage.figures.values())),
        ([figure for stage in each.stages() for figure in stage.figures.values()] for each in pools),
    )
    several = len(pools) > 1
    by_pool = [each.stages(PoolNames(each.spec.name, shared) if several else None) for each in pools]
    replicas = _replicas(by_pool, pools)
    together = sides_together(spec, demand, pools, replicas, seed=seed, map=map)
    if isinstance(together, Rejection):
        return together
    report(0.98, "bill")
    bill = service_bill(spec, demand, pools, replicas, seed=seed, map=map)
    return Plan(
        spec=spec,
        as_of=as_of,
        seed=seed,
        pools=tuple(pools),
        point=point,
        stages=(
            *before,
            *(stage for stages in by_pool for stage in stages),
            *(() if together is None else service_stages(disaggregated=together)),
            *service_stages(bill=bill),
        ),
    )


def _taken(pools: Sequence[PoolPlan], device: str) -> dict[str, int]:
    """Devices of this kind by zone that the pools planned so far have of the quotas."""
    return dict(
        sum((Counter({row.zone: row.devices for row in each.reserves.placement.rows})
             for each in pools if each.spec.device.name == device), Counter())
    )  # fmt: skip


def _replicas(by_pool: Sequence[Sequence[Stage]], pools: Sequence[PoolPlan]) -> dict[str, Figure]:
    """The steady replicas of every pool, under the name by which the plan calls them."""
    return {
        pool.spec.name: stage.figures["fleet.replicas"]
        for pool, stages in zip(pools, by_pool, strict=True)
        for stage in stages
        if stage.name == "steady_fleet"
    }
