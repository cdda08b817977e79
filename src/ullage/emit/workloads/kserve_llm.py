"""An LLMInferenceService of KServe: the pool with its parallelism, in groups of nodes where a replica needs several."""

from __future__ import annotations

from typing import Any

from ullage.emit.autoscalers.behaviour import behaviour
from ullage.emit.engine_flags import EngineCommand, engine_command
from ullage.emit.pod import pod_spec
from ullage.emit.quantities import number
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.scale_rule import scale_rule
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text
from ullage.errors import InputError

# What the service itself tells the engine, from its own fields.
_SET_BY_KSERVE = ("served-model-name", "tensor-parallel-size", "pipeline-parallel-size", "enable-expert-parallel")


def kserve_llm_files(plan: EmitPlan) -> list[EmittedFile]:
    return [_file(plan, pool) for pool in plan.pools]


def _file(plan: EmitPlan, pool: EmitPool) -> EmittedFile:
    if pool.choice.engine != "vllm":
        raise InputError(
            field="--target",
            value="kserve-llm",
            problem=f"{pool.pool} runs {pool.choice.engine}, but an LLMInferenceService starts vLLM",
            fix="Take target kserve, leaderworkerset or deployment.",
        )
    head = plan.head(
        "serving.kserve.io/v1alpha2, for KServe 0.20. Its autoscaling goes through llm-d's workload variant "
        "autoscaler, "
        "which decides by saturation: the plan's bounds and its pace hold here, its targets do not. Target keda has "
        "them.",
        "KServe 0.20 refuses every pace of KEDA in this kind (its rule wants an empty metricType, which its list of "
        "values "
        "has not), so the plain autoscaler is used, which has no fallback.",
        *scale_rule(pool).lost,
        *engine_command(pool).cannot,
    )
    return EmittedFile(name=f"{pool.name}.kserve-llm.yaml", text=yaml_text(head, llm_inference_service(pool)))


def llm_inference_service(pool: EmitPool) -> dict[str, Any]:
    sharding = pool.choice.sharding
    leader, *workers = pool.parts
    parallel: dict[str, Any] = {"tensor": sharding.tp, "pipeline": sharding.pp}
    scaled = {"scaling": _scaling(pool)}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": pool.metadata(),
        "spec": {
            "model": {"uri": _uri(str(pool.need("model"))), "name": pool.served_model},
            "labels": dict(pool.need("selector")),
            "parallelism": {**parallel, **({"expert": True} if sharding.ep > 1 else {})},
            **scaled,
            "template": _pod(pool, leader),
            **({"worker": _pod(pool, workers[0])} if workers else {}),
        },
    }


def _uri(model: str) -> str:
    return model if "://" in model else f"pvc://{model.lstrip('/')}" if model.startswith("/") else f"hf://{model}"


def _pod(pool: EmitPool, devices: int) -> dict[str, Any]:
    """The pod without command and arguments, which are the service's own; the plan's come by its variable."""
    spec = pod_spec(pool, devices, template_hash=False)
    given = spec["containers"][0]
    command = engine_command(pool)
    env = [{"name": "VLLM_ADDITIONAL_ARGS", "value": Reasoned(value=_line(pool, command), why=_reasons(command))}]
    kept = {key: each for key, each in given.items() if key not in ("name", "command", "args")}
    return {**spec, "containers": [{"name": "main", **kept, "env": env}]}


def _line(pool: EmitPool, command: EngineCommand) -> str:
    flags = [each for each in command.flags if each.key not in _SET_BY_KSERVE]
    return " ".join([*(word for each in flags for word in each.words), *(pool.may("args") or ())])


def _reasons(command: EngineCommand) -> str:
    return "; ".join(f"{each.key}: {each.why}" for each in command.flags if each.key not in _SET_BY_KSERVE)


def _scaling(pool: EmitPool) -> dict[str, Any]:
    rule = scale_rule(pool)
    return {
        "minReplicas": Reasoned(value=rule.least, why=rule.least_why),
        "maxReplicas": Reasoned(value=rule.most, why=rule.most_why),
        "wva": {**_cost(pool), "hpa": {"behavior": behaviour(rule, has_tolerance=False)}},
    }


def _cost(pool: EmitPool) -> dict[str, Any]:
    """What a replica costs an hour, by which variants of a model are preferred."""
    if pool.find("answer.devices_usd") is None:
        return {}
    usd = pool.real("answer.devices_usd") / pool.real("cost.period") / max(1, pool.whole("fleet.total_replicas"))
    why = f"USD of a replica's hour: {pool.number('answer.devices_usd').why} / cost.period / fleet.total_replicas"
    return {"variantCost": Reasoned(value=number(round(usd, 6)), why=why)}
