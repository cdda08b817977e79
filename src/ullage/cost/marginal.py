"""Marginal cost: of demand, of a replica, of a tighter SLO, of certainty.

A fleet grows in whole replicas, so the cost of one more request is nothing until it is a replica. What is asked is
the cost of a stated step (ten percent more demand, an SLO a tenth tighter, one more nine), by planning again with it,
and divided by the step where that says something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ullage.cost.bill import Bill
from ullage.cost.money import usd_of
from ullage.cost.policy import CostPolicy
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import PoolUse
from ullage.errors import Rejection
from ullage.evidence import Assumption, Figure
from ullage.prices.book import MissingPrice


@dataclass(frozen=True, kw_only=True)
class MarginalStep:
    """A change to plan again with. `units` is how many of `per` it is: 3.2e6 requests, one nine."""

    name: str
    title: str
    units: float
    per: str
    again: Callable[[], Bill | Rejection]
    basis: tuple[Figure | Assumption, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """What a step adds to the bill; `figure` is None where the step cannot be had, and `why` says so."""

    name: str
    title: str
    per: str
    cents: int | None
    figure: Figure | None
    why: str = ""


def marginal_costs(bill: Bill, steps: Sequence[MarginalStep]) -> tuple[Marginal, ...]:
    """Every step planned again, and its bill less this one."""
    return tuple(_marginal(bill, step) for step in steps)


def _marginal(bill: Bill, step: MarginalStep) -> Marginal:
    found = step.again()
    if isinstance(found, Rejection):
        return Marginal(
            name=step.name, title=step.title, per=step.per, cents=None, figure=None, why=f"refused: {found.reason}"
        )
    added = found.total_cents - bill.total_cents
    return Marginal(
        name=step.name,
        title=step.title,
        per=step.per,
        cents=added,
        figure=Figure(
            name=f"marginal.{step.name}_usd",
            value=usd_of(added) / step.units,
            unit="USD",
            formula=f"(the bill with {step.title} - the bill) / {step.units:g} {step.per}",
            inputs=(bill.figures["bill.total_usd"], *step.basis),
        ),
    )


def replica_usd(pool: PoolUse, quotes: Quotes, policy: CostPolicy) -> Figure | MissingPrice:
    """One more replica of a pool for the period: its devices at the price of the mix."""
    found = quotes.devices.get(pool.name)
    if found is None or isinstance(found, MissingPrice):
        return found or MissingPrice(what=pool.device, why="no price was looked up", fix="Give prices.own.")
    hour = sum(each.share_fraction * each.usd_per_hour for each in found)
    return Figure(
        name=f"marginal.{pool.name}.replica_usd",
        value=hour * pool.replica_devices * policy.period_hours,
        unit="USD",
        formula=f"{pool.replica_devices} devices x hours of the period x price of the mix",
        inputs=(policy.period, *(one for each in found for one in (each.hour, each.share))),
    )
