"""How to buy a planned fleet: each pool's nodes over drawn months, and the mix of least expected cost."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ullage.cost.bill import Bill
from ullage.cost.purchase.instrument import Held
from ullage.cost.purchase.mix import Market, TermOrder
from ullage.cost.purchase.need import Integers, NodeNeeds, firm_needs
from ullage.cost.purchase.purchase import PurchasePlan, purchase_plan
from ullage.cost.purchase.terms import SoldNodes, sold_nodes
from ullage.cost.quotes import HeldCommitment
from ullage.cost.service_use import PoolUse
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Figure, number
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.prices.book import MissingPrice
from ullage.prices.packaged import list_fall
from ullage.prices.purchase import Purchase
from ullage.uncertainty.growth import GROWTH_MONTHS, until_next_month_s
from ullage.uncertainty.pool_months import PoolMonths, pool_months
from ullage.uncertainty.pool_study import pool_surface
from ullage.workload.demand.ageing import WANDER

_DRAWN, _FRESH = 128, 256
_DAY_S, _MONTH_DAYS = 86_400.0, 365.0 / 12.0
LEAST_MONTHS, MOST_MONTHS = 1, 60


@dataclass(frozen=True, kw_only=True)
class BuyingChoice:
    """What is decided: whether the fleet follows the hours, how many months, how much regret is allowed."""

    follows: bool = True
    months: int | None = None
    most_regret: Assumption | None = None


@dataclass(frozen=True, kw_only=True)
class DatedOrder:
    """An order of a term with its dates: the first and last month, the day to order by, and what it comes to."""

    pool: str
    instrument: str
    nodes: int
    devices: int
    begins: datetime.date
    ends: datetime.date
    order_by: datetime.date
    late_days: int
    usd_per_month: float
    upfront_usd: float


@dataclass(frozen=True, kw_only=True)
class Buying:
    """Every pool's mix, and its orders by date. `seller` is who sells the nodes of each pool."""

    pools: tuple[PurchasePlan, ...]
    orders: tuple[DatedOrder, ...]
    sellers: Mapping[str, str]
    nodes_of: Mapping[str, int]
    follows: bool
    first_month: datetime.date
    notes: tuple[str, ...]
    figures: Mapping[str, Figure]


def buying(plan: Plan, choice: BuyingChoice, *, map: Any = map) -> Buying | Rejection:  # noqa: A002
    """The purchase plan of every pool of a finished plan."""
    bill = next((each.answer for each in plan.stages if isinstance(each.answer, Bill)), None)
    if bill is None or plan.spec.prices is None:
        raise InputError(
            field="prices", value=None, problem="are not given, so nothing can be bought", fix="Give prices."
        )
    first = months_on(plan.as_of, 1)
    found: list[PurchasePlan] = []
    orders: list[DatedOrder] = []
    notes: list[str] = []
    sellers: dict[str, str] = {}
    taken: set[str] = set()
    for pool, use in zip(plan.pools, bill.use.pools, strict=True):
        sold = _sold(plan, pool, use)
        held = () if pool.spec.device.name in taken else _held(plan, pool, first, notes)
        taken.add(pool.spec.device.name)
        one = _bought(plan, pool, sold, held, choice, map)
        if isinstance(one, Rejection):
            return one
        found.append(one)
        sellers[pool.spec.name] = f"{sold.by_hour.provider} {sold.by_hour.region or 'any region'}".strip()
        orders += [_dated(plan, pool, each, first, one.market) for each in one.chosen.orders]
        notes += [*sold.notes, *_spot_notes(plan, pool, sold)]
    return Buying(
        pools=tuple(found),
        orders=tuple(sorted(orders, key=lambda each: (each.begins, each.pool, each.instrument))),
        sellers=sellers,
        nodes_of={each.spec.name: each.packing.chosen.shape.devices for each in plan.pools},
        follows=choice.follows,
        first_month=first,
        notes=tuple(dict.fromkeys((*notes, *_announced_notes(plan, found), *_standing_notes(choice)))),
        figures={name: figure for each in found for name, figure in each.figures.items()},
    )


def _sold(plan: Plan, pool: PoolPlan, use: PoolUse) -> SoldNodes:
    assert plan.spec.prices is not None
    lead_s = sum(number(each) for each in plan.spec.options.lead.steps(Purchase.OWNED))
    found = sold_nodes(
        plan.spec.prices,
        use,
        plan.spec.buying,
        node_devices=pool.packing.chosen.shape.devices,
        refill=pool.time_to_ready.figures["ready.cold_p90_s"],
        owned_after_months=math.ceil(lead_s / _DAY_S / _MONTH_DAYS),
    )
    if isinstance(found, MissingPrice):
        raise InputError(
            field="prices", value=pool.spec.device.name, problem=f"{found.what}: {found.why}", fix=found.fix
        )
    return found


