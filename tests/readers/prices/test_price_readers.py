"""Price files: each format read, its traps found, what is dropped counted, a cut or foreign file refused by name."""

from __future__ import annotations

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.cost.charges import ChargeRow, Period
from ullage.emit.focus import focus_csv
from ullage.errors import InputError
from ullage.evidence import Evidence, Figure
from ullage.prices.book import DevicePrice, MissingPrice, PriceBook, Tier, TokenKind
from ullage.prices.lookup import priced
from ullage.prices.offers import Offer, cheapest
from ullage.prices.price_list import PriceList
from ullage.prices.purchase import Purchase
from ullage.prices.wanted import DeviceWanted, RateWanted, TokenWanted
from ullage.readers.prices import PRICE_READERS, read_bytes, read_prices
from ullage.readers.prices.price_file import PriceProvenance

DATED = PriceProvenance(dated=datetime.date(2026, 11, 1))

CATALOGUE_HEADER = (
    "provider,instance,gpu,gpu_count,region,zone,price_kind,on_demand_usd_h,spot_usd_h,on_demand_per_gpu,spot_per_gpu,"
    "catalog_date\n"
)
HISTORY_HEADER = "date,provider,instance,region,gpu,gpu_count,on_demand_usd_h,spot_min_az,spot_max_az,n_az\n"
SKYPILOT_HEADER = (
    "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice\n"
)
TOKENS_HEADER = (
    "model,provider,mode,input_usd_per_mtok,output_usd_per_mtok,cache_read_usd_per_mtok,cache_write_usd_per_mtok,"
    "batch_in,batch_out,priority_in,flex_in,max_input,max_output,source\n"
)
FOCUS_HEADER = (
    "BilledCost,EffectiveCost,ProviderName,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,RegionId,"
    "ConsumedQuantity,ConsumedUnit,SkuId,SkuPriceDetails,CommitmentDiscountStatus,ChargeDescription\n"
)
PLAIN_HEADER = (
    "what,name,provider,region,zone,instance,devices,purchase,tier,kind,price,upfront,interruptions_per_hour,date,"
    "source\n"
)
LITELLM = {
    "sample_spec": {"litellm_provider": "one of the providers", "mode": "chat"},
    "gpt-x": {
        "litellm_provider": "openai",
        "mode": "chat",
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_batches": 6.25e-07,
        "output_cost_per_token_batches": 5e-06,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "input_cost_per_token_priority": 2.5e-06,
        "source": "https://example.org/prices",
    },
    "azure/gpt-x": {
        "litellm_provider": "azure",
        "mode": "chat",
        "input_cost_per_token": 1.3e-06,
        "output_cost_per_token": 1e-05,
    },
    "free": {"litellm_provider": "acme", "mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0},
    "pictures": {"litellm_provider": "acme", "mode": "image_generation", "output_cost_per_image": 0.04},
}
SAMPLES = {
    "gpu_catalogue": CATALOGUE_HEADER
    + "aws,p5.48xlarge,H100,8.0,us-east-1,use1-az1,instance,55.04,20.28,6.88,2.5,2026-08-22\n",
    "gpu_history": HISTORY_HEADER + "2023-07-29,aws,p5.48xlarge,us-east-1,H100,8.0,98.32,68.824,68.824,1\n",
    "skypilot": SKYPILOT_HEADER + "p5.48xlarge,192.0,2048.0,H100,8.0,,us-east-1,use1-az1,55.04,20.28\n",
    "litellm_csv": TOKENS_HEADER + "azure/gpt-x,azure,chat,1.25,10.0,0.125,,0.625,5.0,2.5,0.625,272000,128000,\n",
    "litellm_json": json.dumps(LITELLM),
    "focus": FOCUS_HEADER
    + "0.0,330.24,Amazon Web Services,USD,Usage,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,us-east-1,8.0,Hours,"
    + 'ABC,"{""InstanceType"": ""p5.48xlarge""}",Used,\n',
    "plain": PLAIN_HEADER + "device,h100,acme,berlin,,box,8,1y-no-upfront,,,41.30 EUR/h,,,2026-11-01,our contract\n",
}


def _read(text: str, provenance: PriceProvenance = DATED, file: str = "aws/vms.csv") -> PriceList:
    return read_bytes(text.encode(), file=file, provenance=provenance)


def _hour(book: PriceBook, **constraints: object) -> float:
    found = priced(book, DeviceWanted(device="h100-sxm", **constraints))  # type: ignore[arg-type]
    assert isinstance(found, Figure), found
    return float(found.value)


def test_there_is_a_sample_of_every_format() -> None:
    assert set(SAMPLES) == set(PRICE_READERS)


@pytest.mark.parametrize("name", PRICE_READERS)
def test_a_file_is_recognised_by_one_reader_and_read(name: str) -> None:
    found = _read(SAMPLES[name])
    assert found.format == PRICE_READERS[name].what
    assert len(found.book) >= 1
    for price in found.book:
        for each in price.amounts:
            assert each.source.date <= datetime.date(2026, 11, 15)
            assert each.max_age is not None
    packed = read_bytes(gzip.compress(SAMPLES[name].encode(), mtime=0), file="aws/vms.csv", provenance=DATED)
    assert [each.key for each in packed.book] == [each.key for each in found.book]


@pytest.mark.parametrize("name", sorted(set(PRICE_READERS) - {"litellm_json"}))
def test_a_cut_row_is_named_by_its_line(name: str) -> None:
    cut = SAMPLES[name].rstrip("\n").rpartition(",")[0]
    with pytest.raises(InputError, match=r"vms\.csv:2 = .*has not as many cells as the header"):
        _read(cut)


@pytest.mark.parametrize(
    ("name", "good", "bad", "problem"),
    [
        ("gpu_catalogue", ",55.04,", ",-55.04,", "on_demand_usd_h = -55.04': is not an amount"),
        ("gpu_catalogue", "2026-08-22", "August", "catalog_date = August': is not a date"),
        ("gpu_history", "98.32", "USD 98", "on_demand_usd_h = USD 98': is not an amount"),
        ("skypilot", "55.04", "55,04".replace(",", ";"), "Price = 55;04': is not an amount"),
        ("litellm_csv", ",1.25,", ",x,", "input_usd_per_mtok = x': is not an amount"),
        ("plain", "41.30 EUR/h", "41.30 EUR", "does not say per what"),
        ("plain", "41.30 EUR/h", "41.30 EUR/Mtok", "is a price per Mtok, where one per h"),
        ("plain", "41.30 EUR/h", "$41.30", "is not an amount of money"),
        ("plain", "1y-no-upfront", "yearly", "'yearly': is not known"),
        ("plain", ",8,", ",8.5,", "is not a number of devices"),
        ("plain", "h100,", "h1000,", "'h1000': is not known"),
        ("plain", ",acme,", ",,", "provider = '': is missing"),
        ("plain", "device,h100", "machine,h100", "'machine': is not known"),
        ("plain", "2026-11-01", "", "is not a date"),
    ],
)
def test_a_wrong_cell_is_an_error_that_names_it(name: str, good: str, bad: str, problem: str) -> None:
    text = SAMPLES[name].partition("\n")[0] + "\n" + SAMPLES[name].partition("\n")[2].replace(good, bad, 1)
    with pytest.raises(InputError, match=problem):
        _read(text)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n", "is not in a known price format"),
        (b'{"a": 1}', "is not in a known price format"),
        (b'[{"id": "acme", "models": [{"id": "m", "prices": {"input_mtok": 2}}]}]', "is not in a known price format"),
        (b'[{"id": "acme", ', "is not JSON"),
        (b"line_item_usage_start_date,line_item_unblended_cost,line_item_currency_code\n", "AWS Cost and Usage Report"),
        (b"usage_start_time,cost,currency,credits\n", "is a Google Cloud billing export"),
        (b"Date,CostInBillingCurrency,MeterId\n", "is an Azure cost export"),
        (b'{"formatVersion": "v1.0", "offerCode": "AmazonEC2", "products": {}}', "is an AWS price list"),
        (b'{"BillingCurrency": "USD", "Items": []}', "is a page of Azure's retail prices"),
        (b'{"skus": []}', "is a page of Google Cloud's price catalogue"),
        (b'{"code": 200, "data": []}', "is an answer of OpenCost's or Kubecost's allocation API"),
        (b'{"a": ', "is not JSON"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-12], "is cut short"),
    ],
)
def test_a_foreign_file_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_bytes(data, file="prices.csv", provenance=DATED)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_prices(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["skypilot", "litellm_csv", "litellm_json"])
def test_a_format_without_a_date_asks_for_one(name: str) -> None:
    with pytest.raises(InputError, match="does not state the date of its prices"):
        _read(SAMPLES[name], PriceProvenance())


