"""A budget: the months to come over many futures, as P10, P50 and P90, and why they differ from today's bill.

Every future of every month is billed with the lines of the bill itself. The band of a sum is that of the futures' sums:
months err together, so it is narrower than the sum of their bands would say of each, and wider than if they did not.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.cost.bill import Bill
from ullage.cost.budget.month_bill import HeldDevices, MonthFleet, month_lines
from ullage.cost.budget.variance import PastMonth
from ullage.cost.change import CAUSES, explain_change
from ullage.cost.money import usd_of
from ullage.evidence import Assumption, Figure

Floats = NDArray[np.float64]
Named = Figure | Assumption

_BAND = (10.0, 50.0, 90.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class MonthFuture:
    """One month: by future the requests of each class as parts of today's, each pool's fleet, and the list's prices.

    `expected` is the middle of them, which is billed once to say why the month differs. `events` are what is known to
    happen in it.
    """

    month: datetime.date
    ratios: tuple[Mapping[str, float], ...]
    fleets: tuple[Mapping[str, MonthFleet], ...]
    list_ratios: Floats
    held: Mapping[str, HeldDevices]
    expected_ratios: Mapping[str, float]
    expected_fleets: Mapping[str, MonthFleet]
    expected_list_ratio: float
    order_by: datetime.date | None = None
    more_devices: int = 0
    events: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BudgetMonth:
    """One month of the budget: its band, the middle of its requests and devices, and what happens in it.

    `by_line` is the mean by line of the bill. `causes` says why the middle month differs from today's bill, in USD.
    """

    month: datetime.date
    requests: float
    devices: float
    low_usd: float
    usd: float
    high_usd: float
    by_line: Mapping[str, float]
    middle_usd: float
    causes: Mapping[str, float]
    order_by: datetime.date | None
    more_devices: int
    events: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The months and their sum. `causes` are why the middle months differ from as many of today's bill, and sum to it.

    `past` are months that are over: what was planned, what was paid, and why.
    """

    months: tuple[BudgetMonth, ...]
    low_usd: float
    usd: float
    high_usd: float
    today_usd: float
    middle_usd: float
    causes: Mapping[str, float]
    past: tuple[PastMonth, ...]
    follows: bool
    futures: int
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]


def budget_of(
    bill: Bill,
    months: Sequence[MonthFuture],
    *,
    follows: bool,
    inputs: tuple[Named, ...],
    past: tuple[PastMonth, ...] = (),
    notes: tuple[str, ...] = (),
) -> Budget:
    """The budget of these months, beside today's bill."""
    billed = [_billed(bill, each) for each in months]
    totals = np.stack([usd for usd, _ in billed], axis=1)
    rows = tuple(_month(bill, each, usd, by_line) for each, (usd, by_line) in zip(months, billed, strict=True))
    low, middle, high = (float(each) for each in np.percentile(totals.sum(axis=1), _BAND))
    causes = {name: sum(each.causes[name] for each in rows) for name in CAUSES}
    return Budget(
        months=rows,
        low_usd=low,
        usd=middle,
        high_usd=high,
        today_usd=bill.total_usd * len(rows),
        middle_usd=sum(each.middle_usd for each in rows),
        causes=causes,
        past=past,
        follows=follows,
        futures=totals.shape[0],
        figures=_figures(bill, rows, (low, middle, high), totals.shape[0], inputs),
        notes=notes,
    )


def _billed(bill: Bill, month: MonthFuture) -> tuple[Floats, dict[str, float]]:
    """What the month costs in each future, and its mean by line."""
    found = np.empty(len(month.ratios))
    by_line: dict[str, float] = {}
    for at, (ratios, fleets, listed) in enumerate(zip(month.ratios, month.fleets, month.list_ratios, strict=True)):
        _, _, lines = month_lines(bill, ratios, fleets, list_ratio=float(listed), held=month.held)
        found[at] = usd_of(sum(each.cents or 0 for each in lines))
        for each in lines:
            by_line[each.name] = by_line.get(each.name, 0.0) + each.usd / len(month.ratios)
    return found, by_line


def _month(bill: Bill, month: MonthFuture, usd: Floats, by_line: Mapping[str, float]) -> BudgetMonth:
    use, quotes, lines = month_lines(
        bill,
        month.expected_ratios,
        month.expected_fleets,
        list_ratio=month.expected_list_ratio,
        held=month.held,
    )
    expected = replace(bill, use=use, quotes=quotes, lines=lines)
    change = explain_change(bill, expected)
    low, middle, high = (float(each) for each in np.percentile(usd, _BAND))
    devices = sum(each.replicas * each.replica_devices + (each.stranded_devices or 0.0) for each in use.pools)
    return BudgetMonth(
        month=month.month,
        requests=use.requests,
        devices=devices,
        low_usd=low,
        usd=middle,
        high_usd=high,
        by_line=by_line,
        middle_usd=expected.total_usd,
        causes={each.name: each.usd for each in change.causes},
        order_by=month.order_by,
        more_devices=month.more_devices,
        events=month.events,
    )


def _figures(
    bill: Bill, rows: Sequence[BudgetMonth], band: tuple[float, ...], futures: int, inputs: tuple[Named, ...]
) -> dict[str, Figure]:
    total = bill.figures.get("bill.total_usd")
    rests = tuple({each.name: each for each in (*([] if total is None else [total]), *inputs)}.values())
    found = {}
    spans = [(f"{each.month:%Y-%m}", (each.low_usd, each.usd, each.high_usd)) for each in rows]
    for span, values in (*spans, ("total", band)):
        for which, value in zip(("p10", "p50", "p90"), values, strict=True):
            name = f"budget.{span}.{which}_usd"
            found[name] = Figure(
                name=name,
                value=value,
                unit="USD",
                formula=f"{which} over {futures} futures, each billed line by line",
                inputs=rests,
            )
    return found
