"""`prices:` of a plan file: from whom, where and how devices are bought, and what the user knows of prices.

What is left out is answered by the lists that come with ullage, each dated and sourced; what is written here, or stands
in a file that is named here, goes before them. Nothing is converted without a dated rate.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from ullage.cost.quotes import ALL_ON_DEMAND, AnnouncedChange, HeldCommitment, PriceChoice
from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, Source
from ullage.facts.device import find_device
from ullage.facts.price import LIST_MAX_AGE, RATE_MAX_AGE, SPOT_MAX_AGE
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import (
    DAY_S,
    YEAR_S,
    Count,
    Duration,
    Mix,
    MoneyText,
    Names,
    Number,
    PowerText,
    PriceText,
    Range,
    Ratio,
    ShareOrNone,
    StartTime,
)
from ullage.files.sections.section import Key, Section
from ullage.prices.book import (
    AnyPrice,
    DevicePrice,
    Discount,
    ExchangeRate,
    OwnedHardware,
    PriceBook,
    RatePrice,
    Tier,
    TokenPrice,
    currency_of,
    price_book,
)
from ullage.prices.items import ITEMS
from ullage.prices.packaged import own_hardware_defaults, price_name
from ullage.prices.price_list import PriceList
from ullage.prices.purchase import Purchase, PurchaseMix, purchase_of
from ullage.prices.wanted import check_names
from ullage.units import DURATION, Money, Price, amount_per

_RATE_MAX_AGE = datetime.timedelta(days=31)
"""Exchange rates move by several per cent in a quarter; a month-old one is the last that is quietly taken."""


_COMPUTE, _EXTERNAL = "bill.compute_usd", "bill.external_usd"
_DATES = "It dates the price: notes and checks of its age follow it, and no figure does."
_NAMES_SOURCE = "It is printed as the source of the price."
_CATALOGUE = "A name in the catalogue: ullage facts devices."
_FILE_SAYS = "what the file says"
USERS_RATE = "the user's rate"


def _own_default(name: str) -> Callable[[], Assumption]:
    return lambda: own_hardware_defaults()[name]


class ExchangeSection(Section):
    """A rate the user vouches for, on a day."""

    rate: Annotated[Ratio, Key(means="How many USD one unit of the currency is.", moves=_COMPUTE)]
    dated: Annotated[datetime.date, Key(means="The day of the rate.", still=_DATES)]
    source: Annotated[str, Field(min_length=1), Key(means="The source of the rate.", still=_NAMES_SOURCE)] = USERS_RATE


class OwnPriceSection(Section):
    """Where one of your own prices comes from."""

    dated: Annotated[
        datetime.date | None, Key(means="The day of the price.", default="the date of the file", still=_DATES)
    ] = None
    source: Annotated[
        str | None, Key(means="Its source, such as a contract.", default="this file", still=_NAMES_SOURCE)
    ] = None


class OwnDeviceSection(OwnPriceSection):
    """Devices by the hour, as the user buys them."""

    device: Annotated[str, Key(means=_CATALOGUE, moves=_COMPUTE)]
    provider: Annotated[str, Key(means="Who sells it.", moves=_COMPUTE)]
    price: Annotated[PriceText, Key(means="Of the whole instance.", moves=_COMPUTE)]
    devices: Annotated[Count, Key(means="Devices that the price is for.", moves=_COMPUTE)] = 1
    purchase: Annotated[str, Key(means="on-demand, 1y-no-upfront, spot, ...", moves=_COMPUTE)] = (
        Purchase.ON_DEMAND.value
    )
    region: Annotated[str, Key(means="Its region.", default="anywhere", moves=_COMPUTE)] = ""
    zone: Annotated[
        str,
        Key(
            means="The zone, where the price is of one.",
            default="any",
            still="Prices of zones are listed apart; devices are bought by region, at the cheapest.",
        ),
    ] = ""
    instance: Annotated[
        str,
        Key(
            means="The machine that is sold, by name.",
            default="not named",
            still="It is a label that distinguishes two prices of one device.",
        ),
    ] = ""
    upfront: Annotated[MoneyText | None, Key(means="Paid once for the term.", default="nothing", moves=_COMPUTE)] = None
    interruptions_per_hour: Annotated[
        Number | None,
        Range(least=0.0, most=3600.0),
        Key(means="Spot only: how often it is interrupted.", default="not known: spot loses no time", moves=_COMPUTE),
    ] = None


class OwnMachineSection(OwnPriceSection):
    """A machine that you own; what is left out has a sourced default (`ullage facts prices own-hardware`)."""

    device: Annotated[str, Key(means=_CATALOGUE, moves=_COMPUTE)]
    devices: Annotated[Count, Key(means="Devices in the machine.", moves=_COMPUTE)]
    capex: Annotated[MoneyText, Key(means="The machine with its share of the fabric, installed.", moves=_COMPUTE)]
    power: Annotated[PowerText, Key(means="Mean power while serving.", moves=_COMPUTE)]
    site: Annotated[str, Key(means="A region of the plan.", default="anywhere", moves=_COMPUTE)] = ""
    life: Annotated[
        Duration | None,
        Range(least=DAY_S, most=50 * YEAR_S, dimension=DURATION),
        Key(means="How long it serves.", default=_own_default("life"), moves=_COMPUTE),
    ] = None
    residual: Annotated[
        ShareOrNone | None,
        Key(means="Residual value then, as a share of its cost.", default=_own_default("residual"), moves=_COMPUTE),
    ] = None
    cooling: Annotated[
        Ratio | None,
        Range(least=1.0, most=10.0),
        Key(
            means="Power of the facility over that of machines (PUE).",
            default=_own_default("cooling"),
            moves=_COMPUTE,
        ),
    ] = None
    electricity: Annotated[
        PriceText | None, Key(means="Per kWh.", default=_own_default("electricity"), moves=_COMPUTE)
    ] = None
    space: Annotated[PriceText | None, Key(means="Per kW-month.", default=_own_default("space"), moves=_COMPUTE)] = None
    staff: Annotated[
        PriceText | None,
        Key(means="Hands for one machine, per month.", default=_own_default("staff"), moves=_COMPUTE),
    ] = None
    upkeep: Annotated[
        ShareOrNone | None,
        Key(
            means="Support and spares per year, as a share of its cost.", default=_own_default("upkeep"), moves=_COMPUTE
        ),
    ] = None
    capital: Annotated[
        ShareOrNone | None, Key(means="Interest per year.", default=_own_default("capital"), moves=_COMPUTE)
    ] = None


class OwnTokensSection(OwnPriceSection):
    """A provider's tokens, as the user buys them."""

    provider: Annotated[str, Key(means="Who sells them.", moves=_EXTERNAL)]
    model: Annotated[str, Key(means="The model, as the provider calls it.", moves=_EXTERNAL)]
    tier: Annotated[str, Key(means="standard, batch, flex or priority.", moves=_EXTERNAL)] = Tier.STANDARD.value
    region: Annotated[str, Key(means="Where.", default="anywhere", moves=_EXTERNAL)] = ""
    input: Annotated[PriceText | None, Key(means="Per input token.", default="not priced", moves=_EXTERNAL)] = None
    output: Annotated[PriceText | None, Key(means="Per output token.", default="not priced", moves=_EXTERNAL)] = None
    cached_read: Annotated[
        PriceText | None, Key(means="Per token read from the cache.", default="not priced", moves=_EXTERNAL)
    ] = None
    cache_write: Annotated[
        PriceText | None,
        Key(means="Per token written to the cache.", default="not priced", moves=_EXTERNAL),
    ] = None


