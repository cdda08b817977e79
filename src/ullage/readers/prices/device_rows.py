"""Rows of GPU price catalogues as prices: which device it is, how many, and what the catalogue gets wrong.

What is known to be wrong in published catalogues, and what is done about it:

- a device by a name that means two (`A100`, `H100`): the instance tells, by our facts or by `sxm`, `pcie` in its name;
- a count of devices that our facts know better (a machine of 8 counted as 12): ours is used, and an anomaly says so;
- parts of a device (`0.25`), or none (`0`): dropped, for a device-hour cannot be made of them;
- spot of 0, spot equal to on demand: fillers, not prices; dropped and counted;
- prices of a few cents: the floor of an auction, at which nothing is sold; dropped;
- devices without the machine around them (Google): kept, marked, and never compared with whole machines.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.device import devices, find_device
from ullage.facts.price import LIST_MAX_AGE, SPOT_MAX_AGE
from ullage.prices.book import DevicePrice
from ullage.prices.packaged import price_name
from ullage.prices.price_list import Gathering
from ullage.prices.purchase import Purchase

_FLOOR_USD_PER_HOUR = 0.05
"""The cheapest device of any list costs seven times as much; below stand the floors of auctions."""
_SAME = 0.001
"""Catalogues round spot and on demand differently; closer than this they are one price."""

# What catalogues call a device where our names and aliases do not settle it.
_CALLED = {
    "A100": "a100-40gb-sxm",
    "A100-80G-PCIe": "a100-80gb-pcie",
    "A100-80G-PCIe-NVLink": "a100-80gb-pcie",
    "H100-80G-PCIe": "h100-pcie",
    "H100-80G-PCIe-NVLink": "h100-pcie",
    "H100-80G-SXM5": "h100-sxm",
    "H100-MEGA": "h100-sxm",
    "RTX PRO 6000 96GB": "rtx-pro-6000",
    "RTX-PRO-6000-CC": "rtx-pro-6000",
    "RTX3090": "rtx-3090",
    "RTX4090": "rtx-4090",
    "RTX5090": "rtx-5090",
    "RTXPRO6000": "rtx-pro-6000",
    "RTXPRO6000-WK": "rtx-pro-6000",
    "RTXPRO6000WS": "rtx-pro-6000",
}
_CALLED_BY = {
    ("runpod", "H100"): "h100-pcie",
    ("runpod", "A100-80GB"): "a100-80gb-pcie",
    ("lambda", "gpu_8x_a100"): "a100-40gb-sxm",
}
# Google's machines by device and count, which its rows leave out.
_GOOGLE = {
    **{("A100", count): f"a2-highgpu-{count}g" for count in (1, 2, 4, 8)},
    ("A100", 16): "a2-megagpu-16g",
    **{("A100-80GB", count): f"a2-ultragpu-{count}g" for count in (1, 2, 4, 8)},
    **{("H100", count): f"a3-highgpu-{count}g" for count in (1, 2, 4, 8)},
    ("H100-MEGA", 8): "a3-megagpu-8g",
    ("H200", 8): "a3-ultragpu-8g",
    ("B200", 8): "a4-highgpu-8g",
    **{("L4", count): f"g2-standard-{cores}" for count, cores in ((1, 12), (2, 24), (4, 48), (8, 96))},
}


@dataclass(frozen=True, kw_only=True)
class CatalogueRow:
    """One row of a catalogue, with the catalogue's own names. `spot_range` is over its zones."""

    provider: str
    instance: str
    gpu: str
    gpu_count: float | None
    region: str
    zone: str
    on_demand_usd_per_hour: float | None
    spot_usd_per_hour: float | None
    date: datetime.date
    source: Source
    without_host: bool = False
    spot_range: tuple[float, float] | None = None

    @property
    def shown(self) -> str:
        return " ".join(filter(None, (self.provider, self.instance or self.gpu, self.region, self.zone)))


def add_row(row: CatalogueRow, into: Gathering) -> None:
    """The row's prices, or the reasons why it has none."""
    if not row.gpu_count:
        return into.drop("no count of devices")
    if row.gpu_count < 1 or row.gpu_count != int(row.gpu_count):
        return into.drop("a part of a device")
    device = device_of(row.provider, row.instance, row.gpu)
    if device is None:
        into.note("a device that is not in the catalogue", f"{row.gpu} of {row.provider}", "its rows are dropped")
        return into.drop("a device that is not in the catalogue")
    count = _count(row, device, into)
    if row.on_demand_usd_per_hour is None and row.spot_usd_per_hour is None:
        return into.drop("no price")
    _add_on_demand(row, device, count, into)
    _add_spot(row, device, count, into)
    return None


