"""The prices one bill needs, looked up once: devices by pool and purchase, items, tokens.

A book may hold thousands of prices; a bill needs a dozen. With the quotes in hand a bill is a few hundred
multiplications, so that a study can ask for thousands of them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ullage.cost.policy import CostPolicy
from ullage.cost.service_use import PoolUse, ServiceUse
from ullage.evidence import Assumption, Evidence, Figure, Source, walk
from ullage.prices.age import age_notes
from ullage.prices.book import MissingPrice, PriceBook, Tier, TokenKind
from ullage.prices.lookup import priced
from ullage.prices.offers import cheapest
from ullage.prices.purchase import Purchase, PurchaseMix
from ullage.prices.wanted import DeviceWanted, RateWanted, TokenWanted

Price = Figure | MissingPrice
_MACHINE_DEVICES = 8

ALL_ON_DEMAND = PurchaseMix(
    shares={
        Purchase.ON_DEMAND: Assumption(
            name="cost.on_demand_share",
            value=1.0,
            unit="fraction",
            evidence=Evidence.ASSUMED,
            source=Source(what="default of Ullage", where="docs/explanation/cost.md", date=datetime.date(2026, 11, 15)),
            decision=True,
        )
    }
)


@dataclass(frozen=True, kw_only=True)
class HeldCommitment:
    """Devices that are bought already, until the end of a day: paid until then whether they are used or not."""

    device: str
    devices: int
    hour: Assumption
    until: datetime.date


@dataclass(frozen=True, kw_only=True)
class AnnouncedChange:
    """From a day on, list prices of devices are so many times today's."""

    begins: datetime.date
    ratio: Assumption


@dataclass(frozen=True, kw_only=True)
class PriceChoice:
    """Where and how to buy: the constraints under which a book is asked. Empty allows all.

    `held` is bought already, and `spot_classes` are the classes whose requests may be interrupted: only what serves
    them may stand on spot. `announced` are changes of list prices that are known to come.
    """

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    mix: PurchaseMix = ALL_ON_DEMAND
    tier: Tier = Tier.STANDARD
    lost: Assumption | Figure | None = None
    held: tuple[HeldCommitment, ...] = ()
    spot_classes: tuple[str, ...] = ()
    announced: tuple[AnnouncedChange, ...] = ()

    def announced_ratio(self, month: datetime.date) -> float:
        """List prices of devices in the month that begins this day, as announced, relative to today's."""
        return math.prod(float(each.ratio.value) for each in self.announced if each.begins <= month)


@dataclass(frozen=True, kw_only=True)
class DeviceQuote:
    """A device-hour as part of a mix: bought how, where, for which share of the hours, at which price."""

    purchase: Purchase
    share: Assumption
    hour: Figure
    provider: str = ""
    region: str = ""

    @property
    def share_fraction(self) -> float:
        return float(self.share.value)

    @property
    def usd_per_hour(self) -> float:
        return float(self.hour.value)


@dataclass(frozen=True, kw_only=True)
class Quotes:
    """Prices by what they are for. `devices` by pool; `items` by item or `item name`; `tokens` by `provider model`.

    `dates` are the oldest and the newest date of a device or token price, `regions` who sells the devices, and where.
    """

    devices: Mapping[str, tuple[DeviceQuote, ...] | MissingPrice]
    items: Mapping[str, Price]
    tokens: Mapping[str, Mapping[TokenKind, Price]] = field(default_factory=dict)
    dates: tuple[datetime.date, ...] = ()
    regions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def item(self, item: str, name: str = "") -> Price:
        key = f"{item} {name}".rstrip()
        return self.items.get(key) or MissingPrice(
            what=key, why="no price was looked up", fix=f"Give prices.own.{item}."
        )

    def token(self, provider: str, model: str, kind: TokenKind) -> Price:
        found = self.tokens.get(f"{provider} {model}".lstrip(), {}).get(kind)
        return found or MissingPrice(
            what=f"{kind} tokens of {model}", why="no price was looked up", fix="Give prices.own."
        )


_ITEMS = (
    "object-storage",
    "block-storage",
    "log-storage",
    "egress",
    "zone-network",
    "span",
    "log-ingest",
    "metric-series",
    "evaluation",
    "engineering",
)


