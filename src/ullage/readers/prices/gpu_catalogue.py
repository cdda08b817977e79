"""A GPU price catalogue of many providers: one row an instance, region and zone, each with its date.

Columns provider, instance, gpu, gpu_count, region, zone, price_kind, on_demand_usd_h, spot_usd_h, catalog_date; prices
are of the whole instance, but where `price_kind` says that the machine is extra.
"""

from __future__ import annotations

import datetime

from ullage.facts.price import LIST_MAX_AGE
from ullage.prices.price_list import Gathering, PriceList
from ullage.readers.prices.device_rows import CatalogueRow, add_row
from ullage.readers.prices.price_file import PriceFile, amount, day

FORMAT = "a GPU price catalogue of many providers"
_COLUMNS = ("provider", "instance", "gpu", "gpu_count", "region", "price_kind", "on_demand_usd_h", "catalog_date")
_ALONE = "gpu-only"


def recognise(file: PriceFile) -> bool:
    return file.has(*_COLUMNS)


def read(file: PriceFile) -> PriceList:
    """Every row; the rows of a provider that are much older than the newest are an anomaly."""
    into = Gathering()
    dates: dict[str, datetime.date] = {}
    for number, row in enumerate(file.rows, 2):
        dated = day(file, row, number, "catalog_date")
        provider = row["provider"]
        dates[provider] = max(dated, dates.get(provider, dated))
        add_row(
            CatalogueRow(
                provider=provider,
                instance=row["instance"],
                gpu=row["gpu"],
                gpu_count=amount(file, row, number, "gpu_count"),
                region=row["region"],
                zone=row.get("zone", ""),
                on_demand_usd_per_hour=amount(file, row, number, "on_demand_usd_h"),
                spot_usd_per_hour=amount(file, row, number, "spot_usd_h"),
                date=dated,
                source=file.source(f"{FORMAT}, {provider}", dated),
                without_host=row["price_kind"].startswith(_ALONE),
            ),
            into,
        )
    _note_old(dates, into)
    return into.finished(file=file.file, format_name=FORMAT, rows=len(file.rows))


def _note_old(dates: dict[str, datetime.date], into: Gathering) -> None:
    newest = max(dates.values(), default=None)
    for provider, dated in sorted(dates.items()):
        if newest is not None and newest - dated > LIST_MAX_AGE:
            days = (newest - dated).days
            into.note(
                "a provider's prices are much older than the newest here",
                f"{provider}, of {dated}, {days} days before {newest}",
                "they are kept with their own date, and are past their maximum age",
            )