class OwnSection(Section):
    """Your own prices, which take precedence over every list."""

    devices: tuple[OwnDeviceSection, ...] = ()
    machines: tuple[OwnMachineSection, ...] = ()
    tokens: tuple[OwnTokensSection, ...] = ()
    items: Annotated[
        dict[str, PriceText],
        Field(default_factory=dict),
        Key(
            means="By item, such as egress, or `tool-call search` for one of several.",
            default="those of the lists",
            moves="bill.total_usd",
        ),
    ]


class PriceFileSection(Section):
    """A file of prices: a catalogue, a bill, or a CSV of ours."""

    path: Annotated[
        str,
        Key(means="Relative to the plan file; litellm for the one that is installed.", moves=_COMPUTE),
    ]
    dated: Annotated[
        datetime.date | None,
        Key(means="Its date, if it states none.", default=_FILE_SAYS, still=_DATES),
    ] = None
    provider: Annotated[str, Key(means="Its provider, if it states none.", default=_FILE_SAYS, moves=_COMPUTE)] = ""
    on: Annotated[
        datetime.date | None,
        Key(means="Of a history: the day to read it on.", default="its last day", moves=_COMPUTE),
    ] = None


_BUYING = "ullage buy counts it; the bill of a plan is bought as prices.purchase says."


