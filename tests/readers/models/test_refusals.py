"""What cannot be read with certainty is refused by the path of its key; files that are no configs likewise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.model_configs import EVERY, blocks, compressed, dense, latent, linear, moe, nested, read, sliding_sizes
from ullage.errors import InputError
from ullage.memory.kv import cache_cost
from ullage.readers.models import read_model


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (dense(num_hidden_layers=None), "num_hidden_layers"),
        (dense(hidden_size=None), "hidden_size"),
        (dense(vocab_size=None), "vocab_size"),
        (dense(intermediate_size=None), "intermediate_size"),
        (dense(num_attention_heads=None), "num_attention_heads"),
        (dense(model_type="qwen3", num_key_value_heads=None), "num_key_value_heads"),
        (dense(max_position_embeddings=None), "max_position_embeddings"),
        (dense(num_key_value_heads=3), "num_key_value_heads"),
        (dense(num_hidden_layers="four"), "num_hidden_layers"),
        (dense(num_hidden_layers=10**6), "num_hidden_layers"),
        (dense(hidden_size=-1), "hidden_size"),
        (dense(hidden_size=float("nan")), "hidden_size"),
        (dense(torch_dtype="int7"), "torch_dtype"),
        (dense(model_type="new_model", hidden_act=["silu"]), "hidden_act"),
        (dense(tie_word_embeddings="perhaps"), "tie_word_embeddings"),
        (dense(head_dim=None, num_attention_heads=7, num_key_value_heads=7), "num_attention_heads"),
        (dense(layer_types=["full_attention"] * 3), "layer_types"),
        (dense(layer_types=["full_attention"] * 3 + ["quantum_attention"]), "layer_types[3]"),
        (dense(model_type="new_model", sliding_window=512), "sliding_window"),
        (dense(model_type="new_model", hidden_act="relu2"), "hidden_act"),
        (dense(is_encoder_decoder=True), "is_encoder_decoder"),
        (dense(model_type="bert"), "model_type"),
        (moe(num_experts=None), "num_experts"),
        (moe(num_experts_per_tok=None), "num_experts_per_tok"),
        (moe(num_experts_per_tok=9), "num_experts_per_tok"),
        (latent(kv_lora_rank=None), "kv_lora_rank"),
        (latent(v_head_dim=None), "v_head_dim"),
        (latent(n_shared_experts=None), "n_shared_experts"),
        (latent(first_k_dense_replace=None), "first_k_dense_replace"),
        (compressed(num_hidden_layers=None), "num_hidden_layers"),
        (compressed(compress_ratios=[0, 4]), "compress_ratios"),
        (compressed(compress_ratios=[0, 4, 7, 4, 0]), "compress_ratios"),
        (compressed(index_topk=None), "index_topk"),
        (compressed(sliding_window=None), "sliding_window"),
        (linear(linear_value_head_dim=None), "linear_value_head_dim"),
        (linear(model_type="new_model", full_attention_interval=None), "linear_num_value_heads"),
        (linear(mamba_ssm_dtype="int2"), "mamba_ssm_dtype"),
        (blocks(layers_block_type=["mamba", "rwkv"]), "layers_block_type[1]"),
        (blocks(layers_block_type=[]), "layers_block_type"),
        (blocks(ssm_state_size=None), "ssm_state_size"),
        (blocks(n_routed_experts=None), "num_experts"),
        (nested({**dense(model_type="qwen3"), "hidden_size": None}), "text_config.hidden_size"),
        (sliding_sizes(swa_num_key_value_heads=None), "swa_num_key_value_heads"),
        (sliding_sizes(swa_v_head_dim=None), "swa_v_head_dim"),
        (sliding_sizes(hybrid_layer_pattern=None), "attention_chunk_size"),
        (sliding_sizes(hybrid_layer_pattern=None, attention_chunk_size=None), "sliding_window"),
        ({**nested(), "text_config": []}, "num_hidden_layers"),
    ],
)  # fmt: skip
def test_refusals_name_the_key(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        read({name: value for name, value in config.items() if value is not None})
    assert refusal.value.field == field
    assert refusal.value.fix


@pytest.mark.parametrize(
    "unknown",
    [
        {"retention_heads": 8},
        {"kv_compression_factor": 4},
        {"attention_sink_window": 64},
        {"num_recurrent_memory_blocks": 3},
        {"cross_layer_kv_sharing_groups": 2},
        {"shared_kv_pattern": [0, 0, 1, 1]},
        {"ssm_cfg": {"layer": "Mamba3"}},
    ],
)
def test_an_unknown_architecture_with_a_key_that_may_matter_is_refused(unknown: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refusal:
        read(dense(model_type="new_model", **unknown))
    assert refusal.value.field == next(iter(unknown))


def test_an_unknown_architecture_whose_keys_are_all_known_is_read_and_says_so() -> None:
    model = read(dense(model_type="new_model", rope_theta=1e6, attention_dropout=0.0, use_cache=True))
    assert model.layers == read(dense()).layers
    assert "model_type new_model has no row in our table of classes: read by its keys alone" in model.notes
    assert {each.name for each in model.assumptions} == {"gated feed-forward"}


def test_a_key_that_is_switched_off_does_not_matter() -> None:
    model = read(dense(model_type="new_model", retention_heads=None, kv_compression=False, ssm_cfg={}))
    assert model.layer_count == 4


@pytest.mark.parametrize("name", EVERY)
def test_no_default_is_silent(name: str) -> None:
    """Taking a key away changes nothing, is refused, or is listed; what may be absent by itself stands below."""
    may_be_absent = {
        "quantization_config",
        "num_nextn_predict_layers",  # no prediction layers
        "vision_config",
        "v_head_dim",  # values as wide as keys
        "add_swa_attention_sink_bias",
        "attention_chunk_size",
        "topk_method",
    }
    config = EVERY[name]
    whole = read(config)
    for key in config:
        if key in may_be_absent:
            continue
        try:
            without = read({other: value for other, value in config.items() if other != key})
        except InputError:
            continue
        same = (without.layers, without.mtp, without.base_format, without.tied_embeddings) == (
            whole.layers,
            whole.mtp,
            whole.base_format,
            whole.tied_embeddings,
        )
        listed = (without.assumptions, without.notes) != (whole.assumptions, whole.notes)
        assert same or listed, key


def test_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dense(time_step_limit=[0.0, float("inf")], odd=float("nan"))))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    model = read_model(tmp_path)
    assert model.name == tmp_path.name
    assert next(model.each_layer()).formats.dense.name == "fp8"
    assert read_model(tmp_path / "config.json").layers == model.layers
    assert str(tmp_path) in model.sources[0].where


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"hidden_size": 40', "is not JSON"),
        (b"\x93NUMPY\x01\x00\xff\xfe\x80", "is not text"),
        (b"[1, 2, 3]", "is not a JSON object"),
        (b"", "is not JSON"),
        (b"[" * 100_000, "is n"),
    ],
)
def test_what_is_no_config(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read_model(file)


def test_paths_that_hold_no_config(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no config\.json"):
        read_model(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_model(tmp_path / "nothing.json")


def test_a_tower_is_counted_and_flagged() -> None:
    model = read(nested(torch_dtype="bfloat16"))
    assert model.vision is not None
    # 2 layers of 4 x 64 x 64 + 2 x 64 x 128 weights (and small ones), a patch embedding, a projector.
    assert model.vision.parameters == pytest.approx(
        2 * (4 * 64 * 64 + 2 * 64 * 128) + 3 * 256 * 64 + 64 * 128, rel=0.05
    )
    assert any(note.startswith("vision_config: counted as") for note in model.notes)
    blind = nested(vision_config={"hidden_size": "?"})
    assert read(blind).vision is None
    assert "vision_config: its sizes cannot be read, so its weights are not counted" in read(blind).notes
    assert cache_cost(read(blind)) == cache_cost(model)


def test_every_part_of_a_tower_is_counted() -> None:
    """By hand: three layers of width 8 and 16 within, patches of 5 x 5 over two frames, 7 positions, merged 2 x 2."""
    tower = {
        "depth": 3, "hidden_size": 8, "intermediate_size": 16, "patch_size": 5, "temporal_patch_size": 2,
        "num_position_embeddings": 7, "spatial_merge_size": 2, "out_hidden_size": 9,
    }  # fmt: skip
    layer = 4 * 8 * 8 + 2 * 8 * 16 + 8 * 8 + 16
    rest = 3 * 5 * 5 * 2 * 8 + 7 * 8 + 32 * 32 + 32 * 9

    def parameters(**changes: object) -> int:
        found = read(nested(vision_config={**tower, **changes})).vision
        assert found is not None
        return found.parameters

    assert parameters() == 3 * layer + rest
    assert parameters(model_type="pixtral") == 3 * (layer + 8 * 16) + rest
    # A projector more for each layer that is also handed on; without a width within, four times the width.
    assert parameters(deepstack_visual_indexes=[0, 1]) == 3 * layer + rest + 2 * (32 * 32 + 32 * 9)
    assert parameters(intermediate_size=None) == 3 * (layer + 2 * 8 * 16 + 16) + rest
    assert parameters(spatial_merge_size=None, merge_kernel_size=[2, 2]) == parameters()
    assert parameters(spatial_merge_size=None) == 3 * layer + 3 * 5 * 5 * 2 * 8 + 7 * 8 + 8 * 9
    two = read(nested(vision_config=tower, audio_config={"encoder_layers": 3, "d_model": 8, "encoder_ffn_dim": 16}))
    assert two.vision is not None
    assert two.vision.layers == 6


def test_a_class_that_sees_and_describes_no_tower_is_noted() -> None:
    sees = "LlavaForConditionalGeneration"
    said = f"{sees} usually has a tower for images, but the config describes none"
    assert said in read(dense(architectures=[sees])).notes
    assert not any("usually has a tower" in each for each in read(dense()).notes)
