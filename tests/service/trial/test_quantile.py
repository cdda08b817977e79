"""Percentiles of windows together, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from ullage.service.trial.quantile import pooled_quantiles
from ullage.simulate.histogram import KeptHistogram, LogHistogram, bin_edges_s

BINS = 128 * 30


def _histogram(values_s: np.ndarray) -> KeptHistogram:
    counts, _ = np.histogram(values_s, bins=bin_edges_s(BINS))
    return KeptHistogram.of(LogHistogram(counts=counts.astype(np.int64)))


def _runs(seed: int, *, count: int = 8, size: int = 2_000) -> list[KeptHistogram]:
    rng = np.random.default_rng(seed)
    # Runs differ as a whole, as runs with and without a burst do.
    return [_histogram(rng.exponential(1.0, size) * rng.lognormal(0.0, 0.1)) for _ in range(count)]


def test_the_value_is_the_percentile_of_all_requests_together() -> None:
    rng = np.random.default_rng(5)
    parts = [rng.exponential(1.0, 500 * (k + 1)) for k in range(4)]
    found = pooled_quantiles([_histogram(each) for each in parts], [0.95])[0]
    assert found is not None
    assert found.value == pytest.approx(np.quantile(np.concatenate(parts), 0.95), rel=0.01)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    truth = pooled_quantiles(_runs(10_000, count=400), [0.95])[0]
    assert truth is not None
    found = [pooled_quantiles(_runs(seed), [0.95])[0] for seed in range(60)]
    covered = sum(each is not None and each.low <= truth.value <= each.high for each in found)
    assert covered >= 51, f"{covered} of 60; 57 are expected"


def test_a_stratum_of_little_weight_moves_the_percentile_little() -> None:
    """Two windows in a hundred are ten times as slow: sampled as often as the others, and weighed by what they are."""
    rng = np.random.default_rng(3)
    calm, slow = ([_histogram(rng.exponential(each, 2_000)) for _ in range(6)] for each in (1.0, 10.0))
    weights = np.repeat([0.02 / 6, 0.98 / 6], 6)
    found = pooled_quantiles([*slow, *calm], [0.95], weights=weights, strata=(6, 6))[0]
    assert found is not None
    values = np.concatenate([rng.exponential(10.0, 20_000), rng.exponential(1.0, 980_000)])
    assert found.value == pytest.approx(np.quantile(values, 0.95), rel=0.05)
    assert found.low <= found.value <= found.high


def test_one_run_or_no_requests_have_no_interval() -> None:
    assert pooled_quantiles(_runs(1, count=1), [0.95])[0] is None
    assert pooled_quantiles([_histogram(np.empty(0))] * 3, [0.95])[0] is None
