"""Deployments, StatefulSets and LeaderWorkerSets into pools: replicas, devices of each, engine and how it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.planning.brownfield.running import RunningPool
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.readers.kubernetes.engine_args import EngineArgs, engine_args

WORKLOADS = ("Deployment", "StatefulSet", "LeaderWorkerSet")
DEVICE_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi", "google.com/tpu")
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
# What Kubernetes does where a Deployment does not say.
_SURGE, _UNAVAILABLE = "25%", "25%"


def pool_of(found: Object) -> RunningPool | None:
    """The pool, or None where its pods ask for no device."""
    pods = _pods(found)
    devices = sum(_devices(found, pod) * times for pod, times in pods)
    if devices == 0:
        return None
    leader, _ = pods[0]
    args = _engine(leader)
    surge, unavailable = _change(found)
    return RunningPool(
        name=found.name,
        kind=found.kind,
        where=found.where,
        replicas=whole(found.at("spec", "replicas"), field=f"{found.where}.spec.replicas", default=1),
        devices_per_replica=devices,
        engine=args.engine,
        engine_version=args.version,
        model=args.model,
        settings=args.settings,
        device=_device(leader),
        surge=surge,
        unavailable=unavailable,
    )


def _pods(found: Object) -> list[tuple[Mapping[str, Any], int]]:
    """The pods of one replica: one, or a leader and its workers."""
    if found.kind != "LeaderWorkerSet":
        return [(_mapping(found.at("spec", "template", "spec")), 1)]
    template = found.at("spec", "leaderWorkerTemplate") or {}
    size = whole(walked(template, "size"), field=f"{found.where}.spec.leaderWorkerTemplate.size", default=1)
    worker = _mapping(walked(template, "workerTemplate", "spec"))
    leader = _mapping(walked(template, "leaderTemplate", "spec")) or worker
    return [(leader, 1), (worker, size - 1)] if size > 1 else [(leader, 1)]


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


def _engine(pod: Mapping[str, Any]) -> EngineArgs:
    """The arguments of the container that holds the devices, or of the first that starts an engine."""
    containers = listed(pod.get("containers"))
    ranked = sorted(containers, key=lambda each: not any(name in DEVICE_RESOURCES for name in _asked(each)))
    read = [
        engine_args(
            [str(word) for key in ("command", "args") for word in listed(walked(each, key))],
            image=str(walked(each, "image") or ""),
        )
        for each in ranked
    ]
    return next((each for each in read if each.engine), EngineArgs(engine="", model="", settings={}))


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
    rolling = found.at("spec", "rolloutStrategy", "rollingUpdateConfiguration") or {}
    return _said(rolling, "maxSurge", "0"), _said(rolling, "maxUnavailable", "1")


def _said(rolling: Any, key: str, default: str) -> str:
    """What is written, an exact 0 too; the default only where nothing is."""
    value = walked(rolling, key)
    return default if value is None else str(value)
