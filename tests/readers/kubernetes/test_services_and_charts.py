"""Pools and rules as KServe, Knative, Helm charts and shells write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.planning.brownfield.running import RunningPool
from ullage.readers.kubernetes import read_rules, read_running
from ullage.scaling.hpa import HpaSpec, MetricKind
from ullage.scaling.keda import KedaSpec
from ullage.scaling.planners.variant import VariantSpec
from ullage.scaling.signals import Signal

SHELL = """
kind: Deployment
metadata: {name: chat, namespace: prod}
spec:
  replicas: 4
  template:
    spec:
      containers:
      - name: engine
        image: registry.local/team/inference:v7.1
        command: [/bin/bash, -c]
        args:
        - |
          export HF_HOME=/data
          exec vllm serve $MODEL_ID --tensor-parallel-size $(TP) --max-num-seqs ${SEQS} --max-model-len 32k \\
            --gpu-memory-utilization=${SHARE:-0.92} --max_num_batched_tokens=8192 --kv-cache-dtype $FROM_SECRET; sleep 5
        env:
        - {name: MODEL_ID, value: meta-llama/Llama-3.3-70B-Instruct}
        - {name: TP, value: "4"}
        - {name: SEQS, value: "128"}
        - {name: FROM_SECRET, valueFrom: {secretKeyRef: {name: a, key: b}}}
        resources: {limits: {nvidia.com/gpu: "4"}}
"""
SCALER = """
kind: HorizontalPodAutoscaler
metadata: {name: scaler, namespace: staging}
spec: {scaleTargetRef: {kind: Deployment, name: chat}, maxReplicas: 2}
"""
KSERVE = """
kind: InferenceService
metadata:
  name: llama
  annotations: {serving.kserve.io/deploymentMode: Standard, serving.kserve.io/autoscalerClass: CLASS}
spec:
  predictor:
    minReplicas: 2
    maxReplicas: 5
    autoScaling:
      metrics:
      - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
      - type: External
        external: {metric: {query: "sum(vllm:num_requests_waiting)"}, target: {type: Value, value: "9"}}
      - {type: PodMetric, podmetric: {metric: {metricNames: ["vllm:num_requests_running"]}, target: {value: "4"}}}
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama, --model_id=meta-llama/Llama-3.1-8B-Instruct, --max-model-len=8192]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
LLM = """
kind: LLMInferenceService
metadata: {name: big}
spec:
  model: {uri: "hf://deepseek-ai/DeepSeek-R1:main", name: r1}
  scaling: {minReplicas: 3, maxReplicas: 7, wva: {hpa: {}}}
  parallelism: {tensor: 8, pipeline: 2}
  template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}
  worker: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}
"""
STACK = """
servingEngineSpec:
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.10.0
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 2
    requestGPU: 2
    vllmConfig:
      {maxModelLen: 16384, maxNumSeqs: 64, tensorParallelSize: 2, extraArgs: [--max-num-batched-tokens, "4096"]}
    keda:
      enabled: true
      minReplicaCount: 1
      maxReplicaCount: 3
      triggers: [{type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)", threshold: "5"}}]
  - {name: embed, repository: vllm/vllm-openai, tag: latest, modelURL: a/b, replicaCount: 1, requestGPU: 1}
routerSpec: {replicaCount: 1}
"""
LLM_D = """
modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B}
decode:
  replicas: 8
  parallelism: {tensor: 2}
  containers: [{name: vllm, image: "ghcr.io/llm-d/llm-d-cuda:v0.3.1", args: [--max-num-seqs=256]}]
prefill: {create: false, replicas: 2}
"""


def running(folder: Path, text: str) -> tuple[RunningPool, ...]:
    (folder / "running.yaml").write_text(text)
    return read_running([folder / "running.yaml"]).pools


def rule(folder: Path, text: str) -> HpaSpec | KedaSpec:
    (folder / "rules.yaml").write_text(text)
    (found,) = read_rules([folder / "rules.yaml"])
    assert isinstance(found.rule.spec, HpaSpec | KedaSpec)
    return found.rule.spec


def test_a_shell_and_its_variables_are_read(tmp_path: Path) -> None:
    (found,) = running(tmp_path, SHELL)
    assert (found.engine, found.model) == ("vllm", "meta-llama/Llama-3.3-70B-Instruct")
    # What a secret holds is unknown, and the image counts versions of its own.
    assert found.engine_version == ""
    assert found.settings == {
        "tensor_parallel": "4",
        "max_sequences": "128",
        "max_context": "32000",
        "memory_fraction": "0.92",
        "token_budget": "8192",
    }


def test_an_autoscaler_of_another_namespace_scales_its_own(tmp_path: Path) -> None:
    other = SHELL.replace("namespace: prod", "namespace: staging").replace("replicas: 4", "replicas: 1")
    first, second = running(tmp_path, f"{SHELL}---{other}---{SCALER}")
    assert (first.most_replicas, first.scaled_by) == (None, "")
    assert (second.most_replicas, second.scaled_by) == (2, "HorizontalPodAutoscaler scaler")
    # A manifest without a namespace is that of whatever namespace it is applied to.
    (alone,) = running(tmp_path, SHELL + "---" + SCALER.replace(", namespace: staging", ""))
    assert alone.most_replicas == 2


