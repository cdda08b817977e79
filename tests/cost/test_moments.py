"""Busy time divided over requests and groups, against a sweep by seconds and the definition of Shapley."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from support.usage_logs import rows, usage_log
from ullage.cost.attribution.moments import group_shares_s, request_shares_s
from ullage.cost.attribution.shapley import sampled_shapley
from ullage.cost.attribution.usage import UsageLog

Row = tuple[int, float, float, int, int, bool]


def _times(log: UsageLog) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert log.start_s is not None
    assert log.end_s is not None
    return log.start_s, log.end_s, log.labels["tenant"].places + 1


@given(rows())
def test_a_sweep_over_seconds_finds_the_same_shares(given_rows: list[Row]) -> None:
    start, end, group = _times(usage_log(given_rows))
    per_request, per_group = np.zeros(start.size), np.zeros(4)
    for second in range(int(end.max())):
        there = (start <= second) & (second < end)
        if there.any():
            per_request[there] += 1.0 / there.sum()
            present = np.unique(group[there])
            per_group[present] += 1.0 / present.size
    np.testing.assert_allclose(request_shares_s(start, end), per_request, atol=1e-9)
    np.testing.assert_allclose(group_shares_s(start, end, group, 4), per_group, atol=1e-9)


def busy_s(start: np.ndarray, end: np.ndarray) -> float:
    """How long at least one request was there: intervals joined where they meet."""
    total, reached = 0.0, -np.inf
    for first, last in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total


@given(rows())
def test_both_divisions_sum_to_the_busy_time(given_rows: list[Row]) -> None:
    start, end, group = _times(usage_log(given_rows))
    busy = busy_s(start, end)
    assert busy <= end.max() - start.min() + 1e-9
    assert request_shares_s(start, end).sum() == pytest.approx(busy)
    assert group_shares_s(start, end, group, 4).sum() == pytest.approx(busy)


@given(rows(most=12))
def test_dividing_moments_is_the_shapley_value_of_busy_time(given_rows: list[Row]) -> None:
    start, end, group = _times(usage_log(given_rows))

    def worth(there: np.ndarray) -> float:
        chosen = there[group]
        return busy_s(start[chosen], end[chosen])

    exact = np.zeros(4)
    orders = list(itertools.permutations(range(4)))
    for order in orders:
        there, before = np.zeros(4, bool), 0.0
        for player in order:
            there[player] = True
            exact[player] += (worth(there) - before) / len(orders)
            before = worth(there)
    np.testing.assert_allclose(group_shares_s(start, end, group, 4), exact, atol=1e-9)


def test_replicas_do_not_share_moments() -> None:
    start, end = np.zeros(2), np.full(2, 10.0)
    assert request_shares_s(start, end).tolist() == [5.0, 5.0]
    assert request_shares_s(start, end, np.array([0, 1])).tolist() == [10.0, 10.0]


def test_sampling_finds_shapley_values_with_an_honest_error() -> None:
    rng = np.random.default_rng(7)
    start = rng.uniform(0.0, 100.0, 200)
    end, group = start + rng.exponential(5.0, 200), rng.integers(0, 8, 200)
    exact = group_shares_s(start, end, group, 8)
    found = sampled_shapley(
        8, lambda there: busy_s(start[there[group]], end[there[group]]), rng=np.random.default_rng(1)
    )
    assert found.values.sum() == pytest.approx(exact.sum())
    assert (np.abs(found.values - exact) < 4.5 * found.errors + 1e-9).all()
    assert (found.errors < 0.02 * exact.sum()).all()


def test_sampling_a_peak_is_fair_to_equals_and_exact_where_peaks_add() -> None:
    together = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    found = sampled_shapley(
        3, lambda there: float(together[there].sum(axis=0).max(initial=0.0)), rng=np.random.default_rng(1), pairs=2000
    )
    assert found.values.sum() == pytest.approx(6.0)
    assert found.values[0] == pytest.approx(found.values[1], abs=0.05)
    # The third only ever adds where it comes before both others: one order in three, and there by 1.
    assert found.values[2] == pytest.approx(1.0 / 3.0, abs=0.05)
