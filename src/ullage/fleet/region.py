"""The region reserve: what the other regions hold for the traffic of one that is lost.

Region i has share s_i of the traffic. When region j is lost, the share f of its traffic that fails over is taken by the
others in proportion to their own:

    region i carries   s_i + f x s_j x s_i / (1 - s_j)

Each region holds the largest of these over the regions that may be lost, in whole replicas; the reserve is what that is
more than the steady fleet. With two equal regions and full failover it is the fleet once more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, Figure, number
from ullage.fleet.choices import choice
from ullage.fleet.lines import ReserveLine
from ullage.fleet.sites import Sites

SURVIVES = choice("regions.survives", "one", "", "a second region exists to survive the loss of the first")
FAILOVER = choice("regions.failover", 1.0, "fraction", "no traffic of a lost region is dropped")


@dataclass(frozen=True, kw_only=True)
class RegionPolicy:
    """Whether the loss of one region is survived, and which share of its traffic moves."""

    survives: Assumption = SURVIVES
    failover: Assumption = FAILOVER

    def __post_init__(self) -> None:
        check_name(str(self.survives.value), ("one", "none"), field=self.survives.name)
        if not 0.0 <= number(self.failover) <= 1.0:
            raise InputError(
                field=self.failover.name,
                value=self.failover.value,
                problem="is not a share",
                fix="Give for example 100%.",
            )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.survives, self.failover)


@dataclass(frozen=True, kw_only=True)
class RegionShare:
    """One region: its share of the traffic, the most it carries after a loss, and the replicas that takes."""

    name: str
    traffic_fraction: float
    carried_fraction: float
    replicas: int


@dataclass(frozen=True, kw_only=True)
class RegionReserve:
    """The line, and what every region holds; `sites` are the sites with the replicas' shares in place of traffic's."""

    line: ReserveLine
    shares: tuple[RegionShare, ...]
    sites: Sites
    figures: Mapping[str, Figure]

    @property
    def is_survived(self) -> bool:
        """Whether the loss of a region leaves what the others need."""
        return any(each.carried_fraction > each.traffic_fraction for each in self.shares)


def region_reserve(steady: Figure, sites: Sites, given: RegionPolicy, *, devices: int) -> RegionReserve:
    """What regions hold for each other."""
    needed = int(steady.value)
    shares = traffic_shares(sites)
    is_survived = given.survives.value == "one" and len(shares) > 1
    failover = number(given.failover) if is_survived else 0.0
    rows = tuple(
        RegionShare(
            name=region.name,
            traffic_fraction=share,
            carried_fraction=(carried := carried_fraction(place, shares, failover)),
            # A share such as 0.6 x 10 is a little more than 6 in binary; it is still 6 replicas.
            replicas=math.ceil(needed * carried - 1e-9),
        )
        for place, (region, share) in enumerate(zip(sites.regions, shares, strict=True))
    )
    extra = max(0, sum(row.replicas for row in rows) - needed) if is_survived else 0
    if len(shares) == 1:
        rule = "one region: its loss is an outage"
    elif is_survived:
        rule = f"each of {len(shares)} regions takes over its part of {100 * failover:g} % of any other"
    else:
        rule = "loss of a region need not be survived"
    own = tuple(region.share for region in sites.regions if region.share is not None)
    figure = Figure(
        name="reserve.region_replicas",
        value=extra,
        unit="replicas",
        formula=f"{rule}; replicas of all regions - steady",
        inputs=(steady, *given.inputs, *own),
    )
    line = ReserveLine(
        name="region",
        replicas=extra,
        devices=extra * devices,
        serving_replicas=extra,
        rule=rule,
        protects="the SLO in the other regions while one is lost",
        figure=figure,
    )
    return RegionReserve(
        line=line,
        shares=rows,
        sites=_weighted(sites, rows, given) if is_survived else sites,
        figures={figure.name: figure},
    )


def traffic_shares(sites: Sites) -> tuple[float, ...]:
    """Every region's part of the traffic, as stated, or by its zones."""
    weights = [len(each.zones) if each.share is None else number(each.share) for each in sites.regions]
    return tuple(weight / sum(weights) for weight in weights)


def carried_fraction(place: int, shares: tuple[float, ...], failover_fraction: float) -> float:
    """The most that one region carries, over the losses of every other.

    >>> carried_fraction(0, (0.5, 0.5), 1.0), round(carried_fraction(0, (0.5, 0.3, 0.2), 1.0), 4)
    (1.0, 0.7143)
    """
    own = shares[place]
    lost = [other for index, other in enumerate(shares) if index != place and other < 1.0]
    return own + failover_fraction * max((other * own / (1.0 - other) for other in lost), default=0.0)


def _weighted(sites: Sites, rows: tuple[RegionShare, ...], given: RegionPolicy) -> Sites:
    """The same sites, replicas to be spread over them by what each region must hold."""
    total = sum(row.replicas for row in rows)
    regions = [
        replace(region, share=replace(given.failover, name=f"{region.name}.replica_share", value=row.replicas / total))
        for region, row in zip(sites.regions, rows, strict=True)
    ]
    return Sites(regions=tuple(regions))
