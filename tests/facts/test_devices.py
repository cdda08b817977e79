"""The packaged devices: every fact dated and sourced, and no fact that violates physics or bookkeeping."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence
from ullage.facts.device import DEVICES, PRECISIONS, Device, device_of, devices, find_device

TODAY = datetime.date(2026, 11, 15)
ALL = [device_of(sheet) for sheet in devices()]
each_device = pytest.mark.parametrize("device", ALL, ids=lambda device: device.name)


def number(fact: Assumption) -> float:
    assert not isinstance(fact.value, str)
    return fact.value


def every_fact(device: Device) -> list[Assumption]:
    return [*devices().sheets[device.name].values.values(), *(each.devices for each in device.instances)]


def test_there_are_at_least_25() -> None:
    assert len(ALL) >= 25


@each_device
def test_every_fact_is_positive_dated_and_sourced(device: Device) -> None:
    for fact in every_fact(device):
        assert number(fact) > 0
        assert fact.source.what
        assert fact.source.where
        assert datetime.date(2020, 1, 1) <= fact.source.date <= TODAY
        assert fact.evidence in (Evidence.MEASURED, Evidence.ESTIMATED, Evidence.ASSUMED)
        assert (fact.evidence is Evidence.ASSUMED) == (fact.source.where == "unconfirmed")


@each_device
def test_a_narrower_format_is_never_slower(device: Device) -> None:
    """fp4 >= fp8 >= bf16. Int8 stands apart: on Blackwell Ultra it was all but removed."""
    rates = [number(device.dense_rates[each]) for each in ("bf16", "fp8", "fp4") if each in device.dense_rates]
    assert rates == sorted(rates)


@each_device
def test_rates_are_dense(device: Device) -> None:
    """A sparse rate that leaked in would make fp8 four times bf16; fp4 may be up to three times fp8 (B300)."""
    bf16, fp8 = device.dense_rate_flops("bf16"), device.dense_rate_flops("fp8")
    assert bf16 is not None
    if fp8 is not None:
        assert fp8 <= 2.05 * bf16


@each_device
def test_the_driver_reports_no_more_than_is_sold(device: Device) -> None:
    """Vendors' GB are GiB here: the H100's 80 GB are 81,559 MiB. Drivers may show up to 0.2 % of rounding."""
    sold = device.marketing_memory
    assert device.memory_bytes <= number(sold) * 1.002
    assert device.memory_bytes >= 0.9 * float(sold.low if sold.low is not None else number(sold))


@each_device
def test_nothing_measured_beats_the_peak(device: Device) -> None:
    values = devices().find(device.name, field="device").values
    for precision in PRECISIONS:
        peak, reached = device.dense_rate_flops(precision), values.get(f"{precision}_achieved")
        if reached is not None:
            assert peak is not None
            assert 0.4 * peak <= number(reached) <= peak
    if "memory_bandwidth_achieved" in values:
        assert number(values["memory_bandwidth_achieved"]) <= device.memory_bandwidth_bytes_per_s


@each_device
def test_links_are_slower_than_memory_and_counted_in_one_direction(device: Device) -> None:
    if device.link_bandwidth_bytes_per_s is not None:
        assert device.link_bandwidth_bytes_per_s < device.memory_bandwidth_bytes_per_s
        assert device.link_bandwidth_bytes_per_s <= 900e9, "NVLink 5 is 900 GB/s in one direction"


@each_device
def test_the_machine_balance_is_that_of_an_accelerator(device: Device) -> None:
    """Operations per byte of memory traffic: a slip of a thousand in either unit would leave this range."""
    bf16 = device.dense_rate_flops("bf16")
    assert bf16 is not None
    assert 30 <= bf16 / device.memory_bandwidth_bytes_per_s <= 700


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100", "h100-sxm"),
        ("h100-sxm", "h100-sxm"),
        ("H100-SXM5-80GB", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("A100 80GB", "a100-80gb-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA L40S", "l40s"),
        ("AMD Instinct MI300X", "mi300x"),
        ("b200", "b200-sxm"),
        ("Trillium", "tpu-v6e"),
    ],
)
def test_devices_are_found_by_the_names_people_and_drivers_use(name: str, found: str) -> None:
    assert find_device(name).name == found


@pytest.mark.parametrize(
    ("name", "found", "others"),
    [
        ("h100", "h100-sxm", ("h100-nvl", "h100-pcie")),
        ("a100", "a100-80gb-sxm", ("a100-40gb-sxm", "a100-80gb-pcie")),
        ("h200", "h200-sxm", ()),
        ("h100-pcie", "h100-pcie", ()),
    ],
)
def test_a_bare_name_is_the_one_in_most_servers_and_names_the_others(
    name: str, found: str, others: tuple[str, ...]
) -> None:
    assert devices().find(name).name == found
    assert devices().alternatives(name) == others


def test_a_device_nobody_knows_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"device = 'h300'.*h100.*add-a-device"):
        find_device("h300")


def test_a_users_value_wins_and_carries_the_users_source() -> None:
    mine = """
