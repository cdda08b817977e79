"""The bill of one month to come: today's use with other requests, another fleet and other prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ullage.cost.bill import Bill
from ullage.cost.lines.line import BillLine
from ullage.cost.lines.lines import bill_lines
from ullage.cost.quotes import DeviceQuote, Quotes
from ullage.cost.service_use import PoolUse, ServiceUse, class_times
from ullage.evidence import Assumption, Figure, number
from ullage.prices.book import MissingPrice


@dataclass(frozen=True, kw_only=True)
class MonthFleet:
    """A pool in a month: its steady replicas, the mean that ran where it follows demand, and devices left over."""

    steady_replicas: float
    mean_replicas: float | None
    stranded_devices: float


@dataclass(frozen=True, kw_only=True)
class HeldDevices:
    """Devices of a pool that are paid in a month at a price of their own, whether they are used or not."""

    devices: int
    hour: Assumption


def month_use(use: ServiceUse, ratios: Mapping[str, float], fleets: Mapping[str, MonthFleet]) -> ServiceUse:
    """So many times the requests of each class, on these fleets. Tools are called as often as requests come."""
    classes = tuple(class_times(each, ratios.get(each.name, 1.0)) for each in use.classes)
    before, after = (sum(each.requests for each in one) for one in (use.classes, classes))
    whole = after / before if before else 1.0
    tools = None if use.tools is None else tuple(replace(each, calls=each.calls * whole) for each in use.tools)
    pools = tuple(_pool(each, fleets.get(each.name)) for each in use.pools)
    return replace(use, classes=classes, pools=pools, tools=tools)


def _pool(pool: PoolUse, fleet: MonthFleet | None) -> PoolUse:
    if fleet is None:
        return pool
    ratio = fleet.steady_replicas / pool.steady_replicas if pool.steady_replicas else 1.0
    return replace(
        pool,
        steady_replicas=fleet.steady_replicas,
        hourly_replicas=() if fleet.mean_replicas is None else (fleet.mean_replicas,),
        hourly_needed=(),
        stranded_devices=fleet.stranded_devices,
        capacity_requests=None if pool.capacity_requests is None else pool.capacity_requests * ratio,
    )


def month_quotes(
    quotes: Quotes, use: ServiceUse, *, list_ratio: float = 1.0, held: Mapping[str, HeldDevices] | None = None
) -> Quotes:
    """Today's prices with lists times so much, and what is held of a pool at its own price.

    Held devices beyond what the month pays for anyway are paid as well: their hour is dearer by as much.
    """
    pools = {each.name: each for each in use.pools}
    devices = {
        name: found
        if isinstance(found, MissingPrice)
        else _with_held(tuple(_times_list(each, list_ratio) for each in found), pools[name], (held or {}).get(name))
        for name, found in quotes.devices.items()
    }
    return replace(quotes, devices=devices)


def _times_list(quote: DeviceQuote, ratio: float) -> DeviceQuote:
    if ratio == 1.0 or quote.purchase.is_committed:
        return quote
    hour = Figure(
        name=f"{quote.hour.name}.then",
        value=quote.usd_per_hour * ratio,
        unit=quote.hour.unit,
        formula="list price x its announced or drawn change",
        inputs=(quote.hour,),
    )
    return replace(quote, hour=hour)


def _with_held(quotes: tuple[DeviceQuote, ...], pool: PoolUse, held: HeldDevices | None) -> tuple[DeviceQuote, ...]:
    paid = pool.replicas * pool.replica_devices + (pool.stranded_devices or 0.0)
    if held is None or not held.devices or paid <= 0.0 or not quotes:
        return quotes
    part = min(1.0, held.devices / paid)
    over = max(1.0, held.devices / paid)
    hour = Figure(
        name=f"{held.hour.name}.paid",
        value=number(held.hour) * over,
        unit="USD/device-hour",
        formula="cost of all committed devices / those in use",
        inputs=(held.hour,),
    )
    # Shares of what is bought otherwise shrink together, so that all of them are one whole again.
    rest = tuple(replace(each, share=_share(each.share, each.share_fraction * (1.0 - part))) for each in quotes)
    own = replace(quotes[0], hour=hour, share=_share(quotes[0].share, part), provider="held", region="")
    return (own, *(each for each in rest if each.share_fraction > 0.0))


def _share(like: Assumption, value: float) -> Assumption:
    return replace(like, value=value, low=None, high=None)


def month_lines(
    bill: Bill,
    ratios: Mapping[str, float],
    fleets: Mapping[str, MonthFleet],
    *,
    list_ratio: float = 1.0,
    held: Mapping[str, HeldDevices] | None = None,
) -> tuple[ServiceUse, Quotes, tuple[BillLine, ...]]:
    """What a month uses, at which prices, and its lines."""
    use = month_use(bill.use, ratios, fleets)
    quotes = month_quotes(bill.quotes, use, list_ratio=list_ratio, held=held)
    return use, quotes, bill_lines(use, quotes, bill.policy)