# ---- catalogues of devices -----------------------------------------------------------------------------


def _catalogue(*rows: str) -> PriceList:
    return _read(CATALOGUE_HEADER + "".join(f"{row}\n" for row in rows))


def test_a_price_is_of_the_instance_and_shared_by_its_devices() -> None:
    found = _catalogue("aws,p5.48xlarge,H100,8.0,us-east-1,use1-az1,instance,55.04,20.28,6.88,2.5,2026-08-22")
    assert _hour(found.book, purchases=(Purchase.ON_DEMAND,)) == pytest.approx(6.88)
    assert _hour(found.book, purchases=(Purchase.SPOT,)) == pytest.approx(20.28 / 8)
    (on_demand, spot) = found.book.devices["h100-sxm"]
    assert (on_demand.zone, spot.zone) == ("", "use1-az1")
    assert on_demand.hourly.evidence is Evidence.ESTIMATED


@pytest.mark.parametrize(
    ("row", "device"),
    [
        ("aws,p4d.24xlarge,A100,8.0", "a100-40gb-sxm"),
        ("aws,p4de.24xlarge,A100-80GB,8.0", "a100-80gb-sxm"),
        ("azure,Standard_NC40ads_H100_v5,H100,1.0", "h100-nvl"),
        ("azure,Standard_NC24ads_A100_v4,A100-80GB,1.0", "a100-80gb-pcie"),
        ("lambda,gpu_1x_h100_pcie,H100,1.0", "h100-pcie"),
        ("lambda,gpu_1x_h100_sxm5,H100,1.0", "h100-sxm"),
        ("runpod,1x_H100_SECURE,H100,1.0", "h100-pcie"),
        ("runpod,1x_H100-SXM_SECURE,H100-SXM,1.0", "h100-sxm"),
        ("gcp,,H100-MEGA,8.0", "h100-sxm"),
        ("cudo,epyc-genoa-a100-pcie_1x4v8gb,A100-80GB,1.0", "a100-80gb-pcie"),
        ("hyperstack,n3-A100x8-NVLink,A100-80G-PCIe-NVLink,8.0", "a100-80gb-pcie"),
        ("hyperstack,n3-H100x1,H100-80G-PCIe,1.0", "h100-pcie"),
        ("hyperstack,n3-H100-SXM5x8,H100-80G-SXM5,8.0", "h100-sxm"),
        ("vast,1x-RTX_PRO_6000_WS-32-65536,RTXPRO6000WS,1.0", "rtx-pro-6000"),
    ],
)
def test_a_device_is_told_by_its_instance(row: str, device: str) -> None:
    found = _catalogue(f"{row},somewhere,,instance,30.0,,,,2026-08-22")
    assert list(found.book.devices) == [device]


