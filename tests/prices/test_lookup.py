"""Finding a price: nearest names, missing as a value, the user's own prices first, whole machines."""

from __future__ import annotations

import pytest

from support.prices import amount, device_price, own_machine
from ullage.errors import InputError
from ullage.evidence import Evidence, Figure
from ullage.prices.book import (
    DevicePrice,
    MissingPrice,
    PriceBook,
    RatePrice,
    Tier,
    TokenKind,
    TokenPrice,
    price_book,
)
from ullage.prices.lookup import priced
from ullage.prices.offers import Offer, cheapest, offers
from ullage.prices.purchase import Purchase, PurchaseMix, purchase_of
from ullage.prices.wanted import DeviceWanted, RateWanted, TokenWanted

BOOK = price_book(
    [
        device_price(80.0),
        device_price(40.0, region="eu-west-1"),
        device_price(24.0, purchase=Purchase.SPOT, zone="us-east-1a"),
        device_price(16.0, purchase=Purchase.SPOT, zone="us-east-1b"),
        device_price(3.0, provider="lambda", region="", devices=1),
        device_price(3.0, provider="lambda", region="", devices=1, device="l40s"),
    ]
)


def _offer(book: PriceBook, wanted: DeviceWanted) -> DevicePrice:
    found = cheapest(book, wanted)
    assert isinstance(found, Offer), found
    assert isinstance(found.price, DevicePrice)
    return found.price


def test_the_cheapest_under_each_constraint() -> None:
    assert _offer(BOOK, DeviceWanted(device="h100-sxm")).zone == "us-east-1b"
    on_demand = (Purchase.ON_DEMAND,)
    assert _offer(BOOK, DeviceWanted(device="h100-sxm", purchases=on_demand)).provider == "lambda"
    assert _offer(BOOK, DeviceWanted(device="h100-sxm", purchases=on_demand, providers=("aws",))).region == "eu-west-1"
    assert _offer(BOOK, DeviceWanted(device="h100-sxm", purchases=on_demand, least_devices=2)).region == "eu-west-1"
    assert _offer(BOOK, DeviceWanted(device="h100-sxm", zones=("us-east-1a",), providers=("aws",))).hourly.value in (
        24.0,
        40.0,
    )


def test_a_price_for_anywhere_holds_in_every_region() -> None:
    found = _offer(BOOK, DeviceWanted(device="h100-sxm", providers=("lambda",), regions=("us-south-1",)))
    assert found.provider == "lambda"


def test_offers_are_in_order_of_price_and_the_order_never_depends_on_the_book() -> None:
    found = offers(BOOK, DeviceWanted(device="h100-sxm"))
    values = [each.usd_per_device_hour.value for each in found]
    assert values == sorted(values)
    turned = price_book(reversed([price for prices in BOOK.devices.values() for price in prices]))
    assert offers(turned, DeviceWanted(device="h100-sxm")) == found


def test_a_name_nobody_has_heard_of_is_an_error_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"prices.provider = 'lamda': is not known. Did you mean lambda\?"):
        cheapest(BOOK, DeviceWanted(device="h100-sxm", providers=("lamda",)))
    with pytest.raises(InputError, match=r"prices.region = 'us-esat-1': is not known. Did you mean us-east-1"):
        cheapest(BOOK, DeviceWanted(device="h100-sxm", providers=("aws",), regions=("us-esat-1",)))
    with pytest.raises(InputError, match=r"purchase = 'on_demand': is not known. Did you mean on-demand"):
        purchase_of("on_demand", field="purchase")
    with pytest.raises(InputError, match=r"item = 'egres': is not known. Did you mean egress"):
        priced(BOOK, RateWanted(item="egres"))


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (DeviceWanted(device="b200-sxm"), "the price book has no price for this device"),
        (
            DeviceWanted(device="l40s", purchases=(Purchase.SPOT,)),
            "the book has it only from lambda on-demand",
        ),
        (
            DeviceWanted(device="l40s", least_devices=64),
            "the book has it only in machines of 1 at most, from lambda on-demand",
        ),
        (TokenWanted(model="gpt-9", kind=TokenKind.INPUT), "the price book has no price for this model"),
        (RateWanted(item="egress"), "the book has no such price"),
    ],
)
def test_a_price_that_is_not_there_is_a_value_that_says_so(
    wanted: DeviceWanted | TokenWanted | RateWanted, why: str
) -> None:
    found = priced(BOOK, wanted)
    assert isinstance(found, MissingPrice)
    assert found.why == why
    assert "docs/howto/bring-your-prices.md" in found.fix
    assert str(found).startswith("not priced: ")


