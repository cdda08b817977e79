"""Our own layout of a price file, for prices that are in no other: a CSV with the unit written in each price.

    what,name,provider,region,zone,instance,devices,purchase,tier,kind,price,upfront,interruptions_per_hour,date,source
    device,h100-sxm,aws,us-east-1,,p5.48xlarge,8,1y-no-upfront,,,41.30 USD/h,,,2026-11-01,our contract
    token,llama-3.3-70b,acme,,,,,,standard,input,0.40 EUR/Mtok,,,2026-11-01,acme's offer
    item,egress,aws,us-east-1,,,,,,,0.05 USD/GB,,,2026-11-01,our contract

`what`, `name`, `price` and `date` are needed; columns that are not are left out or left empty. What stands here is the
user's own price: it goes before every list.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.price import LIST_MAX_AGE, RATE_MAX_AGE, SPOT_MAX_AGE
from ullage.prices.book import DevicePrice, RatePrice, Tier, TokenKind, TokenPrice
from ullage.prices.items import ITEMS
from ullage.prices.packaged import price_name
from ullage.prices.price_list import Gathering, PriceList
from ullage.prices.purchase import Purchase, purchase_of
from ullage.readers.prices.price_file import PriceFile, Row, amount, day
from ullage.units import amount_per, parse_money, parse_price

FORMAT = "a price file of ours"
COLUMNS = (
    "what",
    "name",
    "provider",
    "region",
    "zone",
    "instance",
    "devices",
    "purchase",
    "tier",
    "kind",
    "price",
    "upfront",
    "interruptions_per_hour",
    "date",
    "source",
)
_NEEDED = ("what", "name", "price", "date")


def recognise(file: PriceFile) -> bool:
    return file.has(*_NEEDED)


def read(file: PriceFile) -> PriceList:
    """Every row; one that cannot be read is an error that names it, for the user wrote it."""
    for column in file.header:
        check_name(column, COLUMNS, field=f"{file.file}: column")
    into = Gathering()
    tokens: dict[tuple[str, ...], TokenPrice] = {}
    for number, row in enumerate(file.rows, 2):
        what = row["what"].strip()
        check_name(what, _READ, field=f"{file.file}:{number}: what")
        price = _READ[what](file, row, number)
        if isinstance(price, TokenPrice):
            tokens[price.key] = _joined(tokens.get(price.key), price, f"{file.file}:{number}")
        else:
            into.keep(price)
    for each in tokens.values():
        into.keep(each)
    return into.finished(file=file.file, format_name=FORMAT, rows=len(file.rows))


def _device(file: PriceFile, row: Row, number: int) -> DevicePrice:
    where = f"{file.file}:{number}"
    device = find_device(row["name"], field=f"{where}: name").name
    purchase = purchase_of(row.get("purchase") or Purchase.ON_DEMAND.value, field=f"{where}: purchase")
    provider, region = _provider(row, where), row.get("region", "")
    count = amount(file, row, number, "devices")
    if count is None or count < 1 or count != int(count):
        raise InputError(
            field=f"{where}: devices",
            value=row.get("devices"),
            problem="is not a number of devices",
            fix="Say how many devices the price is for: 1, or those of the instance.",
        )
    parts = (provider, region, row.get("zone", ""), row.get("instance", "") or device, str(purchase))
    max_age = SPOT_MAX_AGE if purchase is Purchase.SPOT else LIST_MAX_AGE
    taken = amount(file, row, number, "interruptions_per_hour")
    return DevicePrice(
        provider=provider,
        region=region,
        zone=row.get("zone", ""),
        instance=row.get("instance", ""),
        device=device,
        devices=int(count),
        purchase=purchase,
        hourly=_price(file, row, number, price_name(*parts), "h", max_age),
        upfront=_upfront(file, row, number, price_name(*parts, "upfront"), purchase),
        interruptions=None
        if taken is None
        else _said(file, row, number, price_name(*parts, "interruptions"), taken, "1/h", max_age),
    )


def _token(file: PriceFile, row: Row, number: int) -> TokenPrice:
    """One kind of token; the rows of a model and tier are joined to one price."""
    where = f"{file.file}:{number}"
    tiers, kinds = {each.value: each for each in Tier}, {each.value: each for each in TokenKind}
    tier, kind = row.get("tier") or Tier.STANDARD.value, row.get("kind", "")
    check_name(tier, tiers, field=f"{where}: tier")
    check_name(kind, kinds, field=f"{where}: kind")
    provider, region = _provider(row, where), row.get("region", "")
    name = price_name(provider, region, row["name"], tier, kind)
    price = _price(file, row, number, name, "token", LIST_MAX_AGE)
    amounts = {each: price if each is kinds[kind] else None for each in TokenKind}
    return _tokens_of(provider, region, row["name"], tiers[tier], amounts)


def _joined(known: TokenPrice | None, one: TokenPrice, where: str) -> TokenPrice:
    """Two rows of one model and tier as one price; the same kind in both is an error."""
    if known is None:
        return one
    amounts = {}
    for kind in TokenKind:
        old, new = known.of(kind), one.of(kind)
        if old is not None and new is not None:
            raise InputError(field=where, value=new.name, problem="is priced twice", fix="Keep one of the two rows.")
        amounts[kind] = old or new
    return _tokens_of(one.provider, one.region, one.model, one.tier, amounts)


def _tokens_of(
    provider: str, region: str, model: str, tier: Tier, amounts: Mapping[TokenKind, Assumption | None]
) -> TokenPrice:
    return TokenPrice(
        provider=provider,
        region=region,
        model=model,
        tier=tier,
        input=amounts[TokenKind.INPUT],
        output=amounts[TokenKind.OUTPUT],
        cached_read=amounts[TokenKind.CACHED_READ],
        cache_write=amounts[TokenKind.CACHE_WRITE],
    )


def _item(file: PriceFile, row: Row, number: int) -> RatePrice:
    item, _, name = row["name"].partition(" ")
    check_name(item, ITEMS, field=f"{file.file}:{number}: name")
    provider, region = row.get("provider", ""), row.get("region", "")
    shown = price_name(provider or "any", region, item, name)
    price = _price(file, row, number, shown, ITEMS[item].per, RATE_MAX_AGE)
    return RatePrice(item=item, provider=provider, region=region, name=name, amount=price)


_READ: dict[str, Callable[[PriceFile, Row, int], DevicePrice | TokenPrice | RatePrice]] = {
    "device": _device,
    "token": _token,
    "item": _item,
}


def _price(file: PriceFile, row: Row, number: int, name: str, per: str, max_age: datetime.timedelta) -> Assumption:
    where = f"{file.file}:{number}: price"
    typed = parse_price(row["price"], field=where)
    value = amount_per(typed, per, field=where)
    return _said(file, row, number, name, value, f"{typed.money.currency}/{per}", max_age)


def _upfront(file: PriceFile, row: Row, number: int, name: str, purchase: Purchase) -> Assumption | None:
    text = row.get("upfront", "").strip()
    if not text:
        return None
    where = f"{file.file}:{number}: upfront"
    if not purchase.is_committed:
        raise InputError(
            field=where,
            value=text,
            problem=f"is given with a price {purchase}, which has no term to spread it over",
            fix="Give a purchase such as 1y-partial-upfront.",
        )
    money = parse_money(text, field=where)
    return _said(file, row, number, name, float(money.amount), money.currency, LIST_MAX_AGE)


def _said(
    file: PriceFile, row: Row, number: int, name: str, value: float, unit: str, max_age: datetime.timedelta
) -> Assumption:
    return Assumption(
        name=name,
        value=value,
        unit=unit,
        evidence=Evidence.STATED,
        source=Source(
            what=row.get("source", "").strip() or FORMAT,
            where=f"{file.file}:{number}",
            date=day(file, row, number, "date"),
        ),
        max_age=max_age,
    )


def _provider(row: Row, where: str) -> str:
    provider = row.get("provider", "").strip()
    if not provider:
        raise InputError(field=f"{where}: provider", value="", problem="is missing", fix="State the provider.")
    return provider
