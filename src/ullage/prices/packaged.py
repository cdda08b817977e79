"""The price book that comes with ullage, or one made of a catalogue with a user's sheets on top.

Every price here is `assumed`: a list, however fresh, is not the user's contract. `price_name` gives each amount the
name by which a plan lists it: `price.aws.us-east-1.p5.48xlarge.on-demand`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, number
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import devices
from ullage.facts.price import prices
from ullage.facts.sheet import FactRow, Sheet
from ullage.prices.book import (
    ANYWHERE,
    AnyPrice,
    DevicePrice,
    OwnedHardware,
    PriceBook,
    ProvisionedUnit,
    RatePrice,
    Tier,
    TokenPrice,
    per_of,
    price_book,
)
from ullage.prices.items import ITEMS
from ullage.prices.purchase import Purchase, purchase_of

OWN_HARDWARE = "own-hardware"
"""The sheet of defaults for what a user does not state of a machine of their own."""
HISTORY = "history"
"""The sheet of how far list prices have fallen."""


@functools.cache
def packaged_book() -> PriceBook:
    """The book of the sheets that come with ullage."""
    return book_of(prices())


def book_of(catalogue: Catalogue) -> PriceBook:
    """The book of a catalogue's sheets."""
    return price_book(price for sheet in catalogue for price in _prices(sheet, catalogue))


def own_hardware_defaults(catalogue: Catalogue | None = None) -> dict[str, Assumption]:
    """What stands in for the parts of an own machine's cost that a user does not state, each by its name."""
    sheet = (prices() if catalogue is None else catalogue).find(OWN_HARDWARE)
    return {key: _named(each, "own", key) for key, each in sheet.values.items()}


def list_fall(device: str) -> Assumption:
    """How far the list price of a device may fall within a year: as its own did, else as the largest on record."""
    rows = {row.texts["device"]: row.values["fall"] for row in prices().find(HISTORY).rows["falls"]}
    found = rows.get(device) or max(rows.values(), key=number)
    return dataclasses.replace(found, name=price_name(device, "list-fall"))


def price_name(*parts: str) -> str:
    """The name of a price in a plan: what it is of, from the seller to the smallest part, without blanks."""
    return ".".join(("price", *(part.lower().replace(" ", "-") for part in parts if part)))


def _prices(sheet: Sheet, catalogue: Catalogue) -> Iterator[AnyPrice]:
    for row in sheet.rows.get("devices", ()):
        yield _device(sheet, row)
    for row in sheet.rows.get("tokens", ()):
        yield _tokens(sheet, row)
    for row in sheet.rows.get("provisioned", ()):
        yield _provisioned(sheet, row)
    for row in sheet.rows.get("rates", ()):
        yield _rate(sheet, row)
    for row in sheet.rows.get("machines", ()):
        yield _machine(sheet, row, own_hardware_defaults(catalogue))


def _device(sheet: Sheet, row: FactRow) -> DevicePrice:
    where = f"prices/{sheet.name}.toml: devices"
    purchase = purchase_of(row.texts["purchase"], field=f"{where}.purchase")
    key = "spot_hourly" if purchase is Purchase.SPOT else "hourly"
    if key not in row.values:
        raise InputError(field=where, value=dict(row.texts), problem=f"has no {key}", fix=f"Write {key} = ...")
    provider, region = _provider(sheet), row.texts.get("region", ANYWHERE)
    zone, instance = row.texts.get("zone", ""), row.texts.get("instance", "")
    device = devices().find(row.texts["device"], field=f"{where}.device").name
    name = (provider, region, zone, instance or device, str(purchase))
    upfront, interruptions = row.values.get("upfront"), row.values.get("interruptions")
    return DevicePrice(
        provider=provider,
        region=region,
        zone=zone,
        instance=instance,
        device=device,
        devices=int(row.values["devices"].value),
        purchase=purchase,
        hourly=_named(row.values[key], *name),
        upfront=None if upfront is None else _named(upfront, *name, "upfront"),
        interruptions=None if interruptions is None else _named(interruptions, *name, "interruptions"),
    )


