"""The maintenance reserve: nodes that are drained for patches while the others serve.

Every node is out of service once in `every`, for a drain, the work itself and a start. All of them pass through the
windows of that time, so that many are out at once:

    nodes at once = ceil(nodes x (drain + work + start) / windows in `every`)

In a window with less demand than is planned for, the steady replicas that it leaves idle stand in first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, Figure
from ullage.fleet.choices import choice, number
from ullage.fleet.lines import ReserveLine

EVERY = choice("maintenance.every", 30 * 86_400.0, "s", "drivers, kernels and firmware are patched every month")
WORK = choice("maintenance.work", 3600.0, "s", "patch, reboot and a burn-in of a node's devices")
WINDOW = choice("maintenance.window", 8 * 3600.0, "s", "the working hours of one week's day")
WINDOW_EVERY = choice("maintenance.window_every", 7 * 86_400.0, "s", "one day of the week")
DEMAND = choice("maintenance.demand", 1.0, "fraction", "nobody has said that windows lie outside the busiest hour")
DRAIN = choice("maintenance.drain", 300.0, "s", "a node is empty when its longest answers have ended")


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """When nodes are patched. `demand` is what a window sees at most, as a share of the planning rate."""

    every: Assumption = EVERY
    work: Assumption = WORK
    window: Assumption = WINDOW
    window_every: Assumption = WINDOW_EVERY
    drain: Assumption = DRAIN
    demand: Assumption = DEMAND

    def __post_init__(self) -> None:
        if number(self.window) > number(self.window_every):
            raise InputError(
                field=self.window.name,
                value=self.window.value,
                problem=f"is longer than the time between windows, {self.window_every.value} s",
                fix="Give the length of one window, and how often there is one.",
            )

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.every, self.work, self.window, self.window_every, self.drain, self.demand)


@dataclass(frozen=True, kw_only=True)
class MaintenanceReserve:
    """The line, and how many nodes and replicas are out at once."""

    line: ReserveLine
    nodes: int
    drained_replicas: int
    figures: Mapping[str, Figure]


def maintenance_reserve(
    steady: Figure, given: Maintenance, start: Figure, *, devices: int, fleet_replicas: int, replicas_per_node: int
) -> MaintenanceReserve:
    """What patching all nodes of a fleet in time needs beyond the steady replicas that a window leaves idle."""
    assert not isinstance(start.value, str)
    nodes = math.ceil(fleet_replicas / replicas_per_node)
    out_s = number(given.drain) + number(given.work) + float(start.value)
    windows_s = number(given.window) * number(given.every) / number(given.window_every)
    at_once = min(nodes, math.ceil(nodes * out_s / windows_s)) if number(given.window) >= out_s else nodes
    drained = min(fleet_replicas, at_once * replicas_per_node)
    needed = int(steady.value)
    idle = needed - math.ceil(needed * number(given.demand))
    extra = max(0, drained - idle)
    rule = f"{at_once} of {nodes} nodes at once, {replicas_per_node} replicas each"
    rule += f", less {idle} idle in a window" if idle else ""
    figure = Figure(
        name="reserve.maintenance_replicas",
        value=extra,
        unit="replicas",
        formula=f"{rule}: ceil(nodes x (drain + work + start) / windows)",
        inputs=(steady, start, *given.inputs),
    )
    return MaintenanceReserve(
        line=ReserveLine(
            name="maintenance",
            replicas=extra,
            devices=extra * devices,
            serving_replicas=extra,
            rule=rule,
            protects="the SLO while nodes are drained and patched",
            figure=figure,
        ),
        nodes=at_once,
        drained_replicas=drained,
        figures={figure.name: figure},
    )
