"""HorizontalPodAutoscalers and KEDA's ScaledObjects as written, made into rules that can be played."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError
from ullage.readers.kubernetes.cron import cron_hours, highest_hours
from ullage.readers.kubernetes.documents import Object, listed, walked, whole
from ullage.readers.kubernetes.rule_values import check_bounds, duration, quantity, section, target
from ullage.scaling.formula import evaluate
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
from ullage.scaling.published_rules import CLOCK
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.signals import Aggregate, MetricQuery, Signal, read_query

_PAUSED = "autoscaling.keda.sh/paused"


@dataclass(frozen=True, kw_only=True)
class ReadRule:
    """A rule, what it scales, and metrics whose names are not known here."""

    rule: ScalingRule
    target: str
    target_kind: str
    unread: tuple[str, ...] = ()


def unknown_query() -> MetricQuery:
    """A metric of another name: taken to be a total of requests, which is what such metrics mostly are."""
    return MetricQuery(signals=(Signal.OUTSTANDING,), aggregate=Aggregate.SUM, from_pods=False)


# ---- HPA ---------------------------------------------------------------------------------------------------


def hpa_rule(found: Object, served: Mapping[str, str] | None = None) -> ReadRule:
    """`served` are the queries of an adapter, by the names that it serves them under."""
    where, queries, unread = found.where, {}, []
    metrics = []
    section(found.at("spec"), f"{where}.spec")
    for place, each in enumerate(listed(found.at("spec", "metrics"))):
        made, query, name = _hpa_metric(each, f"{where}.spec.metrics.{place}", served or {})
        if query is None:
            unread.append(name)
        metrics.append(HpaMetric(kind=made.kind, target_value=made.target_value, signal=name, container=made.container))
        queries[name] = query or unknown_query()
    cpu = found.at("spec", "targetCPUUtilizationPercentage")
    if not metrics:
        percent = target(80 if cpu is None else cpu, f"{where}.spec.targetCPUUtilizationPercentage")
        metrics.append(HpaMetric(kind=MetricKind.RESOURCE, target_value=max(1, round(percent)), signal="cpu"))
        queries["cpu"] = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0)
    spec = HpaSpec(
        metrics=tuple(metrics),
        least_replicas=whole(found.at("spec", "minReplicas"), field=f"{where}.spec.minReplicas", default=1),
        most_replicas=whole(found.at("spec", "maxReplicas"), field=f"{where}.spec.maxReplicas"),
        behavior=scaling_behavior(found.at("spec", "behavior"), f"{where}.spec.behavior"),
    )
    check_bounds(spec.least_replicas, spec.most_replicas, f"{where}.spec.maxReplicas")
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
    aim = walked(held, "target") or {}
    if kind in ("Resource", "ContainerResource"):
        name = str(walked(held, "name") or "cpu")
        query = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0) if name == "cpu" else None
        container = str(walked(held, "container") or "")
        if walked(aim, "averageUtilization") is not None:
            percent = target(walked(aim, "averageUtilization"), f"{where}.{place}.target.averageUtilization")
            made = HpaMetric(kind=MetricKind.RESOURCE, target_value=max(1, round(percent)), container=container)
            return made, query, name
        average = target(walked(aim, "averageValue"), f"{where}.{place}.target.averageValue")
        made = HpaMetric(kind=MetricKind.PODS, target_value=max(1, round(1000 * average)), container=container)
        return made, query, name
    name = str(walked(held, "metric", "name") or "")
    query = read_query(served.get(name, name))
    if kind == "Pods":
        average = target(walked(aim, "averageValue"), f"{where}.{place}.target.averageValue")
        return HpaMetric(kind=MetricKind.PODS, target_value=max(1, round(1000 * average))), _each(query), name
    if kind not in ("External", "Object"):
        raise InputError(
            field=f"{where}.type", value=kind, problem="is not a metric type", fix="Give External, Pods or Resource."
        )
    is_value = walked(aim, "averageValue") is None
    field = "value" if is_value else "averageValue"
    value = target(walked(aim, field), f"{where}.{place}.target.{field}")
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


def scaling_behavior(found: Any, where: str) -> ScalingBehavior | None:
    if found is None:
        return None
    given = section(found, where)
    return ScalingBehavior(
        up=_rules(given.get("scaleUp"), UP_RULES, f"{where}.scaleUp"),
        down=_rules(given.get("scaleDown"), DOWN_RULES, f"{where}.scaleDown"),
    )


def _rules(found: Any, default: ScalingRules, where: str) -> ScalingRules:
    """What is left out is as the API server fills it in."""
    given = section(found, where)
    window, tolerance, policies = (given.get(key) for key in ("stabilizationWindowSeconds", "tolerance", "policies"))
    if policies is not None and not listed(policies):
        raise InputError(
            field=f"{where}.policies", value=policies, problem="has no policy", fix="Give one, or leave the key out."
        )
    return ScalingRules(
        window_s=default.window_s
        if window is None
        else float(whole(window, field=f"{where}.stabilizationWindowSeconds")),
        policies=tuple(_policy(each, f"{where}.policies.{place}") for place, each in enumerate(listed(policies)))
        or default.policies,
        select=SelectPolicy(_one_of(SelectPolicy, given.get("selectPolicy") or "Max", f"{where}.selectPolicy")),
        tolerance_fraction=default.tolerance_fraction
        if tolerance is None
        else quantity(tolerance, f"{where}.tolerance"),
    )


def _policy(entry: Any, where: str) -> ScalingPolicy:
    value, period = walked(entry, "value"), walked(entry, "periodSeconds")
    return ScalingPolicy(
        kind=PolicyKind(_one_of(PolicyKind, walked(entry, "type"), f"{where}.type")),
        value=round(target(whole(value, field=f"{where}.value"), f"{where}.value")),
        period_s=duration(period, f"{where}.periodSeconds", least_s=1.0),
    )


def _one_of(kinds: type[enum.Enum], value: Any, field: str) -> str:
    names = [str(each.value) for each in kinds]
    if value not in names:
        known = f"{', '.join(names[:-1])} or {names[-1]}"
        raise InputError(field=field, value=value, problem=f"is not {known}", fix=f"Give {names[0]}.")
    return str(value)


# ---- KEDA --------------------------------------------------------------------------------------------------


def paused_replicas(found: Object) -> int | None:
    """What a paused ScaledObject holds; one that is paused at whatever runs is no rule, and refused."""
    notes = section(found.at("metadata", "annotations"), f"{found.where}.metadata.annotations")
    at = notes.get(f"{_PAUSED}-replicas")
    if at is not None:
        return whole(at, field=f"{found.where}.metadata.annotations: {_PAUSED}-replicas")
    if str(notes.get(_PAUSED)).lower() == "true":
        problem, fix = "pauses it: nothing scales its target", "Remove the annotation, or leave the object out."
        raise InputError(field=f"{found.where}.metadata.annotations", value=_PAUSED, problem=problem, fix=fix)
    return None


def _paused(found: Object, replicas: int) -> ReadRule:
    spec = ScheduleSpec(times_s=(0.0,), replicas=(replicas,))
    return ReadRule(
        rule=ScalingRule(name=f"ScaledObject {found.name}, paused at {replicas}", spec=spec, where=found.where),
        target=str(found.at("spec", "scaleTargetRef", "name") or ""),
        target_kind=str(found.at("spec", "scaleTargetRef", "kind") or "Deployment"),
    )


def keda_rule(found: Object) -> ReadRule:
    where, spec = found.where, section(found.at("spec"), f"{found.where}.spec")
    paused = paused_replicas(found)
    if paused is not None:
        return _paused(found, paused)
    queries: dict[str, MetricQuery] = {}
    triggers, unread, clocks = [], [], []
    if not listed(walked(spec, "triggers")):
        problem, fix = "has no trigger: nothing decides its number of replicas", "Give triggers with their queries."
        raise InputError(field=f"{where}.spec.triggers", value=spec.get("triggers"), problem=problem, fix=fix)
    # A formula names its triggers one by one.
    formula = walked(spec, "advanced", "scalingModifiers", "formula")
    for place, each in enumerate(listed(walked(spec, "triggers"))):
        hours = None if formula else _clock(each, f"{where}.spec.triggers.{place}")
        if hours is not None:
            clocks.append(hours)
            continue
        made, query, text = _trigger(each, place, where)
        if made.name in queries:
            problem = "names two triggers"
            raise InputError(
                field=f"{where}.spec.triggers.{place}.name", value=made.name, problem=problem, fix="Give each its own."
            )
        triggers.append(made)
        if query is None:
            unread.append(text)
        queries[made.name] = query or unknown_query()

    def count(name: str, default: int) -> int:
        return whole(walked(spec, name), field=f"{where}.spec.{name}", default=default)

    idle = walked(spec, "idleReplicaCount")
    advanced = walked(spec, "advanced") or {}
    rule = KedaSpec(
        triggers=(*triggers, *([CLOCK] if clocks else [])),
        least_replicas=count("minReplicaCount", 0),
        most_replicas=count("maxReplicaCount", 100),
        idle_replicas=None if idle is None else count("idleReplicaCount", 0),
        polling_s=max(1.0, float(count("pollingInterval", 30))),
        cooldown_s=float(count("cooldownPeriod", 300)),
        initial_cooldown_s=float(count("initialCooldownPeriod", 0)),
        fallback=_fallback(walked(spec, "fallback"), where),
        modifiers=_modifiers(walked(advanced, "scalingModifiers"), tuple(queries), where),
        behavior=scaling_behavior(
            walked(advanced, "horizontalPodAutoscalerConfig", "behavior"),
            f"{where}.spec.advanced.horizontalPodAutoscalerConfig.behavior",
        ),
    )
    check_bounds(rule.least_replicas, rule.most_replicas, f"{where}.spec.maxReplicaCount")
    return ReadRule(
        rule=ScalingRule(
            name=f"ScaledObject {found.name}", spec=rule, queries=queries, schedule=highest_hours(clocks), where=where
        ),
        target=str(walked(spec, "scaleTargetRef", "name") or ""),
        target_kind=str(walked(spec, "scaleTargetRef", "kind") or "Deployment"),
        unread=tuple(unread),
    )


def _clock(entry: Any, where: str) -> tuple[int, ...] | None:
    """Replicas by hour of week of a cron trigger; None of any other, and of one that no week shows."""
    if str(section(entry, where).get("type") or "") != "cron":
        return None
    return cron_hours(section(walked(entry, "metadata"), f"{where}.metadata"), f"{where}.metadata")


def _trigger(entry: Any, place: int, where: str) -> tuple[KedaTrigger, MetricQuery | None, str]:
    given = f"{where}.spec.triggers.{place}"
    kind = str(section(entry, given).get("type") or "")
    metadata = section(walked(entry, "metadata"), f"{given}.metadata")
    name = str(walked(entry, "name") or f"s{place}-{kind}")
    text = str(walked(metadata, "query") or walked(metadata, "metricName") or kind)
    field = f"{given}.metadata"
    metric_type = str(walked(entry, "metricType") or "AverageValue")
    if kind in ("cpu", "memory"):
        query = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.SUM, window_s=60.0) if kind == "cpu" else None
        value = target(metadata.get("value", 80), f"{field}.value")
        return KedaTrigger(name=name, threshold_value=value / 100.0), query, text
    key = next((each for each in ("threshold", "targetValue", "desiredReplicas") if each in metadata), "threshold")
    made = KedaTrigger(
        name=name,
        threshold_value=target(metadata.get(key, 1), f"{field}.{key}"),
        activation_value=quantity(metadata.get("activationThreshold", 0), f"{field}.activationThreshold"),
        kind=MetricKind.VALUE if metric_type == "Value" else MetricKind.AVERAGE,
    )
    return made, read_query(text), text


def _fallback(found: Any, where: str) -> KedaFallback | None:
    if found is None:
        return None
    field = f"{where}.spec.fallback"
    given = section(found, field)
    return KedaFallback(
        failures=whole(given.get("failureThreshold"), field=f"{field}.failureThreshold", default=0),
        replicas=whole(given.get("replicas"), field=f"{field}.replicas", default=0),
        behavior=FallbackBehavior(_one_of(FallbackBehavior, given.get("behavior") or "static", f"{field}.behavior")),
    )


def _modifiers(found: Any, triggers: Sequence[str], where: str) -> ScalingModifiers | None:
    if not isinstance(found, Mapping) or not found.get("formula"):
        return None
    field = f"{where}.spec.advanced.scalingModifiers"
    try:
        # What it is worth now does not matter; that it can be read and names its own triggers does.
        evaluate(str(found["formula"]), dict.fromkeys(triggers, 1.0))
    except InputError as error:
        raise InputError(field=f"{field}.formula", value=error.value, problem=error.problem, fix=error.fix) from None
    return ScalingModifiers(
        formula=str(found["formula"]),
        target_value=target(found.get("target"), f"{field}.target"),
        activation_value=quantity(found.get("activationTarget", 0), f"{field}.activationTarget"),
        kind=MetricKind.VALUE if found.get("metricType") == "Value" else MetricKind.AVERAGE,
    )
