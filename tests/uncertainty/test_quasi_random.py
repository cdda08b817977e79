"""Sobol's sequence against another program, and normal scores against the standard library."""

from __future__ import annotations

import warnings
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import qmc

from ullage.errors import InternalError
from ullage.fleet.risk.quasi_random import MOST_DIMENSIONS, normal_fractions, normal_scores, sobol_points


def test_the_sequence_is_that_of_scipy_in_every_dimension() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = qmc.Sobol(MOST_DIMENSIONS, scramble=False, bits=32).random(300)
    assert np.allclose(sobol_points(300, MOST_DIMENSIONS), other, atol=1e-9)


def test_shifted_points_stay_even_and_inside() -> None:
    points = sobol_points(1024, 6, np.random.default_rng(3))
    assert points.min() > 0.0
    assert points.max() < 1.0
    for column in points.T:
        assert np.array_equal(np.bincount((column * 64).astype(int), minlength=64), np.full(64, 16))
    assert not np.allclose(points, sobol_points(1024, 6, np.random.default_rng(4)))


def test_more_columns_than_the_table_has_are_drawn_and_asked_for_with_a_generator() -> None:
    assert sobol_points(8, MOST_DIMENSIONS + 3, np.random.default_rng(0)).shape == (8, MOST_DIMENSIONS + 3)
    with pytest.raises(InternalError, match="dimensions"):
        sobol_points(8, MOST_DIMENSIONS + 3)


def test_scores_and_fractions_are_each_other_s_inverse() -> None:
    fractions = np.array([1e-6, 0.003, 0.25, 0.5, 0.9, 0.9999])
    scores = normal_scores(fractions)
    assert np.allclose(scores, [NormalDist().inv_cdf(each) for each in fractions.tolist()], atol=1e-4)
    assert np.allclose(normal_fractions(scores), fractions, rtol=1e-3)
