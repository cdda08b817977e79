"""All reserves of a pool: separate lines, two ways of adding them up, placed under quotas, explained to their ends."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fleets import planned_pool
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Figure, Source, walk
from ullage.fleet.choices import choice
from ullage.fleet.failure import domains_of
from ullage.fleet.lines import NAMES
from ullage.fleet.maintenance import Maintenance
from ullage.fleet.packing import ASSUMED_NODE, NodeShape, pack_placed
from ullage.fleet.reserves import ReservePolicy, Reserves, ReserveSettings, _reserves_on, named_reserves, overlap
from ullage.fleet.rollout import Rollout
from ullage.fleet.sites import Region, Sites, Zone, equal_zones, place
from ullage.fleet.utilisation_cap import CappedFleet, UtilisationCaps, utilisation_reserve
from ullage.fleet.warm import FOLLOWS, Warm, steepest_rise, warm_reserve
from ullage.memory.sharding import Sharding

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


def reserves(settings: ReserveSettings | None = None, sites: Sites | None = None) -> Reserves:
    found = _answer(settings, sites)
    assert isinstance(found, Reserves), found
    return found


def _answer(settings: ReserveSettings | None = None, sites: Sites | None = None) -> Reserves | Rejection:
    pool = planned_pool()
    return named_reserves(
        pool.steady, pool.ready, pool.demand, sites=sites or equal_zones(2), settings=settings, seed=0
    )  # fmt: skip


def quota(name: str, devices: int) -> Assumption:
    return Assumption(
        name=f"quota.{name}", value=devices, unit="devices", evidence=Evidence.STATED, source=SOURCE
    )  # fmt: skip


def caps(**most: float) -> UtilisationCaps:
    return UtilisationCaps(
        most={name: choice(f"policy.utilisation.{name}", each, "fraction", "test") for name, each in most.items()}
    )


def test_every_reserve_is_a_line_with_rule_figure_and_purpose() -> None:
    found = reserves()
    assert tuple(line.name for line in found.lines) == NAMES[:-1]
    found = reserves(ReserveSettings(caps=caps(planned=0.5)))
    assert tuple(line.name for line in found.lines) == NAMES
    for line in found.lines:
        assert line.rule
        assert line.protects
        assert found.figures[f"reserve.{line.name}_replicas"] is line.figure
        assert line.figure.value == line.replicas
        assert line.devices == line.replicas * found.devices_per_replica
        assert line.serving_replicas <= line.replicas


def test_sum_and_overlap_are_shown_and_one_is_bought() -> None:
    busy = ReserveSettings(
        rollout=Rollout(demand=choice("rollout.demand", 1.0, "fraction", "test")),
        maintenance=Maintenance(demand=choice("maintenance.demand", 1.0, "fraction", "test")),
    )
    found = reserves(busy)
    assert found.sum_replicas == sum(line.replicas for line in found.lines)
    assert found.overlap_replicas < found.sum_replicas
    assert found.replicas == found.overlap_replicas
    assert sum(found.bought.values()) == found.replicas
    counted = ReservePolicy(counted=choice("reserves.counted", "sum", "", "test"))
    all_at_once = reserves(replace(busy, policy=counted))
    assert all_at_once.replicas == all_at_once.sum_replicas == sum(all_at_once.bought.values())
    assert all_at_once.placement.replicas == all_at_once.steady_replicas + all_at_once.replicas


@given(
    sizes=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 50)),
    groups=st.permutations(NAMES).map(lambda names: [names[:2], names[2:4]]),
)
def test_an_overlap_lies_between_the_largest_line_and_the_sum(sizes: dict[str, int], groups: list[list[str]]) -> None:
    shared = overlap(sizes, groups)
    assert max(sizes.values(), default=0) <= shared <= sum(sizes.values())
    assert overlap(sizes, []) == sum(sizes.values())


def test_every_figure_ends_in_sources() -> None:
    for figure in reserves().figures.values():
        ends = [each for _, each in walk(figure) if isinstance(each, Source)]
        assert ends, figure.name


def test_a_fleet_that_fits_only_without_its_surge_is_a_deadlock() -> None:
    settings = ReserveSettings(rollout=Rollout(surge=choice("rollout.surge", 5, "replicas", "test")))
    whole = reserves(settings)
    # Rollout and maintenance overlap, so that the surge is the last thing to fit.
    serving = (whole.total_replicas - 5) * whole.devices_per_replica
    sites = Sites(regions=(Region(name="home", zones=(Zone(name="a"), Zone(name="b")), quota=quota("home", serving)),))
    stuck = _answer(settings, sites)
    assert isinstance(stuck, Rejection)
    assert stuck.stage == "rollout"
    assert "deadlock" in stuck.reason
    roomy = replace(sites.regions[0], quota=quota("home", serving + 5 * whole.devices_per_replica))
    assert isinstance(_answer(settings, Sites(regions=(roomy,))), Reserves)


def test_a_quota_far_too_small_is_named_as_one() -> None:
    sites = Sites(regions=(Region(name="home", zones=(Zone(name="a", quota=quota("a", 40)),)),))
    refused = _answer(sites=sites)
    assert isinstance(refused, Rejection)
    assert refused.stage == "sites"


def test_two_regions_survive_the_loss_of_one_where_they_stand() -> None:
    shares = {"east": 0.7, "west": 0.3}
    sites = Sites(
        regions=tuple(
            Region(
                name=name,
                zones=(Zone(name=f"{name}-a"), Zone(name=f"{name}-b")),
                share=replace(quota(f"{name}.share", 1), value=share, unit="fraction"),
            )
            for name, share in shares.items()
        )
    )
    found = reserves(sites=sites)
    assert found.region.is_survived
    for row in found.region.shares:
        assert len(found.placement.replicas_in_region(row.name)) >= row.replicas


def test_warm_replicas_follow_the_ramp_and_the_start() -> None:
    pool = planned_pool()
    needed = pool.steady.figures["fleet.replicas"]

    def warm(given_: Warm) -> int:
        scaled = given_ if given_.follows is not FOLLOWS else replace(given_, follows=replace(FOLLOWS, value="demand"))
        return warm_reserve(needed, pool.demand, pool.ready, scaled, devices=2).line.replicas

    by_start = [warm(Warm(start=choice("warm.start", level, "", "test"))) for level in ("hot", "warm", "cold")]
    assert by_start == sorted(by_start)
    slopes = [warm(Warm(rise=choice("warm.rise", rise, "req/s2", "test"))) for rise in (0.0, 0.001, 0.01, 1.0)]
    assert slopes[0] == 0
    assert all(few <= many for few, many in pairwise(slopes))
    assert slopes[-1] == int(needed.value) - 1
    one = replace(needed, value=1)
    assert warm_reserve(one, pool.demand, pool.ready, Warm(), devices=2).line.replicas == 0
    assert warm(Warm(follows=choice("warm.follows", "peak", "", "test"))) == 0
    assert warm_reserve(needed, pool.demand, pool.ready, Warm(), devices=2).line.replicas == 0
    assert warm(Warm(absorbed=choice("limits.absorbed_rps", 1e9, "req/s", "test"))) == 0
    assert steepest_rise(pool.demand) > 0.0
    with pytest.raises(InputError, match="start"):
        Warm(start=choice("warm.start", "tepid", "", "test"))


def test_batch_work_is_shown_as_what_it_is() -> None:
    found = reserves()
    assert found.figures["reserve.batch_replicas"].value == found.replicas
    assert any("stopped first" in note for note in found.notes)
    never = reserves(ReserveSettings(policy=ReservePolicy(batch=choice("reserves.batch", "never", "", "test"))))
    assert never.figures["reserve.batch_replicas"].value == 0
    assert not any("Batch" in note for note in never.notes)


@pytest.mark.parametrize("written", ["rollout+region, rollout+warm", "rollout+weather"])
def test_a_group_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(InputError, match="overlap"):
        ReservePolicy(overlap=choice("reserves.overlap", written, "", "test"))


@given(
    steady=st.integers(1, 200),
    more=st.integers(0, 40),
    cap=st.floats(0.05, 1.0),
    state=st.sampled_from(("mean", "busiest_hour", "planned", "machine_lost", "zone_lost")),
    zones=st.integers(2, 5),
    per_node=st.integers(1, 8),
)
def test_a_cap_is_kept_by_the_least_that_keeps_it(
    steady: int, more: int, cap: float, state: str, zones: int, per_node: int
) -> None:
    needed = Figure(
        name="fleet.replicas", value=steady, unit="replicas", formula="test", inputs=(quota("zone", steady),)
    )
    loads = {"mean": 0.4, "busiest_hour": 0.7, "planned": 1.0, "machine_lost": 1.0, "zone_lost": 1.0}
    fleet = CappedFleet(
        steady=needed,
        serving_replicas=steady + more,
        load_fractions=loads,
        lost_with_node=lambda _: per_node,
        zones=zones,
        devices=2,
    )
    line = utilisation_reserve(fleet, caps(**{state: cap}), rests=())

    def utilisation(serving: int) -> float:
        left = {"machine_lost": serving - per_node, "zone_lost": serving - -(-serving // zones)}.get(state, serving)
        return math.inf if left <= 0 else steady * loads[state] / left

    assert utilisation(steady + more + line.replicas) <= cap * (1 + 1e-6)
    assert line.replicas == 0 or utilisation(steady + more + line.replicas - 1) > cap * (1 - 1e-6)
    assert line.serving_replicas == line.replicas


def test_caps_count_what_serves_anyway_and_buy_the_rest() -> None:
    uncapped, capped = reserves(), reserves(ReserveSettings(caps=caps(planned=0.5)))
    assert len(capped.capped) == 1
    serving = capped.steady_replicas + capped.serving_replicas
    assert serving >= 2 * capped.steady_replicas
    assert capped.replicas >= uncapped.replicas
    assert reserves(ReserveSettings(caps=caps(mean=1.0))).replicas == uncapped.replicas


def test_a_lost_only_zone_cannot_be_capped() -> None:
    with pytest.raises(InputError, match="only zone"):
        reserves(ReserveSettings(caps=caps(zone_lost=0.9)), equal_zones(1))


def _of_need(replicas: int, devices: int, zones: int) -> tuple[Reserves, Reserves]:
    """The reserves of a fleet on nodes of eight that needs so many replicas, and those on the fewest nodes."""
    pool = planned_pool()
    size = replace(pool.steady.figures["fleet.replicas"], value=replicas)
    figures = {**pool.steady.figures, "fleet.replicas": size}
    steady = replace(pool.steady, replicas=replicas, devices=replicas * devices, figures=figures, need=None)
    found = named_reserves(steady, pool.ready, pool.demand, sites=equal_zones(zones), seed=0)
    filled = _reserves_on(
        steady, pool.ready, pool.demand, equal_zones(zones), given=ReserveSettings(), taken=None, seed=0, spread_nodes=0
    )
    assert isinstance(found, Reserves)
    assert isinstance(filled, Reserves)
    return found, filled


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
@pytest.mark.parametrize("zones", [1, 2, 3])
def test_replicas_are_spread_over_nodes_before_nodes_are_filled(devices: int, zones: int) -> None:
    """Spreading never costs more, survives the loss of a node, and packing stands as the reserves were found."""
    holds = 8 // devices
    for needed in range(1, 41):
        found, filled = _of_need(needed, devices, zones)
        assert (found.nodes, found.total_replicas) <= (filled.nodes, filled.total_replicas)
        given = found.settings.reliability
        serving = needed + found.failure.line.replicas
        on = found.placement.spread_nodes
        placed = place(serving, equal_zones(zones), devices=devices, node_replicas=holds, spread_nodes=on)
        assert not isinstance(placed, Rejection)
        assert serving - max(domains_of(placed, given).nodes) >= needed
        # In one zone the reserve is what the fullest of even nodes takes: never a whole node for a need of one.
        assert zones > 1 or found.failure.line.replicas <= max(1, -(-needed // max(1, found.nodes - 1)))
        packed = pack_placed(found.placement, Sharding(tp=devices), [_EIGHT], pool="pool").chosen
        assert packed.nodes == found.nodes
        assert packed.most_parts_per_node == max(domains_of(found.placement, given).nodes)
        assert packed.used_devices + packed.spare_devices + packed.stranded_devices == 8 * packed.nodes


@pytest.mark.parametrize(
    ("needed", "devices", "failure", "nodes"),
    # Worked by hand, one zone, nodes of eight: one replica beside a second node; 8 stand 8 + 8, and no third node would
    # be cheaper; 12 leave 12 of 6 + 6 + 6; 3 of four devices leave 3 of 2 + 2 + 1 with one node lost.
    [(1, 1, 1, 2), (2, 1, 2, 2), (12, 1, 6, 3), (1, 4, 1, 2), (3, 4, 2, 3), (3, 8, 1, 4)],
)
def test_a_small_need_on_large_nodes_takes_the_fewest_replicas(
    needed: int, devices: int, failure: int, nodes: int
) -> None:
    found, _ = _of_need(needed, devices, 1)
    assert (found.failure.line.replicas, found.nodes) == (failure, nodes)


_EIGHT = NodeShape(name="eight", provider="test", size=ASSUMED_NODE)
