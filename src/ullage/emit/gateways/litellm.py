"""The configuration of LiteLLM's proxy: requests, tokens and concurrency of each model."""

from __future__ import annotations

import math
from typing import Any

from ullage.emit.gateways.windows import burst_ratio, in_flight, in_flight_why, longest_deadline_s
from ullage.emit.request import EmitPlan, EmitPool, up
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text


def litellm_files(plan: EmitPlan) -> list[EmittedFile]:
    head = plan.head(
        "config.yaml of the LiteLLM proxy.",
        "LiteLLM counts by the minute alone, so a burst that the plan absorbs must pass: rpm and tpm are the "
        "steady "
        "rate times the burst, and a steady excess is held by max_parallel_requests. Limits by class and tenant "
        "belong to "
        "its keys and teams, which it keeps in a database; waits by class, and the age of a request, it cannot bound.",
    )
    return [EmittedFile(name="litellm.config.yaml", text=yaml_text(head, config(plan)))]


def config(plan: EmitPlan) -> dict[str, Any]:
    all_in_flight = sum(in_flight(pool) for pool in plan.pools)
    retry = max(plan.pools, key=lambda pool: pool.whole("limit.retry_after_s"))
    return {
        "model_list": [_model(pool) for pool in plan.pools],
        "router_settings": {
            "optional_pre_call_checks": ["enforce_model_rate_limits"],
            "num_retries": Reasoned(value=0, why="clients retry: a gateway that also retries multiplies an overload"),
            "retry_after": retry.noted("limit.retry_after_s"),
        },
        "general_settings": {
            "global_max_parallel_requests": Reasoned(value=all_in_flight, why="the sum of the pools above")
        },
    }


def _model(pool: EmitPool) -> dict[str, Any]:
    burst, rate = burst_ratio(pool), pool.number("limit.pool_rate_rps")
    tokens_per_s = sum(pool.real(f"limit.{each.name}.tokens_per_s") for each in pool.classes)
    deadline_s, why = longest_deadline_s(pool)
    minute = 60.0 * burst
    served = pool.served_model
    return {
        "model_name": served,
        "litellm_params": {
            "model": f"hosted_vllm/{served}" if pool.choice.engine == "vllm" else f"openai/{served}",
            "api_base": pool.need("address"),
            "rpm": Reasoned(
                value=_whole(pool.real("limit.pool_rate_rps") * minute), why=f"x 60 s x {burst:g}, a burst: {rate.why}"
            ),
            "tpm": Reasoned(
                value=_whole(tokens_per_s * minute),
                why=f"x 60 s x {burst:g}, a burst: limit.CLASS.tokens_per_s of all classes, {tokens_per_s:.7g} "
                "tokens/s",
            ),
            "max_parallel_requests": Reasoned(value=in_flight(pool), why=in_flight_why(pool)),
            "timeout": Reasoned(value=up(deadline_s), why=f"the longest: {why}"),
        },
    }


def _whole(amount: float) -> int:
    return max(1, math.floor(amount + 1e-6))
