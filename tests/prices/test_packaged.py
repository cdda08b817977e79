"""The book that comes with ullage: dated, sourced, priced in USD, of devices we know; and an own book over it."""

from __future__ import annotations

import datetime

import pytest

from ullage import verbs
from ullage.errors import InputError
from ullage.evidence import Evidence, Figure
from ullage.facts.device import devices
from ullage.facts.price import LIST_MAX_AGE, SPOT_MAX_AGE, prices
from ullage.prices.age import age_notes, old_prices
from ullage.prices.book import DevicePrice, MissingPrice, OwnedHardware, Tier, TokenKind
from ullage.prices.items import ITEMS
from ullage.prices.lookup import priced
from ullage.prices.packaged import book_of, own_hardware_defaults, packaged_book
from ullage.prices.purchase import Purchase
from ullage.prices.wanted import DeviceWanted, RateWanted, TokenWanted, check_names

BOOK = packaged_book()
TODAY = datetime.date(2026, 11, 15)
MINE = """
title = "Acme"
provider = "acme"
source = "offer"

[sources.offer]
what = "Acme's offer"
where = "a letter"
date = 2026-11-01
evidence = "stated"
"""


def test_every_price_is_dated_sourced_and_in_usd() -> None:
    for price in BOOK:
        for each in price.amounts:
            assert each.source.what
            assert each.source.where
            assert datetime.date(2023, 1, 1) <= each.source.date <= TODAY
            assert each.evidence is Evidence.ASSUMED
            assert each.unit.startswith("USD") or each.unit in ("1/h", "fraction", "s", "W", "ratio", "tokens/s")


def test_every_price_has_a_name_of_its_own() -> None:
    shared = {each.name for each in own_hardware_defaults().values()}
    names = [each.name for price in BOOK for each in price.amounts if each.name not in shared]
    assert len(names) == len(set(names))


def test_every_device_is_in_the_catalogue_and_of_plausible_price() -> None:
    known = {sheet.name for sheet in devices()}
    for price in BOOK:
        if isinstance(price, DevicePrice | OwnedHardware):
            assert price.device in known
        if isinstance(price, DevicePrice):
            found = priced(
                BOOK,
                DeviceWanted(
                    device=price.device,
                    providers=(price.provider,),
                    regions=(price.region,) if price.region else (),
                    purchases=(price.purchase,),
                ),
            )
            assert isinstance(found, Figure)
            assert 0.2 < float(found.value) < 20, price.key


def test_spot_is_below_on_demand_and_ages_faster() -> None:
    by_key = {price.key: price for prices in BOOK.devices.values() for price in prices}
    spots = [price for price in by_key.values() if price.purchase is Purchase.SPOT]
    assert len(spots) > 30
    for spot in spots:
        listed = by_key[(*spot.key[:-1], "on-demand")]
        assert float(spot.hourly.value) < float(listed.hourly.value)
        assert (spot.hourly.max_age, listed.hourly.max_age) == (SPOT_MAX_AGE, LIST_MAX_AGE)


def test_an_old_list_is_named_with_its_age() -> None:
    azure = priced(BOOK, DeviceWanted(device="h100-sxm", providers=("azure",), purchases=(Purchase.ON_DEMAND,)))
    lambda_ = priced(BOOK, DeviceWanted(device="h100-sxm", providers=("lambda",), purchases=(Purchase.ON_DEMAND,)))
    assert isinstance(azure, Figure)
    assert isinstance(lambda_, Figure)
    (old,) = old_prices([azure, lambda_], TODAY)
    assert (old.age_days, old.max_age_days) == (430, 180)
    assert str(old).startswith("price.azure.eastus.standard_nd96isr_h100_v5.on-demand is 430 days old, past 180: ")
    assert old_prices([azure, lambda_], datetime.date(2025, 12, 1)) == ()
    (note,) = age_notes([azure, lambda_], TODAY)
    assert note.startswith("A price is past its maximum age: price.azure.eastus.")
    assert age_notes([azure, lambda_], None) == ()


