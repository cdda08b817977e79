"""TensorRT-LLM's start-up log, 0.8 to 1.3, of the TensorRT and the PyTorch backend.

The PyTorch backend allocates a small KV cache to measure with, then the real one: the last line counts.
"MB" and "GB" of the runtime buffers are decimal or not by version; the difference is below what they matter.
"""

from __future__ import annotations

import re

from ullage.readers.engines.lines import LogFormat, rule

LOG = LogFormat(
    engine="tensorrt-llm",
    title="TensorRT-LLM",
    rules=(
        rule("Loaded engine size", r"Loaded engine size: (?P<weights__mib>NUM) MiB"),
        rule("Memory usage when loading", r"Memory usage when loading weights: (?P<weights__gib>NUM) GiB"),
        # the PyTorch backend measures one run before it sizes the cache
        rule(
            "loading model weights (inside torch)",
            r"loading model weights \(inside torch\) in memory usage profiling: (?P<weights__gib>NUM) GiB",
        ),
        rule(
            "during inference (inside torch)",
            r"during inference \(inside torch\) in memory usage profiling: (?P<activations__gib>NUM) GiB",
        ),
        rule(
            "Memory used outside torch",
            r"Memory used outside torch.* in memory usage profiling: (?P<non_torch__gib>NUM) GiB",
        ),
        rule(
            "Peak memory during memory usage",
            r"fraction is set (?P<memory_fraction__n>NUM),.*device total memory (?P<device_memory__gib>NUM) GiB",
        ),
        # the TensorRT backend
        rule("execution context memory", r"Allocated (?P<activations__mib>NUM) Mi?B for execution context memory"),
        rule("execution context memory", r"Allocated (?P<activations__gib>NUM) Gi?B for execution context memory"),
        rule("for runtime buffers", r"Allocated (?P<workspace__mb>NUM) MB GPU memory for runtime buffers", adds=True),
        rule("for runtime buffers", r"Allocated (?P<workspace__gb>NUM) GB GPU memory for runtime buffers", adds=True),
        rule("for decoder", r"Allocated (?P<workspace__mb>NUM) MB GPU memory for decoder", adds=True),
        rule("for decoder", r"Allocated (?P<workspace__gb>NUM) GB GPU memory for decoder", adds=True),
        rule(
            "calculating max tokens",
            r"in paged kv cache: total: (?P<device_memory__gib>NUM) GiB, available: (?P<free_for_kv__gib>NUM) GiB",
        ),
        rule("bytes for k/v cache", r"Allocate (?P<kv_cache__bytes>NUM) bytes for k/v cache"),
        rule("tokens in paged KV cache.", r"Using (?P<kv_tokens__n>NUM) tokens in paged KV cache"),
        rule("KV cache primary pool", r"Number of blocks in KV cache primary pool: (?P<kv_blocks__n>NUM)"),
        rule(
            "primary blocks=",
            r"tokens per block=(?P<block_size__n>NUM), primary blocks=(?P<kv_blocks__n>NUM)",
        ),
        rule("tokens per block:", r"Number of tokens per block: (?P<block_size__n>\d+)"),
        rule(
            "max tokens in paged KV cache (",
            r"Allocated (?P<kv_cache__gib>NUM) GiB for max tokens in paged KV cache \((?P<kv_tokens__n>NUM)\)",
        ),
        rule(
            "max_num_requests=",
            r"max_seq_len=(?P<context_tokens__n>\d+), max_num_requests=(?P<max_sequences__n>\d+), "
            r"max_num_tokens=(?P<token_budget__n>\d+)(?:, max_batch_size=\d+)?",
        ),
    ),
    rank=re.compile(r"\[RANK \d+\]|^\[\d+,\d+\]"),
    start=re.compile(r"(?!)"),
    version=re.compile(r"TensorRT-LLM version:? v?(\d+\.\d+[\w.]*)"),
    ready=re.compile(r"Application startup complete|Engine loaded and ready to serve"),
    marks=("version", "Application startup complete", "ready to serve"),
    signs=re.compile(r"\[TensorRT-LLM\]|\[TRT-LLM\]"),
    fix="Give the log from the server's start on, of INFO level.",
)
