"""A NodePool of Karpenter: as many devices as the plan's machines have, released when they are empty."""

from __future__ import annotations

import math
from typing import Any

from ullage.emit.quantities import seconds
from ullage.emit.request import EmitPlan, EmitPool, up
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def karpenter_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head("karpenter.sh/v1, for Karpenter 1.14. Nodes are released when empty, never while they serve.")
    return [
        EmittedFile(name=f"{pool.name}.nodepool.yaml", text=yaml_text(head, node_pool(pool))) for pool in plan.pools
    ]


def node_pool(pool: EmitPool) -> dict[str, Any]:
    group, kind, name = str(pool.need("node_class")).split("/")
    metadata = {key: each for key, each in pool.metadata().items() if key != "namespace"}
    asked = [{"key": key, "operator": "In", "values": [value]} for key, value in pool.need("node_selector").items()]
    at_once = max(1, math.ceil(pool.whole("reserve.maintenance_replicas") / max(1, pool.node_devices // pool.parts[0])))
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata,
        "spec": {
            "limits": {pool.need("device_resource"): pool.noted("packing.devices", str(pool.whole("packing.devices")))},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": pool.noted("scaling.node_held_s", seconds(pool.real("scaling.node_held_s"))),
                "budgets": [
                    {"nodes": pool.noted("reserve.maintenance_replicas", str(at_once), because="nodes at once")}
                ],
            },
            "template": {
                "spec": {
                    "nodeClassRef": {"group": group, "kind": kind, "name": name},
                    "expireAfter": pool.noted(
                        "maintenance.every",
                        f"{max(1, up(pool.real('maintenance.every') / 3600.0))}h",
                        because="patched",
                    ),
                    "terminationGracePeriod": pool.noted("maintenance.drain", seconds(pool.real("maintenance.drain"))),
                    "requirements": Reasoned(value=asked, why="emit.workloads node_selector"),
                }
            },
        },
    }
