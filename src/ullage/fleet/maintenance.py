"""The maintenance reserve: nodes that are drained for patches while the others serve.

Every node is out of service once in `every`, for a drain, the work itself and a start. All of them pass through the
windows of that time, so that many are out at once:

    nodes at once = ceil(nodes x (drain + work + start) / windows in `every`)

The reserve is what the fullest so many nodes hold, itself included, since it runs on nodes too. In a window with less
demand than is planned for, the replicas that it leaves idle stand in first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, Figure, number
from ullage.fleet.choices import choice
from ullage.fleet.lines import ReserveLine

EVERY = choice("maintenance.every", 30 * 86_400.0, "s", "drivers, kernels and firmware are patched every month")
WORK = choice("maintenance.work", 3600.0, "s", "patch, reboot and a burn-in of a node's devices")
WINDOW = choice("maintenance.window", 8 * 3600.0, "s", "the working hours of one day a week")
WINDOW_EVERY = choice("maintenance.window_every", 7 * 86_400.0, "s", "one day of the week")
DRAIN = choice("maintenance.drain", 300.0, "s", "a node is empty when its longest answers have ended")


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """When nodes are patched. `demand` is what a window sees at most, as a share of the planning rate; without it,
    windows lie in the week's quietest hours."""

    every: Assumption = EVERY
    work: Assumption = WORK
    window: Assumption = WINDOW
    window_every: Assumption = WINDOW_EVERY
    drain: Assumption = DRAIN
    demand: Assumption | None = None

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
        stated = () if self.demand is None else (self.demand,)
        return (self.every, self.work, self.window, self.window_every, self.drain, *stated)


@dataclass(frozen=True, kw_only=True)
class MaintenanceReserve:
    """The line, and how many nodes and replicas are out at once."""

    line: ReserveLine
    nodes: int
    drained_replicas: int
    figures: Mapping[str, Figure]


def maintenance_reserve(
    serving: Figure,
    given: Maintenance,
    start: Figure,
    *,
    quiet: Figure,
    devices: int,
    nodes_of: Callable[[int], Sequence[int]],
) -> MaintenanceReserve:
    """What patching all nodes of the `serving` fleet in time needs beyond what a window leaves idle.

    `quiet` is the share of the planning rate that a window meets, `nodes_of` gives the replicas on each node of a fleet
    of so many.
    """
    assert not isinstance(start.value, str)
    out_s = number(given.drain) + number(given.work) + float(start.value)
    windows_s = number(given.window) * number(given.every) / number(given.window_every)
    is_fitting = number(given.window) >= out_s
    idle = int(serving.value) - math.ceil(int(serving.value) * number(quiet) - 1e-9)
    extra = 0
    while True:
        held = sorted(nodes_of(int(serving.value) + extra), reverse=True)
        at_once = min(len(held), math.ceil(len(held) * out_s / windows_s)) if is_fitting else len(held)
        drained = sum(held[:at_once])
        # A fleet that is patched all at once is never large enough; its reserve is a second one.
        if extra >= drained - idle or extra >= int(serving.value):
            break
        extra += 1
    rule = f"{at_once} of {len(held)} nodes at once, {drained} replica{'' if drained == 1 else 's'}"
    rule += f", less {idle} idle in a window" if idle else ""
    if extra > max(0, drained - idle) and extra < int(serving.value):
        rule += "; on fewer nodes, each would hold more replicas"
    figure = Figure(
        name="reserve.maintenance_replicas",
        value=extra,
        unit="replicas",
        formula=f"{rule}: ceil(nodes x (drain + work + start) / windows)",
        inputs=(serving, start, quiet, *given.inputs),
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
        figures={figure.name: figure, quiet.name: quiet},
    )
