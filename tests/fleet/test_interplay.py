"""What slow things are worth together, on points whose answer is known."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ullage.fleet.risk.surface import _interplay


class Surface:
    """Ten requests a second; a ratio of r makes log r of loss alone, and log^2 r of loss for being together."""

    def factor_logs(self, ratios: dict[str, Any]) -> tuple[Any, Any]:
        log = np.log(ratios["steps"])
        return log, log**2

    def capacity_rps(self, replicas: int) -> float:
        return 10.0 * replicas


def point(ratio: float, tried_rps: float, surface_rps: float = 1.0) -> Any:
    return SimpleNamespace(ratios={"steps": ratio}, replicas=2, tried_rps=tried_rps, surface_rps=surface_rps)


def worth(*points: Any) -> float:
    return _interplay(Surface(), points)  # type: ignore[arg-type]


def test_the_interplay_is_that_of_least_squares_through_the_origin() -> None:
    # What carries 20 and is found to carry 20 / r^(1 + 2 log r) loses twice its pairs beyond its parts.
    def exact(ratio: float, share: float) -> Any:
        log = math.log(ratio)
        return point(ratio, 20.0 * math.exp(-log - share * log**2))

    assert worth(exact(1.5, 2.0), exact(2.0, 2.0)) == pytest.approx(2.0)
    # A point of twice the pairs counts four times as much.
    root = math.exp(math.sqrt(2.0) * math.log(1.5))
    assert worth(exact(1.5, 1.0), exact(root, 2.0)) == pytest.approx((1.0 + 4 * 2.0) / 5)
    assert worth(exact(1.5, -1.0)) == 0.0
    assert worth(exact(1.5, 9.0)) == 4.0
    assert worth() == worth(point(1.0, 20.0)) == 0.0


def test_points_at_which_the_surface_carries_nothing_are_left_out_and_nothing_is_below_the_search() -> None:
    known = point(1.5, 20.0 * math.exp(-math.log(1.5) - math.log(1.5) ** 2))
    assert worth(known, point(3.0, 1.0, surface_rps=0.0)) == pytest.approx(1.0)
    assert worth(point(9.0, 0.0)) == worth(point(9.0, 0.4)) > worth(point(9.0, 0.6))