def test_the_known_prices_of_known_machines() -> None:
    def hour(provider: str, region: str, purchase: Purchase = Purchase.ON_DEMAND) -> float:
        wanted = DeviceWanted(device="h100-sxm", providers=(provider,), regions=(region,), purchases=(purchase,))
        found = priced(BOOK, wanted)
        assert isinstance(found, Figure)
        return round(float(found.value), 3)

    assert hour("aws", "us-east-1") == 6.88
    assert hour("azure", "eastus") == 12.29
    assert hour("gcp", "us-central1") == 10.979
    assert hour("lambda", "us-east-1") == 3.99


def test_tokens_in_their_tiers() -> None:
    def price(model: str, kind: TokenKind, tier: Tier = Tier.STANDARD) -> Figure | MissingPrice:
        return priced(BOOK, TokenWanted(model=model, kind=kind, tier=tier))

    standard, batch = price("gpt-5", TokenKind.INPUT), price("gpt-5", TokenKind.INPUT, Tier.BATCH)
    priority = price("gpt-5", TokenKind.INPUT, Tier.PRIORITY)
    assert [each.value for each in (batch, standard, priority) if isinstance(each, Figure)] == [
        6.25e-7,
        1.25e-6,
        2.5e-6,
    ]
    assert isinstance(price("gpt-5", TokenKind.CACHE_WRITE), MissingPrice)


@pytest.mark.parametrize(
    "item", sorted(set(ITEMS) - {"tool-call", "evaluation", "host", "load-balancer", "file-storage"})
)
def test_items_have_a_default_that_names_no_provider(item: str) -> None:
    found = priced(BOOK, RateWanted(item=item))
    assert isinstance(found, Figure)
    assert found.value


@pytest.mark.parametrize("item", ["tool-call", "evaluation"])
def test_what_is_nobodys_but_the_sellers_has_no_default(item: str) -> None:
    assert isinstance(priced(BOOK, RateWanted(item=item)), MissingPrice)


def test_a_users_sheet_lies_over_ours() -> None:
    row = '[[devices]]\ndevice = "H100"\npurchase = "3y-all-upfront"\ndevices = 1\n'
    row += 'hourly = "0.01 USD/h"\nupfront = "20000 USD"\n'
    book = book_of(prices().overlaid({"acme.toml": MINE + row}))
    assert len(book) == len(BOOK) + 1
    found = priced(book, DeviceWanted(device="h100-sxm", providers=("acme",)))
    assert isinstance(found, Figure)
    assert found.value == pytest.approx(0.01 + 20000 / 26280)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            '[[devices]]\ndevice = "h100"\npurchase = "lease"\nhourly = "1 USD/h"\ndevices = 1\n',
            "'lease': is not known",
        ),
        ('[[devices]]\ndevice = "h100"\npurchase = "spot"\nhourly = "1 USD/h"\ndevices = 1\n', "has no spot_hourly"),
        ('[[devices]]\ndevice = "h1000"\npurchase = "spot"\nspot_hourly = "1 USD/h"\ndevices = 1\n', "'h1000': is not"),
        ('[[devices]]\ndevice = "h100"\npurchase = "on-demand"\nhourly = "1 EUR/h"\ndevices = 1\n', "is not in USD"),
        ('[[devices]]\ndevice = "h100"\npurchase = "on-demand"\nhourly = "0 USD/h"\ndevices = 1\n', "greater than 0"),
        ('[[tokens]]\nmodel = "m"\ninput = "1 USD/h"\n', "is a price per h, where one per token"),
        ('[[tokens]]\nmodel = "m"\ntier = "fast"\ninput = "1 USD/Mtok"\n', "'fast': is not known"),
        ('[[rates]]\nitem = "egress"\nper_hour = "1 USD/h"\n', "is not priced by its unit"),
    ],
)
def test_a_wrong_row_is_an_error_that_names_it(row: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        book_of(prices().overlaid({"acme.toml": MINE + row}))


def test_the_verb_lists_price_lists() -> None:
    found = verbs.facts("prices")
    assert {"aws", "lambda", "openai", "defaults", "own-hardware"} <= {sheet.name for sheet in found.sheets}


def test_a_region_of_another_provider_is_said_to_be_so() -> None:
    with pytest.raises(InputError, match=r"is a region of aws, and prices.provider is gcp. Name one of its regions \("):
        check_names(packaged_book(), providers=["gcp"], regions=["us-east-1"])
    with pytest.raises(InputError, match=r"is not known. Did you mean us-central1"):
        check_names(packaged_book(), providers=["gcp"], regions=["us-central-1"])
