"""Nodes that are patched in turns, and regions that hold for each other."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.fleet.choices import choice
from ullage.fleet.maintenance import Maintenance, MaintenanceReserve, maintenance_reserve
from ullage.fleet.packing import even_nodes
from ullage.fleet.region import RegionPolicy, carried_fraction, region_reserve
from ullage.fleet.sites import Region, Sites, Zone, equal_zones

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


def figure(name: str, value: float, unit: str) -> Figure:
    return Figure(name=name, value=value, unit=unit, sources=(SOURCE,), own_evidence=Evidence.ASSUMED)


def patched(
    replicas: int, given_: Maintenance, *, per_node: int = 4, quiet_fraction: float = 1.0
) -> MaintenanceReserve:
    return maintenance_reserve(
        figure("reserve.serving_replicas", replicas, "replicas"),
        given_,
        figure("ready.warm_p90_s", 300.0, "s"),
        quiet=figure("reserve.maintenance_demand_fraction", quiet_fraction, "fraction"),
        devices=2,
        nodes_of=lambda total: even_nodes(total, per_node),
    )


def test_few_nodes_are_patched_one_at_a_time() -> None:
    found = patched(40, Maintenance())
    assert found.nodes == 1
    assert found.line.replicas == 4
    assert found.line.devices == 8


@given(replicas=st.integers(1, 2000), per_node=st.integers(1, 8))
def test_all_nodes_pass_through_the_windows(replicas: int, per_node: int) -> None:
    found = patched(replicas, Maintenance(), per_node=per_node)
    total = replicas + found.line.replicas
    nodes, out_s, windows_s = math.ceil(total / per_node), 300.0 + 3600.0 + 300.0, 8 * 3600.0 * 30 / 7
    assert found.nodes == nodes or found.nodes * windows_s >= nodes * out_s
    assert found.nodes == 1 or (found.nodes - 1) * windows_s < nodes * out_s
    # With the reserve, what is left of all nodes while the fullest are out is the fleet that served before.
    left = total - sum(sorted(even_nodes(total, per_node))[-found.nodes :])
    assert left >= replicas or found.line.replicas == replicas


def test_a_rule_that_names_fewer_replicas_than_the_line_says_why() -> None:
    """Nine stand on two nodes of eight; only from seventeen on, on three, does one node hold less than the reserve."""
    found = patched(9, Maintenance(), per_node=8)
    assert (found.line.replicas, found.drained_replicas) == (8, 6)
    assert found.line.rule == "1 of 3 nodes at once, 6 replicas; on fewer nodes, each would hold more replicas"
    assert patched(1, Maintenance(), per_node=1).line.rule == "1 of 2 nodes at once, 1 replica"


def test_a_quiet_window_needs_no_reserve() -> None:
    quiet = patched(40, Maintenance(), quiet_fraction=0.5)
    assert quiet.line.replicas == 0
    assert "20 idle" in quiet.line.rule


def test_a_window_too_short_for_one_node_takes_all_at_once() -> None:
    short = Maintenance(window=choice("maintenance.window", 600.0, "s", "test"))
    assert patched(40, short).line.replicas == 40
    with pytest.raises(InputError, match="between windows"):
        Maintenance(window=choice("maintenance.window", 10 * 86_400.0, "s", "test"))


def regions(*shares: float) -> Sites:
    return Sites(
        regions=tuple(
            Region(
                name=f"r{place}",
                zones=(Zone(name=f"r{place}-a"), Zone(name=f"r{place}-b")),
                share=Assumption(
                    name=f"r{place}.share", value=share, unit="fraction", evidence=Evidence.STATED, source=SOURCE
                ),
            )
            for place, share in enumerate(shares)
        )
    )


@pytest.mark.slow
@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=5), st.floats(0.0, 1.0), st.integers(1, 200))
def test_every_region_carries_any_loss(weights: list[float], failover: float, replicas: int) -> None:
    """After any loss, what is left of the traffic fits what the other regions hold, each by itself."""
    policy = RegionPolicy(failover=choice("regions.failover", failover, "fraction", "test"))
    found = region_reserve(figure("fleet.replicas", replicas, "replicas"), regions(*weights), policy, devices=1)
    shares = [weight / sum(weights) for weight in weights]
    for lost in range(len(shares)):
        for place, row in enumerate(found.shares):
            if place != lost:
                asked = shares[place] + failover * shares[lost] * shares[place] / (1 - shares[lost])
                assert row.replicas >= replicas * asked - 1e-6
    assert found.line.replicas == sum(row.replicas for row in found.shares) - replicas


def test_two_equal_regions_hold_the_fleet_once_more() -> None:
    found = region_reserve(figure("fleet.replicas", 20, "replicas"), regions(0.5, 0.5), RegionPolicy(), devices=2)
    assert (found.line.replicas, found.line.devices) == (20, 40)
    uneven = region_reserve(figure("fleet.replicas", 20, "replicas"), regions(0.7, 0.3), RegionPolicy(), devices=2)
    assert [row.replicas for row in uneven.shares] == [20, 20]
    # Replicas are then spread by what each must hold, not by the traffic of a day without a loss.
    assert [float(region.share.value) for region in uneven.sites.regions if region.share] == [0.5, 0.5]


def test_one_region_or_no_wish_holds_nothing() -> None:
    alone = region_reserve(figure("fleet.replicas", 20, "replicas"), equal_zones(2), RegionPolicy(), devices=2)
    assert alone.line.replicas == 0
    assert not alone.is_survived
    assert "is an outage" in alone.line.rule
    unwished = RegionPolicy(survives=choice("regions.survives", "none", "", "test"))
    assert (
        region_reserve(figure("fleet.replicas", 20, "replicas"), regions(0.5, 0.5), unwished, devices=2).line.replicas
        == 0
    )
    with pytest.raises(InputError, match="survives"):
        RegionPolicy(survives=choice("regions.survives", "two", "", "test"))


def test_a_small_region_does_not_carry_a_large_one_alone() -> None:
    assert carried_fraction(2, (0.5, 0.3, 0.2), 1.0) == pytest.approx(0.4)
    assert carried_fraction(0, (1.0,), 1.0) == 1.0
