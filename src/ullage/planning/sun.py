"""Following the sun: what regions whose busy hours differ need together, beside what each needs for itself.

The week of a class is each region's own, in its own hours. Regions that serve only their users are each sized for their
own busiest hour; regions that serve each other's are sized for the busiest hour of all of them:

    apart     sum over regions of    max over hours of    share x week(hour)
    pooled    max over hours of      sum over regions of  share x week(hour - hours later)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.evidence import Assumption, Figure, number
from ullage.fleet.region import traffic_shares
from ullage.fleet.risk.spread import Floats
from ullage.fleet.sites import Sites
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan


@dataclass(frozen=True, kw_only=True)
class SunSaving:
    """One pool over several regions: its steady replicas apart and pooled, and what that would save.

    `why` is the reason where nothing is known of it.
    """

    pool: str
    apart_replicas: int
    pooled_replicas: Figure | None
    saved_devices: int = 0
    why: str = ""


def following_the_sun(plan: Plan) -> tuple[SunSaving, ...]:
    """Every pool that runs in several regions."""
    return tuple(
        _saving(plan, pool, sites)
        for pool in plan.pools
        if (sites := plan.spec.sites.get(pool.spec.device.name)) is not None and len(sites.regions) > 1
    )


def _saving(plan: Plan, pool: PoolPlan, sites: Sites) -> SunSaving:
    shares = traffic_shares(sites)
    steady = pool.steady_fleet.replicas
    apart = sum(math.ceil(steady * share - 1e-9) for share in shares)
    later = [each.later for each in sites.regions if each.later is not None]
    if not later:
        why = "busy hours by region are not stated (sites.regions: hours_later): all are assumed to peak at once"
        return SunSaving(pool=pool.spec.name, apart_replicas=apart, pooled_replicas=None, why=why)
    traced = [each.name for each in pool.demand.classes if each.name in plan.spec.measured]
    if traced:
        why = f"the log of {', '.join(traced)} covers all regions together and does not separate their hours"
        return SunSaving(pool=pool.spec.name, apart_replicas=apart, pooled_replicas=None, why=why)
    week = np.sum(
        [each.planning_rps * np.array(each.model.season) / max(each.model.season) for each in pool.demand.classes],
        axis=0,
    )
    hours = [0 if each.later is None else int(number(each.later)) for each in sites.regions]
    pooled = math.ceil(steady * pooled_fraction(week, shares, hours) - 1e-9)
    prefix = f"{pool.spec.name}." if len(plan.pools) > 1 else ""
    replicas = plan.figures_of("steady_fleet", pool.spec.name)["fleet.replicas"]
    inputs: list[Figure | Assumption] = [replicas, *later]
    inputs += [each.share for each in sites.regions if each.share is not None]
    figure = Figure(
        name=f"{prefix}sun.pooled_replicas",
        value=pooled,
        unit="replicas",
        formula="steady replicas x busiest hour of all regions together / sum of their own busiest hours, rounded up",
        inputs=tuple(inputs),
    )
    saved = max(0, apart - pooled) * pool.reserves.devices_per_replica
    return SunSaving(pool=pool.spec.name, apart_replicas=apart, pooled_replicas=figure, saved_devices=saved)


def pooled_fraction(week: Floats, shares: Sequence[float], hours_later: Sequence[int]) -> float:
    """The busiest hour of regions together, over the sum of their own.

    >>> pooled_fraction(np.array([1.0, 0.0]), (0.5, 0.5), (0, 1))
    0.5
    """
    together = sum(share * np.roll(week, hours) for share, hours in zip(shares, hours_later, strict=True))
    return float(np.max(together) / (np.max(week) * sum(shares)))
