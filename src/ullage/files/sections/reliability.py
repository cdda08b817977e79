"""What a plan file may say of reserves: `reliability`, `rollout`, `maintenance`, `warm`, `failover`, `reserves`.

Everything has a default with a source or a reason, in the stage that uses it (ullage.fleet); what is written here takes
its place under the same name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from ullage.evidence import Assumption
from ullage.facts.catalogue import Catalogue
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Duration, RequestRate, Share
from ullage.files.sections.section import Count, Section
from ullage.fleet import maintenance as maintenance_defaults
from ullage.fleet import region as region_defaults
from ullage.fleet import reserves as reserve_defaults
from ullage.fleet import rollout as rollout_defaults
from ullage.fleet import warm as warm_defaults
from ullage.fleet.failure import Reliability, reliability
from ullage.fleet.maintenance import Maintenance
from ullage.fleet.region import RegionPolicy
from ullage.fleet.reserves import ReservePolicy, ReserveSettings
from ullage.fleet.rollout import Rollout
from ullage.fleet.warm import Warm

PerYear = Annotated[float, Field(ge=0, description="How often one of them fails, in a year of being up.")]
Replicas = Annotated[
    str, Field(pattern=r"^(\d+|\d+(\.\d+)?\s*%)$", description="Replicas, or a share of the fleet: 2 or 25%.")
]


class ReliabilitySection(Section):
    """How often things fail, how long repairs take, and how available the service is to be."""

    availability: Annotated[
        Share | None, Field(description="The share of time in which enough replicas for the planning rate are up.")
    ] = None
    survives: Annotated[
        Literal["nothing", "replica", "node", "zone"] | None,
        Field(description="What may be lost at the busiest hour, whatever the odds."),
    ] = None
    device_failures_per_year: PerYear | None = None
    device_repair: Annotated[Duration | None, Field(description="How long until a failed device serves again.")] = None
    node_failures_per_year: PerYear | None = None
    node_repair: Annotated[Duration | None, Field(description="How long until a failed node serves again.")] = None
    zone_failures_per_year: PerYear | None = None
    zone_repair: Annotated[Duration | None, Field(description="How long until a lost zone serves again.")] = None
    repair_crews: Annotated[
        Count | None, Field(description="Devices, and nodes, that are repaired at a time; left out: all at once.")
    ] = None


class RolloutSection(Section):
    """How versions change."""

    strategy: Literal["rolling", "canary", "blue-green"] | None = None
    surge: Annotated[Replicas | None, Field(description="Replicas beyond the fleet while versions change.")] = None
    max_unavailable: Annotated[Replicas | None, Field(description="Replicas that may be missing meanwhile.")] = None
    within: Annotated[Duration | None, Field(description="How long a rollout may take; sets the surge.")] = None
    canary: Annotated[Share | None, Field(description="Share of the fleet that runs the new version first.")] = None
    drain: Annotated[Duration | None, Field(description="How long a retired replica finishes its answers.")] = None
    spare_devices: Annotated[
        int | None, Field(ge=0, description="Devices that are free beside the fleet; left out: they will be bought.")
    ] = None


class MaintenanceSection(Section):
    """When nodes are patched."""

    every: Annotated[Duration | None, Field(description="How often each node is out of service.")] = None
    work: Annotated[Duration | None, Field(description="How long it is out, beside drain and start.")] = None
    window: Annotated[Duration | None, Field(description="How long one window lasts.")] = None
    window_every: Annotated[Duration | None, Field(description="How often there is a window.")] = None
    drain: Annotated[
        Duration | None, Field(description="How long a node finishes its answers before it is taken out.")
    ] = None
    demand: Annotated[Share | None, Field(description="The most a window sees, as a share of the planning rate.")] = (
        None
    )


class WarmSection(Section):
    """How the fleet follows demand."""

    follows: Annotated[
        Literal["demand", "peak"] | None, Field(description="Scaled with demand, or held at its planning size.")
    ] = None
    start: Annotated[
        Literal["cold", "warm", "hot"] | None, Field(description="The level from which a scaled replica starts.")
    ] = None
    absorbed: Annotated[
        RequestRate | None, Field(description="What queues take beyond the planning rate while replicas start.")
    ] = None


class FailoverSection(Section):
    """What happens when a region is lost."""

    survives: Annotated[Literal["one", "none"] | None, Field(description="How many regions may be lost.")] = None
    share: Annotated[Share | None, Field(description="The share of a lost region's traffic that moves.")] = None


class ReservesSection(Section):
    """What is bought of the reserves."""

    counted: Annotated[
        Literal["sum", "overlap"] | None, Field(description="Whether overlapping reserves stand in for each other.")
    ] = None
    overlap: Annotated[
        tuple[str, ...] | None, Field(description="Reserves that are never needed at once: rollout+maintenance.")
    ] = None
    batch: Annotated[
        Literal["fills", "never"] | None, Field(description="Whether batch work may run in idle reserve.")
    ] = None


def reserve_settings(
    *,
    reliable: ReliabilitySection,
    rollout: RolloutSection,
    maintenance: MaintenanceSection,
    warm: WarmSection,
    failover: FailoverSection,
    reserves: ReservesSection,
    provenance: Provenance,
    catalogue: Catalogue | None = None,
) -> ReserveSettings:
    """The defaults of the stage, replaced by what the file states; `catalogue` has the user's own failure rates."""
    return ReserveSettings(
        reliability=_reliability(reliable, provenance, catalogue),
        rollout=_rollout(rollout, provenance),
        maintenance=_maintenance(maintenance, provenance),
        warm=Warm(
            follows=provenance.over(warm_defaults.FOLLOWS, warm.follows),
            start=provenance.over(warm_defaults.START, warm.start),
            absorbed=None
            if warm.absorbed is None
            else provenance.says("warm.absorbed", warm.absorbed, "req/s", warm.absorbed),
        ),
        regions=RegionPolicy(
            survives=provenance.over(region_defaults.SURVIVES, failover.survives),
            failover=provenance.over(region_defaults.FAILOVER, failover.share),
        ),
        policy=ReservePolicy(
            counted=provenance.over(reserve_defaults.COUNTED, reserves.counted),
            overlap=provenance.over(
                reserve_defaults.OVERLAP, None if reserves.overlap is None else ", ".join(reserves.overlap)
            ),
            batch=provenance.over(reserve_defaults.BATCH, reserves.batch),
        ),
    )


