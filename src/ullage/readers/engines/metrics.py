"""The `/metrics` page of an engine: the gauges and labels that state memory and KV capacity.

    vLLM           labels of vllm:cache_config_info, one sample per data-parallel engine
    SGLang         sglang:max_total_num_tokens and the *_memory_usage_gb gauges (its GB is 2^30), per rank
    TensorRT-LLM   trtllm_kv_cache_max_blocks, trtllm_kv_cache_tokens_per_block
    Triton         nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max" | "tokens_per"}

A page may hold several scrapes; the last value of a series counts, and the highest where it is a use.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.engine_report import EngineMemory, Rank, Reading, engine_memory, reading
from ullage.readers.engines.exposition import ExposedSample, parse_sample

_VLLM_LABELS = {
    "num_gpu_blocks": "kv_blocks",
    "block_size": "block_size",
    "kv_cache_size_tokens": "kv_tokens",
    "kv_cache_max_concurrency": "max_concurrency",
    "kv_cache_memory_bytes": "kv_cache",
    "gpu_memory_utilization": "memory_fraction",
}
_GAUGES = {
    "vllm:kv_cache_usage_perc": ("kv_usage", 1.0),
    "vllm:gpu_cache_usage_perc": ("kv_usage", 1.0),
    "sglang:max_total_num_tokens": ("kv_tokens", 1.0),
    "sglang:weight_memory_usage_gb": ("weights", 2.0**30),
    "sglang:kv_cache_memory_usage_gb": ("kv_cache", 2.0**30),
    "sglang:graph_memory_usage_gb": ("graphs", 2.0**30),
    "sglang:startup_available_gpu_memory_gb": ("free_after_start", 2.0**30),
    "sglang:token_usage": ("kv_usage", 1.0),
    "trtllm_kv_cache_max_blocks": ("kv_blocks", 1.0),
    "trtllm_kv_cache_tokens_per_block": ("block_size", 1.0),
    "trtllm_kv_cache_utilization": ("kv_usage", 1.0),
}
_TRITON = "nv_trt_llm_kv_cache_block_metrics"
_TRITON_TYPES = {"max": ("kv_blocks", 1.0), "tokens_per": ("block_size", 1.0), "fraction": ("kv_usage", 1.0)}
_ENGINES = (("vllm:", "vllm"), ("sglang:", "sglang"), ("trtllm_", "tensorrt-llm"), (_TRITON, "tensorrt-llm"))


def recognises(text: str) -> bool:
    """Whether lines of this text are samples of an engine's metrics."""
    return re.search(rf"(?m)^(?:(?:vllm|sglang):\w|trtllm_\w|{_TRITON})[\w:]*(?:\{{| )", text) is not None


def read(text: str, *, file: str, date: datetime.date) -> EngineMemory:
    """Read a page of metrics, or several scrapes of it one after the other."""
    kept: dict[tuple[str, Rank], Reading] = {}
    engines: set[str] = set()
    for number, sample in _samples(text, file):
        engine = next((name for prefix, name in _ENGINES if sample.name.startswith(prefix)), "")
        if not engine:
            continue
        engines.add(engine)
        rank = _rank(sample.labels)
        source = Source(what=f"{engine} metrics", where=f"{file}:{number}", date=date)
        for quantity, value in _values(sample):
            before = kept.get((quantity, rank))
            earlier = 0.0 if before is None or isinstance(before.figure.value, str) else before.figure.value
            highest = max(value, earlier) if quantity == "kv_usage" else value
            kept[quantity, rank] = reading(quantity, highest, rank, source)
    return _reported(kept, engines, file)


def _reported(kept: Mapping[tuple[str, Rank], Reading], engines: set[str], file: str) -> EngineMemory:
    if len(engines) > 1:
        raise InputError(
            field=file,
            value=sorted(engines),
            problem="this page holds the metrics of several engines",
            fix="Give the page of one.",
        )
    if not {"kv_tokens", "kv_blocks"}.intersection(quantity for quantity, _ in kept):
        raise InputError(
            field=file,
            value=f"{len(kept)} memory gauges",
            problem="this page does not state the KV capacity",
            fix="Give the whole /metrics page (SGLang: --enable-metrics, 0.5.7 or later).",
        )
    return engine_memory(engine=engines.pop(), version="", readings=list(kept.values()))


def _samples(text: str, file: str) -> Iterator[tuple[int, ExposedSample]]:
    names = tuple(prefix for prefix, _ in _ENGINES)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith(names):
            continue
        found = parse_sample(line)
        if found is None:
            raise InputError(
                field=f"{file}:{number}",
                value=line,
                problem="is not a sample of a metric; the page seems to be cut",
                fix="Give the whole /metrics page.",
            )
        yield number, found


def _values(sample: ExposedSample) -> list[tuple[str, float]]:
    if sample.name == "vllm:cache_config_info":
        stated = [(key, _number(sample.labels.get(label, ""))) for label, key in _VLLM_LABELS.items()]
        # Blocks set by hand leave part of kv_cache_memory_bytes untaken, and the page does not say how much.
        forced = _number(sample.labels.get("num_gpu_blocks_override", "")) is not None
        return [(key, value) for key, value in stated if value is not None and not (forced and key == "kv_cache")]
    if sample.name == _TRITON:
        known = _TRITON_TYPES.get(sample.labels.get("kv_cache_block_type", ""))
    else:
        known = _GAUGES.get(sample.name)
    return [] if known is None or not math.isfinite(sample.value) else [(known[0], sample.value * known[1])]


def _number(text: str) -> float | None:
    """A label as a finite number, or None for what engines write where they have none ("None", "NaN", "+Inf")."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _rank(labels: Mapping[str, str]) -> Rank:
    dp = labels.get("engine", labels.get("dp_rank", ""))
    within = " ".join(f"{key.upper()}{labels[f'{key}_rank']}" for key in ("pp", "tp") if labels.get(f"{key}_rank"))
    return Rank(dp=dp, within=within)
