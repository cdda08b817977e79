"""An InferencePool of the gateway API's inference extension, and an InferenceObjective for each class."""

from __future__ import annotations

from typing import Any

from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def inference_gateway_files(plan: EmitPlan) -> list[EmittedFile]:
    return [_file(plan, pool) for pool in plan.pools]


def _file(plan: EmitPlan, pool: EmitPool) -> EmittedFile:
    queue = pool.number("limit.replica_queue_requests")
    head = plan.head(
        "inference.networking.k8s.io/v1 and llm-d.ai/v1alpha2. A request names its objective in its header; a higher "
        "priority goes first, and one below 0 is shed first.",
        f"Neither kind has a field for a limit: the endpoint picker's own configuration bounds its queues "
        f"({queue.why}), and rates are the gateway's (target envoy-ai-gateway).",
    )
    documents = [inference_pool(pool), *(objective(pool, each.name, each.priority) for each in pool.classes)]
    return EmittedFile(name=f"{pool.name}.inference-gateway.yaml", text=yaml_text(head, *documents))


def inference_pool(pool: EmitPool) -> dict[str, Any]:
    service, _, port = str(pool.need("endpoint_picker")).partition(":")
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": pool.metadata(),
        "spec": {
            "selector": {"matchLabels": dict(pool.need("selector"))},
            "targetPorts": [{"number": pool.need("port")}],
            "endpointPickerRef": {
                "name": service,
                "port": {"number": int(port)},
                # Without the picker nothing bounds what an engine is sent, and the plan's limits do not hold.
                "failureMode": "FailClose",
            },
        },
    }


def objective(pool: EmitPool, name: str, priority: int) -> dict[str, Any]:
    why = f"class {name} has priority {priority} in the plan, where 0 goes first; here the higher one does"
    return {
        "apiVersion": "llm-d.ai/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": pool.metadata(f"{pool.name}-{name}"),
        "spec": {"poolRef": {"name": pool.name}, "priority": Reasoned(value=-priority, why=why)},
    }
