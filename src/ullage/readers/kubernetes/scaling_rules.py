"""The rule of an autoscaler as written (HPA, KEDA, Knative, KServe), made into one that can be played.

What a rule reads is known by the names that engines and gateways export; a metric with another name is kept by its own
name, and the rule says so in `unread`: it can be looked at, and not played.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.scaling.hpa import (
    DOWN_RULES,
    UP_RULES,
    HpaMetric,
    HpaSpec,
    MetricKind,
    PolicyKind,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)
from ullage.scaling.keda import FallbackBehavior, KedaFallback, KedaSpec, KedaTrigger, ScalingModifiers
from ullage.scaling.knative import KnativeSpec
from ullage.scaling.rules import ScalingRule
from ullage.scaling.signals import Aggregate, MetricQuery, Signal, read_query

_SUFFIXES = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_QUANTITY = re.compile(r"^([+-]?\d+(?:\.\d+)?)(m|k|Ki|M|Mi|G|Gi)?$")
_PREFIX = "autoscaling.knative.dev/"
_KSERVE = "serving.kserve.io/"
KINDS = ("HorizontalPodAutoscaler", "ScaledObject", "Service", "InferenceService")


@dataclass(frozen=True, kw_only=True)
class ReadRule:
    """A rule, what it scales, and metrics whose names are not known here."""

    rule: ScalingRule
    target: str
    target_kind: str
    unread: tuple[str, ...] = ()


def scaling_rules(objects: list[Object], queries: Mapping[str, str] | None = None) -> tuple[ReadRule, ...]:
    """Every rule among the objects; `queries` are what an adapter serves, by name."""
    found = []
    for each in objects:
        if each.kind == "HorizontalPodAutoscaler":
            found.append(_hpa(each, queries or {}))
        elif each.kind == "ScaledObject":
            found.append(_keda(each))
        elif each.kind == "Service" and str(each.body.get("apiVersion", "")).startswith("serving.knative.dev"):
            found.append(_knative(each, _annotations(each, "spec", "template")))
        elif each.kind == "InferenceService":
            found.append(_kserve(each))
    return tuple(found)


def _number(value: Any, field: str) -> float:
    """A quantity as Kubernetes writes it: 100m, 2, 1500, 1Ki."""
    match = _QUANTITY.match(str(value).strip())
    if match is None or isinstance(value, bool):
        raise InputError(field=field, value=value, problem="is not a quantity", fix="Give for example 2 or 500m.")
    return float(match.group(1)) * _SUFFIXES[match.group(2) or ""]


def _duration(value: Any, field: str) -> float:
    match = re.match(r"^(\d+(?:\.\d+)?)(s|m|h)?$", str(value).strip())
    if match is None:
        raise InputError(field=field, value=value, problem="is not a duration", fix="Give for example 60s.")
    return float(match.group(1)) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match.group(2) or ""]


def _unknown() -> MetricQuery:
    """A metric of another name: taken to be a total of requests, which is what such metrics mostly are."""
    return MetricQuery(signals=(Signal.OUTSTANDING,), aggregate=Aggregate.SUM, from_pods=False)


# ---- HPA ---------------------------------------------------------------------------------------------------


def _hpa(found: Object, served: Mapping[str, str]) -> ReadRule:
    where, queries, unread = found.where, {}, []
    metrics = []
    for place, each in enumerate(listed(found.at("spec", "metrics"))):
        made, query, name = _hpa_metric(each, f"{where}.spec.metrics.{place}", served)
        if query is None:
            unread.append(name)
        metrics.append(HpaMetric(kind=made.kind, target_value=made.target_value, signal=name, container=made.container))
        queries[name] = query or _unknown()
    cpu = found.at("spec", "targetCPUUtilizationPercentage")
    if not metrics:
        metrics.append(
            HpaMetric(kind=MetricKind.RESOURCE, target_value=whole(cpu, field=where, default=80), signal="cpu")
        )
        queries["cpu"] = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0)
    spec = HpaSpec(
        metrics=tuple(metrics),
        least_replicas=whole(found.at("spec", "minReplicas"), field=f"{where}.spec.minReplicas", default=1),
        most_replicas=whole(found.at("spec", "maxReplicas"), field=f"{where}.spec.maxReplicas"),
        behavior=_behavior(found.at("spec", "behavior"), where),
    )
    return ReadRule(
        rule=ScalingRule(name=f"HPA {found.name}", spec=spec, queries=queries, where=where),
        target=str(found.at("spec", "scaleTargetRef", "name") or ""),
        target_kind=str(found.at("spec", "scaleTargetRef", "kind") or "Deployment"),
        unread=tuple(unread),
    )


def _hpa_metric(entry: Any, where: str, served: Mapping[str, str]) -> tuple[HpaMetric, MetricQuery | None, str]:
    kind = str(walked(entry, "type") or "")
    place = kind[:1].lower() + kind[1:]
    held = walked(entry, place)
    target = walked(held, "target") or {}
    if kind in ("Resource", "ContainerResource"):
        name = str(walked(held, "name") or "cpu")
        query = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0) if name == "cpu" else None
        container = str(walked(held, "container") or "")
        if walked(target, "averageUtilization") is not None:
            percent = whole(walked(target, "averageUtilization"), field=f"{where}.averageUtilization")
            return HpaMetric(kind=MetricKind.RESOURCE, target_value=max(1, percent), container=container), query, name
        average = _number(walked(target, "averageValue"), f"{where}.averageValue")
        made = HpaMetric(kind=MetricKind.PODS, target_value=max(1, round(1000 * average)), container=container)
        return made, query, name
    name = str(walked(held, "metric", "name") or "")
    query = read_query(served.get(name, name))
    if kind == "Pods":
        average = _number(walked(target, "averageValue"), f"{where}.averageValue")
        return HpaMetric(kind=MetricKind.PODS, target_value=max(1, round(1000 * average))), _each(query), name
    if kind not in ("External", "Object"):
        raise InputError(
            field=f"{where}.type", value=kind, problem="is no type of metric", fix="Give External, Pods or Resource."
        )
    is_value = walked(target, "averageValue") is None
    field = "value" if is_value else "averageValue"
    value = _number(walked(target, field), f"{where}.target.{field}")
    return HpaMetric(
        kind=MetricKind.VALUE if is_value else MetricKind.AVERAGE, target_value=max(1, round(1000 * value))
    ), query, name  # fmt: skip


def _each(query: MetricQuery | None) -> MetricQuery | None:
    """Of pods one by one: the mean, whatever a name alone would say."""
    if query is None:
        return None
    return MetricQuery(
        signals=query.signals, aggregate=Aggregate.MEAN, window_s=query.window_s, factor_ratio=query.factor_ratio
    )


def _behavior(found: Any, where: str) -> ScalingBehavior | None:
    if not isinstance(found, Mapping):
        return None
    return ScalingBehavior(
        up=_rules(found.get("scaleUp"), UP_RULES, f"{where}.spec.behavior.scaleUp"),
        down=_rules(found.get("scaleDown"), DOWN_RULES, f"{where}.spec.behavior.scaleDown"),
    )


def _rules(found: Any, default: ScalingRules, where: str) -> ScalingRules:
    """What is left out is as the API server fills it in."""
    if not isinstance(found, Mapping):
        return default
    window, tolerance = found.get("stabilizationWindowSeconds"), found.get("tolerance")
    window_s, tolerated = default.window_s, default.tolerance_fraction
    try:
        return ScalingRules(
            window_s=window_s if window is None else float(whole(window, field=where)),
            policies=tuple(_policy(each, where) for each in listed(found.get("policies"))) or default.policies,
            select=SelectPolicy(found.get("selectPolicy") or "Max"),
            tolerance_fraction=tolerated if tolerance is None else _number(tolerance, where),
        )  # fmt: skip
    except ValueError as error:
        raise InputError(
            field=where, value=str(error), problem="is not read", fix="Give Max, Min or Disabled."
        ) from None


def _policy(entry: Any, where: str) -> ScalingPolicy:
    return ScalingPolicy(
        kind=PolicyKind(str(walked(entry, "type"))),
        value=whole(walked(entry, "value"), field=f"{where}.policies.value"),
        period_s=float(whole(walked(entry, "periodSeconds"), field=f"{where}.policies.periodSeconds")),
    )


# ---- KEDA --------------------------------------------------------------------------------------------------


def _keda(found: Object) -> ReadRule:
    where, spec = found.where, found.at("spec") or {}
    queries: dict[str, MetricQuery] = {}
    triggers, unread = [], []
    for place, each in enumerate(listed(walked(spec, "triggers"))):
        made, query, text = _trigger(each, place, where)
        triggers.append(made)
        if query is None:
            unread.append(text)
        queries[made.name] = query or _unknown()

    def count(name: str, default: int) -> int:
        return whole(walked(spec, name), field=f"{where}.spec.{name}", default=default)

    idle = walked(spec, "idleReplicaCount")
    advanced = walked(spec, "advanced") or {}
    rule = KedaSpec(
        triggers=tuple(triggers),
        least_replicas=count("minReplicaCount", 0),
        most_replicas=count("maxReplicaCount", 100),
        idle_replicas=None if idle is None else count("idleReplicaCount", 0),
        polling_s=max(1.0, float(count("pollingInterval", 30))),
        cooldown_s=float(count("cooldownPeriod", 300)),
        initial_cooldown_s=float(count("initialCooldownPeriod", 0)),
        fallback=_fallback(walked(spec, "fallback"), where),
        modifiers=_modifiers(walked(advanced, "scalingModifiers"), where),
        behavior=_behavior(walked(advanced, "horizontalPodAutoscalerConfig", "behavior"), where),
    )
    return ReadRule(
        rule=ScalingRule(name=f"ScaledObject {found.name}", spec=rule, queries=queries, where=where),
        target=str(walked(spec, "scaleTargetRef", "name") or ""),
        target_kind=str(walked(spec, "scaleTargetRef", "kind") or "Deployment"),
        unread=tuple(unread),
    )


def _trigger(entry: Any, place: int, where: str) -> tuple[KedaTrigger, MetricQuery | None, str]:
    kind, metadata = str(walked(entry, "type") or ""), walked(entry, "metadata") or {}
    name = str(walked(entry, "name") or f"s{place}-{kind}")
    text = str(walked(metadata, "query") or walked(metadata, "metricName") or kind)
    field = f"{where}.spec.triggers.{place}.metadata"
    metric_type = str(walked(entry, "metricType") or "AverageValue")
    if kind in ("cpu", "memory"):
        query = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.SUM, window_s=60.0) if kind == "cpu" else None
        value = _number(walked(metadata, "value") or 80, f"{field}.value")
        return KedaTrigger(name=name, threshold_value=value / 100.0), query, text
    threshold = (
        walked(metadata, "threshold") or walked(metadata, "targetValue") or walked(metadata, "desiredReplicas") or 1
    )
    made = KedaTrigger(
        name=name,
        threshold_value=_number(threshold, f"{field}.threshold"),
        activation_value=_number(walked(metadata, "activationThreshold") or 0, f"{field}.activationThreshold"),
        kind=MetricKind.VALUE if metric_type == "Value" else MetricKind.AVERAGE,
    )
    return made, read_query(text), text


def _fallback(found: Any, where: str) -> KedaFallback | None:
    if not isinstance(found, Mapping):
        return None
    known = {each.value: each for each in FallbackBehavior}
    return KedaFallback(
        failures=whole(found.get("failureThreshold"), field=f"{where}.spec.fallback.failureThreshold", default=0),
        replicas=whole(found.get("replicas"), field=f"{where}.spec.fallback.replicas", default=0),
        behavior=known.get(str(found.get("behavior")), FallbackBehavior.STATIC),
    )


def _modifiers(found: Any, where: str) -> ScalingModifiers | None:
    if not isinstance(found, Mapping) or not found.get("formula"):
        return None
    field = f"{where}.spec.advanced.scalingModifiers"
    return ScalingModifiers(
        formula=str(found["formula"]),
        target_value=_number(found.get("target"), f"{field}.target"),
        activation_value=_number(found.get("activationTarget") or 0, f"{field}.activationTarget"),
        kind=MetricKind.VALUE if found.get("metricType") == "Value" else MetricKind.AVERAGE,
    )


# ---- Knative and KServe ------------------------------------------------------------------------------------


def _annotations(found: Object, *path: str) -> dict[str, str]:
    """Those of the object, with those of its template over them."""
    own = found.at("metadata", "annotations") or {}
    inner = found.at(*path, "metadata", "annotations") or {}
    return {str(name): str(value) for each in (own, inner) for name, value in each.items()}


def _knative(found: Object, notes: Mapping[str, str], *, concurrency: Any = None) -> ReadRule:
    where = found.where

    def said(name: str, default: float, *, duration: bool = False) -> float:
        text = notes.get(_PREFIX + name, notes.get(_PREFIX + name.replace("-scale", "Scale")))
        if text is None:
            return default
        return _duration(text, f"{where}: {name}") if duration else _number(text.removesuffix("%"), f"{where}: {name}")

    hard = concurrency if concurrency is not None else found.at("spec", "template", "spec", "containerConcurrency")
    most = whole(hard, field=f"{where}: containerConcurrency", default=0)
    spec = KnativeSpec(
        target_value=said("target", float(most) if most else 100.0),
        utilisation_fraction=said("target-utilization-percentage", 70.0) / 100.0,
        signal="rps" if notes.get(f"{_PREFIX}metric") == "rps" else "concurrency",
        least_replicas=int(said("min-scale", 0)),
        most_replicas=int(said("max-scale", 0)),
        initial_replicas=int(said("initial-scale", 1)),
        activation_replicas=int(said("activation-scale", 1)),
        stable_s=said("window", 60.0, duration=True),
        panic_fraction=said("panic-window-percentage", 10.0) / 100.0,
        panic_ratio=said("panic-threshold-percentage", 200.0) / 100.0,
        down_delay_s=said("scale-down-delay", 0.0, duration=True),
        retention_s=said("scale-to-zero-pod-retention-period", 0.0, duration=True),
    )
    return ReadRule(
        rule=ScalingRule(name=f"Knative {found.name}", spec=spec, where=where),
        target=found.name,
        target_kind=found.kind,
    )


def _kserve(found: Object) -> ReadRule:
    """KServe hands its numbers on: to Knative, or in raw deployments to an HPA, or to KEDA by annotation."""
    notes = _annotations(found, "spec", "predictor")
    predictor = found.at("spec", "predictor") or {}
    where = found.where
    least = whole(walked(predictor, "minReplicas"), field=f"{where}.minReplicas", default=1)
    most = whole(walked(predictor, "maxReplicas"), field=f"{where}.maxReplicas", default=max(1, least))
    metric, target = str(walked(predictor, "scaleMetric") or ""), walked(predictor, "scaleTarget")
    external = walked(predictor, "autoScaling", "metrics", 0, "external")
    if notes.get(f"{_KSERVE}autoscalerClass") == "keda" and external is not None:
        query = str(walked(external, "metric", "query") or "")
        value = _number(walked(external, "target", "value") or walked(external, "target", "averageValue"), where)
        trigger = KedaTrigger(name="external", threshold_value=value)
        known = read_query(query)
        rule = KedaSpec(triggers=(trigger,), least_replicas=least, most_replicas=most,
                        behavior=_behavior(walked(predictor, "autoScaling", "behavior"), where))  # fmt: skip
        return ReadRule(
            rule=ScalingRule(
                name=f"KServe {found.name}", spec=rule, queries={"external": known or _unknown()}, where=where
            ),
            target=found.name, target_kind=found.kind, unread=() if known else (query,),
        )  # fmt: skip
    if metric in ("cpu", "") and notes.get(f"{_KSERVE}deploymentMode") in ("RawDeployment", "Standard"):
        percent = whole(target, field=f"{where}.scaleTarget", default=80)
        hpa = HpaSpec(
            metrics=(HpaMetric(kind=MetricKind.RESOURCE, target_value=percent, signal="cpu"),),
            least_replicas=least,
            most_replicas=max(1, most),
        )
        busy = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0)
        return ReadRule(
            rule=ScalingRule(name=f"KServe {found.name}", spec=hpa, queries={"cpu": busy}, where=where),
            target=found.name, target_kind=found.kind,
        )  # fmt: skip
    given = {**notes, f"{_PREFIX}min-scale": str(least), f"{_PREFIX}max-scale": str(most if most > least else 0)}
    if target is not None:
        given[f"{_PREFIX}target"] = str(target)
    if metric == "rps":
        given[f"{_PREFIX}metric"] = "rps"
    return _knative(found, given, concurrency=walked(predictor, "containerConcurrency"))
