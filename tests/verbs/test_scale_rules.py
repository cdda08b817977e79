"""Which rule belongs to which pool of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.planned import SMALL, TWO_POOLS, planned
from ullage.errors import InputError
from ullage.readers.kubernetes import read_rules
from ullage.verbs.scale import _of_pool, _passed_over

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


@pytest.mark.slow
def test_the_only_pool_takes_the_rule_of_its_name_or_all_and_says_which(tmp_path: Path) -> None:
    made = planned(json.dumps(SMALL))
    pool = made.pools[0]
    (tmp_path / "rules.yaml").write_text(SCALER.replace("NAME", pool.spec.name) + SCALER.replace("NAME", "web"))
    own, web = read_rules([tmp_path / "rules.yaml"])
    assert _of_pool(made, pool, (own, web)) == [own]
    assert _passed_over(made, (own, web)) == ("HPA web scales web, which is no pool of this plan.",)
    assert _of_pool(made, pool, (web,)) == [web]
    assert _passed_over(made, (web,)) == ()
    (tmp_path / "others.yaml").write_text(SCALER.replace("NAME", "api") + SCALER.replace("NAME", "web"))
    others = read_rules([tmp_path / "others.yaml"])
    assert _of_pool(made, pool, others) == list(others)
    (note,) = _passed_over(made, others)
    assert "HPA api scales api, HPA web scales web" in note
