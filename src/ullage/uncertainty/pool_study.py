"""The study of one pool: what its fleet risks, what other fleets would, what moves the answer, what to measure first.

The fleet that stands behind the router is put to the draws as it is, with its failures and repairs. Everything is read
off one capacity surface, so that thousands of futures cost no more than the handful of trials behind it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import Rejection
from ullage.evidence import Assumption, Evidence, Source, number
from ullage.fleet.availability import Domains
from ullage.fleet.failure import domains_of
from ullage.fleet.packing import even_nodes
from ullage.fleet.risk.inputs import FRACTIONS, pool_uncertainties
from ullage.fleet.risk.load_draws import DEMAND, LoadDraws, Uncertainties, drawn_points, load_draws
from ullage.fleet.risk.quasi_random import normal_scores
from ullage.fleet.risk.shortfall import (
    HOURS_PER_MONTH,
    FleetRisk,
    Outage,
    ShortfallModel,
    outage,
    quiet_hours,
    sensible,
)
from ullage.fleet.risk.surface import CapacitySurface, capacity_surface
from ullage.fleet.sites import place
from ullage.planning.answer.bridge import steady_parts
from ullage.planning.planned_for import demand_at, demand_fraction
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.sides import pool_asked
from ullage.planning.spec import PlanSpec
from ullage.service.stage import band_of
from ullage.uncertainty.drivers import SobolDriver, sobol_drivers
from ullage.uncertainty.information import InformationValue, PossibleMeasurement, chooser, information_value
from ullage.uncertainty.joint import JointPool
from ullage.workload.demand.demand import Demand

Floats = NDArray[np.float64]

DRAWS = 4096
_INFORMATION_DRAWS = 1024
_DRIVER_DRAWS = 1024
TARGETS = (0.10, 0.05, 0.01)
# A spread is explained up to here: beyond it no number of replicas helps.
_LARGEST_FRACTION = 0.98
PRICE = "price"
OWN_SURFACE, FAILURES, PLANNED_WORK = "capacity surface of this pool", "failures", "rollouts and maintenance"
ROLLOUTS = Assumption(
    name="uncertainty.rollouts_per_week",
    value=1.0,
    unit="1/week",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: a version, a configuration or a model changes once a week, in the quietest hours",
        where="docs/explanation/risk.md",
        date=datetime.date(2026, 11, 16),
    ),
    low=0.0,
    high=7.0,
)
_WEEK_HOURS = 168


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """The 10th, 50th and 90th percentile over all draws, in this unit."""

    low: float
    value: float
    high: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class MachineMoney:
    """What machines of a pool cost a month, and what does not depend on them; how far prices may be off.

    Replicas are spread over `spread_nodes` before more than these are filled.
    """

    node_usd: float
    other_usd: float
    replicas_per_node: int
    successes: float
    price_deviation_fraction: float
    spread_nodes: int = 0

    def usd(self, replicas: int | float) -> float:
        """Of a fleet on whole machines."""
        nodes = max(math.ceil(replicas / self.replicas_per_node - 1e-9), min(self.spread_nodes, math.ceil(replicas)))
        return self.other_usd + self.node_usd * nodes


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """By how much one input may rise, all else as expected, until the fleet is full in the median busiest hour."""

    name: str
    ratio: float | None


@dataclass(frozen=True, kw_only=True)
class Regret:
    """A fleet's cost and expected hours of shortfall a month, and what a bad hour must cost for it to be the best."""

    replicas: int
    usd: float
    hours_per_month: float
    worth_from_usd: float | None


@dataclass(frozen=True, kw_only=True)
class PoolStudy:
    """One pool. `replicas` are those behind the router; `fleets` by shortfall, None where no number keeps it.

    `lines` is how the fleet of the chosen risk is made up, one cause added after the other, in this order.
    """

    pool: str
    replicas: int
    shortfall: Assumption
    risk: FleetRisk
    machines: tuple[FleetRisk, ...]
    fleets: Mapping[float, int | None]
    lines: Mapping[str, int]
    needed: Quantiles
    usd: Quantiles | None
    per_success_usd: Quantiles | None
    attainment: Quantiles
    hopeless_fraction: float
    replica_drivers: tuple[SobolDriver, ...]
    cost_drivers: tuple[SobolDriver, ...]
    shortfall_drivers: tuple[SobolDriver, ...]
    measurements: tuple[InformationValue, ...]
    break_evens: tuple[BreakEven, ...]
    regrets: tuple[Regret, ...]
    surface: CapacitySurface
    uncertainties: Uncertainties
    draws: int

    def joint(self, pool: PoolPlan) -> JointPool:
        """The pool as it stands in futures that others share."""
        known = self.uncertainties
        drawn = load_draws(known, self.surface, drawn_points(known, 2, seed=0))
        model = ShortfallModel(draws=drawn, surface=self.surface, domains_of=failing_together(pool))
        return JointPool(given=known, model=model, replicas=self.replicas)

    @property
    def chosen_replicas(self) -> int | None:
        """The least fleet at the chosen risk."""
        return self.fleets[number(self.shortfall)]

    @property
    def drivers(self) -> tuple[SobolDriver, ...]:
        """Of the cost where it is known, of the replicas where it is not."""
        return self.cost_drivers or self.replica_drivers


