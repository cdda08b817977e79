"""Rules of autoscalers that plan, as they are configured: llm-d's variant autoscaler and Dynamo's planner.

The variant autoscaler's thresholds stand in a ConfigMap (`wva-saturation-scaling-config`, or `capacity-scaling-config`
before), its interval in another; an HPA or a ScaledObject follows what it says. Dynamo's planner has one configuration,
by itself or in the arguments of a DynamoGraphDeployment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ullage.documents import yaml_values
from ullage.errors import InputError
from ullage.readers.kubernetes.documents import Object, whole
from ullage.readers.kubernetes.rule_values import duration, section
from ullage.scaling.hpa import HpaSpec
from ullage.scaling.keda import KedaSpec
from ullage.scaling.planners.dynamo import DynamoSpec, DynamoTarget
from ullage.scaling.planners.variant import INTERVAL_S, VariantSpec

# The metric that it says replicas with, and had before it was renamed.
_DESIRED = ("wva_desired_replicas", "inferno_desired_replicas")
_SATURATION = ("wva-saturation-scaling-config", "capacity-scaling-config")
_FIX = "Give the file as kubectl get -o yaml prints it."
_PREDICTORS = ("constant", "kalman", "arima", "prophet")


@dataclass(frozen=True, kw_only=True)
class SaturationSettings:
    """Entries of the ConfigMap, by name, and how often the controller decides."""

    entries: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    interval_s: float = INTERVAL_S

    def of_model(self, model: str) -> tuple[str, Mapping[str, Any]]:
        """Where its thresholds stand, and what they are: those of the model over the default's."""
        where = ""
        found: dict[str, Any] = {}
        for name, entry in self.entries:
            if name.endswith(".default") or (model and entry.get("model_id") == model):
                where, found = name, {**found, **entry}
        return where, found


def saturation_settings(objects: Sequence[Object]) -> SaturationSettings:
    """From the ConfigMaps among the objects; the default's entry comes before the models'."""
    entries, interval_s = [], INTERVAL_S
    for each in objects:
        if each.kind != "ConfigMap":
            continue
        data = section(each.at("data"), f"{each.where}.data")
        if "GLOBAL_OPT_INTERVAL" in data:
            interval_s = duration(data["GLOBAL_OPT_INTERVAL"], f"{each.where}.data.GLOBAL_OPT_INTERVAL", least_s=1.0)
        if not each.name.endswith(_SATURATION):
            continue
        for name, text in data.items():
            field = f"{each.where}.data.{name}"
            entries += [(field, section(entry, field)) for entry in yaml_values(str(text), file=field, fix=_FIX)]
    return SaturationSettings(
        entries=tuple(sorted(entries, key=lambda pair: not pair[0].endswith(".default"))), interval_s=interval_s
    )


def is_desired(text: str) -> bool:
    """Whether a metric or a query is what the variant autoscaler says."""
    return any(each in text.replace(":", "_") for each in _DESIRED)


def variant_spec(settings: SaturationSettings, follower: HpaSpec | KedaSpec, model: str) -> VariantSpec:
    """The thresholds of this model, and the autoscaler that follows."""
    where, given = settings.of_model(model)

    def said(name: str, default: float, most: float) -> float:
        value = given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= most:
            high = "" if math.isinf(most) else f" to {most:g}"
            raise InputError(
                field=f"{where}.{name}", value=value, problem=f"is not a number from 0{high}", fix=f"Give {default:g}."
            )
        return float(value)

    spec = VariantSpec(
        follower=follower,
        kv_threshold_fraction=said("kvCacheThreshold", 0.80, 1.0),
        queue_threshold_requests=said("queueLengthThreshold", 5.0, math.inf),
        kv_spare_fraction=said("kvSpareTrigger", 0.10, 1.0),
        queue_spare_requests=said("queueSpareTrigger", 3.0, math.inf),
        by_tokens=given.get("analyzerName") == "saturation",
        up_fraction=said("scaleUpThreshold", 0.85, 1.0) or 0.85,
        down_fraction=said("scaleDownBoundary", 0.70, 1.0) or 0.70,
        interval_s=settings.interval_s,
    )
    for name, low, high in (
        ("kvCacheThreshold", spec.kv_spare_fraction, spec.kv_threshold_fraction),
        ("scaleUpThreshold", math.nextafter(spec.down_fraction, 1.0), spec.up_fraction),
    ):
        if high < low and (name == "kvCacheThreshold" or spec.by_tokens):
            raise InputError(
                field=f"{where}.{name}", value=high, problem=f"is below {low:g}, which it must not be", fix="Raise it."
            )
    return spec


# ---- Dynamo ------------------------------------------------------------------------------------------------


