"""A dashboard of Grafana: one row for each question of the plan, the planned line beside what is observed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage.emit.engine_metrics import engine_metrics
from ullage.emit.monitoring.alerts import PLANNED_HITS, pool_labels, starting_s
from ullage.emit.monitoring.rule import literal, text
from ullage.emit.monitoring.service_alerts import MADE
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 12, 8
_BURST = "burst.queue_120s_ratio"


def grafana_files(plan: EmitPlan) -> list[EmittedFile]:
    return [EmittedFile(name="ullage.dashboard.json", text=json.dumps(dashboard(plan), indent=2) + "\n")]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Planned beside observed: the lines by name, as PromQL, and where the planned one comes from."""

    question: str
    title: str
    unit: str
    lines: Mapping[str, str]
    why: str


def dashboard(plan: EmitPlan) -> dict[str, Any]:
    """Its panels read the series that target prometheus records."""
    panels: list[dict[str, Any]] = []
    top = 0
    for pool in plan.pools:
        found = charts(pool)
        for question in dict.fromkeys(each.question for each in found):
            panels.append(_row(len(panels) + 1, f"{pool.name}: {question}", top))
            top += 1
            for place, chart in enumerate(each for each in found if each.question == question):
                panels.append(
                    _panel(len(panels) + 1, chart, {"x": _WIDTH * place, "y": top, "w": _WIDTH, "h": _HEIGHT})
                )
            top += _HEIGHT
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": f"Capacity of {plan.plan.service}, planned and observed",
        "description": " ".join(plan.head("Its panels read series that target prometheus records.")),
        "tags": ["ullage", "capacity"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-7d", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [source]},
        "panels": panels,
    }


def charts(pool: EmitPool) -> list[Chart]:
    """Charts in the order of the eight questions of a plan, at most two to a question."""
    mine, metrics = pool_labels(pool), engine_metrics(pool)
    served, replicas = f"ullage_completed_rps{mine}", f"ullage_ready_replicas{mine}"
    looked = f'{{__name__="{MADE}", service={json.dumps(text(pool.plan.service))}}}'

    def beside(question: str, title: str, unit: str, observed: str, figure: str, value: float | None = None) -> Chart:
        planned = pool.real(figure) if value is None else value
        lines = {"observed": observed, "planned": f"vector({literal(planned)})"}
        return Chart(question=question, title=title, unit=unit, lines=lines, why=pool.number(figure).why)

    supported, point = "which distributions and bursts are supported", "which operating point meets the SLOs"
    reserve = "how much reserve covers failure, rollout and burst"
    approved = 1.0 - pool.real("memory.headroom_bytes") / pool.real("memory.kv_cache_bytes")
    each = pool.whole("fleet.total_replicas") / pool.real("limit.pool_rate_rps")
    hits = f"sum(rate({metrics.hits}[30m])) / sum(rate({metrics.lookups}[30m]))"
    return [
        beside(supported, "requests", "reqps", served, "limit.pool_rate_rps"),
        beside(supported, "burst over its hour", "none", f"{served} / avg_over_time({served}[1h])", _BURST),
        beside(
            "what device memory is reserved for what",
            "KV cache",
            "percentunit",
            f"ullage_kv_use_fraction{mine}",
            "memory.headroom_bytes",
            approved,
        ),
        beside(
            point,
            "in flight per replica",
            "none",
            f"ullage_in_flight_requests{mine} / {replicas}",
            "limit.engine_running_requests",
        ),
        beside(
            point,
            "waiting per replica",
            "none",
            f"ullage_waiting_requests{mine} / {replicas}",
            "limit.replica_queue_requests",
        ),
        beside(reserve, "serving replicas", "none", replicas, "reserve.serving_replicas"),
        beside(reserve, "steady replicas", "none", replicas, "fleet.replicas"),
        beside(
            "how long new capacity takes", "oldest replica that is not ready", "s", starting_s(pool), "ready.cold_p99_s"
        ),
        beside(
            "which costs are fixed, variable, shared, external",
            "replicas per request a second",
            "none",
            f"{replicas} / {served}",
            "fleet.total_replicas",
            each,
        ),
        beside(
            "which variables move the plan most",
            "prefix cache hits",
            "percentunit",
            hits,
            PLANNED_HITS,
        ),
        beside(
            "how often it is reconciled", "since the plan", "s", f"time() - max({looked})", "policy.reconcile_every"
        ),
    ]


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    at = {"x": 0, "y": top, "w": 2 * _WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": at, "panels": []}


def _panel(number: int, chart: Chart, at: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": chart.title,
        "description": f"Planned: {chart.why}",
        "datasource": _SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": chart.unit}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "legendFormat": name, "expr": expr}
            for place, (name, expr) in enumerate(chart.lines.items())
        ],
    }
