"""Packing: replicas onto nodes of a shape, with every device that is paid for and serves nothing counted and named.

    used       devices of replicas
    spare      devices in which another whole replica of the pool would fit: the last node is not full
    stranded   devices in which none fits: what three replicas of 3 devices leave of a node of 8 is lost

A replica that fits a node stands in one node. One that does not is split between its pipeline stages, so that the
devices of a stage, which exchange sums in every layer, stay in one node wherever they fit one; only a tensor
parallelism wider than the node spans nodes, and the result says so. A node never spans zones.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError, InternalError, unknown_name
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.facts.device import Device
from ullage.fleet.sites import Placement
from ullage.memory.sharding import Sharding

_Part = tuple[int, str]
"""The devices of one part of a replica on one node, and its pool."""

NODE_DEVICES = 8
"""The size of most machines with linked accelerators, and the default size of a node."""

ASSUMED_NODE = Assumption(
    name="packing.node_devices",
    value=NODE_DEVICES,
    unit="devices",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="eight devices per node, as in the HGX and OAM baseboards of most vendors",
        where="docs/reference/plan-file.md",
        date=datetime.date(2026, 11, 15),
    ),
    low=1,
    high=72,
)


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """A machine that can be had: its name, who sells it, and how many devices are in it."""

    name: str
    provider: str
    size: Assumption

    @property
    def devices(self) -> int:
        assert not isinstance(self.size.value, str), self.size.name
        return int(self.size.value)


@dataclass(frozen=True, kw_only=True)
class Lot:
    """Replicas of one pool that stand in one zone, on `spread_nodes` or more where there are as many of them."""

    pool: str
    zone: str
    replicas: int
    sharding: Sharding
    spread_nodes: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """Nodes of one zone that are filled alike: `parts` of replicas by pool, so many to a node."""

    zone: str
    nodes: int
    parts: Mapping[str, int]
    used_devices: int
    spare_devices: int
    stranded_devices: int


@dataclass(frozen=True, kw_only=True)
class PackedShape:
    """All lots on nodes of one shape. Devices are used, spare or stranded; the three add up to what is paid for."""

    shape: NodeShape
    groups: tuple[NodeGroup, ...]
    spans_nodes: bool

    @property
    def nodes(self) -> int:
        return sum(group.nodes for group in self.groups)

    @property
    def devices(self) -> int:
        return self.nodes * self.shape.devices

    @property
    def used_devices(self) -> int:
        return sum(group.nodes * group.used_devices for group in self.groups)

    @property
    def spare_devices(self) -> int:
        return sum(group.nodes * group.spare_devices for group in self.groups)

    @property
    def stranded_devices(self) -> int:
        return sum(group.nodes * group.stranded_devices for group in self.groups)

    @property
    def most_parts_per_node(self) -> int:
        """How many replicas the loss of one node takes at most."""
        return max((sum(group.parts.values()) for group in self.groups), default=0)


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The lots on the chosen shape, and, to compare, on every other shape of the device."""

    chosen: PackedShape
    rows: tuple[PackedShape, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]


def shapes_of(device: Device) -> tuple[NodeShape, ...]:
    """The machines a device is known to come in; a node of eight, or of its link's domain, where none is known."""
    known = tuple(NodeShape(name=each.name, provider=each.provider, size=each.devices) for each in device.instances)
    if known:
        return known
    link = device.link_devices
    smaller = link is not None and not isinstance(link.value, str) and 1 < link.value < NODE_DEVICES
    size = link if smaller and link is not None else ASSUMED_NODE
    return (NodeShape(name=f"node of {size.value}", provider="assumed", size=size),)


def chosen_shape(shapes: Sequence[NodeShape], stated: str | None = None) -> NodeShape:
    """The shape of this name; without one, the first whose size is nearest to eight devices."""
    if stated is None:
        return min(shapes, key=lambda each: abs(each.devices - NODE_DEVICES))
    for each in shapes:
        if each.name == stated:
            return each
    raise unknown_name(field="pool.instance", name=stated, known=[each.name for each in shapes])


