"""The rule of an autoscaler as written (HPA, KEDA, Knative, KServe, llm-d, Dynamo), made into one that can be played.

What a rule reads is known by the names that engines and gateways export; a metric with another name is kept by its own
name, and the rule says so in `unread`: it can be looked at, and not played.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.errors import InputError
from ullage.readers.kubernetes.cron import cron_hours, highest_hours
from ullage.readers.kubernetes.documents import DYNAMO_PLANNER, Object, listed, walked, whole
from ullage.readers.kubernetes.planner_rules import (
    SaturationSettings,
    dynamo_config,
    dynamo_spec,
    is_desired,
    saturation_settings,
    variant_spec,
)
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
from ullage.scaling.knative import KnativeSpec
from ullage.scaling.planners.variant import DESIRED, VariantSpec, follower
from ullage.scaling.published_rules import CLOCK
from ullage.scaling.rules import ScalingRule
from ullage.scaling.signals import Aggregate, MetricQuery, Signal, read_query

_PREFIX = "autoscaling.knative.dev/"
_KSERVE = "serving.kserve.io/"
# Where nobody bounds it, the pool does.
_NO_MOST = 20_000


@dataclass(frozen=True, kw_only=True)
class ReadRule:
    """A rule, what it scales, and metrics whose names are not known here."""

    rule: ScalingRule
    target: str
    unread: tuple[str, ...] = ()


def scaling_rules(objects: list[Object], queries: Mapping[str, str] | None = None) -> tuple[ReadRule, ...]:
    """Every rule among the objects; `queries` are what an adapter serves, by name."""
    found: list[ReadRule] = []
    saturation, models = saturation_settings(objects), _models(objects)
    for each in objects:
        if each.kind == "HorizontalPodAutoscaler":
            found.append(_following(_hpa(each, queries or {}), saturation, models))
        elif each.kind == "ScaledObject":
            found.append(_following(_keda(each), saturation, models))
        elif each.kind in ("DynamoGraphDeployment", DYNAMO_PLANNER):
            found += _dynamo(each)
        elif each.kind == "Service" and str(each.body.get("apiVersion", "")).startswith("serving.knative.dev"):
            found.append(_knative(each, _annotations(each, "spec", "template")))
        elif each.kind == "InferenceService":
            found.append(_kserve(each))
    return (*found, *_variants(objects, found, saturation))


def _unknown() -> MetricQuery:
    """A metric of another name: taken to be a total of requests, which is what such metrics mostly are."""
    return MetricQuery(signals=(Signal.OUTSTANDING,), aggregate=Aggregate.SUM, from_pods=False)


# ---- HPA ---------------------------------------------------------------------------------------------------


def _hpa(found: Object, served: Mapping[str, str]) -> ReadRule:
    where, queries, unread = found.where, {}, []
    metrics = []
    section(found.at("spec"), f"{where}.spec")
    for place, each in enumerate(listed(found.at("spec", "metrics"))):
        made, query, name = _hpa_metric(each, f"{where}.spec.metrics.{place}", served)
        if query is None:
            unread.append(name)
        metrics.append(HpaMetric(kind=made.kind, target_value=made.target_value, signal=name, container=made.container))
        queries[name] = query or _unknown()
    cpu = found.at("spec", "targetCPUUtilizationPercentage")
    if not metrics:
        percent = target(80 if cpu is None else cpu, f"{where}.spec.targetCPUUtilizationPercentage")
        metrics.append(HpaMetric(kind=MetricKind.RESOURCE, target_value=max(1, round(percent)), signal="cpu"))
        queries["cpu"] = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0)
    spec = HpaSpec(
        metrics=tuple(metrics),
        least_replicas=whole(found.at("spec", "minReplicas"), field=f"{where}.spec.minReplicas", default=1),
        most_replicas=whole(found.at("spec", "maxReplicas"), field=f"{where}.spec.maxReplicas"),
        behavior=_behavior(found.at("spec", "behavior"), f"{where}.spec.behavior"),
    )
    check_bounds(spec.least_replicas, spec.most_replicas, f"{where}.spec.maxReplicas")
    return ReadRule(
        rule=ScalingRule(name=f"HPA {found.name}", spec=spec, queries=queries, where=where),
        target=str(found.at("spec", "scaleTargetRef", "name") or ""),
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


def _behavior(found: Any, where: str) -> ScalingBehavior | None:
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


# ---- autoscalers that plan ---------------------------------------------------------------------------------


def _models(objects: Sequence[Object]) -> dict[str, str]:
    """Models of the variant autoscaler's objects, by what they scale."""
    return {
        str(each.at("spec", "scaleTargetRef", "name") or ""): str(each.at("spec", "modelID") or "")
        for each in objects
        if each.kind == "VariantAutoscaling"
    }


def _following(read: ReadRule, saturation: SaturationSettings, models: Mapping[str, str]) -> ReadRule:
    """An HPA or ScaledObject that follows the variant autoscaler is that autoscaler's rule."""
    spec = read.rule.spec
    if len(read.unread) != 1 or not is_desired(read.unread[0]):
        return read
    if isinstance(spec, HpaSpec) and len(spec.metrics) == 1:
        follower: HpaSpec | KedaSpec = replace(spec, metrics=(replace(spec.metrics[0], signal=DESIRED),))
    elif isinstance(spec, KedaSpec) and len(spec.triggers) == 1:
        follower = replace(spec, triggers=(replace(spec.triggers[0], name=DESIRED),))
    else:
        return read
    made = variant_spec(saturation, follower, models.get(read.target, ""))
    return replace(
        read, rule=ScalingRule(name=f"llm-d behind {read.rule.name}", spec=made, where=read.rule.where), unread=()
    )