[sources.ours]
what = "nvidia-smi on our nodes"
where = "node-7"
date = 2026-10-01
evidence = "measured"
[values]
memory = { value = "79.3 GiB", source = "ours" }
"""
    overlaid = devices().overlaid({"h100-sxm.toml": mine})
    device = find_device("H100", overlaid)
    assert device.memory.source.where == "node-7"
    assert device.memory_bytes == round(79.3 * 2**30)
    assert device.memory_bandwidth == find_device("H100").memory_bandwidth


@pytest.mark.parametrize("field", [*DEVICES.fields], ids=str)
def test_every_field_is_stated_by_some_device(field: str) -> None:
    assert any(field in sheet.values for sheet in devices()), f"{field} is dead weight in the schema"


CSV_NAMES = {
    "A100-40GB-SXM": "a100-40gb-sxm",
    "A100-80GB-SXM": "a100-80gb-sxm",
    "A100-80GB-PCIe": "a100-80gb-pcie",
    "H100-SXM-80GB": "h100-sxm",
    "H100-PCIe-80GB": "h100-pcie",
    "H100-NVL-94GB": "h100-nvl",
    "H200-SXM-141GB": "h200-sxm",
    "GH200-96/144": "gh200-96gb",
    "B200-SXM": "b200-sxm",
    "B300-SXM": "b300-sxm",
    "RTX-PRO-6000-Blackwell-Server": "rtx-pro-6000",
    "TPU7x-Ironwood": "tpu7x",
}


def test_the_published_table_is_covered_and_lies_in_our_ranges(shared_data: Path) -> None:
    """Every row of the collected table has a sheet, whose value or range holds the table's figure."""
    with (shared_data / "accelerators" / "accelerators.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 25
    scales = {
        "hbm_bw_GBps": ("memory_bandwidth", 1e9),
        "bf16_dense_TFLOPs": ("bf16_dense", 1e12),
        "fp8_dense_TFLOPs": ("fp8_dense", 1e12),
        "fp4_dense_TFLOPs": ("fp4_dense", 1e12),
        "scaleup_uni_GBps": ("link_bandwidth", 1e9),
        "pcie_uni_GBps": ("pcie_bandwidth", 1e9),
        "tdp_W": ("power", 1.0),
    }
    for row in rows:
        values = devices().find(CSV_NAMES.get(row["name"], row["name"])).values
        for column, (key, scale) in scales.items():
            if row[column]:
                fact, stated = values[key], float(row[column]) * scale
                low = fact.low if fact.low is not None else number(fact)
                high = fact.high if fact.high is not None else number(fact)
                assert low * 0.998 <= stated <= high * 1.002, (row["name"], column)


def test_precisions_are_listed_widest_first() -> None:
    assert PRECISIONS == ("bf16", "fp8", "fp4", "int8")
