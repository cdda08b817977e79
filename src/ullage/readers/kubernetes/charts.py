"""Helm values of vLLM's production stack and of llm-d's model service, as the objects that their charts make of them.

Values know no release: a pool is called as its entry is, `llama3`, or as its part is, `decode`. What only a chart's
templates say (probes, services, labels) is not needed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEVICE = "nvidia.com/gpu"
# Keys of vllmConfig that have a flag each; whatever else is there has none that a plan compares.
_STACK_FLAGS = {
    "maxModelLen": "--max-model-len",
    "maxNumSeqs": "--max-num-seqs",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
}


def chart_objects(values: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    """Deployments, LeaderWorkerSets and ScaledObjects of these values; nothing of those of another chart."""
    engines = values.get("servingEngineSpec")
    if isinstance(engines, Mapping):
        for each in _mappings(engines.get("modelSpec")):
            yield from _stack_objects(engines, each)
    artifacts = values.get("modelArtifacts")
    if isinstance(artifacts, Mapping):
        for part in ("decode", "prefill"):
            given = values.get(part)
            if isinstance(given, Mapping) and given.get("create") is not False and given.get("replicas") != 0:
                yield _model_service(values, artifacts, part, given)


def _stack_objects(engines: Mapping[Any, Any], model: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    name, config = str(model.get("name") or ""), _mapping(model.get("vllmConfig"))
    flags = [f"{flag}={config[key]}" for key, flag in _STACK_FLAGS.items() if config.get(key) is not None]
    devices = {str(model.get("requestGPUType") or _DEVICE): model["requestGPU"]} if model.get("requestGPU") else {}
    terms = {"nodeSelectorTerms": model.get("nodeSelectorTerms") or []}
    container = {
        "name": "vllm",
        "image": f"{model.get('repository') or ''}:{model.get('tag') or ''}",
        "command": ["vllm", "serve", str(model.get("modelURL") or "")],
        "args": [*flags, *_words(config.get("extraArgs"))],
        "env": model.get("env"),
        "resources": {"limits": devices, **_mapping(model.get("resources"))},
    }
    spec = {
        "containers": [container],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }
    replicas = {"replicas": model["replicaCount"]} if model.get("replicaCount") is not None else {}
    yield {
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {**replicas, "strategy": engines.get("strategy"), "template": {"spec": spec}},
    }
    keda = _mapping(model.get("keda"))
    if keda.get("enabled"):
        yield {
            "kind": "ScaledObject",
            "metadata": {"name": name},
            "spec": {**keda, "scaleTargetRef": {"name": name}},
        }


def _model_service(
    values: Mapping[Any, Any], artifacts: Mapping[Any, Any], part: str, given: Mapping[Any, Any]
) -> dict[str, Any]:
    parallel, containers = _mapping(given.get("parallelism")), _mappings(given.get("containers"))
    tensor, local = (_count(parallel.get(key)) for key in ("tensor", "dataLocal"))
    uri = str(artifacts.get("uri") or "")
    model = str(artifacts.get("name") or uri.rpartition("://")[2])
    made = []
    for at, each in enumerate(containers):
        resources = _mapping(each.get("resources"))
        limits = _mapping(resources.get("limits"))
        # The chart itself asks for the devices of its parallelism.
        held = {} if at or _DEVICE in limits else {_DEVICE: tensor * local}
        command = ["vllm", "serve", model, f"--tensor-parallel-size={tensor}"] if at == 0 else []
        made.append(
            {**each, "command": [*command, *_words(each.get("command"))],
             "resources": {**resources, "limits": {**limits, **held}}}
        )  # fmt: skip
    pod = {"template": {"spec": {"containers": made, "nodeSelector": given.get("nodeSelector")}}}
    kept = {"replicas": given["replicas"]} if given.get("replicas") is not None else {}
    workers = _count(parallel.get("workers"))
    if values.get("multinode") and workers > 1:
        group = {"size": workers, "workerTemplate": pod["template"]}
        spec = {**kept, "leaderWorkerTemplate": group}
        return {"kind": "LeaderWorkerSet", "metadata": {"name": part}, "spec": spec}
    return {"kind": "Deployment", "metadata": {"name": part}, "spec": {**kept, **pod}}


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[Any, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
