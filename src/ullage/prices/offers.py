"""Offers of a device-hour under constraints: all, the cheapest, a mix of purchases.

Whole machines are compared with whole machines: a price without the machine around the device is an offer only where
the book has a price of the `host` too, or where parts are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.evidence import Figure
from ullage.prices.book import ANYWHERE, DevicePrice, MissingPrice, OwnedHardware, PriceBook, is_own_price
from ullage.prices.effective import device_hour
from ullage.prices.own_prices import own_prices_first
from ullage.prices.purchase import Purchase
from ullage.prices.unit_prices import rate_price
from ullage.prices.wanted import HOWTO, DeviceWanted, RateWanted, check_names


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A price that meets the constraints, and what it makes of a device-hour."""

    price: DevicePrice | OwnedHardware
    usd_per_device_hour: Figure

    @property
    def purchase(self) -> Purchase:
        return Purchase.OWNED if isinstance(self.price, OwnedHardware) else self.price.purchase


def offers(book: PriceBook, wanted: DeviceWanted) -> tuple[Offer, ...]:
    """All prices that meet the constraints, cheapest first; equal ones in order of provider, region and instance."""
    check_names(book, providers=wanted.providers, regions=wanted.regions)
    found = []
    for price in own_prices_first(_matching(book, wanted)):
        figure = _whole_hour(book, price, wanted)
        if isinstance(figure, Figure):
            found.append(Offer(price=price, usd_per_device_hour=figure))
    return tuple(sorted(found, key=lambda each: (each.usd_per_device_hour.value, each.price.key)))


def cheapest(book: PriceBook, wanted: DeviceWanted) -> Offer | MissingPrice:
    """The offer that costs least, or what to give so that there is one.

    A price of the user's own that lacks an exchange rate is an error, never replaced by a list price.
    """
    found = offers(book, wanted)
    own = [each for each in _matching(book, wanted) if is_own_price(each)]
    unusable = next((hour for each in own if isinstance(hour := _whole_hour(book, each, wanted), MissingPrice)), None)
    return unusable or (found[0] if found else _why_no_offer(book, wanted))


def _matching(book: PriceBook, wanted: DeviceWanted) -> list[DevicePrice | OwnedHardware]:
    return [*_matching_rented(book, wanted), *_matching_owned(book, wanted)]


def _matching_rented(book: PriceBook, wanted: DeviceWanted) -> list[DevicePrice]:
    return [
        price
        for price in book.devices.get(wanted.device, ())
        if _allows(wanted.providers, price.provider)
        and (_allows(wanted.regions, price.region) or price.region == ANYWHERE)
        and (_allows(wanted.zones, price.zone) or price.zone == "")
        and _allows(wanted.instances, price.instance)
        and _allows(wanted.purchases, price.purchase)
        and price.devices >= wanted.least_devices
    ]


def _matching_owned(book: PriceBook, wanted: DeviceWanted) -> list[OwnedHardware]:
    """An owned machine is an offer only where it is stated, or requested by its purchase."""
    if not _allows(wanted.purchases, Purchase.OWNED) or wanted.instances or wanted.zones:
        return []
    return [
        price
        for price in book.owned
        if price.device == wanted.device
        and (wanted.purchases or is_own_price(price))
        and _allows(wanted.providers, price.provider)
        and (_allows(wanted.regions, price.region) or price.region == ANYWHERE)
        and price.devices >= wanted.least_devices
    ]


def _allows(allowed: Sequence[object], value: object) -> bool:
    return not allowed or value in allowed


def _whole_hour(book: PriceBook, price: DevicePrice | OwnedHardware, wanted: DeviceWanted) -> Figure | MissingPrice:
    alone = device_hour(book, price, lost=wanted.lost)
    if isinstance(alone, MissingPrice) or isinstance(price, OwnedHardware) or not price.excludes or wanted.parts_too:
        return alone
    machine = f"{price.instance} spot" if price.purchase is Purchase.SPOT else price.instance
    host = rate_price(book, RateWanted(item="host", provider=price.provider, region=price.region, name=machine))
    if isinstance(host, MissingPrice):
        return host
    return Figure(
        name=f"{alone.name}.with-host",
        value=float(alone.value) + float(host.value) / price.devices,
        unit="USD/device-hour",
        formula=f"device + host / {price.devices} devices",
        inputs=(alone, host),
    )


def _why_no_offer(book: PriceBook, wanted: DeviceWanted) -> MissingPrice:
    """Which constraint leaves nothing: dropped one at a time, in the order in which people can move them."""
    here = _matching(book, wanted)
    if here:
        short = next(found for each in here if isinstance(found := _whole_hour(book, each, wanted), MissingPrice))
        return MissingPrice(what=str(wanted), why=f"{short.what} {short.why}", fix=short.fix)
    listed: list[DevicePrice | OwnedHardware] = [*book.devices.get(wanted.device, ())]
    listed += [each for each in book.owned if each.device == wanted.device]
    why = "the price book has no price for this device"
    if listed:
        sold = sorted({" ".join(filter(None, (each.provider, *_bought(each)))) for each in listed})
        shown = ", ".join(sold[:6]) + (f" and {len(sold) - 6} more" if len(sold) > 6 else "")
        most = max(each.devices for each in listed)
        together = f" in machines of {most} at most," if most < wanted.least_devices else ""
        why = f"the book has it only{together} from {shown}"
    return MissingPrice(what=str(wanted), why=why, fix=f"Give its price: prices.own, or a catalogue file ({HOWTO}).")


def _bought(price: DevicePrice | OwnedHardware) -> tuple[str, ...]:
    if isinstance(price, OwnedHardware):
        return (price.region,)
    return (price.region, str(price.purchase))
