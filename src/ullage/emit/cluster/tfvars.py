"""Variables of Terraform: nodes of each pool, in all and by zone, for the module that makes them."""

from __future__ import annotations

import json

from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile
from ullage.foreign import visible


def tfvars_files(plan: EmitPlan) -> list[EmittedFile]:
    lines = [f"# {visible(each)}" for each in plan.head("Declare variable ullage_node_groups as a map of objects.")]
    lines.append("ullage_node_groups = {")
    for pool in plan.pools:
        lines += _group(pool)
    return [EmittedFile(name="ullage.auto.tfvars", text="\n".join([*lines, "}"]) + "\n")]


def _group(pool: EmitPool) -> list[str]:
    """One node group; names are quoted, so that none of them is read as an expression."""
    rows = {
        "nodes": ("packing.nodes", pool.whole("packing.nodes")),
        "devices_per_node": ("packing.devices", pool.node_devices),
        "replicas": ("fleet.total_replicas", pool.whole("fleet.total_replicas")),
    }
    found = [f"  {json.dumps(pool.name)} = {{"]
    for key, (name, value) in rows.items():
        found += [f"    # {visible(pool.number(name).why)}", f"    {key} = {value}"]
    found.append("    replicas_by_zone = {")
    found += [f"      {json.dumps(zone)} = {count}" for zone, count in pool.zones.items()]
    return [*found, "    }", "  }"]
