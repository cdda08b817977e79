"""The command line of an engine, under our names: which engine, which model, its parallelism, what it may hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Flags by engine, each under the name that a plan file has for it.
_FLAGS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "--model": "model",
        "--tensor-parallel-size": "tensor_parallel",
        "-tp": "tensor_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "-pp": "pipeline_parallel",
        "--data-parallel-size": "data_parallel",
        "--max-num-seqs": "max_sequences",
        "--max-num-batched-tokens": "token_budget",
        "--gpu-memory-utilization": "memory_fraction",
        "--max-model-len": "max_context",
        "--kv-cache-dtype": "kv_dtype",
        "--quantization": "quantization",
        "-q": "quantization",
        "--served-model-name": "served_name",
    },
    "sglang": {
        "--model-path": "model",
        "--model": "model",
        "--tp-size": "tensor_parallel",
        "--tp": "tensor_parallel",
        "--tensor-parallel-size": "tensor_parallel",
        "--pp-size": "pipeline_parallel",
        "--dp-size": "data_parallel",
        "--ep-size": "expert_parallel",
        "--max-running-requests": "max_sequences",
        "--chunked-prefill-size": "token_budget",
        "--scheduler-recv-interval": "poll_steps",
        "--mem-fraction-static": "memory_fraction",
        "--context-length": "max_context",
        "--kv-cache-dtype": "kv_dtype",
        "--quantization": "quantization",
    },
    "tensorrt-llm": {
        "--model": "model",
        "--tp_size": "tensor_parallel",
        "--pp_size": "pipeline_parallel",
        "--ep_size": "expert_parallel",
        "--max_batch_size": "max_sequences",
        "--max_num_tokens": "token_budget",
        "--max_seq_len": "max_context",
        "--kv_cache_free_gpu_memory_fraction": "memory_fraction",
    },
}
# How each engine is started; the first that the command line has decides.
_STARTS = (
    ("vllm", re.compile(r"\bvllm\b|vllm\.entrypoints")),
    ("sglang", re.compile(r"\bsglang\b")),
    ("tensorrt-llm", re.compile(r"trtllm-serve|tensorrt_llm")),
)
# The model stands without a flag behind these words.
_POSITIONAL = {"vllm": "serve", "tensorrt-llm": "trtllm-serve"}


@dataclass(frozen=True, kw_only=True)
class EngineArgs:
    """What a container starts; an empty engine is one that is not known here."""

    engine: str
    model: str
    settings: Mapping[str, str]
    version: str = ""


def engine_args(words: Sequence[str], *, image: str = "") -> EngineArgs:
    """Read a container's command and arguments; a shell's one long word is taken apart.

    >>> engine_args(["vllm", "serve", "qwen/qwen3-32b", "--tensor-parallel-size=2", "--max-num-seqs", "128"]).settings
    {'tensor_parallel': '2', 'max_sequences': '128'}
    """
    flat = [part for word in words for part in _split(word)]
    line = " ".join(flat)
    engine = next((name for name, start in _STARTS if start.search(line)), "") or next(
        (name for name, start in _STARTS if start.search(image)), ""
    )
    flags = _FLAGS.get(engine, {})
    settings: dict[str, str] = {}
    for at, word in enumerate(flat):
        flag, has_value, value = word.partition("=")
        if flag in flags:
            follows = flat[at + 1] if at + 1 < len(flat) and not flat[at + 1].startswith("--") else ""
            settings[flags[flag]] = value if has_value else follows
    model = settings.pop("model", "") or _positional(flat, engine)
    return EngineArgs(
        engine=engine,
        model=model,
        settings={key: each for key, each in settings.items() if each},
        version=image_version(image) if engine else "",
    )


def image_version(image: str) -> str:
    """The version in an image's tag; empty where the tag names none, as `latest` does.

    >>> image_version("lmsysorg/sglang:v0.5.9-cu129"), image_version("localhost:5000/vllm:latest")
    ('0.5.9', '')
    """
    name, _, _ = image.partition("@")
    found = re.match(r"v?(\d+\.\d+(?:\.\d+)?)", name.rpartition("/")[2].partition(":")[2])
    return found.group(1) if found else ""


def _split(word: str) -> list[str]:
    """A word as it is, or the command inside it where a shell was given one."""
    if not re.search(r"\s", word):
        return [word]
    try:
        return shlex.split(word.replace("\\\n", " "), comments=True)
    except ValueError:
        return word.split()


def _positional(words: Sequence[str], engine: str) -> str:
    before = _POSITIONAL.get(engine)
    for at, word in enumerate(words[:-1]):
        if before is not None and word.rsplit("/", 1)[-1] == before and not words[at + 1].startswith("-"):
            return words[at + 1]
    # An image whose entry point is the engine gets the model as its first argument.
    return words[0] if words and "/" in words[0] and not words[0].startswith(("-", "/")) else ""
