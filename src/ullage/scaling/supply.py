"""Where replicas come from: how long each start takes, from which level, and what nodes, quotas and refusals add.

A start is hot where a sleeper is left on a node, warm where a node that is still held has room, and cold otherwise. A
new node may be refused, and is asked for again after a wait; nodes come at most so many a minute. A node that became
empty is held for a while, so that what returns soon starts warm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ullage.errors import InputError

# Draws of one run; a run that starts more replicas uses them again.
_DRAWS = 4096
_NO_LIMIT = math.inf


@dataclass(frozen=True, kw_only=True)
class StartTimes:
    """How long starts of each level take, at every percentile from 0 to 100."""

    cold_s: tuple[float, ...]
    warm_s: tuple[float, ...]
    hot_s: tuple[float, ...]

    def times(self, ratio: float) -> StartTimes:
        return StartTimes(
            cold_s=tuple(ratio * each for each in self.cold_s),
            warm_s=tuple(ratio * each for each in self.warm_s),
            hot_s=tuple(ratio * each for each in self.hot_s),
        )

    @property
    def cold_p90_s(self) -> float:
        return self.cold_s[90]


@dataclass(frozen=True, kw_only=True)
class CapacityLimits:
    """The `scaling` section of a plan file: what the platform lets a rule do.

    `refused_fraction` is the chance that a node is not to be had, `refused_s` when it is asked for again.
    `sleepers` are engines asleep on nodes that are held, each of which keeps `sleeper_fraction` of a replica's devices
    from others; a node that became empty is held for `node_held_s`.
    """

    least_replicas: int = 1
    most_replicas: int = 0
    step_replicas: int = 0
    cooldown_s: float = 0.0
    nodes_per_minute: float = _NO_LIMIT
    refused_fraction: float = 0.0
    refused_s: float = 300.0
    sleepers: int = 0
    sleeper_fraction: float = 1.0
    node_replicas: int = 1
    node_held_s: float = 600.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.refused_fraction < 1.0:
            raise InputError(
                field="scaling.refused",
                value=self.refused_fraction,
                problem="must be a share below 1: capacity that never arrives is a quota",
                fix="Give for example 10%, or a quota.",
            )


@dataclass(frozen=True, kw_only=True)
class StartRecord:
    """One start: when it was asked for, how long it took, from which level, and how much of it was refused capacity."""

    at_s: float
    took_s: float
    level: str
    refused_s: float


class Supply:
    """The platform under way; every start of a run is drawn in turn from one seed's numbers."""

    def __init__(
        self, times: StartTimes, limits: CapacityLimits, rng: Generator, *, outage_s: tuple[float, float] | None = None
    ) -> None:
        self.times, self.limits, self.outage_s = times, limits, outage_s
        self.chances = rng.random((_DRAWS, 2))
        self.drawn = 0
        self.records: list[StartRecord] = []
        self.held: list[tuple[float, int]] = []
        self.next_node_s = self.node_wait_s = 0.0

    def nodes(self, now_s: float, used: int) -> int:
        """Nodes that are there: those in use now, and what was in use until `node_held_s` ago."""
        needed = math.ceil(used / self.limits.node_replicas)
        self.held = [(at, count) for at, count in self.held if at > now_s - self.limits.node_held_s and count > needed]
        self.held.append((now_s, needed))
        return max(count for _, count in self.held)

    def starts(self, count: int, *, now_s: float, used: int) -> tuple[float, ...]:
        """How long the next starts take. `used` are replicas that hold devices already."""
        room = self.nodes(now_s, used) * self.limits.node_replicas - used
        asleep = max(0, self.limits.sleepers - sum(each.level == "hot" for each in self._recent(now_s)))
        found = []
        for number in range(count):
            spread, chance = self.chances[self.drawn % _DRAWS]
            self.drawn += 1
            if number < asleep:
                level, wait_s = "hot", 0.0
            elif number - asleep < room:
                level, wait_s = "warm", 0.0
            else:
                level, wait_s = "cold", self._node_wait(now_s, number - asleep - room, float(chance))
            took_s = wait_s + _at(getattr(self.times, f"{level}_s"), float(spread))
            self.records.append(StartRecord(at_s=now_s, took_s=took_s, level=level, refused_s=wait_s))
            found.append(took_s)
        return tuple(found)

    def _recent(self, now_s: float) -> list[StartRecord]:
        """Sleepers that were woken are asleep again when a node would have been let go."""
        return [each for each in self.records[-64:] if each.at_s > now_s - self.limits.node_held_s]

    def _node_wait(self, now_s: float, number: int, chance: float) -> float:
        """What is waited for before the node of the `number`-th cold start is even made."""
        if number % self.limits.node_replicas == 0:
            paced_s = max(now_s, self.next_node_s)
            self.next_node_s = paced_s + 60.0 / self.limits.nodes_per_minute
            self.node_wait_s = paced_s - now_s + self._refused(now_s, chance)
        return self.node_wait_s

    def _refused(self, now_s: float, chance: float) -> float:
        """Refusals in a row are geometric; during an outage of capacity every request is refused."""
        refused = self.limits.refused_fraction
        tries = (
            0 if refused == 0.0 or chance >= refused else math.floor(math.log(max(chance, 1e-12)) / math.log(refused))
        )
        wait_s = tries * self.limits.refused_s
        if self.outage_s is not None and self.outage_s[0] <= now_s < self.outage_s[1]:
            wait_s += self.outage_s[1] - now_s
        return wait_s


def _at(quantiles_s: tuple[float, ...], chance: float) -> float:
    """The duration at a percentile, straight between whole ones."""
    return float(np.interp(100.0 * chance, np.arange(len(quantiles_s)), quantiles_s))
