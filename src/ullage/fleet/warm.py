"""The warm reserve: what carries demand that rises faster than replicas start.

A fleet that follows demand requests a replica when it is needed and gets it one time to ready later. Replicas for the
rise of demand in between must be running already:

    warm = ceil(steady x rise / planning rate) - what queues and headroom absorb

The rise is the steepest of the week in one time to ready, at the scale that is planned for. A fleet that is held at its
planning size all the time needs none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ullage.errors import check_name
from ullage.evidence import Assumption, Figure, number
from ullage.fleet.choices import choice
from ullage.fleet.lines import ReserveLine
from ullage.startup.phases import Level
from ullage.startup.ready import TimeToReady
from ullage.workload.demand.demand import Demand

_HOUR_S = 3600.0

FOLLOWS = choice("warm.follows", "peak", "", "devices are rented by the month, so releasing them saves nothing")
START = choice("warm.start", "cold", "", "nodes beyond the fleet are not held")


@dataclass(frozen=True, kw_only=True)
class Warm:
    """How the fleet follows demand: `demand` scales it, `peak` holds it at its planning size.

    `start` is the level from which a scaled replica starts. `rise` overrides the steepest rise of the week, in requests
    a second per second; `absorbed` is what the burst budget of the admission limits takes in the meantime, in req/s.
    """

    follows: Assumption = FOLLOWS
    start: Assumption = START
    rise: Assumption | None = None
    absorbed: Assumption | Figure | None = None

    def __post_init__(self) -> None:
        check_name(str(self.follows.value), ("demand", "peak"), field=self.follows.name)
        check_name(str(self.start.value), [each.value for each in Level], field=self.start.name)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        given = (self.follows, self.start, self.rise, self.absorbed)
        return tuple(each for each in given if isinstance(each, Assumption))


@dataclass(frozen=True, kw_only=True)
class WarmReserve:
    """The line; `rise_rps` is what demand gains during one start, `ready_s` how long that takes."""

    line: ReserveLine
    rise_rps: float
    ready_s: float
    figures: Mapping[str, Figure]


def warm_reserve(steady: Figure, demand: Demand, ready: TimeToReady, given: Warm, *, devices: int) -> WarmReserve:
    """Replicas kept ahead of a demand that rises while others start."""
    start = ready.figures[f"ready.{given.start.value}_p90_s"]
    assert not isinstance(start.value, str)
    slope = steepest_rise(demand) if given.rise is None else number(given.rise)
    planning = demand.figures["demand.planning_rate"]
    # More than the whole planning rate cannot be missing.
    rise_rps = min(slope * float(start.value), demand.planning_rps)
    absorbed = 0.0 if given.absorbed is None else float(given.absorbed.value)
    is_scaled = given.follows.value == "demand"
    short_rps = max(0.0, rise_rps - absorbed) if is_scaled else 0.0
    # A fleet never follows demand below one replica, so that one is never among the missing.
    extra = min(int(steady.value) - 1, math.ceil(int(steady.value) * short_rps / demand.planning_rps - 1e-9))
    absorbs = () if not isinstance(given.absorbed, Figure) else (given.absorbed,)
    rise = Figure(
        name="reserve.rise_rps",
        value=rise_rps,
        unit="req/s",
        formula="steepest rise of the week at planning scale x time to ready at p90"
        if given.rise is None
        else "stated rise x time to ready at p90",
        inputs=(planning, start, *given.inputs),
    )
    rule = (
        f"demand may rise by {rise_rps:.3g} req/s in one {given.start.value} start"
        + (f", {absorbed:.3g} of it absorbed" if absorbed else "")
        if is_scaled
        else "the fleet stays at its planning size"
    )
    figure = Figure(
        name="reserve.warm_replicas",
        value=extra,
        unit="replicas",
        formula=f"{rule}: ceil(steady x rise / planning rate), at most all but one",
        inputs=(rise, steady, *absorbs),
    )
    line = ReserveLine(
        name="warm",
        replicas=extra,
        devices=extra * devices,
        serving_replicas=extra,
        rule=rule,
        protects="the SLO while demand rises faster than replicas start",
        figure=figure,
    )
    figures = {figure.name: figure, rise.name: rise}
    return WarmReserve(
        line=line, rise_rps=rise_rps if is_scaled else 0.0, ready_s=float(start.value), figures=figures
    )  # fmt: skip


def steepest_rise(demand: Demand) -> float:
    """The steepest slope between two hours of the week, in requests a second per second, at planning scale."""
    total = np.sum(
        [np.array(each.model.season) * each.planning_rps / max(each.model.season) for each in demand.classes], axis=0
    )
    return float(max(0.0, np.max(np.roll(total, -1) - total))) / _HOUR_S
