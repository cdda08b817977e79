"""A Deployment of one pool: what the plan decides of it, to be applied by itself or over one that is there."""

from __future__ import annotations

from typing import Any

from ullage.emit.engine_flags import engine_command
from ullage.emit.pod import pod_spec, replicas, surge
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, yaml_text
from ullage.errors import InputError


def deployment_files(plan: EmitPlan) -> list[EmittedFile]:
    return [_file(plan, pool) for pool in plan.pools]


def _file(plan: EmitPlan, pool: EmitPool) -> EmittedFile:
    if len(pool.parts) > 1:
        raise InputError(
            field="--target",
            value="deployment",
            problem=f"a replica of {pool.pool} spans {len(pool.parts)} nodes, but a Deployment's pod runs on one",
            fix="Take target leaderworkerset.",
        )
    scaled = ["replicas is left to the autoscaler emitted with this file."] if pool.is_autoscaled else []
    head = plan.head(
        "apps/v1, for Kubernetes 1.30 and later. Apply it by itself, or lay it over your own: kubectl apply "
        "--server-side, "
        "or as a patch of Kustomize. args and selector replace those that are there.",
        *scaled,
        *engine_command(pool).cannot,
    )
    return EmittedFile(name=f"{pool.name}.deployment.yaml", text=yaml_text(head, deployment(pool)))


def deployment(pool: EmitPool) -> dict[str, Any]:
    labels = dict(pool.need("selector"))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pool.metadata(),
        "spec": {
            **replicas(pool),
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": surge(pool)},
            "template": {
                "metadata": {"labels": {**pool.settings.labels, **labels}},
                "spec": pod_spec(pool, pool.devices, template_hash=True),
            },
        },
    }
