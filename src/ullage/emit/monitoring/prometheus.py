"""Rules for Prometheus: what is observed beside what was planned, and an alert for every way to fail."""

from __future__ import annotations

from typing import Any

from ullage.emit.monitoring.alerts import Made, pool_alerts, recorded
from ullage.emit.monitoring.rule import AlertRule, LeftOut, RecordingRule, text
from ullage.emit.monitoring.service_alerts import service_alerts, service_recorded
from ullage.emit.request import EmitPlan
from ullage.emit.tree import EmittedFile, yaml_text

_NEEDS = (
    "Series that they read: the engines' own, and of kube-state-metrics kube_pod_created, kube_pod_status_ready, "
    "kube_pod_status_phase, and kube_resourcequota or kube_pod_container_resource_requests."
)


def prometheus_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "Rules for rule_files of Prometheus 2.42 and later. promtool check rules FILE.", _NEEDS, *_left_out(plan)
    )
    return [EmittedFile(name="ullage.rules.yaml", text=yaml_text(head, {"groups": groups(plan)}))]


def prometheus_operator_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head("monitoring.coreos.com/v1, for the Prometheus operator.", _NEEDS, *_left_out(plan))
    first = plan.pools[0]
    tree = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": first.metadata(f"{first.name}-capacity"),
        "spec": {"groups": groups(plan)},
    }
    return [EmittedFile(name="ullage.prometheusrule.yaml", text=yaml_text(head, tree))]


def groups(plan: EmitPlan) -> list[dict[str, Any]]:
    """Every pool's rules and the service's own, the recorded ones before those that read them."""
    service = {"service": text(plan.plan.service)}
    found = [
        _group(f"ullage-{each.name}", {**service, "pool": each.pool}, [*recorded(each)], [*pool_alerts(each)])
        for each in plan.pools
    ]
    return [*found, _group("ullage-service", service, [*service_recorded(plan)], [*service_alerts(plan)])]


def _group(name: str, labels: dict[str, str], records: list[RecordingRule], alerts: list[Made]) -> dict[str, Any]:
    made = [each.tree(labels) for each in alerts if isinstance(each, AlertRule)]
    return {"name": name, "rules": [*(each.tree(labels) for each in records), *made]}


def _left_out(plan: EmitPlan) -> list[str]:
    alerts = [*(each for pool in plan.pools for each in pool_alerts(pool)), *service_alerts(plan)]
    return [f"Left out: {each.alert}, since {each.reason}." for each in alerts if isinstance(each, LeftOut)]