@functools.cache
def device_of(provider: str, instance: str, gpu: str) -> str | None:
    """The device in our catalogue that a row is of, or None."""
    known = _instances().get((provider, instance))
    if known is not None:
        return known[0]
    called = _CALLED_BY.get((provider, instance)) or _CALLED_BY.get((provider, gpu))
    if called is not None:
        return called
    hints = [form for form in ("sxm", "pcie", "nvl") if form in instance.lower()]
    for name in (*(f"{gpu}-{form}" for form in hints if form not in gpu.lower()), _CALLED.get(gpu, gpu)):
        try:
            return find_device(name).name
        except InputError:
            continue
    return None


@functools.cache
def _instances() -> dict[tuple[str, str], tuple[str, int]]:
    """Our facts' machines: provider and instance -> device and how many."""
    return {
        (row.texts["provider"], row.texts["name"]): (sheet.name, int(row.values["devices"].value))
        for sheet in devices()
        for row in sheet.rows.get("instances", ())
    }


def _count(row: CatalogueRow, device: str, into: Gathering) -> int:
    stated = int(row.gpu_count or 0)
    known = _instances().get((row.provider, row.instance))
    if known is None or known[1] == stated:
        return stated
    into.note(
        "a count of devices that our facts know otherwise",
        f"{row.shown}: {stated} {device} here, {known[1]} there",
        "the count of the facts is used",
    )
    return known[1]


def _add_on_demand(row: CatalogueRow, device: str, count: int, into: Gathering) -> None:
    if row.on_demand_usd_per_hour is None:
        return into.drop("no on-demand price")
    if row.on_demand_usd_per_hour / count < _FLOOR_USD_PER_HOUR:
        return into.drop("on demand at the floor of an auction, or 0")
    # The zones of a region share an on-demand price; one row stands for them.
    price = _price(dataclasses.replace(row, zone=""), device, count, Purchase.ON_DEMAND, row.on_demand_usd_per_hour)
    return into.keep(price)


def _add_spot(row: CatalogueRow, device: str, count: int, into: Gathering) -> None:
    if row.spot_usd_per_hour is None:
        return into.drop("no spot price")
    if row.spot_usd_per_hour / count < _FLOOR_USD_PER_HOUR:
        return into.drop("spot at the floor of an auction, or 0")
    if (
        row.on_demand_usd_per_hour is not None
        and abs(row.spot_usd_per_hour - row.on_demand_usd_per_hour) <= _SAME * row.on_demand_usd_per_hour
    ):
        return into.drop("spot that repeats the on-demand price")
    if row.on_demand_usd_per_hour is not None and row.spot_usd_per_hour > row.on_demand_usd_per_hour:
        into.note(
            "spot above on demand",
            f"{row.shown}: {row.spot_usd_per_hour:g} over {row.on_demand_usd_per_hour:g} USD/h",
            "it is kept",
        )
    return into.keep(_price(row, device, count, Purchase.SPOT, row.spot_usd_per_hour))


def _price(row: CatalogueRow, device: str, count: int, purchase: Purchase, usd_per_hour: float) -> DevicePrice:
    instance = row.instance or (_GOOGLE.get((row.gpu, count), "") if row.provider == "gcp" else "")
    low, high = row.spot_range if row.spot_range is not None and purchase is Purchase.SPOT else (None, None)
    return DevicePrice(
        provider=row.provider,
        region=row.region,
        zone=row.zone,
        instance=instance,
        device=device,
        devices=count,
        purchase=purchase,
        hourly=Assumption(
            name=price_name(row.provider, row.region, row.zone, instance or f"{count}x-{device}", str(purchase)),
            value=usd_per_hour,
            unit="USD/h",
            # A published list is a data sheet's kind of knowledge: of the product, not of the user's contract.
            evidence=Evidence.ESTIMATED,
            source=row.source,
            low=low,
            high=high,
            max_age=SPOT_MAX_AGE if purchase is Purchase.SPOT else LIST_MAX_AGE,
        ),
        excludes=("host",) if row.without_host else (),
    )
