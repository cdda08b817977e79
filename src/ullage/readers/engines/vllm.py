"""vLLM's start-up log, 0.7 to 0.32, on GPUs and CPUs, V0 and V1.

Wordings change from version to version; each rule names the versions it was seen in. "GB" in the lines of
0.7 is 2^30 bytes, as everywhere in vLLM. Only some lines are printed by every rank.
"""

from __future__ import annotations

import re

from ullage.readers.engines.lines import LogFormat, rule

# The non-default arguments, all on one line; a terminal wraps them, so that some may stand on the next.
_ARGUMENTS = (
    r"^(?:(?=.*'gpu_memory_utilization': (?P<memory_fraction__n>NUM)))?"
    r"(?:(?=.*'max_num_seqs': (?P<max_sequences__n>\d+)))?"
    r"(?:(?=.*'max_num_batched_tokens': (?P<token_budget__n>\d+)))?"
)
_ARGUMENT_NAMES = ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens")

LOG = LogFormat(
    engine="vllm",
    title="vLLM",
    rules=(
        # 0.7 | 0.8 | 0.9 to 0.11 | 0.12 and later
        rule("weights took", r"Loading model weights took (?P<weights__gib>NUM) Gi?B"),
        rule("Model loading took", r"Model loading took (?P<weights__gib>NUM) Gi?B"),
        # V0, 0.7 and 0.8: two lines of one profile
        rule(
            "total_gpu_memory (",
            r"total_gpu_memory \((?P<device_memory__gib>NUM)GiB\) x "
            r"gpu_memory_utilization \((?P<memory_fraction__n>NUM)\) = (?P<requested_memory__gib>NUM)GiB",
        ),
        rule(
            "model weights take",
            r"model weights take (?P<weights__gib>NUM)GiB; non_torch_memory takes (?P<non_torch__gib>NUM)GiB; "
            r"PyTorch activation peak memory takes (?P<activations__gib>NUM)GiB; "
            r"the rest of the memory reserved for KV Cache is (?P<kv_cache__gib>NUM)GiB",
        ),
        # V1
        rule("Available KV cache memory", r"Available KV cache memory: (?P<kv_cache__gib>NUM) GiB"),
        rule(
            "memory for KV Cache as specified", r"reserved (?P<kv_cache__gib>NUM) GiB memory for KV Cache as specified"
        ),
        # CPU backend: the cache was set by hand, of so much memory on the node
        rule(
            "for KV cache on node",
            r"Explicitly set \((?P<kv_cache__gib>NUM)/(?P<device_memory__gib>NUM)\) GiB for KV cache",
        ),
        # capacity: V0 blocks; V1 tokens, on one line with the concurrency by 0.32, on two before
        rule(" blocks:", r"# (?:GPU|CUDA|cuda|CPU|cpu) blocks: (?P<kv_blocks__n>NUM)"),
        # before the cache is sized, 0.19 to 0.20 print it of a cache of no bytes, for the profile of CUDA graphs alone
        rule(
            "num_gpu_blocks_override",
            r"Overriding num_gpu_blocks=(?!0 )(?P<kv_blocks_unforced__n>NUM) with "
            r"num_gpu_blocks_override=(?P<kv_blocks__n>NUM)",
        ),
        rule(
            "KV cache size:",
            r"KV cache size: (?P<kv_tokens__n>NUM) tokens(?:, Maximum concurrency for "
            r"(?P<context_tokens__n>NUM) tokens per request: (?P<max_concurrency__n>NUM)x)?",
        ),
        rule(
            "Maximum concurrency for",
            r"Maximum concurrency for (?P<context_tokens__n>NUM) tokens per request: (?P<max_concurrency__n>NUM)x",
        ),
        # graphs: measured at capture; foreseen since 0.18
        rule("Graph capturing finished", r"Graph capturing finished in \d+ secs, took (?P<graphs__gib>NUM) GiB"),
        rule("Estimated CUDA graph memory", r"Estimated CUDA graph memory: (?P<graphs_estimated__gib>NUM) GiB total"),
        rule(
            "CUDA graph pool memory",
            r"CUDA graph pool memory: (?P<graphs__gib>NUM) GiB \(actual\), "
            r"(?P<graphs_estimated__gib>NUM) GiB \(estimated\)",
        ),
        # the whole budget: 0.10 to about 0.27 | vLLM-Ascend | 0.28 and later
        rule(
            "Free memory on device",
            r"Free memory on device (?:\w+:\d+ )?"
            r"\((?P<free_at_start__gib>NUM)/(?P<device_memory__gib>NUM) GiB\) on startup\. "
            r"Desired GPU memory utilization is \((?P<memory_fraction__n>NUM), (?P<requested_memory__gib>NUM) GiB\)\. "
            r"Actual usage(?: is|:) "
            r"(?:(?P<weights__gib>NUM) GiB for weights?|"
            r"(?P<weights_and_non_torch__gib>NUM) GiB for consumed memory \(weights \+ non-torch\)), "
            r"(?P<activations__gib>NUM) GiB for peak activation, "
            r"(?:(?P<non_torch__gib>NUM) GiB for non-torch memory, )?"
            r"(?:and )?(?P<graphs__gib>NUM) GiB for (?:CUDAGraph|NPU graph) memory"
            r"(?:.*Current kv cache memory in use is (?P<kv_cache__gib>NUM) GiB)?",
        ),
        # settings and use
        rule("cache block size to", r"Setting kv cache block size to (?P<block_size__n>\d+) for"),
        rule("attention block size to", r"Setting attention block size to (?P<block_size__n>\d+) tokens"),
        *(rule(f"'{name}': ", _ARGUMENTS) for name in _ARGUMENT_NAMES),
        rule(
            "max_num_batched_tokens=",
            r"Chunked prefill is enabled with max_num_batched_tokens=(?P<token_budget__n>\d+)",
        ),
        rule("KV cache usage:", r"KV cache usage: (?P<kv_usage__percent>NUM)%"),
    ),
    rank=re.compile(r"\((?:EngineCore|Worker|VllmWorker|VllmWorkerProcess|RayWorker)[^()]*\)"),
    start=re.compile(r"vLLM API server version|[█▀▄] +version \d|Initializing a V0 LLM engine"),
    version=re.compile(r"(?:vLLM API server version|[█▀▄] +version|LLM engine \(v)\s*v?(\d+\.\d+[\w.]*)"),
    ready=re.compile(r"Application startup complete|Starting vLLM (?:API )?server"),
    marks=("version", "LLM engine", "Application startup complete", "Starting vLLM"),
    signs=re.compile(
        r"vLLM API server version|LLM engine \(v|(?:GPU|CPU|GPU \+ host) KV cache size: [\d,]+ tokens|"
        r"# (?:GPU|CUDA|cuda) blocks: \d|Available KV cache memory: |the current vLLM instance|model weights take |"
        r"Loading model weights took [\d.]+ GB|"
        r"Free memory on device (?:\w+:\d+ )?\([\d.]+/[\d.]+ GiB\)|Maximum concurrency for [\d,]+ tokens per request|"
        r"\[(?:gpu_worker|gpu_model_runner|kv_cache_utils|cpu_worker|loggers)\.py:\d+\]|[█▀▄] +version \d"
    ),
    fix="Give the log from the engine's start to its first request, of INFO level.",
)