def test_a_predictor_is_a_pool_with_its_own_rule(tmp_path: Path) -> None:
    (found,) = running(tmp_path, KSERVE.replace("CLASS", "keda"))
    assert (found.name, found.kind, found.replicas, found.devices_per_replica) == ("llama", "InferenceService", 2, 2)
    assert (found.engine, found.model) == ("vllm", "meta-llama/Llama-3.1-8B-Instruct")
    assert (found.least_replicas, found.most_replicas) == (2, 5)
    assert found.signals == ("cpu", "waiting requests", "running requests")


def test_every_metric_of_a_predictor_is_a_trigger(tmp_path: Path) -> None:
    spec = rule(tmp_path, KSERVE.replace("CLASS", "keda"))
    assert isinstance(spec, KedaSpec)
    assert [each.threshold_value for each in spec.triggers] == [0.5, 9.0, 4.0]
    assert [each.kind for each in spec.triggers] == [MetricKind.AVERAGE, MetricKind.VALUE, MetricKind.AVERAGE]
    odd = KSERVE.replace("CLASS", "keda").replace("PodMetric", "Pods")
    with pytest.raises(InputError, match=r"autoScaling\.metrics\.2\.type = 'Pods': is no type of metric"):
        rule(tmp_path, odd)


def test_a_predictor_that_others_scale_has_no_rule(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no HorizontalPodAutoscaler"):
        rule(tmp_path, KSERVE.replace("CLASS", "external"))


def test_a_class_of_knative_that_counts_cpu_is_an_hpa(tmp_path: Path) -> None:
    spec = rule(
        tmp_path,
        """
        apiVersion: serving.knative.dev/v1
        kind: Service
        metadata: {name: chat}
        spec:
          template:
            metadata:
              annotations:
                autoscaling.knative.dev/class: hpa.autoscaling.knative.dev
                autoscaling.knative.dev/metric: cpu
                autoscaling.knative.dev/target: "70"
                autoscaling.knative.dev/max-scale: "6"
        """,
    )
    assert isinstance(spec, HpaSpec)
    assert (spec.metrics[0].target_value, spec.least_replicas, spec.most_replicas) == (70, 1, 6)


def test_a_service_for_language_models_spans_its_nodes(tmp_path: Path) -> None:
    (found,) = running(tmp_path, LLM)
    assert (found.replicas, found.devices_per_replica, found.model) == (3, 16, "deepseek-ai/DeepSeek-R1")
    assert found.settings == {"tensor_parallel": "8", "pipeline_parallel": "2"}
    assert (found.least_replicas, found.most_replicas) == (3, 7)
    assert found.rule is not None
    assert isinstance(found.rule.spec, VariantSpec)


def test_values_of_the_production_stack_are_deployments(tmp_path: Path) -> None:
    llama, embed = running(tmp_path, STACK)
    assert (llama.name, llama.replicas, llama.devices_per_replica) == ("llama3", 2, 2)
    assert (llama.engine_version, llama.surge, llama.unavailable) == ("0.10.0", "1", "0")
    assert llama.settings == {
        "max_context": "16384",
        "max_sequences": "64",
        "tensor_parallel": "2",
        "token_budget": "4096",
    }
    assert (llama.least_replicas, llama.most_replicas) == (1, 3)
    assert (embed.model, embed.scaled_by) == ("a/b", "")
    spec = rule(tmp_path, STACK)
    assert isinstance(spec, KedaSpec)
    assert spec.triggers[0].threshold_value == 5.0


def test_values_of_llm_d_are_its_parts(tmp_path: Path) -> None:
    (found,) = running(tmp_path, LLM_D)
    assert (found.name, found.replicas, found.devices_per_replica) == ("decode", 8, 2)
    assert (found.engine, found.engine_version, found.model) == ("vllm", "", "Qwen/Qwen3-32B")
    assert found.settings == {"tensor_parallel": "2", "max_sequences": "256"}


@pytest.mark.parametrize("text", [STACK, LLM_D, KSERVE.replace("CLASS", "keda"), LLM, SHELL])
def test_what_is_broken_in_them_is_never_a_traceback(text: str, tmp_path: Path) -> None:
    lines = text.splitlines()
    for at, line in enumerate(lines):
        for value in ("[]", "x", "-1", "[{}]", "{a: [b]}"):
            broken = [*lines[:at], f"{line.split(':')[0]}: {value}", *lines[at + 1 :]]
            try:
                running(tmp_path, "\n".join(broken))
            except InputError:
                continue


def test_a_paused_scaled_object_holds_what_it_says(tmp_path: Path) -> None:
    keda = """
kind: ScaledObject
metadata: {name: chat, annotations: {autoscaling.keda.sh/PAUSED}}
spec:
  scaleTargetRef: {name: chat}
  maxReplicaCount: 9
  triggers: [{type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)", threshold: "5"}}]
"""
    (found,) = running(tmp_path, SHELL + "---" + keda.replace("PAUSED", 'paused-replicas: "4"'))
    assert (found.least_replicas, found.most_replicas) == (4, 4)
    (tmp_path / "rules.yaml").write_text(keda.replace("PAUSED", 'paused: "true"'))
    with pytest.raises(InputError, match="pauses it: nothing scales its target"):
        read_rules([tmp_path / "rules.yaml"])


def test_a_query_of_a_predictor_is_known_by_its_metric(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(KSERVE.replace("CLASS", "keda"))
    (found,) = read_rules([tmp_path / "rules.yaml"])
    assert [each.signals for each in found.rule.queries.values()] == [
        (Signal.BUSY,),
        (Signal.WAITING,),
        (Signal.RUNNING,),
    ]