def demand_quantiles(spec: PlanSpec, pool: str) -> dict[float, Demand]:
    """The pool's demand at several fractions of its busiest hour."""
    own = next(each for each in spec.pools if each.name == pool)
    return {fraction: pool_asked(spec, own, demand_at(spec, demand_fraction(spec, fraction))) for fraction in FRACTIONS}


def failing_together(pool: PoolPlan) -> Callable[[int], Domains]:
    """How replicas of a fleet of N stand on nodes and zones; beyond the quotas as if there were one zone."""
    reserves = pool.reserves
    given, devices = reserves.settings.reliability, reserves.devices_per_replica
    known: dict[int, Domains] = {}

    def domains(replicas: int) -> Domains:
        if replicas not in known:
            placed = place(
                replicas,
                reserves.placement.sites,
                devices=devices,
                node_replicas=reserves.placement.node_replicas,
                spread_nodes=reserves.placement.spread_nodes,
            )
            if isinstance(placed, Rejection):
                like = domains_of(reserves.placement, given)
                nodes = even_nodes(replicas, given.replicas_per_node(devices), reserves.placement.spread_nodes)
                known[replicas] = replace(like, zones=(nodes,))
            else:
                known[replicas] = domains_of(placed, given)
        return known[replicas]

    return domains


def study_pool(
    pool: PoolPlan,
    spec: PlanSpec,
    *,
    shortfall: Assumption,
    money: MachineMoney | None,
    measurements: tuple[PossibleMeasurement, ...],
    seed: int,
    map: Any = map,  # noqa: A002
    jobs: Any = map,
) -> PoolStudy:
    """The whole study of a planned pool."""
    given, surface = pool_surface(pool, spec, seed=seed, map=map, jobs=jobs)
    points = drawn_points(given, DRAWS, seed=seed)
    draws = load_draws(given, surface, points)
    model = ShortfallModel(draws=draws, surface=surface, domains_of=failing_together(pool))
    serving = pool.steady_fleet.replicas + pool.reserves.serving_replicas
    each_node = pool.reserves.node_replicas
    target = number(shortfall)
    # The plan's own reserves cover rollouts and drained nodes; a fleet without them has to spare replicas for both.
    bare = replace(model, outages=planned_work(pool, given))
    fleets = {each: bare.least(each) for each in dict.fromkeys((*TARGETS, target))}
    now = fleets[target] or serving
    few = points[:_INFORMATION_DRAWS]
    return PoolStudy(
        pool=pool.spec.name,
        replicas=serving,
        shortfall=shortfall,
        risk=model.at(serving),
        machines=tuple(model.at(max(1, serving + step * each_node)) for step in (-2, -1, 0, 1, 2)),
        fleets=fleets,
        lines=_lines(pool, bare, target),
        needed=_quantiles(model.helped_needs, "replicas"),
        usd=None if money is None else _cost_quantiles(model.helped_needs, money, seed),
        per_success_usd=None if money is None or money.successes <= 0.0 else _per_success(draws, given, money, serving),
        attainment=_attainment(model, serving),
        hopeless_fraction=model.hopeless_fraction,
        replica_drivers=sobol_drivers(
            lambda rows: _needs(given, surface, rows), given.groups, count=_DRIVER_DRAWS, seed=seed
        ),
        cost_drivers=() if money is None else _cost_drivers(given, surface, money, seed),
        shortfall_drivers=_shortfall_drivers(given, surface, model, serving, seed),
        measurements=tuple(
            information_value(
                each, given, few, chooser(given, surface, bare, target),
                now=now, usd_of=None if money is None else money.usd,
            )
            for each in measurements
            if set(each.left_fractions) & set(given.names)
        ),
        break_evens=_break_evens(given, surface, serving),
        regrets=() if money is None else _regrets(model, money, serving, each_node),
        surface=surface,
        uncertainties=given,
        draws=DRAWS,
    )  # fmt: skip


