"""Values of the vLLM production stack's Helm chart: every pool of vLLM as one entry of modelSpec."""

from __future__ import annotations

from typing import Any

from ullage.emit.autoscalers.keda import scaled_object_spec
from ullage.emit.engine_flags import engine_command
from ullage.emit.pod import probes, resources, surge
from ullage.emit.quantities import mebibytes
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.scale_rule import scale_rule
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text
from ullage.errors import InputError

# Settings that the chart has keys of its own for; the others are arguments.
_OWN = {"tensor-parallel-size": "tensorParallelSize", "max-model-len": "maxModelLen", "max-num-seqs": "maxNumSeqs"}


def production_stack_files(plan: EmitPlan) -> list[EmittedFile]:
    other = [each.pool for each in plan.pools if each.choice.engine != "vllm"]
    spanning = [each.pool for each in plan.pools if len(each.parts) > 1]
    if other or spanning:
        raise InputError(
            field="--target",
            value="production-stack",
            problem=f"{', '.join(other or spanning)} {'does not run vLLM' if other else 'spans nodes'}, and the "
            "chart's "
            "Deployments are of vLLM on one node",
            fix="Take target leaderworkerset or deployment.",
        )
    ports = {each.need("port") for each in plan.pools}
    if len(ports) > 1:
        raise InputError(
            field="emit.workloads",
            value=sorted(ports),
            problem="are several ports, and the chart has one",
            fix="Give one port.",
        )
    first = plan.pools[0]
    head = plan.head(
        "Values of chart vllm-stack 0.1.12: helm upgrade --install RELEASE vllm/vllm-stack --values FILE.",
        "The chart has no key for the time that a pod may drain, for its local disk's size outside resources, nor "
        "for a "
        "spread over zones: a Deployment of target deployment has them.",
        *(warning for pool in plan.pools for warning in scale_rule(pool).warnings),
        *engine_command(first).cannot,
    )
    tree = {
        "servingEngineSpec": {
            "labels": dict(plan.settings.labels) or {"app.kubernetes.io/managed-by": "ullage"},
            "containerPort": first.need("port"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": surge(first, scales=True)},
            **_probes(first),
            "modelSpec": [_model(pool) for pool in plan.pools],
        }
    }
    return [EmittedFile(name="production-stack.values.yaml", text=yaml_text(head, tree))]


def _probes(pool: EmitPool) -> dict[str, Any]:
    return {key: {"initialDelaySeconds": 0, **each} for key, each in probes(pool).items()}


def _model(pool: EmitPool) -> dict[str, Any]:
    repository, _, tag = str(pool.need("image")).rpartition(":")
    if "/" in tag or "@" in repository:
        raise InputError(
            field=f"emit.workloads.{pool.pool}.image",
            value=pool.need("image"),
            problem="has no tag, and the chart asks for one",
            fix="Give an image by its tag.",
        )
    shared = pool.need_workload("shared_memory")
    optional = {
        "priorityClassName": pool.may("priority_class"),
        "nodeSelectorTerms": [_node_term(pool)] if pool.may("node_selector") else [],
    }
    asked = resources(pool, pool.devices)
    return {
        "name": pool.name,
        "repository": repository,
        "tag": tag,
        "modelURL": pool.need("model"),
        "podLabels": dict(pool.need("selector")),
        **{key: each for key, each in optional.items() if each},
        "replicaCount": pool.noted("reserve.serving_replicas"),
        # The chart mounts shared memory only where it is told a tensor parallelism, so it always is.
        "resources": asked,
        "shmSize": Reasoned(value=mebibytes(int(shared.value)), why=f"{shared.name}, {shared.evidence}"),
        "vllmConfig": _config(pool),
        "keda": _keda(pool),
    }


def _node_term(pool: EmitPool) -> dict[str, Any]:
    rules = [{"key": key, "operator": "In", "values": [value]} for key, value in pool.may("node_selector").items()]
    return {"matchExpressions": rules}


def _config(pool: EmitPool) -> dict[str, Any]:
    flags = engine_command(pool).flags
    own = {_OWN[each.key]: Reasoned(value=each.value, why=each.why) for each in flags if each.key in _OWN}
    caching = next(each for each in flags if each.key == "enable-prefix-caching")
    rest = [each for each in flags if each.key not in _OWN and each is not caching]
    words = [
        Reasoned(value=word, why=each.why) if place == 0 else word
        for each in rest
        for place, word in enumerate(each.words)
    ]
    return {
        **own,
        "enablePrefixCaching": Reasoned(value=caching.value, why=caching.why),
        "extraArgs": [*words, *(pool.may("args") or ())],
    }


def _keda(pool: EmitPool) -> dict[str, Any]:
    rule = scale_rule(pool)
    spec = scaled_object_spec(pool, rule)
    keys = ("minReplicaCount", "maxReplicaCount", "pollingInterval", "fallback", "triggers", "advanced")
    return {"enabled": True, **{key: spec[key] for key in keys}}
