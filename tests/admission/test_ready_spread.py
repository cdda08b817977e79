"""A duration as p10, p50 and p90: met exactly, and with the mean that its draws have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.startup.spread import Z90, Spread, observed

seconds = st.floats(min_value=0.01, max_value=1e5)
ratios = st.floats(min_value=1.0, max_value=6.0)


@st.composite
def spreads(draw: st.DrawFn) -> Spread:
    middle = draw(seconds)
    return Spread(low_s=middle / draw(ratios), median_s=middle, high_s=middle * draw(ratios))


@given(spreads())
def test_the_three_percentiles_are_met(spread: Spread) -> None:
    found = spread.at(np.array([-Z90, 0.0, Z90]))
    assert found.tolist() == pytest.approx([spread.low_s, spread.median_s, spread.high_s])


@given(spreads(), st.lists(st.floats(min_value=-4, max_value=4), min_size=2))
def test_more_bad_luck_is_never_faster(spread: Spread, deviates: list[float]) -> None:
    found = spread.at(np.sort(np.array(deviates)))
    assert np.all(np.diff(found) >= 0)


def test_the_mean_is_that_of_its_draws() -> None:
    """Against plain numerical integration over the normal density."""
    spread = Spread(low_s=4.0, median_s=10.0, high_s=45.0)
    z = np.linspace(-12, 12, 400_001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    assert spread.mean_s == pytest.approx(float(np.sum(spread.at(z) * density) * (z[1] - z[0])), rel=1e-6)


@given(spreads(), st.floats(min_value=0.1, max_value=10))
def test_scaling_scales_the_mean(spread: Spread, factor: float) -> None:
    assert spread.times(factor).mean_s == pytest.approx(spread.mean_s * factor)


def test_what_does_not_happen_takes_no_time() -> None:
    never = Spread(low_s=0.0, median_s=0.0, high_s=0.0)
    assert never.at(np.array([-3.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 0.0]
    assert never.mean_s == 0.0
    assert observed([0.0, 0.0, 0.0], repeat_ratio=1.3) == never


@pytest.mark.parametrize(
    ("low", "middle", "high"),
    [(2.0, 1.0, 3.0), (1.0, 3.0, 2.0), (0.0, 1.0, 2.0), (-1.0, 1.0, 2.0), (1.0, 2.0, float("inf"))],
)
def test_three_numbers_that_are_no_percentiles_are_refused(low: float, middle: float, high: float) -> None:
    with pytest.raises(InputError, match="p10, p50 and p90"):
        Spread(low_s=low, median_s=middle, high_s=high)


@given(st.lists(seconds, min_size=1, max_size=9), ratios)
def test_observations_lie_inside_what_they_say(samples: list[float], ratio: float) -> None:
    spread = observed(samples, repeat_ratio=ratio)
    assert spread.low_s <= min(samples)
    assert spread.high_s >= max(samples)
    assert spread.high_s >= spread.median_s * ratio * (1 - 1e-12)