class HeldSection(Section):
    """Devices that are committed already."""

    device: Annotated[str, Key(means=_CATALOGUE, still=_BUYING)]
    devices: Annotated[Count, Key(means="How many devices.", still=_BUYING)]
    price: Annotated[PriceText, Key(means="Of one device, by the hour, up-front payments spread.", still=_BUYING)]
    until: Annotated[datetime.date, Key(means="The last day of the term.", still=_BUYING)]


_BUDGET = "Budgets (ullage cost --quarter, --year) and ullage buy count it; a bill is a month of today."


class AnnouncedSection(Section):
    """A change of list prices that is known to come."""

    on: Annotated[datetime.date, Key(means="The first day of the new price.", still=_BUDGET)]
    times: Annotated[Ratio, Key(means="List prices of devices then, relative to today: 0.9.", still=_BUDGET)]


class PricesSection(Section):
    """Where prices come from, and how devices are bought."""

    provider: Annotated[Names, Key(means="From whom.", default="the cheapest list", moves=_COMPUTE)] = ()
    region: Annotated[Names, Key(means="Where.", default="wherever it is cheapest", moves=_COMPUTE)] = ()
    purchase: Annotated[
        Mix | None,
        Key(
            means="How: on-demand, 1y-no-upfront, spot, owned, billed; or shares of them.",
            default=", ".join(str(each) for each in ALL_ON_DEMAND.shares),
            moves=_COMPUTE,
        ),
    ] = None
    tier: Annotated[str, Key(means="Of providers' tokens: standard, batch, flex, priority.", moves=_EXTERNAL)] = (
        Tier.STANDARD.value
    )
    spot_lost: Annotated[
        StartTime | None,
        Range(least=0.0, most=DAY_S, dimension=DURATION),
        Key(
            means="Paid time lost per spot interruption, until it serves again.",
            default="none",
            moves=_COMPUTE,
        ),
    ] = None
    discount: Annotated[
        dict[str, ShareOrNone],
        Field(default_factory=dict),
        Key(means="Discount on the list price, by provider.", default="none", moves=_COMPUTE),
    ]
    exchange: Annotated[dict[str, ExchangeSection], Field(default_factory=dict), Key(means="By currency, such as EUR.")]
    spot_classes: Annotated[
        Names,
        Key(
            means="Classes whose requests may be interrupted: only what serves them is bought on spot.",
            default="none",
            still=_BUYING,
        ),
    ] = ()
    held: Annotated[tuple[HeldSection, ...], Key(means="Existing commitments.")] = ()
    announced: Annotated[tuple[AnnouncedSection, ...], Key(means="Announced changes of list prices.")] = ()
    own: Annotated[OwnSection, Field(default_factory=OwnSection)]
    files: tuple[PriceFileSection, ...] = ()


