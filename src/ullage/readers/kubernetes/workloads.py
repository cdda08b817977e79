"""Deployments, StatefulSets, LeaderWorkerSets and services of KServe and Knative into pools: replicas, devices of each,
engine and how it changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ullage.planning.brownfield.running import RunningPool
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.readers.kubernetes.engine_args import EngineArgs, engine_args
from ullage.readers.kubernetes.serving_rules import least_replicas

WORKLOADS = ("Deployment", "StatefulSet", "LeaderWorkerSet", "InferenceService", "LLMInferenceService")
# The degrees that an LLMInferenceService states, and the flags that KServe makes of them.
_PARALLEL = {"tensor": "--tensor-parallel-size", "pipeline": "--pipeline-parallel-size", "data": "--data-parallel-size"}
# Where KServe's template takes further arguments of vLLM from.
_MORE_ARGS = "VLLM_ADDITIONAL_ARGS"
DEVICE_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi", "google.com/tpu")
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
# What Kubernetes does where a Deployment does not say.
_SURGE, _UNAVAILABLE = "25%", "25%"


def is_workload(found: Object) -> bool:
    return found.kind in WORKLOADS or found.is_knative_service


def pool_of(found: Object) -> RunningPool | None:
    """The pool, or None where its pods ask for no device."""
    pods = _pods(found)
    devices = sum(_devices(found, pod) * times for pod, times in pods)
    if devices == 0:
        return None
    leader, _ = pods[0]
    args = _engine(leader, _served(found))
    surge, unavailable = _change(found)
    return RunningPool(
        name=found.name,
        kind=found.kind,
        where=found.where,
        replicas=_replicas(found),
        devices_per_replica=devices,
        engine=args.engine,
        engine_version=args.version,
        model=args.model,
        settings=args.settings,
        device=_device(leader),
        surge=surge,
        unavailable=unavailable,
    )


def _replicas(found: Object) -> int:
    """What is stated; of a service that scales itself, the least that it keeps."""
    path: tuple[str, ...] = ("spec", "replicas")
    if found.kind == "InferenceService":
        path = ("spec", "predictor", "minReplicas")
    elif found.kind == "LLMInferenceService" and found.at("spec", "scaling") is not None:
        path = ("spec", "scaling", "minReplicas")
    elif found.is_knative_service:
        return least_replicas(found)
    return whole(found.at(*path), field=f"{found.where}.{'.'.join(path)}", default=1)


@dataclass(frozen=True, kw_only=True)
class _Served:
    """What an object says of its engine outside of its pods."""

    engine: str = ""
    model: str = ""
    words: tuple[str, ...] = ()


def _served(found: Object) -> _Served:
    """KServe starts vLLM for models of Hugging Face, and hands it the model and its parallelism."""
    if found.kind == "LLMInferenceService":
        parallel = _mapping(found.at("spec", "parallelism"))
        words = tuple(f"{flag}={parallel[key]}" for key, flag in _PARALLEL.items() if parallel.get(key))
        return _Served(engine="vllm", model=_uri_name(found.at("spec", "model", "uri")), words=words)
    if found.kind == "InferenceService":
        model = _mapping(found.at("spec", "predictor", "model"))
        is_vllm = walked(model, "modelFormat", "name") in ("huggingface", "vllm", "vLLM")
        return _Served(engine="vllm" if is_vllm else "", model=_uri_name(model.get("storageUri")))
    return _Served()


def _uri_name(uri: Any) -> str:
    """The model behind an address: of Hugging Face its name there, of a store the path.

    >>> _uri_name("hf://meta-llama/Llama-3.1-8B-Instruct"), _uri_name("hf://a/b:main"), _uri_name(None)
    ('meta-llama/Llama-3.1-8B-Instruct', 'a/b', '')
    """
    scheme, _, path = str(uri or "").rpartition("://")
    return path.partition(":")[0] if scheme == "hf" else path


def _pods(found: Object) -> list[tuple[Mapping[str, Any], int]]:
    """The pods of one replica: one, or a leader and its workers."""
    if found.kind == "InferenceService":
        return _predictor_pods(found)
    if found.kind == "LLMInferenceService":
        return _llm_pods(found)
    if found.kind != "LeaderWorkerSet":
        return [(_mapping(found.at("spec", "template", "spec")), 1)]
    template = found.at("spec", "leaderWorkerTemplate") or {}
    size = whole(walked(template, "size"), field=f"{found.where}.spec.leaderWorkerTemplate.size", default=1)
    worker = _mapping(walked(template, "workerTemplate", "spec"))
    leader = _mapping(walked(template, "leaderTemplate", "spec")) or worker
    return [(leader, 1), (worker, size - 1)] if size > 1 else [(leader, 1)]


def _predictor_pods(found: Object) -> list[tuple[Mapping[str, Any], int]]:
    """A predictor is a pod with the model's container among the others; its workers hold the other stages."""
    predictor = _mapping(found.at("spec", "predictor"))
    own = [predictor["model"]] if _mapping(predictor.get("model")) else []
    leader = {**predictor, "containers": [*own, *listed(predictor.get("containers"))]}
    worker = _mapping(predictor.get("workerSpec"))
    if not worker:
        return [(leader, 1)]
    field = f"{found.where}.spec.predictor.workerSpec.pipelineParallelSize"
    return [(leader, 1), (worker, max(0, whole(worker.get("pipelineParallelSize"), field=field, default=2) - 1))]


