"""The clairvoyant's course is the cheapest there is: against every course, tried one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ullage.scaling.clairvoyant import cheapest_fleet, schedule


def cost(course: tuple[int, ...], start: float) -> float:
    added = sum(max(0, after - before) for before, after in itertools.pairwise(course))
    return sum(course) + start * added


@pytest.mark.parametrize("start", [0.0, 0.4, 1.0, 2.5, 9.0])
def test_no_course_is_cheaper(start: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        needed = rng.integers(0, 4, 6)
        found = cheapest_fleet(needed, start_slots=start)
        courses = itertools.product(*(range(int(least), 4) for least in needed[1:]))
        best = min(cost((int(needed[0]), *each), start) for each in courses)
        assert found.cost_slots == pytest.approx(best)
        assert cost(tuple(found.replicas.tolist()), start) == pytest.approx(best)
        assert (found.replicas >= needed).all()


def test_a_course_costs_no_less_than_need_and_no_more_than_a_fixed_fleet() -> None:
    needed = np.random.default_rng(5).integers(1, 40, 500)
    found = cheapest_fleet(needed, start_slots=6.0)
    assert needed.sum() <= found.replicas.sum()
    assert found.cost_slots <= needed.max() * needed.size + 6.0 * (needed.max() - needed[0])


def test_replicas_are_asked_for_one_start_ahead() -> None:
    fleet = cheapest_fleet(np.array([1] * 10 + [4] * 5 + [1] * 20), start_slots=2.0)
    found = schedule(fleet, slot_s=60.0, lead_s=180.0)
    assert [found.at(60.0 * slot) for slot in (0, 6, 7, 10, 14, 15, 30)] == [1, 1, 4, 4, 4, 1, 1]
