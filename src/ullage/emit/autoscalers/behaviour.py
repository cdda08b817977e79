"""How fast an autoscaler of Kubernetes moves: the part that the horizontal autoscaler, KEDA and KServe write alike."""

from __future__ import annotations

from typing import Any

from ullage.emit.quantities import number
from ullage.emit.request import up
from ullage.emit.scale_rule import ScaleRule
from ullage.emit.tree import Reasoned
from ullage.scaling.hpa import ScalingRules

_UP = "scale up at once: a start takes longer than any autoscaler period"
_TOLERANCE = "as simulated; a cluster without HPAConfigurableTolerance takes 0.1 in its place"


def behaviour(rule: ScaleRule, *, has_tolerance: bool = True) -> dict[str, Any]:
    """Both directions, as the plan tried them; `has_tolerance` where the target has a place for it."""
    return {
        "scaleUp": _direction(rule.behavior.up, _UP, has_tolerance=has_tolerance),
        "scaleDown": _direction(rule.behavior.down, rule.down_why, has_tolerance=has_tolerance),
    }


def _direction(rules: ScalingRules, why: str, *, has_tolerance: bool) -> dict[str, Any]:
    tolerance = Reasoned(value=number(rules.tolerance_fraction), why=_TOLERANCE)
    return {
        "stabilizationWindowSeconds": Reasoned(value=up(rules.window_s), why=why),
        "selectPolicy": rules.select.value,
        "policies": [
            {"type": each.kind.value, "value": each.value, "periodSeconds": up(each.period_s)}
            for each in rules.policies
        ],
        **({"tolerance": tolerance} if has_tolerance else {}),
    }
