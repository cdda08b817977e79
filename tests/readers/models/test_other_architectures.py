"""Architectures beside the common ones, written from their published facts, with the sizes their publishers state."""

from __future__ import annotations

from typing import Any

import pytest

from support.model_configs import blocks, compressed, dense, latent, moe, read
from ullage.errors import InputError
from ullage.facts.model import CompressedAttention, DenseFeedForward, LinearAttention, MoeFeedForward, StateSpace
from ullage.memory.kv import cache_cost
from ullage.memory.parameters import active_parameter_count, parameter_count

GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "n_ctx": 1024,
    "vocab_size": 50257,
    "torch_dtype": "float32",
}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "max_position_embeddings": 2048,
    "vocab_size": 50432,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
JAMBA = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 256,
    "vocab_size": 65536,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LONGCAT = {
    "model_type": "longcat_flash",
    "hidden_size": 6144,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "num_layers": 28,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
    "vocab_size": 131072,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LFM2 = {
    "model_type": "lfm2",
    "hidden_size": 2048,
    "block_ff_dim": 12288,
    "block_auto_adjust_ff_dim": True,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 256,
    "num_hidden_layers": 16,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "vocab_size": 65536,
    "max_position_embeddings": 128000,
    "torch_dtype": "bfloat16",
}
FALCON_H1 = {
    "model_type": "falcon_h1",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 36,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "mamba_d_ssm": 1536,
    "mamba_n_heads": 24,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_rms_norm": False,
    "vocab_size": 32784,
    "max_position_embeddings": 16384,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MINIMAX_01 = {
    "model_type": "minimax_text_01",
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attn_type_list": ([0] * 7 + [1]) * 10,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "vocab_size": 200064,
    "max_position_embeddings": 10240000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


FALCON_7B = {
    "model_type": "falcon",
    "hidden_size": 4544,
    "num_hidden_layers": 32,
    "num_attention_heads": 71,
    "num_kv_heads": 71,
    "multi_query": True,
    "new_decoder_architecture": False,
    "vocab_size": 65024,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
DBRX = {
    "model_type": "dbrx",
    "d_model": 6144,
    "n_layers": 40,
    "n_heads": 48,
    "max_seq_len": 32768,
    "vocab_size": 100352,
    "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("config", "billions", "bytes_per_token"),
    [
        (GPT2, 0.124, 12 * 2 * 768 * 2),
        (NEOX, 20.6, 44 * 2 * 6144 * 2),
        (JAMBA, 52, 4 * 8 * 256 * 2),
        (LONGCAT, 560, 56 * 576 * 2),
        (LFM2, 1.17, 6 * 8 * 128 * 2),
        (FALCON_H1, 0.52, 36 * 2 * 128 * 2),
        (MINIMAX_01, 456, 10 * 8 * 256 * 2),
        (FALCON_7B, 6.92, 32 * 1 * 128 * 2),
        (DBRX, 132, 40 * 8 * 256 * 2),
    ],
    ids=[
        "gpt-2",
        "gpt-neox-20b",
        "jamba-v0.1",
        "longcat-flash",
        "lfm2-1.2b",
        "falcon-h1-0.5b",
        "minimax-01",
        "falcon-7b",
        "dbrx",
    ],
)
def test_published_sizes(config: dict[str, Any], billions: float, bytes_per_token: int) -> None:
    model = read(config)
    assert parameter_count(model) == pytest.approx(billions * 1e9, rel=0.01)
    assert cache_cost(model).kv_bytes_per_token == bytes_per_token


def test_minimax_01_keeps_a_matrix_per_head_in_its_linear_layers() -> None:
    assert cache_cost(read(MINIMAX_01)).state_bytes == 70 * 64 * 128 * 128 * 4
    tables = 2 * 200064 * 6144  # its publisher leaves embedding and head out
    assert active_parameter_count(read(MINIMAX_01)) - tables == pytest.approx(45.9e9, rel=0.01)


def test_longcat_is_two_attention_blocks_a_layer_with_one_set_of_experts() -> None:
    kinds = [type(layer.feed_forward) for layer in read(LONGCAT).each_layer()]
    assert kinds == [MoeFeedForward, DenseFeedForward] * 28


def test_mamba_1_has_a_state_for_every_channel() -> None:
    mixer = next(read(JAMBA).each_layer()).mixers[0]
    assert isinstance(mixer, StateSpace)
    assert (mixer.heads, mixer.head_channels, mixer.step_rank_channels) == (8192, 1, 256)
    # 28 Mamba layers: 8192 x 16 fp32 numbers, and 3 inputs of 8192 channels in 16 bits.
    assert cache_cost(read(JAMBA)).state_bytes == 28 * (8192 * 16 * 4 + 3 * 8192 * 2)
    auto = next(read({**JAMBA, "mamba_dt_rank": "auto"}).each_layer()).mixers[0]
    assert auto == mixer


def test_a_head_size_left_to_the_program_follows_from_the_expansion() -> None:
    sizes = {"mamba_n_heads": 8, "mamba_d_head": "auto", "mamba_d_state": 32, "mamba_n_groups": 1, "mamba_d_conv": 4}
    config = dense(model_type="bamba", attn_layer_indices=[0], mamba_expand=2, **sizes)
    mixer = list(read(config).each_layer())[1].mixers[0]
    assert isinstance(mixer, StateSpace)
    assert mixer.head_channels == 2 * 128 // 8
    with pytest.raises(InputError, match="leaves no whole head"):
        read({**config, "mamba_n_heads": 7})


def test_a_window_that_a_class_has_by_default_is_listed_when_it_is_left_out() -> None:
    config = dense(model_type="mistral")
    assert {each.name: each.value for each in read(config).assumptions} == {"sliding_window": "none"}
    assert read({**config, "sliding_window": None}).assumptions == ()


def test_a_width_that_contradicts_its_heads_is_refused() -> None:
    with pytest.raises(InputError, match="mamba_d_ssm = 1024: is not 24 heads of 64 channels"):
        read({**FALCON_H1, "mamba_d_ssm": 1024})


def test_kimi_linear_has_gates_of_low_or_of_full_rank() -> None:
    sizes = {
        "kda_layers": [1, 2, 3],
        "full_attn_layers": [4],
        "num_heads": 8,
        "head_dim": 16,
        "short_conv_kernel_size": 4,
    }
    config = latent(model_type="kimi_linear", num_shared_experts=1, linear_attn_config=sizes)
    low = read(config)
    full = read({**config, "linear_attn_config": {**sizes, "use_full_rank_gate": True}})
    mixer = next(low.each_layer()).mixers[0]
    assert isinstance(mixer, LinearAttention)
    # Three layers: a gate of 128 x 128 in place of 128 x 16 and 16 x 128.
    assert parameter_count(full) - parameter_count(low) == 3 * (128 * 128 - 2 * 128 * 16)


def test_blocks_that_name_their_type_may_have_sizes_of_their_own() -> None:
    own = [
        {"block_type": "mamba"},
        {"block_type": "moe", "moe_intermediate_size": 32, "num_experts_per_tok": 4},
        {"block_type": "attention"},
        {"block_type": "moe"},
    ]
    config = blocks(block_configs=own)
    config.pop("layers_block_type")
    found = [layer.feed_forward for layer in read(config).each_layer()]
    assert [getattr(block, "expert_channels", None) for block in found] == [None, 32, None, 64]
    assert [getattr(block, "experts_per_token", None) for block in found] == [None, 4, None, 2]
    with pytest.raises(InputError, match=r"block_configs\[0\]\.block_type = 'quantum'"):
        read({**config, "block_configs": [{"block_type": "quantum"}]})


def test_deepseek_v4_in_words() -> None:
    words = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    config = compressed(layer_types=[*words, "compressed_sparse_attention"], num_nextn_predict_layers=0)
    config.pop("compress_ratios")
    config["compress_rates"] = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    assert read(config).layers == read(compressed()).layers
    config.pop("compress_rates")
    with pytest.raises(InputError) as refusal:
        read(config)
    assert refusal.value.field == "compress_rate_csa"
    assert read({**config, "compress_rate_csa": 4, "compress_rate_hca": 128}).layers == read(compressed()).layers


def test_the_prediction_layer_of_deepseek_v4_keeps_its_window_alone() -> None:
    model = read(compressed())
    assert model.mtp is not None
    mixer = model.mtp.groups[0].layer.mixers[0]
    assert isinstance(mixer, CompressedAttention)
    assert mixer.tokens_per_entry is None


def test_gemma_e_models_add_an_embedding_to_every_layer() -> None:
    config = dense(
        model_type="gemma4_text", global_head_dim=16, hidden_size_per_layer_input=8, vocab_size_per_layer_input=1000
    )
    plain = dense(model_type="gemma4_text", global_head_dim=16)
    extra = parameter_count(read(config)) - parameter_count(read(plain))
    assert extra == 1000 * 4 * 8 + 4 * 2 * 8 * 128


def test_widths_may_be_listed_by_layer() -> None:
    model = read(dense(intermediate_size=[64, 128, 192, 256]))
    widths = [getattr(layer.feed_forward, "inner_channels", 0) for layer in model.each_layer()]
    assert widths == [64, 128, 192, 256]
    with pytest.raises(InputError, match="has no entry for layer 3"):
        read(dense(intermediate_size=[64, 128, 192]))


def test_multi_query_attention_by_its_flag() -> None:
    config = {**GPT2, "model_type": "gpt_bigcode", "multi_query": True}
    assert cache_cost(read(config)).kv_bytes_per_token == 12 * 2 * 64 * 2


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 4 + 8 / 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, 4 + 16 / 128),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, 8 + 8 / 32),
        ({"quant_method": "fbgemm_fp8"}, 8),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}, 4 + 8 / 32),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True, "dynamic": {r"-:.*o_proj": {}}},
            4 + 16 / 64,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
            },
            4.5,
        ),
    ],
)
def test_flavours_of_quantisation(config: dict[str, Any], bits: float) -> None:
    formats = next(read(dense(quantization_config=config)).each_layer()).formats
    assert formats.dense.stored_bits == bits


def test_gptq_leaves_alone_what_its_rules_exclude() -> None:
    rules = {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True}
    formats = next(read(dense(quantization_config={**rules, "dynamic": {r"-:.*o_proj": {}}})).each_layer()).formats
    assert (formats.attention_out.name, formats.attention_in.name) == ("bf16", "int4")
    with pytest.raises(InputError, match="differs by module"):
        read(dense(quantization_config={**rules, "dynamic": {r"+:.*o_proj": {"bits": 8}}}))


def test_shared_experts_by_number_and_by_width() -> None:
    def shared(config: dict[str, Any]) -> int:
        block = list(read(config).each_layer())[-1].feed_forward
        assert isinstance(block, MoeFeedForward)
        return block.shared_channels

    assert shared(moe()) == 0
    assert shared(moe(num_shared_experts=2)) == 128
    assert shared(moe(shared_expert_intermediate_size=96)) == 96
    assert shared(latent(n_shared_experts=3)) == 192
    assert shared(moe(model_type="llama4_text", decoder_sparse_step=None, interleave_moe_layer_step=1)) == 64
    assert shared(moe(model_type="granitemoehybrid", layer_types=["attention"] * 4, shared_intermediate_size=80)) == 80
