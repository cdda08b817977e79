"""The settings of an engine in its own file: what `vllm serve --config`, SGLang and trtllm-serve read."""

from __future__ import annotations

from typing import Any

from ullage.emit.engine_flags import EngineCommand, engine_command
from ullage.emit.request import EmitPlan, EmitPool
from ullage.emit.tree import EmittedFile, Reasoned, yaml_text
from ullage.errors import InputError


def vllm_files(plan: EmitPlan) -> list[EmittedFile]:
    return _files(plan, "vllm", "Start it with: vllm serve MODEL --config FILE.")


def sglang_files(plan: EmitPlan) -> list[EmittedFile]:
    return _files(plan, "sglang", "Start it with: python3 -m sglang.launch_server --model-path MODEL --config FILE.")


def tensorrt_llm_files(plan: EmitPlan) -> list[EmittedFile]:
    return _files(plan, "tensorrt-llm", "Start it with: trtllm-serve MODEL --config FILE.")


def _files(plan: EmitPlan, engine: str, start: str) -> list[EmittedFile]:
    """A file for each pool of this engine; flags of one engine say nothing about another."""
    mine = [pool for pool in plan.pools if pool.choice.engine == engine]
    if not mine:
        planned = ", ".join(sorted({each.choice.engine for each in plan.pools}))
        raise InputError(
            field="--target",
            value=engine,
            problem=f"no pool of the plan runs it, only {planned}: memory and step times are that engine's",
            fix=f"Take target {planned}, or plan with pool.engine: {engine}.",
        )
    return [_file(plan, pool, start.replace("MODEL", str(pool.need("model")))) for pool in mine]


def _file(plan: EmitPlan, pool: EmitPool, start: str) -> EmittedFile:
    command = engine_command(pool)
    head = plan.head(start, *command.cannot)
    return EmittedFile(name=f"{pool.name}.{plan.target}.yaml", text=yaml_text(head, settings(command)))


def settings(command: EngineCommand) -> dict[str, Any]:
    """The settings by their keys; a dotted key stands in a section of its own."""
    found: dict[str, Any] = {}
    for each in command.flags:
        section, _, key = each.key.rpartition(".")
        place = found.setdefault(section, {}) if section else found
        place[key] = Reasoned(value=each.value, why=each.why)
    return found
