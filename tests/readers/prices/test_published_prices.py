"""The published price files: every row kept or counted, prices as published, and the traps in them found."""

from __future__ import annotations

import csv
import datetime
import gzip
from pathlib import Path

import pytest

from ullage.evidence import Figure
from ullage.prices.age import old_prices
from ullage.prices.book import MissingPrice, TokenKind
from ullage.prices.lookup import priced
from ullage.prices.packaged import packaged_book
from ullage.prices.price_list import PriceList
from ullage.prices.purchase import Purchase
from ullage.prices.wanted import DeviceWanted, TokenWanted
from ullage.readers.prices import read_prices
from ullage.readers.prices.price_file import PriceProvenance

# Reasons for which a row has neither an on-demand nor a spot price to give.
WHOLE_ROW = {"a part of a device", "no count of devices", "a device that is not in the catalogue", "no price"}


@pytest.fixture(scope="module")
def catalogue(shared_data: Path) -> PriceList:
    return read_prices(shared_data / "prices" / "gpu_prices_full.csv.gz")


@pytest.mark.slow
def test_every_row_is_two_prices_or_counted(catalogue: PriceList) -> None:
    assert catalogue.rows == 6802
    lost = sum(count for reason, count in catalogue.dropped.items() if reason in WHOLE_ROW)
    other = sum(count for reason, count in catalogue.dropped.items() if reason not in WHOLE_ROW)
    assert len(catalogue.book) + other == 2 * (catalogue.rows - lost)


def test_our_price_of_a_device_is_the_published_one(catalogue: PriceList, shared_data: Path) -> None:
    """The file divides by its own count; where that is wrong, ours differs by just that."""
    published: dict[tuple[str, str, str], float] = {}
    with gzip.open(shared_data / "prices" / "gpu_prices_full.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["on_demand_per_gpu"] and row["provider"] != "gcp":
                published[row["provider"], row["instance"], row["region"]] = float(row["on_demand_per_gpu"])
    compared = 0
    for prices in catalogue.book.devices.values():
        for price in prices:
            if price.purchase is Purchase.ON_DEMAND and price.provider != "gcp":
                ratio = (
                    float(price.hourly.value) / price.devices / published[price.provider, price.instance, price.region]
                )
                expected = 12 / 8 if price.instance == "Standard_ND96isr_H100_v5" else 1.0
                assert ratio == pytest.approx(expected, rel=2e-3), price.key
                compared += 1
    assert compared > 700


def test_the_traps_of_the_catalogue_are_found(catalogue: PriceList) -> None:
    said = {each.what: each for each in catalogue.anomalies}
    assert said["a count of devices that our facts know otherwise"].rows == 3
    assert said["a provider's prices are much older than the newest here"].rows == 9
    assert catalogue.dropped["spot that repeats the on-demand price"] >= 4080  # all of runpod's
    assert catalogue.dropped["spot at the floor of an auction, or 0"] >= 19  # all of vast's
    assert catalogue.dropped["a part of a device"] == 155


def test_googles_devices_are_never_compared_with_whole_machines(catalogue: PriceList) -> None:
    google = [price for prices in catalogue.book.devices.values() for price in prices if price.provider == "gcp"]
    assert google
    assert all(price.excludes == ("host",) for price in google)
    alone = priced(catalogue.book, DeviceWanted(device="h100-sxm", providers=("gcp",)))
    assert isinstance(alone, MissingPrice)


def test_old_rows_are_old_and_new_ones_are_not(catalogue: PriceList) -> None:
    day = datetime.date(2026, 9, 1)
    on_demand = (Purchase.ON_DEMAND,)
    for provider, is_old in (("azure", True), ("oci", True), ("aws", False), ("lambda", False)):
        found = priced(catalogue.book, DeviceWanted(device="h100-sxm", providers=(provider,), purchases=on_demand))
        assert isinstance(found, Figure)
        assert bool(old_prices([found], day)) is is_old, provider


def test_the_packaged_lists_say_what_the_catalogue_says(catalogue: PriceList) -> None:
    published = {price.key: price for prices in catalogue.book.devices.values() for price in prices}
    compared = 0
    for prices in packaged_book().devices.values():
        for price in prices:
            if price.purchase is Purchase.ON_DEMAND and price.provider in ("aws", "azure", "nebius"):
                assert price.hourly.value == pytest.approx(published[price.key].hourly.value, abs=1e-5), price.key
                compared += 1
    assert compared > 40


def test_the_history_spans_what_the_notes_say(shared_data: Path) -> None:
    file = shared_data / "prices" / "gpu_price_history_weekly.csv.gz"

    def hourly(on: datetime.date, purchase: Purchase) -> float:
        book = read_prices(file, PriceProvenance(on=on)).book
        wanted = DeviceWanted(
            device="h100-sxm",
            providers=("aws",),
            regions=("us-east-1",),
            instances=("p5.48xlarge",),
            purchases=(purchase,),
        )
        found = priced(book, wanted)
        assert isinstance(found, Figure)
        return round(float(found.value) * 8, 4)

    assert hourly(datetime.date(2023, 7, 29), Purchase.ON_DEMAND) == 98.32
    assert hourly(datetime.date(2026, 8, 8), Purchase.ON_DEMAND) == 55.04
    assert hourly(datetime.date(2023, 10, 21), Purchase.SPOT) == 70.5143


@pytest.mark.slow
def test_every_row_of_the_history_is_kept_or_counted(shared_data: Path) -> None:
    found = read_prices(shared_data / "prices" / "gpu_price_history_weekly.csv.gz")
    assert found.rows == 6541
    prices = {"no spot price", "no on-demand price", "spot that repeats the on-demand price"}
    rows = sum(count for reason, count in found.dropped.items() if reason not in prices)
    other = sum(count for reason, count in found.dropped.items() if reason in prices)
    assert len(found.book) + other == 2 * (found.rows - rows)


@pytest.mark.slow
def test_the_token_table_is_read_whole(shared_data: Path) -> None:
    file = shared_data / "prices" / "token_prices_litellm_1.108.4.csv"
    found = read_prices(file, PriceProvenance(dated=datetime.date(2026, 11, 1)))
    assert found.rows == 2983
    assert found.dropped["above any known price: likely another unit"] == 2
    price = priced(found.book, TokenWanted(model="gpt-4o", kind=TokenKind.OUTPUT, provider="openai"))
    assert isinstance(price, Figure)
    assert price.value == pytest.approx(10e-6)
    assert isinstance(
        priced(found.book, TokenWanted(model="jais-30b-chat", kind=TokenKind.INPUT, provider="azure_ai")), MissingPrice
    )
