"""Nodes with devices: how many, of which kind, in which zone, on which instance."""

from __future__ import annotations

from collections.abc import Mapping

from ullage.planning.brownfield.running import RunningNode
from ullage.readers.kubernetes.documents import Object, whole
from ullage.readers.kubernetes.workloads import DEVICE_RESOURCES, PRODUCT_LABELS


def node_of(found: Object) -> RunningNode | None:
    """The node, or None where it has no device that can be given out."""
    room = found.at("status", "allocatable") or found.at("status", "capacity") or {}
    if not isinstance(room, Mapping):
        return None
    devices = sum(
        whole(amount, field=f"{found.where}: {name}") for name, amount in room.items() if name in DEVICE_RESOURCES
    )
    if devices == 0 or found.at("spec", "unschedulable") is True:
        return None
    labels = found.at("metadata", "labels")
    known = labels if isinstance(labels, Mapping) else {}
    return RunningNode(
        name=found.name,
        devices=devices,
        device=next((str(known[label]) for label in PRODUCT_LABELS if label in known), ""),
        instance=str(known.get("node.kubernetes.io/instance-type", "")),
        region=str(known.get("topology.kubernetes.io/region", "")),
        zone=str(known.get("topology.kubernetes.io/zone", "")),
    )
