"""How much of a fleet to commit: the level at which an hour more of commitment stops paying for itself.

Sort the hours by how many replicas they need: the demand duration curve. A committed replica is paid in all hours and
used in those that need it; it pays where the share of hours that need it is above the price of the commitment over
that of an hour by use. So the best level is a quantile of the curve:

    commit k  with  share of hours that need more than k  <=  committed price / price by use  <  share that need k

A fleet that does not follow demand needs all its replicas in all hours, and then everything is committed or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.cost.quotes import DeviceQuote
from ullage.cost.service_use import PoolUse
from ullage.errors import InputError
from ullage.evidence import Assumption, Figure


@dataclass(frozen=True, kw_only=True)
class CommitmentLevel:
    """What the period costs with so many replicas committed and the rest by use."""

    committed_replicas: int
    usd: float


@dataclass(frozen=True, kw_only=True)
class CommitmentAdvice:
    """The cheapest level, beside none and all. `levels` are every level from none to the busiest hour's need."""

    pool: str
    best: CommitmentLevel
    levels: tuple[CommitmentLevel, ...]
    figures: tuple[Figure, ...]

    @property
    def saved_usd(self) -> float:
        """Against buying all by use."""
        return self.levels[0].usd - self.best.usd


def commitment_levels(
    needed_replicas: Sequence[float], *, committed_usd_per_hour: float, usage_usd_per_hour: float, period_hours: float
) -> tuple[CommitmentLevel, ...]:
    """The cost of every level over hours of equal weight; replicas are whole, and an hour's need is rounded up.

    >>> levels = commitment_levels([2, 2, 4, 8], committed_usd_per_hour=6, usage_usd_per_hour=10, period_hours=4)
    >>> [each.usd for each in levels][:5]
    [160.0, 144.0, 128.0, 132.0, 136.0]
    """
    if not needed_replicas or min(needed_replicas) < 0.0 or usage_usd_per_hour < 0.0 or committed_usd_per_hour < 0.0:
        raise InputError(
            field="needed_replicas",
            value=list(needed_replicas)[:4],
            problem="a duration curve has hours, and neither needs nor prices are negative",
            fix="Give the replicas that each hour needs.",
        )
    need = np.ceil(np.asarray(needed_replicas, dtype=np.float64) - 1e-9)
    each_hours = period_hours / need.size
    return tuple(
        CommitmentLevel(
            committed_replicas=level,
            usd=level * committed_usd_per_hour * period_hours
            + float(np.maximum(need - level, 0.0).sum()) * each_hours * usage_usd_per_hour,
        )
        for level in range(int(need.max()) + 1)
    )


def commitment_advice(
    pool: PoolUse,
    needed_replicas: Sequence[float],
    committed: DeviceQuote,
    usage: DeviceQuote,
    *,
    period: Assumption,
) -> CommitmentAdvice:
    """The best level of one pool whose replicas follow `needed_replicas`, hour by hour of a typical week."""
    levels = commitment_levels(
        needed_replicas,
        committed_usd_per_hour=committed.usd_per_hour * pool.replica_devices,
        usage_usd_per_hour=usage.usd_per_hour * pool.replica_devices,
        period_hours=float(period.value),
    )
    best = min(levels, key=lambda each: (each.usd, each.committed_replicas))
    inputs = (committed.hour, usage.hour, period, *pool.basis)
    ratio = committed.usd_per_hour / usage.usd_per_hour if usage.usd_per_hour else math.inf
    replicas = Figure(
        name=f"commitment.{pool.name}_replicas",
        value=best.committed_replicas,
        unit="replicas",
        formula=f"the number needed in more than {100 * min(ratio, 1.0):.0f} % of the hours, which is the price "
        f"of {committed.purchase} over {usage.purchase}",
        inputs=inputs,
    )
    saved = Figure(
        name=f"commitment.{pool.name}_saved_usd",
        value=levels[0].usd - best.usd,
        unit="USD",
        formula=f"all at {usage.purchase} - the best level, in a fleet that follows demand without delay",
        inputs=(replicas, *inputs),
    )
    return CommitmentAdvice(pool=pool.name, best=best, levels=levels, figures=(replicas, saved))
