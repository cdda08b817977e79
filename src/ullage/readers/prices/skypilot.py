"""SkyPilot's catalogue of one provider: `vms.csv`, one row an instance, region and zone.

The file says neither provider nor date. Google's devices and machines are rows of their own: a row with devices and no
instance is the devices alone, and the row of the instance beside it is the machine, here a price of the item `host`.
"""

from __future__ import annotations

import datetime
from pathlib import PurePath

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.price import LIST_MAX_AGE, SPOT_MAX_AGE
from ullage.prices.book import RatePrice
from ullage.prices.packaged import price_name
from ullage.prices.price_list import Gathering, PriceList
from ullage.readers.prices.device_rows import CatalogueRow, add_row
from ullage.readers.prices.price_file import PriceFile, Row, amount

FORMAT = "a SkyPilot catalogue"
_COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")
_HOST_FAMILIES = ("a2-", "a3-", "a4-", "g2-standard-")
"""Google's machines that devices of ours stand in."""


def recognise(file: PriceFile) -> bool:
    return file.has(*_COLUMNS)


def read(file: PriceFile) -> PriceList:
    provider, dated = _provider(file), file.date()
    source = file.source(f"{FORMAT} of {provider}", dated)
    into = Gathering()
    for number, row in enumerate(file.rows, 2):
        if row["AcceleratorName"]:
            add_row(_catalogue_row(file, row, number, provider, dated, source), into)
        elif row["InstanceType"].startswith(_HOST_FAMILIES):
            _add_host(file, row, number, provider, source, into)
        else:
            into.drop("no device in it")
    return into.finished(file=file.file, format_name=FORMAT, rows=len(file.rows))


def _catalogue_row(
    file: PriceFile, row: Row, number: int, provider: str, dated: datetime.date, source: Source
) -> CatalogueRow:
    return CatalogueRow(
        provider=provider,
        instance=row["InstanceType"],
        gpu=row["AcceleratorName"],
        gpu_count=amount(file, row, number, "AcceleratorCount"),
        region=row["Region"],
        zone=row.get("AvailabilityZone", ""),
        on_demand_usd_per_hour=amount(file, row, number, "Price"),
        spot_usd_per_hour=amount(file, row, number, "SpotPrice"),
        date=dated,
        source=source,
        without_host=not row["InstanceType"],
    )


def _add_host(file: PriceFile, row: Row, number: int, provider: str, source: Source, into: Gathering) -> None:
    """The machine's own price; one of 0 means that the devices' price has it in, which the row does not say."""
    for column, kind, max_age in (("Price", "", LIST_MAX_AGE), ("SpotPrice", " spot", SPOT_MAX_AGE)):
        usd_per_hour = amount(file, row, number, column)
        if not usd_per_hour:
            into.drop("a machine without a price of its own")
            continue
        name = f"{row['InstanceType']}{kind}"
        into.keep(
            RatePrice(
                item="host",
                provider=provider,
                region=row["Region"],
                name=name,
                amount=Assumption(
                    name=price_name(provider, row["Region"], name, "host"),
                    value=usd_per_hour,
                    unit="USD/h",
                    evidence=Evidence.ESTIMATED,
                    source=source,
                    max_age=max_age,
                ),
            )
        )


def _provider(file: PriceFile) -> str:
    """What the user says, or the folder that SkyPilot keeps a provider's file in."""
    if file.provenance.provider:
        return file.provenance.provider
    path = PurePath(file.file)
    if path.name == "vms.csv" and path.parent.name:
        return path.parent.name
    raise InputError(
        field=file.file,
        value=None,
        problem="does not name its provider",
        fix="State it next to the file, for example provider: aws.",
    )
