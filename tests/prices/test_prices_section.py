"""`prices:` of a plan file: own prices first, files next, ours last; dated rates; wrong names with the nearest."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.evidence import Evidence, Figure
from ullage.load.plan import load_plan
from ullage.planning.spec import PlanSpec
from ullage.prices.book import MissingPrice, PriceBook, Tier, TokenKind
from ullage.prices.lookup import priced
from ullage.prices.purchase import Purchase
from ullage.prices.wanted import DeviceWanted, RateWanted, TokenWanted, Wanted

DAY = datetime.date(2026, 11, 15)
PLAN = """\
version: 1
service: test
dated: 2026-11-10
workload:
  classes:
    - {name: chat, rate: 2 req/s, longest_context: 8192, slo: {ttft_p95: 1s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


def _spec(folder: Path, prices: str = "") -> PlanSpec:
    file = folder / "plan.yaml"
    file.write_text(PLAN + prices)
    return load_plan(file, as_of=DAY)


def _book(folder: Path, prices: str = "") -> PriceBook:
    book = _spec(folder, prices).prices
    assert book is not None
    return book


def _usd(book: PriceBook, wanted: Wanted) -> float:
    found = priced(book, wanted)
    assert isinstance(found, Figure), found
    return float(found.value)


def test_nothing_said_is_our_lists_on_demand(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    assert spec.buying.providers == ()
    assert list(spec.buying.mix.shares) == [Purchase.ON_DEMAND]
    assert spec.prices is not None
    assert _usd(spec.prices, DeviceWanted(device="h100-sxm", providers=("lambda",))) == pytest.approx(3.99)


def test_where_and_how_to_buy(tmp_path: Path) -> None:
    prices = """\
prices:
  provider: aws
  region: us-east-1
  purchase: {on-demand: 60%, spot: 40%}
  tier: batch
  spot_lost: 10min
"""
    buying = _spec(tmp_path, prices).buying
    assert (buying.providers, buying.regions, buying.tier) == (("aws",), ("us-east-1",), Tier.BATCH)
    assert {each: share.value for each, share in buying.mix.shares.items()} == {
        Purchase.ON_DEMAND: 0.6,
        Purchase.SPOT: 0.4,
    }
    assert all(share.decision and share.evidence is Evidence.STATED for share in buying.mix.shares.values())
    assert buying.lost is not None
    assert buying.lost.value == 600


def test_one_purchase_is_all_of_it(tmp_path: Path) -> None:
    shares = _spec(tmp_path, "prices: {purchase: spot, provider: [aws, nebius]}\n").buying.mix.shares
    assert {each: share.value for each, share in shares.items()} == {Purchase.SPOT: 1.0}


def test_own_prices_go_before_lists_with_their_own_date_and_currency(tmp_path: Path) -> None:
    prices = """\
prices:
  exchange:
    EUR: {rate: 1.25, dated: 2026-11-09, source: the central bank}
  discount: {aws: 10%}
  own:
    devices:
      - {device: H100, provider: aws, region: us-east-1, devices: 8, price: 40 EUR/h, dated: 2026-10-01, source: offer}
    tokens:
      - {provider: acme, model: llama, input: 0.4 USD/Mtok, cached_read: 0.1 USD/Mtok}
    items:
      egress: 0.05 USD/GB
      tool-call search: 5 USD/kcall
"""
    book = _book(tmp_path, prices)
    on_demand = DeviceWanted(
        device="h100-sxm", providers=("aws",), regions=("us-east-1",), purchases=(Purchase.ON_DEMAND,)
    )
    assert _usd(book, on_demand) == pytest.approx(40 * 1.25 / 8)
    listed = DeviceWanted(
        device="h200-sxm", providers=("aws",), regions=("us-east-1",), purchases=(Purchase.ON_DEMAND,)
    )
    assert _usd(book, listed) == pytest.approx(63.296 * 0.9 / 8)
    assert _usd(book, RateWanted(item="egress", provider="aws", region="us-east-1")) == pytest.approx(5e-11)
    assert _usd(book, RateWanted(item="tool-call", name="search")) == pytest.approx(0.005)
    assert _usd(book, TokenWanted(model="llama", kind=TokenKind.CACHED_READ)) == pytest.approx(1e-7)
    assert isinstance(priced(book, TokenWanted(model="llama", kind=TokenKind.OUTPUT)), MissingPrice)
    (own,) = [each for each in book.devices["h100-sxm"] if each.hourly.evidence is Evidence.STATED]
    assert (own.hourly.source.what, own.hourly.source.date) == ("offer", datetime.date(2026, 10, 1))


def test_a_currency_without_a_rate_is_not_priced_and_says_what_to_give(tmp_path: Path) -> None:
    prices = "prices: {own: {devices: [{device: b200, provider: acme, price: 9 EUR/h}]}}\n"
    found = priced(_book(tmp_path, prices), DeviceWanted(device="b200-sxm", providers=("acme",)))
    assert isinstance(found, MissingPrice)
    assert "prices.exchange.EUR" in str(found)


def test_a_machine_of_ones_own_takes_our_defaults_where_it_says_nothing(tmp_path: Path) -> None:
    prices = """\
prices:
  purchase: owned
  own:
    machines:
      - {device: b200, devices: 8, capex: 500000 USD, power: 9 kW, site: berlin, electricity: 0.20 USD/kWh, life: 1825d}
"""
    book = _book(tmp_path, prices)
    wanted = DeviceWanted(device="b200-sxm", regions=("berlin",), providers=("own",), purchases=(Purchase.OWNED,))
    found = priced(book, wanted)
    assert isinstance(found, Figure)
    (machine,) = [each for each in book.owned if each.device == "b200-sxm"]
    assert machine.electricity.evidence is Evidence.STATED
    assert machine.cooling.evidence is Evidence.ASSUMED
    wear = 500_000 * (1 - 0.10) / (1825 * 24)
    yearly = 500_000 * (0.05 + 1.10 / 2 * 0.08) / 8760
    energy, monthly = 9 * 1.54 * 0.20, (184.06 * 9 + 190) / 730
    assert found.value == pytest.approx((wear + yearly + energy + monthly) / 8)


def test_files_lie_between_own_prices_and_ours(tmp_path: Path) -> None:
    header = "what,name,provider,instance,devices,price,date,source\n"
    (tmp_path / "mine.csv").write_text(header + "device,h100,lambda,gpu_8x_h100_sxm5,8,16 USD/h,2026-11-01,contract\n")
    book = _book(tmp_path, "prices: {files: [{path: mine.csv}]}\n")
    assert _usd(book, DeviceWanted(device="h100-sxm", providers=("lambda",))) == pytest.approx(2.0)
    stated = (
        "own: {devices: [{device: h100, provider: lambda, instance: gpu_8x_h100_sxm5, devices: 8, price: 8 USD/h}]}"
    )
    book = _book(tmp_path, f"prices: {{files: [{{path: mine.csv}}], {stated}}}\n")
    assert _usd(book, DeviceWanted(device="h100-sxm", providers=("lambda",))) == pytest.approx(1.0)


def test_what_a_file_leaves_open_is_said_beside_it(tmp_path: Path) -> None:
    header = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
    (tmp_path / "list.csv").write_text(header + "p5.48xlarge,H100,8,48.0,,us-east-1\n")
    with pytest.raises(InputError, match="does not name its provider"):
        _book(tmp_path, "prices: {files: [{path: list.csv}]}\n")
    book = _book(tmp_path, "prices: {files: [{path: list.csv, provider: aws, dated: 2026-11-01}]}\n")
    wanted = DeviceWanted(
        device="h100-sxm",
        providers=("aws",),
        regions=("us-east-1",),
        instances=("p5.48xlarge",),
        purchases=(Purchase.ON_DEMAND,),
    )
    assert _usd(book, wanted) == pytest.approx(6.0)


def test_a_bill_prices_what_it_was_paid_for(tmp_path: Path) -> None:
    header = "EffectiveCost,ProviderName,BillingCurrency,ChargeCategory,ChargePeriodStart,RegionId,PricingQuantity,"
    rows = (
        "PricingUnit,SkuId\n480.0,Amazon Web Services,USD,Usage,2026-10-01T00:00:00Z,us-east-1,10.0,Hours,p5.48xlarge\n"
    )
    (tmp_path / "bill.csv").write_text(header + rows)
    spec = _spec(
        tmp_path, "prices: {provider: aws, purchase: billed, discount: {aws: 10%}, files: [{path: bill.csv}]}\n"
    )
    assert spec.prices is not None
    wanted = DeviceWanted(device="h100-sxm", providers=spec.buying.providers, purchases=tuple(spec.buying.mix.shares))
    assert _usd(spec.prices, wanted) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("prices", "problem"),
    [
        ("{provider: awss}", r"prices.provider = 'awss': is not known. Did you mean aws"),
        ("{provider: aws, region: us-esat-1}", r"prices.region = 'us-esat-1': is not known. Did you mean us-east-1"),
        ("{purchase: lease}", r"prices.purchase = 'lease': is not known"),
        ("{purchase: {on-demand: 60%}}", r"the shares sum to 0.6, not to 1"),
        ("{tier: fast}", r"prices.tier = 'fast': is not known"),
        ("{discount: {awss: 10%}}", r"prices.discount.awss = '10%': is not known. Did you mean aws"),
        ("{exchange: {euro: {rate: 1.1, dated: 2026-11-01}}}", r"'euro': is not another currency"),
        ("{exchange: {EUR: {rate: 1.1}}}", r"prices.exchange.EUR.dated.*is missing"),
        ("{exchange: {EUR: {rate: 1.1, date: 2026-11-01}}}", r"is not a known key. Did you mean dated or rate"),
        ("{own: {items: {egres: 1 USD/GB}}}", r"prices.own.items = 'egres': is not known. Did you mean egress"),
        ("{own: {items: {egress: 1 USD/h}}}", r"is a price per h, where one per GB or GiB"),
        ("{own: {items: {egress: 1}}}", r"is not an amount of money"),
        ("{own: {devices: [{device: h1000, provider: a, price: 1 USD/h}]}}", r"'h1000': is not known"),
        ("{own: {devices: [{device: h100, provider: a, price: 1 USD/h, upfront: 5 USD}]}}", r"has no term"),
        ("{own: {devices: [{device: h100, provider: a, prise: 1 USD/h}]}}", r"is not a known key. Did you mean price"),
        ("{files: [{path: none.csv}]}", r"cannot be read"),
        ("{purchas: spot}", r"is not a known key. Did you mean purchase"),
    ],
)
def test_a_wrong_statement_is_an_error_that_names_it(prices: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        _spec(tmp_path, f"prices: {prices}\n")