def test_a_count_that_our_facts_know_better_is_an_anomaly() -> None:
    found = _catalogue("azure,Standard_ND96isr_H100_v5,H100,12.0,eastus,,instance,98.32,98.32,8.19,8.19,2026-08-22")
    (anomaly,) = found.anomalies
    assert str(anomaly) == (
        "a count of devices that our facts know otherwise: 1 row, such as azure Standard_ND96isr_H100_v5 eastus:"
        " 12 h100-sxm here, 8 there; the count of the facts is used."
    )
    assert _hour(found.book) == pytest.approx(98.32 / 8)


def test_fillers_floors_and_parts_are_no_prices_and_are_counted() -> None:
    found = _catalogue(
        "runpod,1x_L40S_SECURE,L40S,1.0,US,US-CA-1,instance,0.99,0.99,,,2026-08-22",
        "vast,1x-H200-32,H200,1.0,France,,instance,2.35,0.0,,,2026-08-22",
        "mithril,h100-80gb.sxm.8x,H100,8.0,us,,instance,0.08,0.08,,,2026-08-22",
        "aws,g6f.2xlarge,L4,0.25,us-east-1,a,instance,0.68,0.18,,,2026-08-22",
        "aws,p5.4xlarge,H100,0.0,us-east-1,a,instance,6.88,1.02,,,2026-08-22",
        "aws,p6-b200.48xlarge,NVIDIA,8.0,us-east-1,a,instance,113.9,,,,2026-08-22",
        "aws,x9.large,X900,1.0,us-east-1,a,instance,1.0,,,,2026-08-22",
        "aws,p5e.48xlarge,H200,8.0,us-west-2,a,instance,,24.5,,,2026-08-22",
    )
    assert found.dropped == {
        "a device that is not in the catalogue": 1,
        "a part of a device": 1,
        "no count of devices": 1,
        "no on-demand price": 1,
        "no spot price": 1,
        "on demand at the floor of an auction, or 0": 1,
        "spot at the floor of an auction, or 0": 2,
        "spot that repeats the on-demand price": 1,
    }
    assert sorted((each.device, str(each.purchase)) for each in found.book if isinstance(each, DevicePrice)) == [
        ("b200-sxm", "on-demand"),
        ("h200-sxm", "on-demand"),
        ("h200-sxm", "spot"),
        ("l40s", "on-demand"),
    ]


