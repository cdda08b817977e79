"""A Service of Knative whose annotations hold the plan: bounds, the load of a replica, how slowly it shrinks."""

from __future__ import annotations

from typing import Any

from ullage.emit.engine_flags import engine_command
from ullage.emit.gateways.windows import longest_deadline_s
from ullage.emit.pod import container
from ullage.emit.quantities import number, seconds
from ullage.emit.request import EmitPlan, EmitPool, up
from ullage.emit.scale_rule import scale_rule
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text
from ullage.errors import InputError

_AUTOSCALING = "autoscaling.knative.dev"


def knative_files(plan: EmitPlan) -> list[EmittedFile]:
    return [_file(plan, pool) for pool in plan.pools]


def _file(plan: EmitPlan, pool: EmitPool) -> EmittedFile:
    if len(pool.parts) > 1:
        raise InputError(
            field="--target",
            value="knative",
            problem=f"a replica of {pool.pool} spans {len(pool.parts)} nodes, but a revision's pod runs on one",
            fix="Take target leaderworkerset.",
        )
    head = plan.head(
        "serving.knative.dev/v1. Knative counts requests in flight itself, and queues beyond containerConcurrency "
        "without "
        "a bound on their age. It takes neither a node selector, a priority class nor a spread over zones unless its "
        "feature flags are set, so that they are left out; nor a time to drain.",
        *scale_rule(pool).lost,
        *engine_command(pool).cannot,
    )
    return EmittedFile(name=f"{pool.name}.knative.yaml", text=yaml_text(head, service(pool)))


def service(pool: EmitPool) -> dict[str, Any]:
    rule = scale_rule(pool)
    deadline_s, why = longest_deadline_s(pool)
    each = pool.whole("limit.engine_running_requests") + pool.whole("limit.replica_queue_requests")
    kept = {
        key: value for key, value in container(pool, pool.devices, engine_command(pool)).items() if key != "lifecycle"
    }
    kept["ports"] = [{"containerPort": pool.need("port")}]
    signal = rule.signal
    annotations = {
        f"{_AUTOSCALING}/class": "kpa.autoscaling.knative.dev",
        f"{_AUTOSCALING}/metric": "concurrency",
        f"{_AUTOSCALING}/target": Reasoned(value=number(signal.target_requests), why=signal.why),
        f"{_AUTOSCALING}/target-utilization-percentage": "100",
        f"{_AUTOSCALING}/min-scale": Reasoned(value=str(rule.least), why=rule.least_why),
        f"{_AUTOSCALING}/max-scale": Reasoned(value=str(rule.most), why=rule.most_why),
        f"{_AUTOSCALING}/initial-scale": Reasoned(value=str(rule.fallback.replicas), why=rule.fallback_why),
        f"{_AUTOSCALING}/scale-down-delay": Reasoned(value=seconds(up(rule.behavior.down.window_s)), why=rule.down_why),
    }
    shared = pool.need_workload("shared_memory")
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": pool.metadata(),
        "spec": {
            "template": {
                "metadata": {"annotations": annotations, "labels": dict(pool.need("selector"))},
                "spec": {
                    "containerConcurrency": Reasoned(
                        value=each, why="limit.engine_running_requests + limit.replica_queue_requests of one replica"
                    ),
                    "timeoutSeconds": Reasoned(value=up(deadline_s), why=f"the longest: {why}"),
                    "containers": [kept],
                    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(int(shared.value))}}],
                },
            }
        },
    }
