"""The kernel against the literal reference, bit for bit, over every pair of features."""

from __future__ import annotations

import itertools
import os

import pytest

from support.equality import check_equal
from support.scenarios import FEATURES, covering_rows, pairs_of, scenario

# Each row of the covering array with this many random problems: hundreds here, thousands in `make soak`.
PROBLEMS_PER_ROW = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 25
ROWS = range(len(covering_rows()))


def test_every_pair_of_feature_levels_occurs() -> None:
    seen = set().union(*(pairs_of(dict(row)) for row in covering_rows()))
    for a, b in itertools.combinations(FEATURES, 2):
        for x, y in itertools.product(FEATURES[a], FEATURES[b]):
            assert (a, x, b, y) in seen


@pytest.mark.parametrize("row", ROWS)
def test_kernel_and_reference_agree(row: int) -> None:
    features = dict(covering_rows()[row])
    for seed in range(PROBLEMS_PER_ROW):
        found = check_equal(scenario(features, 1000 * row + seed))
        assert not found, (features, 1000 * row + seed, found)
