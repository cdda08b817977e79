"""What is decided beside the load: a share kept free, replicas that always run, replicas that may ever run."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.planning.document import Plan

pytestmark = pytest.mark.slow

AS_OF = datetime.date(2026, 11, 15)
FILE = """
version: 1
service: chat
dated: 2026-11-15
workload:
  classes: [{name: chat, rate: 6 req/s, longest_context: 8192, slo: {ttft_p95: 2s, tpot_p95: 60ms}}]
pool: {model: llama-3.1-8b, device: l40sPOOL}
policy: {horizon: 30dPOLICY}
"""


def planned(folder: Path, *, pool: str = "", policy: str = "") -> Plan | Rejection:
    file = folder / "plan.yaml"
    file.write_text(FILE.replace("POOL", pool).replace("POLICY", policy))
    return verbs.plan(file, as_of=AS_OF, quick=True)


def fleet(found: Plan | Rejection) -> int:
    assert isinstance(found, Plan)
    return found.pools[0].steady_fleet.replicas


def test_a_share_kept_free_costs_replicas_once_and_says_so(tmp_path: Path) -> None:
    plain, kept = planned(tmp_path), planned(tmp_path, policy=", margin: 30%")
    assert fleet(kept) > fleet(plain)
    assert isinstance(kept, Plan)
    (pool,) = kept.pools
    (row,) = [each for each in pool.margins.rows if each.reason.startswith("by policy")]
    assert row.size.value == pytest.approx(0.3)
    assert row.cost is not None
    assert row.cost.value == pytest.approx(0.3 * fleet(kept))
    assert "policy.margin" in {each.name for each in kept.spec.inputs}


def test_replicas_that_always_run_are_there(tmp_path: Path) -> None:
    assert fleet(planned(tmp_path, pool=", least_replicas: 40")) == 40
    assert fleet(planned(tmp_path, pool=", least_replicas: 1")) == fleet(planned(tmp_path))


def test_a_plan_beyond_what_may_run_is_refused_and_its_remedy_fits(tmp_path: Path) -> None:
    found = planned(tmp_path, pool=", most_replicas: 3")
    assert isinstance(found, Rejection)
    assert found.stage == "scaling limits"
    assert isinstance(planned(tmp_path, pool=f", most_replicas: {found.figure.value}"), Plan)


def test_nothing_can_be_kept_wholly_free(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"policy\.margin"):
        planned(tmp_path, policy=", margin: 100%")