def dynamo_config(found: Object) -> Mapping[str, Any] | None:
    """The planner's configuration in a DynamoGraphDeployment; None where it has no planner."""
    for words in _lists(found.body):
        for flag, value in pairwise(words):
            if flag == "--config" and isinstance(value, str) and value.strip().startswith("{"):
                field = f"{found.where}.spec: --config"
                return section(next(iter(yaml_values(value, file=field, fix=_FIX)), None), field)
    return None


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _lists(each)
    elif isinstance(value, list):
        yield value
        for each in value:
            yield from _lists(each)


def dynamo_spec(given: Mapping[str, Any], where: str) -> tuple[DynamoSpec, str]:
    """The rule, and what is played in place of a part that is not reproduced, in a phrase."""
    target = _one_of(given, "optimization_target", tuple(each.value for each in DynamoTarget), "throughput", where)
    mode = _one_of(given, "mode", ("agg", "disagg", "prefill", "decode"), "disagg", where)
    is_sla = target == DynamoTarget.SLA.value
    if mode != "agg":
        raise InputError(
            field=f"{where}.mode", value=mode, problem="scales prefill and decode separately, which is not simulated",
            fix="Give the planner of a deployment with mode: agg.",
        )  # fmt: skip
    if is_sla and given.get("enable_load_scaling"):
        raise InputError(
            field=f"{where}.enable_load_scaling", value=True,
            problem="scales by a regression that the planner learns from its engines' steps, which is not simulated",
            fix="Set it to false, or take another optimization_target.",
        )  # fmt: skip
    rates = (_percent(given, f"decode_scale_{way}_kv_rate", where) for way in ("up", "down"))
    up, down = rates if target == DynamoTarget.LOAD.value else (None, None)
    if up is not None and down is not None and up <= down:
        raise InputError(
            field=f"{where}.decode_scale_up_kv_rate", value=100 * up, problem="is not above decode_scale_down_kv_rate",
            fix="Raise it.",
        )  # fmt: skip
    predictor = _one_of(given, "load_predictor", _PREDICTORS, "arima", where)
    instead = f"{predictor} as constant" if is_sla and predictor in ("arima", "prophet") else ""
    spec = DynamoSpec(
        target=DynamoTarget(target),
        up_fraction=up,
        down_fraction=down,
        load_s=_seconds(given, "load_adjustment_interval", 5.0, where),
        traffic_s=_seconds(given, "throughput_adjustment_interval", 180.0, where),
        max_devices=_budget(given, "max_gpu_budget", 8, where),
        min_devices=_budget(given, "min_gpu_budget", -1, where),
        engine_devices=max(
            1, whole(given.get("decode_engine_num_gpu"), field=f"{where}.decode_engine_num_gpu", default=1)
        ),
        least_endpoints=whole(given.get("min_endpoint"), field=f"{where}.min_endpoint", default=1),
        is_kalman=predictor == "kalman",
        level_noise_value=_number(given, "kalman_q_level", 1.0, where),
        trend_noise_value=_number(given, "kalman_q_trend", 0.1, where),
        reading_noise_value=_number(given, "kalman_r", 10.0, where),
        min_points=whole(given.get("kalman_min_points"), field=f"{where}.kalman_min_points", default=5),
    )
    return spec, instead


def _one_of(given: Mapping[str, Any], name: str, allowed: Sequence[str], default: str, where: str) -> str:
    value = given.get(name, default)
    if value not in allowed:
        raise InputError(
            field=f"{where}.{name}", value=value, problem=f"is not one of {', '.join(allowed)}", fix=f"Give {default}."
        )
    return str(value)


def _number(given: Mapping[str, Any], name: str, default: float, where: str) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise InputError(
            field=f"{where}.{name}", value=value, problem="is not a number from 0", fix=f"Give {default:g}."
        )
    return float(value)


def _seconds(given: Mapping[str, Any], name: str, default: float, where: str) -> float:
    """Under its name with the unit, or the one it had before."""
    key = f"{name}_seconds" if f"{name}_seconds" in given else name
    found = _number(given, key, default, where)
    if found < 1.0:
        raise InputError(field=f"{where}.{key}", value=found, problem="is below a second", fix=f"Give {default:g}.")
    return found


def _percent(given: Mapping[str, Any], name: str, where: str) -> float | None:
    if given.get("optimization_target") != DynamoTarget.LOAD.value:
        return None
    if name not in given:
        raise InputError(
            field=f"{where}.{name}", value=None, problem="is missing, and optimization_target load needs it",
            fix="Give a percentage of KV cache use.",
        )  # fmt: skip
    return min(100.0, _number(given, name, 0.0, where)) / 100.0


def _budget(given: Mapping[str, Any], name: str, default: int, where: str) -> int:
    value = given.get(name, default)
    return -1 if value == -1 else whole(value, field=f"{where}.{name}")
