"""Sites: regions and zones with their quotas, and replicas spread over them.

A quota is what a provider allows on one day: an `Assumption` in devices, with its source and date, of a zone or of a
whole region. Where none is stated there is no limit here, and the placement says that none is stated.

    place(12, sites, devices=2)  ->  Placement, or a Rejection that names the quota and the nearest number that fits

Replicas are spread as evenly as quotas allow, by largest remainders: over regions by their shares of traffic, inside a
region equally over its zones. A zone that is lost then takes as few replicas with it as possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.errors import InputError, InternalError, Rejection, Remedy
from ullage.evidence import Assumption, Figure

UNLIMITED = 1 << 40
"""More devices than anybody has: the quota of a site for which none is stated."""

UNNAMED_REGION = "region"
"""Where a plan states no sites."""


@dataclass(frozen=True, kw_only=True)
class Zone:
    """A part of a region that fails by itself. `quota` is the devices allowed in it; None where none is stated."""

    name: str
    quota: Assumption | None = None


@dataclass(frozen=True, kw_only=True)
class Region:
    """Zones that are close to each other. `share` is its part of the traffic; None counts its zones instead.

    `later` is how many hours its users' day begins after that of others.
    """

    name: str
    zones: tuple[Zone, ...]
    quota: Assumption | None = None
    share: Assumption | None = None
    later: Assumption | None = None


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Where replicas of one kind of device may stand. Quotas of another kind of device are other sites."""

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        names = [zone.name for region in self.regions for zone in region.zones]
        _check_names("sites.regions", [region.name for region in self.regions])
        _check_names("sites.zones", names)
        shares = [region.share for region in self.regions]
        if any(each is None for each in shares) and any(each is not None for each in shares):
            raise InputError(
                field="sites.regions",
                value=[region.name for region in self.regions if region.share is None],
                problem="have no traffic share, but other regions do",
                fix="Give every region a share, or none.",
            )

    @property
    def zones(self) -> tuple[Zone, ...]:
        """All zones, region by region."""
        return tuple(zone for region in self.regions for zone in region.zones)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        given = [each for region in self.regions for each in (region.quota, region.share, region.later)]
        given += [zone.quota for zone in self.zones]
        return tuple(each for each in given if each is not None)

    def without_quotas(self) -> Sites:
        """The same zones with room for any number of devices."""
        free = (
            replace(region, quota=None, zones=tuple(replace(zone, quota=None) for zone in region.zones))
            for region in self.regions
        )
        return Sites(regions=tuple(free))


def equal_zones(zones: int) -> Sites:
    """So many zones of one region, without quotas: what a plan assumes of which only the number of zones is known.

    >>> [zone.name for zone in equal_zones(2).zones]
    ['zone-1', 'zone-2']
    """
    return Sites(
        regions=(
            Region(name=UNNAMED_REGION, zones=tuple(Zone(name=f"zone-{number}") for number in range(1, zones + 1))),
        )
    )


