"""What Knative and KServe say of scaling: to Knative's own autoscaler, or handed on to an HPA or to KEDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ullage.errors import InputError
from ullage.readers.kubernetes.autoscaler_rules import ReadRule, hpa_rule, keda_rule
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.readers.kubernetes.rule_values import check_bounds, duration, quantity, section, target
from ullage.scaling.knative import KnativeSpec
from ullage.scaling.rules import ScalingRule

_PREFIX = "autoscaling.knative.dev/"
_KSERVE = "serving.kserve.io/"
_HPA_CLASS = "hpa.autoscaling.knative.dev"
_RESOURCES = ("cpu", "memory")
# Where nobody bounds it, the pool does.
_NO_MOST = 20_000


def template_annotations(found: Object, *path: str) -> dict[str, str]:
    """Those of the object, with those of its template over them."""
    own = section(found.at("metadata", "annotations"), f"{found.where}.metadata.annotations")
    inner = section(found.at(*path, "metadata", "annotations"), f"{found.where}.{'.'.join(path)}.metadata.annotations")
    return {str(name): str(value) for each in (own, inner) for name, value in each.items()}


def knative_rule(found: Object, notes: Mapping[str, str], *, concurrency: Any = None) -> ReadRule:
    where = found.where

    def said(name: str, default: float, *, lasts: bool = False) -> float:
        text = notes.get(_PREFIX + name, notes.get(_PREFIX + name.replace("-scale", "Scale")))
        if text is None:
            return default
        field = f"{where}: {_PREFIX}{name}"
        return duration(text, field) if lasts else quantity(text.removesuffix("%"), field)

    hard = concurrency if concurrency is not None else found.at("spec", "template", "spec", "containerConcurrency")
    most = whole(hard, field=f"{where}: containerConcurrency", default=0)
    least, bound = int(said("min-scale", 0)), int(said("max-scale", 0))
    if notes.get(f"{_PREFIX}class") == _HPA_CLASS:
        resource = notes.get(f"{_PREFIX}metric", "cpu")
        aim = {"averageUtilization": max(1, round(said("target", 80.0)))}
        metrics = [{"type": "Resource", "resource": {"name": resource, "target": aim}}]
        hpa = {"minReplicas": max(1, least), "maxReplicas": bound or _NO_MOST, "metrics": metrics}
        return _handed_on(found, hpa_rule, hpa)
    spec = KnativeSpec(
        target_value=said("target", float(most) if most else 100.0),
        utilisation_fraction=said("target-utilization-percentage", 70.0) / 100.0,
        signal="rps" if notes.get(f"{_PREFIX}metric") == "rps" else "concurrency",
        least_replicas=least,
        most_replicas=bound,
        initial_replicas=int(said("initial-scale", 1)),
        activation_replicas=int(said("activation-scale", 1)),
        stable_s=said("window", 60.0, lasts=True),
        panic_fraction=said("panic-window-percentage", 10.0) / 100.0,
        panic_ratio=said("panic-threshold-percentage", 200.0) / 100.0,
        down_delay_s=said("scale-down-delay", 0.0, lasts=True),
        retention_s=said("scale-to-zero-pod-retention-period", 0.0, lasts=True),
    )
    for name, value in (("target", spec.target_value), ("target-utilization-percentage", spec.utilisation_fraction)):
        target(value, f"{where}: {_PREFIX}{name}")
    # Knative's own range begins at six seconds.
    duration(spec.stable_s, f"{where}: {_PREFIX}window", least_s=6.0)
    if spec.most_replicas:
        check_bounds(spec.least_replicas, spec.most_replicas, f"{where}: {_PREFIX}max-scale")
    return ReadRule(
        rule=ScalingRule(name=f"Knative {found.name}", spec=spec, where=where),
        target=found.name,
        target_kind=found.kind,
    )


def least_replicas(found: Object) -> int:
    """What a Service of Knative keeps; one that states nothing may go to none, and begins with one."""
    notes = template_annotations(found, "spec", "template")
    stated = notes.get(f"{_PREFIX}min-scale", notes.get(f"{_PREFIX}minScale", "1"))
    return max(1, whole(stated, field=f"{found.where}: {_PREFIX}min-scale"))


def kserve_rule(found: Object) -> ReadRule | None:
    """KServe hands its numbers on: to Knative, in Standard mode to an HPA, or to KEDA; None where nothing scales."""
    notes = template_annotations(found, "spec", "predictor")
    where = found.where
    predictor = section(found.at("spec", "predictor"), f"{where}.spec.predictor")
    least = whole(walked(predictor, "minReplicas"), field=f"{where}.spec.predictor.minReplicas", default=1)
    most = whole(walked(predictor, "maxReplicas"), field=f"{where}.spec.predictor.maxReplicas", default=max(1, least))
    check_bounds(least, most or max(1, least), f"{where}.spec.predictor.maxReplicas")
    scaler = notes.get(f"{_KSERVE}autoscalerClass", "")
    is_standard = notes.get(f"{_KSERVE}deploymentMode") in ("RawDeployment", "Standard")
    if scaler in ("external", "none"):
        return None
    if scaler == "keda":
        return _handed_on(found, keda_rule, _scaled_object(found, predictor, least, max(1, most)))
    # Knative counts no CPU itself: that class of its pods is scaled by an HPA as well.
    if is_standard or scaler == "hpa":
        return _handed_on(found, hpa_rule, _autoscaler(found, predictor, least, max(1, most)))
    aim, metric = walked(predictor, "scaleTarget"), str(walked(predictor, "scaleMetric") or "")
    given = {**notes, f"{_PREFIX}min-scale": str(least), f"{_PREFIX}max-scale": str(most if most > least else 0)}
    if aim is not None:
        given[f"{_PREFIX}target"] = str(aim)
    if metric:
        given[f"{_PREFIX}metric"] = metric
    if metric in _RESOURCES:
        given[f"{_PREFIX}class"] = _HPA_CLASS
    return knative_rule(found, given, concurrency=walked(predictor, "containerConcurrency"))


def _handed_on(found: Object, reader: Callable[[Object], ReadRule], spec: Mapping[str, Any]) -> ReadRule:
    """The rule of the object that KServe makes of its own, under the service's name."""
    read = reader(replace(found, body={**found.body, "spec": spec}))
    kind = "Knative" if found.kind == "Service" else "KServe"
    return replace(
        read, rule=replace(read.rule, name=f"{kind} {found.name}"), target=found.name, target_kind=found.kind
    )


