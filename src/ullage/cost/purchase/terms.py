"""The instruments that a price book has of a pool's nodes, from one seller: by the hour, for a term, on spot, owned.

The seller is whoever sells the hour cheapest under the plan's constraints; terms of another one are no terms of these
nodes. A seller whose list states no term is taken to grant what sellers usually do, as an assumption with its range
(`ONE_YEAR_OFF`, `THREE_YEARS_OFF`): a price of one's own under `prices.own.devices` replaces it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ullage.cost.purchase.instrument import Instrument
from ullage.cost.quotes import PriceChoice, device_wanted
from ullage.cost.service_use import PoolUse
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.prices.book import DevicePrice, MissingPrice, OwnedHardware, PriceBook
from ullage.prices.effective import usd
from ullage.prices.offers import Offer, cheapest
from ullage.prices.purchase import HOURS_PER_MONTH, Purchase

_WRITTEN = datetime.date(2026, 11, 16)
_YEAR = datetime.timedelta(days=365)
_SELLERS = Source(
    what="savings plans of a large provider: about 40 % off for one year and 60 % for three at the deepest "
    "(prosperops.com/blog/aws-savings-plans), nearer 30 % for most (vantage.sh/blog/what-is-an-aws-savings-plan)",
    where="prosperops.com, vantage.sh",
    date=datetime.date(2026, 3, 1),
)
_WARNINGS = Source(
    what="notice before a spot machine is taken: 2 minutes at AWS, 30 seconds at Azure and Google",
    where="docs.aws.amazon.com, learn.microsoft.com, cloud.google.com",
    date=datetime.date(2026, 3, 1),
)


def _assumed(name: str, value: float, unit: str, low: float, high: float, source: Source) -> Assumption:
    return Assumption(
        name=name,
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=source,
        low=low,
        high=high,
        max_age=_YEAR,
    )


ONE_YEAR_OFF = _assumed("buy.one_year_off", 0.30, "fraction", 0.20, 0.45, _SELLERS)
THREE_YEARS_OFF = _assumed("buy.three_years_off", 0.50, "fraction", 0.35, 0.65, _SELLERS)
# Where a list does not say how often spot is taken: as AWS reports of its H100 machines.
INTERRUPTIONS = _assumed(
    "buy.interruptions",
    0.000264,
    "1/h",
    0.0001,
    0.01,
    Source(
        what="15 to 20 % of p5.48xlarge on spot were interrupted within a month, by the Spot Instance Advisor",
        where="thundercompute.com/blog/cloud-gpu-spot-instance-availability",
        date=datetime.date(2026, 2, 24),
    ),
)
_ANY_WARNING = _assumed("buy.spot_warning", 30.0, "s", 0.0, 120.0, _WARNINGS)
_WARNING: Mapping[str, Assumption] = {"aws": _assumed("buy.spot_warning", 120.0, "s", 0.0, 120.0, _WARNINGS)}


@dataclass(frozen=True, kw_only=True)
class SoldNodes:
    """What a seller has of a pool's nodes, with what was assumed of it."""

    by_hour: Instrument
    spot: Instrument | None
    terms: tuple[Instrument, ...]
    assumed: tuple[Assumption, ...]
    notes: tuple[str, ...]

    @property
    def longest_months(self) -> int:
        return max((each.term_months for each in self.terms if each.purchase is not Purchase.OWNED), default=0)


