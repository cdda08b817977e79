"""Replicas larger than a node: any of their nodes, and any of their devices, takes them down."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import pytest

from ullage.evidence import Evidence, Figure, Source
from ullage.fleet.choices import choice
from ullage.fleet.failure import FailureReserve, failure_reserve, reliability
from ullage.fleet.sites import equal_zones

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))
YEAR_S = 365.25 * 86_400.0
REPAIR_S = YEAR_S / 100.0


def reserve(replicas: int, devices: int, zones: int = 1, target: float = 0.5, **failures: float) -> FailureReserve:
    """Failures a year, each repaired in a hundredth of a year; what is not named never fails."""
    given = replace(reliability(), availability=choice("reliability.availability", target, "fraction", "test"))
    rates = {f"{each}_failures": failures.get(each, 0.0) for each in ("device", "node", "zone")}
    repairs = {f"{each}_repair": REPAIR_S for each in ("device", "node", "zone")}
    stated: dict[str, float | str] = {"survives": "nothing", "availability": target, "devices_per_node": 8}
    values: dict[str, float | str] = {**rates, **repairs, **stated}
    said = replace(
        given, **{name: replace(getattr(given, name), value=each, low=None, high=None) for name, each in values.items()}
    )
    steady = Figure(
        name="fleet.replicas", value=replicas, unit="replicas", sources=(SOURCE,), own_evidence=Evidence.ASSUMED
    )
    found = failure_reserve(steady, equal_zones(zones), said, devices=devices, seed=0)
    assert isinstance(found, FailureReserve), found
    return found


def up(failures: float) -> float:
    """A thing that fails so often in a year and is repaired in a hundredth of one is up 1 / (1 + failures / 100)."""
    return 1.0 / (1.0 + failures / 100.0)


@pytest.mark.parametrize(
    ("devices", "nodes"), [(8, 1.0), (16, 2.0), (24, 3.0), (12, 1.5)], ids=["one", "two", "three", "one and a half"]
)
def test_a_replica_on_several_nodes_fails_as_often_as_all_of_them(devices: int, nodes: float) -> None:
    """Three replicas on nodes of their own are all up with the cube of one's availability."""
    found = reserve(3, devices, node=2.0)
    assert found.without.fraction == pytest.approx(up(2.0 * nodes) ** 3)


def test_replicas_of_one_node_fail_together() -> None:
    """Two replicas of four devices share a node: both are up as often as the node."""
    assert reserve(2, 4, node=2.0).without.fraction == pytest.approx(up(2.0))
    # Three need a second node, and it holds one of them.
    assert reserve(3, 4, node=2.0).without.fraction == pytest.approx(up(2.0) ** 2)


@pytest.mark.parametrize("devices", [1, 4, 16])
def test_a_replica_fails_with_any_of_its_devices(devices: int) -> None:
    assert reserve(2, devices, device=0.5).without.fraction == pytest.approx(up(0.5 * devices) ** 2)


def test_zones_fail_with_all_that_stands_in_them() -> None:
    """Four replicas in two zones are all up while both zones are, and half of them while one is."""
    assert reserve(4, 8, zones=2, zone=1.0).without.fraction == pytest.approx(up(1.0) ** 2)


def test_the_reserve_is_the_least_for_replicas_on_two_nodes() -> None:
    """k of n in closed form: each replica is down 2 x 5 / 100 over 1.1 of the time."""
    chance = up(10.0)

    def enough(total: int) -> float:
        return sum(math.comb(total, k) * chance**k * (1.0 - chance) ** (total - k) for k in range(6, total + 1))

    found = reserve(6, 16, target=0.995, node=5.0)
    assert found.without.fraction == pytest.approx(enough(6))
    least = next(extra for extra in range(20) if enough(6 + extra) >= 0.995)
    assert found.line.replicas == least > 1
    assert found.line.devices == 16 * least
    assert found.availability.fraction == pytest.approx(enough(6 + least))
