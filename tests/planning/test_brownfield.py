"""A plan compared with what runs: what is missing is asked for first, and a rollout that cannot end is named."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from ullage import verbs
from ullage.planning.brownfield.brownfield import Brownfield, brownfield
from ullage.planning.brownfield.risks import RiskSeverity
from ullage.planning.brownfield.running import Running, RunningNode, RunningPool
from ullage.planning.document import Plan
from ullage.readers.kubernetes import read_running

pytestmark = pytest.mark.slow

POOL = RunningPool(
    name="pool",
    kind="Deployment",
    where="here",
    replicas=40,
    devices_per_replica=2,
    engine="vllm",
    model="qwen3-32b",
    settings={"tensor_parallel": "2"},
    device="NVIDIA-H100-80GB-HBM3",
    surge="1",
    unavailable="0",
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = verbs.plan(as_of=datetime.date(2026, 11, 15), quick=True)
    assert isinstance(found, Plan)
    return found


def compared(plan: Plan, pool: RunningPool, *, devices: int = 400) -> Brownfield:
    nodes = (RunningNode(name="n", devices=devices),)
    return brownfield(plan, Running(pools=(pool,), nodes=nodes), models={"qwen3-32b": "qwen3-32b"})


def need(plan: Plan) -> int:
    (pool,) = plan.pools
    return pool.steady_fleet.replicas + pool.reserves.replicas


def stops(found: Brownfield) -> list[str]:
    risks = [*found.risks, *(one for each in found.changes for one in each.risks)]
    return [each.sentence for each in risks if each.weight is RiskSeverity.STOPS]


def test_a_fleet_as_planned_needs_no_step(plan: Plan) -> None:
    found = compared(plan, replace(POOL, replicas=need(plan)))
    assert (found.steps, stops(found)) == ((), [])


def test_what_is_missing_is_the_difference_and_devices_come_first(plan: Plan) -> None:
    found = compared(plan, replace(POOL, replicas=10), devices=24)
    (change,) = found.changes
    assert change.change_replicas == need(plan) - 10
    assert change.change_devices == 2 * change.change_replicas
    assert found.steps[0].startswith(f"Order {change.change_devices - 4} devices")
    assert found.steps[1].startswith("Scale pool from 10")


def test_a_larger_fleet_is_let_go_last(plan: Plan) -> None:
    found = compared(
        plan, replace(POOL, replicas=need(plan) + 5, settings={"tensor_parallel": "2", "max_context": "4096"})
    )
    assert [each.name for each in found.changes[0].settings] == ["max_context"]
    assert "Roll out new settings" in found.steps[0]
    assert "Only then scale pool down" in found.steps[-1]


@pytest.mark.parametrize(("devices", "deadlocks"), [(2 * 200, True), (2 * 200 + 2, False)])
def test_a_rollout_without_a_free_device_is_named(plan: Plan, devices: int, deadlocks: bool) -> None:
    found = compared(plan, replace(POOL, replicas=200), devices=devices)
    assert any("cannot finish" in each for each in stops(found)) is deadlocks


def test_bounds_of_an_autoscaler_are_held_against_the_plan(plan: Plan) -> None:
    found = compared(plan, replace(POOL, replicas=need(plan), least_replicas=1, most_replicas=20, scaled_by="HPA chat"))
    assert any("at most 20" in each for each in stops(found))
    assert [each.split(" of ")[0] for each in found.steps] == [
        "Raise the maximum replicas",
        "Raise the minimum replicas",
    ]


def test_what_emit_writes_is_as_planned(plan: Plan) -> None:
    """The rule's minimum and the rollout's pace are the plan's: nothing is left to raise or to set."""
    (pool,) = plan.pools
    rollout = pool.reserves.rollout
    found = compared(
        plan,
        replace(
            POOL,
            replicas=pool.scaling.derived.least_replicas,
            least_replicas=pool.scaling.derived.least_replicas,
            most_replicas=need(plan),
            scaled_by="HPA chat",
            surge=str(rollout.surge_replicas + rollout.unavailable_replicas),
            unavailable="0",
        ),
    )
    (change,) = found.changes
    assert [each.name for each in change.limits if "rollout" in each.name and each.have != each.need] == []
    assert [each.split(" ")[0] for each in found.steps] == ["Scale"]


def test_another_device_or_another_cut_is_another_replica(plan: Plan) -> None:
    assert any("is for h100-sxm" in each for each in stops(compared(plan, replace(POOL, device="NVIDIA-L40S"))))
    assert any("a different replica" in each for each in stops(compared(plan, replace(POOL, devices_per_replica=4))))


def test_what_is_in_no_plan_keeps_its_devices(plan: Plan) -> None:
    other = replace(POOL, name="other", model="gpt-oss-20b")
    found = compared(plan, other)
    assert [each.name for each in found.unplanned] == ["other"]
    assert found.steps[0].startswith("Deploy pool with")


def sentences(found: Brownfield) -> str:
    return "\n".join(one.sentence for each in found.changes for one in each.risks)