def quotes_of(
    book: PriceBook,
    use: ServiceUse,
    policy: CostPolicy,
    choice: PriceChoice = PriceChoice(),  # noqa: B008
) -> Quotes:
    """Everything that this service has to buy, each priced or reported as missing."""
    tools = {each.name for each in use.tools or ()}
    wanted_items = [(item, "") for item in _ITEMS] + [("tool-call", name) for name in sorted(tools)]
    sellers = {(each.provider, each.model) for each in use.providers or ()}
    if policy.judging is not None and policy.judging.model:
        sellers.add((policy.judging.provider, policy.judging.model))
    devices = {each.name: device_quotes(book, each, choice) for each in use.pools}
    tokens = {
        f"{provider} {model}".lstrip(): _tokens(book, provider, model, choice) for provider, model in sorted(sellers)
    }
    quoted = [one for each in devices.values() if not isinstance(each, MissingPrice) for one in each]
    bought = [one for each in tokens.values() for one in each.values() if isinstance(one, Figure)]
    dates = {
        each.date
        for root in (*(each.hour for each in quoted), *bought)
        for _, each in walk(root)
        if isinstance(each, Source)
    }
    items = {f"{item} {name}".rstrip(): _item(book, item, name, choice) for item, name in wanted_items}
    # A price whose amount nobody has stated is on no line: its age does not matter.
    unasked = {"evaluation"} if policy.judging is None else set()
    unasked |= {"engineering"} if policy.on_call is None and policy.changes is None else set()
    rates = [each for name, each in items.items() if isinstance(each, Figure) and name not in unasked]
    used = [*(each.hour for each in quoted), *bought, *rates]
    return Quotes(
        devices=devices,
        items=items,
        tokens=tokens,
        dates=(min(dates), max(dates)) if dates else (),
        regions=tuple(sorted({f"{each.provider} {each.region or 'any region'}".strip() for each in quoted})),
        notes=(*age_notes(used, book.as_of), *book.notes),
    )


def device_quotes(book: PriceBook, pool: PoolUse, choice: PriceChoice) -> tuple[DeviceQuote, ...] | MissingPrice:
    """A pool's device-hour, part by part of the mix; one part without a price leaves the pool without one."""
    found: list[DeviceQuote] = []
    for purchase, share in choice.mix.shares.items():
        if not share.value:
            continue
        offer = cheapest(book, device_wanted(pool, choice, purchase))
        if isinstance(offer, MissingPrice):
            return offer
        found.append(
            DeviceQuote(
                purchase=purchase,
                share=share,
                hour=offer.usd_per_device_hour,
                provider=offer.price.provider,
                region=offer.price.region,
            )
        )
    return tuple(found)


def priced_elsewhere(quotes: Quotes, placed: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """What to know where devices stand in a region that they are not priced in; `placed` are regions by pool."""
    found: dict[tuple[str, str], set[str]] = {}
    for pool, regions in placed.items():
        quoted = quotes.devices.get(pool)
        for each in quoted if isinstance(quoted, tuple) else ():
            away = {*regions} - {each.region}
            if each.region and away:
                found.setdefault((each.provider, each.region), set()).update(away)
    return tuple(
        f"Devices in {', '.join(sorted(away))} are priced as in {provider} {region}: state prices.region, or their own "
        "price with its region in prices.own.devices."
        for (provider, region), away in sorted(found.items())
    )


def device_wanted(pool: PoolUse, choice: PriceChoice, purchase: Purchase) -> DeviceWanted:
    """What the book is asked for: a device of this pool, bought so."""
    return DeviceWanted(
        device=pool.device,
        providers=choice.providers,
        regions=(pool.region,) if pool.region else choice.regions,
        purchases=(purchase,),
        # A replica of more devices than a machine holds spans machines, of whatever size they are.
        least_devices=pool.replica_devices if pool.replica_devices <= _MACHINE_DEVICES else 1,
        lost=choice.lost,
    )


def _item(book: PriceBook, item: str, name: str, choice: PriceChoice) -> Price:
    """The provider's price where one provider is chosen, else the one that names none."""
    tried: Iterable[RateWanted] = (
        RateWanted(item=item, name=name, provider=provider, region=region)
        for provider in (*choice.providers, "")
        for region in (*choice.regions, "")
    )
    answers = [priced(book, each) for each in tried]
    return next((each for each in answers if isinstance(each, Figure)), answers[0])


def _tokens(book: PriceBook, provider: str, model: str, choice: PriceChoice) -> dict[TokenKind, Price]:
    return {
        kind: priced(book, TokenWanted(model=model, kind=kind, provider=provider, tier=choice.tier))
        for kind in TokenKind
    }
