"""An AIGatewayRoute of Envoy AI Gateway that counts tokens, and a policy that limits them by class and tenant."""

from __future__ import annotations

from typing import Any

from ullage.emit.gateways.envoy_gateway import CANNOT, selections, traffic_policy
from ullage.emit.gateways.windows import longest_deadline_s, rate_windows
from ullage.emit.quantities import seconds
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text

_NAMESPACE, _KEY = "io.envoy.ai_gateway", "ullage_tokens"


def envoy_ai_gateway_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "aigateway.envoyproxy.io/v1beta1, for Envoy AI Gateway 1.1, in front of the InferencePool of each pool (target "
        "inference-gateway). Tokens are counted as the plan counts them: all of prompt and answer, cached or not. "
        "They are "
        "known when an answer ends, so a request is let in while any of its window is left, and may overdraw it.",
        CANNOT,
    )
    return [
        EmittedFile(
            name=f"{pool.name}.envoy-ai-gateway.yaml",
            text=yaml_text(head, ai_route(pool), traffic_policy(pool, _rules(pool))),
        )
        for pool in plan.pools
    ]


def ai_route(pool: EmitPool) -> dict[str, Any]:
    deadline_s, why = longest_deadline_s(pool)
    backend = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": pool.name}
    model = [{"headers": [{"type": "Exact", "name": "x-ai-eg-model", "value": pool.served_model}]}]
    request = Reasoned(value=seconds(deadline_s), why=f"the longest: {why}")
    return {
        "apiVersion": "aigateway.envoyproxy.io/v1beta1",
        "kind": "AIGatewayRoute",
        "metadata": pool.metadata(str(pool.need("route"))),
        "spec": {
            "parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": pool.need("gateway")}],
            "rules": [{"matches": model, "backendRefs": [backend], "timeouts": {"request": request}}],
            "llmRequestCosts": [{"metadataKey": _KEY, "type": "TotalToken"}],
        },
    }


def _rules(pool: EmitPool) -> list[dict[str, Any]]:
    """Tokens of each class, and of each tenant; a request itself costs nothing, its answer's tokens do."""
    cost = {
        "request": {"from": "Number", "number": 0},
        "response": {"from": "Metadata", "metadata": {"namespace": _NAMESPACE, "key": _KEY}},
    }
    return [
        {
            **selected,
            "cost": cost,
            "limit": {"requests": Reasoned(value=each.limit_count, why=each.why), "unit": each.unit},
        }
        for selected, name in selections(pool, "tokens_per_s", "limit.pool_tokens_per_s")
        for each in rate_windows(pool, name)
    ]
