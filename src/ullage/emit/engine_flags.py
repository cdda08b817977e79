"""What each engine is started with: the plan's limits under the names that vLLM, SGLang and TensorRT-LLM have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ullage.emit.quantities import number
from ullage.emit.request import EmitPool
from ullage.emit.tree import Reasoned
from ullage.errors import InputError
from ullage.facts.engine import bounds_queue

_QUEUED = "limit.engine_queue_requests"


@dataclass(frozen=True, kw_only=True)
class EngineFlag:
    """One setting: its key in the engine's own file, its flag on the command line ('' where there is none)."""

    key: str
    flag: str
    value: int | float | str | bool
    why: str

    @property
    def words(self) -> list[str]:
        if not self.flag:
            return []
        return [self.flag] if self.value is True else [self.flag, _word(self.value)]


@dataclass(frozen=True, kw_only=True)
class EngineCommand:
    """How an engine is started: its command, its settings, and what of the plan it cannot enforce."""

    command: tuple[str, ...]
    flags: tuple[EngineFlag, ...]
    cannot: tuple[str, ...]

    def args(self, pool: EmitPool) -> list[Any]:
        """The arguments behind the command: the model, the plan's flags with their reasons, the user's own."""
        given = [str(each) for each in pool.may("args") or ()]
        own = {each.flag for each in self.flags}
        for word in given:
            if word.partition("=")[0] in own:
                raise InputError(
                    field=f"emit.workloads.{pool.pool}.args",
                    value=word,
                    problem="is set by the plan",
                    fix="Leave it out, or change the plan.",
                )
        words = [
            Reasoned(value=word, why=each.why) if place == 0 else word
            for each in self.flags
            for place, word in enumerate(each.words)
        ]
        return [pool.need("model"), *words, *given]


def engine_command(pool: EmitPool) -> EngineCommand:
    """The command of the pool's engine."""
    return ENGINES[pool.choice.engine](pool)


def _word(value: float | str) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _vllm(pool: EmitPool) -> EngineCommand:
    flags = [
        _served(pool, "served-model-name", "--served-model-name"),
        *_parallel(pool, "tensor-parallel-size", "pipeline-parallel-size"),
        *(
            [_said("enable-expert-parallel", True, "pool.expert_parallel: experts are divided")]
            if _experts(pool)
            else []
        ),
        _taken(pool, "max-model-len", "limit.context_tokens"),
        _taken(pool, "max-num-seqs", "limit.engine_running_requests"),
        *_vllm_in_flight(pool, "max-num-queued-reqs"),
        _budget(pool, "max-num-batched-tokens"),
        _taken(
            pool, "kv-cache-memory-bytes", "memory.kv_cache_bytes", because="of each device, in place of a fraction"
        ),
        _dtype(pool, "kv-cache-dtype", {"bf16": "auto", "fp16": "auto", "fp32": "auto"}),
        *_priority(pool, "scheduling-policy", "priority"),
        _caching(pool, "enable-prefix-caching"),
        *_adapters(pool, ("enable-lora", "max-loras", "max-lora-rank")),
        *_vllm_drafting(pool),
    ]
    bounded = (
        "vLLM refuses beyond max-num-queued-reqs with status 503, but not by class nor by age: waits by class are the "
        "gateway's."
    )
    queue = (bounded,) if _vllm_in_flight(pool, "") else _no_queue(
        pool, "vLLM", has_flag=bounds_queue("vllm", pool.choice.version)
    )  # fmt: skip
    cannot = (*queue, *_not_drafting(pool, ("mtp", "ngram")))
    return EngineCommand(command=("vllm", "serve"), flags=_on_command_line(flags), cannot=cannot)


def _vllm_in_flight(pool: EmitPool, key: str) -> list[EngineFlag]:
    """The bound on requests in the engine, running and waiting; versions without it queue what they are sent."""
    if not bounds_queue("vllm", pool.choice.version) or pool.find(_QUEUED) is None:
        return []
    _check_image(pool, key)
    running = "limit.engine_running_requests"
    why = f"running and waiting together: {pool.number(running).why}; {pool.number(_QUEUED).why}"
    return [_said(key, pool.whole(running) + pool.whole(_QUEUED), why)]


def _check_image(pool: EmitPool, key: str) -> None:
    """An engine does not start with a flag that its version has not. Images under other names say no version."""
    image = str(pool.may("image") or "")
    tag = re.search(r"vllm[^/:]*:v?(\d+\.\d+[.\d]*)", image)
    if tag is not None and not bounds_queue("vllm", tag[1]):
        raise InputError(
            field=f"emit.workloads.{pool.pool}.image",
            value=image,
            problem=f"does not know {key}, and the plan is made for {pool.choice.version or 'the newest version'}",
            fix=f"State pool.engine_version: {tag[1]} and plan again, or give the image that is planned for.",
        )


