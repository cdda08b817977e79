"""Intervals that cover what they say, and a rule that stops or says that it cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ullage.simulate.outcome import Counts
from ullage.simulate.statistics import mean_interval, replication_seeds, t_quantile, until_narrow


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


def test_successes_are_a_share_of_requests_that_ended() -> None:
    # Ten requests, two of them still under way; an attempt that was followed by another is no request of its own.
    counts = Counts(success=4, late=1, shed=1, oversize=0, timed_out=1, cancelled=0, failed=1, unfinished=2, retried=3)
    assert counts.requests == 10
    assert counts.success_fraction == 0.5
    assert math.isnan(Counts(0, 0, 0, 0, 0, 0, 0, unfinished=2, retried=0).success_fraction)