def sold_nodes(
    book: PriceBook,
    pool: PoolUse,
    choice: PriceChoice,
    *,
    node_devices: int,
    refill: Figure,
    owned_after_months: int,
) -> SoldNodes | MissingPrice:
    """Everything that the seller of the cheapest hour has of these nodes; nodes of one's own where they are allowed."""
    hourly = cheapest(book, device_wanted(pool, replace(choice, lost=None), Purchase.ON_DEMAND))
    if isinstance(hourly, MissingPrice):
        return hourly
    seller = replace(choice, providers=(hourly.price.provider,), lost=None)
    by_hour = _instrument(hourly, node_devices)
    terms = [
        _term(book, offer, node_devices)
        for purchase in Purchase
        if purchase.is_committed
        and isinstance(offer := cheapest(book, device_wanted(pool, seller, purchase)), Offer)
    ]  # fmt: skip
    assumed: list[Assumption] = []
    notes: list[str] = []
    if not terms:
        terms = list(_usual_terms(by_hour))
        assumed += [ONE_YEAR_OFF, THREE_YEARS_OFF]
        notes.append(
            f"No list states a term of {by_hour.provider or 'this seller'} for {pool.device}: "
            f"{number(ONE_YEAR_OFF):.0%} off for one year and {number(THREE_YEARS_OFF):.0%} for three are assumed. "
            "Give your own under prices.own.devices.".replace("%", " %")
        )
    owned = cheapest(book, device_wanted(pool, replace(choice, lost=None), Purchase.OWNED))
    if isinstance(owned, Offer) and (not choice.providers or owned.price.provider in choice.providers):
        terms.append(_owned(owned, node_devices, owned_after_months))
    spot = cheapest(book, device_wanted(pool, seller, Purchase.SPOT))
    if isinstance(spot, MissingPrice):
        return SoldNodes(by_hour=by_hour, spot=None, terms=tuple(terms), assumed=tuple(assumed), notes=tuple(notes))
    found = _spot(spot, node_devices, refill)
    assumed += [_interruptions(spot), _warning(spot)]
    return SoldNodes(by_hour=by_hour, spot=found, terms=tuple(terms), assumed=tuple(assumed), notes=tuple(notes))


def _instrument(offer: Offer, node_devices: int) -> Instrument:
    purchase = offer.purchase
    price = offer.price
    name = " ".join(each for each in (price.provider, str(purchase)) if each)
    return Instrument(
        name=name,
        purchase=purchase,
        node_hour=_node_hour(name, offer.usd_per_device_hour, node_devices),
        term_months=purchase.term_months,
        provider=price.provider,
        region=price.region,
    )


def _node_hour(name: str, hour: Figure, node_devices: int) -> Figure:
    return Figure(
        name=f"buy.price.{name.replace(' ', '.')}",
        value=number(hour) * node_devices,
        unit="USD/node-hour",
        formula=f"{node_devices} devices x the device-hour",
        inputs=(hour,),
    )


def _term(book: PriceBook, offer: Offer, node_devices: int) -> Instrument:
    found, price = _instrument(offer, node_devices), offer.price
    if not isinstance(price, DevicePrice) or price.upfront is None:
        return found
    paid = usd(book, price.upfront, provider=price.provider, kind=str(price.purchase))
    whole = number(offer.usd_per_device_hour) * price.devices * found.term_months * HOURS_PER_MONTH
    return found if isinstance(paid, MissingPrice) else replace(found, upfront_fraction=number(paid) / whole)


def _usual_terms(by_hour: Instrument) -> Iterator[Instrument]:
    for purchase, off in ((Purchase.ONE_YEAR, ONE_YEAR_OFF), (Purchase.THREE_YEARS, THREE_YEARS_OFF)):
        name = " ".join(each for each in (by_hour.provider, str(purchase)) if each)
        yield Instrument(
            name=name,
            purchase=purchase,
            node_hour=Figure(
                name=f"buy.price.{name.replace(' ', '.')}",
                value=by_hour.usd_per_hour * (1.0 - number(off)),
                unit="USD/node-hour",
                formula="hourly list price x (1 - usual discount)",
                inputs=(by_hour.node_hour, off),
            ),
            term_months=purchase.term_months,
            provider=by_hour.provider,
            region=by_hour.region,
        )


def _owned(offer: Offer, node_devices: int, after_months: int) -> Instrument:
    """Worn out over its life: a term as long, of which no part can be returned."""
    assert isinstance(offer.price, OwnedHardware)
    months = max(1, round(number(offer.price.life) / 3600.0 / HOURS_PER_MONTH))
    return replace(
        _instrument(offer, node_devices), term_months=months, after_months=after_months, upfront_fraction=0.0
    )


def _spot(offer: Offer, node_devices: int, refill: Figure) -> Instrument:
    return replace(
        _instrument(offer, node_devices),
        interruptions=number(_interruptions(offer)),
        warning_s=number(_warning(offer)),
        refill_s=number(refill),
    )


def _warning(offer: Offer) -> Assumption:
    return _WARNING.get(offer.price.provider, _ANY_WARNING)


def _interruptions(offer: Offer) -> Assumption:
    price = offer.price
    stated = price.interruptions if isinstance(price, DevicePrice) else None
    return INTERRUPTIONS if stated is None else stated
