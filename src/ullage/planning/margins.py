"""All margins of a pool in one table: where each is taken, how large it is, why, and what it costs in replicas.

A margin applied twice is paid for twice, so each has one row here and one place in the calculation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.evidence import Figure
from ullage.fleet.reserves import Reserves
from ullage.fleet.steady import SteadyFleet
from ullage.memory.budget import MemoryBudget
from ullage.service.curve.point import OperatingPoint
from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class MarginRow:
    """One margin. `cost` is in replicas where it costs any, in the memory it takes otherwise."""

    where: str
    reason: str
    size: Figure
    cost: Figure | None


@dataclass(frozen=True, kw_only=True)
class Margins:
    rows: tuple[MarginRow, ...]
    figures: Mapping[str, Figure]


def pool_margins(
    demand: Demand,
    middling: Demand,
    memory: MemoryBudget,
    point: OperatingPoint,
    steady: SteadyFleet,
    reserves: Reserves,
) -> Margins:
    """The table; `middling` is the same demand planned at its median instead of its percentile."""
    above = demand.planning_rps / middling.planning_rps - 1.0
    replicas, planned = steady.figures["fleet.replicas"], demand.figures["demand.planning_rate"]
    size = Figure(
        name="margin.demand_fraction",
        value=above,
        unit="fraction",
        formula=f"planning rate / {middling.planning_rps:.4g} req/s, the median busiest hour, - 1",
        inputs=(planned,),
    )
    bare = steady.figures["size.replicas"]
    even = Figure(
        name="margin.nominal_replicas",
        value=math.ceil(steady.nominal_replicas / (1.0 + above) - 1e-9),
        unit="replicas",
        formula="replicas with nominal step times x the median share of the planning rate, rounded up",
        inputs=(bare, size),
    )
    cost = Figure(
        name="margin.demand_replicas",
        value=steady.nominal_replicas - int(even.value),
        unit="replicas",
        formula="replicas with nominal step times - those for the median hour",
        inputs=(bare, even),
    )
    slow = Figure(
        name="margin.evidence_ratio",
        value=steady.size.band.slow_ratio,
        unit="ratio",
        formula="conservative over nominal step times",
        inputs=(steady.size.band.slow_input,),
    )
    kept = point.figures["point.margin_policy_fraction"]
    free = Figure(
        name="margin.policy_replicas",
        value=steady.replicas * float(kept.value),
        unit="replicas",
        formula="replicas x the share that policy keeps free",
        inputs=(replicas, kept),
    )
    rows = [
        MarginRow(where="demand", reason="the busiest hour may exceed its forecast", size=size, cost=cost),
        MarginRow(
            where="service",
            reason="steps may be slower than nominal; a load test shrinks this",
            size=slow,
            cost=steady.figures["fleet.evidence_replicas"],
        ),
        MarginRow(
            where="service",
            reason="requests may be longer or less often cached: counted as slower steps",
            size=slow,
            cost=steady.figures["fleet.length_replicas"],
        ),
        MarginRow(where="service", reason="by policy, on top of evidence", size=kept, cost=free),
        MarginRow(
            where="memory",
            reason="device memory that the engine is not given",
            size=memory.figures["memory.margin_bytes"],
            cost=None,
        ),
        *_reserve_rows(reserves),
    ]
    reserved = [each.cost for each in rows if each.where.endswith("reserve") and each.cost is not None]
    own = (size, even, cost, slow, free, *reserved)
    return Margins(rows=tuple(rows), figures={each.name: each for each in own})


def _reserve_rows(reserves: Reserves) -> list[MarginRow]:
    """Reserves are margins too, by name. A line covered by another costs nothing of its own."""
    return [
        MarginRow(
            where=f"{line.name} reserve",
            reason=line.protects,
            size=line.figure,
            cost=Figure(
                name=f"margin.{line.name}_reserve_replicas",
                value=reserves.bought[line.name],
                unit="replicas",
                formula="what is bought of this reserve: where reserves overlap, the largest covers the others",
                inputs=(line.figure, *reserves.settings.policy.inputs),
            ),
        )
        for line in reserves.lines
    ]
