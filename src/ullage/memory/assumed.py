"""What a budget assumes where neither the engine's sheet nor a log states it; each value beside its reason."""

from __future__ import annotations

import datetime

from ullage.evidence import Assumption, Evidence, Source

_MEASURED_HERE = Source(
    what="PyTorch 2.11 on one NVIDIA H200, driver 580.159.04: 101 MB reserved beyond a peak of 906 MB in use",
    where="bench/device_memory.py, results in bench/RESULTS.md",
    date=datetime.date(2026, 11, 15),
)

FRAGMENTATION = Assumption(
    name="fragmentation",
    value=0.11,
    unit="of activations",
    evidence=Evidence.ASSUMED,
    source=_MEASURED_HERE,
    low=0.0,
    high=0.3,
)
"""What the caching allocator holds beyond the bytes in use. Blocks are rounded up and split; engines count the bytes
in use, so this comes on top. The range: none with expandable segments, a third where requests vary widely."""

NO_MEMORY = Assumption(
    name="not on this engine",
    value=0,
    unit="bytes",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="the engine's sheet states no such memory", where="facts/engines", date=datetime.date(2026, 11, 15)
    ),
)

EVERY_STEP = Assumption(
    name="poll steps",
    value=1,
    unit="count",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="an engine whose sheet says nothing looks for new requests before every step, as the usual three do",
        where="facts/engines",
        date=datetime.date(2026, 11, 16),
    ),
)

PRESENT_NEED = Assumption(
    name="capacity policy",
    value="present_need",
    unit="text",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="an engine whose sheet says nothing lets a request in when its first tokens fit, as vLLM does",
        where="facts/engines",
        date=datetime.date(2026, 11, 16),
    ),
)

CONSERVATIVENESS = Assumption(
    name="conservativeness",
    value=1.0,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="SGLang 0.5.9 source: schedule_conservativeness, by which the first new-token ratio of 0.7 is multiplied",
        where="github.com/sgl-project/sglang, python/sglang/srt/server_args.py",
        date=datetime.date(2026, 11, 16),
    ),
)

OUTPUT_LIMIT = Assumption(
    name="max output",
    value="the 99th percentile of output lengths in each class",
    unit="text",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="logs rarely state max_tokens; clients that set it leave room for nearly all of their answers, and load "
        "tests ask for the length that they get",
        where="ullage.simulate.compile",
        date=datetime.date(2026, 11, 16),
    ),
)

SGLANG_SEQUENCES = Assumption(
    name="max sequences",
    value=2048,
    unit="sequences",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="SGLang 0.5.18 source: sequences follow from the tokens that fit, at least 2048 and at most 4096",
        where="github.com/sgl-project/sglang, python/sglang/srt/mem_cache/kv_cache_configurator.py",
        date=datetime.date(2026, 8, 20),
    ),
    low=2048,
    high=4096,
)
"""SGLang has no fixed default: it derives the number from the KV cache, which is what is being computed here."""

HOST_PROCESS = Assumption(
    name="host memory of a worker",
    value=1_189_294_080,
    unit="bytes",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="a process with PyTorch 2.11 and a CUDA 13 context on one NVIDIA H200: 1.19 GB resident at its peak",
        where="bench/device_memory.py, results in bench/RESULTS.md",
        date=datetime.date(2026, 11, 15),
    ),
    low=1_000_000_000,
    high=8_000_000_000,
)
"""One worker process per device. The bare libraries are the least; tokenisers, compiled code and message buffers of an
engine come on top, which is why the range is wide and lies above."""

ONE_SEQUENCE = Assumption(
    name="approved sequences",
    value=1,
    unit="sequences",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="vLLM refuses to start unless one sequence of the longest context fits: kv_cache_utils.py, 0.7 to 0.27",
        where="github.com/vllm-project/vllm",
        date=datetime.date(2026, 8, 23),
    ),
)
"""The load that must fit where none was approved."""
