"""All margins of a pool in one table: where each is taken, how large it is, why, and what it costs in replicas.

A margin that stands in two places is paid for twice, so each has one row here and one place in the calculation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.errors import NotBuilt
from ullage.evidence import Figure
from ullage.fleet.steady import SteadyFleet
from ullage.memory.budget import MemoryBudget
from ullage.service.point import OperatingPoint
from ullage.workload.demand import Demand


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
    reserves: object,
) -> Margins:
    """The table; `middling` is the same demand planned at its median instead of its percentile."""
    above = demand.planning_rps / middling.planning_rps - 1.0
    replicas, planned = steady.figures["fleet.replicas"], demand.figures["demand.planning_rate"]
    size = Figure(
        name="margin.demand_fraction",
        value=above,
        unit="fraction",
        formula=f"planning rate / {middling.planning_rps:.4g} req/s, the busiest hour at even odds, - 1",
        inputs=(planned,),
    )
    cost = Figure(
        name="margin.demand_replicas",
        value=steady.replicas * above / (1.0 + above),
        unit="replicas",
        formula="replicas x the part of the planning rate that is margin",
        inputs=(replicas, size),
    )
    slow = Figure(
        name="margin.evidence_ratio",
        value=steady.size.band.slow_ratio,
        unit="ratio",
        formula="how much longer steps are in one case of ten of this evidence",
        inputs=(steady.size.band.assumption,),
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
            reason="steps may be slower than believed; a load test shrinks this",
            size=slow,
            cost=steady.figures["fleet.evidence_replicas"],
        ),
        MarginRow(where="service", reason="policy, beyond evidence", size=kept, cost=free),
        MarginRow(
            where="memory",
            reason="device memory that the engine is not given",
            size=memory.figures["memory.margin_bytes"],
            cost=None,
        ),
        *_reserve_rows(reserves),
    ]
    own = (size, cost, slow, free)
    return Margins(rows=tuple(rows), figures={each.name: each for each in own})


def _reserve_rows(reserves: object) -> list[MarginRow]:
    """Reserves are margins too, by name; each line says what it protects."""
    if isinstance(reserves, NotBuilt):
        return []
    figures: Mapping[str, Figure] = getattr(reserves, "figures", {})
    return [
        MarginRow(where="reserve", reason=line.protects, size=figure, cost=figure)
        for line in getattr(reserves, "lines", ())
        if (figure := figures.get(f"reserve.{line.name}_replicas")) is not None
    ]
