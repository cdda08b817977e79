"""KV capacity compared with engine logs: `make bench-memory`.

Each reference is something an engine printed about itself. Two questions are asked of each, and a naive estimate
(sold memory x fraction - parameters, every layer keeping every token) is asked the second one as a baseline:

    given the bytes of its KV cache, how many tokens fit?   our bytes a token; within 0.1 %
    given nothing but model, device and settings?           the whole budget;  within 3 %

Nothing here is fitted: no coefficient was chosen to meet a reference, and the facts of engines and devices stand in
their own sheets with their own sources. The gpt-oss rows did teach something: their weights were 9 to 14 % larger than
the parameters, and the reason was then read in vLLM's source (memory/padding.py).
"""

from __future__ import annotations

import datetime
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage import verbs
from ullage.errors import Rejection
from ullage.evidence import Source
from ullage.facts.model import BF16, DenseFeedForward, GroupedAttention, Layer, LayerGroup, Model
from ullage.memory.budget import MemoryBudget
from ullage.memory.kv import kv_dtype
from ullage.memory.parameters import parameter_count, weight_lines
from ullage.readers.engines import read_engine_report

GIB = 2**30
DAY = datetime.date(2026, 11, 15)
TOKEN_LIMIT_FRACTION, BUDGET_LIMIT_FRACTION = 0.001, 0.03


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What an engine said: tokens, and the bytes of its cache on one device where it printed them.

    `rounding_bytes` is half the last printed digit of those bytes, which no computation can beat. `whole` says that
    settings are known well enough to ask for the budget from nothing.
    """

    what: str
    source: str
    model: str | Model
    device: str
    tokens: int
    kv_bytes: float | None = None
    rounding_bytes: float = 0.0
    whole: bool = True
    explained: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


_INFERENCE_SIM = {"version": "0.16", "step_tokens": 2048, "max_sequences": 128, "max_context_tokens": 4096}
_GPT_OSS = {"version": "0.22", "memory_fraction": 0.9, "step_tokens": 8192, "max_context_tokens": 2068}
_HALF_DIGIT = 0.005 * GIB

REFERENCES = (
    Reference(
        what="Llama-2-7B, 1 H100, vLLM: 7,462 blocks",
        source="inference-sim/training replay data, 2026-02; its version is not recorded, 0.16 is of that week",
        model="llama-2-7b",
        device="h100-sxm",
        tokens=7462 * 16,
        settings=_INFERENCE_SIM,
    ),
    Reference(
        what="Llama-2-70B, 4 H100, vLLM: 31,356 blocks",
        source="inference-sim/training replay data, 2026-02",
        model="llama-2-70b",
        device="h100-sxm",
        tokens=31356 * 16,
        settings={**_INFERENCE_SIM, "tp": 4},
    ),
    Reference(
        what="Llama-3.1-8B, 1 A100 80GB, vLLM 0.31",
        source="a public start-up log of 2026-10-06",
        model="llama-3.1-8b",
        device="a100-80gb-sxm",
        tokens=460_496,
        kv_bytes=56.21 * GIB,
        rounding_bytes=_HALF_DIGIT,
        settings={"version": "0.31"},
    ),
    *(
        Reference(
            what=f"gpt-oss-120b, {tp} H200, vLLM 0.22, {context} tokens",
            source="server logs of GloriaXimingLu/inferencex-profiling (tp 1) and heyram74/nebius_sopertors_inferencex",
            model="gpt-oss-120b",
            device="h200-sxm",
            tokens=tokens,
            kv_bytes=gib * GIB,
            rounding_bytes=_HALF_DIGIT,
            settings={**_GPT_OSS, "tp": tp, "max_sequences": sequences, "max_context_tokens": context},
        )
        for tp, context, sequences, gib, tokens in (
            (1, 2068, 64, 57.22, 825_377),
            (1, 9472, 64, 57.22, 886_521),
            (2, 2068, 64, 88.77, 2_560_976),
            (4, 2068, 4, 106.27, 6_131_120),
            (8, 2068, 64, 114.84, 13_251_688),
        )
    ),
    Reference(
        what="DeepSeek-R1, 8 H200, SGLang 0.5.12",
        source="server log of heyram74/nebius_sopertors_inferencex_benchmark, 2026-06-11",
        model="deepseek-r1",
        device="h200-sxm",
        tokens=509_157,
        kv_bytes=33.32 * GIB,
        rounding_bytes=_HALF_DIGIT,
        settings={
            "engine": "sglang",
            "version": "0.5.12",
            "tp": 8,
            "memory_fraction": 0.82,
            "step_tokens": 32768,
            "max_sequences": 512,
        },
    ),
    Reference(
        what="Qwen3-235B-A22B, tp 4, SGLang",
        source="vllm-project/vllm issue 21348",
        model="qwen3-235b-a22b",
        device="h200-sxm",
        tokens=367_404,
        kv_bytes=2 * 8.23 * GIB,
        rounding_bytes=2 * _HALF_DIGIT,
        whole=False,
        settings={"engine": "sglang", "tp": 4},
    ),
    Reference(
        what="Qwen3-32B, tp 4, SGLang",
        source="sgl-project/sglang issue 22537",
        model="qwen3-32b",
        device="b200-sxm",
        tokens=2_206_208,
        kv_bytes=2 * 67.33 * GIB,
        rounding_bytes=2 * _HALF_DIGIT,
        whole=False,
        settings={"engine": "sglang", "tp": 4},
    ),
    Reference(
        what="Llama-2-7B, TensorRT-LLM 0.8",
        source="NVIDIA/TensorRT-LLM issue 1400",
        model="llama-2-7b",
        device="h100-sxm",
        tokens=132_608,
        kv_bytes=69_524_783_104,
        whole=False,
        settings={"engine": "tensorrt-llm", "version": "0.8", "step_tokens": 2048, "max_sequences": 128},
    ),
    Reference(
        what="Qwen3-235B-A22B, tp 4, vLLM 0.9 with LMCache",
        source="vllm-project/vllm issue 21348",
        model="qwen3-235b-a22b",
        device="h200-sxm",
        tokens=178_880,
        kv_bytes=8.11 * GIB,
        rounding_bytes=_HALF_DIGIT,
        whole=False,
        explained="the LMCache connector keeps part of the KV memory for itself",
        settings={"version": "0.9", "tp": 4},
    ),
)


def tiny_model() -> Model:
    """A stand-in for the model of the CPU logs, whose shape is not published: it keeps 2,048 bytes a token."""
    heads = GroupedAttention(query_heads=4, kv_heads=2, key_channels=64, value_channels=64)
    layer = Layer(mixers=(heads,), feed_forward=DenseFeedForward(inner_channels=1024))
    return Model(
        name="tiny",
        architecture="LlamaForCausalLM",
        hidden_channels=256,
        vocabulary_tokens=32000,
        layers=(LayerGroup(layer=layer, layers=4),),
        max_context_tokens=1024,
        tied_embeddings=False,
        base_format=BF16,
        embedding_format=BF16,
        head_format=BF16,
        sources=(Source(what="a stand-in of 2,048 KV bytes a token", where="bench/memory.py", date=DAY),),
    )


def cpu_references(data: Path) -> list[Reference]:
    """What the two CPU engines logged: 1 GiB of cache each. One log forces its blocks; it is asked for those that
    would have fitted, which it states too."""
    found = []
    for name in ("vllm_0.32.0_cpu_serve.log", "vllm_0.32.0_cpu_serve_smallkv.log"):
        reported = read_engine_report(data / "engines" / "vllm" / name, date=DAY)
        per_token, tokens = reported.kv_bytes_per_token, reported.number("kv_tokens")
        assert per_token is not None
        assert tokens is not None
        found.append(
            Reference(
                what=f"tiny model, CPU, vLLM 0.32 ({name})",
                source=f"engines/vllm/{name}",
                model=tiny_model(),
                device="h100-sxm",
                tokens=int(tokens),
                kv_bytes=per_token * tokens,
                whole=False,
                settings={"version": "0.32"},
            )
        )
    return found


def budget(reference: Reference, **more: Any) -> MemoryBudget | Rejection:
    return verbs.memory(reference.model, device=reference.device, as_of=DAY, **{**reference.settings, **more}).found


def tokens_given_bytes(reference: Reference) -> int | None:
    if reference.kv_bytes is None:
        return None
    # The device only lends its name here: with the cache's bytes stated, nothing else enters its tokens.
    found = budget(reference, kv_pool_bytes=int(reference.kv_bytes), weight_offload_bytes=1 << 50)
    return found.kv_tokens if isinstance(found, MemoryBudget) else None


def tokens_from_nothing(reference: Reference) -> int | None:
    found = budget(reference) if reference.whole else None
    return found.kv_tokens if isinstance(found, MemoryBudget) else None


def naive_tokens(reference: Reference) -> int:
    """What a parameter count and a data sheet give: no runtime, no windows, no padding."""
    found = budget(reference)
    assert isinstance(found, MemoryBudget)
    model, sharding = found.model, found.runtime.sharding
    sold = float(found.device.marketing_memory.value)
    fraction = float(found.runtime.memory_fraction.value)
    bits = sum(line.stored_bytes for line in weight_lines(model)) * 8 / parameter_count(model, mtp=True)
    weights = parameter_count(model) * bits / 8 / sharding.devices
    per_token = 0.0
    for layer in model.each_layer():
        for mixer in layer.mixers:
            if isinstance(mixer, GroupedAttention):
                per_token += mixer.kv_heads * (mixer.key_channels + mixer.value_channels)
            else:
                per_token += getattr(mixer, "latent_channels", 0) + getattr(mixer, "rope_channels", 0)
    width = kv_dtype(found.runtime.cache.name).value_bytes
    return int((sold * fraction - weights) / (per_token * width / sharding.tp))


def percent(ours: int | None, theirs: int) -> str:
    return "-" if ours is None else f"{100 * (ours / theirs - 1):+.2f} %"


def row(reference: Reference) -> tuple[str, list[str]]:
    """One line of the table, and what is wrong with it."""
    given, whole = tokens_given_bytes(reference), tokens_from_nothing(reference)
    naive = naive_tokens(reference) if reference.whole else None
    misses = []
    slack = reference.rounding_bytes / reference.kv_bytes if reference.kv_bytes else 0.0
    if given is not None and abs(given / reference.tokens - 1) > TOKEN_LIMIT_FRACTION + slack:
        misses.append(f"{reference.what}: bytes a token off by {percent(given, reference.tokens)}; {_why(reference)}")
    if whole is not None and abs(whole / reference.tokens - 1) > BUDGET_LIMIT_FRACTION:
        misses.append(f"{reference.what}: tokens off by {percent(whole, reference.tokens)}; {_why(reference)}")
    cells = (
        reference.what,
        f"{reference.tokens:,}",
        percent(given, reference.tokens),
        "-" if whole is None else f"{whole:,}",
        percent(whole, reference.tokens),
        percent(naive, reference.tokens),
    )
    return f"| {' | '.join(cells)} |", misses


def _why(reference: Reference) -> str:
    return reference.explained or "NOT EXPLAINED"


def main() -> int:
    data = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    references = [*REFERENCES, *(cpu_references(data) if data.is_dir() else ())]
    print("| engine log | tokens | from its bytes | from nothing | error | naive error |")
    print("|---|---|---|---|---|---|")
    misses: list[str] = []
    for reference in references:
        line, wrong = row(reference)
        print(line)
        misses += wrong
    print()
    for miss in misses:
        print(f"Miss: {miss}.")
    print(f"{len(references)} references, {len(misses)} misses.")
    return 1 if any("NOT EXPLAINED" in miss for miss in misses) else 0


if __name__ == "__main__":
    sys.exit(main())
