"""Laws of packing: every device counted once, no part split that fits a node, as few nodes as brute force finds."""

from __future__ import annotations

import datetime
import functools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.device import devices as catalogue
from ullage.facts.device import find_device
from ullage.fleet.packing import Lot, NodeShape, chosen_shape, pack, pack_on, parts_of, shapes_of
from ullage.memory.sharding import Sharding

SOURCE = Source(what="a made-up machine", where="tests", date=datetime.date(2026, 11, 15))


def shape(devices: int, name: str = "") -> NodeShape:
    fact = Assumption(name="made-up.devices", value=devices, unit="count", evidence=Evidence.STATED, source=SOURCE)
    return NodeShape(name=name or f"of-{devices}", provider="nobody", size=fact)


def lot(replicas: int, tp: int = 1, pp: int = 1, pool: str = "p", zone: str = "a") -> Lot:
    return Lot(pool=pool, zone=zone, replicas=replicas, sharding=Sharding(tp=tp, pp=pp))


lots = st.builds(
    lot,
    replicas=st.integers(0, 12),
    tp=st.integers(1, 12),
    pp=st.integers(1, 4),
    pool=st.sampled_from("pqr"),
    zone=st.sampled_from("ab"),
)


@given(st.lists(lots, max_size=4), st.integers(1, 10))
def test_every_device_is_used_spare_or_stranded_and_none_twice(drawn: list[Lot], size: int) -> None:
    found = pack_on(drawn, shape(size))
    assert found.used_devices == sum(each.replicas * each.sharding.devices for each in drawn)
    assert found.used_devices + found.spare_devices + found.stranded_devices == found.devices
    assert all(group.used_devices <= size for group in found.groups)
    assert found.nodes * size >= found.used_devices
    placed = sum(group.nodes * sum(group.parts.values()) for group in found.groups)
    assert placed == sum(each.replicas * len(parts_of(each.sharding, size)) for each in drawn)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 8), st.integers(1, 16))
def test_a_stage_spans_nodes_only_where_it_does_not_fit_one(replicas: int, tp: int, pp: int, size: int) -> None:
    parts = parts_of(Sharding(tp=tp, pp=pp), size)
    assert sum(parts) == tp * pp
    assert max(parts) <= size
    if tp * pp <= size:
        assert len(parts) == 1
    if tp <= size:
        assert all(part % tp == 0 for part in parts)
        # No split into whole stages needs fewer nodes.
        assert len(parts) == math.ceil(pp / (size // tp))
    assert pack_on([lot(replicas, tp, pp)], shape(size)).spans_nodes == (tp > size)


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 8))
def test_one_pool_of_small_replicas_needs_what_division_says(replicas: int, tp: int, size: int) -> None:
    found = pack_on([lot(replicas, tp)], shape(max(tp, size)))
    each = max(tp, size) // tp
    assert found.nodes == math.ceil(replicas / each)
    assert found.spare_devices == (found.nodes * each - replicas) * tp
    # Spread before filled: no other way of standing on so few nodes loses fewer replicas with one of them.
    assert found.most_parts_per_node == math.ceil(replicas / found.nodes)


def fewest_bins(sizes: tuple[int, ...], room: int) -> int:
    """Exact bin packing by trying every place for every part."""

    @functools.cache
    def fill(left: tuple[int, ...], bins: tuple[int, ...]) -> int:
        if not left:
            return len(bins)
        part, rest = left[0], left[1:]
        tries = [fill(rest, tuple(sorted((*bins, room - part))))]
        for place, free in enumerate(bins):
            if free >= part:
                tries.append(fill(rest, tuple(sorted((*bins[:place], free - part, *bins[place + 1 :])))))
        return min(tries)

    return fill(tuple(sorted(sizes, reverse=True)), ())


@given(st.lists(st.integers(1, 8), min_size=1, max_size=7), st.integers(1, 8))
def test_mixtures_are_close_to_the_best_packing(sizes: list[int], room: int) -> None:
    parts = [min(each, room) for each in sizes]
    drawn = [lot(1, part, pool=f"p{number}") for number, part in enumerate(parts)]
    best = fewest_bins(tuple(parts), room)
    found = pack_on(drawn, shape(room)).nodes
    assert best <= found <= math.floor(11 / 9 * best + 6 / 9)


@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=7))
def test_sizes_that_divide_one_another_are_packed_as_well_as_can_be(sizes: list[int]) -> None:
    drawn = [lot(1, part, pool=f"p{number}") for number, part in enumerate(sizes)]
    assert pack_on(drawn, shape(8)).nodes == fewest_bins(tuple(sizes), 8) == math.ceil(sum(sizes) / 8)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(1, 8))
def test_one_pool_is_packed_as_well_as_can_be(replicas: int, tp: int, pp: int, size: int) -> None:
    parts = parts_of(Sharding(tp=tp, pp=pp), size) * replicas
    if len(parts) <= 8:
        assert pack_on([lot(replicas, tp, pp)], shape(size)).nodes == fewest_bins(parts, size)


def test_the_words_for_what_is_not_used() -> None:
    found = pack([lot(5, 3)], [shape(8)])
    assert (found.chosen.nodes, found.chosen.used_devices) == (3, 15)
    assert (found.chosen.spare_devices, found.chosen.stranded_devices) == (3, 6)
    assert found.notes == (
        "4 devices are stranded in a: 2 nodes hold 2 of p and 2 devices in which no replica fits.",
        "2 devices are stranded in a: 1 node holds 1 of p and 2 devices in which no replica fits.",
    )


def test_zones_do_not_share_nodes() -> None:
    apart = pack_on([lot(1, 4, zone="a"), lot(1, 4, zone="b")], shape(8))
    assert (apart.nodes, apart.spare_devices) == (2, 8)
    assert pack_on([lot(2, 4)], shape(8)).nodes == 1


def test_a_replica_of_many_nodes_says_so_and_so_does_a_stage_that_spans_nodes() -> None:
    assert "3 nodes" in pack([lot(1, 8, 3)], [shape(8)]).notes[0]
    assert "spans nodes of 8" in pack([lot(1, 16)], [shape(8)]).notes[0]


def test_known_devices_come_in_their_machines_and_eight_is_the_default() -> None:
    h100 = shapes_of(find_device("h100-sxm"))
    assert chosen_shape(h100).name == "p5.48xlarge"
    assert chosen_shape(h100, "p5.4xlarge").devices == 1
    with pytest.raises(InputError, match=r"p5\.48xlarge"):
        chosen_shape(h100, "p5.49xlarge")
    for sheet in catalogue():
        assert shapes_of(find_device(sheet.name))


def test_every_shape_is_a_row_and_figures_rest_on_its_size() -> None:
    found = pack([lot(13, 2)], shapes_of(find_device("h100-sxm")))
    assert [row.shape.devices for row in found.rows] == [1, 8, 8, 8]
    assert found.figures["packing.nodes"].value == 4
    assert found.figures["packing.spare_devices"].value == 6
    assert found.figures["packing.nodes"].inputs == (found.chosen.shape.size,)
    assert [row.spans_nodes for row in found.rows] == [True, False, False, False]
