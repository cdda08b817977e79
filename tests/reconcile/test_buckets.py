"""Bucketed latencies give intervals that hold the true quantile, by every definition of one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.reconcile.buckets import BucketCounts, merged_buckets

EDGES_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
DEFINITIONS = ("inverted_cdf", "linear", "lower", "higher", "hazen", "weibull", "median_unbiased", "normal_unbiased")


def counted(values: np.ndarray, edges_s: tuple[float, ...] = EDGES_S) -> BucketCounts:
    """As an engine counts them: up to and including each edge."""
    place = np.searchsorted(np.array(edges_s), values, side="left")
    counts = np.bincount(place, minlength=len(edges_s) + 1).astype(float)
    return BucketCounts(edges_s=edges_s, counts=tuple(counts.tolist()), sum_s=float(values.sum()))


latencies = st.lists(
    st.floats(0.0, 20.0, allow_nan=False) | st.sampled_from([0.0, 0.1, 0.25, 0.5, 10.0]), min_size=1, max_size=80
).map(np.array)


@given(latencies, st.floats(0.001, 0.999), st.sampled_from(DEFINITIONS))
def test_an_interval_holds_the_quantile_by_every_definition(values: np.ndarray, fraction: float, how: str) -> None:
    found = counted(values).quantile_s(fraction)
    assert found is not None
    assert found.low <= np.quantile(values, fraction, method=how) <= found.high  # type: ignore[call-overload]


@given(latencies, st.floats(0.0, 12.0))
def test_the_share_beyond_a_limit_lies_between_its_bounds(values: np.ndarray, limit_s: float) -> None:
    found = counted(values).above_fraction(limit_s)
    assert found is not None
    assert found.low <= float((values > limit_s).mean()) + 1e-12
    assert float((values > limit_s).mean()) <= found.high + 1e-12


@given(st.lists(latencies, min_size=1, max_size=4))
def test_merging_is_counting_together_and_the_mean_is_exact(parts: list[np.ndarray]) -> None:
    together = np.concatenate(parts)
    found = merged_buckets(counted(each) for each in parts)
    assert found is not None
    assert found.counts == counted(together).counts
    assert found.mean_s == pytest.approx(float(together.mean()), abs=1e-9)


def test_merging_keeps_only_the_edges_that_all_have() -> None:
    values = np.array([0.05, 0.3, 0.3, 3.0])
    fine, coarse = counted(values), counted(values, (0.1, 1.0))
    found = merged_buckets([fine, coarse])
    assert found is not None
    assert found.edges_s == (0.1, 1.0)
    assert found.counts == (2.0, 4.0, 2.0)


def test_nothing_counted_is_nothing_known() -> None:
    empty = BucketCounts(edges_s=(0.1,), counts=(0.0, 0.0), sum_s=0.0)
    assert empty.quantile_s(0.5) is None
    assert empty.above_fraction(0.1) is None
    assert empty.mean_s is None
    assert merged_buckets([empty]) is None
