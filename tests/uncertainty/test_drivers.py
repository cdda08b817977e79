"""Drivers against SALib and against indices that are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from SALib.analyze import sobol as salib_sobol  # type: ignore[import-untyped]
from SALib.sample import sobol as salib_sample  # type: ignore[import-untyped]
from SALib.test_functions import Ishigami  # type: ignore[import-untyped]

from ullage.uncertainty.drivers import SobolDriver, sobol_drivers


def _ishigami(points: np.ndarray) -> np.ndarray:
    return np.asarray(Ishigami.evaluate((2.0 * points - 1.0) * np.pi))


def _by_name(found: tuple[SobolDriver, ...]) -> dict[str, SobolDriver]:
    return {each.name: each for each in found}


def test_indices_are_those_of_salib() -> None:
    problem = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": [[0.0, 1.0]] * 3}
    rows = salib_sample.sample(problem, 2048, calc_second_order=False, seed=1)
    theirs = salib_sobol.analyze(problem, _ishigami(rows), calc_second_order=False, seed=1)
    ours = _by_name(sobol_drivers(_ishigami, ("a", "b", "c"), count=2048, seed=1))
    for place, name in enumerate("abc"):
        assert ours[name].first_fraction == pytest.approx(theirs["S1"][place], abs=0.03)
        assert ours[name].total_fraction == pytest.approx(theirs["ST"][place], abs=0.03)


def test_intervals_hold_the_closed_form_and_the_largest_stands_first() -> None:
    found = sobol_drivers(_ishigami, ("a", "b", "c"), count=4096, seed=2)
    # Ishigami with a = 7, b = 0.1.
    known = {"a": (0.3139, 0.5576), "b": (0.4424, 0.4424), "c": (0.0, 0.2437)}
    assert [each.name for each in found] == ["a", "b", "c"]
    for each in found:
        first, total = known[each.name]
        assert each.first_low_fraction - 0.01 <= first <= each.first_high_fraction + 0.01
        assert each.total_low_fraction - 0.01 <= total <= each.total_high_fraction + 0.01


def test_columns_of_one_name_are_one_driver() -> None:
    found = _by_name(
        sobol_drivers(lambda points: points @ np.array([1.0, 2.0, 2.0]), ("x", "y", "y"), count=2048, seed=0)
    )
    assert found["x"].first_fraction == pytest.approx(1 / 9, abs=0.02)
    assert found["y"].total_fraction == pytest.approx(8 / 9, abs=0.02)


def test_an_outcome_that_never_changes_has_no_drivers() -> None:
    assert sobol_drivers(lambda points: np.ones(len(points)), ("x", "y"), count=64, seed=0) == ()
