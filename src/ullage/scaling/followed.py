"""A typical week of a fleet that releases machines: what is paid in each hour, and what the hour's load needs.

    held      the rule's replicas by rate, starts, drains, nodes held empty and engines asleep included, as it was
              played: never fewer at more load
    paid      steady replicas less whole machines that `held`, rounded up, leaves empty
    needed    steady replicas x rate / planning rate

Rates are those of the mean week, which is what a month is billed for; the day that was played has the planning rate in
its busiest hour. What the rule asks for above the steady fleet runs on reserves, which are paid all the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FollowedWeek:
    """Replicas of the steady fleet, hour by hour of the week."""

    paid_replicas: tuple[float, ...]
    needed_replicas: tuple[float, ...]

    @property
    def mean_replicas(self) -> float:
        return float(np.mean(self.paid_replicas))

    @property
    def idle_replicas(self) -> float:
        """Mean of what is paid beyond the hour's need."""
        return float(np.mean(np.maximum(0.0, np.array(self.paid_replicas) - np.array(self.needed_replicas))))


@dataclass(frozen=True, kw_only=True)
class HeldReplicas:
    """Replicas that a rule held at the rates of the hours it was played in, both in the order of rates."""

    rates_rps: tuple[float, ...]
    replicas: tuple[float, ...]
    least_replicas: int

    def at(self, rates_rps: Floats) -> Floats:
        """Between hours that were played, in proportion; below the calmest of them as its rate, down to the least."""
        found = np.interp(rates_rps, self.rates_rps, self.replicas)
        lowest = self.rates_rps[0]
        below = np.minimum(1.0, rates_rps / lowest) if lowest > 0.0 else 1.0
        return np.maximum(found * below, self.least_replicas)


def held_replicas(rates_rps: Floats, replicas: Floats, *, least_replicas: int) -> HeldReplicas:
    """From hours as they were played. Noise that would hold fewer replicas at a higher rate is averaged out.

    >>> held_replicas(np.array([3.0, 1.0, 2.0]), np.array([5.0, 4.0, 2.0]), least_replicas=1).replicas
    (3.0, 3.0, 5.0)
    """
    order = np.argsort(rates_rps, kind="stable")
    blocks: list[tuple[float, int]] = []
    for each in replicas[order].tolist():
        mean, count = float(each), 1
        while blocks and blocks[-1][0] > mean:
            before, several = blocks.pop()
            mean, count = (before * several + mean * count) / (several + count), several + count
        blocks.append((mean, count))
    return HeldReplicas(
        rates_rps=tuple(rates_rps[order].tolist()),
        replicas=tuple(mean for mean, count in blocks for _ in range(count)),
        least_replicas=least_replicas,
    )


def followed_week(
    held: HeldReplicas, rates_rps: Floats, *, planning_rps: float, steady: int, node_replicas: int
) -> FollowedWeek:
    """The hours of these rates; `node_replicas` of the pool stand on one machine."""
    whole = np.minimum(steady, np.ceil(held.at(rates_rps) - 1e-9))
    empty = (steady - whole) // node_replicas
    paid = steady - node_replicas * empty
    needed = steady * np.minimum(1.0, rates_rps / planning_rps)
    return FollowedWeek(paid_replicas=tuple(paid.tolist()), needed_replicas=tuple(needed.tolist()))
