"""A BackendTrafficPolicy of Envoy Gateway: rates by class and tenant, what may be in flight, retries, timeouts."""

from __future__ import annotations

from typing import Any

from ullage.emit.gateways.windows import in_flight, in_flight_why, longest_deadline_s, rate_windows
from ullage.emit.quantities import seconds
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text

CANNOT = (
    "What Envoy cannot enforce: a bound on how long a request waits, by class or at all; a deadline by class, of "
    "which the longest is used for "
    "all; the limits that the plan has for overload only, since it reads no backpressure signal. "
    "Limits "
    "on requests in flight are of each proxy: divide them by the number of proxies where there are several."
)


def envoy_gateway_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head("gateway.envoyproxy.io/v1alpha1, on the HTTPRoute of each pool.", CANNOT)
    return [
        EmittedFile(name=f"{pool.name}.envoy-gateway.yaml", text=yaml_text(head, traffic_policy(pool, _rules(pool))))
        for pool in plan.pools
    ]


def traffic_policy(pool: EmitPool, rules: list[dict[str, Any]], *, name: str = "") -> dict[str, Any]:
    deadline_s, deadline_why = longest_deadline_s(pool)
    queue = pool.whole("limit.replica_queue_requests") * pool.running_replicas
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "BackendTrafficPolicy",
        "metadata": pool.metadata(name),
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": pool.need("route")}],
            "circuitBreaker": {
                "maxParallelRequests": Reasoned(value=in_flight(pool), why=in_flight_why(pool)),
                "maxPendingRequests": pool.noted(
                    "limit.replica_queue_requests",
                    queue,
                    because=f"of each of {pool.running_replicas} serving replicas",
                ),
                "retryBudget": {"percent": _budget(pool)},
            },
            "timeout": {
                "http": {"requestTimeout": Reasoned(value=seconds(deadline_s), why=f"the longest: {deadline_why}")}
            },
            "rateLimit": {"type": "Global", "global": {"rules": rules}},
        },
    }


def _budget(pool: EmitPool) -> dict[str, Any]:
    share = pool.real("admission.retry_budget")
    why = pool.number("admission.retry_budget").why
    return {"numerator": Reasoned(value=round(share * 10_000), why=why), "denominator": 10_000}


def _rules(pool: EmitPool) -> list[dict[str, Any]]:
    """Requests of each class, and of each tenant that the plan names."""
    return [
        {**selected, "limit": {"requests": Reasoned(value=each.limit_count, why=each.why), "unit": each.unit}}
        for selected, name in selections(pool, "rate_rps", "limit.pool_rate_rps")
        for each in rate_windows(pool, name)
    ]


def selections(pool: EmitPool, figure: str, whole: str) -> list[tuple[dict[str, Any], str]]:
    """Whom a rule is for, and the figure of its limit. One class alone is all of the route, and needs no header."""
    classes, tenants = pool.classes, pool.tenants
    found: list[tuple[dict[str, Any], str]] = []
    if len(classes) > 1:
        header = pool.need("class_header")
        found += [(_header(header, each.name), f"limit.{each.name}.{figure}") for each in classes]
    else:
        found.append(({}, whole if pool.find(whole) else f"limit.{classes[0].name}.{figure}"))
    if tenants:
        header = pool.need("tenant_header")
        found += [(_header(header, each), f"limit.tenant.{each}.{figure}") for each in tenants]
    return found


def _header(name: str, value: str) -> dict[str, Any]:
    return {"clientSelectors": [{"headers": [{"name": name, "type": "Exact", "value": value}]}]}
