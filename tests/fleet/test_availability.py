"""How many replicas are up, against closed forms, a solved chain, every state counted, and events drawn one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.fleet import availability as module
from ullage.fleet.availability import Breakage, Domains, availability, failed_chances, up_chances
from ullage.simulate.fleet import FleetEvent, failure_events

NEVER = Breakage(failures_per_s=0.0, repair_s=1.0)


def often(down_fraction: float, repair_s: float = 1.0) -> Breakage:
    """Down for this share of the time."""
    return Breakage(failures_per_s=down_fraction / (1.0 - down_fraction) / repair_s, repair_s=repair_s)


def domains(
    zones: tuple[tuple[int, ...], ...], *, replica: Breakage = NEVER, node: Breakage = NEVER, zone: Breakage = NEVER
) -> Domains:
    return Domains(zones=zones, replica=replica, node=node, zone=zone)


@given(
    count=st.integers(1, 40),
    needed=st.integers(0, 40),
    down=st.floats(0.0, 0.5),
    sizes=st.sampled_from([1, 2, 4]),
)
def test_independent_replicas_are_binomial(count: int, needed: int, down: float, sizes: int) -> None:
    nodes = tuple(min(sizes, count - first) for first in range(0, count, sizes))
    found = availability(needed, domains((nodes,), replica=often(down)))
    closed = sum(
        math.comb(count, up) * (1 - down) ** up * down ** (count - up)
        for up in range(min(needed, count + 1), count + 1)
    )
    assert found.is_exact
    assert found.fraction == pytest.approx(closed, abs=1e-9)


def _every_state(needed: int, given: Domains) -> float:
    """The same by counting every state of every component."""
    downs = [given.zone.down_fraction] * len(given.zones)
    downs += [given.node.down_fraction] * len(given.nodes)
    downs += [given.replica.down_fraction] * given.replicas
    total = 0.0
    for state in itertools.product((True, False), repeat=len(downs)):
        chance = math.prod(1 - down if up else down for up, down in zip(state, downs, strict=True))
        zones, rest = state[: len(given.zones)], list(state[len(given.zones) :])
        nodes, replicas = rest[: len(given.nodes)], rest[len(given.nodes) :]
        count, node, replica = 0, 0, 0
        for zone, sizes in zip(zones, given.zones, strict=True):
            for size in sizes:
                for _ in range(size):
                    count += zone and nodes[node] and replicas[replica]
                    replica += 1
                node += 1
        total += chance * (count >= needed)
    return total


@given(
    zones=st.sampled_from([((2,), (2,)), ((2, 1), (1,)), ((1, 1, 2),), ((3,), (1, 1))]),
    needed=st.integers(0, 5),
    downs=st.tuples(*[st.floats(0.0, 0.6)] * 3),
)
def test_correlated_losses_match_a_count_of_every_state(
    zones: tuple[tuple[int, ...], ...], needed: int, downs: tuple[float, float, float]
) -> None:
    case = domains(zones, replica=often(downs[0]), node=often(downs[1]), zone=often(downs[2]))
    assert availability(needed, case).fraction == pytest.approx(_every_state(needed, case), abs=1e-9)
    assert up_chances(case).sum() == pytest.approx(1.0)


@given(count=st.integers(1, 12), crews=st.integers(1, 12), load=st.floats(0.01, 3.0))
def test_the_number_failed_solves_the_birth_death_chain(count: int, crews: int, load: float) -> None:
    rates = np.zeros((count + 1, count + 1))
    for failed in range(count):
        rates[failed, failed + 1] = (count - failed) * load
        rates[failed + 1, failed] = min(failed + 1, crews)
    generator = rates - np.diag(rates.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(count + 1)])
    steady = np.linalg.lstsq(equations, np.array([0.0] * (count + 1) + [1.0]), rcond=None)[0]
    found = failed_chances(count, Breakage(failures_per_s=load, repair_s=1.0), crews)
    assert found == pytest.approx(steady, abs=1e-9)


@given(
    zones=st.sampled_from([((2,), (2,)), ((4, 4, 3), (4, 4)), ((1,) * 9,)]),
    needed=st.integers(0, 12),
    downs=st.tuples(*[st.floats(0.0, 0.4)] * 3),
)
def test_a_crew_for_everything_is_no_limit(
    zones: tuple[tuple[int, ...], ...], needed: int, downs: tuple[float, float, float]
) -> None:
    case = domains(zones, replica=often(downs[0]), node=often(downs[1]), zone=often(downs[2]))
    limited = availability(needed, case, crews=case.replicas)
    assert limited.fraction == pytest.approx(availability(needed, case).fraction, abs=1e-8)


def test_fewer_crews_are_never_better() -> None:
    case = domains(((4,) * 5, (4,) * 5), replica=often(0.05), node=often(0.05), zone=often(0.01))
    by_crews = [availability(30, case, crews=crews).fraction for crews in (1, 2, 3, 10)]
    assert by_crews == sorted(by_crews)
    assert by_crews[0] < by_crews[-1]


def test_drawn_sets_agree_with_counted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    case = domains(((4,) * 6, (4, 4, 4, 4, 4, 2)), replica=often(0.02), node=often(0.05), zone=often(0.01))
    exact = availability(38, case, crews=2)
    monkeypatch.setattr(module, "MOST_EXACT_STATES", 0)
    drawn = availability(38, case, crews=2, rng=np.random.default_rng(3))
    assert exact.is_exact
    assert not drawn.is_exact
    assert drawn.low_fraction <= exact.fraction <= drawn.high_fraction
    assert drawn.high_fraction - drawn.low_fraction < 0.02
    assert availability(38, case, crews=2, rng=np.random.default_rng(3)) == drawn
    with pytest.raises(InputError, match="rng"):
        availability(38, case, crews=2)


def test_a_large_fleet_is_drawn_by_itself() -> None:
    case = domains(((4,) * 150, (4,) * 150), replica=often(0.001), node=often(0.001), zone=often(0.0005))
    assert not availability(1180, case, crews=3, rng=np.random.default_rng(1)).is_exact
    assert availability(1180, case).is_exact


def _share_enough(events: list[FleetEvent], replicas: int, needed: int, until_s: float) -> float:
    down = np.zeros(replicas, int)
    enough_s, last_s = 0.0, 0.0
    for event in sorted(events, key=lambda each: each.at_s):
        at_s = min(event.at_s, until_s)
        enough_s += (at_s - last_s) * (int((down == 0).sum()) >= needed)
        last_s = at_s
        down[list(event.replicas)] += 1 if event.kind == "fail" else -1
    return (enough_s + (until_s - last_s) * (int((down == 0).sum()) >= needed)) / until_s


@pytest.mark.slow
def test_the_steady_state_is_what_drawn_failures_show() -> None:
    """The events that the simulator of fleets is fed spend this share of their time with enough replicas up."""
    case = domains(((4, 4), (4, 3)), replica=often(0.02, 3.0), node=often(0.03, 2.0), zone=often(0.02, 5.0))
    rng, until_s = np.random.default_rng(11), 150_000.0
    members = np.split(np.arange(case.replicas), np.cumsum(case.nodes)[:-1])
    levels: list[tuple[Breakage, list[tuple[int, ...]]]] = [
        (case.replica, [(replica,) for replica in range(case.replicas)]),
        (case.node, [tuple(int(each) for each in node) for node in members]),
        (case.zone, [tuple(range(8)), tuple(range(8, 15))]),
    ]
    events = [
        event
        for breakage, groups in levels
        for event in failure_events(
            groups,
            mean_up_s=1.0 / breakage.failures_per_s,
            mean_down_s=breakage.repair_s,
            until_s=until_s,
            rng=rng,
        )
    ]
    for needed in (7, 11, 14):
        drawn = _share_enough(events, case.replicas, needed, until_s)
        assert drawn == pytest.approx(availability(needed, case).fraction, abs=0.01)


@pytest.mark.slow
def test_crews_are_what_a_drawn_repair_shop_shows() -> None:
    """Twelve replicas on six nodes, one crew for devices and one for nodes, followed failure by failure."""
    case = domains(((2,) * 6,), replica=often(0.05), node=often(0.08))
    rng = np.random.default_rng(5)
    lost, broken = set[int](), set[int]()
    enough_s, total_s = 0.0, 0.0
    for _ in range(30_000):
        rates = np.array(
            [
                (12 - len(lost)) * case.replica.failures_per_s,
                float(bool(lost)),
                (6 - len(broken)) * case.node.failures_per_s,
                float(bool(broken)),
            ]
        )
        step_s = rng.exponential(1.0 / rates.sum())
        up = sum(1 for replica in range(12) if replica not in lost and replica // 2 not in broken)
        enough_s, total_s = enough_s + step_s * (up >= 9), total_s + step_s
        what = int(rng.choice(4, p=rates / rates.sum()))
        group, size = (lost, 12) if what < 2 else (broken, 6)
        if what % 2:
            group.remove(int(rng.choice(sorted(group))))
        else:
            group.add(int(rng.choice([each for each in range(size) if each not in group])))
    assert enough_s / total_s == pytest.approx(availability(9, case, crews=1).fraction, abs=0.015)


def test_a_repair_of_no_length_is_refused() -> None:
    with pytest.raises(InputError, match="must take time"):
        Breakage(failures_per_s=1.0, repair_s=0.0)
    with pytest.raises(InputError, match="repair_crews"):
        failed_chances(3, often(0.1), 0)
