"""Every config of the published data set that its own table trusts is read as the table states."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.model_configs import attention_layers, bounded_layers, state_layers
from ullage.errors import InputError
from ullage.facts.model import GroupedAttention, LatentAttention, Model
from ullage.memory.kv import cache_cost
from ullage.memory.parameters import weight_lines
from ullage.readers.models import read_model


def _rows(shared_data: Path) -> list[dict[str, str]]:
    with (shared_data / "model_configs" / "FACTS.csv").open(newline="") as table:
        return list(csv.DictReader(table))


def _trusted(shared_data: Path) -> list[dict[str, str]]:
    return [row for row in _rows(shared_data) if row["trusted"] == "yes" or row["trusted"].startswith("derived")]


def _wrong(row: Mapping[str, str], model: Model) -> list[str]:
    """What a model says otherwise than its row of the table."""
    attention = [
        mixer
        for layer in model.each_layer()
        for mixer in layer.mixers
        if isinstance(mixer, GroupedAttention | LatentAttention)
    ]
    found: dict[str, object] = {
        "layers": model.layer_count,
        "hidden": model.hidden_channels,
        "heads": attention[0].query_heads,
        "full_attn_layers": attention_layers(model),
        "sliding_layers": bounded_layers(model),
        "linear_or_mamba_layers": state_layers(model),
        "vocab": model.vocabulary_tokens,
        "max_pos": model.max_context_tokens,
        "kv_bytes_per_token_bf16_fullattn_only": int(cache_cost(model).kv_bytes_per_token),
    }
    grouped = [mixer for mixer in attention if isinstance(mixer, GroupedAttention)]
    if grouped:
        found["kv_heads"] = grouped[0].kv_heads
        found["head_dim"] = grouped[0].key_channels
    latents = [mixer for mixer in attention if isinstance(mixer, LatentAttention)]
    if latents:
        found |= {"kv_lora_rank": latents[0].latent_channels, "qk_rope_head_dim": latents[0].rope_channels}
    return [
        f"{row['file']}: {name} is {value}, the table says {row[name]}"
        for name, value in found.items()
        if row[name] and int(row[name]) != value
    ]


@pytest.mark.slow
def test_every_trusted_row_is_read_as_stated(shared_data: Path) -> None:
    folder = shared_data / "model_configs"
    rows = _trusted(shared_data)
    assert len(rows) >= 95
    assert [each for row in rows for each in _wrong(row, read_model(folder / row["file"]))] == []


def test_the_rows_the_table_does_not_trust_are_read_or_refused_by_their_key(shared_data: Path) -> None:
    folder = shared_data / "model_configs"
    rest = {row["file"]: row for row in _rows(shared_data) if row["trusted"].startswith("no")}
    for file, row in rest.items():
        if row["trusted"] == "no: not derived":
            with pytest.raises(InputError, match="num_attention_heads = None: is missing"):
                read_model(folder / file)
        else:
            # The table counted chunked and compressed layers as full: the true cost is far below.
            cost = cache_cost(read_model(folder / file))
            assert cost.kv_bytes_per_token < int(row["kv_bytes_per_token_bf16_fullattn_only"]) / 3


@pytest.mark.parametrize(
    ("file", "gibibytes"),
    [("openai--gpt-oss-120b", 60.8), ("openai--gpt-oss-20b", 12.8)],
)
def test_weight_bytes_are_the_checkpoint_sizes_that_openai_publishes(
    shared_data: Path, file: str, gibibytes: float
) -> None:
    model = read_model(shared_data / "model_configs" / f"{file}_config.json")
    assert sum(line.stored_bytes for line in weight_lines(model)) / 2**30 == pytest.approx(gibibytes, rel=0.005)


@pytest.mark.parametrize(
    ("file", "kv_dtype", "bits"),
    [
        ("Qwen--Qwen3-235B-A22B-FP8", None, 8.0),
        ("nvidia--Llama-3.1-70B-Instruct-FP8", "fp8", 8.2),  # two tables of 128,256 rows stay bf16
        ("nvidia--Qwen3-235B-A22B-NVFP4", "fp8", 4.6),
        ("nvidia--DeepSeek-V3.1-NVFP4", "fp8", 4.8),  # attention inputs and the prediction layer stay bf16
        ("moonshotai--Kimi-K2.5", None, 4.6),  # int4 experts in groups of 32, the rest bf16
        ("deepseek-ai--DeepSeek-V4-Flash", None, 4.4),  # fp4 experts, fp8 matrices
        ("Qwen--Qwen3-32B", None, 16.0),
    ],
)
def test_bits_per_weight_of_quantised_checkpoints(
    shared_data: Path, file: str, kv_dtype: str | None, bits: float
) -> None:
    model = read_model(shared_data / "model_configs" / f"{file}_config.json")
    assert model.kv_dtype == kv_dtype
    lines = weight_lines(model)
    stored = 8 * sum(line.stored_bytes for line in lines) / sum(line.parameters for line in lines)
    assert stored == pytest.approx(bits, abs=0.06)
