"""Prices in USD: what the user pays for a device-hour or a unit, as a figure that can be walked back.

    on demand    hourly / devices
    committed    (hourly + upfront / hours of the term) / devices
    spot         hourly / devices x (1 + interruptions per hour x hours lost to each)
    owned        (wear over the hours of life + interest + upkeep + power x cooling x electricity + space + staff)
                 / devices

each times (1 - own discount) where it is a list's, and times the rate the user gave where it is in another currency. A
price the user stated or was billed is after every discount. Interest is straight: the
yearly rate on the mean of what is bound, (capex + residual value) / 2. A commitment's upfront payment is spread
evenly over its term, without interest.
"""

from __future__ import annotations

from ullage.evidence import Assumption, Figure, number
from ullage.prices.book import (
    DevicePrice,
    Discount,
    MissingPrice,
    OwnedHardware,
    PriceBook,
    currency_of,
    is_own,
    per_of,
)
from ullage.prices.purchase import HOURS_PER_MONTH, HOURS_PER_YEAR, Purchase


def usd(book: PriceBook, amount: Assumption, *, provider: str, kind: str) -> Figure | MissingPrice:
    """An amount in USD after the user's discount on this kind of price, or what is missing to say it."""
    found = _factors(book, amount, provider=provider, kind=kind)
    if isinstance(found, MissingPrice):
        return found
    factor, inputs, words = found
    per = per_of(amount)
    return Figure(
        name=f"{amount.name}_usd",
        value=number(amount) * factor,
        unit=f"USD/{per}" if per else "USD",
        formula=" x ".join(("as quoted", *words)),
        inputs=(amount, *inputs),
    )


def device_hour(
    book: PriceBook, price: DevicePrice | OwnedHardware, *, lost: Assumption | Figure | None = None
) -> Figure | MissingPrice:
    """What one device costs per hour under this price.

    `lost` is the time a spot instance is paid for after an interruption before it serves again (its time to ready,
    in s). Without it a spot price is used as quoted.
    """
    if isinstance(price, OwnedHardware):
        return _owned_hour(book, price)
    return _rented_hour(book, price, lost)


def _rented_hour(book: PriceBook, price: DevicePrice, lost: Assumption | Figure | None) -> Figure | MissingPrice:
    kind = str(price.purchase)
    hourly = usd(book, price.hourly, provider=price.provider, kind=kind)
    if isinstance(hourly, MissingPrice):
        return hourly
    value, formula = number(hourly), "hourly"
    inputs: list[Figure | Assumption] = [hourly]
    if price.upfront is not None:
        upfront = usd(book, price.upfront, provider=price.provider, kind=kind)
        if isinstance(upfront, MissingPrice):
            return upfront
        hours = round(price.purchase.term_months * HOURS_PER_MONTH)
        value += number(upfront) / hours
        inputs.append(upfront)
        formula = f"(hourly + upfront / {hours} h)"
    if price.interruptions is not None and lost is not None:
        value *= 1 + number(price.interruptions) * number(lost) / 3600
        inputs += [price.interruptions, lost]
        formula += " x (1 + interruptions per hour x hours lost)"
    return Figure(
        name=_name(price.device, price.provider, price.region, price.zone, price.instance, kind),
        value=value / price.devices,
        unit="USD/device-hour",
        formula=f"{formula} / {price.devices} devices" if price.devices > 1 else formula,
        inputs=tuple(inputs),
    )


def _owned_hour(book: PriceBook, owned: OwnedHardware) -> Figure | MissingPrice:
    money: dict[str, Figure] = {}
    for name in ("capex", "electricity", "space", "staff"):
        found = usd(book, getattr(owned, name), provider=owned.provider, kind=str(Purchase.OWNED))
        if isinstance(found, MissingPrice):
            return found
        money[name] = found
    capex, residual = number(money["capex"]), number(owned.residual)
    wear = capex * (1 - residual) / (number(owned.life) / 3600)
    yearly = capex * number(owned.upkeep) + capex * (1 + residual) / 2 * number(owned.capital)
    energy = number(owned.power) / 1000 * number(owned.cooling) * number(money["electricity"])
    monthly = number(money["space"]) * number(owned.power) / 1000 + number(money["staff"])
    value = wear + yearly / HOURS_PER_YEAR + energy + monthly / HOURS_PER_MONTH
    return Figure(
        name=_name(owned.device, owned.provider, owned.region, str(Purchase.OWNED)),
        value=value / owned.devices,
        unit="USD/device-hour",
        formula=(
            "(capex x (1 - residual) / life + capex x (upkeep + (1 + residual) / 2 x capital) / year"
            f" + power x cooling x electricity + (space x power + staff) / month) / {owned.devices} devices"
        ),
        inputs=(*money.values(), owned.residual, owned.life, owned.power, owned.cooling, owned.upkeep, owned.capital),
    )


def _factors(
    book: PriceBook, amount: Assumption, *, provider: str, kind: str
) -> tuple[float, list[Assumption], list[str]] | MissingPrice:
    factor = 1.0
    inputs: list[Assumption] = []
    words: list[str] = []
    for each in () if is_own(amount) else _discounts(book, provider, kind):
        factor *= 1 - number(each.share)
        inputs.append(each.share)
        words.append(f"(1 - {each.share.name})")
    currency = currency_of(amount)
    if currency != "USD":
        rate = next((each.rate for each in book.exchange if each.currency == currency), None)
        if rate is None:
            return MissingPrice(
                what=amount.name,
                why=f"is quoted in {currency}, and no rate to USD is given",
                fix=f"Give a dated rate: prices.exchange.{currency}.",
            )
        factor *= number(rate)
        inputs.append(rate)
        words.append(f"{currency} in USD")
    return factor, inputs, words


def _discounts(book: PriceBook, provider: str, kind: str) -> list[Discount]:
    return [each for each in book.discounts if each.provider in (provider, "") and kind in each.covers]


def _name(*parts: str) -> str:
    return ".".join(("price", *(part.lower().replace(" ", "-") for part in parts if part)))
