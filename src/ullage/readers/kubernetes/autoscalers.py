"""Autoscalers laid over the pools they scale: the least and the most replicas, and who asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ullage.planning.running import RunningPool
from ullage.readers.kubernetes.documents import Object, whole
from ullage.readers.kubernetes.scaling_rules import scaling_rules

# Where each kind keeps its bounds, and what stands in where it says nothing.
_BOUNDS = {
    "HorizontalPodAutoscaler": ("minReplicas", 1, "maxReplicas"),
    "ScaledObject": ("minReplicaCount", 0, "maxReplicaCount"),
}
# KEDA's own default.
_SCALED_OBJECT_MOST = 100


def scaled(pools: Sequence[RunningPool], autoscalers: Sequence[Object]) -> tuple[RunningPool, ...]:
    """The pools with the bounds of the autoscaler that names them."""
    found = list(pools)
    for each in autoscalers:
        low, default, high = _BOUNDS[each.kind]
        target = str(each.at("spec", "scaleTargetRef", "name") or "")
        kind = str(each.at("spec", "scaleTargetRef", "kind") or "Deployment")
        least = whole(each.at("spec", low), field=f"{each.where}.spec.{low}", default=default)
        most = whole(each.at("spec", high), field=f"{each.where}.spec.{high}", default=_SCALED_OBJECT_MOST)
        rule = next((one.rule for one in scaling_rules([each])), None)
        found = [
            replace(pool, least_replicas=least, most_replicas=most, scaled_by=f"{each.kind} {each.name}", rule=rule)
            if (pool.name, pool.kind) == (target, kind)
            else pool
            for pool in found
        ]
    return tuple(found)
