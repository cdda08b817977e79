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
from ullage.files.sections.quantities import (
    DAY_S,
    HOUR_S,
    YEAR_S,
    Count,
    CountOrNone,
    Duration,
    Names,
    Number,
    Range,
    RequestRate,
    Share,
    StartTime,
)
from ullage.files.sections.section import Key, Section
from ullage.fleet import failure as failure_defaults
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
from ullage.fleet.utilisation_cap import UtilisationCaps
from ullage.fleet.warm import Warm
from ullage.units import DURATION, FRACTION

PerYear = Annotated[Number, Range(least=0.0, most=10_000.0)]
Replicas = Annotated[str, Field(pattern=r"^([0-9]{1,5}|[0-9]{1,3}(\.[0-9]{1,6})?\s*%)$")]
_UP, _FAILURE = "reserve.availability_fraction", "reserve.failure_replicas"
_ROLLOUT, _PATCHED = "reserve.rollout_duration_s", "reserve.maintenance_replicas"


class ReliabilitySection(Section):
    """How often things fail, how long repairs take, and how available the service is to be."""

    availability: Annotated[
        Share | None,
        Range(least=0.5, most=0.9999999, dimension=FRACTION),
        Key(
            means="The share of time in which enough replicas for the planning rate are up.",
            default="no such rule: the shortfall risk, policy.shortfall, decides",
            moves=_FAILURE,
        ),
    ] = None
    survives: Annotated[
        Literal["nothing", "replica", "node", "zone"] | None,
        Key(
            means="What may be lost in the busiest hour, however unlikely.",
            default=failure_defaults.SURVIVES,
            moves=_FAILURE,
        ),
    ] = None
    device_failures: Annotated[
        PerYear | None,
        Field(alias="device_failures_per_year"),
        Key(means="How often a device fails in a year of being up.", default=lambda: reliability().device_failures,
            moves=_UP),
    ] = None  # fmt: skip
    device_repair: Annotated[
        Duration | None, Range(least=1.0, most=YEAR_S, dimension=DURATION),
        Key(means="How long until a failed device serves again.", default=lambda: reliability().device_repair,
            moves=_UP),
    ] = None  # fmt: skip
    node_failures: Annotated[
        PerYear | None,
        Field(alias="node_failures_per_year"),
        Key(means="How often a node fails in a year of being up.", default=lambda: reliability().node_failures,
            moves=_UP),
    ] = None  # fmt: skip
    node_repair: Annotated[
        Duration | None,
        Range(least=1.0, most=YEAR_S, dimension=DURATION),
        Key(means="How long until a failed node serves again.", default=lambda: reliability().node_repair, moves=_UP),
    ] = None
    zone_failures: Annotated[
        PerYear | None,
        Field(alias="zone_failures_per_year"),
        Key(means="How often a zone fails in a year of being up.", default=lambda: reliability().zone_failures,
            moves=_UP),
    ] = None  # fmt: skip
    zone_repair: Annotated[
        Duration | None,
        Range(least=1.0, most=YEAR_S, dimension=DURATION),
        Key(means="How long until a lost zone serves again.", default=lambda: reliability().zone_repair, moves=_UP),
    ] = None
    repair_crews: Annotated[
        Count | None,
        Key(means="Devices, and nodes, that are repaired at a time.", default="all at once", moves=_UP),
    ] = None


