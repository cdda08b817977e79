"""The knee of curves whose knee is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.service.curve.knee import knee_rps

LOADS = np.linspace(0.05, 0.95, 19)


def test_a_queue_bends_where_its_curvature_is_greatest() -> None:
    """On scaled axes 1 / (1 - load) has slope 1 where (1 - load)^2 = (1 - first)(1 - last)."""
    latency = 1 / (1 - LOADS)
    exact = 1 - np.sqrt((1 - LOADS[0]) * (1 - LOADS[-1]))
    found = knee_rps(LOADS.tolist(), latency.tolist())
    assert found is not None
    assert found == pytest.approx(exact, abs=0.05)


def test_a_straight_or_flat_curve_has_no_knee() -> None:
    assert knee_rps(LOADS.tolist(), (3 + 2 * LOADS).tolist()) is None
    assert knee_rps(LOADS.tolist(), [1.0] * LOADS.size) is None


def test_three_points_say_nothing() -> None:
    assert knee_rps([1, 2, 3], [1, 1, 9]) is None


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_units_do_not_move_the_knee(load_ratio: float, latency_ratio: float) -> None:
    plain = knee_rps(LOADS.tolist(), (1 / (1 - LOADS)).tolist())
    scaled = knee_rps((LOADS * load_ratio).tolist(), (latency_ratio / (1 - LOADS)).tolist())
    assert plain is not None
    assert scaled == pytest.approx(plain * load_ratio)
