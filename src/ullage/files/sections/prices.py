"""`prices:` of a plan file: from whom, where and how devices are bought, and what the user knows of prices.

What is left out is answered by the lists that come with ullage, each dated and sourced; what is written here, or stands
in a file that is named here, goes before them. Nothing is converted without a dated rate.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ullage.cost.quotes import ALL_ON_DEMAND, PriceChoice
from ullage.errors import InputError, unknown_name
from ullage.evidence import Assumption, Source
from ullage.facts.device import find_device
from ullage.facts.price import LIST_MAX_AGE, RATE_MAX_AGE, SPOT_MAX_AGE
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Duration, Ratio, Share
from ullage.files.sections.section import Count, Section
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
    price_book,
)
from ullage.prices.items import ITEMS
from ullage.prices.packaged import own_hardware_defaults, price_name
from ullage.prices.price_list import PriceList
from ullage.prices.purchase import Purchase, PurchaseMix, purchase_of
from ullage.prices.wanted import check_names
from ullage.units import POWER, Money, Price, amount_per, parse, parse_money, parse_price

_RATE_MAX_AGE = datetime.timedelta(days=31)
"""Exchange rates move by several per cent in a quarter; a month-old one is the last that is quietly taken."""


def _quantity(written: Any, read: Any) -> Any:
    try:
        return read(str(written), field="")
    except InputError as error:
        raise PydanticCustomError("quantity", "{problem}", {"problem": error.problem, "fix": error.fix}) from None


def _several(written: Any) -> Any:
    """One name stands for a list of one."""
    return [written] if isinstance(written, str) else written


def _mix(written: Any) -> Any:
    """One purchase stands for all of the hours."""
    return {written: "100%"} if isinstance(written, str) else written


_TEXT = {"type": "string"}
PriceText = Annotated[
    Price,
    PlainValidator(lambda written: _quantity(written, parse_price)),
    WithJsonSchema(_TEXT | {"description": "Money per unit.", "examples": ["3.29 USD/h"]}),
]
MoneyText = Annotated[
    Money,
    PlainValidator(lambda written: _quantity(written, parse_money)),
    WithJsonSchema(_TEXT | {"description": "An amount of money.", "examples": ["1200 USD"]}),
]
PowerText = Annotated[
    float,
    PlainValidator(lambda written: _quantity(written, lambda text, field: parse(text, POWER, field=field))),
    WithJsonSchema(_TEXT | {"description": "Power.", "examples": ["6 kW"]}),
]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_several),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "array", "items": _TEXT}], "examples": ["aws"]}),
]
Mix = Annotated[
    dict[str, Share],
    BeforeValidator(_mix),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "object"}], "examples": ["on-demand", {"on-demand": "60%"}]}),
]


class ExchangeSection(Section):
    """A rate the user vouches for, on a day."""

    rate: Annotated[Ratio, Field(description="How many USD one unit of the currency is.")]
    dated: Annotated[datetime.date, Field(description="The day of the rate.")]
    source: Annotated[str, Field(min_length=1, description="Whose rate it is.")] = "the user's rate"


class OwnPriceSection(Section):
    """Where a price of one's own comes from; left out: this file."""

    dated: Annotated[datetime.date | None, Field(description="The day of the price; left out: of the file.")] = None
    source: Annotated[str | None, Field(description="Who says it, such as a contract.")] = None


class OwnDeviceSection(OwnPriceSection):
    """Devices by the hour, as the user buys them."""

    device: Annotated[str, Field(description="A name in the catalogue: ullage facts devices.")]
    provider: Annotated[str, Field(description="Who sells it.")]
    price: Annotated[PriceText, Field(description="Of the whole instance.")]
    devices: Annotated[Count, Field(description="Devices that the price is for.")] = 1
    purchase: Annotated[str, Field(description="on-demand, 1y-no-upfront, spot, ...")] = Purchase.ON_DEMAND.value
    region: Annotated[str, Field(description="Where it stands; left out: anywhere.")] = ""
    zone: Annotated[str, Field(description="The zone, where the price is of one.")] = ""
    instance: Annotated[str, Field(description="The machine that is sold, by name.")] = ""
    upfront: Annotated[MoneyText | None, Field(description="Paid once for the term.")] = None
    interruptions_per_hour: Annotated[float | None, Field(ge=0, description="Of spot: how often it is taken.")] = None


class OwnMachineSection(OwnPriceSection):
    """A machine of one's own; what is left out has a sourced default (`ullage facts prices own-hardware`)."""

    device: Annotated[str, Field(description="A name in the catalogue: ullage facts devices.")]
    devices: Annotated[Count, Field(description="Devices in the machine.")]
    capex: Annotated[MoneyText, Field(description="The machine with its share of the fabric, installed.")]
    power: Annotated[PowerText, Field(description="What it draws on average while it serves.")]
    site: Annotated[str, Field(description="Where it stands; a region of the plan.")] = ""
    life: Annotated[Duration | None, Field(description="How long it serves.")] = None
    residual: Annotated[Share | None, Field(description="What it is still worth then, of what it cost.")] = None
    cooling: Annotated[Ratio | None, Field(description="Power of the facility over that of machines (PUE).")] = None
    electricity: Annotated[PriceText | None, Field(description="Per kWh.")] = None
    space: Annotated[PriceText | None, Field(description="Per kW-month.")] = None
    staff: Annotated[PriceText | None, Field(description="Hands for one machine, per month.")] = None
    upkeep: Annotated[Share | None, Field(description="Support and spares in a year, of what it cost.")] = None
    capital: Annotated[Share | None, Field(description="Interest in a year.")] = None