def prices_of(
    section: PricesSection,
    lists: Sequence[PriceList],
    below: PriceBook,
    provenance: Provenance,
    *,
    as_of: datetime.date | None = None,
) -> tuple[PriceBook, PriceChoice]:
    """The book, with the user's own prices on top, then their files, then ours; and what is bought from it."""
    book = below
    for each in lists:
        book = each.book.over(book)
    book = price_book(_own(section.own, provenance)).over(book)
    book = dataclasses.replace(
        book,
        discounts=_discounts(section, book, provenance),
        exchange=tuple(_exchange(section, provenance)),
        notes=tuple(note for each in lists for note in each.notes),
        as_of=as_of,
    )
    check_names(book, providers=section.provider, regions=section.region)
    tiers = {each.value: each for each in Tier}
    check_name(section.tier, tiers, field="prices.tier")
    return book, PriceChoice(
        providers=section.provider,
        regions=section.region,
        mix=_purchases(section, provenance),
        tier=tiers[section.tier],
        lost=provenance.may_say("prices.spot_lost", section.spot_lost, "s"),
        held=tuple(_held(each, number, provenance) for number, each in enumerate(section.held)),
        spot_classes=section.spot_classes,
        announced=tuple(
            AnnouncedChange(
                begins=each.on, ratio=provenance.says(f"prices.announced.{each.on.isoformat()}", each.times, "ratio")
            )
            for each in section.announced
        ),
    )


def _held(section: HeldSection, number: int, provenance: Provenance) -> HeldCommitment:
    device = find_device(section.device, field=f"prices.held.{number}.device").name
    hour = _stated(
        section.price, "h", price_name("held", str(number), device), f"prices.held.{number}.price", provenance
    )
    if currency_of(hour) != "USD":
        raise InputError(
            field=f"prices.held.{number}.price",
            value=str(section.price),
            problem="is not in USD",
            fix="Give the price of a device-hour in USD.",
        )
    return HeldCommitment(device=device, devices=section.devices, hour=hour, until=section.until)


def _purchases(section: PricesSection, provenance: Provenance) -> PurchaseMix:
    if section.purchase is None:
        return ALL_ON_DEMAND
    shares = {
        purchase_of(name, field="prices.purchase"): provenance.decides(f"prices.purchase.{name}", share, "fraction")
        for name, share in section.purchase.items()
    }
    return PurchaseMix(shares=shares)


def _discounts(section: PricesSection, book: PriceBook, provenance: Provenance) -> tuple[Discount, ...]:
    for name in section.discount:
        try:
            check_names(book, providers=(name,))
        except InputError as error:
            raise InputError(
                field=f"prices.discount.{name}", value=name, problem=error.problem, fix=error.fix
            ) from None
    return tuple(
        Discount(provider=name, share=provenance.says(f"prices.discount.{name}", share, "fraction"))
        for name, share in section.discount.items()
    )


def _exchange(section: PricesSection, provenance: Provenance) -> Iterator[ExchangeRate]:
    for currency, each in section.exchange.items():
        if len(currency) != 3 or not currency.isalpha() or not currency.isupper() or currency == "USD":
            raise InputError(
                field="prices.exchange",
                value=currency,
                problem="is not another currency",
                fix="Give three capital letters, such as EUR.",
            )
        said = provenance.says(f"prices.exchange.{currency}", each.rate, f"USD/{currency}")
        source = Source(what=each.source, where=provenance.source.where, date=each.dated)
        yield ExchangeRate(currency=currency, rate=dataclasses.replace(said, source=source, max_age=_RATE_MAX_AGE))


def _own(section: OwnSection, provenance: Provenance) -> Iterator[AnyPrice]:
    for device in section.devices:
        yield _own_device(device, provenance)
    for machine in section.machines:
        yield _own_machine(machine, provenance)
    for tokens in section.tokens:
        yield _own_tokens(tokens, provenance)
    for key, price in section.items.items():
        item, _, name = key.partition(" ")
        check_name(item, ITEMS, field="prices.own.items")
        stated = _stated(price, ITEMS[item].per, price_name("own", item, name), f"prices.own.items.{key}", provenance)
        yield RatePrice(item=item, name=name, amount=dataclasses.replace(stated, max_age=RATE_MAX_AGE))


