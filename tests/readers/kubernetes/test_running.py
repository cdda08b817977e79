"""What a cluster's objects say, in every way kubectl and people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.planning.brownfield.running import Running
from ullage.readers.kubernetes import read_running
from ullage.readers.kubernetes.engine_args import engine_args

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving}
spec:
  replicas: 6
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
        - name: proxy
          image: envoy
        - name: engine
          image: vllm/vllm-openai:v0.32.0
          args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size=2, --max-num-seqs, "128"]
          resources: {limits: {nvidia.com/gpu: 2}}
"""
SCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat-hpa}
spec: {scaleTargetRef: {kind: Deployment, name: chat}, minReplicas: 2, maxReplicas: 10}
"""
NODE = """
apiVersion: v1
kind: Node
metadata:
  name: NAME
  labels: {topology.kubernetes.io/zone: z1, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
status: {allocatable: {cpu: "96", nvidia.com/gpu: "8"}}
"""
GROUPS = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: huge}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
          - name: sglang
            command: [bash, -c, "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 16"]
            resources: {limits: {nvidia.com/gpu: "8"}}
"""


def read(folder: Path, *texts: str) -> Running:
    file = folder / "running.yaml"
    file.write_text("\n---\n".join(texts))
    return read_running([file])


def test_a_deployment_with_its_scaler_and_nodes(tmp_path: Path) -> None:
    found = read(tmp_path, DEPLOYMENT, SCALER, NODE.replace("NAME", "a"), NODE.replace("NAME", "b"))
    (pool,) = found.pools
    assert (pool.replicas, pool.devices_per_replica, pool.engine, pool.model) == (6, 2, "vllm", "Qwen/Qwen3-32B")
    assert pool.settings == {"tensor_parallel": "2", "max_sequences": "128"}
    switched = engine_args(
        ["vllm", "serve", "m/x", "--no-enable-prefix-caching", "--enforce_eager", "--kv-cache-dtype=fp8"]
    )
    assert switched.settings == {"prefix_cache": "off", "graphs": "off", "kv_dtype": "fp8"}
    radix = engine_args(["python3", "-m", "sglang.launch_server", "--disable-radix-cache", "--disable-cuda-graph"])
    assert radix.settings == {"prefix_cache": "off", "graphs": "off"}
    assert (pool.least_replicas, pool.most_replicas, pool.surge, pool.unavailable) == (2, 10, "1", "0")
    assert found.free_devices == 16 - 12


def test_a_surge_of_nothing_is_read_as_nothing(tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("maxSurge: 1, maxUnavailable: 0", "maxSurge: 0, maxUnavailable: 1")
    (pool,) = read(tmp_path, text).pools
    assert (pool.surge, pool.unavailable) == ("0", "1")


@pytest.mark.parametrize(
    ("metrics", "signals"),
    [
        ("", ("cpu",)),
        ("metrics: [{type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}]", ("cpu",)),
        ("metrics: [{type: ContainerResource, containerResource: {name: memory, container: engine}}]", ("memory",)),
        ("metrics: [{type: Pods, pods: {metric: {name: 'vllm:kv_cache'}}}]", ("vllm:kv_cache",)),
        ("metrics: [{type: External, external: {metric: {name: queue}}}, {type: Resource, resource: {name: cpu}}]",
         ("queue", "cpu")),
        ("targetCPUUtilizationPercentage: 80", ("cpu",)),
    ],
)  # fmt: skip
def test_what_an_autoscaler_follows_is_read(tmp_path: Path, metrics: str, signals: tuple[str, ...]) -> None:
    scaler = SCALER.replace("maxReplicas: 10}", "maxReplicas: 10" + (f", {metrics}" if metrics else "") + "}")
    assert read(tmp_path, DEPLOYMENT, scaler).pools[0].signals == signals


def test_what_keda_follows_is_read(tmp_path: Path) -> None:
    keda = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat-keda}
spec:
  scaleTargetRef: {name: chat}
  maxReplicaCount: 9
  triggers:
    - {type: prometheus, metadata: {query: 'sum(vllm:num_requests_waiting)', threshold: "5"}}
    - {type: cpu, metadata: {value: "80"}}
"""
    (pool,) = read(tmp_path, DEPLOYMENT, keda).pools
    assert pool.signals == ("sum(vllm:num_requests_waiting)", "cpu")


def test_the_version_of_an_engine_is_that_of_its_image(tmp_path: Path) -> None:
    assert read(tmp_path, DEPLOYMENT).pools[0].engine_version == "0.32.0"
    assert read(tmp_path, DEPLOYMENT.replace(":v0.32.0", ":latest")).pools[0].engine_version == ""


def test_a_list_is_read_like_its_items(tmp_path: Path) -> None:
    items = "\n".join("  " + line for line in DEPLOYMENT.strip().splitlines())
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + items.strip()
    assert read(tmp_path, listed).pools[0].replicas == 6


def test_a_group_of_pods_is_one_replica(tmp_path: Path) -> None:
    (pool,) = read(tmp_path, GROUPS).pools
    assert (pool.replicas, pool.devices_per_replica, pool.engine) == (2, 16, "sglang")
    assert (pool.model, pool.settings) == ("deepseek-ai/DeepSeek-R1", {"tensor_parallel": "16"})


def test_what_is_not_read_is_listed(tmp_path: Path) -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    idle = DEPLOYMENT.replace("nvidia.com/gpu: 2", "cpu: 2").replace("name: chat,", "name: web,")
    found = read(tmp_path, DEPLOYMENT, service, idle)
    assert found.unread == ("Service web: not of a kind that is read here", "Deployment web: requests no device")


@pytest.mark.parametrize(
    ("words", "engine", "model"),
    [
        (["vllm", "serve", "meta-llama/Llama-3.1-8B"], "vllm", "meta-llama/Llama-3.1-8B"),
        (["sh", "-c", "vllm serve a/b \\\n  --max-num-seqs 64"], "vllm", "a/b"),
        (["trtllm-serve", "a/b", "--tp_size", "4"], "tensorrt-llm", "a/b"),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model=a/b"], "vllm", "a/b"),
        (["python", "serve.py"], "", ""),
    ],
)
def test_engines_by_how_they_are_started(words: list[str], engine: str, model: str) -> None:
    found = engine_args(words)
    assert (found.engine, found.model) == (engine, model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML"),
        ("", "holds no object"),
        ("kind: Service\nmetadata: {name: web}\n", "no pool with devices"),
        (DEPLOYMENT.replace("replicas: 6", "replicas: six"), "is not a whole number"),
        (DEPLOYMENT.replace("gpu: 2", "gpu: 2.5"), "is not a whole number"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


@given(st.data())
def test_a_broken_object_is_never_a_traceback(data: st.DataObject) -> None:
    import contextlib
    import tempfile

    lines = (DEPLOYMENT + "---" + SCALER + "---" + NODE).splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    key = lines[at].split(":")[0]
    lines[at] = f"{key}: {data.draw(st.sampled_from(['[]', '{}', '~', '-1', 'x', '[{}]', '{a: [b]}', '1e9']))}"
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(InputError):
        read(Path(folder), "\n".join(lines))
