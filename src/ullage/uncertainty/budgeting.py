"""A plan's budget: its months drawn, its fleets sized month by month, each future billed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ullage.cost.bill import Bill
from ullage.cost.budget.budget import Budget, MonthFuture, budget_of
from ullage.cost.budget.month_bill import HeldDevices, MonthFleet
from ullage.cost.budget.variance import PastMonth
from ullage.evidence import Assumption, Figure, number
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.uncertainty.buying import months_on
from ullage.uncertainty.forecast_months import month_rates
from ullage.uncertainty.growth import GROWTH_MONTHS, until_next_month_s
from ullage.uncertainty.month_events import month_events
from ullage.uncertainty.pool_months import Floats, Integers, PoolMonths, pool_months
from ullage.uncertainty.pool_study import pool_surface
from ullage.uncertainty.study import PRICE_DEVIATION
from ullage.workload.demand.ageing import WANDER
from ullage.workload.demand.demand import MeasuredClass

FUTURES = 128
_DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class BudgetChoice:
    """What is decided: how many months, and whether the fleet follows the hours."""

    months: int
    follows: bool = False


def budget(
    plan: Plan,
    bill: Bill,
    choice: BudgetChoice,
    *,
    measured: Mapping[str, MeasuredClass],
    past: tuple[PastMonth, ...] = (),
    map: Any = map,  # noqa: A002
) -> Budget:
    """The months after the plan's date. `measured` are its classes with forecasts that reach to the last of them."""
    rng = np.random.default_rng((plan.seed, 47))
    rates = _measured_rates(plan, measured, choice.months, rng)
    months_of = tuple(months_on(plan.as_of, 1 + at) for at in range(choice.months + 1))
    found, rests = [], []
    for pool in plan.pools:
        given, surface = pool_surface(pool, plan.spec, seed=plan.seed, map=map)
        own = {name: each * _part(pool, name, measured) for name, each in rates.items()}
        found.append(
            pool_months(
                pool, given, surface, months=choice.months, futures=FUTURES, seed=plan.seed,
                wait_s=until_next_month_s(plan.as_of), measured=own,
                events=month_events(plan, pool, months_of, own) if plan.spec.events else None,
            )
        )  # fmt: skip
        rests += [each.assumption for each in given.inputs]
    # A list's price changes by steps, most months not at all: what it is off by is one draw for all months.
    listed = np.exp(number(PRICE_DEVIATION) * rng.standard_normal(FUTURES))
    months = [_month(plan, found, at, choice, listed) for at in range(choice.months)]
    inputs: tuple[Figure | Assumption, ...] = (
        *rests, GROWTH_MONTHS, WANDER, PRICE_DEVIATION, *(each.ratio for each in plan.spec.events)
    )  # fmt: skip
    ordered = _with_orders(plan, bill, months)
    return budget_of(bill, ordered, follows=choice.follows, inputs=inputs, past=past, notes=_notes(choice, rates, plan))