def test_what_the_user_states_goes_before_the_same_sellers_list() -> None:
    stated = device_price(amount(96.0, evidence=Evidence.STATED), instance="contract")
    book = price_book([stated]).over(BOOK)
    on_demand = DeviceWanted(device="h100-sxm", providers=("aws",), purchases=(Purchase.ON_DEMAND,))
    assert _offer(book, on_demand).instance == "contract"
    elsewhere = DeviceWanted(device="h100-sxm", purchases=(Purchase.ON_DEMAND,))
    assert _offer(book, elsewhere).provider == "lambda"


def test_an_own_price_without_a_rate_is_said_before_a_list_answers_in_its_place() -> None:
    euros = device_price(amount(8.0, "EUR/h", name="price.acme", evidence=Evidence.STATED), provider="acme", region="")
    found = cheapest(price_book([euros]).over(BOOK), DeviceWanted(device="h100-sxm"))
    assert isinstance(found, MissingPrice)
    assert "price.acme: is quoted in EUR" in str(found)
    listed = device_price(amount(8.0, "EUR/h", name="price.acme"), provider="acme", region="")
    assert isinstance(cheapest(price_book([listed]).over(BOOK), DeviceWanted(device="h100-sxm")), Offer)
    own = _tokens(input=amount(1e-6, "EUR/token", evidence=Evidence.STATED))
    other = TokenPrice(provider="other", model="m", input=amount(2e-6, "USD/token"), output=None)
    assert isinstance(priced(price_book([own, other]), TokenWanted(model="m", kind=TokenKind.INPUT)), MissingPrice)


def test_a_price_of_the_same_thing_replaces_the_one_below() -> None:
    over = price_book([device_price(1.0)]).over(BOOK)
    assert len(over) == len(BOOK)
    assert _offer(over, DeviceWanted(device="h100-sxm")).hourly.value == 1.0


def test_the_same_thing_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="aws us-east-1 h100-sxm on-demand': is priced twice"):
        price_book([device_price(1.0), device_price(2.0)])


def test_own_hardware_is_an_offer_only_to_its_owner_or_by_name() -> None:
    ours = price_book([own_machine()])
    assert isinstance(cheapest(ours, DeviceWanted(device="h100-sxm")), MissingPrice)
    by_name = cheapest(ours, DeviceWanted(device="h100-sxm", purchases=(Purchase.OWNED,)))
    assert isinstance(by_name, Offer)
    assert by_name.purchase is Purchase.OWNED
    theirs = price_book([own_machine(capex=amount(262_800.0, "USD", evidence=Evidence.STATED))])
    assert isinstance(cheapest(theirs, DeviceWanted(device="h100-sxm")), Offer)


def test_a_device_without_its_machine_is_no_offer_until_the_machine_has_a_price() -> None:
    alone = device_price(64.0, provider="gcp", region="us-central1", instance="a3-highgpu-8g", excludes=("host",))
    wanted = DeviceWanted(device="h100-sxm")
    missing = cheapest(price_book([alone]), wanted)
    assert isinstance(missing, MissingPrice)
    assert "host a3-highgpu-8g gcp us-central1" in str(missing)
    host = RatePrice(
        item="host", provider="gcp", region="us-central1", name="a3-highgpu-8g", amount=amount(16.0, "USD/h")
    )
    whole = cheapest(price_book([alone, host]), wanted)
    assert isinstance(whole, Offer)
    assert whole.usd_per_device_hour.value == pytest.approx(10.0)
    parts = cheapest(price_book([alone]), DeviceWanted(device="h100-sxm", parts_too=True))
    assert isinstance(parts, Offer)
    assert parts.usd_per_device_hour.value == 8.0