_COUNTS = st.sampled_from(["", "0", "0.25", "1", "8", "12"])
_AMOUNTS = st.sampled_from(["", "0", "0.01", "2.5", "20.0", "20.01", "55.04"])
_ROWS = st.builds(
    lambda instance, count, zone, on_demand, spot: (
        f"aws,{instance},us-east-1,{zone},instance,{on_demand},{spot},,,2026-08-22".replace("#", count)
    ),
    st.sampled_from(["p5.48xlarge,H100,#", "p4d.24xlarge,A100,#", "g6.xlarge,L4,#", "x9,X900,#"]),
    _COUNTS,
    st.sampled_from(["", "a", "b"]),
    _AMOUNTS,
    _AMOUNTS,
)


@given(st.lists(_ROWS, max_size=12))
def test_every_row_gives_two_prices_or_is_counted_whatever_it_holds(rows: list[str]) -> None:
    found = _catalogue(*rows)
    whole = {"no count of devices", "a part of a device", "a device that is not in the catalogue", "no price"}
    lost = sum(count for reason, count in found.dropped.items() if reason in whole)
    other = sum(count for reason, count in found.dropped.items() if reason not in whole)
    assert len(found.book) + other == 2 * (len(rows) - lost)
    assert all(float(each.amounts[0].value) > 0 for each in found.book)


def test_google_prices_devices_without_their_machine() -> None:
    found = _catalogue("gcp,,H100,8.0,us-central1,us-central1-a,gpu-only(add VM),78.37,47.02,,,2026-08-21")
    missing = cheapest(found.book, DeviceWanted(device="h100-sxm"))
    assert isinstance(missing, MissingPrice)
    assert "host a3-highgpu-8g gcp us-central1" in str(missing)