class OwnTokensSection(OwnPriceSection):
    """A provider's tokens, as the user buys them."""

    provider: Annotated[str, Field(description="Who sells them.")]
    model: Annotated[str, Field(description="The model, as the provider calls it.")]
    tier: Annotated[str, Field(description="standard, batch, flex or priority.")] = Tier.STANDARD.value
    region: Annotated[str, Field(description="Where; left out: anywhere.")] = ""
    input: Annotated[PriceText | None, Field(description="Of a token that is read.")] = None
    output: Annotated[PriceText | None, Field(description="Of a token that is written.")] = None
    cached_read: Annotated[PriceText | None, Field(description="Of a token read from the cache.")] = None
    cache_write: Annotated[PriceText | None, Field(description="Of a token put into the cache.")] = None


class OwnSection(Section):
    """Prices of one's own: they go before every list."""

    devices: tuple[OwnDeviceSection, ...] = ()
    machines: tuple[OwnMachineSection, ...] = ()
    tokens: tuple[OwnTokensSection, ...] = ()
    items: Annotated[
        dict[str, PriceText],
        Field(default_factory=dict, description="By item, such as egress, or `tool-call search` for one of several."),
    ]


class PriceFileSection(Section):
    """A file of prices: a catalogue, a bill, or a CSV of ours."""

    path: Annotated[str, Field(description="Relative to the plan file; litellm for the one that is installed.")]
    dated: Annotated[datetime.date | None, Field(description="When it was made, where it does not say.")] = None
    provider: Annotated[str, Field(description="Whose prices they are, where it does not say.")] = ""
    on: Annotated[datetime.date | None, Field(description="Of a history: the day to read it on.")] = None


class PricesSection(Section):
    """Where prices come from, and how devices are bought."""

    provider: Annotated[Names, Field(description="From whom; left out: from whoever's list is cheapest.")] = ()
    region: Annotated[Names, Field(description="Where; left out: wherever it is cheapest.")] = ()
    purchase: Annotated[
        Mix | None, Field(description="How: on-demand, 1y-no-upfront, spot, owned, billed; or shares of them.")
    ] = None
    tier: Annotated[str, Field(description="Of providers' tokens: standard, batch, flex, priority.")] = "standard"
    spot_lost: Annotated[
        Duration | None, Field(description="Paid time lost to an interruption of spot, until it serves again.")
    ] = None
    discount: Annotated[
        dict[str, Share], Field(default_factory=dict, description="By provider: how much less than the list is paid.")
    ]
    exchange: Annotated[
        dict[str, ExchangeSection], Field(default_factory=dict, description="By currency, such as EUR.")
    ]
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
    if section.tier not in tiers:
        raise unknown_name(field="prices.tier", name=section.tier, known=tiers)
    lost = section.spot_lost
    return book, PriceChoice(
        providers=section.provider,
        regions=section.region,
        mix=_purchases(section, provenance),
        tier=tiers[section.tier],
        lost=None if lost is None else provenance.says("prices.spot_lost", lost, "s", lost),
    )


def _purchases(section: PricesSection, provenance: Provenance) -> PurchaseMix:
    if section.purchase is None:
        return ALL_ON_DEMAND
    shares = {
        purchase_of(name, field="prices.purchase"): provenance.decides(f"prices.purchase.{name}", share, "fraction", 0)
        for name, share in section.purchase.items()
    }
    return PurchaseMix(shares=shares)


def _discounts(section: PricesSection, book: PriceBook, provenance: Provenance) -> tuple[Discount, ...]:
    check_names(book, providers=tuple(section.discount))
    return tuple(
        Discount(provider=name, share=provenance.says(f"prices.discount.{name}", share, "fraction", 0))
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
        said = provenance.says(f"prices.exchange.{currency}", each.rate, f"USD/{currency}", 0)
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
        if item not in ITEMS:
            raise unknown_name(field="prices.own.items", name=item, known=ITEMS)
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
            problem=f"stands beside a price {purchase}, which has no term to spread it over",
            fix="Give a purchase such as 1y-partial-upfront.",
        )
    taken = section.interruptions_per_hour
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
        interruptions=None if taken is None else provenance.says(price_name(*parts, "interruptions"), taken, "1/h", 0),
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
        power=provenance.says(price_name("own", section.site, device, "power"), section.power, "W", 0),
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
    if section.tier not in tiers:
        raise unknown_name(field="prices.own.tokens.tier", name=section.tier, known=tiers)

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
    said = provenance.says(name, value, f"{price.money.currency}/{per}", 0)
    return dataclasses.replace(said, source=_origin(origin, provenance), max_age=LIST_MAX_AGE)


def _money(money: Money, name: str, provenance: Provenance, origin: OwnPriceSection) -> Assumption:
    said = provenance.says(name, float(money.amount), money.currency, 0)
    return dataclasses.replace(said, source=_origin(origin, provenance), max_age=LIST_MAX_AGE)


def _origin(section: OwnPriceSection | None, provenance: Provenance) -> Source:
    """What a price of one's own says of its source and date; what it leaves out is the plan file's."""
    if section is None:
        return provenance.source
    return dataclasses.replace(
        provenance.source, what=section.source or provenance.source.what, date=section.dated or provenance.source.date
    )
