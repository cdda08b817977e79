"""Service levels as OpenSLO writes them: one for each metric that a pool's classes have limits on."""

from __future__ import annotations

from typing import Any

from ullage.emit.engine_metrics import EngineMetrics, engine_metrics
from ullage.emit.monitoring.alerts import loosest_limits
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text

# A month of rolling days, which error budgets are told in.
_WINDOW = "30d"


def openslo_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "openslo/v1. Engines do not separate classes: of classes that share a pool the loosest limit is used, so "
        "what violates it violates every class's. A metric that the engine has no histogram of is left out."
    )
    return [EmittedFile(name=f"{pool.name}.openslo.yaml", text=yaml_text(head, *objects(pool))) for pool in plan.pools]


def objects(pool: EmitPool) -> list[dict[str, Any]]:
    metrics = engine_metrics(pool)
    service = {
        "apiVersion": "openslo/v1",
        "kind": "Service",
        "metadata": {"name": pool.name},
        "spec": {"description": f"Pool {pool.pool} of {pool.plan.service}."},
    }
    found = [service]
    for metric, (limit_s, percent) in sorted(loosest_limits(pool).items()):
        histogram = metrics.latencies.get(metric)
        bound_s = None if histogram is None else histogram.bound_s(limit_s)
        if bound_s is not None:
            found.append(_slo(pool, metrics, metric, limit_s, percent, bound_s))
    return found


def _slo(
    pool: EmitPool, metrics: EngineMetrics, metric: str, limit_s: float, percent: float, bound_s: float
) -> dict[str, Any]:
    name = f"{pool.name}-{metric}"
    ratio = {
        "counter": True,
        "good": _query(f"sum({metrics.bucket(metric, bound_s)})"),
        "total": _query(f"sum({metrics.count(metric)})"),
    }
    why = f"{metric}_p{percent:g} of {limit_s:g} s, counted at {bound_s:g} s, the engine's next bucket"
    return {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": name},
        "spec": {
            "description": why,
            "service": pool.name,
            "indicator": {"metadata": {"name": name}, "spec": {"ratioMetric": ratio}},
            "timeWindow": [{"duration": _WINDOW, "isRolling": True}],
            "budgetingMethod": "Occurrences",
            "objectives": [{"displayName": metric, "target": Reasoned(value=round(percent / 100.0, 9), why=why)}],
        },
    }


def _query(expr: str) -> dict[str, Any]:
    return {"metricSource": {"type": "Prometheus", "spec": {"query": expr}}}
