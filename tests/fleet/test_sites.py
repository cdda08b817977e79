"""Laws of placement: all replicas placed, no quota exceeded, as even as quotas allow, refusals that can be mended."""

from __future__ import annotations

import datetime
import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Source
from ullage.fleet.sites import Placement, Region, Sites, Zone, equal_zones, on_fewest_nodes, place, spread

QUOTAS = Source(what="a made-up quota page", where="tests", date=datetime.date(2026, 11, 1))


def quota(name: str, devices: float) -> Assumption:
    return Assumption(
        name=f"sites.{name}.quota", value=devices, unit="devices", evidence=Evidence.STATED, source=QUOTAS
    )


def region(name: str, zones: list[int | None], own: int | None = None, share: float | None = None) -> Region:
    return Region(
        name=name,
        zones=tuple(
            Zone(name=f"{name}-{letter}", quota=None if limit is None else quota(f"{name}-{letter}", limit))
            for letter, limit in zip("abcdef", zones, strict=False)
        ),
        quota=None if own is None else quota(name, own),
        share=None if share is None else quota(f"{name}.share", share),
    )


def mended(sites: Sites, change: str) -> Sites:
    """The sites after a remedy is applied as written: `a quota of 24 devices in eu`."""
    wider = {name: int(devices) for devices, name in re.findall(r"a quota of (\d+) devices in ([\w-]+)", change)}
    return Sites(
        regions=tuple(
            replace(
                each,
                quota=quota(each.name, wider[each.name]) if each.name in wider else each.quota,
                zones=tuple(
                    replace(zone, quota=quota(zone.name, wider[zone.name])) if zone.name in wider else zone
                    for zone in each.zones
                ),
            )
            for each in sites.regions
        )
    )


def placed(replicas: int, sites: Sites, **given_: int) -> Placement:
    found = place(replicas, sites, **given_)  # type: ignore[arg-type]
    assert isinstance(found, Placement), found
    return found


limits = st.one_of(st.none(), st.integers(0, 40))
regions = st.lists(st.tuples(st.lists(limits, min_size=1, max_size=4), limits), min_size=1, max_size=3)


@given(regions, st.integers(0, 60), st.integers(1, 16))
def test_every_replica_is_placed_within_every_quota_or_the_refusal_can_be_mended(
    drawn: list[tuple[list[int | None], int | None]], replicas: int, devices: int
) -> None:
    sites = Sites(regions=tuple(region(f"r{at}", zones, own) for at, (zones, own) in enumerate(drawn)))
    found = place(replicas, sites, devices=devices)
    if isinstance(found, Rejection):
        fits = found.figure.value
        assert isinstance(fits, int)
        assert fits < replicas
        # The nearest feasible number is feasible, and the next is not.
        assert placed(fits, sites, devices=devices).replicas == fits
        assert isinstance(place(fits + 1, sites, devices=devices), Rejection)
        for remedy in found.remedies[:-1]:
            assert placed(replicas, mended(sites, remedy.change), devices=devices).replicas == replicas
        return
    assert found.replicas == replicas
    for each, (zones, own) in zip(sites.regions, drawn, strict=True):
        rows = [row for row in found.rows if row.region == each.name]
        assert all(limit is None or row.devices <= limit for row, limit in zip(rows, zones, strict=True))
        assert own is None or sum(row.devices for row in rows) <= own


@given(st.integers(1, 6), st.integers(0, 100))
def test_zones_without_quotas_differ_by_at_most_one(zones: int, replicas: int) -> None:
    counts = [row.replicas for row in placed(replicas, equal_zones(zones)).rows]
    assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 20))
def test_no_other_placement_loses_fewer_replicas_with_a_zone(rooms: list[int], replicas: int) -> None:
    """Brute force: among all ways to fill the zones, none has a smaller largest zone."""
    sites = Sites(regions=(region("r", list(rooms)),))
    found = place(replicas, sites)
    every = [each for each in itertools.product(*(range(room + 1) for room in rooms)) if sum(each) == replicas]
    if isinstance(found, Rejection):
        assert not every
    else:
        assert found.largest_zone_replicas == min(max(each) for each in every)