def planned_work(pool: PoolPlan, given: Uncertainties) -> tuple[Outage, ...]:
    """Rollouts and maintenance of a fleet that reserves nothing for them, each in the quietest hours it fits into."""
    load = np.sum([each.middle_rps * np.array(each.heights) for each in given.classes], axis=0)
    rollout, maintenance = pool.reserves.rollout, pool.reserves.maintenance
    rolling_h = max(1, math.ceil(rollout.course.duration_s / 3600.0))
    times = number(ROLLOUTS)
    turns = max(rollout.surge_replicas, rollout.unavailable_replicas, 1)
    known = pool.reserves.settings.maintenance
    out_h = (number(known.drain) + number(known.work) + pool.reserves.warm.ready_s) / 3600.0
    nodes = len(domains_of(pool.reserves.placement, pool.reserves.settings.reliability).nodes)
    drained_h = out_h * math.ceil(nodes / max(1, maintenance.nodes)) * _WEEK_HOURS * 3600.0 / number(known.every)
    window_h = max(1, round(number(known.window) / 3600.0))
    quiet = quiet_hours(load, min(_WEEK_HOURS, max(1, math.ceil(times)) * rolling_h))
    return (
        outage("rollout", turns, quiet, hours_a_week=times * rolling_h),
        outage("maintenance", maintenance.drained_replicas, quiet_hours(load, window_h), hours_a_week=drained_h),
    )


def pool_surface(
    pool: PoolPlan,
    spec: PlanSpec,
    *,
    seed: int,
    map: Any = map,  # noqa: A002
    jobs: Any = map,
) -> tuple[Uncertainties, CapacitySurface]:
    """What is uncertain of a pool, and the surface around it, anchored where the plan decided its size."""
    quantiles = demand_quantiles(spec, pool.spec.name)
    given = pool_uncertainties(quantiles, pool.demand, band_of(pool.step_model))
    spreads = {each.name: each.spread for each in given.inputs}
    surface = capacity_surface(pool.bases, spreads, rate_rps=pool.demand.planning_rps, seed=seed, map=map, jobs=jobs)
    size = pool.steady_fleet.size
    anchored = surface.anchored(size.conservative.replicas, size.rate_rps, size.band.slow_ratio)
    return replace(given, surface_deviation_fraction=surface.error_fraction), anchored


def _lines(pool: PoolPlan, model: ShortfallModel, target: float) -> dict[str, int]:
    """The fleet of the chosen risk by cause: the steady replicas as the plan divides them, then what is known beyond.

    The plan is sized with what pools are usually like; the capacity surface of this one may need more or fewer. Until
    failures are added nothing ever fails, and until planned work is nothing is ever taken out. The lines sum to the
    fleet of all causes; there are none where no fleet keeps the risk.
    """
    found = {
        name: int(number(part))
        for name, part in steady_parts(pool, pool.steady_fleet.figures, pool.margins.figures).items()
    }
    unfailing = replace(model, domains_of=lambda replicas: _unfailing(model.domains_of(replicas)), outages=())
    for name, known in ((OWN_SURFACE, unfailing), (FAILURES, replace(model, outages=())), (PLANNED_WORK, model)):
        fleet = known.least(target)
        if fleet is None:
            return {}
        found[name] = fleet - sum(found.values())
    return found


def _unfailing(domains: Domains) -> Domains:
    never = replace(domains.replica, failures_per_s=0.0)
    return replace(domains, replica=never, node=never, zone=never)


def _median_load(given: Uncertainties, surface: CapacitySurface) -> float:
    """The busiest hour with everything at its planned value."""
    exact = given.only(())
    drawn = load_draws(exact, surface, np.full((2, len(given.groups)), 0.5))
    return float(drawn.busiest_rps[0])


def _quantiles(values: Floats | NDArray[np.int64], unit: str) -> Quantiles:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return Quantiles(low=low, value=middle, high=high, unit=unit)


def _prices(money: MachineMoney, count: int, seed: int) -> Floats:
    return np.asarray(np.exp(money.price_deviation_fraction * np.random.default_rng((seed, 41)).standard_normal(count)))


def _cost_quantiles(needs: NDArray[np.int64], money: MachineMoney, seed: int) -> Quantiles:
    """Of the machines that a draw's own need would take, at a drawn price."""
    usd = np.array([money.usd(each) for each in needs.tolist()])
    return _quantiles(usd * _prices(money, usd.size, seed), "USD")