@dataclass(frozen=True, kw_only=True)
class PlacedZone:
    """One row of a placement. `quota_devices` is the tighter of what zone and region state; None where none does.

    Its replicas stand on `spread_nodes` nodes or more, where there are as many of them.
    """

    region: str
    zone: str
    replicas: int
    devices: int
    quota_devices: int | None
    spread_nodes: int = 0


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Replicas by zone, in the order of the sites. Replicas are numbered from 0, zone after zone."""

    sites: Sites
    rows: tuple[PlacedZone, ...]
    devices_per_replica: int
    figures: Mapping[str, Figure]
    notes: tuple[str, ...] = ()
    node_replicas: int = 1
    spread_nodes: int = 0

    @property
    def replicas(self) -> int:
        return sum(row.replicas for row in self.rows)

    @property
    def largest_zone_replicas(self) -> int:
        """How many replicas the loss of one zone takes at most."""
        return max(row.replicas for row in self.rows)

    def replicas_in(self, zone: str) -> tuple[int, ...]:
        """The numbers of the replicas in a zone: what an event of the simulated fleet names."""
        start = 0
        for row in self.rows:
            if row.zone == zone:
                return tuple(range(start, start + row.replicas))
            start += row.replicas
        raise InputError(
            field="zone",
            value=zone,
            problem="is not a zone of this placement",
            fix=f"Zones: {', '.join(row.zone for row in self.rows)}.",
        )

    def replicas_in_region(self, region: str) -> tuple[int, ...]:
        """The numbers of the replicas in all zones of a region."""
        return tuple(
            number for row in self.rows if row.region == region for number in self.replicas_in(row.zone)
        )  # fmt: skip


def place(
    replicas: int,
    sites: Sites,
    *,
    devices: int = 1,
    node_replicas: int = 1,
    spread_nodes: int = 0,
    taken: Mapping[str, int] | None = None,
    inputs: tuple[Figure | Assumption, ...] = (),
) -> Placement | Rejection:
    """Spread replicas of `devices` devices each over the zones, or refuse where a quota is too small for them.

    Zones are as even as they can be on the fewest nodes, where a node holds `node_replicas`: nineteen and sixteen stand
    on nine nodes of four, eighteen and seventeen would need ten. `spread_nodes` are paid for anyway: zones are as even
    as they can be on these, and each gets its part of them, so that the loss of one takes few. `taken` is the devices
    by zone that other pools of the same device already have. `inputs` are what the number of replicas rests on;
    without them and without quotas the placement has no figures.
    """
    if replicas < 0 or devices < 1:
        raise InputError(
            field="replicas",
            value=(replicas, devices),
            problem="must be 0 or more replicas of 1 or more devices",
            fix="Give the size of the pool and the devices of one replica, tp x pp.",
        )
    used = {zone.name: (taken or {}).get(zone.name, 0) for zone in sites.zones}
    rooms = [_region_room(region, used, devices) for region in sites.regions]
    if sum(rooms) < replicas:
        return _too_small(replicas, sites, devices, rooms, used, inputs)
    by_region = spread(replicas, [_weight(region) for region in sites.regions], rooms)
    rows: list[PlacedZone] = []
    wanted = spread(min(spread_nodes, replicas), [float(count) for count in by_region], by_region)
    for region, count, nodes in zip(sites.regions, by_region, wanted, strict=True):
        zone_rooms = [_room(zone.quota, used[zone.name], devices) for zone in region.zones]
        by_zone = on_fewest_nodes(count, zone_rooms, node_replicas, nodes)
        by_node = spread(nodes, [float(each) for each in by_zone], by_zone)
        for zone, each, own in zip(region.zones, by_zone, by_node, strict=True):
            limits = [_devices_of(quota) for quota in (zone.quota, region.quota) if quota is not None]
            rows.append(
                PlacedZone(
                    region=region.name,
                    zone=zone.name,
                    replicas=each,
                    devices=each * devices,
                    quota_devices=min(limits, default=None),
                    spread_nodes=own,
                )
            )
    placed = tuple(rows)
    _check_quotas(placed, sites, used)
    return Placement(
        sites=sites,
        rows=placed,
        devices_per_replica=devices,
        figures=_figures(placed, sites, inputs),
        notes=_notes(placed, sites, node_replicas),
        node_replicas=node_replicas,
        spread_nodes=spread_nodes,
    )


def on_fewest_nodes(total: int, rooms: Sequence[int], each: int, paid: int = 0) -> tuple[int, ...]:
    """`total` over parts, as evenly as their rooms allow; less evenly only where that takes fewer nodes of `each`.

    So many nodes are `paid` for, however few would do.

    >>> on_fewest_nodes(35, [99, 99], 4), on_fewest_nodes(33, [99, 99], 4), on_fewest_nodes(35, [17, 99], 4)
    ((19, 16), (17, 16), (16, 19))
    >>> on_fewest_nodes(2, [99, 99], 8), on_fewest_nodes(2, [99, 99], 8, paid=2)
    ((2, 0), (1, 1))
    """
    even = spread(total, [1.0] * len(rooms), rooms)
    least = max(paid, -(-total // each))
    if sum(-(-count // each) for count in even) <= least or sum(room // each for room in rooms) < least:
        return even
    nodes = spread(least, [1.0] * len(rooms), [room // each for room in rooms])
    return spread(total, [float(count) for count in nodes], [count * each for count in nodes])


def spread(total: int, weights: Sequence[float], rooms: Sequence[int]) -> tuple[int, ...]:
    """`total` in proportion to the weights, none above its room, by largest remainders; ties go to the first.

    What does not fit into one part is shared by the others in their proportion, so `total` must not exceed all rooms.

    >>> spread(7, [1, 1, 1], [9, 9, 9]), spread(7, [1, 1, 1], [1, 9, 9]), spread(5, [3, 1], [9, 9])
    ((3, 2, 2), (1, 3, 3), (4, 1))
    """
    ideal = [0.0] * len(weights)
    open_parts = [place for place, room in enumerate(rooms) if room > 0 and weights[place] > 0.0]
    left = float(total)
    while open_parts:
        weight = sum(weights[place] for place in open_parts)
        full = [place for place in open_parts if left * weights[place] / weight >= rooms[place]]
        if not full:
            for place in open_parts:
                ideal[place] = left * weights[place] / weight
            break
        for place in full:
            ideal[place] = float(rooms[place])
            left -= rooms[place]
        open_parts = [place for place in open_parts if place not in full]
    # Sums of quotients miss whole numbers by rounding; a remainder that small is none.
    found = [math.floor(share + 1e-9) for share in ideal]
    order = sorted(range(len(ideal)), key=lambda place: (found[place] - ideal[place], place))
    for place in order:
        if sum(found) < total and found[place] < rooms[place] and weights[place] > 0.0:
            found[place] += 1
    if sum(found) != total:
        raise InternalError(law="parts add up to the whole and fit their rooms", left=found, right=(total, rooms))
    return tuple(found)


def _weight(region: Region) -> float:
    if region.share is None:
        return float(len(region.zones))
    assert not isinstance(region.share.value, str)
    return float(region.share.value)


def _room(quota: Assumption | None, used_devices: int, devices: int) -> int:
    """Whole replicas that still fit under a quota."""
    return max(0, (_devices_of(quota) - used_devices) // devices) if quota is not None else UNLIMITED


def _region_room(region: Region, used: Mapping[str, int], devices: int) -> int:
    zones = sum(_room(zone.quota, used[zone.name], devices) for zone in region.zones)
    own = _room(region.quota, sum(used[zone.name] for zone in region.zones), devices)
    # A region without a share of the traffic gets no replica, whatever it would hold.
    return min(zones, own) if _weight(region) > 0.0 else 0


def _devices_of(quota: Assumption) -> int:
    if isinstance(quota.value, str) or quota.value < 0:
        raise InputError(
            field=quota.name, value=quota.value, problem="is not a number of devices", fix="Give for example 64."
        )
    return int(quota.value)


def _too_small(
    replicas: int,
    sites: Sites,
    devices: int,
    rooms: Sequence[int],
    used: Mapping[str, int],
    inputs: tuple[Figure | Assumption, ...],
) -> Rejection:
    """All rooms together are too few: which quotas are in the way, what fits, and what each would have to be."""
    fits = sum(rooms)
    ways = [
        _wider(region, room + replicas - fits, used, devices)
        for region, room in zip(sites.regions, rooms, strict=True)
        if _weight(region) > 0.0
    ]
    names = ", ".join(name for way in ways for name in way)
    nearest = f"at most {fits} replicas, {fits * devices} devices" if fits else "no replica at all"
    return Rejection(
        stage="sites",
        reason=(
            f"quota: {replicas} replicas need {replicas * devices} devices, but the quotas of {names} "
            f"leave room for {fits * devices}"
        ),
        figure=Figure(
            name="placement.replicas_that_fit",
            value=fits,
            unit="replicas",
            formula=f"whole replicas of {devices} devices under the quotas of {names}",
            inputs=(*sites.inputs, *inputs),
        ),
        remedies=(
            *(
                Remedy(
                    change=" and ".join(f"a quota of {wanted} devices in {name}" for name, wanted in way.items()),
                    effect=f"all {replicas} replicas can be placed",
                )
                for way in ways
            ),
            Remedy(change=nearest, effect="it fits the quotas as they are"),
        ),
    )


def _wider(region: Region, wanted: int, used: Mapping[str, int], devices: int) -> dict[str, int]:
    """The quotas that keep a region from holding `wanted` replicas, and what each would have to be instead.

    Of zones that are too small together, the one with the least room is widened: that keeps zones the most even.
    """
    wider: dict[str, int] = {}
    rooms = {zone.name: _room(zone.quota, used[zone.name], devices) for zone in region.zones}
    if sum(rooms.values()) < wanted:
        name = min(rooms, key=lambda each: rooms[each])
        wider[name] = used[name] + (rooms[name] + wanted - sum(rooms.values())) * devices
    held = sum(used[zone.name] for zone in region.zones)
    if _room(region.quota, held, devices) < wanted:
        wider[region.name] = held + wanted * devices
    return wider


def _figures(
    rows: Sequence[PlacedZone], sites: Sites, inputs: tuple[Figure | Assumption, ...]
) -> dict[str, Figure]:  # fmt: skip
    rests = (*inputs, *sites.inputs)
    if not rests:
        return {}
    return {
        f"placement.{row.zone}.replicas": Figure(
            name=f"placement.{row.zone}.replicas",
            value=row.replicas,
            unit="replicas",
            formula="replicas spread over the zones by largest remainders, within the quotas",
            inputs=rests,
        )
        for row in rows
    }


def _notes(rows: Sequence[PlacedZone], sites: Sites, node_replicas: int) -> tuple[str, ...]:
    notes = []
    open_zones = [row.zone for row in rows if row.quota_devices is None]
    if open_zones:
        notes.append(f"No quota is stated for {', '.join(open_zones)}: ask the provider before relying on it.")
    for region in sites.regions:
        counts = {row.zone: row.replicas for row in rows if row.region == region.name}
        most, least = max(counts.values()), min(counts.values())
        even = spread(sum(counts.values()), [1.0] * len(counts), [UNLIMITED] * len(counts))
        on_nodes = on_fewest_nodes(sum(counts.values()), [UNLIMITED] * len(counts), node_replicas)
        if tuple(sorted(counts.values())) == tuple(sorted(on_nodes)) != tuple(sorted(even)):
            notes.append(
                f"Zones of {region.name} hold {least} to {most} replicas: an even split would need more machines."
            )
        elif most - least > 1:
            short = ", ".join(zone for zone, count in counts.items() if count == least)
            notes.append(
                f"Quotas keep zones uneven in {region.name}: {short} holds {least} replicas, others up to {most}."
            )
    return tuple(notes)


def _check_quotas(rows: Sequence[PlacedZone], sites: Sites, used: Mapping[str, int]) -> None:
    for region in sites.regions:
        own = {row.zone: row.devices + used[row.zone] for row in rows if row.region == region.name}
        limits = [(zone.quota, own[zone.name]) for zone in region.zones]
        limits.append((region.quota, sum(own.values())))
        for quota, held in limits:
            # What other pools took may itself be above a quota that was cut since; new replicas add nothing to that.
            if quota is not None and held > max(_devices_of(quota), sum(used.values())):
                raise InternalError(law="no placement is above a quota", left=held, right=quota)


def _check_names(field: str, names: Sequence[str]) -> None:
    if not names or len(set(names)) != len(names):
        raise InputError(
            field=field, value=list(names), problem="must be at least one, each named once", fix="Use each name once."
        )
