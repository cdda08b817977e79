"""A LeaderWorkerSet of one pool: replicas of which each stands on several nodes, or on one."""

from __future__ import annotations

from typing import Any

from ullage.emit.engine_flags import engine_command
from ullage.emit.pod import pod_spec, replicas, surge
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text
from ullage.errors import InputError


def leaderworkerset_files(plan: EmitPlan) -> list[EmittedFile]:
    return [_file(plan, pool) for pool in plan.pools]


def _file(plan: EmitPlan, pool: EmitPool) -> EmittedFile:
    scaled = ["replicas is left to the autoscaler emitted with this file."] if pool.is_autoscaled else []
    head = plan.head(
        "leaderworkerset.x-k8s.io/v1. One group of pods is one replica; losing a pod restarts its whole group.",
        *(
            ["Leader and workers start alike: give emit.workloads args what your engine needs to find its peers."]
            if len(pool.parts) > 1
            else []
        ),
        *scaled,
        *engine_command(pool).cannot,
    )
    return EmittedFile(name=f"{pool.name}.leaderworkerset.yaml", text=yaml_text(head, leaderworkerset(pool)))


def leaderworkerset(pool: EmitPool) -> dict[str, Any]:
    leader, *workers = pool.parts
    if len(set(workers)) > 1:
        raise InputError(
            field="--target",
            value="leaderworkerset",
            problem=f"a replica's nodes hold {', '.join(map(str, pool.parts))} devices, and workers must be alike",
            fix="Choose a parallelism that fills its nodes evenly.",
        )
    labels = {**pool.settings.labels, **pool.need("selector")}
    size = Reasoned(
        value=len(pool.parts), why=f"nodes of {pool.node_devices} devices that {pool.devices} devices run on"
    )
    template = {"metadata": {"labels": labels}, "spec": pod_spec(pool, leader, template_hash=False)}
    worker = workers[0] if workers else leader
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": pool.metadata(),
        "spec": {
            **replicas(pool),
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": surge(pool)},
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template,
                "workerTemplate": {
                    "metadata": {"labels": labels},
                    "spec": pod_spec(pool, worker, template_hash=False),
                },
            },
        },
    }
