"""The most devices that a pool's pods may ask for at once: the fleet, or a rollout at its largest.

A rollout starts its surge before it stops anything. Where a quota holds the replicas and not the surge, the first new
pod is refused, no old one may go, and the rollout stalls. A fixed fleet has its surge in the rollout reserve; an
autoscaler at its maximum has none left there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.emit.numbers import PlanNumber


@dataclass(frozen=True, kw_only=True)
class Room:
    """The most replicas of a pool at once, the devices of one, and why."""

    replicas: int
    replica_devices: int
    why: str

    @property
    def devices(self) -> int:
        return self.replicas * self.replica_devices


def room(numbers: Mapping[str, PlanNumber], prefix: str = "") -> Room:
    """Of the pool whose numbers begin with this prefix: fleet and reserves, or all that may run and its surge."""

    def whole(name: str) -> int:
        found = numbers.get(f"{prefix}{name}")
        return 0 if found is None or isinstance(found.value, str) else int(found.value)

    fleet, devices = whole("fleet.total_replicas"), whole("fleet.total_devices")
    fixed, scaled = whole("reserve.serving_replicas"), whole("scaling.most_replicas")
    # An autoscaler leaves no replica idle: what a rollout may do without is surge there, as in its strategy.
    surge = whole("reserve.rollout_surge_replicas")
    surge_scaled = surge + whole("reserve.rollout_unavailable_replicas")
    ways = {
        "steady fleet and reserves": fleet,
        f"{fixed} replicas and {surge} of a rollout's surge": fixed + surge,
        f"{scaled} replicas, the autoscaler's maximum, and {surge_scaled} of a rollout's surge": scaled + surge_scaled,
    }
    largest = max(ways, key=lambda each: ways[each])
    return Room(
        replicas=ways[largest],
        replica_devices=devices // max(1, fleet),
        why=f"the most at once: {largest}; devices of a replica x {ways[largest]}",
    )


def rooms(numbers: Mapping[str, PlanNumber]) -> list[Room]:
    """Of every pool of a plan."""
    last = "fleet.total_devices"
    return [room(numbers, name[: -len(last)]) for name in numbers if name == last or name.endswith(f".{last}")]
