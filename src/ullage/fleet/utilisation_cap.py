"""The utilisation reserve: replicas so that no state of the fleet is fuller than a policy allows.

The least fleet that meets the SLOs at the planning rate is full there. A cap of c on a state leaves part of it free:

    serving replicas left in that state  >=  steady x load of the state / planning rate / c

Other reserves that serve count towards it. Where no cap is stated there is no such reserve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ullage.errors import InputError
from ullage.evidence import Assumption, Figure, number
from ullage.fleet.lines import ReserveLine

STATES = ("mean", "busiest_hour", "planned", "machine_lost", "zone_lost")
"""The states that may be capped; `planned` is the busiest hour at the planning percentile."""


@dataclass(frozen=True, kw_only=True)
class UtilisationCaps:
    """By state, the largest share of what the fleet carries within its SLOs."""

    most: Mapping[str, Assumption] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return tuple(self.most.values())


@dataclass(frozen=True, kw_only=True)
class CappedFleet:
    """What the caps are compared with: loads as shares of the planning rate, and what a loss takes."""

    steady: Figure
    serving_replicas: int
    load_fractions: Mapping[str, float]
    lost_with_node: Callable[[int], int]
    zones: int
    devices: int

    def left(self, state: str, serving: int) -> int:
        """Of so many serving replicas, those that are there in this state."""
        if state == "machine_lost":
            return serving - self.lost_with_node(serving)
        return serving - math.ceil(serving / self.zones) if state == "zone_lost" else serving


def utilisation_reserve(fleet: CappedFleet, caps: UtilisationCaps, *, rests: tuple[Figure, ...]) -> ReserveLine:
    """The least that keeps every cap, beyond what serves anyway."""
    if "zone_lost" in caps.most and fleet.zones < 2:
        cap = caps.most["zone_lost"]
        raise InputError(
            field=cap.name,
            value=cap.value,
            problem="caps a fleet that has lost its only zone: no replica is left",
            fix="Spread over more zones (policy.zones: 2, or sites), or leave this cap out.",
        )
    needed = {state: _least(fleet, state, number(cap)) for state, cap in caps.most.items()}
    decides = max(needed, key=lambda state: needed[state])
    extra = max(0, needed[decides] - fleet.serving_replicas)
    rule = f"{decides.replace('_', ' ')} at most {100.0 * number(caps.most[decides]):.3g} % full"
    figure = Figure(
        name="reserve.utilisation_replicas",
        value=extra,
        unit="replicas",
        formula=f"{rule}: fewest serving replicas whose survivors carry the state's load / cap, less those "
        "already serving",
        inputs=(fleet.steady, *rests, *caps.inputs),
    )
    return ReserveLine(
        name="utilisation",
        replicas=extra,
        devices=extra * fleet.devices,
        serving_replicas=extra,
        rule=rule,
        protects="what the policy keeps free",
        figure=figure,
    )


def _least(fleet: CappedFleet, state: str, cap: float) -> int:
    """The least serving replicas that keep one cap."""
    enough = math.ceil(number(fleet.steady) * fleet.load_fractions[state] / cap - 1e-9)
    return _first(enough, lambda serving: fleet.left(state, serving) >= enough)


def _first(least: int, holds: Callable[[int], bool]) -> int:
    found = least
    while not holds(found):
        found += 1
    return found
