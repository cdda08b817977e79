"""A FOCUS export: what was really paid for an instance-hour, with discounts, commitments and credits in it.

The effective price is the sum of EffectiveCost over the sum of quantity, of all rows of use of one instance in one
region. An instance is recognised by its name in SkuPriceDetails, SkuId, SkuMeter, ResourceType or ChargeDescription, if
our facts or the user's book know it. Unused parts of commitments are no use: their cost is kept apart and reported.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ullage.evidence import Assumption, Evidence
from ullage.facts.device import devices
from ullage.facts.price import LIST_MAX_AGE
from ullage.prices.book import DevicePrice
from ullage.prices.packaged import packaged_book, price_name
from ullage.prices.price_list import Gathering, PriceList
from ullage.prices.purchase import Purchase
from ullage.readers.prices.price_file import PriceFile, Row, amount, day

FORMAT = "a FOCUS export"
_COLUMNS = ("ChargeCategory", "EffectiveCost", "ProviderName", "BillingCurrency", "ChargePeriodStart")
_NAMED_IN = (
    "SkuPriceDetails",
    "x_InstanceType",
    "ResourceType",
    "SkuId",
    "SkuMeter",
    "SkuPriceId",
    "ChargeDescription",
)
# How providers write a unit of time, and how many hours one is.
_TIMES = (
    (re.compile(r"(?:1 )?(?:instance[- ])?(?:hours?|hrs?|h)", re.IGNORECASE), 1.0),
    (re.compile(r"(?:instance[- ])?(?:minutes?|mins?)", re.IGNORECASE), 1 / 60),
    (re.compile(r"(?:instance[- ])?(?:seconds?|secs?|s)", re.IGNORECASE), 1 / 3600),
)
# Providers call themselves by their full name on a bill.
_SHORT = {"amazon web services": "aws", "aws": "aws", "microsoft": "azure", "azure": "azure", "google cloud": "gcp"}
_SHORT |= {"google cloud platform": "gcp", "oracle": "oci", "oracle cloud infrastructure": "oci"}


@dataclass(frozen=True, kw_only=True)
class _Paid:
    """What was paid for one instance in one region, and for how many hours."""

    costs: list[float] = field(default_factory=list)
    hours: list[float] = field(default_factory=list)
    last: list[datetime.date] = field(default_factory=list)


def recognise(file: PriceFile) -> bool:
    return file.has(*_COLUMNS)


def read(file: PriceFile) -> PriceList:
    into = Gathering()
    paid: dict[tuple[str, str, str, str], _Paid] = {}
    machines = _machines()
    for number, row in enumerate(file.rows, 2):
        found = _use(file, row, number, machines, into)
        if found is not None:
            key, cost, hours, last = found
            each = paid.setdefault(key, _Paid())
            each.costs.append(cost)
            each.hours.append(hours)
            each.last.append(last)
    for key, each in sorted(paid.items()):
        _keep(file, key, each, machines, into)
    return into.finished(file=file.file, format_name=FORMAT, rows=len(file.rows))


def _use(
    file: PriceFile, row: Row, number: int, machines: dict[str, tuple[str, int]], into: Gathering
) -> tuple[tuple[str, str, str, str], float, float, datetime.date] | None:
    if row["ChargeCategory"] != "Usage":
        into.drop(f"not use: {row['ChargeCategory']}")
        return None
    instance = next((name for text in _texts(row) for name in _names_in(text) if name in machines), None)
    if instance is None:
        into.drop("no instance with a device that is known")
        return None
    if row.get("CommitmentDiscountStatus") == "Unused":
        into.note("a commitment that nothing used", f"{instance}: {row['EffectiveCost']}", "not in the effective price")
        into.drop("an unused commitment")
        return None
    hours, cost = _hours(file, row, number), amount(file, row, number, "EffectiveCost", signed=True)
    if hours is None:
        into.drop(f"not by time: {row.get('ConsumedUnit') or row.get('PricingUnit') or 'no unit'}")
        return None
    if not hours or cost is None:
        into.drop("no hours, or no cost")
        return None
    key = (_short(row["ProviderName"]), row.get("RegionId", ""), instance, row["BillingCurrency"])
    ends = "ChargePeriodEnd" if row.get("ChargePeriodEnd") else "ChargePeriodStart"
    return key, cost, hours, day(file, row, number, ends)


def _hours(file: PriceFile, row: Row, number: int) -> float | None:
    """What was used, in hours: by the meter or, where that counts something else, by the price; None where neither."""
    for kind in ("Consumed", "Pricing"):
        quantity = amount(file, row, number, f"{kind}Quantity")
        unit = row.get(f"{kind}Unit", "").strip()
        for spelling, in_hours in _TIMES:
            if quantity is not None and spelling.fullmatch(unit):
                return quantity * in_hours
    return None


def _keep(
    file: PriceFile, key: tuple[str, str, str, str], paid: _Paid, machines: dict[str, tuple[str, int]], into: Gathering
) -> None:
    provider, region, instance, currency = key
    device, count = machines[instance]
    hourly = sum(paid.costs) / sum(paid.hours)
    if hourly <= 0:
        return into.drop("paid back as much as was charged")
    if not math.isfinite(hourly):
        return into.drop("hours too few to divide by")
    return into.keep(
        DevicePrice(
            provider=provider,
            region=region,
            instance=instance,
            device=device,
            devices=count,
            purchase=Purchase.BILLED,
            hourly=Assumption(
                name=price_name(provider, region, instance, str(Purchase.BILLED)),
                value=hourly,
                unit=f"{currency}/h",
                evidence=Evidence.MEASURED,
                source=file.source(f"{FORMAT}: {sum(paid.hours):g} hours of {instance}", max(paid.last)),
                max_age=LIST_MAX_AGE,
            ),
        )
    )


def _machines() -> dict[str, tuple[str, int]]:
    """Instances by name: of our facts, and of the price lists that come with them."""
    listed = {
        price.instance: (price.device, price.devices)
        for prices in packaged_book().devices.values()
        for price in prices
        if price.instance
    }
    known = {
        row.texts["name"]: (sheet.name, int(row.values["devices"].value))
        for sheet in devices()
        for row in sheet.rows.get("instances", ())
    }
    return listed | known


def _texts(row: Row) -> Iterable[str]:
    for column in _NAMED_IN:
        text = row.get(column, "")
        if column == "SkuPriceDetails" and text.startswith("{"):
            try:
                details = json.loads(text)
            except json.JSONDecodeError:
                continue
            text = " ".join(str(each) for each in details.values()) if isinstance(details, dict) else ""
        if text:
            yield text


def _names_in(text: str) -> list[str]:
    return [text, *re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)]


def _short(provider: str) -> str:
    return _SHORT.get(provider.strip().lower(), provider.strip().lower())
