"""SGLang's start-up log, 0.4 to 0.5.23. Its "GB" is 2^30 bytes.

Every rank prints nearly every line. A model with a draft model, or with sliding windows, allocates several
cache pools: their bytes add up, and the tokens are those of the first pool or of `max_total_num_tokens`.
With post-capture sizing the first allocation is an upper bound of addresses and does not count.
"""

from __future__ import annotations

import re

from ullage.readers.engines.lines import LogFormat, rule

LOG = LogFormat(
    engine="sglang",
    title="SGLang",
    rules=(
        rule(
            "server_args=ServerArgs(",
            r"ServerArgs\((?:(?=.*\bmem_fraction_static=(?P<memory_fraction__n>NUM)))?"
            r"(?:(?=.*\bpage_size=(?P<block_size__n>\d+)))?",
        ),
        rule("Init torch distributed ends", r"Init torch distributed ends\..*mem usage=(?P<communication__gib>NUM) GB"),
        rule("Load weight begin", r"Load weight begin\. avail mem=(?P<free_at_start__gib>NUM) GB"),
        # A draft model is loaded after the target, and both stay.
        rule("Load weight end", r"Load weight end\..*mem usage=(?P<weights__gib>NUM) GB", adds=True),
        rule(
            "Post-capture KV sizing: KV cache allocated",
            r"KV cache allocated\..*#tokens: (?P<kv_tokens__n>NUM), KV size: (?P<kv_cache__gib>NUM) GB"
            r"(?:, avail mem=(?P<free_after_start__gib>NUM) GB)?",
        ),
        rule(
            "KV Cache is allocated",
            r"KV Cache is allocated\.(?: dtype: [^,]+,)? #tokens: (?P<kv_tokens__n>NUM), "
            r"(?:K size: (?P<kv_cache__gib__k>NUM) GB, V size: (?P<kv_cache__gib__v>NUM) GB|"
            r"KV size: (?P<kv_cache__gib__kv>NUM) GB)",
            adds=True,
        ),
        rule(
            "Mamba Cache is allocated",
            r"conv_state size: (?P<state_cache__gib__conv>NUM) ?GB, ssm_state size: (?P<state_cache__gib__ssm>NUM) ?GB",
            adds=True,
        ),
        rule("Memory pool end", r"Memory pool end\. avail mem=(?P<free_after_start__gib>NUM) GB"),
        rule(
            "graph end.",
            r"Capture .*graph end\. (?:Time elapsed: |elapsed=)NUM s[.,] mem usage=(?P<graphs__gib>NUM) GB",
            adds=True,
        ),
        rule(
            "max_total_num_tokens=",
            r"max_total_num_tokens=(?P<kv_tokens__n>\d+)"
            r"(?:, chunked_prefill_size=(?P<token_budget__n>\d+))?"
            r"(?:, max_prefill_tokens=\d+)?(?:, max_running_requests=(?P<max_sequences__n>\d+))?"
            r"(?:, context_len=(?P<context_tokens__n>\d+))?"
            r"(?:, available_[gc]pu_mem=(?P<free_after_start__gib>NUM) GB)?",
        ),
        rule("token usage:", r"token usage: (?P<kv_usage__n>NUM)"),
    ),
    rank=re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d((?: (?:MOE_)?(?:DP|TP|PP|EP)\d+)+)\]"),
    start=re.compile(r"server_args=ServerArgs\("),
    version=re.compile(r"(?i)sglang(?: version)?[ :=]+v?(\d+\.\d+[\w.]*)"),
    ready=re.compile(r"The server is fired up"),
    marks=("server_args=", "version", "fired up"),
    signs=re.compile(
        r"server_args=ServerArgs\(|KV Cache is allocated\.|max_total_num_tokens=\d|Load weight (?:begin|end)\.|"
        r"Memory pool end\. avail mem|Capture .{0,30}cuda graph (?:begin|end)|Post-capture KV sizing"
    ),
    fix="Give the log from the server's start to 'The server is fired up'.",
)
