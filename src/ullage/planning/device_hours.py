"""What a device-hour of a pool costs, and which machines its seller has, before anything of the pool is planned.

The bill asks the price book for the cheapest offer that the plan allows. The machines of a fleet are those
of the same seller: a fleet at one provider's prices on another one's machines cannot be ordered.
"""

from __future__ import annotations

from ullage.cost.quotes import DeviceQuote, device_quotes
from ullage.cost.service_use import PoolUse
from ullage.evidence import Assumption, Evidence
from ullage.fleet.packing import ASSUMED_NODE, NodeShape, shapes_of
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.prices.book import MissingPrice


def device_hours(spec: PlanSpec, pool: PoolSpec, *, replica_devices: int) -> tuple[DeviceQuote, ...] | MissingPrice:
    """The price of a device-hour, part by part of the plan's mix of purchases."""
    if spec.prices is None:
        what = f"a device-hour of {pool.device.name}"
        return MissingPrice(what=what, why="the plan has no prices", fix="Give prices.")
    use = PoolUse(
        name=pool.name,
        model=pool.model.name,
        device=pool.device.name,
        replica_devices=replica_devices,
        steady_replicas=0,
        basis=(),
    )
    return device_quotes(spec.prices, use, spec.buying)


def sold_shapes(spec: PlanSpec, pool: PoolSpec, *, replica_devices: int) -> tuple[NodeShape, ...]:
    """The machines of those who sell to this plan: as facts know them, else as their price lists name them.

    A seller with a price and unknown machines has nodes of an assumed size. Where there is no seller, or the plan
    file names a machine, all machines of the device are there.
    """
    known = shapes_of(pool.device)
    quotes = device_hours(spec, pool, replica_devices=replica_devices)
    cheapest = () if isinstance(quotes, MissingPrice) else tuple(dict.fromkeys(each.provider for each in quotes))
    sellers = spec.buying.providers or cheapest
    if pool.instance is not None or not sellers:
        return known
    by_facts = tuple(each for each in known if each.provider in sellers)
    return by_facts or _listed(spec, pool, sellers) or (_assumed(sellers) if cheapest else known)


def _listed(spec: PlanSpec, pool: PoolSpec, sellers: tuple[str, ...]) -> tuple[NodeShape, ...]:
    if spec.prices is None:
        return ()
    found = {
        price.instance: NodeShape(
            name=price.instance,
            provider=price.provider,
            size=Assumption(
                name="packing.node_devices",
                value=price.devices,
                unit="devices",
                evidence=Evidence.STATED if price.hourly.evidence is Evidence.STATED else Evidence.ESTIMATED,
                source=price.hourly.source,
            ),
        )
        for price in spec.prices.devices.get(pool.device.name, ())
        if price.provider in sellers and price.instance
    }
    return tuple(found.values())


def _assumed(sellers: tuple[str, ...]) -> tuple[NodeShape, ...]:
    return (NodeShape(name=f"node of {ASSUMED_NODE.value}", provider=sellers[0], size=ASSUMED_NODE),)