def _llm_pods(found: Object) -> list[tuple[Mapping[str, Any], int]]:
    """As many pods as the devices of its parallelism need, beyond the first those of workers."""
    leader, worker = _mapping(found.at("spec", "template")), _mapping(found.at("spec", "worker"))
    if not worker:
        return [(leader, 1)]
    parallel = _mapping(found.at("spec", "parallelism"))
    needed = math.prod(whole(parallel.get(key), field=f"{found.where}.spec.parallelism.{key}", default=1)
                       for key in _PARALLEL)  # fmt: skip
    held = max(1, _devices(found, worker))
    return [(leader, 1), (worker, max(0, math.ceil((needed - _devices(found, leader)) / held)))]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _devices(found: Object, pod: Mapping[str, Any]) -> int:
    return sum(
        whole(amount, field=f"{found.where}: resources.{name}")
        for container in listed(pod.get("containers"))
        for name, amount in _asked(container).items()
        if name in DEVICE_RESOURCES
    )


def _asked(container: Any) -> dict[str, Any]:
    """Limits before requests: for devices Kubernetes wants both alike."""
    requests, limits = (walked(container, "resources", key) or {} for key in ("requests", "limits"))
    return {**requests, **limits} if isinstance(requests, Mapping) and isinstance(limits, Mapping) else {}


def _engine(pod: Mapping[str, Any], served: _Served) -> EngineArgs:
    """The arguments of the container that holds the devices, or of the first that starts an engine."""
    containers = listed(pod.get("containers"))
    ranked = sorted(containers, key=lambda each: not any(name in DEVICE_RESOURCES for name in _asked(each)))
    read = []
    for at, each in enumerate(ranked):
        env = _env(each)
        words = [str(word) for key in ("command", "args") for word in listed(walked(each, key))]
        read.append(
            engine_args(
                [*words, env.get(_MORE_ARGS, ""), *served.words],
                image=str(walked(each, "image") or ""),
                env=env,
                engine="" if at else served.engine,
            )
        )
    found = next((each for each in read if each.engine), EngineArgs(engine="", model="", settings={}))
    return replace(found, model=served.model or found.model) if found.engine else found


def _env(container: Any) -> dict[str, str]:
    """Variables with a value of their own; what another object holds is not known here."""
    return {
        str(each["name"]): str(each["value"])
        for each in listed(walked(container, "env"))
        if isinstance(each, Mapping) and "name" in each and each.get("value") is not None
    }


def _device(pod: Mapping[str, Any]) -> str:
    selector = pod.get("nodeSelector")
    labels = selector if isinstance(selector, Mapping) else {}
    named = next((str(labels[label]) for label in PRODUCT_LABELS if label in labels), "")
    return named or _by_affinity(pod)


def _by_affinity(pod: Mapping[str, Any]) -> str:
    needed = walked(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in listed(walked(needed, "nodeSelectorTerms")):
        for rule in listed(walked(term, "matchExpressions")):
            if walked(rule, "key") in PRODUCT_LABELS and walked(rule, "operator") == "In":
                return str(walked(rule, "values", 0) or "")
    return ""


def _change(found: Object) -> tuple[str, str]:
    """How far a rollout may go beyond and below the wanted replicas."""
    if found.kind == "Deployment":
        if found.at("spec", "strategy", "type") == "Recreate":
            return "0", "100%"
        rolling = found.at("spec", "strategy", "rollingUpdate") or {}
        return _said(rolling, "maxSurge", _SURGE), _said(rolling, "maxUnavailable", _UNAVAILABLE)
    if found.kind == "StatefulSet":
        return "0", _said(found.at("spec", "updateStrategy", "rollingUpdate") or {}, "maxUnavailable", "1")
    if found.kind == "InferenceService":
        given = found.at("spec", "predictor", "deploymentStrategy", "rollingUpdate") or {}
        return _said(given, "maxSurge", _SURGE), _said(given, "maxUnavailable", _UNAVAILABLE)
    if found.kind != "LeaderWorkerSet":
        return "", ""
    rolling = found.at("spec", "rolloutStrategy", "rollingUpdateConfiguration") or {}
    return _said(rolling, "maxSurge", "0"), _said(rolling, "maxUnavailable", "1")


def _said(rolling: Any, key: str, default: str) -> str:
    """What is written, an exact 0 too; the default only where nothing is."""
    value = walked(rolling, key)
    return default if value is None else str(value)