def test_skypilots_machine_completes_googles_devices() -> None:
    rows = (
        "a3-highgpu-8g,208.0,1872.0,,,,us-central1,us-central1-a,9.46006,5.6759\n"
        ",,,H100,8,,us-central1,us-central1-a,78.3724,47.0232\n"
        "n2-standard-8,8.0,32.0,,,,us-central1,us-central1-a,0.38,0.1\n"
    )
    found = _read(SKYPILOT_HEADER + rows, file="gcp/vms.csv")
    assert _hour(found.book, purchases=(Purchase.ON_DEMAND,)) == pytest.approx((78.3724 + 9.46006) / 8)
    assert _hour(found.book, purchases=(Purchase.SPOT,)) == pytest.approx((47.0232 + 5.6759) / 8)
    assert found.dropped == {"no device in it": 1}


def test_skypilots_file_says_no_provider_but_by_its_folder() -> None:
    with pytest.raises(InputError, match="does not name its provider"):
        _read(SAMPLES["skypilot"], file="prices.csv")
    provenance = PriceProvenance(dated=DATED.dated, provider="aws")
    assert _read(SAMPLES["skypilot"], provenance, file="prices.csv").book.providers == ("aws",)


def test_a_history_is_read_as_it_stood_on_a_day() -> None:
    text = HISTORY_HEADER + (
        "2023-07-29,aws,p5.48xlarge,us-east-1,H100,8.0,98.32,68.8,70.0,1\n"
        "2025-08-23,aws,p5.48xlarge,us-east-1,H100,8.0,55.04,17.78,21.9,6\n"
        "2023-07-29,aws,p4d.24xlarge,us-east-1,A100,8.0,32.77,20.0,21.0,1\n"
    )
    then = _read(text, PriceProvenance(on=datetime.date(2023, 8, 1)))
    assert _hour(then.book, purchases=(Purchase.ON_DEMAND,)) == pytest.approx(12.29)
    now = _read(text, PriceProvenance())
    assert _hour(now.book, purchases=(Purchase.ON_DEMAND,)) == pytest.approx(6.88)
    (_, spot) = now.book.devices["h100-sxm"]
    assert (spot.hourly.value, spot.hourly.low, spot.hourly.high) == (17.78, 17.78, 21.9)
    assert now.dropped["not listed in the eight weeks until that day"] == 1
    with pytest.raises(InputError, match="is before its first day; it holds 2023-07-29 to 2025-08-23"):
        _read(text, PriceProvenance(on=datetime.date(2023, 7, 1)))


# ---- tokens --------------------------------------------------------------------------------------------


def _token(book: PriceBook, model: str, kind: TokenKind, provider: str = "", **more: object) -> float | None:
    found = priced(book, TokenWanted(model=model, kind=kind, provider=provider, **more))  # type: ignore[arg-type]
    return float(found.value) if isinstance(found, Figure) else None


def test_litellms_catalogue_by_tier_and_length() -> None:
    found = _read(SAMPLES["litellm_json"])
    book = found.book
    assert _token(book, "gpt-x", TokenKind.INPUT, "openai") == 1.25e-06
    assert _token(book, "gpt-x", TokenKind.INPUT, "azure") == 1.3e-06
    assert _token(book, "gpt-x", TokenKind.CACHED_READ, "openai") == 1.25e-07
    assert _token(book, "gpt-x", TokenKind.CACHE_WRITE, "openai") is None
    assert _token(book, "gpt-x", TokenKind.OUTPUT, "openai", tier=Tier.BATCH) == 5e-06
    assert _token(book, "gpt-x", TokenKind.OUTPUT, "openai", prompt_tokens=250_000) == 1.5e-05
    assert _token(book, "gpt-x", TokenKind.INPUT, "openai", tier=Tier.PRIORITY) == 2.5e-06
    assert _token(book, "gpt-x", TokenKind.OUTPUT, "openai", tier=Tier.PRIORITY) is None
    assert found.rows == 4
    assert found.dropped == {"mode image_generation": 1, "no price, or 0": 1}


