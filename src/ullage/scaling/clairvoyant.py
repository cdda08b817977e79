"""The clairvoyant: the fewest replica-hours of any fleet that always has what is needed, by dynamic programming.

Time is cut into slots. A fleet of n replicas costs n slots a slot, and every replica that is added costs the slots it
takes to start; letting go is free. With need(t) replicas at least in slot t,

    cost(t, n) = n + min( min over m >= n of cost(t - 1, m),  min over m < n of cost(t - 1, m) + (n - m) x start )

which is exact: both inner minima are running minima, so a week of minutes and a hundred replicas take a fraction of a
second. It knows tomorrow, so it asks for a replica one start before it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.scaling.judged import RuleResult, result, tally
from ullage.scaling.loop import ScalingPool, ScalingTraffic, needed_replicas, run_rule
from ullage.scaling.played import goal_fraction
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.supply import StartTimes

Ints = NDArray[np.int64]
_SLOT_S = 60.0


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


def clairvoyant(pool: ScalingPool, traffic: Sequence[ScalingTraffic]) -> RuleResult | None:
    """The cheapest schedule by dynamic programming that meets every SLO in simulation; None where none of them does.

    It knows every minute's rate and how long its starts take. What a replica may be given is looked for from above.
    Where the fixed fleet violates an SLO too, it is held to what that attains.
    """
    goal = min(0.0, goal_fraction(pool, traffic))
    ready_s = pool.starts.cold_s[50]
    known = replace(pool, starts=StartTimes(cold_s=(ready_s,) * 101, warm_s=(ready_s,) * 101, hot_s=(ready_s,) * 101))
    for fuller in (1.15, 1.0, 0.9, 0.8, 0.7, 0.6):
        runs = []
        for each in traffic:
            _, needed = needed_replicas(each, fuller * pool.each_rps, width_s=_SLOT_S)
            most = pool.limits.most_replicas
            fleet = cheapest_fleet(np.minimum(needed, most), start_slots=ready_s / _SLOT_S)
            rule = ScalingRule(name="clairvoyant", spec=schedule(fleet, slot_s=_SLOT_S, lead_s=ready_s + _SLOT_S))
            spec = rule.spec
            assert isinstance(spec, ScheduleSpec)
            runs.append(tally(run_rule(rule, known, each, start_replicas=spec.at(0.0)), pool))
        found = result("clairvoyant", runs)
        if found.attainment.margin_fraction >= goal:
            return found
    return None
