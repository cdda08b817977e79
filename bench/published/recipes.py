"""What InferenceX's start scripts tell the engines, by day: flags that a row does not state and whoever ran it knew.

Read from the history of benchmarks/*.sh of github.com/SemiAnalysisAI/InferenceX on 2026-11-16.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings under the names of `ullage simulate`; None is the engine's own."""

    budget_tokens: int | None = None
    poll_steps: int | None = None
    batch_wait_steps: int | None = None
    kv_dtype: str | None = None
    memory_fraction: float | None = None


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The row as far as a script looks at it. A row without a day is one of the newest."""

    family: str
    precision: str
    device: str
    generation: str
    engine: str
    tp: int
    prompt_tokens: int
    output_tokens: int
    clients: int
    day: datetime.date


def recipe_of(launch: Launch) -> Recipe:
    """The flags of the script that started this row's engine."""
    return {
        ("deepseek-v3", "tensorrt-llm"): _deepseek_tensorrt_llm,
        ("deepseek-v3", "sglang"): _deepseek_sglang,
        ("gpt-oss", "tensorrt-llm"): _gpt_oss_tensorrt_llm,
        ("llama-3", "tensorrt-llm"): _llama_tensorrt_llm,
        ("minimax-m2", "vllm"): _minimax_vllm,
    }.get((launch.family, launch.engine), _plain)(launch)


def _plain(launch: Launch) -> Recipe:
    return Recipe(budget_tokens=8192, kv_dtype="fp8" if launch.family == "llama-3" else None)


def _deepseek_tensorrt_llm(launch: Launch) -> Recipe:
    """Room for one prompt and one token of each client, since 2026-01-21 for 8,192 tokens at least."""
    budget = (launch.clients + launch.prompt_tokens + 127) // 64 * 64
    late = launch.day >= datetime.date(2026, 1, 21)
    is_short = (launch.prompt_tokens, launch.output_tokens) == (1024, 1024)
    waits = (
        launch.day >= datetime.date(2026, 1, 29)
        and launch.precision == "fp8"
        and launch.generation == "blackwell"
        and is_short
        and launch.clients >= 64
    )
    return Recipe(
        budget_tokens=max(budget, 8192) if late else budget, batch_wait_steps=40 if waits else None, kv_dtype="fp8"
    )


def _deepseek_sglang(launch: Launch) -> Recipe:
    """On Blackwell it looks for new requests every 10 steps, from 16 clients on every 30.

    On AMD's devices it takes four decode steps at a time (num_continuous_decode_steps), which is not simulated. The
    memory fraction is 0.8 in those scripts; our activations at such budgets are too many for that, and the cache is far
    from short at 0.7.
    """
    if launch.generation == "cdna-3":
        late = launch.day >= datetime.date(2026, 1, 22)
        budget, cache = (131_072, "fp8") if late else (196_608, None)
        return Recipe(budget_tokens=budget, kv_dtype=cache, memory_fraction=0.7)
    if launch.generation != "blackwell":
        return Recipe(budget_tokens=32_768, memory_fraction=0.82)
    if launch.precision == "fp8" and launch.tp == 4:
        return Recipe(budget_tokens=8192, poll_steps=10, kv_dtype="fp8", memory_fraction=0.95)
    budget = 32_768 if launch.precision == "fp8" else 16_384
    return Recipe(budget_tokens=budget, poll_steps=30 if launch.clients >= 16 else 10, kv_dtype="fp8")


def _gpt_oss_tensorrt_llm(launch: Launch) -> Recipe:
    return Recipe(budget_tokens=20_000, kv_dtype="fp8" if launch.generation == "blackwell" else None)


def _llama_tensorrt_llm(launch: Launch) -> Recipe:
    """Short prompts with short answers wait for others to be let in with, on fewer than eight devices."""
    is_short = (launch.prompt_tokens, launch.output_tokens) == (1024, 1024)
    return Recipe(budget_tokens=16_384, batch_wait_steps=20 if is_short and launch.tp < 8 else None, kv_dtype="fp8")


def _minimax_vllm(launch: Launch) -> Recipe:
    """On Blackwell from April 2026 on a cache in fp8 and room for two prompts; before and elsewhere nothing."""
    if launch.generation == "blackwell" and launch.day >= datetime.date(2026, 4, 3):
        return Recipe(budget_tokens=2 * launch.prompt_tokens, kv_dtype="fp8")
    return Recipe()
