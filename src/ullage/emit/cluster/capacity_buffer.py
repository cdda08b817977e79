"""A CapacityBuffer: room that is kept free for the replicas that a rollout starts beside the fleet."""

from __future__ import annotations

from typing import Any

from ullage.emit.autoscalers.keda import target_ref
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, yaml_text
from ullage.errors import InputError


def capacity_buffer_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "autoscaling.x-k8s.io/v1beta1, for Karpenter 1.14 or the cluster autoscaler. Without it a surge waits for "
        "nodes, and every batch of a rollout takes a cold start longer."
    )
    return [
        EmittedFile(name=f"{pool.name}.capacity-buffer.yaml", text=yaml_text(head, buffer(pool))) for pool in plan.pools
    ]


def buffer(pool: EmitPool) -> dict[str, Any]:
    if not pool.whole("reserve.rollout_surge_replicas"):
        raise InputError(
            field="plan: reserve.rollout_surge_replicas",
            value=0,
            problem="needs no buffer: the rollout uses replicas that are idle in its hours",
            fix="Leave capacity-buffer out, or give rollout.surge in the plan file.",
        )
    ref = target_ref(pool)
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": pool.metadata(),
        "spec": {
            "scalableRef": {"apiGroup": ref["apiVersion"].partition("/")[0], "kind": ref["kind"], "name": ref["name"]},
            "replicas": pool.noted("reserve.rollout_surge_replicas"),
        },
    }
