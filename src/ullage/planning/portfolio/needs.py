"""The needs of a service's pools in a portfolio: estimates, or as the whole plan decided them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ullage.planning.document import Plan
from ullage.planning.estimate import PlanEstimate
from ullage.planning.planned_for import planned_for
from ullage.planning.portfolio.limits import PoolNeed, SizeBasis
from ullage.planning.spec import PlanSpec
from ullage.workload.demand.routing import pool_demand

_DAY_S = 86_400.0


def looked_needs(spec: PlanSpec, found: PlanEstimate) -> tuple[PoolNeed, ...]:
    """Every pool with an estimate; the others are `found.pending`."""
    _, demand, _ = planned_for(spec)
    needs = []
    for each in found.pools:
        asked = pool_demand(demand, spec.routing, each.pool, spec.own_pools)
        steady = max(each.steady_replicas, 1)
        replicas = each.total_replicas
        per_replica = each.devices / replicas
        pool = next(one for one in spec.pools if one.name == each.pool)
        devices = pool.settings.sharding.devices
        needs.append(
            PoolNeed(
                service=spec.name,
                pool=each.pool,
                model=each.model,
                device=each.device,
                replicas=replicas,
                # Reserves follow the steady fleet, about in proportion.
                low_replicas=math.floor(replicas * each.low_replicas / steady),
                high_replicas=math.ceil(replicas * each.high_replicas / steady),
                replica_devices=devices,
                node_devices=each.devices // each.nodes if each.nodes else max(1, round(per_replica)),
                requests_per_day=sum(one.mean_rps for one in asked.classes) * _DAY_S,
                device_usd=None if each.usd is None else each.usd / each.devices,
                basis=SizeBasis.FIRST_LOOK,
            )
        )
    return tuple(needs)


def decided_needs(plan: Plan, looked: Mapping[str, PoolNeed]) -> dict[str, PoolNeed]:
    """By pool, the replicas that the whole plan has; what a device costs and what is asked stay as looked up."""
    found = {}
    for each in plan.pools:
        before = looked[each.spec.name]
        replicas = each.steady_fleet.replicas + each.reserves.replicas
        found[each.spec.name] = PoolNeed(
            service=before.service,
            pool=before.pool,
            model=before.model,
            device=before.device,
            replicas=replicas,
            low_replicas=replicas,
            high_replicas=replicas,
            replica_devices=before.replica_devices,
            node_devices=each.packing.chosen.shape.devices,
            requests_per_day=before.requests_per_day,
            device_usd=before.device_usd,
            basis=SizeBasis.DECIDED,
        )
    return found
