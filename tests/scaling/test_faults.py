"""Faults of a rule that its YAML alone shows, each beside a near miss; and rules read from objects."""

from __future__ import annotations

import textwrap

import pytest

from ullage.errors import InputError
from ullage.readers.kubernetes.autoscaler_rules import ReadRule
from ullage.readers.kubernetes.documents import read_objects
from ullage.readers.kubernetes.scaling_rules import scaling_rules
from ullage.scaling.faults import rule_faults
from ullage.scaling.hpa import HpaSpec, MetricKind, SelectPolicy
from ullage.scaling.keda import KedaSpec
from ullage.scaling.knative import KnativeSpec
from ullage.scaling.signals import Aggregate, Signal, read_query


def read(text: str) -> ReadRule:
    (found,) = scaling_rules(read_objects(textwrap.dedent(text), file="rules.yaml"))
    return found


def hpa(metric: str, *, least: int = 2, behavior: str = "") -> str:
    return f"""
    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    metadata: {{name: chat}}
    spec:
      scaleTargetRef: {{kind: Deployment, name: chat}}
      minReplicas: {least}
      maxReplicas: 20
      metrics: [{metric}]
      {behavior}
    """


QUEUE = (
    "{type: External, external: {metric: {name: 'vllm:num_requests_waiting'}, "
    "target: {type: AverageValue, averageValue: '5'}}}"
)
GATEWAY = QUEUE.replace("vllm:num_requests_waiting", "llm_d_epp_flow_control_queue_size")


def kv(share: str) -> str:
    return f"{{type: Pods, pods: {{metric: {{name: vllm_gpu_cache_usage_perc}}, target: {{averageValue: {share}}}}}}}"


def keda(query: str, *, least: int = 0, threshold: str = "5") -> str:
    return f"""
    apiVersion: keda.sh/v1alpha1
    kind: ScaledObject
    metadata: {{name: chat}}
    spec:
      scaleTargetRef: {{name: chat}}
      minReplicaCount: {least}
      maxReplicaCount: 10
      triggers: [{{type: prometheus, metadata: {{query: '{query}', threshold: '{threshold}'}}}}]
    """


SLOW = "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 900}]}}"
QUICK = "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}"
LATE = "behavior: {scaleUp: {stabilizationWindowSeconds: 600}}"
STEADY = "behavior: {scaleDown: {stabilizationWindowSeconds: 300}}"
NERVOUS = "behavior: {scaleDown: {stabilizationWindowSeconds: 0}}"
GENTLE = (
    "behavior: {scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 1, periodSeconds: 300}]}}"
)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (hpa(QUEUE, behavior=NERVOUS), ["thrash"]),
        (hpa(QUEUE, behavior=STEADY), []),
        (hpa(QUEUE, behavior=GENTLE), []),
        (hpa(QUEUE), []),
        (hpa(kv("'1'")), ["saturated"]),
        (hpa(kv("950m")), ["saturated"]),
        (hpa(kv("800m")), []),
        (keda("avg(vllm:kv_cache_usage_perc)", least=1, threshold="0.8"), ["saturated"]),
        (keda("sum(vllm:kv_cache_usage_perc)", least=1, threshold="0.8"), []),
        (hpa(QUEUE, least=0), ["from zero"]),
        (hpa(GATEWAY, least=0), []),
        (hpa(kv("700m"), least=0), ["from zero"]),
        (keda("sum(vllm:num_requests_waiting)"), ["from zero"]),
        (keda("sum(vllm:num_requests_waiting)", least=1), []),
        (keda("sum(llm_d_epp_flow_control_queue_size)"), []),
        (hpa(QUEUE, behavior=SLOW), ["slow"]),
        (hpa(QUEUE, behavior=QUICK), []),
        (hpa(QUEUE, behavior=LATE), ["slow"]),
        (hpa(QUEUE, behavior="behavior: {scaleUp: {selectPolicy: Disabled}}"), ["slow"]),
        (hpa(QUEUE, least=0, behavior=NERVOUS), ["thrash", "from zero"]),
    ],
)
def test_faults_are_named_from_yaml_alone(text: str, faults: list[str]) -> None:
    assert [each.name for each in rule_faults(read(text).rule)] == faults


def test_a_ramp_of_the_plan_asks_more_of_a_rule() -> None:
    rule = read(hpa(QUEUE, behavior=QUICK)).rule
    assert rule_faults(rule, ramp_per_s=1 / 90) == ()
    (slow,) = rule_faults(rule, ramp_per_s=1 / 50)
    assert slow.name == "slow"
    assert "needs 18" in slow.sentence


def test_an_hpa_is_read_whole() -> None:
    found = read(
        hpa(
            "{type: ContainerResource, containerResource: {name: cpu, container: engine, "
            "target: {averageUtilization: 70}}}," + QUEUE,
            behavior="behavior: {scaleUp: {selectPolicy: Min, tolerance: '0.05', policies: "
            "[{type: Percent, value: 50, periodSeconds: 60}]}}",
        )
    )
    spec = found.rule.spec
    assert isinstance(spec, HpaSpec)
    assert [(each.kind, each.target_value, each.container) for each in spec.metrics] == [
        (MetricKind.RESOURCE, 70, "engine"),
        (MetricKind.AVERAGE, 5000, ""),
    ]
    assert spec.behavior is not None
    assert (spec.behavior.up.select, spec.behavior.up.tolerance_fraction) == (SelectPolicy.MIN, 0.05)
    assert spec.behavior.down.window_s == 300.0
    assert (found.target, found.unread) == ("chat", ())


