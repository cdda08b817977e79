"""A pool's months to come, drawn: how many requests each brings, and how many replicas each hour of its week needs.

A future is a row of the joint draws (every class's level, step times, lengths, cached share), and a level that wanders
from month to month. Classes grow as stated or seen, for half a year: growth that was measured over weeks says
little of more. The typical week of a month is the mean week of the plan's own month at that level.

    load[future, month, hour] = sum of classes: mean rate x season[hour] x growth[month] x level[future] x wander
                                x events[day]
    replicas = the capacity surface's need at that load, and the reserves that are bought
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ullage.evidence import number
from ullage.fleet.risk.load_draws import LoadDraws, Uncertainties, drawn_points, load_draws
from ullage.fleet.risk.surface import CapacitySurface
from ullage.planning.pool_plan import PoolPlan
from ullage.prices.purchase import HOURS_PER_MONTH
from ullage.uncertainty.growth import GROWTH_MONTHS
from ullage.uncertainty.month_events import MonthEvents
from ullage.workload.demand.ageing import WANDER
from ullage.workload.demand.demand import ClassTraffic
from ullage.workload.demand.events import Lift
from ullage.workload.synthetic.model import WEEK_S

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MONTH_S = HOURS_PER_MONTH * 3600.0
_LARGEST_FRACTION = 0.98
# A future that needs more than so many times the middle one's replicas is one in which the device was the wrong choice.
_MOST_RATIO = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolMonths:
    """Futures by month: `volumes` are requests as parts of the plan's month, and `classes` the same of each class.

    `hours` are the replicas that each hour of the typical week needs, reserves among them, `firm_hours` those that are
    needed for classes that may not be interrupted. `fixed` is a fleet that does not follow the hours: as planned in the
    first month, then sized anew each month by the same rule. `busy_hours` are, of a month with planned events, the
    hours of such a week for each part of the month at another height; `hours` are those without events.
    """

    pool: str
    volumes: Floats
    classes: dict[str, Floats]
    hours: Integers
    firm_hours: Integers
    fixed: Integers
    busy_hours: Mapping[int, tuple[tuple[float, Integers], ...]] = field(default_factory=dict)

    def weeks(self, at: int) -> tuple[tuple[float, Integers], ...]:
        """The typical weeks of a month, each by the part of the month that is like it."""
        return self.busy_hours.get(at, ((1.0, self.hours[:, at, :]),))

    @property
    def months(self) -> int:
        return int(self.volumes.shape[1])

    def nodes(self, replicas: Integers, pool: PoolPlan) -> Integers:
        """Whole nodes for these replicas, spread over the pool's zones as evenly as they go."""
        return nodes_for(
            replicas,
            zones=_zones(pool),
            per_node=_per_node(pool),
            node_of_replica=_spanned(pool),
            spread_nodes=pool.reserves.placement.spread_nodes,
        )


def pool_months(
    pool: PoolPlan,
    given: Uncertainties,
    surface: CapacitySurface,
    *,
    months: int,
    futures: int,
    seed: int,
    wait_s: float = 0.0,
    losable: Collection[str] = (),
    measured: Mapping[str, Floats] | None = None,
    events: MonthEvents | None = None,
) -> PoolMonths:
    """So many futures of so many months, the first of which begins `wait_s` after the plan; another seed draws others.

    `measured` are mean rates by future and month of classes whose months follow from what was measured of them, without
    the `events` of the months.
    """
    draws = load_draws(given, surface, drawn_points(given, futures, seed=seed))
    rng = np.random.default_rng((seed, 41))
    wander = np.exp(np.cumsum(number(WANDER) * rng.standard_normal((futures, months)), axis=1))
    rates = {
        each.name: (measured or {}).get(
            each.name, _class_rates(each, draws.levels[:, at], wander, pool.demand.horizon_s, wait_s)
        )
        for at, each in enumerate(pool.demand.classes)
    }
    own = sum(each.mean_rps for each in pool.demand.classes)
    lifts = [Lift()] * months if events is None else events.lifts
    mean = np.array([each.mean_ratio for each in lifts])
    volumes = np.sum(list(rates.values()), axis=0) / own * mean
    hours = _needed(pool, surface, draws, rates, {each.name for each in pool.demand.classes})
    firm = _needed(pool, surface, draws, rates, {each.name for each in pool.demand.classes} - {*losable})
    reserve = sum(pool.reserves.bought.values())
    return PoolMonths(
        pool=pool.spec.name,
        volumes=volumes,
        classes={each.name: rates[each.name] / max(each.mean_rps, 1e-12) * mean for each in pool.demand.classes},
        hours=hours + reserve,
        firm_hours=np.minimum(firm, hours) + reserve,
        fixed=_fixed(pool, _work_ratios(pool, surface, rates, events), events) + reserve,
        busy_hours={
            at: tuple(
                (fraction, _lifted(pool, surface, draws, rates, at, ratio) + reserve) for ratio, fraction in lift.parts
            )
            for at, lift in enumerate(lifts)
            if lift != Lift()
        },
    )


