"""Which rule belongs to which pool of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.planned import TWO_POOLS, planned
from ullage.errors import InputError
from ullage.readers.kubernetes import read_rules
from ullage.verbs.scale import _passed_over

SCALER = """
kind: HorizontalPodAutoscaler
metadata: {name: NAME}
spec: {scaleTargetRef: {kind: Deployment, name: NAME}, maxReplicas: 9}
---
"""


@pytest.mark.slow
def test_a_rule_of_no_pool_is_named_and_a_file_without_any_is_refused(tmp_path: Path) -> None:
    made = planned(TWO_POOLS)
    name = made.pools[0].spec.name
    (tmp_path / "rules.yaml").write_text(SCALER.replace("NAME", name) + SCALER.replace("NAME", "web"))
    both = read_rules([tmp_path / "rules.yaml"])
    assert _passed_over(made, both) == ("HPA web scales web, which is no pool of this plan.",)
    with pytest.raises(InputError, match=f"HorizontalPodAutoscaler web = 'web': .* pools are {name}"):
        _passed_over(made, both[1:])
