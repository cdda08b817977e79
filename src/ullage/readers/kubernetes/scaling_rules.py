"""Rules among the objects of a cluster (HPA, KEDA, Knative, KServe, llm-d, Dynamo), made into ones that can be played.

What a rule reads is known by the names that engines and gateways export; a metric with another name is kept by its own
name, and the rule says so in `unread`: it can be looked at, and not played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ullage.errors import InputError
from ullage.readers.kubernetes.autoscaler_rules import ReadRule, hpa_rule, keda_rule, scaling_behavior
from ullage.readers.kubernetes.documents import DYNAMO_PLANNER, Object, walked, whole
from ullage.readers.kubernetes.planner_rules import (
    SaturationSettings,
    dynamo_config,
    dynamo_spec,
    is_desired,
    saturation_settings,
    variant_spec,
)
from ullage.readers.kubernetes.rule_values import check_bounds, section
from ullage.readers.kubernetes.serving_rules import knative_rule, kserve_rule, template_annotations
from ullage.scaling.hpa import HpaSpec
from ullage.scaling.keda import KedaSpec
from ullage.scaling.planners.variant import DESIRED, VariantSpec, follower
from ullage.scaling.rules import ScalingRule

# Where nobody bounds it, the pool does.
_NO_MOST = 20_000


def scaling_rules(objects: list[Object], queries: Mapping[str, str] | None = None) -> tuple[ReadRule, ...]:
    """Every rule among the objects; `queries` are what an adapter serves, by name."""
    found: list[ReadRule] = []
    saturation, models = saturation_settings(objects), _models(objects)
    for each in objects:
        if each.kind == "HorizontalPodAutoscaler":
            found.append(_following(hpa_rule(each, queries), saturation, models))
        elif each.kind == "ScaledObject":
            found.append(_following(keda_rule(each), saturation, models))
        elif each.kind in ("DynamoGraphDeployment", DYNAMO_PLANNER):
            found += _dynamo(each)
        elif each.is_knative_service:
            found.append(knative_rule(each, template_annotations(each, "spec", "template")))
        elif each.kind == "InferenceService":
            read = kserve_rule(each)
            found += [] if read is None else [read]
        elif each.kind == "LLMInferenceService":
            found += _llm_service(each, saturation)
    return (*found, *_variants(objects, found, saturation))


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
        kind = str(each.at("spec", "scaleTargetRef", "kind") or "Deployment")
        rules.append(ReadRule(rule=rule, target=target_name, target_kind=kind))
    return rules


def _llm_service(found: Object, saturation: SaturationSettings) -> list[ReadRule]:
    """KServe's own kind for language models: the variant autoscaler, followed within the bounds it states."""
    given = section(found.at("spec", "scaling"), f"{found.where}.spec.scaling")
    if walked(given, "wva") is None:
        return []
    where = f"{found.where}.spec.scaling"
    least = whole(given.get("minReplicas"), field=f"{where}.minReplicas", default=1)
    most = whole(given.get("maxReplicas"), field=f"{where}.maxReplicas", default=_NO_MOST)
    check_bounds(least, most, f"{where}.maxReplicas")
    pace = scaling_behavior(walked(given, "wva", "hpa", "behavior"), f"{where}.wva.hpa.behavior")
    followed = replace(follower(least=least, most=most), behavior=pace)
    made = variant_spec(saturation, followed, str(found.at("spec", "model", "name") or ""))
    rule = ScalingRule(name=f"KServe {found.name}", spec=made, where=found.where)
    return [ReadRule(rule=rule, target=found.name, target_kind=found.kind)]


def _dynamo(found: Object) -> list[ReadRule]:
    given = found.body if found.kind == DYNAMO_PLANNER else dynamo_config(found)
    if given is None:
        return []
    spec, instead = dynamo_spec(given, found.where)
    name = f"Dynamo {found.name}" + (f" ({instead})" if instead else "")
    rule = ScalingRule(name=name, spec=spec, where=found.where)
    return [ReadRule(rule=rule, target=found.name, target_kind=found.kind)]
