"""How to buy, as a page: what to order and by when, what it saves beside the usual rules, what it may lose."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.cost.purchase.purchase import MonthNodes, PurchasePlan
from ullage.report.quantity import counted, show_usd
from ullage.report.tables import bar, plain_table
from ullage.uncertainty.buying import Buying, months_on

_BY_MONTH = 12
# Less of a difference than a tenth of a per cent is none.
_ALIKE = 0.001


def buy_page(found: Buying) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for each in found.pools:
        parts += [*_pool(found, each), ""]
    return [*parts, *(Text(f"Note: {each}", style="dim") for each in found.notes)]


def _pool(found: Buying, one: PurchasePlan) -> Iterator[RenderableType]:
    size = found.nodes_of[one.pool]
    now = [each for each in found.orders if each.pool == one.pool and each.begins == found.first_month]
    of = f" {one.pool}" if len(found.pools) > 1 else ""
    orders = ", ".join(f"{counted(each.nodes, 'node')} {each.instrument}" for each in now)
    yield Text(f"Buy{of}: {orders or 'no commitment now'}; the rest {one.market.by_hour.name}.", style="bold")
    yield Text(_saving(one, size, found.sellers[one.pool]))
    yield Text(_losing(one))
    held = sum(each.nodes for each in one.market.held)
    if held:
        yield Text(f"{counted(held, 'node')} already committed count until their terms end.")
    if one.interruptions:
        yield Text(
            f"Spot is interrupted {one.interruptions:.2g} times a month and leaves {one.lost_node_hours:.2g} "
            "node-hours "
            "unserved, of classes that may be interrupted."
        )
    if any(each.pool == one.pool for each in found.orders):
        yield ""
        yield _orders(found, one)
    yield ""
    yield _prices(one, size)
    yield ""
    yield _rules(one)
    yield ""
    yield _worlds(one)
    yield ""
    yield _months(found, one)


def _saving(one: PurchasePlan, size: int, seller: str) -> str:
    best = one.best_rule
    cheaper = one.saved_usd / best.usd if best.usd else 0.0
    far = (
        "as much as" if abs(cheaper) < _ALIKE else f"{_percent(abs(cheaper))} {'less' if cheaper > 0 else 'more'} than"
    )
    beside = f"{far} {best.name}, the cheapest fixed rule"
    return (
        f"Over {counted(one.months, 'month')} it is expected to cost {_usd(one.chosen.usd)} USD "
        f"(p10 {_usd(one.chosen.low_usd)}, p90 {_usd(one.chosen.high_usd)}), {beside}; "
        f"nodes of {counted(size, 'device')}, {seller}."
    )


def _losing(one: PurchasePlan) -> str:
    worst = max(one.regrets, key=lambda each: each.regret_usd)
    return (
        f"Worst case is {worst.world}: {_usd(worst.regret_usd)} USD above the best mix for it, "
        f"and in no single future more than {_usd(one.regret_usd)} USD."
    )


def _orders(found: Buying, one: PurchasePlan) -> Table:
    table = plain_table(
        "Orders", "from", "until", "what", "nodes", "devices", "USD a month", "up front", "order by", ""
    )
    for each in found.orders:
        if each.pool == one.pool:
            late = f"{each.late_days} days ago" if each.late_days else ""
            table.add_row(
                f"{each.begins:%Y-%m}", f"{each.ends:%Y-%m}", each.instrument, str(each.nodes), str(each.devices),
                _usd(each.usd_per_month), _usd(each.upfront_usd), each.order_by.isoformat(), late,
            )  # fmt: skip
    return table


def _prices(one: PurchasePlan, size: int) -> Table:
    table = plain_table("Prices", "what", "USD a node-hour", "a device-hour", "of on demand", "term", "evidence")
    market = one.market
    for each in (market.by_hour, *market.terms, *([] if market.spot is None else [market.spot])):
        share = each.usd_per_hour / market.by_hour.usd_per_hour
        term = counted(each.term_months, "month") if each.is_term else "none"
        table.add_row(
            each.name, f"{each.usd_per_hour:.2f}", f"{each.usd_per_hour / size:.2f}", _percent(share), term,
            str(each.node_hour.evidence),
        )  # fmt: skip
    return table


def _rules(one: PurchasePlan) -> Table:
    title = f"Expected cost, over {one.futures} held-out futures"
    table = plain_table(title, "mix", "USD", "p10", "p90", "more")
    for each in (one.chosen, *one.rules):
        more = "" if each is one.chosen else f"{100 * each.more_fraction:+.1f} %"
        table.add_row(each.name, _usd(each.usd), _usd(each.low_usd), _usd(each.high_usd), more)
    return table


def _worlds(one: PurchasePlan) -> Table:
    names = [each.name for each in one.rules]
    table = plain_table("Regret: USD above the best mix in each case", "world", "chosen", *names)
    for each in one.regrets:
        lost = (each.rules_usd[name] - each.least_usd for name in names)
        table.add_row(each.world, _usd(each.regret_usd), *(_usd(max(0.0, one_lost)) for one_lost in lost))
    return table


def _months(found: Buying, one: PurchasePlan) -> Table:
    table = plain_table("Mean nodes by month", "month", "held", "term", "on demand", "spot", "of which idle", "")
    most = max(_total(each) for each in one.by_month)
    # A year by month, more of them by quarter: the orders above say when something changes.
    for each in one.by_month[:: 1 if one.months <= _BY_MONTH else 3]:
        cells = (each.held_nodes, each.term_nodes, each.hour_nodes, each.spot_nodes, each.idle_nodes)
        month = f"{months_on(found.first_month, each.after_months):%Y-%m}"
        table.add_row(month, *(f"{value:.3g}" for value in cells), bar(_total(each), most))
    return table


def _total(each: MonthNodes) -> float:
    return each.held_nodes + each.term_nodes + each.hour_nodes + each.spot_nodes


def _usd(value: float) -> str:
    return show_usd(value)


def _percent(part: float) -> str:
    return f"{100.0 * part:.3g} %"