def _bought(
    plan: Plan,
    pool: PoolPlan,
    sold: SoldNodes,
    held: tuple[Held, ...],
    choice: BuyingChoice,
    map: Any,  # noqa: A002
) -> PurchasePlan | Rejection:
    months = choice.months or max(12, sold.longest_months)
    market = Market(
        by_hour=sold.by_hour,
        spot=sold.spot if _losable(plan, pool) else None,
        terms=tuple(each for each in sold.terms if each.term_months <= months or each.purchase is Purchase.OWNED),
        held=held,
        list_ratios=tuple(plan.spec.buying.announced_ratio(months_on(plan.as_of, 1 + each)) for each in range(months)),
    )
    given, surface = pool_surface(pool, plan.spec, seed=plan.seed, map=map)
    drawn, fresh = (
        _needs(
            pool_months(
                pool,
                given,
                surface,
                months=months,
                futures=count,
                seed=plan.seed + at,
                wait_s=until_next_month_s(plan.as_of),
                losable=_losable(plan, pool),
            ),
            pool,
            follows=choice.follows,
        )
        for at, count in enumerate((_DRAWN, _FRESH))
    )
    steady = plan.figures_of("steady_fleet", pool.spec.name)["fleet.replicas"]
    rests: tuple[Figure | Assumption, ...] = (
        steady,
        *(each.assumption for each in given.inputs),
        GROWTH_MONTHS,
        WANDER,
        *sold.assumed,
        *(each.ratio for each in plan.spec.buying.announced),
    )
    return purchase_plan(
        pool.spec.name,
        drawn,
        fresh,
        market,
        fall=list_fall(pool.spec.device.name),
        most_regret=choice.most_regret,
        inputs=rests,
        rng=np.random.default_rng((plan.seed, 43)),
    )


def _needs(found: PoolMonths, pool: PoolPlan, *, follows: bool) -> NodeNeeds:
    if not follows:
        fixed: Integers = found.nodes(found.fixed, pool)[:, :, None]
        return firm_needs(fixed)
    nodes, firm = found.nodes(found.hours, pool), found.nodes(found.firm_hours, pool)
    return NodeNeeds(nodes=nodes, losable=nodes - np.minimum(firm, nodes))


def _losable(plan: Plan, pool: PoolPlan) -> tuple[str, ...]:
    own = {each.name for each in pool.demand.classes}
    return tuple(each for each in plan.spec.buying.spot_classes if each in own)


def _held(plan: Plan, pool: PoolPlan, first: datetime.date, notes: list[str]) -> tuple[Held, ...]:
    """What is committed of this pool's device, in whole nodes and months."""
    size = pool.packing.chosen.shape.devices
    found = []
    for at, each in enumerate(plan.spec.buying.held):
        if each.device != pool.spec.device.name:
            continue
        months = _whole_months(first, each)
        nodes, over = divmod(each.devices, size)
        if over:
            notes.append(
                f"{over} of the {each.devices} committed {each.device} do not fill a node of {size} and are not "
                "counted."
            )
        if months > 0 and nodes:
            usd = number(each.hour) * size
            found.append(Held(name=f"held {at + 1}", nodes=nodes, months=months, usd_per_hour=usd))
    return tuple(found)


def _whole_months(first: datetime.date, held: HeldCommitment) -> int:
    """Months from the first that it covers to their last day."""
    next_day = held.until + datetime.timedelta(days=1)
    return max(0, (next_day.year - first.year) * 12 + next_day.month - first.month)


def _dated(plan: Plan, pool: PoolPlan, order: TermOrder, first: datetime.date, market: Market) -> DatedOrder:
    begins, size = months_on(first, order.start_months), pool.packing.chosen.shape.devices
    lead_s = sum(number(each) for each in plan.spec.options.lead.steps(order.instrument.purchase))
    by = begins - datetime.timedelta(seconds=lead_s)
    month_usd = order.nodes * order.instrument.usd_per_month * market.list_ratios[order.start_months]
    return DatedOrder(
        pool=pool.spec.name,
        instrument=order.instrument.name,
        nodes=order.nodes,
        devices=order.nodes * size,
        begins=begins,
        ends=months_on(begins, order.instrument.term_months) - datetime.timedelta(days=1),
        order_by=by,
        late_days=max(0, (plan.as_of - by).days),
        usd_per_month=month_usd,
        upfront_usd=order.instrument.upfront_fraction * month_usd * order.instrument.term_months,
    )


def _spot_notes(plan: Plan, pool: PoolPlan, sold: SoldNodes) -> tuple[str, ...]:
    if sold.spot is None or _losable(plan, pool):
        return ()
    named = "List those that may in prices.spot_classes."
    return (f"{pool.spec.name}: no spot: none of its classes may be interrupted. {named}",)


def _announced_notes(plan: Plan, pools: Sequence[PurchasePlan]) -> tuple[str, ...]:
    """Changes that begin within the months that are looked at."""
    last = months_on(plan.as_of, max(each.months for each in pools))
    return tuple(
        f"List prices are x{number(each.ratio):g} from {each.begins.isoformat()}, as announced; what is committed "
        "before stays at its price."
        for each in plan.spec.buying.announced
        if each.begins <= last
    )


def _standing_notes(choice: BuyingChoice) -> tuple[str, ...]:
    follows = (
        "The fleet follows the hours of the week without delay, plus reserves; ullage scale shows what a scaling "
        "rule adds."
        if choice.follows
        else "The fleet is fixed within a month and resized for the next by the plan's rule."
    )
    spread = (
        "Up-front payments are spread over the term without interest. What is left of a term, or of a machine of one's "
        "own, after the last month is assumed to be worth its price."
    )
    return (follows, spread)


def months_on(day: datetime.date, count: int) -> datetime.date:
    """The first day of the month so many months after this day's.

    >>> months_on(datetime.date(2026, 11, 16), 2)
    datetime.date(2027, 1, 1)
    """
    months = day.year * 12 + day.month - 1 + count
    return datetime.date(months // 12, months % 12 + 1, 1)
