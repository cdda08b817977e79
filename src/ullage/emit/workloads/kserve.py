"""An InferenceService of KServe: the pool as a predictor, scaled by KEDA on the engines' own signals."""

from __future__ import annotations

from typing import Any

from ullage.emit.autoscalers.behaviour import behaviour
from ullage.emit.engine_flags import engine_command
from ullage.emit.pod import pod_spec, surge
from ullage.emit.quantities import milli
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.scale_rule import scale_rule
from ullage.emit.tree import EmittedFile, Reasoned, plain, yaml_text
from ullage.errors import InputError


def kserve_files(plan: EmitPlan) -> list[EmittedFile]:
    return [_file(plan, pool) for pool in plan.pools]


def _file(plan: EmitPlan, pool: EmitPool) -> EmittedFile:
    if len(pool.parts) > 1:
        raise InputError(
            field="--target",
            value="kserve",
            problem=f"a replica of {pool.pool} spans {len(pool.parts)} nodes, but this predictor's pod runs on one",
            fix="Take target kserve-llm or leaderworkerset.",
        )
    head = plan.head(
        "serving.kserve.io/v1beta1, for KServe 0.20 in its Standard mode with KEDA. KServe calls the container that it "
        "serves kserve-container.",
        *scale_rule(pool).lost,
        *engine_command(pool).cannot,
    )
    return EmittedFile(name=f"{pool.name}.kserve.yaml", text=yaml_text(head, inference_service(pool)))


def inference_service(pool: EmitPool) -> dict[str, Any]:
    rule = scale_rule(pool)
    spec = pod_spec(pool, pool.devices, template_hash=True)
    serving = {**spec["containers"][0], "name": "kserve-container"}
    signal = rule.signal
    metrics = [
        {
            "type": "External",
            "external": {
                "metric": {"backend": "prometheus", "serverAddress": pool.need("prometheus"), "query": signal.query},
                "target": {
                    "type": "AverageValue",
                    "averageValue": Reasoned(value=milli(signal.target_milli), why=signal.why),
                },
            },
        }
    ]
    annotations = {"serving.kserve.io/deploymentMode": "Standard", "serving.kserve.io/autoscalerClass": "keda"}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": pool.metadata(annotations=annotations),
        "spec": {
            "predictor": {
                "minReplicas": Reasoned(value=rule.least, why=rule.least_why),
                "maxReplicas": Reasoned(value=rule.most, why=rule.most_why),
                "autoScaling": {"metrics": metrics, "behavior": behaviour(rule, has_tolerance=False)},
                "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": surge(pool, scales=True)},
                "labels": plain(dict(pool.need("selector"))),
                **spec,
                "containers": [serving],
            }
        },
    }
