"""A ResourceQuota of the namespace: the devices of the plan's fleets, with room for the rollout of a full one."""

from __future__ import annotations

from typing import Any

from ullage.emit.request import EmitPlan
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def resource_quota_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "v1. It limits what the namespace may request; it reserves nothing. It holds a rollout at the largest fleet: "
        "a quota of the fleet alone would refuse the surge, and the rollout would stall."
    )
    return [EmittedFile(name="ullage.resource-quota.yaml", text=yaml_text(head, quota(plan)))]


def quota(plan: EmitPlan) -> dict[str, Any]:
    hard: dict[str, Any] = {}
    for resource in dict.fromkeys(str(pool.need("device_resource")) for pool in plan.pools):
        mine = [pool for pool in plan.pools if pool.need("device_resource") == resource]
        devices = sum(pool.room.devices for pool in mine)
        why = "; ".join(f"{pool.room.why} ({pool.number('fleet.total_devices').why})" for pool in mine)
        hard[f"requests.{resource}"] = Reasoned(value=str(devices), why=why)
    first = plan.pools[0]
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": first.metadata(f"{first.name}-devices"),
        "spec": {"hard": hard},
    }