def _reliability(given: ReliabilitySection, provenance: Provenance, catalogue: Catalogue | None) -> Reliability:
    known = reliability(catalogue)
    crews = given.repair_crews
    return replace(
        known,
        device_failures=provenance.over(known.device_failures, given.device_failures_per_year),
        device_repair=provenance.over(known.device_repair, given.device_repair),
        node_failures=provenance.over(known.node_failures, given.node_failures_per_year),
        node_repair=provenance.over(known.node_repair, given.node_repair),
        zone_failures=provenance.over(known.zone_failures, given.zone_failures_per_year),
        zone_repair=provenance.over(known.zone_repair, given.zone_repair),
        availability=provenance.over(known.availability, given.availability),
        survives=provenance.over(known.survives, given.survives),
        crews=None if crews is None else provenance.says("reliability.repair_crews", crews, "crews", crews),
    )


def _rollout(given: RolloutSection, provenance: Provenance) -> Rollout:
    spare = given.spare_devices
    return Rollout(
        strategy=provenance.over(rollout_defaults.STRATEGY, given.strategy),
        surge=None if given.surge is None else _replicas("rollout.surge", given.surge, provenance),
        unavailable=rollout_defaults.UNAVAILABLE
        if given.max_unavailable is None
        else _replicas(rollout_defaults.UNAVAILABLE.name, given.max_unavailable, provenance),
        within=provenance.over(rollout_defaults.WITHIN, given.within),
        canary=provenance.over(rollout_defaults.CANARY_SHARE, given.canary),
        drain=provenance.over(rollout_defaults.DRAIN, given.drain),
        spare=None if spare is None else provenance.says("rollout.spare_devices", spare, "devices", spare),
    )


def _replicas(name: str, written: str, provenance: Provenance) -> Assumption:
    """`2` is replicas, `25%` a share of the fleet."""
    if written.endswith("%"):
        return provenance.decides(name, float(written[:-1]) / 100.0, "fraction", 0.0)
    return provenance.decides(name, int(written), "replicas", 0)


def _maintenance(given: MaintenanceSection, provenance: Provenance) -> Maintenance:
    return Maintenance(
        every=provenance.over(maintenance_defaults.EVERY, given.every),
        work=provenance.over(maintenance_defaults.WORK, given.work),
        window=provenance.over(maintenance_defaults.WINDOW, given.window),
        window_every=provenance.over(maintenance_defaults.WINDOW_EVERY, given.window_every),
        drain=provenance.over(maintenance_defaults.DRAIN, given.drain),
        demand=provenance.over(maintenance_defaults.DEMAND, given.demand),
    )