def _lifted(
    pool: PoolPlan, surface: CapacitySurface, draws: LoadDraws, rates: dict[str, Floats], at: int, ratio: float
) -> Integers:
    """Replicas by future and hour of one month, at so many times its demand."""
    month = {name: each[:, at : at + 1] * ratio for name, each in rates.items()}
    return _needed(pool, surface, draws, month, set(rates))[:, 0, :]


def _class_rates(
    traffic: ClassTraffic, levels: Floats, wander: Floats, horizon_s: float, wait_s: float
) -> Floats:  # fmt: skip
    """The mean rate of a class by future and month; what grows has grown until the month begins, too."""
    middle_s = wait_s + (np.arange(wander.shape[1]) + 0.5) * _MONTH_S
    grown_s = np.minimum(middle_s, number(GROWTH_MONTHS) * _MONTH_S) - horizon_s / 2.0
    growth = (1.0 + traffic.model.weekly_growth_fraction) ** (grown_s / WEEK_S)
    return np.asarray(traffic.mean_rps * levels[:, None] * wander * growth[None, :])


def _weights(pool: PoolPlan, surface: CapacitySurface) -> dict[str, float]:
    """What a request of each class weighs, in requests of the planned mix."""
    planned = {each.name: each.planning_rps for each in pool.demand.classes}
    work = {name: surface.work_s.get(name, 1.0) for name in planned}
    whole = sum(planned.values()) / sum(work[name] * planned[name] for name in planned)
    return {name: work[name] * whole for name in planned}


def _needed(
    pool: PoolPlan, surface: CapacitySurface, draws: LoadDraws, rates: dict[str, Floats], names: set[str]
) -> Integers:
    """Replicas by future, month and hour for these classes; none where there is no class."""
    weights = _weights(pool, surface)
    load = np.zeros((*next(iter(rates.values())).shape, len(pool.demand.classes[0].model.season)))
    for each in pool.demand.classes:
        if each.name in names:
            season = np.asarray(each.model.season) / np.mean(each.model.season)
            load = load + weights[each.name] * rates[each.name][:, :, None] * season
    # Steps so slow that no number of replicas helps say nothing of how many to buy: the study explains up to here too.
    slow = np.minimum(draws.slowdowns, np.quantile(draws.slowdowns, _LARGEST_FRACTION))
    needed = np.where(load > 0.0, surface.needed(load * slow[:, None, None]), 0)
    return np.minimum(needed, _MOST_RATIO * max(1, int(np.median(needed.max(axis=(1, 2))))))


def _work_ratios(
    pool: PoolPlan, surface: CapacitySurface, rates: dict[str, Floats], events: MonthEvents | None
) -> Floats:
    """The work of each month as a part of the plan's own, both without events."""
    weights = _weights(pool, surface)
    lifted = {} if events is None else events.own_ratios
    own = sum(weights[each.name] * each.mean_rps / lifted.get(each.name, 1.0) for each in pool.demand.classes)
    return np.asarray(np.sum([weights[name] * rate for name, rate in rates.items()], axis=0) / own)


def _fixed(pool: PoolPlan, ratios: Floats, events: MonthEvents | None) -> Integers:
    """The steady fleet as planned, then in proportion to what turned out, by month.

    An event's month is sized for its height. A plan that was sized for an event is larger than months without it need.
    """
    planned = pool.steady_fleet.replicas
    heights = np.ones(ratios.shape[1]) if events is None else events.heights
    scaled = np.ceil(planned * ratios * heights - 1e-9).astype(np.int64)
    scaled[:, 0] = max(planned, math.ceil(planned * heights[0] - 1e-9))
    return np.maximum(scaled, 1)


def nodes_for(
    replicas: Integers, *, zones: int, per_node: int, node_of_replica: int, spread_nodes: int = 0
) -> Integers:
    """Whole nodes: replicas spread over zones, `per_node` of them on each, or `node_of_replica` nodes for each.

    `spread_nodes` are there anyway.

    >>> nodes_for(np.array([1, 8, 9, 47]), zones=2, per_node=4, node_of_replica=1).tolist()
    [1, 2, 3, 12]
    >>> nodes_for(np.array([1, 2, 8, 9]), zones=1, per_node=8, node_of_replica=1, spread_nodes=2).tolist()
    [1, 2, 2, 2]
    """
    base, more = np.divmod(np.asarray(replicas, np.int64), zones)
    own = more * -(-(base + 1) // per_node) + (zones - more) * -(-base // per_node)
    return np.asarray(np.maximum(own, np.minimum(spread_nodes, replicas)) * node_of_replica, np.int64)


def _zones(pool: PoolPlan) -> int:
    return max(1, len({row.zone for row in pool.reserves.placement.rows if row.devices}))


def _per_node(pool: PoolPlan) -> int:
    return max(1, pool.packing.chosen.shape.devices // pool.reserves.devices_per_replica)


def _spanned(pool: PoolPlan) -> int:
    return -(-pool.reserves.devices_per_replica // pool.packing.chosen.shape.devices)