def _scaled_object(found: Object, predictor: Mapping[str, Any], least: int, most: int) -> dict[str, Any]:
    path = f"{found.where}.spec.predictor"
    metrics = listed(walked(predictor, "autoScaling", "metrics"))
    named = {"type": str(walked(predictor, "scaleMetric") or "cpu"), "metadata": {"value": _percent(predictor, path)}}
    return {
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "triggers": [_trigger(each, f"{path}.autoScaling.metrics.{at}") for at, each in enumerate(metrics)] or [named],
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": walked(predictor, "autoScaling", "behavior")}},
    }


def _trigger(metric: Any, where: str) -> dict[str, Any]:
    """What KServe tells KEDA of one metric: a resource, a query, or a metric that the pods push."""
    kind = str(walked(metric, "type") or "")
    key = "podmetric" if kind == "PodMetric" else kind.lower()
    aim = section(walked(metric, key, "target"), f"{where}.{key}.target")
    if kind == "Resource":
        value = aim.get("averageUtilization", 80)
        return {"type": str(walked(metric, key, "name") or "cpu"), "metadata": {"value": value}}
    if kind not in ("External", "PodMetric"):
        fix = "Give External, PodMetric or Resource."
        raise InputError(field=f"{where}.type", value=kind, problem="is no type of metric of KServe", fix=fix)
    value = aim.get("averageValue", aim.get("value"))
    target(value, f"{where}.{key}.target")
    query = walked(metric, key, "metric", "query") or walked(metric, key, "metric", "metricNames", 0)
    return {
        "type": "prometheus",
        "metricType": "Value" if aim.get("type") == "Value" and "averageValue" not in aim else "AverageValue",
        "metadata": {"query": str(query or ""), "threshold": value},
    }


def _autoscaler(found: Object, predictor: Mapping[str, Any], least: int, most: int) -> dict[str, Any]:
    named = {"name": str(walked(predictor, "scaleMetric") or "cpu"),
             "target": {"averageUtilization": _percent(predictor, f"{found.where}.spec.predictor")}}  # fmt: skip
    return {
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": listed(walked(predictor, "autoScaling", "metrics")) or [{"type": "Resource", "resource": named}],
        "behavior": walked(predictor, "autoScaling", "behavior"),
    }


def _percent(predictor: Mapping[str, Any], where: str) -> int:
    return max(1, whole(walked(predictor, "scaleTarget"), field=f"{where}.scaleTarget", default=80))
