"""Intervals that cover what they say, warm-up that is found, and a rule that stops or says that it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.simulate.statistics import (
    difference_interval,
    mean_interval,
    quantile_interval,
    replicate,
    replication_seeds,
    t_quantile,
    until_narrow,
    warmup_count,
)


@pytest.mark.parametrize(
    ("fraction", "freedom", "published"),
    [(0.975, 1, 12.706), (0.975, 4, 2.776), (0.95, 9, 1.833), (0.995, 30, 2.750), (0.975, 1000, 1.962)],
)
def test_student_quantiles_are_the_published_ones(fraction: float, freedom: int, published: float) -> None:
    assert t_quantile(fraction, freedom) == pytest.approx(published, abs=6e-4)


def test_the_interval_of_the_mean_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        found = mean_interval(rng.normal(3.0, 2.0, 8).tolist())
        hits += found.low <= 3.0 <= found.high
    assert 0.92 < hits / 400 < 0.98


def test_the_interval_of_a_percentile_covers_for_correlated_values() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(200):
        # A moving average of the noise: neighbours share it, so values are correlated over 20 places.
        values = np.convolve(rng.normal(size=20_019), np.ones(20), mode="valid")
        truth = 1.2815515655446004 * np.sqrt(20)  # the 90th percentile of a normal of variance 20
        found = quantile_interval(values, 0.9)
        hits += found.low <= truth <= found.high
    assert 0.89 <= hits / 200 <= 0.99


def test_too_few_values_for_a_percentile_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        quantile_interval(np.ones(100), 0.99)


def test_warmup_is_found_where_it_is_and_not_where_it_is_not() -> None:
    rng = np.random.default_rng(3)
    steady = rng.normal(size=2000)
    rising = steady.copy()
    rising[:300] -= 10
    assert 280 <= warmup_count(rising) <= 400
    assert warmup_count(steady) < 400


def test_common_random_numbers_make_differences_narrow() -> None:
    def noisy(shift: float) -> list[float]:
        return list(replicate(lambda seed: shift + float(np.random.default_rng(seed).normal()), seed=9, count=20))

    paired = difference_interval(noisy(0.1), noisy(0.0))
    assert paired.low == pytest.approx(0.1)
    assert paired.high == pytest.approx(0.1)


def test_seeds_are_a_prefix_of_more_seeds() -> None:
    assert replication_seeds(5, 10)[:4] == replication_seeds(5, 4)
    assert replication_seeds(5, 4) != replication_seeds(6, 4)


def test_the_rule_stops_when_narrow_and_says_when_it_is_not() -> None:
    def run(seed: int) -> float:
        return 10 + float(np.random.default_rng(seed).normal())

    enough = until_narrow(run, seed=1, relative_half_width_fraction=0.1)
    assert enough.is_reached
    assert len(enough.values) < 64
    never = until_narrow(run, seed=1, relative_half_width_fraction=0.001, most=16)
    assert not never.is_reached
    assert len(never.values) == 16