def pack(
    lots: Sequence[Lot],
    shapes: Sequence[NodeShape],
    *,
    stated: str | None = None,
    inputs: tuple[Figure | Assumption, ...] = (),
) -> Packing:
    """Every lot on nodes of the chosen shape (see `chosen_shape`), and on the others to compare with."""
    shape = chosen_shape(shapes, stated)
    rows = tuple(pack_on(lots, each) for each in shapes)
    chosen = next(row for row in rows if row.shape == shape)
    return Packing(chosen=chosen, rows=rows, figures=_figures(chosen, inputs), notes=_notes(chosen, lots))


def pack_placed(
    placement: Placement, sharding: Sharding, shapes: Sequence[NodeShape], *, pool: str, stated: str | None = None
) -> Packing:
    """The replicas of one pool where they were placed, on nodes of its own."""
    lots = [
        Lot(pool=pool, zone=row.zone, replicas=row.replicas, sharding=sharding, spread_nodes=row.spread_nodes)
        for row in placement.rows
    ]
    return pack(lots, shapes, stated=stated, inputs=tuple(placement.figures.values()))


def pack_on(lots: Sequence[Lot], shape: NodeShape) -> PackedShape:
    """Fill nodes zone by zone: equal parts evenly, others the largest first, each into the fullest node that holds it.

    For one pool, and wherever part sizes divide one another, no packing needs fewer nodes; for other mixtures it is the
    usual rule of thumb, at most two ninths above the best.
    """
    if shape.devices < 1:
        raise InputError(
            field=shape.size.name, value=shape.devices, problem="a node has no device", fix="Give 1 or more."
        )
    groups: list[NodeGroup] = []
    for zone in dict.fromkeys(lot.zone for lot in lots):
        own = [lot for lot in lots if lot.zone == zone and lot.replicas > 0]
        groups += _filled(own, zone, shape.devices)
    return PackedShape(
        shape=shape,
        groups=tuple(groups),
        spans_nodes=any(lot.sharding.tp > shape.devices for lot in lots if lot.replicas > 0),
    )


def parts_of(sharding: Sharding, node_devices: int) -> tuple[int, ...]:
    """The devices of one replica, node by node.

    >>> parts_of(Sharding(tp=2), 8), parts_of(Sharding(tp=8, pp=3), 8), parts_of(Sharding(tp=4, pp=3), 8)
    ((2,), (8, 8, 8), (8, 4))
    >>> parts_of(Sharding(tp=3, pp=5), 8), parts_of(Sharding(tp=12), 8)
    ((6, 6, 3), (8, 4))
    """
    if sharding.devices <= node_devices:
        return (sharding.devices,)
    if sharding.tp <= node_devices:
        stages = node_devices // sharding.tp
        full, rest = divmod(sharding.pp, stages)
        return (stages * sharding.tp,) * full + ((rest * sharding.tp,) if rest else ())
    full, rest = divmod(sharding.tp, node_devices)
    return ((node_devices,) * full + ((rest,) if rest else ())) * sharding.pp


