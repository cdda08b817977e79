"""Utilisation: load over capacity, in the states that a fleet is in.

    capacity       what the replicas behind the router carry before the first SLO is violated
    utilisation    mean load, the busiest hour, its planning percentile / capacity
    machine lost   the planning percentile / the capacity of what is left; zone lost likewise, where there are several

Capacity is the headroom's: the load that the steady replicas carried in simulation, times the replicas that serve over
the steady ones. Reserves that are devices kept free carry nothing until a replica starts on them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.evidence import Assumption, Figure, number
from ullage.fleet.packing import Packing
from ullage.fleet.reserves import Reserves
from ullage.fleet.steady import SteadyFleet
from ullage.planning.margins import Margins
from ullage.service.headroom import Headroom
from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """One figure for each state; a state in which nothing would be left has none."""

    figures: Mapping[str, Figure]

    def state(self, name: str) -> Figure | None:
        return self.figures.get(f"utilisation.{name}_fraction")


def utilisation(
    demand: Demand, margins: Margins, steady: SteadyFleet, room: Headroom, reserves: Reserves, packing: Packing
) -> Utilisation:
    """The planned pool's load over its capacity."""
    planned, replicas = demand.figures["demand.planning_rate"], steady.figures["fleet.replicas"]
    serving = steady.replicas + reserves.serving_replicas
    lost = {"machine_lost": packing.chosen.most_parts_per_node, "zone_lost": _in_a_zone(serving, reserves)}
    capacity = _figure(
        "capacity_rps",
        carried_rps(room) * serving / steady.replicas,
        "req/s",
        f"load at which the first SLO is violated x {serving} serving replicas / {steady.replicas} steady ones",
        (*room.figures.values(), replicas, reserves.figures["reserve.replicas"]),
    )
    mean = _figure(
        "mean_rps",
        sum(each.mean_rps for each in demand.classes),
        "req/s",
        "sum of the classes' mean rates over the horizon",
        tuple(each.figures[f"demand.{each.name}.mean_rate"] for each in demand.classes),
    )
    above = margins.figures["margin.demand_fraction"]
    hour = _figure(
        "busiest_hour_rps",
        demand.planning_rps / (1.0 + number(above)),
        "req/s",
        "planning rate / (1 + margin for demand): the median busiest hour",
        (planned, above),
    )
    found = [capacity, mean, hour]
    for state, load in (("mean", mean), ("busiest_hour", hour), ("planned", planned)):
        found.append(
            _figure(
                f"{state}_fraction", number(load) / number(capacity), "fraction", "load / capacity", (load, capacity)
            )
        )
    found += [
        _figure(
            f"{state}_fraction",
            number(planned) / (number(capacity) * (serving - replicas_lost) / serving),
            "fraction",
            f"planning rate / capacity of {serving - replicas_lost} of {serving} serving replicas",
            (planned, capacity, packing.figures["packing.nodes"]),
        )
        for state, replicas_lost in lost.items()
        if replicas_lost < serving
    ]
    return Utilisation(figures={each.name: each for each in found})


def _in_a_zone(serving: int, reserves: Reserves) -> int:
    """The serving replicas that the loss of the largest zone takes."""
    placed = reserves.placement
    return math.ceil(serving * placed.largest_zone_replicas / placed.replicas - 1e-9)


def carried_rps(room: Headroom) -> float:
    """What the steady replicas carry before the first SLO is violated."""
    return room.rate_rps * (1.0 + room.line("traffic").holds_fraction)


def _figure(what: str, value: float, unit: str, formula: str, inputs: tuple[Figure | Assumption, ...]) -> Figure:
    return Figure(name=f"utilisation.{what}", value=value, unit=unit, formula=formula, inputs=inputs)
