"""A fleet by what makes it necessary, in the order of its bridge and by Shapley; and what stacked margins would buy.

Causes of the steady fleet are demand, step times, and lengths with the cached share. A subset of them that is uncertain
while the rest is as expected needs, at the chosen chance, so many times the replicas of the median (planning_point.py);
the steady fleet beyond the median is divided in proportion to that. Reserves are causes of their own: of those that
overlap the largest is bought, and Shapley divides it among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ullage.cost.bill import Bill
from ullage.errors import Rejection
from ullage.evidence import Figure, number
from ullage.fleet.choices import choice
from ullage.fleet.reserves import Reserves, ReserveSettings, bought_together, named_reserves
from ullage.fleet.risk.planning_point import NeedSpread, need_spread, worth_log
from ullage.fleet.risk.surface import STEPS
from ullage.fleet.shapley import shapley_parts, shared_lines
from ullage.planning.answer.bridge import DEMAND, LENGTHS, UNTESTED, line_figures, replica_steps
from ullage.planning.document import Plan
from ullage.planning.planned_for import demand_at, demand_fraction
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.sides import pool_asked
from ullage.service.stage import band_of

_UNCERTAIN = (DEMAND, UNTESTED, LENGTHS)
_DEVICE_LINES = (
    "compute_reservation", "compute_usage", "idle_hours", "failed_work", "idle_reserve", "stranded_devices",
)  # fmt: skip
_STACKED_FRACTION = 0.95
_WHOLE_DEMAND = choice("stacked.demand", 1.0, "fraction", "margins that are stacked meet the busiest hour, all of them")
_FOLLOWING = choice("stacked.follows", "demand", "", "margins that are stacked keep a warm reserve")
_SUM = choice("stacked.counted", "sum", "", "margins that are stacked are added up")


@dataclass(frozen=True, kw_only=True)
class ReservePart:
    """One cause of the fleet, in replicas: as the bridge adds it, and by Shapley."""

    name: str
    replicas: float
    shapley_replicas: float


@dataclass(frozen=True, kw_only=True)
class StackedFleet:
    """What every margin at its own percentile, with every reserve on top, would have bought."""

    steady_replicas: int
    reserve_replicas: int
    nodes: int
    usd: Figure | None

    @property
    def replicas(self) -> int:
        return self.steady_replicas + self.reserve_replicas


@dataclass(frozen=True, kw_only=True)
class FleetParts:
    """One pool: its causes, which sum to what is bought either way, and the stacked fleet beside it.

    There is none where quotas would not hold it.
    """

    pool: str
    replicas: int
    nodes: int
    usd: Figure | None
    parts: tuple[ReservePart, ...]
    stacked: StackedFleet | None


def fleet_parts(plan: Plan) -> tuple[FleetParts, ...]:
    """Every pool of a plan by its causes."""
    bill = next((each.answer for each in plan.stages if isinstance(each.answer, Bill)), None)
    return tuple(_pool_parts(plan, each, bill) for each in plan.pools)


def _pool_parts(plan: Plan, pool: PoolPlan, bill: Bill | None) -> FleetParts:
    steps, _, usd = replica_steps(plan, pool, bill)
    ordered = {each.name: number(each.amount) for each in steps}
    spread = need_spread(plan.point.demand_deviation_fraction, band_of(pool.step_model), pool.demand)
    beyond = sum(ordered[name] for name in _UNCERTAIN)
    shares = {
        **uncertain_shares(spread, number(plan.spec.policy.shortfall), beyond),
        **shared_lines(pool.reserves.lines, lambda sizes: bought_together(sizes, pool.reserves.settings.policy)),
    }
    return FleetParts(
        pool=pool.spec.name,
        replicas=pool.reserves.total_replicas,
        nodes=pool.packing.chosen.nodes,
        usd=usd,
        parts=tuple(
            ReservePart(name=name, replicas=amount, shapley_replicas=shares.get(name, amount))
            for name, amount in ordered.items()
        ),
        stacked=_stacked(plan, pool, bill),
    )


def uncertain_shares(spread: NeedSpread, shortfall_fraction: float, beyond: float) -> dict[str, float]:
    """The steady replicas beyond the median by what is uncertain: they sum to them."""

    def needed(known: frozenset[str]) -> float:
        slow = [name for name in spread.slow if (UNTESTED if name == STEPS else LENGTHS) in known]
        return spread.needed_ratio(shortfall_fraction, demand=DEMAND in known, slow=slow) - 1.0

    found = shapley_parts(_UNCERTAIN, needed)
    total = sum(found.values())
    if total <= 0.0:
        return dict.fromkeys(_UNCERTAIN, beyond / len(_UNCERTAIN))
    return {name: beyond * each / total for name, each in found.items()}


def _stacked(plan: Plan, pool: PoolPlan, bill: Bill | None) -> StackedFleet | None:
    """The 95th percentile of demand at the 90th of step times, rounded up, with every reserve by itself on top."""
    spec, steady, reserves = plan.spec, pool.steady_fleet, pool.reserves
    high = pool_asked(spec, pool.spec, demand_at(spec, demand_fraction(spec, _STACKED_FRACTION)))
    slow = worth_log(math.log(band_of(pool.step_model).slow_ratio)) - worth_log(math.log(steady.size.band.slow_ratio))
    more = high.planning_rps / pool.demand.planning_rps * math.exp(slow)
    replicas = math.ceil(steady.replicas * more - 1e-9)
    each = steady.devices // steady.replicas
    own = replace(steady.figures["fleet.replicas"], value=replicas)
    taller = replace(
        steady,
        replicas=replicas,
        devices=replicas * each,
        figures={**steady.figures, own.name: own},
        need=None,
    )
    held = named_reserves(
        taller,
        pool.time_to_ready,
        high,
        sites=spec.sites.get(pool.spec.device.name),
        zones=spec.policy.zones,
        node=pool.packing.chosen.shape.size,
        settings=_stacking(reserves),
        seed=plan.seed,
    )
    if isinstance(held, Rejection):
        return None
    nodes = math.ceil(held.total_replicas * each / pool.packing.chosen.shape.devices)
    return StackedFleet(
        steady_replicas=replicas,
        reserve_replicas=held.replicas,
        nodes=nodes,
        usd=_usd(plan, pool, bill, nodes),
    )


def _stacking(reserves: Reserves) -> ReserveSettings:
    given = reserves.settings
    return replace(
        given,
        rollout=replace(given.rollout, demand=_WHOLE_DEMAND),
        maintenance=replace(given.maintenance, demand=_WHOLE_DEMAND),
        warm=replace(given.warm, follows=_FOLLOWING),
        policy=replace(given.policy, counted=_SUM),
    )


def _usd(plan: Plan, pool: PoolPlan, bill: Bill | None, nodes: int) -> Figure | None:
    """What so many machines cost, at what the planned ones do."""
    if bill is None or not bill.is_of_devices:
        return None
    lines = [each for each in bill.lines if each.pool == pool.spec.name and each.name in _DEVICE_LINES and each.figure]
    figures: Sequence[Figure] = line_figures(lines)
    if not figures:
        return None
    prefix = f"{pool.spec.name}." if len(plan.pools) > 1 else ""
    return Figure(
        name=f"{prefix}stacked.usd",
        value=sum(each.usd for each in lines) * nodes / pool.packing.chosen.nodes,
        unit="USD",
        formula="cost of the planned machines x machines of stacked margins / machines planned",
        inputs=tuple(figures),
    )
