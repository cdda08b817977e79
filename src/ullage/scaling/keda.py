"""KEDA's ScaledObject: the operator between zero and one replica, an HPA from one on, fallback when metrics fail.

    polled        every polling interval: is a trigger active, to or from zero (or idle)
    keda_step     one sync of the HPA beneath, with fallback and scaling modifiers applied to what it reads

A trigger is active where its value is above its activation threshold. With no active trigger the target goes to zero
once the cooldown has passed since one was active last.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ullage.scaling.formula import evaluate
from ullage.scaling.hpa import (
    HpaDecision,
    HpaMetric,
    HpaSpec,
    HpaState,
    MetricKind,
    MetricReading,
    ScalingBehavior,
    hpa_step,
)

POLLING_S = 30.0
COOLDOWN_S = 300.0
MOST_REPLICAS = 100
"""KEDA's own defaults."""

TriggerValues = Mapping[str, float | None]
"""By trigger name; None where the source could not be read."""


class FallbackBehavior(enum.Enum):
    STATIC = "static"
    CURRENT = "currentReplicas"
    CURRENT_IF_HIGHER = "currentReplicasIfHigher"
    CURRENT_IF_LOWER = "currentReplicasIfLower"


@dataclass(frozen=True, kw_only=True)
class KedaFallback:
    """After more than `failures` readings in a row that failed, the metric says what makes so many replicas."""

    failures: int
    replicas: int
    behavior: FallbackBehavior = FallbackBehavior.STATIC

    def wanted(self, current: int) -> int:
        if self.behavior is FallbackBehavior.CURRENT:
            return current
        if self.behavior is FallbackBehavior.CURRENT_IF_HIGHER:
            return max(current, self.replicas)
        if self.behavior is FallbackBehavior.CURRENT_IF_LOWER:
            return min(current, self.replicas)
        return self.replicas


@dataclass(frozen=True, kw_only=True)
class KedaTrigger:
    """One trigger. `kind` is AVERAGE or VALUE; `signal` names what its query measures (signals.py)."""

    name: str
    threshold_value: float
    activation_value: float = 0.0
    kind: MetricKind = MetricKind.AVERAGE
    signal: str = ""


@dataclass(frozen=True, kw_only=True)
class ScalingModifiers:
    """One metric from all triggers."""

    formula: str
    target_value: float
    activation_value: float = 0.0
    kind: MetricKind = MetricKind.AVERAGE


@dataclass(frozen=True, kw_only=True)
class KedaSpec:
    """The object's `spec`. `idle_replicas` stand in for zero where given."""

    triggers: tuple[KedaTrigger, ...]
    least_replicas: int = 0
    most_replicas: int = MOST_REPLICAS
    idle_replicas: int | None = None
    polling_s: float = POLLING_S
    cooldown_s: float = COOLDOWN_S
    initial_cooldown_s: float = 0.0
    fallback: KedaFallback | None = None
    modifiers: ScalingModifiers | None = None
    behavior: ScalingBehavior | None = None

    @cached_property
    def hpa(self) -> HpaSpec:
        """The HPA that KEDA makes: it never goes below one replica. A loop asks for it at every tick."""
        metrics: tuple[HpaMetric, ...]
        if self.modifiers is not None:
            metrics = (_metric(self.modifiers.kind, self.modifiers.target_value, "composite"),)
        else:
            metrics = tuple(_metric(each.kind, each.threshold_value, each.name) for each in self.triggers)
        return HpaSpec(
            metrics=metrics,
            least_replicas=max(1, self.least_replicas),
            most_replicas=self.most_replicas,
            behavior=self.behavior,
        )


def _metric(kind: MetricKind, target: float, name: str) -> HpaMetric:
    return HpaMetric(kind=kind, target_value=int(target * 1000), signal=name)


@dataclass(frozen=True, kw_only=True)
class KedaState:
    """`failures` in a row by trigger; `active_s` is when a trigger was active last."""

    hpa: HpaState = field(default_factory=HpaState)
    failures: Mapping[str, int] = field(default_factory=dict)
    active_s: float | None = None
    created_s: float = 0.0


def is_active(spec: KedaSpec, values: TriggerValues) -> bool:
    """Whether any trigger, or the formula where there is one, is above its activation threshold."""
    known = {name: value for name, value in values.items() if value is not None}
    if spec.modifiers is not None:
        if len(known) < len(spec.triggers):
            return False
        return evaluate(spec.modifiers.formula, known) > spec.modifiers.activation_value
    return any(each.name in known and known[each.name] > each.activation_value for each in spec.triggers)


def polled(
    spec: KedaSpec, state: KedaState, values: TriggerValues, *, now_s: float, current: int
) -> tuple[KedaState, int]:
    """The operator's own scaling: from and to zero or idle, and up to the minimum. The HPA does the rest."""
    if is_active(spec, values):
        state = replace(state, active_s=now_s)
        if spec.idle_replicas is not None and current < spec.least_replicas:
            return state, spec.least_replicas
        return state, max(1, spec.least_replicas) if current == 0 else current
    failed = any(values.get(each.name) is None for each in spec.triggers)
    if failed:
        fallback = spec.fallback
        return state, fallback.wanted(current) if fallback is not None and fallback.replicas else current
    rest = spec.idle_replicas if spec.idle_replicas is not None else 0 if spec.least_replicas == 0 else None
    if rest is not None and current > rest:
        since_s = (
            state.created_s + spec.initial_cooldown_s if state.active_s is None else state.active_s + spec.cooldown_s
        )
        return state, rest if since_s < now_s else current
    if spec.idle_replicas is None and current < spec.least_replicas:
        return state, spec.least_replicas
    return state, current


def keda_step(
    spec: KedaSpec, state: KedaState, values: TriggerValues, *, now_s: float, current: int, ready: int
) -> tuple[KedaState, HpaDecision]:
    """One sync of the HPA beneath."""
    failures = {
        each.name: 0 if values.get(each.name) is not None else state.failures.get(each.name, 0) + 1
        for each in spec.triggers
    }
    readings = _readings(spec, failures, values, current)
    decision = hpa_step(spec.hpa, state.hpa, readings, now_s=now_s, current=current, ready=ready)
    return replace(state, hpa=decision.state, failures=failures), decision


def _readings(spec: KedaSpec, failures: Mapping[str, int], values: TriggerValues, current: int) -> list[MetricReading]:
    if spec.modifiers is not None:
        worst = max(failures.values(), default=0)
        if worst:
            return [_fallen_back(spec, worst, spec.modifiers.kind, spec.modifiers.target_value, current)]
        known = {name: value for name, value in values.items() if value is not None}
        made = evaluate(spec.modifiers.formula, known)
        # A division by nothing is a metric that could not be read.
        return [int(made * 1000) if math.isfinite(made) else None]
    found: list[MetricReading] = []
    for each in spec.triggers:
        value = values.get(each.name)
        if value is None:
            found.append(_fallen_back(spec, failures[each.name], each.kind, each.threshold_value, current))
        else:
            found.append(int(value * 1000))
    return found


def _fallen_back(spec: KedaSpec, failures: int, kind: MetricKind, target: float, current: int) -> int | None:
    """The value that makes the HPA ask for the fallback's replicas; None where there is none, or not yet."""
    fallback = spec.fallback
    if fallback is None or kind is not MetricKind.AVERAGE or failures <= fallback.failures:
        return None
    return int(target * 1000) * fallback.wanted(current)
