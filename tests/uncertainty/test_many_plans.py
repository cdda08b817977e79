"""The study of plans of every shape: several pools and routes, one replica, a log's classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.key_probes import AS_OF, BASES
from support.planned import ONE_REPLICA, TWO_POOLS
from ullage import verbs
from ullage.errors import Rejection


@pytest.mark.slow
@pytest.mark.parametrize("text", [BASES["routed"], TWO_POOLS, ONE_REPLICA], ids=["routed", "two pools", "one replica"])
def test_a_plan_of_any_shape_is_studied(text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    found = verbs.plan(file, as_of=AS_OF)
    assert not isinstance(found, Rejection), found
    shortfalls = [each for each in found.figures if each.name.endswith("risk.shortfall_fraction")]
    assert len(shortfalls) == len(found.pools)
    assert all(0.0 <= float(each.value) <= 1.0 for each in shortfalls)