def test_an_autoscaler_on_the_cpu_is_named_with_what_to_follow_instead(plan: Plan) -> None:
    """A GPU's host looks the same to it at any load; one that follows the queue as well is only a cost."""
    pool = replace(POOL, replicas=need(plan), scaled_by="HPA chat", signals=("cpu",))
    waiting = int(plan.pools[0].admission_limits.figures["limit.replica_queue_requests"].value)
    found = compared(plan, pool)
    assert any("follows cpu" in each for each in stops(found))
    assert any(f"follow waiting requests per replica, below {waiting}" in each for each in found.steps)
    both = compared(plan, replace(pool, signals=("cpu", "vllm:num_requests_waiting")))
    assert stops(both) == []
    assert "beside vllm:num_requests_waiting" in sentences(both)
    assert "follows" not in sentences(compared(plan, replace(pool, signals=("vllm:num_requests_waiting",))))


def test_a_memory_share_that_leaves_too_little_is_named(plan: Plan) -> None:
    settings = {"tensor_parallel": "2"}
    full = compared(plan, replace(POOL, replicas=need(plan), settings={**settings, "memory_fraction": "0.98"}))
    assert any("memory_fraction 0.98 leaves 1.6 GiB" in each for each in stops(full))
    assert ("memory_fraction", "0.98", "0.92") in [(e.name, e.have, e.need) for e in full.changes[0].settings]
    usual = compared(plan, replace(POOL, replicas=need(plan), settings={**settings, "memory_fraction": "0.92"}))
    assert (usual.changes[0].settings, stops(usual)) == ((), [])


def test_a_prefix_cache_that_is_off_and_another_cache_dtype_are_named(plan: Plan) -> None:
    settings = {"tensor_parallel": "2"}
    off = compared(plan, replace(POOL, replicas=need(plan), settings={**settings, "prefix_cache": "off"}))
    assert any("The prefix cache is off, and the plan counts on" in each for each in stops(off))
    other = {"prefix_cache": "off", "kv_dtype": "fp8_e4m3", "graphs": "off"}
    found = compared(plan, replace(POOL, replicas=need(plan), settings={**settings, **other}))
    assert [(each.name, each.have, each.need) for each in found.changes[0].settings] == [
        ("kv_dtype", "fp8_e4m3", "bf16"),
        ("prefix_cache", "off", "on"),
        ("graphs", "off", "on"),
    ]
    same = {"prefix_cache": "on", "kv_dtype": "auto"}
    fine = compared(plan, replace(POOL, replicas=need(plan), settings={**settings, **same}))
    assert (fine.changes[0].settings, stops(fine)) == ((), [])


SATURATED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 40
  template:
    spec:
      containers:
        - {image: "vllm/vllm-openai:v0.32.0", args: [--model, m/x], resources: {limits: {nvidia.com/gpu: 2}}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 30
  maxReplicaCount: 60
  triggers:
    - {type: prometheus, metadata: {serverAddress: "http://p", query: avg(vllm:kv_cache_usage_perc), threshold: "1.0"}}
"""


def test_a_rule_whose_signal_saturates_is_to_follow_waiting_requests(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "running.yaml").write_text(SATURATED)
    (read,) = read_running([tmp_path / "running.yaml"]).pools
    found = compared(plan, replace(read, name=POOL.name))
    assert any("Its rule, saturated" in each for each in stops(found))
    assert any("instead of avg(vllm:kv_cache_usage_perc)" in each for each in found.steps)
    follows = SATURATED.replace("kv_cache_usage_perc", "num_requests_waiting").replace('"1.0"', '"3"')
    (tmp_path / "running.yaml").write_text(follows)
    (read,) = read_running([tmp_path / "running.yaml"]).pools
    assert not any("follow waiting requests" in each for each in compared(plan, replace(read, name=POOL.name)).steps)


def test_a_rollout_that_takes_needed_replicas_away_is_named(plan: Plan) -> None:
    """Surge 0 with one of two unavailable leaves half of them; a fleet with its reserves can spare one."""
    two = compared(plan, replace(POOL, replicas=2, surge="0", unavailable="1"))
    assert any("takes 1 of 2 replicas away" in each for each in stops(two))
    reserve = plan.pools[0].reserves.rollout
    assert any(f"surge by {reserve.surge_replicas} with {reserve.unavailable_replicas}" in each for each in two.steps)
    whole = compared(plan, replace(POOL, replicas=need(plan), surge="0", unavailable="1"))
    assert stops(whole) == []


def test_an_engine_versions_behind_is_named_and_a_patch_release_is_not(plan: Plan) -> None:
    assert plan.pools[0].memory.runtime.version == "0.32.0"
    old = compared(plan, replace(POOL, replicas=need(plan), engine_version="0.11.0"))
    assert "vllm 0.11.0 runs, and the plan is made for 0.32.0" in sentences(old)
    for fine in ("0.32.1", "0.33.0", "", "nightly"):
        assert "runs, and the plan" not in sentences(compared(plan, replace(POOL, engine_version=fine)))


def test_the_limits_are_those_of_the_plan(plan: Plan) -> None:
    figures = plan.pools[0].admission_limits.figures
    found = compared(plan, replace(POOL, replicas=need(plan), settings={"tensor_parallel": "2", "max_sequences": "7"}))
    needed = {each.name: (each.have, each.need) for each in found.changes[0].limits}
    running = f"{figures['limit.engine_running_requests'].value:g}"
    assert needed["engine max_sequences"] == ("7", running)
    assert needed["gateway waiting per replica"][1] == f"{figures['limit.replica_queue_requests'].value:g}"
    assert any(f"from 7 to {running}" in each for each in found.steps)