def test_the_table_is_per_million_and_the_catalogue_per_token() -> None:
    book = _read(SAMPLES["litellm_csv"]).book
    assert _token(book, "gpt-x", TokenKind.INPUT, "azure") == pytest.approx(1.25e-06)
    assert _token(book, "gpt-x", TokenKind.INPUT, "azure", tier=Tier.FLEX) == pytest.approx(0.625e-06)


def test_a_price_in_another_unit_is_dropped_and_never_rescaled() -> None:
    rows = "jais-30b,azure_ai,chat,3200.0,9710.0,,,,,,,8192,8192,\nrouter,azure,chat,0.14,0.0,,,,,,,1,1,\n"
    found = _read(TOKENS_HEADER + rows + "odd,acme,chat,5.0,0.15,,,,,,,1,1,\n")
    assert found.dropped == {"above any known price: likely another unit": 1}
    assert _token(found.book, "jais-30b", TokenKind.INPUT) is None
    assert _token(found.book, "router", TokenKind.OUTPUT) is None
    assert _token(found.book, "router", TokenKind.INPUT) == pytest.approx(0.14e-6)
    assert [each.what for each in found.anomalies] == [
        "above any known price",
        "0 for a price",
        "output cheaper than input",
    ]


def test_an_absent_litellm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="is not installed, or has no catalogue in it"):
        read_prices("litellm", DATED)


def test_the_installed_litellm_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model_prices_and_context_window_backup.json").write_text(SAMPLES["litellm_json"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.2.3")
    found = read_prices("litellm", DATED)
    assert found.file == "litellm 1.2.3"
    assert _token(found.book, "gpt-x", TokenKind.INPUT, "openai") == 1.25e-06


# ---- what was really paid ------------------------------------------------------------------------------


def _charge(cost: float, hours: float, status: str = "", unit: str = "Hours", category: str = "Usage") -> str:
    start = f"0.0,{cost},Amazon Web Services,USD,{category},2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,us-east-1,"
    return f"{start}{hours},{unit},ABC,,{status},p5.48xlarge Linux on demand\n"


def test_an_effective_price_is_cost_over_hours_of_all_use() -> None:
    found = _read(FOCUS_HEADER + _charge(440.0, 8.0, "Used") + _charge(100.0, 4.0))
    (price,) = found.book.devices["h100-sxm"]
    assert (price.provider, price.region, price.purchase) == ("aws", "us-east-1", Purchase.BILLED)
    assert price.hourly.value == pytest.approx(45.0)
    assert price.hourly.evidence is Evidence.MEASURED
    assert price.hourly.source.date == datetime.date(2026, 10, 2)


@pytest.mark.parametrize(
    ("hours", "unit"),
    [(8.0, "Hrs"), (8.0, "1 Hour"), (480.0, "Minutes"), (28800.0, "seconds"), (8.0, "Instance-Hours")],
)
def test_time_is_read_in_every_unit_of_it(hours: float, unit: str) -> None:
    found = _read(FOCUS_HEADER + _charge(440.0, hours, unit=unit))
    assert found.book.devices["h100-sxm"][0].hourly.value == pytest.approx(55.0)


def test_a_correction_lowers_what_was_paid_and_never_below_nothing() -> None:
    found = _read(FOCUS_HEADER + _charge(440.0, 8.0) + _charge(-40.0, 2.0))
    assert found.book.devices["h100-sxm"][0].hourly.value == pytest.approx(40.0)
    gone = _read(FOCUS_HEADER + _charge(440.0, 8.0) + _charge(-440.0, 8.0))
    assert (len(gone.book), gone.dropped) == (0, {"paid back as much as was charged": 1})


def test_what_is_no_use_by_the_hour_is_counted_and_unused_commitments_are_reported() -> None:
    other = "1.0,1.0,AWS,USD,Usage,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,us-east-1,1.0,GB-Mo,S3,,,storage\n"
    found = _read(
        FOCUS_HEADER
        + _charge(440.0, 8.0)
        + _charge(90.0, 2.0, "Unused")
        + _charge(9.0, 1.0, category="Tax")
        + _charge(9.0, 100.0, unit="Requests")
        + other
    )
    assert found.dropped == {
        "an unused commitment": 1,
        "no instance with a device that is known": 1,
        "not by time: Requests": 1,
        "not use: Tax": 1,
    }
    (anomaly,) = found.anomalies
    assert "a commitment that nothing used: 1 row, such as p5.48xlarge: 90.0" in str(anomaly)


