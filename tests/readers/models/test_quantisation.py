"""Each flavour of quantisation, and which weights it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from support.model_configs import blocks, compressed, dense, latent, moe, nested, read
from ullage.errors import InputError
from ullage.facts.model import Layer, LayerFormats, Model


def _formats(model: Model, layer: int = 0) -> LayerFormats:
    return list(model.each_layer())[layer].formats


def _names(layer: Layer) -> dict[str, str]:
    formats = layer.formats
    return {
        name: getattr(formats, name).name for name in ("attention_in", "attention_out", "dense", "routed", "shared")
    }


def test_without_a_word_everything_keeps_the_dtype() -> None:
    model = read(dense(torch_dtype="float16"))
    assert not model.is_quantised
    assert set(vars(_formats(model)).values()) == {model.base_format}
    assert model.base_format.name == "fp16"


def test_fp8_blocks_carry_a_scale_for_each_block() -> None:
    config = dense(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    form = _formats(read(config)).attention_in
    assert (form.name, form.weight_bits, form.scale_bits, form.values_per_scale) == ("fp8", 8, 32, 128 * 128)
    assert read(config).head_format.name == "bf16"
    assert read(config).embedding_format.name == "bf16"


def test_fp8_leaves_listed_modules_alone_by_any_of_the_four_notations() -> None:
    for pattern in (
        "model.layers.1.self_attn.q_proj",
        "self_attn",
        "model.layers.1.self_attn*",
        r"re:.*layers\.1\.self_attn.*",
    ):
        config = dense(quantization_config={"quant_method": "fp8", "modules_to_not_convert": [pattern, "lm_head"]})
        model = read(config)
        assert _formats(model, 1).attention_in.name == "bf16", pattern
        assert _formats(model, 1).dense.name == "fp8", pattern
        if "1" in pattern:
            assert _formats(model, 2).attention_in.name == "fp8", pattern


def test_a_name_inside_another_name_is_not_a_match() -> None:
    """`gate` is the router; `gate_proj` is not it."""
    config = dense(quantization_config={"quant_method": "fp8", "modules_to_not_convert": ["gate"]})
    assert _formats(read(config)).dense.name == "fp8"


def test_mxfp4_is_for_experts_only() -> None:
    model = read(
        moe(quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]})
    )
    assert _names(next(model.each_layer())) == {
        "attention_in": "bf16",
        "attention_out": "bf16",
        "dense": "bf16",
        "routed": "mxfp4",
        "shared": "bf16",
    }
    assert _formats(model).routed.stored_bits == 4 + 8 / 32


def test_modelopt_beside_the_config_with_an_exclude_list() -> None:
    excluded = ["lm_head", *(f"model.layers.{layer}.self_attn.q_a_proj" for layer in range(4)), "model.layers.0*"]
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": excluded}}
    model = read(latent(), beside)
    assert model.kv_dtype == "fp8"
    assert _formats(model, 0).attention_out.name == "bf16"  # the star takes the whole layer
    assert _formats(model, 1).attention_in.name == "bf16"  # part of the inputs is left alone: the larger counts
    assert _formats(model, 1).attention_out.name == "nvfp4"
    assert _formats(model, 1).routed.stored_bits == 4 + 8 / 16
    assert any("attention in weights are stored as bf16 and nvfp4" in note for note in model.notes)


def test_modelopt_inside_the_config_without_a_method() -> None:
    config = dense(
        quantization_config={"quant_algo": "FP8", "kv_cache_scheme": "FP8", "ignore": ["lm_head"], "producer": {}}
    )
    model = read(config)
    assert (_formats(model).dense.name, model.kv_dtype) == ("fp8", "fp8")


def test_nemotron_excludes_blocks_by_their_mixer() -> None:
    beside = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["backbone.layers.0.mixer.in_proj"]}}
    model = read(blocks(), beside)
    assert _formats(model, 0).attention_in.name == "bf16"
    assert _formats(model, 0).attention_out.name == "nvfp4"
    assert _formats(model, 1).routed.name == "nvfp4"
    assert _formats(model, 3).dense.name == "nvfp4"


def test_gemma_4_leaves_its_dense_block_alone_and_not_its_experts() -> None:
    text = moe(model_type="gemma4_text", enable_moe_block=True, global_head_dim=16)
    ignore = [f"model.language_model.layers.{layer}.mlp*" for layer in range(4)]
    config = nested(
        text,
        model_type="gemma4",
        quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignore},
    )
    names = _names(next(read(config).each_layer()))
    assert (names["dense"], names["routed"]) == ("bf16", "nvfp4")


def test_deepseek_v4_stores_experts_in_fp4_beside_fp8() -> None:
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    model = read(compressed(quantization_config=fp8, expert_dtype="fp4"))
    assert _names(next(model.each_layer())) | {"dense": ""} == {
        "attention_in": "fp8",
        "attention_out": "fp8",
        "dense": "",
        "routed": "mxfp4",
        "shared": "fp8",
    }


def test_a_mixed_list_names_its_modules() -> None:
    quantised = {f"layers.{layer}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for layer in range(4)}
    mixed = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": quantised,
        "ignore": ["*.attn.*", "*.ffn.shared_experts.*"],
    }
    names = _names(next(read(compressed(quantization_config=mixed)).each_layer()))
    assert (names["routed"], names["shared"], names["attention_in"]) == ("nvfp4", "fp8", "fp8")


@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_integer_groups_carry_scale_and_zero_point(method: str) -> None:
    config = dense(quantization_config={"quant_method": method, "bits": 4, "group_size": 128, "zero_point": True})
    assert _formats(read(config)).dense.stored_bits == 4 + (16 + 4) / 128
    symmetric = dense(quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True})
    assert _formats(read(symmetric)).dense.stored_bits == 4 + 16 / 128
    rows = dense(quantization_config={"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True})
    assert _formats(read(rows)).dense.stored_bits == 8


def test_compressed_tensors_by_group_and_pattern() -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    ignore = ["lm_head", "re:.*self_attn.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    config = latent(
        quantization_config={"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ignore}
    )
    model = read(config)
    assert _formats(model, 0).dense.name == "bf16"
    assert _formats(model, 1).routed.stored_bits == 4 + 16 / 32
    assert _formats(model, 1).attention_in.name == "bf16"
    with_cache = {**config["quantization_config"], "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert read({**config, "quantization_config": with_cache}).kv_dtype == "fp8"


def test_quantisation_may_stand_in_the_nested_config() -> None:
    text = dense(quantization_config={"quant_method": "fp8"})
    assert _formats(read(nested(text))).dense.name == "fp8"


def test_prediction_layers_can_be_left_alone() -> None:
    beside = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["model.layers.4*"]}}
    model = read(latent(num_nextn_predict_layers=1), beside)
    assert model.mtp is not None
    assert model.mtp.groups[0].layer.formats.routed.name == "bf16"
    assert _formats(model, 3).routed.name == "nvfp4"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"quant_method": "aqlm"}, "quantization_config.quant_method"),
        ({"bits": 4}, "quantization_config.quant_method"),
        ({"quant_method": "awq"}, "quantization_config.bits"),
        ({"quant_method": "awq", "bits": 5}, "quantization_config.bits"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "quantization_config.weight_block_size"),
        ({"quant_method": "fp8", "store_dtype": "mxfp4"}, "quantization_config.store_dtype"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quantization_config.quant_algo"),
        ({"quant_method": "bitsandbytes"}, "quantization_config.load_in_4bit"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {}}},
            "quantization_config.config_groups.group_0.weights",
        ),
        ({"quant_method": "fp8", "modules_to_not_convert": [3]}, "quantization_config.modules_to_not_convert"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_its_key(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        read(dense(quantization_config=config))
    assert refusal.value.field == field


def test_two_files_of_different_checkpoints_are_refused() -> None:
    with pytest.raises(InputError, match=r"quant_algo = 'NVFP4': says nvfp4, but quantization_config says fp8"):
        read(dense(quantization_config={"quant_method": "fp8"}), {"quantization": {"quant_algo": "NVFP4"}})