def _per_success(draws: LoadDraws, given: Uncertainties, money: MachineMoney, replicas: int) -> Quantiles:
    """The fleet as it is bought, over the successes of a draw's level of traffic."""
    shares = np.array([each.middle_rps for each in given.classes])
    level = draws.levels @ shares / shares.sum()
    return _quantiles(money.usd(replicas) / np.maximum(money.successes * level, 1e-12), "USD")


def _attainment(model: ShortfallModel, replicas: int) -> Quantiles:
    """Of the hours of a month, those in which the SLOs are not violated for lack of replicas."""
    return _quantiles(1.0 - model.hour_shares(replicas), "fraction")


def _needs(given: Uncertainties, surface: CapacitySurface, rows: Floats) -> Floats:
    needed = sensible(load_draws(given, surface, rows).needed)
    return np.asarray(np.minimum(needed, np.quantile(needed, _LARGEST_FRACTION)), np.float64)


def _cost_drivers(
    given: Uncertainties, surface: CapacitySurface, money: MachineMoney, seed: int
) -> tuple[SobolDriver, ...]:  # fmt: skip
    """The same with the price as one more input, whose column is the last."""

    def usd(rows: Floats) -> Floats:
        machines = np.array([money.usd(each) for each in _needs(given, surface, rows[:, :-1]).tolist()])
        return np.asarray(machines * np.exp(money.price_deviation_fraction * normal_scores(rows[:, -1])))

    return sobol_drivers(usd, (*given.groups, PRICE), count=_DRIVER_DRAWS, seed=seed)


def _shortfall_drivers(
    given: Uncertainties, surface: CapacitySurface, model: ShortfallModel, replicas: int, seed: int
) -> tuple[SobolDriver, ...]:
    """Of whether the busiest hour falls short, by its chance in every draw."""

    def chance(rows: Floats) -> Floats:
        drawn = load_draws(given, surface, rows)
        return replace(model, draws=drawn).chances(replicas)

    return sobol_drivers(chance, given.groups, count=_DRIVER_DRAWS, seed=seed)


def _break_evens(given: Uncertainties, surface: CapacitySurface, replicas: int) -> tuple[BreakEven, ...]:
    """For traffic and every axis of the surface, how far it may go until the fleet is full in the median hour."""
    room = float(surface.capacity_rps(replicas)) / _median_load(given, surface)
    found = [BreakEven(name=DEMAND, ratio=room)]
    for name, axis in surface.axes.items():
        ratios = np.exp(np.linspace(0.0, math.log(4.0), 401))
        if axis.logs[-1] < axis.logs[0]:
            ratios = 1.0 / ratios
        worth = np.exp(axis.slowdown_logs(ratios))
        over = np.flatnonzero(worth > room)
        found.append(BreakEven(name=name, ratio=float(ratios[over[0]]) if over.size else None))
    return tuple(found)


def _regrets(model: ShortfallModel, money: MachineMoney, replicas: int, each_node: int) -> tuple[Regret, ...]:
    """Fleets from three machines fewer to three more: what the last machine costs over the hours it saves."""
    found: list[Regret] = []
    before: FleetRisk | None = None
    for step in range(-4, 4):
        count = replicas + step * each_node
        if count < 1:
            continue
        risk = model.at(count)
        worth = None
        if before is not None and before.hours_per_month > risk.hours_per_month:
            worth = (money.usd(count) - money.usd(before.replicas)) / (before.hours_per_month - risk.hours_per_month)
        if before is not None:
            found.append(
                Regret(
                    replicas=count,
                    usd=money.usd(count),
                    hours_per_month=min(risk.hours_per_month, HOURS_PER_MONTH),
                    worth_from_usd=worth,
                )
            )
        before = risk
    return tuple(found)


def least_regret(regrets: tuple[Regret, ...], bad_hour_usd: float) -> Regret:
    """The fleet whose cost and bad hours together cost least.

    >>> rows = tuple(Regret(replicas=n, usd=10.0 * n, hours_per_month=h, worth_from_usd=None)
    ...              for n, h in ((1, 9.0), (2, 3.0), (3, 2.5)))
    >>> least_regret(rows, 1.0).replicas, least_regret(rows, 5.0).replicas, least_regret(rows, 100.0).replicas
    (1, 2, 3)
    """
    return min(regrets, key=lambda each: each.usd + bad_hour_usd * each.hours_per_month)