def _measured_rates(
    plan: Plan, measured: Mapping[str, MeasuredClass], months: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Mean rates by future and month of every class with a forecast that reaches so far, planned events apart."""
    found = {}
    for name, each in measured.items():
        if each.forecast is None:
            continue
        rates = month_rates(each.forecast, months, futures=FUTURES, rng=rng, events=plan.spec.events)
        if rates is not None:
            found[name] = rates
    return found


def _part(pool: PoolPlan, name: str, measured: Mapping[str, MeasuredClass]) -> float:
    """What of a class's rate comes to this pool: its own mean over the forecast's."""
    own = next((each.mean_rps for each in pool.demand.classes if each.name == name), 0.0)
    forecast = measured[name].forecast
    whole = 0.0 if forecast is None else _first_month(forecast.at(0.5), forecast.history.step_s, pool.demand.horizon_s)
    return own / whole if whole else 0.0


def _first_month(middle: Floats, step_s: float, horizon_s: float) -> float:
    """The mean of the forecast over the plan's own horizon, which its mean rate is of."""
    return float(middle[: max(1, round(horizon_s / step_s))].mean())


def _month(plan: Plan, pools: Sequence[PoolMonths], at: int, choice: BudgetChoice, listed: Floats) -> MonthFuture:
    month = months_on(plan.as_of, at + 1)
    fleets = {each.pool: _fleets(plan, pool, each, at, choice) for pool, each in zip(plan.pools, pools, strict=True)}
    ratios = {name: values[:, at] for each in pools for name, values in each.classes.items()}
    announced = plan.spec.buying.announced_ratio(month)
    return MonthFuture(
        month=month,
        ratios=tuple({name: float(values[one]) for name, values in ratios.items()} for one in range(FUTURES)),
        fleets=tuple({name: rows[one] for name, rows in fleets.items()} for one in range(FUTURES)),
        list_ratios=listed * announced,
        held=_held(plan, month),
        expected_ratios={name: float(np.median(values)) for name, values in ratios.items()},
        expected_fleets={name: _middle(rows, plan, name) for name, rows in fleets.items()},
        expected_list_ratio=announced,
        events=_events(plan, month),
    )


def _fleets(plan: Plan, pool: PoolPlan, months: PoolMonths, at: int, choice: BudgetChoice) -> list[MonthFleet]:
    follows, paid = choice.follows, _paid_fraction(plan, pool)
    reserve = sum(pool.reserves.bought.values())
    size, devices = pool.packing.chosen.shape.devices, pool.reserves.devices_per_replica
    weeks: tuple[tuple[float, Integers], ...] = months.weeks(at) if follows else ((1.0, months.fixed[:, at, None]),)
    left = sum(part * (months.nodes(every, pool) * size - every * devices).mean(axis=1) for part, every in weeks)
    mean = sum(part * every.mean(axis=1) for part, every in weeks) - reserve
    most = np.maximum(np.max([every.max(axis=1) for _, every in weeks], axis=0) - reserve, 1)
    return [
        MonthFleet(
            steady_replicas=float(most[one]),
            mean_replicas=float(mean[one]) if follows else paid and paid * float(most[one]),
            stranded_devices=float(left[one]),
        )
        for one in range(most.size)
    ]


def _paid_fraction(plan: Plan, pool: PoolPlan) -> float | None:
    """The part of the steady fleet that today's bill pays for: less than all where the rule's machines are released."""
    if not plan.spec.scaling.releases_machines:
        return None
    return float(np.mean(pool.scaling.week.paid_replicas)) / pool.steady_fleet.replicas


def _middle(rows: Sequence[MonthFleet], plan: Plan, pool: str) -> MonthFleet:
    """The middle fleet, whose left-over devices are those of whole nodes around it."""
    found = next(each for each in plan.pools if each.spec.name == pool)
    steady = float(np.median([each.steady_replicas for each in rows]))
    means = [each.mean_replicas for each in rows if each.mean_replicas is not None]
    if means:
        stranded = float(np.median([each.stranded_devices for each in rows]))
        return MonthFleet(steady_replicas=steady, mean_replicas=float(np.median(means)), stranded_devices=stranded)
    nearest = min(rows, key=lambda each: abs(each.steady_replicas - steady))
    if steady == found.steady_fleet.replicas:
        chosen = found.packing.chosen
        stranded = float(chosen.stranded_devices + chosen.spare_devices)
        return MonthFleet(steady_replicas=steady, mean_replicas=None, stranded_devices=stranded)
    return nearest


def _held(plan: Plan, month: datetime.date) -> dict[str, HeldDevices]:
    """The devices of each kind that are held in a month, given to the first pool that uses them."""
    found: dict[str, HeldDevices] = {}
    taken: set[str] = set()
    for pool in plan.pools:
        device = pool.spec.device.name
        own = [each for each in plan.spec.buying.held if each.device == device and each.until >= month]
        if device in taken or not own:
            continue
        taken.add(device)
        devices = sum(each.devices for each in own)
        mean = sum(number(each.hour) * each.devices for each in own) / devices
        hour = own[0].hour if len(own) == 1 else _mean_hour(own[0].hour, mean)
        found[pool.spec.name] = HeldDevices(devices=devices, hour=hour)
    return found


def _mean_hour(like: Assumption, value: float) -> Assumption:
    return Assumption(
        name="price.held.mean", value=value, unit=like.unit, evidence=like.evidence, source=like.source
    )  # fmt: skip


def _events(plan: Plan, month: datetime.date) -> tuple[str, ...]:
    buying = plan.spec.buying
    following = months_on(month, 1)
    demand = [
        f"{each.name}: demand x{number(each.ratio):g} from {each.first.isoformat()} to "
        f"{(each.until - datetime.timedelta(days=1)).isoformat()}"
        for each in plan.spec.events
        if each.first < following and each.until > month
    ]
    ends = [
        f"{each.devices} held {each.device} end on {each.until.isoformat()}"
        for each in buying.held
        if (each.until.year, each.until.month) == (month.year, month.month)
    ]
    changes = [
        f"list prices x{number(each.ratio):g} from {each.begins.isoformat()}"
        for each in buying.announced
        if (each.begins.year, each.begins.month) == (month.year, month.month)
    ]
    return (*demand, *ends, *changes)


def _with_orders(plan: Plan, bill: Bill, months: Sequence[MonthFuture]) -> tuple[MonthFuture, ...]:
    """What a month needs beyond every month before it is ordered its lead time before."""
    lead = plan.spec.options.lead
    purchases = list(plan.spec.buying.mix.shares)
    lead_s = max(sum(number(one) for one in lead.steps(each)) for each in purchases)
    have = sum(each.replicas * each.replica_devices + (each.stranded_devices or 0.0) for each in bill.use.pools)
    found = []
    for month in months:
        need = 0.0
        for use in bill.use.pools:
            fleet = month.expected_fleets[use.name]
            replicas = fleet.steady_replicas + sum(use.reserves.values())
            need += replicas * use.replica_devices + fleet.stranded_devices
        more = max(0, round(need - have))
        have = max(have, need)
        by = month.month - datetime.timedelta(seconds=lead_s) if more else None
        found.append(replace(month, more_devices=more, order_by=by))
    return tuple(found)


def _notes(choice: BudgetChoice, rates: Mapping[str, Floats], plan: Plan) -> tuple[str, ...]:
    fleet = (
        "The fleet follows the hours of the week without delay, plus reserves; ullage scale shows what a scaling rule "
        "adds."
        if choice.follows
        else "The fleet is fixed within a month: as planned in the first, then resized by the plan's rule."
    )
    if plan.spec.scaling.releases_machines and not choice.follows:
        fleet += (
            " Of it as large a part is paid for as in today's bill: the scaling rule's empty machines are released."
        )
    stated = sorted({each.name for pool in plan.pools for each in pool.demand.classes} - {*rates})
    known = f"Months of {', '.join(sorted(rates))} follow from the log. " if rates else ""
    rest = (
        f"Months of {', '.join(stated)} grow as stated or assumed for {number(GROWTH_MONTHS):g} months and wander by "
        f"{100 * number(WANDER):g} % a month."
        if stated
        else ""
    )
    if plan.spec.events:
        rest += " Planned events lift the requests of their days" + (
            " and the fleet of their hours." if choice.follows else "; a fixed fleet holds their height all month."
        )
    held = "Reserves stay as the plan has them. List prices are drawn with a deviation of "
    return (fleet, f"{known}{rest}".strip(), f"{held}{100 * number(PRICE_DEVIATION):g} %.")