def test_a_scaled_object_is_read_whole() -> None:
    found = read("""
    kind: ScaledObject
    metadata: {name: s}
    spec:
      scaleTargetRef: {name: chat, kind: StatefulSet}
      pollingInterval: 10
      cooldownPeriod: 600
      minReplicaCount: 1
      fallback: {failureThreshold: 3, replicas: 6, behavior: currentReplicasIfHigher}
      advanced:
        scalingModifiers: {formula: 'max(q, r)', target: '8', activationTarget: '1'}
      triggers:
        - {type: prometheus, name: q, metadata: {query: 'sum(sglang:num_queue_reqs)', threshold: '5'}}
        - {type: prometheus, name: r, metricType: Value, metadata: {query: 'sum(rate(mine_total[1m]))', threshold: '9'}}
    """)
    spec = found.rule.spec
    assert isinstance(spec, KedaSpec)
    assert (spec.polling_s, spec.cooldown_s, spec.least_replicas, spec.most_replicas) == (10.0, 600.0, 1, 100)
    assert spec.modifiers is not None
    assert (spec.modifiers.formula, spec.modifiers.target_value) == ("max(q, r)", 8.0)
    assert spec.fallback is not None
    assert spec.fallback.wanted(9) == 9
    assert [each.kind for each in spec.triggers] == [MetricKind.AVERAGE, MetricKind.VALUE]
    assert found.rule.queries["q"].signals == (Signal.WAITING,)
    assert found.unread == ("sum(rate(mine_total[1m]))",)


def test_knative_and_kserve_annotations_are_read() -> None:
    found = read("""
    apiVersion: serving.knative.dev/v1
    kind: Service
    metadata: {name: k}
    spec:
      template:
        metadata:
          annotations:
            autoscaling.knative.dev/target: "8"
            autoscaling.knative.dev/window: "2m"
            autoscaling.knative.dev/min-scale: "1"
            autoscaling.knative.dev/panic-threshold-percentage: "150.0"
    """)
    spec = found.rule.spec
    assert isinstance(spec, KnativeSpec)
    assert (spec.target_value, spec.stable_s, spec.least_replicas, spec.panic_ratio) == (8.0, 120.0, 1, 1.5)
    served = read("""
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: llm}
    spec: {predictor: {minReplicas: 0, maxReplicas: 4, scaleTarget: 16, scaleMetric: concurrency}}
    """)
    spec = served.rule.spec
    assert isinstance(spec, KnativeSpec)
    assert (spec.target_value, spec.least_replicas, spec.most_replicas) == (16.0, 0, 4)
    raw = read("""
    kind: InferenceService
    metadata: {name: llm, annotations: {serving.kserve.io/deploymentMode: RawDeployment}}
    spec: {predictor: {minReplicas: 1, maxReplicas: 4, scaleTarget: 60, scaleMetric: cpu}}
    """)
    assert isinstance(raw.rule.spec, HpaSpec)
    assert raw.rule.spec.metrics[0].target_value == 60
    assert raw.rule.queries["cpu"].aggregate is Aggregate.MEAN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (hpa(QUEUE.replace("'5'", "many")), "is not a quantity"),
        (hpa("{type: Weird}"), "is not a metric type"),
        (hpa(QUEUE, behavior="behavior: {scaleUp: {selectPolicy: Often}}"), "is not Max, Min or Disabled"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("query", "aggregate", "ratio"),
    [
        ("sum(vllm:num_requests_waiting) / count(vllm:num_requests_waiting)", Aggregate.MEAN, 1.0),
        ("sum(vllm:num_requests_waiting)/scalar(count(up{job='a/b'}) > 0)", Aggregate.MEAN, 1.0),
        ("sum(vllm:num_requests_waiting) / on() (count(kube_pod_info) or vector(1))", Aggregate.MEAN, 1.0),
        ("sum(vllm:num_requests_running) / 20", Aggregate.SUM, 0.05),
        ('sum(vllm:num_requests_running{model_name="a/b"})', Aggregate.SUM, 1.0),
    ],
)
def test_a_sum_over_a_count_is_a_mean_and_over_a_number_a_part(query: str, aggregate: Aggregate, ratio: float) -> None:
    found = read_query(query)
    assert found is not None
    assert found.aggregate is aggregate
    assert found.factor_ratio == pytest.approx(ratio)


def test_a_ratio_of_two_metrics_is_neither() -> None:
    assert read_query("sum(vllm:num_requests_waiting) / sum(vllm:num_requests_running)") is None
    assert read_query("prometheus.googleapis.com|vllm:num_requests_waiting|gauge") is not None