def test_a_rate_of_the_provider_stands_before_one_that_names_none() -> None:
    book = price_book(
        [
            RatePrice(item="egress", amount=amount(9e-11, "USD/byte")),
            RatePrice(item="egress", provider="aws", amount=amount(8e-11, "USD/byte")),
            RatePrice(item="egress", provider="aws", region="eu-west-1", amount=amount(5e-11, "USD/byte")),
        ]
    )

    def found(provider: str = "", region: str = "") -> float:
        figure = priced(book, RateWanted(item="egress", provider=provider, region=region))
        assert isinstance(figure, Figure)
        return float(figure.value)

    assert [found(), found("gcp"), found("aws"), found("aws", "eu-west-1")] == [9e-11, 9e-11, 8e-11, 5e-11]


def test_an_item_is_priced_by_its_own_unit() -> None:
    with pytest.raises(ValueError, match="'egress' is not an item priced per 'h'"):
        RatePrice(item="egress", amount=amount(1.0, "USD/h"))


def _tokens(**more: object) -> TokenPrice:
    fields = {"input": amount(1e-6, "USD/token"), "output": amount(4e-6, "USD/token")} | more
    return TokenPrice(provider="acme", model="m", **fields)  # type: ignore[arg-type]


def test_tokens_by_kind_tier_and_length_of_prompt() -> None:
    book = price_book(
        [
            _tokens(),
            _tokens(tier=Tier.BATCH, input=amount(5e-7, "USD/token")),
            _tokens(from_prompt_tokens=200_001, input=amount(2e-6, "USD/token")),
        ]
    )

    def value(kind: TokenKind, tier: Tier = Tier.STANDARD, prompt_tokens: int = 0) -> object:
        found = priced(book, TokenWanted(model="m", kind=kind, tier=tier, prompt_tokens=prompt_tokens))
        return found.value if isinstance(found, Figure) else None

    assert value(TokenKind.INPUT) == 1e-6
    assert value(TokenKind.INPUT, Tier.BATCH) == 5e-7
    assert value(TokenKind.INPUT, prompt_tokens=200_000) == 1e-6
    assert value(TokenKind.INPUT, prompt_tokens=200_001) == 2e-6
    assert value(TokenKind.CACHED_READ) is None
    assert value(TokenKind.OUTPUT, Tier.PRIORITY) is None


def test_shares_that_are_no_whole_are_an_error_and_decimals_are_exact() -> None:
    tenths = {Purchase.ON_DEMAND: 0.7, Purchase.SPOT: 0.2, Purchase.ONE_YEAR: 0.1}
    PurchaseMix(shares={each: amount(value, "fraction") for each, value in tenths.items()})
    with pytest.raises(InputError, match=r"the shares sum to 0.9, not to 1"):
        PurchaseMix(shares={Purchase.SPOT: amount(0.9, "fraction")})


def test_a_list_price_in_an_unknown_currency_is_passed_over_where_another_is_usable() -> None:
    listed = _tokens(input=amount(1e-6, "EUR/token"))
    other = TokenPrice(provider="other", model="m", input=amount(2e-6, "USD/token"), output=None)
    found = priced(price_book([listed, other]), TokenWanted(model="m", kind=TokenKind.INPUT))
    assert isinstance(found, Figure)
    assert found.value == 2e-6
    assert isinstance(priced(price_book([listed]), TokenWanted(model="m", kind=TokenKind.INPUT)), MissingPrice)