def test_what_we_write_as_focus_is_read_back_at_its_price() -> None:
    month = Period(
        start=datetime.datetime(2026, 10, 1, tzinfo=datetime.UTC),
        end=datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
    )
    charge = ChargeRow(
        provider="aws",
        service="Self-hosted inference",
        service_category="Compute",
        service_subcategory="Virtual Machines",
        sku="p5.48xlarge",
        description="steady replicas",
        category="Usage",
        pricing="Standard",
        quantity=Decimal("744.5"),
        unit="Hours",
        list=Decimal("40977.28"),
        contracted=Decimal("36879.55"),
        billed=Decimal("36879.55"),
        effective=Decimal("36879.55"),
        period=month,
        billing_period=month,
        region="us-east-1",
    )
    found = _read(focus_csv([charge, charge], account_id="svc"))
    (price,) = found.book.devices["h100-sxm"]
    assert price.hourly.value == pytest.approx(36879.55 / 744.5)
    assert price.region == "us-east-1"


# ---- our own layout ------------------------------------------------------------------------------------


def test_our_own_layout_holds_devices_tokens_and_items() -> None:
    rows = (
        "device,h100,acme,berlin,,box,8,1y-partial-upfront,,,8 USD/h,70080 USD,,2026-11-01,our contract\n"
        "device,h100,acme,berlin,,box,8,spot,,,8 USD/h,,0.01,2026-11-01,\n"
        "token,llama,acme,,,,,,batch,cached read,0.40 USD/Mtok,,,2026-11-01,offer\n"
        "token,llama,acme,,,,,,batch,output,0.90 USD/Mtok,,,2026-11-01,offer\n"
        "item,tool-call search,acme,,,,,,,,5 USD/kcall,,,2026-11-01,offer\n"
        "item,egress,,,,,,,,,0.05 USD/GB,,,2026-11-01,offer\n"
    )
    found = _read(PLAIN_HEADER + rows)
    book = found.book
    assert _hour(book, purchases=(Purchase.ONE_YEAR_PARTIAL,)) == pytest.approx(2.0)
    assert _token(book, "llama", TokenKind.CACHED_READ, tier=Tier.BATCH) == pytest.approx(4e-7)
    assert _token(book, "llama", TokenKind.OUTPUT, tier=Tier.BATCH) == pytest.approx(9e-7)
    call = priced(book, RateWanted(item="tool-call", name="search", provider="acme"))
    assert isinstance(call, Figure)
    assert call.value == 0.005
    assert isinstance(priced(book, RateWanted(item="tool-call", name="maps", provider="acme")), MissingPrice)
    offer = cheapest(book, DeviceWanted(device="h100-sxm", purchases=(Purchase.SPOT,)))
    assert isinstance(offer, Offer)
    assert offer.price.amounts[0].evidence is Evidence.STATED
    assert offer.price.amounts[0].source.where == "aws/vms.csv:3"


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"column = 'purchse': is not known. Did you mean purchase"):
        _read("what,name,purchse,price,date\n")


def test_the_same_token_twice_is_an_error() -> None:
    row = "token,llama,acme,,,,,,,input,0.40 USD/Mtok,,,2026-11-01,offer\n"
    with pytest.raises(InputError, match=r"price.acme.llama.standard.input': is priced twice"):
        _read(PLAIN_HEADER + row + row)


def test_upfront_without_a_term_is_an_error() -> None:
    row = "device,h100,acme,,,,8,on-demand,,,8 USD/h,500 USD,,2026-11-01,\n"
    with pytest.raises(InputError, match="which has no term to spread it over"):
        _read(PLAIN_HEADER + row)
