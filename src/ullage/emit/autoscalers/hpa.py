"""A HorizontalPodAutoscaler on external metrics, and the rules by which prometheus-adapter serves them."""

from __future__ import annotations

from typing import Any

from ullage.emit.autoscalers.behaviour import behaviour
from ullage.emit.autoscalers.keda import target_ref
from ullage.emit.quantities import milli
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.scale_rule import ScaleSignal, scale_rule
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def hpa_files(plan: EmitPlan) -> list[EmittedFile]:
    adapter = plan.head("Values of the chart prometheus-adapter: one external metric for each pool.")
    return [
        *(
            EmittedFile(name=f"{pool.name}.hpa.yaml", text=yaml_text(_head(plan, pool), autoscaler(pool)))
            for pool in plan.pools
        ),
        EmittedFile(name="prometheus-adapter.values.yaml", text=yaml_text(adapter, adapter_values(plan))),
    ]


def _head(plan: EmitPlan, pool: EmitPool) -> list[str]:
    return plan.head(
        "autoscaling/v2. Its metrics come from an adapter: prometheus-adapter.values.yaml beside it has the rules. "
        "Without an answer the autoscaler holds what runs; it has no fallback, which KEDA has.",
        *scale_rule(pool).lost,
    )


def metric_name(pool: EmitPool, signal: ScaleSignal) -> str:
    return f"ullage_{pool.name}_{signal.name}".replace("-", "_")


def autoscaler(pool: EmitPool) -> dict[str, Any]:
    rule = scale_rule(pool)
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": pool.metadata(),
        "spec": {
            "scaleTargetRef": target_ref(pool),
            "minReplicas": Reasoned(value=rule.least, why=rule.least_why),
            "maxReplicas": Reasoned(value=rule.most, why=rule.most_why),
            "metrics": [_metric(pool, rule.signal)],
            "behavior": behaviour(rule),
        },
    }


def _metric(pool: EmitPool, signal: ScaleSignal) -> dict[str, Any]:
    return {
        "type": "External",
        "external": {
            "metric": {"name": metric_name(pool, signal)},
            "target": {
                "type": "AverageValue",
                "averageValue": Reasoned(value=milli(signal.target_milli), why=signal.why),
            },
        },
    }


def adapter_values(plan: EmitPlan) -> dict[str, Any]:
    """The adapter looks for the series to know that a metric is there, and asks the query for its value."""
    signals = [(pool, scale_rule(pool).signal) for pool in plan.pools]
    rules = [
        {
            "seriesQuery": each.series,
            "resources": {"namespaced": False},
            "name": {"as": metric_name(pool, each)},
            "metricsQuery": each.query,
        }
        for pool, each in signals
    ]
    return {"rules": {"default": False, "external": rules}}
