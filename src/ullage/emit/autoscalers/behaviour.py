"""How fast an autoscaler of Kubernetes moves: the part that the horizontal autoscaler, KEDA and KServe write alike."""

from __future__ import annotations

from typing import Any

from ullage.emit.scale_rule import ScaleRule
from ullage.emit.tree import Reasoned


def behaviour(rule: ScaleRule) -> dict[str, Any]:
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {
                    "type": "Pods",
                    "value": Reasoned(value=rule.up_replicas, why=rule.up_why),
                    "periodSeconds": Reasoned(value=rule.up_period_s, why=rule.poll_why),
                }
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": Reasoned(value=rule.down_window_s, why=rule.down_why),
            "selectPolicy": "Min",
            "policies": [
                {
                    "type": "Pods",
                    "value": rule.down_replicas,
                    "periodSeconds": Reasoned(value=rule.down_period_s, why="one drain after the other"),
                }
            ],
        },
    }
