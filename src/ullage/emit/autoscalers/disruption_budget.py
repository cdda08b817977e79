"""A PodDisruptionBudget: how many replicas a drain of nodes may take at a time."""

from __future__ import annotations

from typing import Any

from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def disruption_budget_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "policy/v1. It holds for drains of nodes, not for failures nor for a rollout, which its workload paces "
        "itself. It "
        "is never 0: a node that cannot be drained is only patched once it fails."
    )
    return [EmittedFile(name=f"{pool.name}.pdb.yaml", text=yaml_text(head, budget(pool))) for pool in plan.pools]


def budget(pool: EmitPool) -> dict[str, Any]:
    pods = len(pool.parts)
    at_once = max(1, pool.whole("reserve.maintenance_replicas"))
    why = pool.number("reserve.maintenance_replicas").why + (f"; {pods} pods each" if pods > 1 else "")
    if pool.is_autoscaled and at_once >= (least := pool.whole("scaling.least_replicas")):
        at_once, why = max(1, least - 1), f"one stays of the least that an autoscaler leaves; {why}"
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pool.metadata(),
        "spec": {
            "maxUnavailable": Reasoned(value=at_once * pods, why=why),
            # A replica that never became ready protects nothing.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": dict(pool.need("selector"))},
        },
    }
