"""The parts of an answer: steps of the bridge, machines, states, losses, limits, money, orders."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.evidence import Assumption, Figure, number

Number = Figure | Assumption


@dataclass(frozen=True, kw_only=True)
class BridgeStep:
    """One step of the bridge: a load or a number of replicas, what it costs a month, and a remark of a few words."""

    name: str
    amount: Number
    usd: Figure | None = None
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The hardware of a pool; `replicas` and `devices` are all of them, `nodes` machines of this shape."""

    shape: str
    device: str
    replicas: Figure
    devices: Figure
    nodes: Figure


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """The next thing to do, its cost, and what it would save at most: replicas, and USD a month of whole machines."""

    what: str
    cost_usd: Figure | None = None
    saves_replicas: Number | None = None
    saves_usd: Figure | None = None


@dataclass(frozen=True, kw_only=True)
class UtilisationState:
    name: str
    utilisation: Figure


@dataclass(frozen=True, kw_only=True)
class GrowthStop:
    """A constraint on growth; `growth` is the growth of traffic at which it stops the pool, where that is known."""

    name: str
    growth: Figure | None
    load: Figure | None


@dataclass(frozen=True, kw_only=True)
class LossOutcome:
    """A loss as simulated: `met`, `violated`, `undecided` or `outage`; `covered_by` names its reserve, if any."""

    name: str
    covered_by: str
    outcome: str
    attained: Figure | None


@dataclass(frozen=True, kw_only=True)
class LimitToSet:
    """A limit, and where to set it."""

    where: str
    name: str
    limit: Figure


@dataclass(frozen=True, kw_only=True)
class PoolAnswer:
    """One pool. `replicas` sum to the fleet; `rounding` is devices that come with the last machine.

    What `stops` is tried on the `steady` replicas; those that are `serving` have reserves among them, and carry
    `capacity` before an SLO is violated: what utilisation is counted in.

    `scaling_slo` is the SLO with the least margin on the day that the scaling rule was played on, with the part that
    it requires; `scaling_violates` names it where the rule violated it, and `scaling_fixed` is then what the fleet
    attains that never scales. `scaling_advised` is False where that is more.
    """

    name: str
    model: str
    machines: Machines
    load: Number
    replicas: tuple[BridgeStep, ...]
    rounding: BridgeStep
    usd: Figure | None
    steady: Figure
    serving: Figure
    capacity: Figure
    utilisation: tuple[UtilisationState, ...]
    stops: tuple[GrowthStop, ...]
    holds: Figure
    losses: tuple[LossOutcome, ...]
    bursts: tuple[Figure, ...]
    ready: tuple[Figure, ...]
    limits: tuple[LimitToSet, ...]
    shed_first: str
    scaling: tuple[Figure, ...] = ()
    scaling_slo: str = ""
    scaling_required_fraction: float = 0.0
    scaling_violates: str = ""
    scaling_fixed: Figure | None = None
    scaling_advised: bool = True


@dataclass(frozen=True, kw_only=True)
class MoneyLine:
    name: str
    usd: Figure


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A class's part of the bill by what it makes necessary, and what it would be by the number of its requests."""

    name: str
    bill: Figure
    requests: Figure


@dataclass(frozen=True, kw_only=True)
class DeviceOrder:
    """Devices to have; `quota` is None where none is stated, `is_late` where they come after the horizon's end."""

    device: str
    region: str
    devices: Number
    quota: Figure | None
    lead: Figure
    there_on: datetime.date
    is_late: bool


@dataclass(frozen=True, kw_only=True)
class RiskOfPool:
    """What the study found of one pool: its chance and hours of shortfall, and what the chosen chance would need.

    `needs` and `usd` are the 10th and 90th percentile over all draws; `drivers` explain most, the largest first.
    """

    pool: str
    shortfall: Figure
    hours: Figure
    chosen: Assumption
    chosen_replicas: Figure | None
    hopeless: Figure
    needs: tuple[Figure, ...]
    usd: tuple[Figure, ...]
    drivers: tuple[Figure, ...]


def summed(name: str, parts: Sequence[Number]) -> Number:
    """The one part there is, or a figure that is the sum of several."""
    if len(parts) == 1:
        return parts[0]
    value = sum(number(each) for each in parts)
    return Figure(name=name, value=value, unit=parts[0].unit, formula="sum of the parts", inputs=tuple(parts))
