"""Prices to test with: amounts, books and the few rows a test is about."""

from __future__ import annotations

import datetime

from ullage.evidence import Assumption, Evidence, Source
from ullage.prices.book import DevicePrice, OwnedHardware
from ullage.prices.purchase import Purchase

DAY = datetime.date(2026, 11, 1)


def amount(
    value: float,
    unit: str = "USD/h",
    *,
    name: str = "price.test",
    evidence: Evidence = Evidence.ASSUMED,
    date: datetime.date = DAY,
    max_age: datetime.timedelta | None = None,
) -> Assumption:
    return Assumption(
        name=name,
        value=value,
        unit=unit,
        evidence=evidence,
        source=Source(what="a test", where="tests", date=date),
        max_age=max_age,
    )


def device_price(
    hourly: float | Assumption,
    *,
    provider: str = "aws",
    region: str = "us-east-1",
    device: str = "h100-sxm",
    devices: int = 8,
    purchase: Purchase = Purchase.ON_DEMAND,
    instance: str = "",
    zone: str = "",
    upfront: Assumption | None = None,
    interruptions: Assumption | None = None,
    excludes: tuple[str, ...] = (),
) -> DevicePrice:
    return DevicePrice(
        provider=provider,
        region=region,
        device=device,
        devices=devices,
        purchase=purchase,
        hourly=hourly if isinstance(hourly, Assumption) else amount(hourly),
        instance=instance,
        zone=zone,
        upfront=upfront,
        interruptions=interruptions,
        excludes=excludes,
    )


def own_machine(**changed: Assumption) -> OwnedHardware:
    """Eight devices for 262,800 USD over three years without residual, interest or upkeep: 10 USD/h of wear."""
    parts = {
        "capex": amount(262_800.0, "USD"),
        "residual": amount(0.0, "fraction"),
        "life": amount(3 * 365 * 86400.0, "s"),
        "power": amount(8000.0, "W"),
        "cooling": amount(1.25, "ratio"),
        "electricity": amount(0.10, "USD/kWh"),
        "space": amount(73.0, "USD/kW-month"),
        "staff": amount(146.0, "USD/month"),
        "upkeep": amount(0.0, "fraction"),
        "capital": amount(0.0, "fraction"),
    } | changed
    return OwnedHardware(region="", device="h100-sxm", devices=8, **parts)  # type: ignore[arg-type]
