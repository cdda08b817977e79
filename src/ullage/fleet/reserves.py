"""Reserves: failure, rollout, maintenance, warm and region, each its own line with its rule and what it protects.

They are added up in two ways. The *sum* holds when everything happens at once. The *overlap* lets lines of one group
stand in for each other, because a policy keeps their occasions apart: of a group only the largest line counts. Both are
shown; the policy says which of them is bought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ullage.errors import InputError, Rejection, check_name
from ullage.evidence import Assumption, Evidence, Figure, number
from ullage.fleet.canary import canary_figures, variation
from ullage.fleet.choices import choice
from ullage.fleet.failure import FailureReserve, Reliability, domains_of, failure_reserve, reliability
from ullage.fleet.lines import NAMES, ReserveLine
from ullage.fleet.maintenance import Maintenance, MaintenanceReserve, maintenance_reserve
from ullage.fleet.packing import even_nodes
from ullage.fleet.quiet import quiet_demand
from ullage.fleet.region import RegionPolicy, RegionReserve, region_reserve
from ullage.fleet.rollout import Rollout, RolloutReserve, deadlock, rollout_reserve
from ullage.fleet.sites import Placement, Sites, equal_zones, place
from ullage.fleet.steady import SteadyFleet
from ullage.fleet.utilisation_cap import CappedFleet, UtilisationCaps, utilisation_reserve
from ullage.fleet.warm import Warm, WarmReserve, warm_reserve
from ullage.startup.ready import TimeToReady
from ullage.workload.classes import Metric
from ullage.workload.demand.demand import Demand

COUNTED = choice("reserves.counted", "overlap", "", "scheduling events apart costs less than devices")
OVERLAP = choice(
    "reserves.overlap", "rollout+maintenance", "", "nodes are not patched during a rollout, nor the other way round"
)
BATCH = choice("reserves.batch", "fills", "", "idle devices cost the same as busy ones")


@dataclass(frozen=True, kw_only=True)
class ReservePolicy:
    """What is bought of the reserves. `overlap` lists groups such as `rollout+maintenance, failure+region`.

    `batch` says whether work without a deadline may run in idle reserve (`fills`) or not (`never`).
    """

    counted: Assumption = COUNTED
    overlap: Assumption = OVERLAP
    batch: Assumption = BATCH

    def __post_init__(self) -> None:
        for given, known in ((self.counted, ("sum", "overlap")), (self.batch, ("fills", "never"))):
            check_name(str(given.value), known, field=given.name)
        named = [name for group in self.groups for name in group]
        for name in named:
            check_name(name, NAMES, field=self.overlap.name)
            if named.count(name) > 1:
                raise InputError(
                    field=self.overlap.name,
                    value=self.overlap.value,
                    problem=f"has {name} in two groups",
                    fix="Put each reserve into one group at most.",
                )

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """
        >>> ReservePolicy().groups
        (('rollout', 'maintenance'),)
        """
        written = str(self.overlap.value).split(",")
        groups = [tuple(name.strip() for name in group.split("+") if name.strip()) for group in written]
        return tuple(group for group in groups if group)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.counted, self.overlap, self.batch)


@dataclass(frozen=True, kw_only=True)
class ReserveSettings:
    """The settings of reserves."""

    reliability: Reliability = field(default_factory=reliability)
    rollout: Rollout = field(default_factory=Rollout)
    maintenance: Maintenance = field(default_factory=Maintenance)
    warm: Warm = field(default_factory=Warm)
    regions: RegionPolicy = field(default_factory=RegionPolicy)
    policy: ReservePolicy = field(default_factory=ReservePolicy)
    caps: UtilisationCaps = field(default_factory=UtilisationCaps)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        parts = (self.reliability, self.rollout, self.maintenance, self.warm, self.regions, self.policy, self.caps)
        return tuple(each for part in parts for each in part.inputs)

    @property
    def stated(self) -> tuple[Assumption, ...]:
        """Stated values that replace our defaults."""
        ours = ReserveSettings().inputs
        return tuple(each for each in self.inputs if each not in ours)


@dataclass(frozen=True, kw_only=True)
class Reserves:
    """Every reserve as a line, their sum and their overlap, and where all replicas stand.

    `replicas` is the reserve that is bought, `serving_replicas` the part of it behind the router. `capped` is
    the line for caps on utilisation, where there are any.
    """

    settings: ReserveSettings
    failure: FailureReserve
    rollout: RolloutReserve
    maintenance: MaintenanceReserve
    warm: WarmReserve
    region: RegionReserve
    capped: tuple[ReserveLine, ...]
    steady_replicas: int
    sum_replicas: int
    overlap_replicas: int
    replicas: int
    serving_replicas: int
    devices_per_replica: int
    placement: Placement
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    @property
    def lines(self) -> tuple[ReserveLine, ...]:
        own = (self.failure.line, self.rollout.line, self.maintenance.line, self.warm.line, self.region.line)
        return (*own, *self.capped)

    @property
    def bought(self) -> Mapping[str, int]:
        """What is paid for under each name, adding up to `replicas`: of a group that overlaps, the largest line."""
        sizes = _sizes(self.lines)
        groups = self.settings.policy.groups if self.settings.policy.counted.value == "overlap" else ()
        for group in groups:
            there = [name for name in group if name in sizes]
            largest = max(there, key=lambda name: sizes[name], default="")
            sizes.update({name: 0 for name in there if name != largest})
        return sizes

    @property
    def devices(self) -> int:
        return self.replicas * self.devices_per_replica

    @property
    def nodes(self) -> int:
        """The nodes that steady fleet and reserve stand on; one that spans several counts as one."""
        return len(domains_of(self.placement, self.settings.reliability).nodes)

    @property
    def node_replicas(self) -> int:
        """Serving replicas of a node, as nodes come and go: as many as fit, or fewer where they are spread."""
        fit = self.settings.reliability.replicas_per_node(self.devices_per_replica)
        serving, nodes = self.steady_replicas + self.serving_replicas, self.placement.spread_nodes
        return min(fit, -(-serving // nodes)) if nodes else fit

    @property
    def total_replicas(self) -> int:
        """Steady fleet and reserve together."""
        return self.steady_replicas + self.replicas


def named_reserves(
    steady: SteadyFleet,
    ready: TimeToReady,
    demand: Demand,
    *,
    sites: Sites | None = None,
    zones: Assumption | None = None,
    node: Assumption | None = None,
    settings: ReserveSettings | None = None,
    taken: Mapping[str, int] | None = None,
    seed: int,
) -> Reserves | Rejection:
    """Every reserve of a pool, from the least that keeps its availability to what other regions hold for it.

    Filled nodes take most with them when one is lost. So reserves are found twice: for a fleet on the fewest nodes, and
    for one that is spread over as many as that takes with its reserves. The one on fewer nodes is bought, then the one
    of fewer replicas: spreading never costs more, and devices that are paid for anyway stay free.

    Without `sites` there are `zones` equal zones of one region without quotas. `node` is the devices of a node, where
    its shape is known. `taken` is what other pools of the same device already have, zone by zone.
    """
    given = ReserveSettings() if settings is None else settings
    if node is not None:
        given = replace(given, reliability=replace(given.reliability, devices_per_node=node))
    where = sites or equal_zones(1 if zones is None else int(number(zones)))
    find = partial(_reserves_on, steady, ready, demand, given=given, taken=taken, seed=seed)
    filled = find(where, spread_nodes=0)
    # Quotas that filled nodes exceed may hold a fleet that is spread: how many nodes there are does not hang on them.
    free = find(where.without_quotas(), spread_nodes=0) if isinstance(filled, Rejection) else filled
    if isinstance(free, Rejection) or given.reliability.placed_together(free.devices_per_replica) == 1:
        return filled
    spread = find(where, spread_nodes=free.nodes)
    found = [each for each in (filled, spread) if isinstance(each, Reserves)]
    return min(found, key=lambda each: (each.nodes, each.total_replicas)) if found else spread


def _reserves_on(
    steady: SteadyFleet,
    ready: TimeToReady,
    demand: Demand,
    where: Sites,
    *,
    given: ReserveSettings,
    taken: Mapping[str, int] | None,
    seed: int,
    spread_nodes: int,
) -> Reserves | Rejection:
    """Every reserve of a pool whose replicas are spread over at least so many nodes."""
    needed, devices = steady.figures["fleet.replicas"], steady.devices // steady.replicas
    region = region_reserve(needed, where, given.regions, devices=devices)
    failure = failure_reserve(
        needed,
        region.sites,
        given.reliability,
        devices=devices,
        need=steady.need,
        seed=seed,
        taken=taken,
        spread_nodes=spread_nodes,
    )
    if isinstance(failure, Rejection):
        return failure
    warm = warm_reserve(needed, demand, ready, given.warm, devices=devices)
    held = (failure.line, warm.line, region.line)
    nodes_of = partial(_nodes, region.sites, given.reliability, devices, taken, spread_nodes)
    capped = _capped(_serving(needed, held, given.policy), steady, demand, region.sites, given, nodes_of)
    serving = _serving(needed, (*held, *capped), given.policy)
    quiet = quiet_demand("reserve.rollout_demand_fraction", demand, given.rollout.within, given.rollout.demand)
    start = ready.figures["ready.warm_p90_s"]
    rollout = rollout_reserve(serving, given.rollout, start, devices=devices, quiet=quiet)
    if isinstance(rollout, Rejection):
        return rollout
    maintenance = maintenance_reserve(
        serving,
        given.maintenance,
        start,
        quiet=quiet_demand(
            "reserve.maintenance_demand_fraction", demand, given.maintenance.window, given.maintenance.demand
        ),
        devices=devices,
        nodes_of=nodes_of,
    )
    found = (failure, rollout, maintenance, warm, region)
    lines = [*(each.line for each in found), *capped]
    added, overlapped = sum(line.replicas for line in lines), overlap(_sizes(lines), given.policy.groups)
    bought = added if given.policy.counted.value == "sum" else overlapped
    total = int(needed.value) + bought
    placed = _placed(
        total, region.sites, devices, given.reliability, taken, spread_nodes, rollout, [line.figure for line in lines]
    )
    if isinstance(placed, Rejection):
        return placed
    return Reserves(
        settings=given,
        failure=failure,
        rollout=rollout,
        maintenance=maintenance,
        warm=warm,
        region=region,
        capped=capped,
        steady_replicas=int(needed.value),
        sum_replicas=added,
        overlap_replicas=overlapped,
        replicas=bought,
        serving_replicas=bought_together({line.name: line.serving_replicas for line in lines}, given.policy),
        devices_per_replica=devices,
        placement=placed,
        figures={
            **{name: figure for each in found for name, figure in each.figures.items()},
            **{line.figure.name: line.figure for line in capped},
            **_canary(steady, demand, given.rollout, rollout),
            **_totals(lines, given.policy, added, overlapped, bought, devices, needed),
            **placed.figures,
        },
        notes=(*_notes(given, bought, rollout, maintenance), *_short_regions(region, placed), *placed.notes),
    )


def overlap(sizes: Mapping[str, int], groups: Sequence[Sequence[str]]) -> int:
    """What lines need together where those of one group never need it at the same time.

    >>> overlap({"failure": 4, "rollout": 2, "maintenance": 5}, [("rollout", "maintenance")])
    9
    """
    grouped = {name for group in groups for name in group}
    shared = sum(max((sizes.get(name, 0) for name in group), default=0) for group in groups)
    return shared + sum(size for name, size in sizes.items() if name not in grouped)


def _canary(steady: SteadyFleet, demand: Demand, given: Rollout, rollout: RolloutReserve) -> dict[str, Figure]:
    """How long a canary runs until it can be judged, by how much requests differ in the pool as it was sized."""
    if given.strategy.value != "canary":
        return {}
    windows = steady.size.conservative.at.sample.each
    times = [by_metric[Metric.TPOT].whole for one in windows for by_metric in one.histograms.values()]
    return canary_figures(
        given.canary,
        demand.figures["demand.planning_rate"],
        rollout.figures["reserve.rollout_demand_fraction"],
        variation(times),
        inputs=(steady.figures["fleet.replicas"],),
    )


def _capped(
    serving: Figure,
    steady: SteadyFleet,
    demand: Demand,
    sites: Sites,
    given: ReserveSettings,
    nodes_of: Callable[[int], tuple[int, ...]],
) -> tuple[ReserveLine, ...]:
    """The replicas that caps on utilisation need beside those that serve already; nothing where there are none."""
    if not given.caps.most:
        return ()
    devices = steady.devices // steady.replicas
    mean = sum(each.mean_rps for each in demand.classes) / demand.planning_rps
    even = 1.0 if steady.need is None else steady.need.even_fraction
    fleet = CappedFleet(
        steady=steady.figures["fleet.replicas"],
        serving_replicas=int(number(serving)),
        load_fractions={"mean": mean, "busiest_hour": even, "planned": 1.0, "machine_lost": 1.0, "zone_lost": 1.0},
        lost_with_node=lambda serving: max(nodes_of(serving), default=0),
        zones=len(sites.zones),
        devices=devices,
    )
    return (utilisation_reserve(fleet, given.caps, rests=(serving, demand.figures["demand.planning_rate"])),)


def _nodes(
    sites: Sites,
    given: Reliability,
    devices: int,
    taken: Mapping[str, int] | None,
    spread_nodes: int,
    replicas: int,
) -> tuple[int, ...]:
    """The replicas on each node of a fleet of this size; as if there were one zone where quotas do not hold it."""
    together = given.placed_together(devices)
    placed = place(replicas, sites, devices=devices, node_replicas=together, spread_nodes=spread_nodes, taken=taken)
    if isinstance(placed, Rejection):
        return even_nodes(replicas, given.replicas_per_node(devices), spread_nodes)
    return domains_of(placed, given).nodes


def _sizes(lines: Sequence[ReserveLine]) -> dict[str, int]:
    return {line.name: line.replicas for line in lines}


def bought_together(sizes: Mapping[str, int], policy: ReservePolicy) -> int:
    """What lines of these sizes come to by the policy: added up, or those that overlap standing in for each other."""
    return sum(sizes.values()) if policy.counted.value == "sum" else overlap(sizes, policy.groups)


def _serving(needed: Figure, lines: Sequence[ReserveLine], policy: ReservePolicy) -> Figure:
    """All replicas that run before a rollout begins: what it has to replace."""
    return Figure(
        name="reserve.serving_replicas",
        value=int(needed.value) + bought_together({line.name: line.serving_replicas for line in lines}, policy),
        unit="replicas",
        formula="steady + failure, warm and region reserve"
        + (" + what caps on utilisation add" if any(line.name == "utilisation" for line in lines) else ""),
        inputs=tuple(line.figure for line in lines),
    )


def _placed(
    total: int,
    sites: Sites,
    devices: int,
    given: Reliability,
    taken: Mapping[str, int] | None,
    spread_nodes: int,
    rollout: RolloutReserve,
    lines: Sequence[Figure],
) -> Placement | Rejection:
    """All replicas under the quotas. A fleet that fits only without its surge would deadlock in its first rollout."""
    figures, together = tuple(lines), given.placed_together(devices)
    placed = place(
        total, sites, devices=devices, node_replicas=together, spread_nodes=spread_nodes, taken=taken, inputs=figures
    )
    if not isinstance(placed, Rejection):
        return placed
    room = placed.figure
    assert not isinstance(room.value, str)
    free = int(room.value) - (total - rollout.surge_replicas)
    if free != 0 or rollout.unavailable_replicas > 0:
        return placed
    left = Figure(
        name="placement.free_devices",
        value=free * devices,
        unit="devices",
        formula="devices under the quotas that the serving fleet leaves",
        inputs=(room,),
    )
    return deadlock(left, devices, inputs=figures)


def _totals(
    lines: Sequence[ReserveLine],
    policy: ReservePolicy,
    added: int,
    overlapped: int,
    bought: int,
    devices: int,
    needed: Figure,
) -> dict[str, Figure]:
    parts = tuple(line.figure for line in lines)
    groups = ", ".join(" and ".join(group) for group in policy.groups) or "none"
    rows = {
        "reserve.sum_replicas": (added, "replicas", "sum of all lines, as if all of it happened at once"),
        "reserve.overlap_replicas": (overlapped, "replicas", f"the larger of {groups}, plus all others"),
        "reserve.replicas": (bought, "replicas", f"what is bought: the {policy.counted.value}"),
        "reserve.devices": (bought * devices, "devices", f"replicas x {devices} devices each"),
        "reserve.batch_replicas": (
            bought if policy.batch.value == "fills" else 0,
            "replicas",
            "idle reserve that batch work may use until it is needed; batch work is stopped first",
        ),
        "fleet.total_replicas": (int(needed.value) + bought, "replicas", "steady fleet + reserve"),
        "fleet.total_devices": ((int(needed.value) + bought) * devices, "devices", "steady fleet + reserve"),
    }
    return {
        name: Figure(name=name, value=value, unit=unit, formula=formula, inputs=(*parts, *policy.inputs))
        for name, (value, unit, formula) in rows.items()
    }


def _short_regions(region: RegionReserve, placed: Placement) -> tuple[str, ...]:
    """Regions whose quota holds less than the loss of another would ask of them."""
    if not region.is_survived:
        return ()
    held = {each.name: len(placed.replicas_in_region(each.name)) for each in region.shares}
    return tuple(
        f"Quotas leave {held[each.name]} replicas in {each.name}; it needs {each.replicas} when another region is lost."
        for each in region.shares
        if held[each.name] < each.replicas
    )


def _quiet_notes(given: ReserveSettings, rollout: RolloutReserve, maintenance: MaintenanceReserve) -> tuple[str, ...]:
    """The default hours: planned work is done when traffic is low."""
    unsaid = {
        "rollout": (given.rollout.demand, rollout.figures["reserve.rollout_demand_fraction"]),
        "maintenance": (given.maintenance.demand, maintenance.figures["reserve.maintenance_demand_fraction"]),
    }
    found = {name: number(quiet) for name, (stated, quiet) in unsaid.items() if stated is None and number(quiet) < 1.0}
    if not found:
        return ()
    shares = " and ".join(f"{100.0 * each:.0f} % ({name}.demand)" for name, each in found.items())
    said = "Planned work is assumed in the quietest sufficiently long hours of the week, which see"
    return (f"{said} {shares} of the planning rate.",)


def _notes(
    given: ReserveSettings, bought: int, rollout: RolloutReserve, maintenance: MaintenanceReserve
) -> tuple[str, ...]:
    notes = [
        "Availability treats every hour as the busiest, so users will see a higher one.",
        "Failure rates are published ones of training clusters; your own records replace them.",
    ]
    if any(each.evidence is Evidence.STATED for each in given.reliability.rates):
        notes.pop()
    if given.reliability.crews is not None:
        notes.append("The shortfall risk assumes that repairs begin at once; repair crews affect availability.")
    if bought and given.policy.batch.value == "fills":
        notes.append(
            f"Batch work may fill the reserve of {bought} replicas while it is idle; it is stopped first, before any "
            "other request is refused, and has no SLO."
        )
    return (*notes, *_quiet_notes(given, rollout, maintenance))
