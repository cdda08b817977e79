"""A ScaledObject of KEDA: the pool follows what its engines say in Prometheus."""

from __future__ import annotations

from typing import Any

from ullage.emit.autoscalers.behaviour import behaviour
from ullage.emit.quantities import number
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.scale_rule import ScaleRule, scale_rule
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def keda_files(plan: EmitPlan) -> list[EmittedFile]:
    return [
        EmittedFile(name=f"{pool.name}.keda.yaml", text=yaml_text(_head(plan, pool), scaled_object(pool)))
        for pool in plan.pools
    ]


def _head(plan: EmitPlan, pool: EmitPool) -> list[str]:
    return plan.head(
        "keda.sh/v1alpha1, for KEDA 2.20. Replicas that are starting count as supply: the target counts all "
        "requested replicas, so a slow start does not request more.",
        "A query without an answer is a failure, not a zero: after three of them KEDA falls back to the steady fleet.",
        *scale_rule(pool).warnings,
    )


def scaled_object(pool: EmitPool) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": pool.metadata(),
        "spec": {"scaleTargetRef": target_ref(pool), **scaled_object_spec(pool, scale_rule(pool))},
    }


def target_ref(pool: EmitPool) -> dict[str, Any]:
    """The workload that is scaled: a Deployment, or groups of pods where a replica spans nodes."""
    if len(pool.parts) > 1:
        return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": pool.name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": pool.name}


def scaled_object_spec(pool: EmitPool, rule: ScaleRule) -> dict[str, Any]:
    return {
        "pollingInterval": rule.poll_s,
        "minReplicaCount": Reasoned(value=rule.least, why=rule.least_why),
        "maxReplicaCount": Reasoned(value=rule.most, why=rule.most_why),
        "fallback": {
            "failureThreshold": rule.fallback.failures,
            "replicas": Reasoned(value=rule.fallback.replicas, why=rule.fallback_why),
            "behavior": rule.fallback.behavior.value,
        },
        "advanced": {
            # What the workload had before is not what the plan wants after.
            "restoreToOriginalReplicaCount": False,
            "horizontalPodAutoscalerConfig": {"behavior": behaviour(rule)},
        },
        "triggers": [
            {
                "type": "prometheus",
                "name": rule.signal.name,
                "metricType": "AverageValue",
                "metadata": {
                    "serverAddress": pool.need("prometheus"),
                    "query": rule.signal.query,
                    "threshold": Reasoned(value=number(rule.signal.target_requests), why=rule.signal.why),
                    "ignoreNullValues": "false",
                },
            },
            *_clock(rule),
        ],
    }


def _clock(rule: ScaleRule) -> list[dict[str, Any]]:
    """The schedule as triggers of KEDA's cron; hours of the plan's week are those of UTC."""
    found = []
    for place, each in enumerate(rule.schedule, start=1):
        begins, ends = each.cron
        found.append(
            {
                "type": "cron",
                "name": f"schedule-{place}",
                "metadata": {
                    "timezone": "Etc/UTC",
                    "start": begins,
                    "end": ends,
                    "desiredReplicas": Reasoned(value=str(each.replicas), why=rule.schedule_why),
                },
            }
        )
    return found