class RolloutSection(Section):
    """How versions change."""

    strategy: Annotated[
        Literal["rolling", "canary", "blue-green"] | None,
        Key(
            means="In what order replicas change.",
            default=rollout_defaults.STRATEGY,
            moves="reserve.rollout_replicas",
        ),
    ] = None
    surge: Annotated[
        Replicas | None,
        Key(
            means="Extra replicas during a rollout: 2 or 25%.",
            default="as many as `within` needs",
            moves="reserve.rollout_replicas",
        ),
    ] = None
    max_unavailable: Annotated[
        Replicas | None,
        Key(
            means="Replicas that may be unavailable during a rollout: 2 or 25%.",
            default="as many as `within` needs, of those that are idle meanwhile",
            moves=_ROLLOUT,
        ),
    ] = None
    within: Annotated[
        Duration | None,
        Range(least=1.0, most=30 * DAY_S, dimension=DURATION),
        Key(
            means="How long a rollout may take; sets the surge.",
            default=rollout_defaults.WITHIN,
            moves="reserve.rollout_replicas",
        ),
    ] = None
    canary: Annotated[
        Share | None,
        Key(
            means="Share of the fleet that runs the new version first.",
            default=rollout_defaults.CANARY_SHARE,
            moves="reserve.rollout_replicas",
        ),
    ] = None
    drain: Annotated[
        StartTime | None,
        Range(least=0.0, most=DAY_S, dimension=DURATION),
        Key(means="How long a retired replica finishes its answers.", default=rollout_defaults.DRAIN, moves=_ROLLOUT),
    ] = None
    demand: Annotated[
        Share | None,
        Key(
            means="The highest load during a rollout, as a share of the planning rate.",
            default="that of the week's quietest hours",
            moves="reserve.rollout_demand_fraction",
        ),
    ] = None
    spare_devices: Annotated[
        CountOrNone | None,
        Key(means="Free devices outside the fleet.", default="they will be bought", moves=_ROLLOUT),
    ] = None


class MaintenanceSection(Section):
    """When nodes are patched."""

    every: Annotated[
        Duration | None,
        Range(least=HOUR_S, most=5 * YEAR_S, dimension=DURATION),
        Key(means="How often each node is out of service.", default=maintenance_defaults.EVERY, moves=_PATCHED),
    ] = None
    work: Annotated[
        Duration | None,
        Range(least=1.0, most=30 * DAY_S, dimension=DURATION),
        Key(means="How long it is out, without drain and start.", default=maintenance_defaults.WORK, moves=_PATCHED),
    ] = None
    window: Annotated[
        Duration | None,
        Range(least=1.0, most=30 * DAY_S, dimension=DURATION),
        Key(means="How long one window lasts.", default=maintenance_defaults.WINDOW, moves=_PATCHED),
    ] = None
    window_every: Annotated[
        Duration | None,
        Range(least=HOUR_S, most=5 * YEAR_S, dimension=DURATION),
        Key(means="How often there is a window.", default=maintenance_defaults.WINDOW_EVERY, moves=_PATCHED),
    ] = None
    drain: Annotated[
        StartTime | None,
        Range(least=0.0, most=DAY_S, dimension=DURATION),
        Key(
            means="How long a node finishes its answers before it is taken out.",
            default=maintenance_defaults.DRAIN,
            moves=_PATCHED,
        ),
    ] = None
    demand: Annotated[
        Share | None,
        Key(
            means="The highest load during a window, as a share of the planning rate.",
            default="that of the week's quietest hours",
            moves=_PATCHED,
        ),
    ] = None


class WarmSection(Section):
    """How the fleet follows demand."""

    follows: Annotated[
        Literal["demand", "peak"] | None,
        Key(
            means="Scaled with demand, or kept at its planned size; with `scaling.machines: released` it is scaled.",
            default=warm_defaults.FOLLOWS,
            moves="reserve.warm_replicas",
        ),
    ] = None
    start: Annotated[
        Literal["cold", "warm", "hot"] | None,
        Key(
            means="The level from which a scaled replica starts.",
            default=warm_defaults.START,
            moves="reserve.rise_rps",
        ),
    ] = None
    absorbed: Annotated[
        RequestRate | None,
        Key(
            means="What queues absorb above the planning rate while replicas start.",
            default="nothing",
            moves="reserve.warm_replicas",
        ),
    ] = None