def even_nodes(replicas: int, most: int, least_nodes: int = 0) -> tuple[int, ...]:
    """Replicas spread evenly over as few nodes as hold them, at most so many on each: the fullest has the fewest.

    Where `least_nodes` are there anyway, they are spread over these before any of them is filled.

    >>> even_nodes(10, 4), even_nodes(8, 4), even_nodes(0, 4)
    ((4, 3, 3), (4, 4), ())
    >>> even_nodes(3, 8, least_nodes=2), even_nodes(1, 8, least_nodes=2), even_nodes(10, 4, least_nodes=2)
    ((2, 1), (1,), (4, 3, 3))
    """
    nodes = max(-(-replicas // most), min(least_nodes, replicas))
    return tuple(replicas // nodes + (place < replicas % nodes) for place in range(nodes))


def _filled(lots: Sequence[Lot], zone: str, size: int) -> list[NodeGroup]:
    """The nodes of one zone, equal ones together, the fullest first."""
    parts = sorted(
        ((part, lot.pool) for lot in lots for part in parts_of(lot.sharding, size) for _ in range(lot.replicas)),
        reverse=True,
    )
    least = max((lot.spread_nodes for lot in lots), default=0)
    alike = _spread(parts, size, least) if len(set(parts)) == 1 else _fullest_first(parts, size)
    whole = [lot.sharding.devices for lot in lots if lot.sharding.devices <= size]
    return [_group(zone, node, count, size, whole) for node, count in sorted(alike.items(), reverse=True)]


def _spread(parts: Sequence[_Part], size: int, least_nodes: int = 0) -> Counter[tuple[_Part, ...]]:
    """Equal parts over the fewest nodes, as evenly as they go: the loss of a node then takes the fewest of them.

    >>> [len(node) for node in _spread([(2, "chat")] * 6, 8).elements()]
    [3, 3]
    """
    counts = Counter(even_nodes(len(parts), max(1, size // parts[0][0]), least_nodes))
    return Counter({tuple(parts[:each]): nodes for each, nodes in counts.items()})


def _fullest_first(parts: Sequence[_Part], size: int) -> Counter[tuple[_Part, ...]]:
    """Parts of several sizes or pools, each into the fullest node that still holds it."""
    # Nodes by the devices they have left; a node is the tuple of its parts of replicas.
    open_nodes: dict[int, list[tuple[_Part, ...]]] = defaultdict(list)
    for part in parts:
        room = min((left for left, nodes in open_nodes.items() if nodes and left >= part[0]), default=None)
        node = () if room is None else open_nodes[room].pop()
        open_nodes[(size if room is None else room) - part[0]].append((*node, part))
    return Counter(node for nodes in open_nodes.values() for node in nodes)


def _group(zone: str, node: tuple[_Part, ...], count: int, size: int, whole: Iterable[int]) -> NodeGroup:
    used = sum(part for part, _ in node)
    if used > size:
        raise InternalError(law="no device holds two replicas", left=node, right=size)
    least = min(whole, default=size + 1)
    spare = (size - used) // least * least
    return NodeGroup(
        zone=zone,
        nodes=count,
        parts=Counter(pool for _, pool in node),
        used_devices=used,
        spare_devices=spare,
        stranded_devices=size - used - spare,
    )


def _figures(chosen: PackedShape, inputs: tuple[Figure | Assumption, ...]) -> dict[str, Figure]:
    rests = (*inputs, chosen.shape.size)
    where = f"{chosen.shape.name}, {chosen.shape.devices} devices"
    counted = {
        "packing.nodes": (chosen.nodes, "nodes", f"replicas packed onto {where}"),
        "packing.replicas_per_node": (
            chosen.most_parts_per_node,
            "replicas",
            "on the fullest node: its loss takes them",
        ),
        "packing.devices": (chosen.devices, "devices", f"nodes x {chosen.shape.devices}"),
        "packing.spare_devices": (chosen.spare_devices, "devices", "devices in which another replica would fit"),
        "packing.stranded_devices": (chosen.stranded_devices, "devices", "devices in which no replica fits"),
    }
    return {
        name: Figure(name=name, value=value, unit=unit, formula=formula, inputs=rests)
        for name, (value, unit, formula) in counted.items()
    }


def _notes(chosen: PackedShape, lots: Sequence[Lot]) -> tuple[str, ...]:
    notes = []
    size = chosen.shape.devices
    apart = [
        lot for lot in lots if lot.spread_nodes > len(even_nodes(lot.replicas, max(1, size // lot.sharding.devices)))
    ]
    if apart:
        free = chosen.spare_devices + chosen.stranded_devices
        notes.append(
            f"Replicas are spread over {chosen.nodes} nodes, at most {chosen.most_parts_per_node} on each, so that the "
            f"loss of a node takes no more of them; {free} devices of these nodes are paid for and free."
        )
    if chosen.spans_nodes:
        widest = max(lot.sharding.tp for lot in lots)
        notes.append(
            f"Tensor parallelism over {widest} devices spans nodes of {size}: its all-reduces leave the node's links, "
            f"which the step model does not cover."
        )
    for group in chosen.groups:
        if group.stranded_devices:
            held = ", ".join(f"{count} of {pool}" for pool, count in sorted(group.parts.items()))
            notes.append(
                f"{group.nodes * group.stranded_devices} devices are stranded in {group.zone}: {group.nodes} "
                f"{'node holds' if group.nodes == 1 else 'nodes hold'} {held} and {group.stranded_devices} devices in "
                f"which no replica fits."
            )
    if any(lot.sharding.devices > size for lot in lots if lot.replicas):
        nodes = max(len(parts_of(lot.sharding, size)) for lot in lots if lot.replicas)
        notes.append(f"A replica spans up to {nodes} nodes; losing one of them stops it.")
    return tuple(notes)
