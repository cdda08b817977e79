"""A weekly history of GPU prices, read as it stood on one day: of each instance and region the last row until then.

Columns date, provider, instance, region, gpu, gpu_count, on_demand_usd_h, spot_min_az, spot_max_az. Spot is the lowest
zone's, with the highest as the end of its range. A row is not carried forward for more than eight weeks: an instance
that was no longer listed was no longer sold.
"""

from __future__ import annotations

import datetime

from ullage.errors import InputError
from ullage.prices.price_list import Gathering, PriceList
from ullage.readers.prices.device_rows import CatalogueRow, add_row
from ullage.readers.prices.price_file import PriceFile, Row, amount, day

FORMAT = "a weekly history of GPU prices"
_COLUMNS = ("date", "provider", "instance", "region", "gpu", "gpu_count", "on_demand_usd_h", "spot_min_az")
_CARRIED = datetime.timedelta(weeks=8)


def recognise(file: PriceFile) -> bool:
    return file.has(*_COLUMNS)


def read(file: PriceFile) -> PriceList:
    """The book of the day the user asks for, or of the last one in the file."""
    dated = [(day(file, row, number, "date"), number, row) for number, row in enumerate(file.rows, 2)]
    days = [each[0] for each in dated]
    on = file.provenance.on or max(days, default=datetime.date.min)
    if not days or on < min(days):
        span = f"{min(days)} to {max(days)}" if days else "no day at all"
        raise InputError(
            field=file.file,
            value=str(on),
            problem=f"is before its first day; it holds {span}",
            fix="Ask for a later day.",
        )
    into = Gathering()
    last: dict[tuple[str, str, str], tuple[datetime.date, int, Row]] = {}
    for at, number, row in dated:
        key = (row["provider"], row["instance"], row["region"])
        if at > on:
            into.drop("after the requested day")
        elif key in last and last[key][0] >= at:
            into.drop("before the last row until that day")
        else:
            if key in last:
                into.drop("before the last row until that day")
            last[key] = (at, number, row)
    for at, number, row in last.values():
        if on - at > _CARRIED:
            into.drop("not listed in the eight weeks until that day")
        else:
            add_row(_catalogue_row(file, row, number, at), into)
    return into.finished(file=file.file, format_name=FORMAT, rows=len(file.rows))


def _catalogue_row(file: PriceFile, row: Row, number: int, at: datetime.date) -> CatalogueRow:
    low, high = amount(file, row, number, "spot_min_az"), amount(file, row, number, "spot_max_az")
    return CatalogueRow(
        provider=row["provider"],
        instance=row["instance"],
        gpu=row["gpu"],
        gpu_count=amount(file, row, number, "gpu_count"),
        region=row["region"],
        zone="",
        on_demand_usd_per_hour=amount(file, row, number, "on_demand_usd_h"),
        spot_usd_per_hour=low,
        date=at,
        source=file.source(f"{FORMAT}, {row['provider']}", at),
        spot_range=None if low is None or high is None or high < low else (low, high),
    )