class FailoverSection(Section):
    """What happens when a region is lost."""

    survives: Annotated[
        Literal["one", "none"] | None,
        Key(
            means="How many regions may be lost.",
            default=region_defaults.SURVIVES,
            moves="reserve.region_replicas",
        ),
    ] = None
    failover: Annotated[
        Share | None,
        Field(alias="share"),
        Key(
            means="The share of a lost region's traffic that moves.",
            default=region_defaults.FAILOVER,
            moves="reserve.region_replicas",
        ),
    ] = None


class ReservesSection(Section):
    """What is bought of the reserves."""

    counted: Annotated[
        Literal["sum", "overlap"] | None,
        Key(
            means="Whether overlapping reserves cover for each other.",
            default=reserve_defaults.COUNTED,
            moves="reserve.replicas",
        ),
    ] = None
    overlap: Annotated[
        Names | None,
        Key(
            means="Reserves that are never needed at once: rollout+maintenance.",
            default=reserve_defaults.OVERLAP,
            moves="reserve.overlap_replicas",
        ),
    ] = None
    batch: Annotated[
        Literal["fills", "never"] | None,
        Key(
            means="Whether batch work may run in idle reserve.",
            default=reserve_defaults.BATCH,
            moves="reserve.batch_replicas",
        ),
    ] = None


def reserve_settings(
    *,
    reliable: ReliabilitySection,
    rollout: RolloutSection,
    maintenance: MaintenanceSection,
    warm: WarmSection,
    failover: FailoverSection,
    reserves: ReservesSection,
    caps: UtilisationCaps,
    provenance: Provenance,
    catalogue: Catalogue | None = None,
) -> ReserveSettings:
    """The defaults of the stage, replaced by what the file states; `catalogue` has the user's own failure rates."""
    overlap = None if reserves.overlap is None else ", ".join(reserves.overlap)
    return ReserveSettings(
        reliability=_reliability(reliable, provenance, catalogue),
        rollout=_rollout(rollout, provenance),
        maintenance=Maintenance(
            **provenance.filled(maintenance),
            demand=provenance.may_say("maintenance.demand", maintenance.demand, "fraction"),
        ),
        warm=Warm(
            **provenance.filled(warm), absorbed=provenance.may_say("warm.absorbed", warm.absorbed, "req/s"), rise=None
        ),
        regions=RegionPolicy(**provenance.filled(failover)),
        policy=ReservePolicy(**provenance.filled(reserves.model_copy(update={"overlap": overlap}))),
        caps=caps,
    )


def _reliability(given: ReliabilitySection, provenance: Provenance, catalogue: Catalogue | None) -> Reliability:
    known = reliability(catalogue)
    named = {name for name in ReliabilitySection.model_fields if name not in ("repair_crews", "availability")}
    return replace(
        known,
        **{name: provenance.over(getattr(known, name), getattr(given, name)) for name in named},
        availability=None
        if given.availability is None
        else provenance.decides("reliability.availability", given.availability, "fraction"),
        crews=provenance.may_say("reliability.repair_crews", given.repair_crews, "crews"),
    )


def _rollout(given: RolloutSection, provenance: Provenance) -> Rollout:
    def counted(name: str, written: str | None) -> Assumption | None:
        return None if written is None else _replicas(f"rollout.{name}", written, provenance)

    return Rollout(
        **provenance.filled(given),
        surge=counted("surge", given.surge),
        unavailable=counted("max_unavailable", given.max_unavailable),
        demand=provenance.may_say("rollout.demand", given.demand, "fraction"),
        spare=provenance.may_say("rollout.spare_devices", given.spare_devices, "devices"),
    )


def _replicas(name: str, written: str, provenance: Provenance) -> Assumption:
    """`2` is replicas, `25%` a share of the fleet."""
    if written.endswith("%"):
        return provenance.decides(name, float(written[:-1]) / 100.0, "fraction")
    return provenance.decides(name, int(written), "replicas")
