"""Reserves and machines of a fleet, found together.

A large machine takes many replicas with it when it fails, so a small fleet on large machines needs many in reserve.
Where the machine is not stated, it is the one on which fleet and reserves together need the fewest devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.errors import Rejection
from ullage.fleet.packing import NodeShape, Packing, chosen_shape, pack_placed
from ullage.fleet.reserves import Reserves, named_reserves
from ullage.fleet.sites import Sites
from ullage.fleet.steady import SteadyFleet
from ullage.memory.sharding import Sharding
from ullage.planning.device_hours import sold_shapes
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.startup.ready import TimeToReady
from ullage.workload.demand.demand import Demand


def on_machines(
    pool: PoolSpec,
    spec: PlanSpec,
    sharding: Sharding,
    steady: SteadyFleet,
    ready: TimeToReady,
    demand: Demand,
    *,
    sites: Sites | None,
    taken: Mapping[str, int] | None = None,
    seed: int,
) -> tuple[Reserves, Packing] | Rejection:
    """The reserves of this fleet and the nodes of all of it; the first refusal where no machine will do."""
    shapes = sold_shapes(spec, pool, replica_devices=sharding.devices)
    refused: Rejection | None = None
    found: list[tuple[Reserves, Packing]] = []
    for shape in _machines(pool, shapes, least_devices=min(sharding.tp, max(each.devices for each in shapes))):
        reserves = named_reserves(
            steady,
            ready,
            demand,
            sites=sites,
            taken=taken,
            zones=spec.policy.zones,
            node=shape.size,
            settings=spec.reserves,
            seed=seed,
        )
        if isinstance(reserves, Rejection):
            refused = refused or reserves
            continue
        packed = pack_placed(reserves.placement, sharding, shapes, pool=pool.name, stated=shape.name)
        found.append((reserves, packed))
    if not found:
        assert refused is not None
        return refused
    # Of machines that need as many devices, the larger means fewer to operate.
    return min(found, key=lambda pair: (pair[1].chosen.devices, -pair[1].chosen.shape.devices))


def _machines(pool: PoolSpec, shapes: Sequence[NodeShape], *, least_devices: int) -> list[NodeShape]:
    """The stated machine, or one of each size that holds a stage."""
    if pool.instance is not None:
        return [chosen_shape(shapes, pool.instance)]
    fitting = [each for each in shapes if each.devices >= least_devices] or list(shapes)
    return list({each.devices: each for each in reversed(fitting)}.values())
