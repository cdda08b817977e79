"""The study of plans of every shape: several pools and routes, one replica, a log's classes."""

from __future__ import annotations

import pytest

from support.key_probes import BASES
from support.planned import ONE_REPLICA, TWO_POOLS, planned


@pytest.mark.slow
@pytest.mark.parametrize("text", [BASES["routed"], TWO_POOLS, ONE_REPLICA], ids=["routed", "two pools", "one replica"])
def test_a_plan_of_any_shape_is_studied(text: str) -> None:
    found = planned(text)
    shortfalls = [each for each in found.figures if each.name.endswith("risk.shortfall_fraction")]
    assert len(shortfalls) == len(found.pools)
    assert all(0.0 <= float(each.value) <= 1.0 for each in shortfalls)