def _tokens(sheet: Sheet, row: FactRow) -> TokenPrice:
    tiers = {each.value: each for each in Tier}
    written = row.texts.get("tier", Tier.STANDARD.value)
    check_name(written, tiers, field=f"prices/{sheet.name}.toml: tokens.tier")
    provider, model = _provider(sheet), row.texts["model"]
    longer = row.values.get("from_prompt")
    name = (provider, row.texts.get("region", ""), model, written, "" if longer is None else f"from-{longer.value}")
    kinds = {key: _named(each, *name, key) for key, each in row.values.items() if key != "from_prompt"}
    return TokenPrice(
        provider=provider,
        model=model,
        tier=tiers[written],
        region=row.texts.get("region", ANYWHERE),
        from_prompt_tokens=0 if longer is None else int(longer.value),
        input=kinds.get("input"),
        output=kinds.get("output"),
        cached_read=kinds.get("cached_read"),
        cache_write=kinds.get("cache_write"),
    )


def _provisioned(sheet: Sheet, row: FactRow) -> ProvisionedUnit:
    where = f"prices/{sheet.name}.toml: provisioned"
    written = row.texts.get("purchase", Purchase.ON_DEMAND.value)
    name = (_provider(sheet), row.texts.get("region", ""), row.texts["model"], row.texts["unit"])
    named = {key: _named(each, *name, key) for key, each in row.values.items()}
    least, step = row.values.get("least_units"), row.values.get("step_units")
    return ProvisionedUnit(
        provider=_provider(sheet),
        model=row.texts["model"],
        unit=row.texts["unit"],
        region=row.texts.get("region", ANYWHERE),
        purchase=purchase_of(written, field=f"{where}.purchase"),
        hourly=named["hourly"],
        input_rate=named.get("input_rate"),
        output_rate=named.get("output_rate"),
        least_units=1 if least is None else int(least.value),
        step_units=1 if step is None else int(step.value),
    )


def _rate(sheet: Sheet, row: FactRow) -> RatePrice:
    where, item = f"prices/{sheet.name}.toml: rates", row.texts["item"]
    check_name(item, ITEMS, field=f"{where}.item")
    amounts = list(row.values.values())
    if [per_of(each) for each in amounts] != [ITEMS[item].per]:
        raise InputError(
            field=where,
            value=item,
            problem="is not priced by its unit, or by more than one",
            fix=f"Write per_{ITEMS[item].per.replace('-', '_').lower()} = ... and nothing else.",
        )
    provider, region, name = sheet.texts.get("provider", ""), row.texts.get("region", ""), row.texts.get("name", "")
    return RatePrice(
        item=item,
        provider=provider,
        region=region,
        name=name,
        amount=_named(amounts[0], provider or "any", region, item, name),
    )


def _machine(sheet: Sheet, row: FactRow, shared: dict[str, Assumption]) -> OwnedHardware:
    device = devices().find(row.texts["device"], field=f"prices/{sheet.name}.toml: machines.device").name
    region = row.texts.get("region", ANYWHERE)
    return OwnedHardware(
        region=region,
        device=device,
        devices=int(row.values["devices"].value),
        capex=_named(row.values["capex"], "own", region, device, "capex"),
        power=_named(row.values["power"], "own", region, device, "power"),
        residual=shared["residual"],
        life=shared["life"],
        cooling=shared["cooling"],
        electricity=shared["electricity"],
        space=shared["space"],
        staff=shared["staff"],
        upkeep=shared["upkeep"],
        capital=shared["capital"],
    )


def _provider(sheet: Sheet) -> str:
    provider = sheet.texts.get("provider", "")
    if not provider:
        raise InputError(
            field=f"prices/{sheet.name}.toml",
            value=None,
            problem="has prices of a provider and does not name it",
            fix='Write provider = "..."',
        )
    return provider


def _named(fact: Assumption, *parts: str) -> Assumption:
    return dataclasses.replace(fact, name=price_name(*parts))
