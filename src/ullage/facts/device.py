"""Devices: what a sheet in devices/ holds, and the `Device` the stages compute with.

Three traps are kept out by the meaning of the fields. Rates are dense: a data sheet's sparse rate is twice
that. A link is counted in one direction: NVLink is advertised as the sum of both. Memory is what the driver
hands out, which is below the number on the box; where it is not published, the range is wider.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.evidence import Assumption
from ullage.facts.catalogue import Catalogue, packaged
from ullage.facts.sheet import Field, RowKind, Sheet, SheetKind

PRECISIONS = ("bf16", "fp8", "fp4", "int8")
"""The number formats whose dense matrix rate a device sheet may state, widest first."""

DEVICES = SheetKind(
    noun="device",
    folder="devices",
    howto="docs/howto/add-a-device.md",
    texts={"title": True, "vendor": True, "architecture": True, "link": False},
    listed={
        "architecture": "",
        "memory": "GiB",
        "memory_bandwidth": "TB/s",
        "bf16_dense": "TFLOP/s",
        "fp8_dense": "TFLOP/s",
        "fp4_dense": "TFLOP/s",
        "link_bandwidth": "GB/s",
        "power": "W",
    },
    fields={
        "memory": Field(
            unit="bytes", required=True, meaning="device memory that the driver reports in total, before any process"
        ),
        "marketing_memory": Field(unit="bytes", required=True, meaning="device memory as it is sold"),
        "memory_bandwidth": Field(unit="bytes/s", required=True, meaning="peak bandwidth of the device memory"),
        "bf16_dense": Field(unit="flop/s", required=True, meaning="peak dense bf16 matrix rate, without sparsity"),
        "fp8_dense": Field(unit="flop/s", meaning="peak dense fp8 matrix rate, without sparsity"),
        "fp4_dense": Field(unit="flop/s", meaning="peak dense fp4 matrix rate, without sparsity"),
        "int8_dense": Field(unit="op/s", meaning="peak dense int8 matrix rate, without sparsity"),
        "memory_bandwidth_achieved": Field(unit="bytes/s", meaning="highest memory bandwidth somebody measured on it"),
        "bf16_achieved": Field(unit="flop/s", meaning="highest bf16 matrix rate somebody measured on it"),
        "fp8_achieved": Field(unit="flop/s", meaning="highest fp8 matrix rate somebody measured on it"),
        "link_bandwidth": Field(
            unit="bytes/s", meaning="bandwidth to the other devices of its scale-up domain, in one direction, all links"
        ),
        "link_devices": Field(unit="count", meaning="devices in one scale-up domain"),
        "pcie_bandwidth": Field(unit="bytes/s", meaning="bandwidth to the host, in one direction"),
        "power": Field(unit="W", meaning="power the device may draw at most"),
    },
    rows={
        "instances": RowKind(
            texts={"name": True, "provider": True},
            fields={"devices": Field(unit="count", required=True, meaning="devices in one machine of this type")},
        )
    },
)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A machine that can be rented, and how many of the device are in it."""

    name: str
    provider: str
    devices: Assumption


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator. Each fact is an assumption with source and range; None where it is not published."""

    name: str
    title: str
    vendor: str
    architecture: str
    link: str
    memory: Assumption
    marketing_memory: Assumption
    memory_bandwidth: Assumption
    dense_rates: Mapping[str, Assumption]
    link_bandwidth: Assumption | None
    link_devices: Assumption | None
    pcie_bandwidth: Assumption | None
    power: Assumption | None
    instances: tuple[Instance, ...]
    notes: Mapping[str, str]

    @property
    def memory_bytes(self) -> int:
        """Whole bytes the driver reports."""
        return int(_number(self.memory))

    @property
    def memory_bandwidth_bytes_per_s(self) -> float:
        return float(_number(self.memory_bandwidth))

    @property
    def link_bandwidth_bytes_per_s(self) -> float | None:
        return None if self.link_bandwidth is None else float(_number(self.link_bandwidth))

    def dense_rate_flops(self, precision: str) -> float | None:
        """Peak dense operations per second in this precision; None where the device's sheet states none."""
        rate = self.dense_rates.get(precision)
        return None if rate is None else float(_number(rate))


@functools.cache
def devices() -> Catalogue:
    """The devices that come with ullage."""
    return packaged(DEVICES)


def find_device(name: str, catalogue: Catalogue | None = None, *, field: str = "device") -> Device:
    """The device of this name or alias, from ours or from a catalogue with a user's files on top."""
    return device_of(devices().find(name, field=field) if catalogue is None else catalogue.find(name, field=field))


def device_of(sheet: Sheet) -> Device:
    values = sheet.values
    return Device(
        name=sheet.name,
        title=sheet.texts["title"],
        vendor=sheet.texts["vendor"],
        architecture=sheet.texts["architecture"],
        link=sheet.texts.get("link", "none"),
        memory=values["memory"],
        marketing_memory=values["marketing_memory"],
        memory_bandwidth=values["memory_bandwidth"],
        dense_rates={each: values[f"{each}_dense"] for each in PRECISIONS if f"{each}_dense" in values},
        link_bandwidth=values.get("link_bandwidth"),
        link_devices=values.get("link_devices"),
        pcie_bandwidth=values.get("pcie_bandwidth"),
        power=values.get("power"),
        instances=tuple(
            Instance(name=row.texts["name"], provider=row.texts["provider"], devices=row.values["devices"])
            for row in sheet.rows.get("instances", ())
        ),
        notes=sheet.notes,
    )


def _number(fact: Assumption) -> int | float:
    assert not isinstance(fact.value, str), fact.name
    return fact.value
