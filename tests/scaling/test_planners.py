"""llm-d's variant autoscaler and Dynamo's planner: cases worked by hand from their documentation and source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ullage.errors import InputError
from ullage.readers.kubernetes import read_rules
from ullage.readers.kubernetes.autoscaler_rules import ReadRule
from ullage.scaling.hpa import HpaSpec, HpaState, hpa_step
from ullage.scaling.keda import KedaSpec
from ullage.scaling.planners.dynamo import (
    DynamoSpec,
    DynamoTarget,
    TrendFilter,
    budgeted,
    load_target,
    traffic_target,
)
from ullage.scaling.planners.variant import (
    ReplicaLoad,
    StepLimits,
    VariantSpec,
    follower,
    percentage_target,
    steady_tokens,
    token_target,
)

VARIANT = VariantSpec(follower=follower(least=1, most=20))


def loads(*pairs: tuple[float, int]) -> list[ReplicaLoad]:
    return [ReplicaLoad(kv_fraction=kv, queue_requests=queue) for kv, queue in pairs]


@pytest.mark.parametrize(
    ("replicas", "current", "desired", "target"),
    [
        # Its documentation: spare of 0.15 and 0.08 is 0.115 on average, above the trigger of 0.10.
        (loads((0.65, 0), (0.72, 0)), 2, 2, 2),
        # Spare of 0.15 and 0.04 is 0.095: one more.
        (loads((0.65, 0), (0.76, 0)), 2, 2, 3),
        # The queue alone: 5 - 3 = 2 is below the trigger of 3; 5 - 2 = 3 is not.
        (loads((0.1, 3), (0.1, 3)), 2, 2, 3),
        (loads((0.4, 2), (0.4, 2)), 2, 2, 2),
        # A saturated replica counts neither way: the other's spare of 0.40 is enough, and one alone lets nobody go.
        (loads((0.90, 0), (0.40, 0)), 2, 2, 2),
        (loads((0.80, 0), (0.30, 5)), 2, 2, 3),
        # Saturated at the threshold itself; without a replica that is not, spare is nothing.
        (loads((0.80, 0)), 1, 1, 2),
        # Down: three at 0.30 are two at 0.45, spare 0.35; three at 0.48 are two at 0.72, spare 0.08.
        (loads((0.30, 0), (0.30, 0), (0.30, 0)), 3, 3, 2),
        (loads((0.48, 0), (0.48, 0), (0.48, 0)), 3, 3, 3),
        # Two queues of one are one of two, and 5 - 2 = 3 is not below the trigger; two of two would be four.
        (loads((0.1, 1), (0.1, 1)), 2, 2, 1),
        (loads((0.1, 2), (0.1, 2)), 2, 2, 2),
        # Never below one.
        (loads((0.0, 0)), 1, 1, 1),
        # While replicas come or go it keeps what it said, or what is there, however full they are.
        (loads((0.99, 9), (0.99, 9)), 2, 3, 3),
        (loads((0.99, 9), (0.99, 9)), 3, 3, 3),
        (loads((0.99, 9), (0.99, 9)), 3, 0, 3),
        # Nothing reports.
        ([], 4, 4, 4),
    ],
)
def test_saturation_by_percentages(replicas: list[ReplicaLoad], current: int, desired: int, target: int) -> None:
    assert percentage_target(VARIANT, replicas, current=current, desired=desired) == target


@pytest.mark.parametrize(("current", "made"), [(5, 6), (9, 10), (10, 10), (12, 12), (20, 20)])
def test_one_more_of_ten_is_within_the_followers_tolerance(current: int, made: int) -> None:
    """11 / 10 is 1.1, and a tenth is tolerated: the HPA of its example never makes what it asks for."""
    asked, state = [1000 * (current + 1)], HpaState()
    assert isinstance(VARIANT.follower, HpaSpec)
    assert hpa_step(VARIANT.follower, state, asked, now_s=0.0, current=current, ready=current).replicas == made


def held(tokens: int, queue: int = 0, prompt: float = 1000.0, output: float = 200.0) -> ReplicaLoad:
    return ReplicaLoad(
        kv_fraction=tokens / 100_000, queue_requests=queue, kv_tokens=100_000, held_tokens=tokens,
        prompt_tokens=prompt, output_tokens=output,
    )  # fmt: skip


TOKENS = replace(VARIANT, by_tokens=True)


@pytest.mark.parametrize(
    ("replicas", "current", "pending", "history", "target"),
    [
        # 80,000 tokens each; 2 x 70,000 / 0.85 = 164,706 of 160,000: one more. With one on its way: none.
        ([held(70_000)] * 2, 2, 0, (), 3),
        ([held(70_000)] * 2, 3, 1, (), 3),
        # What waits counts by its prompt: 4 x 1,000 each make 148,000 / 0.85 = 174,118.
        ([held(70_000, 4)] * 2, 2, 0, (), 3),
        # Several at once: ten queues of four at 100,000 tokens each need more than one.
        ([held(79_000, 4, prompt=40_000.0)] * 2, 2, 0, (), 8),
        # Between the boundary and the threshold nothing moves: 2 x 60,000 is 141,176 up and 171,429 down.
        ([held(60_000)] * 2, 2, 0, (), 2),
        # Spare of 4 x 80,000 - 80,000 / 0.7 = 205,714 lets go of two, and never of the last.
        ([held(20_000)] * 4, 4, 0, (), 2),
        ([held(0)] * 3, 3, 0, (), 1),
        # What replicas held at a full queue is what they can hold: 2 x 40,000 / 0.85 of 2 x 50,000 is enough.
        ([held(40_000)] * 2, 2, 0, (40_000.0, 60_000.0), 2),
        ([held(45_000)] * 2, 2, 0, (40_000.0, 60_000.0), 3),
        # Nothing reports.
        ([], 3, 0, (), 3),
    ],
)
def test_saturation_by_tokens(
    replicas: list[ReplicaLoad], current: int, pending: int, history: tuple[float, ...], target: int
) -> None:
    assert token_target(TOKENS, replicas, current=current, pending=pending, history=history)[0] == target


def test_a_full_queue_is_remembered_ten_times() -> None:
    _, history = token_target(TOKENS, [held(50_000, 5)] * 12, current=12, pending=0, history=(1.0,))
    assert history == (50_000.0,) * 10
    # 12 x (50,000 + 5 x 1,000) / 0.85 = 776,471 of 12 x 50,000: four more of 50,000.
    assert token_target(TOKENS, [held(50_000, 5)] * 12, current=12, pending=0)[0] == 16


def test_what_an_engines_limits_let_it_hold() -> None:
    """8,192 x 200 / 1,200 = 1,365 sequences, of which 64 may run, each with 1,000 + 100 tokens."""
    limits = StepLimits(budget_tokens=8192, max_sequences=64)
    assert steady_tokens(limits, 1000.0, 200.0) == 70_400
    assert steady_tokens(limits, 1000.0, 0.0) == 0
    # 2 x 62,000 / 0.85 = 145,882 of 2 x 70,400.
    assert token_target(TOKENS, [held(62_000)] * 2, current=2, pending=0, limits=limits)[0] == 3


@pytest.mark.parametrize(
    ("target", "uses", "workers", "expected", "wanted"),
    [
        # Above 100 % one is enough, at it none; below 60 % all must be.
        ("throughput", (1.0, 0.2), 2, 2, 2),
        ("throughput", (1.01, 0.2), 2, 2, 3),
        ("throughput", (0.59, 0.6), 2, 2, 2),
        ("throughput", (0.59, 0.59), 2, 2, 1),
        ("latency", (0.41, 0.0), 2, 2, 3),
        ("latency", (0.4, 0.1), 2, 2, 2),
        ("latency", (0.09, 0.09, 0.09), 3, 3, 2),
        # With thresholds of one's own the thresholds themselves count.
        ("load", (0.7, 0.1), 2, 2, 3),
        ("load", (0.3, 0.3), 2, 2, 1),
        ("load", (0.31, 0.3), 2, 2, 2),
        # Never below one, never more than the devices, nothing while it scales or some do not report.
        ("throughput", (0.0,), 1, 1, 1),
        ("throughput", (2.0,) * 8, 8, 8, 8),
        ("throughput", (2.0, 2.0), 2, 3, 3),
        ("throughput", (2.0, 2.0), 3, 3, 3),
        ("throughput", (), 2, 2, 2),
    ],
)
def test_dynamo_by_load(target: str, uses: tuple[float, ...], workers: int, expected: int, wanted: int) -> None:
    spec = DynamoSpec(target=DynamoTarget(target), up_fraction=0.7, down_fraction=0.3)
    assert load_target(spec, uses, workers=workers, expected=expected) == wanted


@pytest.mark.parametrize(
    ("most", "least", "devices", "endpoints", "desired", "within"),
    [
        (8, -1, 2, 1, 3, 3), (8, -1, 2, 1, 5, 4), (8, -1, 3, 1, 3, 2), (-1, -1, 4, 1, 99, 99),
        # The floor has one engine's tolerance where there is a ceiling too, and none alone.
        (16, 8, 2, 1, 3, 3), (16, 8, 2, 1, 2, 4), (-1, 8, 2, 1, 3, 4),
        # A ceiling below the endpoints that must be leaves none.
        (3, -1, 2, 2, 2, 0), (4, -1, 2, 2, 5, 2),
    ],
)  # fmt: skip
def test_dynamos_budget(most: int, least: int, devices: int, endpoints: int, desired: int, within: int) -> None:
    spec = DynamoSpec(max_devices=most, min_devices=least, engine_devices=devices, least_endpoints=endpoints)
    assert budgeted(spec, desired) == within


@pytest.mark.parametrize(("rate", "wanted"), [(10.0, 2), (10.1, 3), (0.0, 1), (1000.0, 8), (5.0, 1)])
def test_dynamo_by_traffic(rate: float, wanted: int) -> None:
    spec = DynamoSpec(target=DynamoTarget.SLA)
    assert traffic_target(spec, TrendFilter(), rate, 5.0)[1] == wanted


def test_the_filter_is_the_textbooks() -> None:
    """Level and trend by matrices: x = F x, P = F P F' + Q; K = P H' / (H P H' + R), x += K (z - H x), P = (1 - K H) P.

    The first value is the level; until there are five the last value stands for the next.
    """
    spec = DynamoSpec(target=DynamoTarget.SLA, is_kalman=True, max_devices=-1)
    rng = np.random.default_rng(4)
    rates = np.maximum(0.0, 30.0 + np.cumsum(rng.normal(0.0, 4.0, 40)))
    forward, noise = np.array([[1.0, 1.0], [0.0, 1.0]]), np.diag([1.0, 0.1])
    state, filtered = np.array([rates[0] * 180.0, 0.0]), TrendFilter()
    spread = np.eye(2) * 1000.0
    for place, rate in enumerate(rates):
        filtered, wanted = traffic_target(spec, filtered, float(rate), 2.0)
        if place:
            state, spread = forward @ state, forward @ spread @ forward.T + noise
            gain = spread[:, 0] / (spread[0, 0] + 10.0)
            state = state + gain * (rate * 180.0 - state[0])
            spread = (np.eye(2) - np.outer(gain, [1.0, 0.0])) @ spread
        ahead = state[0] + state[1] if place >= 4 else rate * 180.0
        assert wanted == max(1, int(np.ceil(ahead / 180.0 / 2.0)))


# ---- as they are written ------------------------------------------------------------------------------------

HPA = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat-hpa}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  maxReplicas: 10
  metrics:
  - type: External
    external:
      metric: {name: wva_desired_replicas, selector: {matchLabels: {variant_name: chat-va}}}
      target: {type: AverageValue, averageValue: "1"}
"""
VARIANT_AUTOSCALING = """
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: chat-va}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  modelID: meta/llama-70b
  variantCost: "15.5"
"""
SATURATION = """
apiVersion: v1
kind: ConfigMap
metadata: {name: wva-saturation-scaling-config}
data:
  llama: |
    model_id: meta/llama-70b
    kvCacheThreshold: 0.85
    analyzerName: saturation
  default: |
    kvCacheThreshold: 0.75
    queueLengthThreshold: 8
---
apiVersion: v1
kind: ConfigMap
metadata: {name: wva-variantautoscaling-config}
data: {GLOBAL_OPT_INTERVAL: 30s}
"""
SCALED_OBJECT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 2
  maxReplicaCount: 6
  triggers:
  - type: prometheus
    metadata: {query: 'wva_desired_replicas{variant_name="chat-va"}', threshold: "1"}
"""


def read(folder: Path, text: str) -> tuple[ReadRule, ...]:
    (folder / "rules.yaml").write_text(text)
    return read_rules([folder / "rules.yaml"])


def test_the_autoscaler_that_follows_is_the_variant_autoscalers_rule(tmp_path: Path) -> None:
    (found,) = read(tmp_path, HPA)
    spec = found.rule.spec
    assert isinstance(spec, VariantSpec)
    assert isinstance(spec.follower, HpaSpec)
    assert (found.target, found.unread, spec.most_replicas) == ("chat", (), 10)
    assert replace(spec, follower=VARIANT.follower) == VARIANT
    (keda,) = read(tmp_path, SCALED_OBJECT)
    assert isinstance(keda.rule.spec, VariantSpec)
    assert isinstance(keda.rule.spec.follower, KedaSpec)
    assert keda.rule.bounds == (2, 6)


def test_thresholds_are_the_models_over_the_defaults(tmp_path: Path) -> None:
    parts = (VARIANT_AUTOSCALING, SATURATION)
    for text, most in (("\n---\n".join((*parts, HPA)), 10), ("\n---\n".join(parts), 20_000)):
        (found,) = read(tmp_path, text)
        spec = found.rule.spec
        assert isinstance(spec, VariantSpec)
        assert (spec.kv_threshold_fraction, spec.queue_threshold_requests, spec.by_tokens) == (0.85, 8.0, True)
        assert (spec.kv_spare_fraction, spec.interval_s, spec.most_replicas) == (0.10, 30.0, most)
    (other,) = read(tmp_path, "\n---\n".join((VARIANT_AUTOSCALING.replace("llama", "opt"), SATURATION)))
    assert isinstance(other.rule.spec, VariantSpec)
    assert (other.rule.spec.kv_threshold_fraction, other.rule.spec.by_tokens) == (0.75, False)


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("kvCacheThreshold: 0.85", "kvCacheThreshold: 85", "kvCacheThreshold"),
        ("kvCacheThreshold: 0.85", "kvCacheThreshold: 0.05", "kvCacheThreshold"),
        ("kvCacheThreshold: 0.85", "scaleUpThreshold: 0.6", "scaleUpThreshold"),
        ("queueLengthThreshold: 8", "queueLengthThreshold: many", "queueLengthThreshold"),
        ("GLOBAL_OPT_INTERVAL: 30s", "GLOBAL_OPT_INTERVAL: soon", "GLOBAL_OPT_INTERVAL"),
        ("modelID:", "modelProfile: {accelerators: []}\n  modelID:", "modelProfile"),
    ],
)
def test_what_the_controller_refuses_is_refused(before: str, after: str, field: str, tmp_path: Path) -> None:
    text = f"{VARIANT_AUTOSCALING}\n---\n{SATURATION}"
    with pytest.raises(InputError, match=field):
        read(tmp_path, text.replace(before, after))


def deployment(config: dict[str, Any]) -> str:
    words = ["--config", yaml.safe_dump(config, default_flow_style=True, width=10_000).strip()]
    planner = {"name": "Planner", "podTemplate": {"spec": {"containers": [{"args": words}]}}}
    return yaml.safe_dump(
        {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "chat"},
         "spec": {"components": [{"name": "Frontend"}, planner]}}
    )  # fmt: skip


def test_dynamos_planner_is_read_from_a_deployment_and_alone(tmp_path: Path) -> None:
    config = {"mode": "agg", "optimization_target": "sla", "load_predictor": "kalman", "max_gpu_budget": 32,
              "throughput_adjustment_interval": 60, "decode_engine_num_gpu": 4, "min_endpoint": 2}  # fmt: skip
    expected = DynamoSpec(
        target=DynamoTarget.SLA, is_kalman=True, max_devices=32, traffic_s=60.0, engine_devices=4, least_endpoints=2
    )
    for text in (deployment(config), yaml.safe_dump(config)):
        (found,) = read(tmp_path, text)
        assert found.rule.spec == expected
        assert found.rule.bounds == (2, 8)
    (default,) = read(tmp_path, yaml.safe_dump({"mode": "agg", "load_adjustment_interval_seconds": 5}))
    assert default.rule.spec == DynamoSpec()
    (named,) = read(tmp_path, yaml.safe_dump({"mode": "agg", "optimization_target": "sla"}))
    assert named.rule.name == "Dynamo planner (arima as constant)"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"optimization_target": "sla"}, "mode"),
        ({"mode": "agg", "optimization_target": "speed"}, "optimization_target"),
        ({"mode": "agg", "optimization_target": "sla", "enable_load_scaling": True}, "enable_load_scaling"),
        ({"mode": "agg", "optimization_target": "load"}, "decode_scale_up_kv_rate"),
        ({"mode": "agg", "optimization_target": "load", "decode_scale_up_kv_rate": 20,
          "decode_scale_down_kv_rate": 20}, "decode_scale_up_kv_rate"),
        ({"mode": "agg", "optimization_target": "sla", "load_predictor": "oracle"}, "load_predictor"),
        ({"mode": "agg", "load_adjustment_interval_seconds": 0}, "load_adjustment_interval_seconds"),
        ({"mode": "agg", "optimization_target": "sla", "kalman_r": -1}, "kalman_r"),
    ],
)  # fmt: skip
def test_what_is_not_played_of_dynamo_is_refused_by_its_key(config: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=field):
        read(tmp_path, yaml.safe_dump(config))


def test_a_deployment_without_a_planner_has_no_rule(tmp_path: Path) -> None:
    text = deployment({"mode": "agg"}).replace("--config", "--other")
    with pytest.raises(InputError, match="holds no"):
        read(tmp_path, text)
