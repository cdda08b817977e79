"""Autoscalers laid over the pools they scale: the least and the most replicas, and who asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ullage.errors import InputError
from ullage.planning.brownfield.running import RunningPool
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.readers.kubernetes.scaling_rules import scaling_rules
from ullage.scaling.rules import ScalingRule

# Where each kind keeps its bounds, and what stands in where it says nothing.
_BOUNDS = {
    "HorizontalPodAutoscaler": ("minReplicas", 1, "maxReplicas"),
    "ScaledObject": ("minReplicaCount", 0, "maxReplicaCount"),
}
# KEDA's own default.
_SCALED_OBJECT_MOST = 100


def _rule(autoscaler: Object) -> ScalingRule | None:
    """The rule as the loop would run it; one that is written in part bounds the pool all the same."""
    try:
        return next((each.rule for each in scaling_rules([autoscaler])), None)
    except InputError:
        return None


def scaled(pools: Sequence[RunningPool], autoscalers: Sequence[Object]) -> tuple[RunningPool, ...]:
    """The pools with the bounds of the autoscaler that names them."""
    found = list(pools)
    for each in autoscalers:
        low, default, high = _BOUNDS[each.kind]
        target = str(each.at("spec", "scaleTargetRef", "name") or "")
        kind = str(each.at("spec", "scaleTargetRef", "kind") or "Deployment")
        least = whole(each.at("spec", low), field=f"{each.where}.spec.{low}", default=default)
        most = whole(each.at("spec", high), field=f"{each.where}.spec.{high}", default=_SCALED_OBJECT_MOST)
        rule = _rule(each)
        found = [
            replace(
                pool,
                # A manifest beside an autoscaler states no replicas, and Kubernetes would start one: it never stays.
                replicas=max(pool.replicas, least) if pool.replicas else 0,
                least_replicas=least,
                most_replicas=most,
                scaled_by=f"{each.kind} {each.name}",
                signals=_signals(each),
                rule=rule,
            )
            if (pool.name, pool.kind) == (target, kind)
            else pool
            for pool in found
        ]
    return tuple(found)


def _signals(scaler: Object) -> tuple[str, ...]:
    """What the autoscaler follows, by its own names; one of Kubernetes that names nothing follows the CPU."""
    if scaler.kind == "ScaledObject":
        return _once(_trigger(each) for each in listed(scaler.at("spec", "triggers")))
    named = _once(_metric(each) for each in listed(scaler.at("spec", "metrics")))
    return named or ("cpu",)


def _metric(metric: Any) -> str:
    """The name of one metric of autoscaling/v2; a Resource and a ContainerResource have theirs one step up."""
    kind = str(walked(metric, "type") or "")
    body = walked(metric, kind[:1].lower() + kind[1:])
    return str(walked(body, "name") or walked(body, "metric", "name") or "")


def _trigger(trigger: Any) -> str:
    """A trigger of KEDA: its own kind where it watches the pod, else what it asks for."""
    kind = str(walked(trigger, "type") or "")
    asked = walked(trigger, "metadata", "query") or walked(trigger, "metadata", "metricName")
    return kind if kind in ("cpu", "memory") or not asked else str(asked)


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in names if each))
