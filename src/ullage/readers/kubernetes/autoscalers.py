"""Autoscalers laid over the pools they scale: the least and the most replicas, and who asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ullage.errors import InputError
from ullage.planning.brownfield.running import RunningPool
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.readers.kubernetes.scaling_rules import scaling_rules
from ullage.scaling.knative import KnativeSpec
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.signals import Signal

# Where each kind keeps its bounds, and what stands in where it says nothing.
_BOUNDS = {
    "HorizontalPodAutoscaler": ("minReplicas", 1, "maxReplicas"),
    "ScaledObject": ("minReplicaCount", 0, "maxReplicaCount"),
}
# What others scale; every other workload says itself how.
_SCALED = ("Deployment", "StatefulSet", "LeaderWorkerSet")
# KEDA's own default.
_SCALED_OBJECT_MOST = 100


def _rule(autoscaler: Object) -> ScalingRule | None:
    """The rule as the loop would run it; one that is written in part bounds the pool all the same."""
    try:
        return next((each.rule for each in scaling_rules([autoscaler])), None)
    except InputError:
        return None


def scaled(running: Sequence[tuple[Object, RunningPool]], autoscalers: Sequence[Object]) -> tuple[RunningPool, ...]:
    """The pools with the bounds of the autoscaler that names them: their own, or one of their namespace."""
    found = [(each, _self_scaled(each, pool)) for each, pool in running]
    for scaler in autoscalers:
        found = [(each, _scaled(pool, scaler) if _is_target(each, scaler) else pool) for each, pool in found]
    return tuple(pool for _, pool in found)


def _is_target(workload: Object, scaler: Object) -> bool:
    """By kind and name, within a namespace where both say theirs."""
    name = str(scaler.at("spec", "scaleTargetRef", "name") or "")
    kind = str(scaler.at("spec", "scaleTargetRef", "kind") or "Deployment")
    spaces = {each.namespace for each in (workload, scaler) if each.namespace}
    return (workload.name, workload.kind) == (name, kind) and len(spaces) <= 1


def _scaled(pool: RunningPool, scaler: Object) -> RunningPool:
    low, default, high = _BOUNDS[scaler.kind]
    least = whole(scaler.at("spec", low), field=f"{scaler.where}.spec.{low}", default=default)
    most = whole(scaler.at("spec", high), field=f"{scaler.where}.spec.{high}", default=_SCALED_OBJECT_MOST)
    rule = _rule(scaler)
    if rule is not None and isinstance(rule.spec, ScheduleSpec):
        least, most = rule.bounds
    return replace(
        pool,
        # A manifest beside an autoscaler states no replicas, and Kubernetes would start one: it never stays.
        replicas=max(pool.replicas, least) if pool.replicas else 0,
        least_replicas=least,
        most_replicas=most,
        scaled_by=f"{scaler.kind} {scaler.name}",
        signals=_signals(scaler),
        rule=rule,
    )


def _self_scaled(workload: Object, pool: RunningPool) -> RunningPool:
    """A service of KServe or Knative brings its own rule."""
    rule = _rule(workload) if workload.kind not in _SCALED else None
    if rule is None:
        return pool
    least, most = rule.bounds
    return replace(
        pool,
        least_replicas=least,
        most_replicas=most or None,
        scaled_by=f"{workload.kind} {workload.name}",
        signals=_read(rule),
        rule=rule,
    )


def _read(rule: ScalingRule) -> tuple[str, ...]:
    """What a rule reads, in words where no metric is named."""
    named = (("cpu" if each.signals == (Signal.BUSY,) else each.signals[0].value) for each in rule.queries.values())
    own = (rule.spec.signal,) if isinstance(rule.spec, KnativeSpec) else ()
    return _once((*named, *own))


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