@given(
    st.lists(st.tuples(st.floats(0.01, 10.0), st.integers(0, 30)), min_size=1, max_size=6).filter(
        lambda drawn: sum(room for _, room in drawn) > 0
    ),
    st.data(),
)
def test_shares_are_within_one_of_their_quota_of_the_whole(drawn: list[tuple[float, int]], data: st.DataObject) -> None:
    weights, rooms = [weight for weight, _ in drawn], [room for _, room in drawn]
    total = data.draw(st.integers(0, sum(rooms)))
    found = spread(total, weights, rooms)
    assert sum(found) == total
    assert all(0 <= count <= room for count, room in zip(found, rooms, strict=True))
    for count, weight, room in zip(found, weights, rooms, strict=True):
        # A part that has room left gets at least its own proportion of the whole, to within one.
        assert count == room or count >= total * weight / sum(weights) - 1 - 1e-6


def test_regions_are_filled_by_their_shares_of_traffic() -> None:
    sites = Sites(regions=(region("eu", [None, None], share=0.75), region("us", [None], share=0.25)))
    assert [row.replicas for row in placed(8, sites).rows] == [3, 3, 2]


def test_what_other_pools_took_is_gone() -> None:
    sites = Sites(regions=(region("eu", [8, 8]),))
    assert [row.replicas for row in placed(4, sites, devices=2, taken={"eu-a": 6}).rows] == [1, 3]  # type: ignore[arg-type]
    refused = place(6, sites, devices=2, taken={"eu-a": 6})
    assert isinstance(refused, Rejection)
    assert refused.figure.value == 5


def test_a_refusal_names_the_quota_that_is_in_the_way_and_the_one_that_would_do() -> None:
    refused = place(12, Sites(regions=(region("eu", [None, None], own=16),)), devices=2)
    assert isinstance(refused, Rejection)
    assert all(part in refused.reason for part in ("24 devices", "eu", "16"))
    assert refused.remedies[0].change == "a quota of 24 devices in eu"
    assert "8 replicas" in refused.remedies[-1].change
    assert placed(12, Sites(regions=(region("eu", [None, None], own=24),)), devices=2).replicas == 12


def test_replicas_are_numbered_zone_by_zone() -> None:
    found = placed(5, equal_zones(2))
    assert found.replicas_in("zone-1") == (0, 1, 2)
    assert found.replicas_in("zone-2") == (3, 4)
    assert found.replicas_in_region("region") == (0, 1, 2, 3, 4)
    assert found.largest_zone_replicas == 3
    with pytest.raises(InputError, match="zone-1, zone-2"):
        found.replicas_in("zone-3")


def test_an_open_quota_is_said_and_an_uneven_one_too() -> None:
    assert "zone-1, zone-2" in placed(3, equal_zones(2)).notes[0]
    uneven = placed(9, Sites(regions=(region("eu", [2, 40]),)))
    assert [row.replicas for row in uneven.rows] == [2, 7]
    assert "eu-a holds 2" in uneven.notes[0]


def test_a_quota_is_in_every_figure_with_its_date() -> None:
    found = placed(4, Sites(regions=(region("eu", [8, 8]),)))
    assert found.figures["placement.eu-a.replicas"].value == 2
    inputs = found.figures["placement.eu-a.replicas"].inputs
    assert {each.name for each in inputs} == {"sites.eu-a.quota", "sites.eu-b.quota"}


def test_names_twice_and_shares_by_half_are_wrong_input() -> None:
    with pytest.raises(InputError, match="each named once"):
        Sites(regions=(region("eu", [1]), region("eu", [1])))
    with pytest.raises(InputError, match="every region a share"):
        Sites(regions=(region("eu", [1], share=0.5), region("us", [1])))
    with pytest.raises(InputError, match="0 or more replicas"):
        place(-1, equal_zones(1))
    with pytest.raises(InputError, match="number of devices"):
        place(1, Sites(regions=(region("eu", [-1]),)))


@given(total=st.integers(0, 120), zones=st.integers(1, 4), each=st.integers(1, 8))
def test_zones_stand_on_the_fewest_nodes_and_are_as_even_as_that_allows(total: int, zones: int, each: int) -> None:
    counts = on_fewest_nodes(total, [10_000] * zones, each)
    nodes = [-(-count // each) for count in counts]
    assert sum(counts) == total
    assert sum(nodes) == -(-total // each)
    # None has two nodes more than another, and replicas are even where that takes no node more.
    assert max(nodes) - min(nodes) <= 1
    even = spread(total, [1.0] * zones, [10_000] * zones)
    if sum(-(-count // each) for count in even) == sum(nodes):
        assert counts == even


def test_uneven_zones_say_what_an_even_split_would_take() -> None:
    found = placed(35, equal_zones(2), node_replicas=4)
    assert [row.replicas for row in found.rows] == [19, 16]
    assert any("an even split would need more machines" in each for each in found.notes)
    assert not any("machines" in each for each in placed(33, equal_zones(2), node_replicas=4).notes)
