"""The command line of an engine, under our names: which engine, which model, its parallelism, what it may hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Flags by engine, each under the name that a plan file has for it; engines take underscores for the inner dashes.
_FLAGS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "--model": "model",
        "--model-id": "model",
        "--tensor-parallel-size": "tensor_parallel",
        "-tp": "tensor_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "-pp": "pipeline_parallel",
        "--data-parallel-size": "data_parallel",
        "-dp": "data_parallel",
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
        "--tp-size": "tensor_parallel",
        "--pp-size": "pipeline_parallel",
        "--ep-size": "expert_parallel",
        "--max-batch-size": "max_sequences",
        "--max-num-tokens": "token_budget",
        "--max-seq-len": "max_context",
        "--kv-cache-free-gpu-memory-fraction": "memory_fraction",
    },
}
# Flags without a value: what they set, and to what.
_SWITCHES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "vllm": {
        "--enable-prefix-caching": ("prefix_cache", "on"),
        "--no-enable-prefix-caching": ("prefix_cache", "off"),
        "--enforce-eager": ("graphs", "off"),
    },
    "sglang": {"--disable-radix-cache": ("prefix_cache", "off"), "--disable-cuda-graph": ("graphs", "off")},
}
# How each engine is started; the first that the command line has decides.
_STARTS = (
    ("vllm", re.compile(r"\bvllm\b|vllm\.entrypoints")),
    ("sglang", re.compile(r"\bsglang\b")),
    ("tensorrt-llm", re.compile(r"trtllm-serve|tensorrt_llm")),
)
# The model stands without a flag behind these words, and behind the one that names what to do.
_POSITIONAL = {"vllm": "serve", "tensorrt-llm": "trtllm-serve"}
_COMMAND = "serve"
# Settings that are counts, and the suffixes that vLLM takes on them: 32k is 32,000 and 32K is 32,768.
_COUNTS = ("max_sequences", "token_budget", "max_context")
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
# $(NAME) is Kubernetes' own; $NAME, ${NAME} and ${NAME:-default} are those of a shell in the container.
_VARIABLE = re.compile(r"\$\((\w+)\)|\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")


@dataclass(frozen=True, kw_only=True)
class EngineArgs:
    """What a container starts; an empty engine is one that is not known here."""

    engine: str
    model: str
    settings: Mapping[str, str]
    version: str = ""


def engine_args(
    words: Sequence[str], *, image: str = "", env: Mapping[str, str] | None = None, engine: str = ""
) -> EngineArgs:
    """Read a container's command and arguments; a shell's one long word is taken apart.

    `env` are variables with a value; what follows another one, as of a secret, stays unknown. `engine` is the one that
    starts where neither words nor image say so.

    >>> engine_args(["vllm", "serve", "qwen/qwen3-32b", "--tensor-parallel-size=2", "--max-num-seqs", "128"]).settings
    {'tensor_parallel': '2', 'max_sequences': '128'}
    """
    flat = [part for word in words for part in _split(_expanded(word, env or {}))]
    line = " ".join(flat)
    engine = (
        next((name for name, start in _STARTS if start.search(line)), "")
        or next((name for name, start in _STARTS if start.search(image)), "")
        or engine
    )
    flags, switches = _FLAGS.get(engine, {}), _SWITCHES.get(engine, {})
    settings: dict[str, str] = {}
    for at, word in enumerate(flat):
        flag, has_value, value = word.partition("=")
        name, state = switches.get(word.replace("_", "-"), ("", ""))
        if name:
            settings[name] = state
        known = flags.get(flag.replace("_", "-"))
        if known is not None:
            follows = flat[at + 1] if at + 1 < len(flat) and not flat[at + 1].startswith("--") else ""
            settings[known] = _plain(known, value if has_value else follows)
    model = settings.pop("model", "") or _positional(flat, engine)
    return EngineArgs(
        engine=engine,
        model="" if _VARIABLE.search(model) else model,
        settings={key: each for key, each in settings.items() if each and not _VARIABLE.search(each)},
        version=image_version(image) if engine and _is_of(engine, image) else "",
    )


def _expanded(word: str, env: Mapping[str, str]) -> str:
    """The word with what its variables hold; one that nothing is known of stays as it is written."""

    def held(found: re.Match[str]) -> str:
        name = found.group(1) or found.group(2) or found.group(4)
        return env.get(name) or found.group(3) or found.group(0)

    return _VARIABLE.sub(held, word)


def _plain(name: str, text: str) -> str:
    """A count as its digits, whatever its suffix; whatever else as it is."""
    text = text.strip("'\"")
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([kmgKMG])", text) if name in _COUNTS else None
    return text if match is None else str(round(float(match.group(1)) * _SUFFIXES[match.group(2)]))


def _is_of(engine: str, image: str) -> bool:
    """Whether the image is the engine's own: llm-d's and KServe's count their own versions."""
    return re.sub(r"[-_]", "", engine) in re.sub(r"[-_]", "", image)


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
        return [each.rstrip(";") for each in shlex.split(word.replace("\\\n", " "), comments=True)]
    except ValueError:
        return word.split()


def _positional(words: Sequence[str], engine: str) -> str:
    before = _POSITIONAL.get(engine)
    for at, word in enumerate(words[:-1]):
        if before is not None and word.rsplit("/", 1)[-1] == before:
            behind = next((each for each in words[at + 1 : at + 3] if each != _COMMAND), "")
            return "" if behind.startswith("-") else behind
    # An image whose entry point is the engine gets the model as its first argument.
    return words[0] if words and "/" in words[0] and not words[0].startswith(("-", "/")) else ""