def _variants(objects: Sequence[Object], found: Sequence[ReadRule], saturation: SaturationSettings) -> list[ReadRule]:
    """VariantAutoscalings whose autoscaler is not among the files: followed by that of their documentation."""
    known = {each.target for each in found if isinstance(each.rule.spec, VariantSpec)}
    rules = []
    for each in objects:
        target_name = str(each.at("spec", "scaleTargetRef", "name") or each.name)
        if each.kind != "VariantAutoscaling" or target_name in known:
            continue
        if each.at("spec", "modelProfile") is not None:
            raise InputError(
                field=f"{each.where}.spec.modelProfile",
                value="given",
                problem="belongs to the optimiser of versions before 0.3, which is not simulated",
                fix="Give the objects of version 0.5, or the HorizontalPodAutoscaler that is to run.",
            )
        made = variant_spec(saturation, follower(least=1, most=_NO_MOST), str(each.at("spec", "modelID") or ""))
        rule = ScalingRule(name=f"llm-d {each.name}", spec=made, where=each.where)
        rules.append(ReadRule(rule=rule, target=target_name))
    return rules


def _dynamo(found: Object) -> list[ReadRule]:
    given = found.body if found.kind == DYNAMO_PLANNER else dynamo_config(found)
    if given is None:
        return []
    spec, instead = dynamo_spec(given, found.where)
    name = f"Dynamo {found.name}" + (f" ({instead})" if instead else "")
    rule = ScalingRule(name=name, spec=spec, where=found.where)
    return [ReadRule(rule=rule, target=found.name)]


# ---- KEDA --------------------------------------------------------------------------------------------------


def _keda(found: Object) -> ReadRule:
    where, spec = found.where, section(found.at("spec"), f"{found.where}.spec")
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
        queries[made.name] = query or _unknown()

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
        behavior=_behavior(
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


# ---- Knative and KServe ------------------------------------------------------------------------------------


def _annotations(found: Object, *path: str) -> dict[str, str]:
    """Those of the object, with those of its template over them."""
    own = section(found.at("metadata", "annotations"), f"{found.where}.metadata.annotations")
    inner = section(found.at(*path, "metadata", "annotations"), f"{found.where}.{'.'.join(path)}.metadata.annotations")
    return {str(name): str(value) for each in (own, inner) for name, value in each.items()}


def _knative(found: Object, notes: Mapping[str, str], *, concurrency: Any = None) -> ReadRule:
    where = found.where

    def said(name: str, default: float, *, lasts: bool = False) -> float:
        text = notes.get(_PREFIX + name, notes.get(_PREFIX + name.replace("-scale", "Scale")))
        if text is None:
            return default
        field = f"{where}: {_PREFIX}{name}"
        return duration(text, field) if lasts else quantity(text.removesuffix("%"), field)

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
    )


def _kserve(found: Object) -> ReadRule:
    """KServe hands its numbers on: to Knative, or in raw deployments to an HPA, or to KEDA by annotation."""
    notes = _annotations(found, "spec", "predictor")
    where = found.where
    predictor = section(found.at("spec", "predictor"), f"{where}.spec.predictor")
    least = whole(walked(predictor, "minReplicas"), field=f"{where}.spec.predictor.minReplicas", default=1)
    most = whole(walked(predictor, "maxReplicas"), field=f"{where}.spec.predictor.maxReplicas", default=max(1, least))
    check_bounds(least, most or max(1, least), f"{where}.spec.predictor.maxReplicas")
    metric, aim = str(walked(predictor, "scaleMetric") or ""), walked(predictor, "scaleTarget")
    external = walked(predictor, "autoScaling", "metrics", 0, "external")
    if notes.get(f"{_KSERVE}autoscalerClass") == "keda" and external is not None:
        query = str(walked(external, "metric", "query") or "")
        wanted = walked(external, "target", "value") or walked(external, "target", "averageValue")
        value = target(wanted, f"{where}.spec.predictor.autoScaling.metrics.0.external.target")
        trigger = KedaTrigger(name="external", threshold_value=value)
        known = read_query(query)
        rule = KedaSpec(triggers=(trigger,), least_replicas=least, most_replicas=most,
                        behavior=_behavior(walked(predictor, "autoScaling", "behavior"),
                                           f"{where}.spec.predictor.autoScaling.behavior"))  # fmt: skip
        return ReadRule(
            rule=ScalingRule(
                name=f"KServe {found.name}", spec=rule, queries={"external": known or _unknown()}, where=where
            ),
            target=found.name, unread=() if known else (query,),
        )  # fmt: skip
    if metric in ("cpu", "") and notes.get(f"{_KSERVE}deploymentMode") in ("RawDeployment", "Standard"):
        percent = max(1, whole(aim, field=f"{where}.spec.predictor.scaleTarget", default=80))
        hpa = HpaSpec(
            metrics=(HpaMetric(kind=MetricKind.RESOURCE, target_value=percent, signal="cpu"),),
            least_replicas=least,
            most_replicas=max(1, most),
        )
        busy = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0)
        return ReadRule(
            rule=ScalingRule(name=f"KServe {found.name}", spec=hpa, queries={"cpu": busy}, where=where),
            target=found.name,
        )  # fmt: skip
    given = {**notes, f"{_PREFIX}min-scale": str(least), f"{_PREFIX}max-scale": str(most if most > least else 0)}
    if aim is not None:
        given[f"{_PREFIX}target"] = str(aim)
    if metric == "rps":
        given[f"{_PREFIX}metric"] = "rps"
    return _knative(found, given, concurrency=walked(predictor, "containerConcurrency"))
