"""Queues of Kueue for each pool: a quota that holds the whole fleet and a rollout's surge, apart from other work."""

from __future__ import annotations

from typing import Any

from ullage.emit.pod import resources
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, plain, yaml_text


def kueue_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "kueue.x-k8s.io/v1beta2, for Kueue 0.19. Every resource that a pod requests is in the queue: a missing "
        "one would keep the pod waiting. Label the workload kueue.x-k8s.io/queue-name with the LocalQueue's name."
    )
    return [EmittedFile(name=f"{pool.name}.kueue.yaml", text=yaml_text(head, *objects(pool))) for pool in plan.pools]


def objects(pool: EmitPool) -> list[dict[str, Any]]:
    kind = "kueue.x-k8s.io/v1beta2"
    whole = {key: each for key, each in pool.metadata().items() if key != "namespace"}
    rows = [{"name": name, "nominalQuota": _quota(pool, name)} for name in _asked(pool)]
    group = {"coveredResources": list(_asked(pool)), "flavors": [{"name": pool.name, "resources": rows}]}
    namespace = {"kubernetes.io/metadata.name": pool.need("namespace")}
    return [
        {
            "apiVersion": kind,
            "kind": "ResourceFlavor",
            "metadata": whole,
            "spec": {"nodeLabels": dict(pool.need("node_selector"))},
        },
        {
            "apiVersion": kind,
            "kind": "ClusterQueue",
            "metadata": whole,
            "spec": {"namespaceSelector": {"matchLabels": namespace}, "resourceGroups": [group]},
        },
        {"apiVersion": kind, "kind": "LocalQueue", "metadata": pool.metadata(), "spec": {"clusterQueue": pool.name}},
    ]


def _asked(pool: EmitPool) -> dict[str, str]:
    """What the pods of one replica ask for, resource by resource."""
    found: dict[str, int] = {}
    for devices in pool.parts:
        for name, amount in plain(resources(pool, devices))["requests"].items():
            found[name] = found.get(name, 0) + int(str(amount).removesuffix("Mi"))
    return {
        name: f"{amount}Mi" if name in ("memory", "ephemeral-storage") else str(amount)
        for name, amount in found.items()
    }


def _quota(pool: EmitPool, name: str) -> Reasoned:
    each = _asked(pool)[name]
    amount = int(each.removesuffix("Mi")) * pool.room.replicas
    suffix = "Mi" if each.endswith("Mi") else ""
    return Reasoned(value=f"{amount}{suffix}", why=f"{each} a replica; {pool.room.why}")