def _sglang(pool: EmitPool) -> EngineCommand:
    flags = [
        _served(pool, "served-model-name", "--served-model-name"),
        *_parallel(pool, "tp-size", "pp-size"),
        *([_said("ep-size", pool.choice.sharding.ep, "pool.expert_parallel")] if _experts(pool) else []),
        _taken(pool, "context-length", "limit.context_tokens"),
        _taken(pool, "max-running-requests", "limit.engine_running_requests"),
        *([_taken(pool, "max-queued-requests", _QUEUED)] if pool.find(_QUEUED) else []),
        _budget(pool, "chunked-prefill-size"),
        *([_taken(pool, "scheduler-recv-interval", "poll steps")] if pool.find("poll steps") else []),
        _taken(pool, "max-total-tokens", "memory.kv_tokens"),
        _dtype(pool, "kv-cache-dtype", {"bf16": "auto", "fp16": "auto", "fp32": "auto", "fp8": "fp8_e4m3"}),
        *_priority(pool, "enable-priority-scheduling", True),
        *_priority(pool, "schedule-low-priority-values-first", True),
        *_adapters(pool, ("enable-lora", "max-loras-per-batch", "max-lora-rank")),
        *_sglang_drafting(pool),
    ]
    bounded = (
        "SGLang refuses beyond max-queued-requests, but not by class nor by age: waits by class are the gateway's."
    )
    cannot = (
        *((bounded, *_lost(pool)) if pool.find(_QUEUED) else _no_queue(pool, "SGLang", has_flag=True)),
        *_not_drafting(pool, ("mtp",)),
    )
    return EngineCommand(
        command=("python3", "-m", "sglang.launch_server", "--model-path"), flags=_on_command_line(flags), cannot=cannot
    )


_FILE_ALONE = (
    "KV tokens, their dtype and block reuse are settings of trtllm-serve's file alone, not of its command line: target "
    "tensorrt-llm writes it; mount it, and add --config to emit.workloads args."
)


def _tensorrt_llm(pool: EmitPool) -> EngineCommand:
    tokens = _taken(pool, "kv_cache_config.max_tokens", "memory.kv_tokens")
    flags = [
        *_parallel(pool, "tensor_parallel_size", "pipeline_parallel_size"),
        *(
            [_said("moe_expert_parallel_size", pool.choice.sharding.ep, "pool.expert_parallel")]
            if _experts(pool)
            else []
        ),
        _taken(pool, "max_seq_len", "limit.context_tokens"),
        _taken(pool, "max_batch_size", "limit.engine_running_requests"),
        _budget(pool, "max_num_tokens"),
        tokens,
        _dtype(pool, "kv_cache_config.dtype", {"bf16": "auto", "fp16": "auto", "fp32": "auto"}),
        _caching(pool, "kv_cache_config.enable_block_reuse"),
    ]
    names = {
        "tensor_parallel_size": "--tp_size",
        "pipeline_parallel_size": "--pp_size",
        "moe_expert_parallel_size": "--ep_size",
        "max_seq_len": "--max_seq_len",
        "max_batch_size": "--max_batch_size",
        "max_num_tokens": "--max_num_tokens",
    }
    cannot = (
        ["trtllm-serve takes no priorities of requests: classes are only separated at the gateway."]
        if pool.has_priorities
        else []
    )
    return EngineCommand(
        command=("trtllm-serve",),
        flags=tuple(replace(each, flag=names.get(each.key, "")) for each in flags),
        cannot=(*cannot, _FILE_ALONE, *_no_queue(pool, "TensorRT-LLM"), *_not_drafting(pool, ())),
    )


ENGINES: Mapping[str, Callable[[EmitPool], EngineCommand]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
}


def _on_command_line(flags: list[EngineFlag]) -> tuple[EngineFlag, ...]:
    return tuple(replace(each, flag=f"--{each.key}") for each in flags)


def _said(key: str, value: int | str | bool, why: str) -> EngineFlag:
    return EngineFlag(key=key, flag="", value=value, why=why)


def _taken(pool: EmitPool, key: str, name: str, *, because: str = "") -> EngineFlag:
    why = pool.number(name).why
    return EngineFlag(key=key, flag="", value=pool.whole(name), why=f"{because}: {why}" if because else why)


def _served(pool: EmitPool, key: str, flag: str) -> EngineFlag:
    return EngineFlag(key=key, flag=flag, value=pool.served_model, why="emit: the model's name in requests")


