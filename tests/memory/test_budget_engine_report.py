"""Budgets from nothing but model, device and settings, against what engines report.

The figures are printed by `make bench-memory` with their sources; here they must stay within 3 %. No coefficient was
chosen to meet them.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from ullage import verbs
from ullage.memory.budget import MemoryBudget
from ullage.memory.estimate import LineName

NEAR_FRACTION = 0.03


def tokens(model: str, device: str, **stated: object) -> int:
    found = verbs.memory(model, device=device, **stated).found  # type: ignore[arg-type]
    assert isinstance(found, MemoryBudget), found
    return found.kv_tokens


def test_vllm_on_h100_against_the_published_runs(shared_data: Path) -> None:
    """Every run of the request file: blocks as the engine counted them. Until 0.19 the default fraction is 0.9."""
    runs = {}
    with gzip.open(shared_data / "measured" / "vllm_h100_requests.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs[row["experiment"]] = row
    assert len(runs) >= 5
    for name, run in runs.items():
        ours = tokens(
            run["model"],
            "h100",
            tp=int(run["tp"]),
            version="0.16",
            step_tokens=int(run["max_num_batched_tokens"]),
            max_sequences=int(run["max_num_seqs"]),
            max_context_tokens=4096,
        )
        said = int(run["kv_blocks"]) * int(run["block_size"])
        assert ours == pytest.approx(said, rel=NEAR_FRACTION), name


@pytest.mark.parametrize(
    ("tp", "context", "sequences", "said"),
    [
        (1, 2068, 64, 825_377),
        (1, 9472, 64, 886_521),
        (2, 2068, 64, 2_560_976),
        (4, 2068, 4, 6_131_120),
        (8, 2068, 64, 13_251_688),
    ],
)
def test_a_hybrid_with_padded_experts_on_h200(tp: int, context: int, sequences: int, said: int) -> None:
    """gpt-oss-120b, vLLM 0.22 at 0.9: half the layers slide, and mxfp4 experts are padded."""
    ours = tokens(
        "gpt-oss-120b",
        "h200",
        tp=tp,
        version="0.22",
        memory_fraction=0.9,
        step_tokens=8192,
        max_sequences=sequences,
        max_context_tokens=context,
    )
    assert ours == pytest.approx(said, rel=NEAR_FRACTION)


def test_latent_attention_on_sglang() -> None:
    """DeepSeek-R1 on 8 H200, SGLang 0.5.12 at 0.82."""
    ours = tokens(
        "deepseek-r1",
        "h200",
        tp=8,
        engine="sglang",
        version="0.5.12",
        memory_fraction=0.82,
        step_tokens=32768,
        max_sequences=512,
    )
    assert ours == pytest.approx(509_157, rel=NEAR_FRACTION)


def test_a_plain_model_on_a100() -> None:
    """Llama-3.1-8B on one A100 80GB, vLLM 0.31, all by default."""
    assert tokens("llama-3.1-8b", "a100-80gb-sxm", version="0.31") == pytest.approx(460_496, rel=NEAR_FRACTION)


def test_a_hybrid_that_drafts_keeps_a_state_for_each_drafted_token() -> None:
    """Nemotron-3 Super on a GB10, vLLM 0.19.2: 36.25 GiB of fp8 cache hold 27.81 x 131,072 tokens with MTP of 3."""
    ours = tokens(
        "nemotron-3-super-120b-a12b-nvfp4",
        "gb10",
        version="0.19.2",
        kv_dtype="fp8",
        kv_pool_bytes=round(36.25 * 2**30),
        speculation="mtp:3",
        max_sequences=20,
        max_context_tokens=131_072,
    )
    assert ours == pytest.approx(27.81 * 131_072, rel=NEAR_FRACTION)


def test_a_hybrids_log_on_sglang_leaves_nothing_unexplained(tmp_path: Path) -> None:
    """Nemotron-3 Nano on four GB10, SGLang 0.5.21, its figures as published: states and tokens are the whole pool."""
    at = "[2026-10-08 10:02:01"
    log = tmp_path / "engine.log"
    log.write_text(
        f"{at}] server_args=ServerArgs(model_path='nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4', tp_size=4, "
        "kv_cache_dtype='fp8_e4m3', max_running_requests=32)\n"
        f"{at}] sglang version 0.5.21\n"
        f"{at} TP0] Mamba Cache is allocated. max_mamba_cache_size: 2211, conv_state size: 0.44GB, ssm_state size: "
        "24.84GB\n"
        f"{at} TP0] KV Cache is allocated. dtype: float8_e4m3fn, #tokens: 19644177, K size: 14.05 GB, V size: "
        "14.05 GB\n"
        f"{at} TP0] max_total_num_tokens=19644177, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=32, context_len=262144, available_gpu_mem=35.27 GB\n"
    )
    model = "nemotron-3-nano-30b-a3b-nvfp4"
    found = verbs.memory(model, device="gb10", tp=4, engine_logs=[log]).found
    assert isinstance(found, MemoryBudget), found
    assert found.kv_tokens == 19_644_177
    assert found.line(LineName.KV_CACHE).figure.value == pytest.approx(53.38 * 2**30, rel=1e-4)
    assert found.line(LineName.ROUNDING).figure.value == pytest.approx(0.0, abs=0.01 * 2**30)
    assert found.worst.sequences == 32
