"""The clairvoyant: the fewest replica-hours of any fleet that always has what is needed, by dynamic programming.

Time is cut into slots. A fleet of n replicas costs n slots a slot, and every replica that is added costs the slots it
takes to start; letting go is free. With need(t) replicas at least in slot t,

    cost(t, n) = n + min( min over m >= n of cost(t - 1, m),  min over m < n of cost(t - 1, m) + (n - m) x start )

which is exact: both inner minima are running minima, so a week of minutes and a hundred replicas take a fraction of a
second. It knows tomorrow, so it asks for a replica one start before it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.scaling.rules import ScheduleSpec

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Clairvoyant:
    """The replicas of each slot, and their cost in slots, starts included."""

    replicas: Ints
    cost_slots: float


def cheapest_fleet(needed: Ints, *, start_slots: float, most: int | None = None) -> Clairvoyant:
    """The cheapest course of replicas that is never below need.

    >>> cheapest_fleet(np.array([1, 3, 1, 1, 3]), start_slots=5.0).replicas.tolist()
    [1, 3, 3, 3, 3]
    >>> cheapest_fleet(np.array([1, 3, 1, 1, 3]), start_slots=1.0).replicas.tolist()
    [1, 3, 1, 1, 3]
    """
    highest = int(needed.max(initial=0)) if most is None else min(int(needed.max(initial=0)), most)
    wanted = np.minimum(needed, highest)
    counts = np.arange(highest + 1, dtype=np.float64)
    # What is there at the beginning is there already.
    cost = np.where(counts >= wanted[0], counts, np.inf)
    cost[int(wanted[0]) + 1 :] = np.inf
    choices = np.zeros((wanted.size, highest + 1), np.int32)
    for slot in range(1, wanted.size):
        cost, choices[slot] = _next(cost, counts, start_slots)
        cost[: int(wanted[slot])] = np.inf
        cost = cost + counts
    replicas = np.empty(wanted.size, np.int64)
    replicas[-1] = int(np.argmin(cost))
    for slot in range(wanted.size - 1, 0, -1):
        replicas[slot - 1] = choices[slot, replicas[slot]]
    return Clairvoyant(replicas=replicas, cost_slots=float(cost.min()))


def _next(
    cost: NDArray[np.float64], counts: NDArray[np.float64], start_slots: float
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The cheapest way to every count, and the count it comes from."""
    places = np.arange(cost.size)
    # From above, letting go: the running minimum from the right, the nearest of equals.
    reverse = cost[::-1]
    low = np.minimum.accumulate(reverse)
    at = np.maximum.accumulate(np.where(reverse <= low, places, 0))
    down, down_from = low[::-1], (cost.size - 1 - at)[::-1]
    # From below, starting: the running minimum of cost less what the starts so far would have cost.
    shifted = cost - counts * start_slots
    low = np.minimum.accumulate(shifted)
    up, up_from = low + counts * start_slots, np.maximum.accumulate(np.where(shifted <= low, places, 0))
    rises = up < down
    return np.where(rises, up, down), np.where(rises, up_from, down_from).astype(np.int32)


def schedule(fleet: Clairvoyant, *, slot_s: float, lead_s: float) -> ScheduleSpec:
    """When to ask so that each replica is ready as its slot begins; replicas are let go when their slot is over."""
    ahead, size = round(lead_s / slot_s), fleet.replicas.size
    # What is asked for at a slot is the most of the slots until its starts are ready.
    lifted = np.array([int(fleet.replicas[slot : min(size, slot + ahead + 1)].max()) for slot in range(size)])
    times, replicas = [0.0], [int(lifted[0])]
    for slot in np.flatnonzero(np.diff(lifted)) + 1:
        times.append(float(slot) * slot_s)
        replicas.append(int(lifted[slot]))
    return ScheduleSpec(times_s=tuple(times), replicas=tuple(replicas))