def _parallel(pool: EmitPool, tensor: str, pipeline: str) -> list[EngineFlag]:
    sharding = pool.choice.sharding
    found = [_said(tensor, sharding.tp, "pool.tensor_parallel of the plan file")]
    return (
        [*found, _said(pipeline, sharding.pp, "pool.pipeline_parallel of the plan file")] if sharding.pp > 1 else found
    )


def _experts(pool: EmitPool) -> bool:
    return pool.choice.sharding.ep > 1


def _budget(pool: EmitPool, key: str) -> EngineFlag:
    stated = pool.choice.budget_tokens
    if stated is not None:
        return _said(key, stated, "pool.token_budget of the plan file")
    return _taken(pool, key, f"{pool.choice.engine} token_budget", because="written, so that no default changes it")


def _dtype(pool: EmitPool, key: str, names: Mapping[str, str]) -> EngineFlag:
    found = pool.number("KV dtype")
    said = str(found.value)
    return _said(key, names.get(said, said), found.why)


def _priority(pool: EmitPool, key: str, value: str | bool) -> list[EngineFlag]:
    why = "the plan's classes have priorities, 0 first: requests carry them"
    return [_said(key, value, why)] if pool.has_priorities else []


def _caching(pool: EmitPool, key: str) -> EngineFlag:
    shares = [pool.real(f"demand.{each.name}.cached_fraction") for each in pool.classes]
    why = f"the plan assumes cached prompt tokens: {', '.join(f'{each:.3g}' for each in shares)} of each class's"
    return _said(key, True, why if any(shares) else "the plan assumes none; reuse costs nothing")


def _adapters(pool: EmitPool, keys: tuple[str, str, str]) -> list[EngineFlag]:
    """The switch, the slots and the largest rank, by the engine's names for them."""
    if pool.choice.adapters is None:
        return []
    why = "pool.adapters of the plan file"
    return [_said(key, value, why) for key, value in zip(keys, (True, *pool.choice.adapters), strict=True)]


_DRAFTING = "pool.speculation of the plan file"


def _vllm_drafting(pool: EmitPool) -> list[EngineFlag]:
    """Speculation needs no model of its own here, so that its settings are known whole."""
    if pool.choice.drafting is None or pool.choice.drafting[0] not in ("mtp", "ngram"):
        return []
    method, tokens = pool.choice.drafting
    return [_said("speculative-config", f'{{"method": "{method}", "num_speculative_tokens": {tokens}}}', _DRAFTING)]


def _sglang_drafting(pool: EmitPool) -> list[EngineFlag]:
    if pool.choice.drafting is None or pool.choice.drafting[0] != "mtp":
        return []
    tokens = pool.choice.drafting[1]
    return [
        _said("speculative-algorithm", "EAGLE", _DRAFTING),
        _said("speculative-num-steps", tokens, _DRAFTING),
        _said("speculative-eagle-topk", 1, "a chain of drafts, as the plan simulates it"),
        _said("speculative-num-draft-tokens", tokens + 1, "those drafted, and the model's own"),
    ]


def _not_drafting(pool: EmitPool, written: tuple[str, ...]) -> tuple[str, ...]:
    """What the plan counts on and these flags do not start."""
    if pool.choice.drafting is None or pool.choice.drafting[0] in written:
        return ()
    method, tokens = pool.choice.drafting
    return (
        (
            f"The plan assumes speculation ({method}, {tokens} drafted), but these flags do not enable it: the path of "
            "its draft model is unknown. Add its settings to emit.workloads args."
        ),
    )


def _no_queue(pool: EmitPool, engine: str, *, has_flag: bool = False) -> tuple[str, ...]:
    why = (
        "is not given a bound on its queue: those that were simulated lose more, at the planned load or in overload"
        if has_flag
        else "has no flag that bounds its queue or the age of a waiting request"
    )
    return (
        (
            f"{engine} {why}: it queues all it is sent. "
            "Waits by class, rates and the queue bound are enforced by a gateway, or not at all."
        ),
        *_lost(pool),
    )


def _lost(pool: EmitPool) -> tuple[str, ...]:
    """What the plan says is lost where the engine's flags are all there is."""
    worst = max((1.0, 1.5, 3.0), key=lambda ratio: ratio if pool.find(f"limit.engine_success_at_{ratio:g}") else 0.0)
    alone, both = (pool.find(f"limit.{way}_success_at_{worst:g}") for way in ("engine", "gateway"))
    if alone is None or both is None or isinstance(alone.value, str) or isinstance(both.value, str):
        return ()
    return (
        (
            f"At {worst:g} times the planned load {alone.value:.1%} of requests succeed with these flags alone, and "
            f"{both.value:.1%} with a gateway that enforces the plan's limits."
        ),
    )