def _own_device(section: OwnDeviceSection, provenance: Provenance) -> DevicePrice:
    where = "prices.own.devices"
    purchase = purchase_of(section.purchase, field=f"{where}.purchase")
    device = find_device(section.device, field=f"{where}.device").name
    parts = (section.provider, section.region, section.zone, section.instance or device, str(purchase))
    if section.upfront is not None and not purchase.is_committed:
        raise InputError(
            field=f"{where}.upfront",
            value=str(section.upfront),
            problem=f"is given with a price {purchase}, which has no term to spread it over",
            fix="Give a purchase such as 1y-partial-upfront.",
        )
    hourly = _stated(section.price, "h", price_name(*parts), f"{where}.price", provenance, section)
    return DevicePrice(
        provider=section.provider,
        region=section.region,
        zone=section.zone,
        instance=section.instance,
        device=device,
        devices=section.devices,
        purchase=purchase,
        hourly=dataclasses.replace(hourly, max_age=SPOT_MAX_AGE if purchase is Purchase.SPOT else LIST_MAX_AGE),
        upfront=None
        if section.upfront is None
        else _money(section.upfront, price_name(*parts, "upfront"), provenance, section),
        interruptions=provenance.may_say(price_name(*parts, "interruptions"), section.interruptions_per_hour, "1/h"),
    )


def _own_machine(section: OwnMachineSection, provenance: Provenance) -> OwnedHardware:
    """A machine; its parts that are left out are ours, under the same names."""
    where, ours = "prices.own.machines", own_hardware_defaults()
    device = find_device(section.device, field=f"{where}.device").name

    def priced(key: str, price: Price | None, per: str) -> Assumption:
        return (
            ours[key] if price is None else _stated(price, per, ours[key].name, f"{where}.{key}", provenance, section)
        )

    return OwnedHardware(
        region=section.site,
        device=device,
        devices=section.devices,
        capex=_money(section.capex, price_name("own", section.site, device, "capex"), provenance, section),
        power=provenance.says(price_name("own", section.site, device, "power"), section.power, "W"),
        life=provenance.over(ours["life"], section.life),
        residual=provenance.over(ours["residual"], section.residual),
        cooling=provenance.over(ours["cooling"], section.cooling),
        upkeep=provenance.over(ours["upkeep"], section.upkeep),
        capital=provenance.over(ours["capital"], section.capital),
        electricity=priced("electricity", section.electricity, "kWh"),
        space=priced("space", section.space, "kW-month"),
        staff=priced("staff", section.staff, "month"),
    )


def _own_tokens(section: OwnTokensSection, provenance: Provenance) -> TokenPrice:
    tiers = {each.value: each for each in Tier}
    check_name(section.tier, tiers, field="prices.own.tokens.tier")

    def priced(kind: str, price: Price | None) -> Assumption | None:
        if price is None:
            return None
        name = price_name(section.provider, section.region, section.model, section.tier, kind)
        return _stated(price, "token", name, f"prices.own.tokens.{kind}", provenance, section)

    return TokenPrice(
        provider=section.provider,
        model=section.model,
        tier=tiers[section.tier],
        region=section.region,
        input=priced("input", section.input),
        output=priced("output", section.output),
        cached_read=priced("cached_read", section.cached_read),
        cache_write=priced("cache_write", section.cache_write),
    )


def _stated(
    price: Price, per: str, name: str, field: str, provenance: Provenance, origin: OwnPriceSection | None = None
) -> Assumption:
    value = amount_per(price, per, field=field)
    said = provenance.says(name, value, f"{price.money.currency}/{per}")
    return dataclasses.replace(said, source=_origin(origin, provenance), max_age=LIST_MAX_AGE)


def _money(money: Money, name: str, provenance: Provenance, origin: OwnPriceSection) -> Assumption:
    said = provenance.says(name, float(money.amount), money.currency)
    return dataclasses.replace(said, source=_origin(origin, provenance), max_age=LIST_MAX_AGE)


def _origin(section: OwnPriceSection | None, provenance: Provenance) -> Source:
    """What a price of one's own says of its source and date; what it leaves out is the plan file's."""
    if section is None:
        return provenance.source
    return dataclasses.replace(
        provenance.source, what=section.source or provenance.source.what, date=section.dated or provenance.source.date
    )
