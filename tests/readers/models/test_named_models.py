"""Six models that naive parsers misread, each with the arithmetic that gives its cache beside it.

The configs are written here from the facts of the models; where the published data set is present, its own
configs are read as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.model_configs import attention_layers, bounded_layers, dense, read, state_layers
from ullage.facts.model import CompressedAttention, GroupedAttention, StateSpace
from ullage.memory.kv import KV_DTYPES, cache_cost
from ullage.memory.parameters import parameter_count
from ullage.readers.models import read_model


def test_nemotron_super_49b_has_attention_in_49_of_80_layers(shared_data: Path) -> None:
    model = read_model(shared_data / "model_configs" / "nvidia--Llama-3_3-Nemotron-Super-49B-v1_config.json")
    assert model.layer_count == 80
    assert attention_layers(model) == 49
    # 64 query heads in groups of 8 share 8 key-value heads of 8192 / 64 = 128 channels; keys and values, 2 bytes.
    assert cache_cost(model).kv_bytes_per_token == 49 * 8 * (128 + 128) * 2 == 200_704
    # Naively, `num_key_value_heads: null` becomes 64 heads in all 80 layers: 13 times as much.
    assert 80 * 64 * (128 + 128) * 2 // 200_704 == 13
    # Widths vary from layer to layer: ffn_mult 5.25 is 28,672 (2/3 of 5.25 x 8192, up to 256), 0.5 is 2,816.
    assert parameter_count(model) == pytest.approx(49.9e9, rel=0.01)


def test_block_configs_with_no_ops_in_miniature() -> None:
    attend = {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"ffn_mult": 3.0, "no_op": False}}
    skip = {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.5, "no_op": False}}
    empty = {"attention": {"no_op": True}, "ffn": {"no_op": True}}
    config = dense(model_type="nemotron-nas", block_configs=[attend, skip, attend, empty])
    config["num_key_value_heads"] = config["intermediate_size"] = None
    model = read(config)
    # 8 heads in groups of 4 are 2 key-value heads of 16 channels: 2 layers x 2 x 32 x 2 bytes.
    assert cache_cost(model).kv_bytes_per_token == 2 * 2 * 32 * 2
    widths = [layer.feed_forward and getattr(layer.feed_forward, "inner_channels", 0) for layer in model.each_layer()]
    assert widths == [256, 256, 256, None]  # 2/3 x 3 x 128 = 256; 2/3 x 1.5 x 128 = 128, up to 256


def test_a_block_config_may_state_its_own_width() -> None:
    attend = {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"intermediate_size": 96, "no_op": False}}
    config = dense(model_type="nemotron-nas", block_configs=[attend] * 4)
    config["num_key_value_heads"] = config["intermediate_size"] = None
    widths = {getattr(layer.feed_forward, "inner_channels", 0) for layer in read(config).each_layer()}
    assert widths == {96}


def _v4(layers: int, ratios: list[int], **changes: object) -> dict[str, object]:
    return dense(
        model_type="deepseek_v4",
        hidden_size=4096,
        num_hidden_layers=layers,
        num_attention_heads=64,
        num_key_value_heads=1,
        head_dim=512,
        qk_rope_head_dim=64,
        q_lora_rank=1024,
        o_lora_rank=1024,
        o_groups=8,
        sliding_window=128,
        compress_ratios=ratios,
        index_n_heads=64,
        index_head_dim=128,
        index_topk=512,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=6,
        moe_intermediate_size=2048,
        num_nextn_predict_layers=1,
        max_position_embeddings=1048576,
        **changes,
    )


def test_deepseek_v4_flash_applies_its_compress_ratios() -> None:
    model = read(_v4(43, [0, 0, *[4, 128] * 20, 4, 0]))
    cost = cache_cost(model)
    # One vector of 512 channels, key and value at once, 2 bytes; one for every 4 tokens in 21 layers and for
    # every 128 tokens in 20. The first two layers keep their window alone.
    assert cost.kv_bytes_per_token == 21 * 1024 / 4 + 20 * 1024 / 128 == 5536
    # All 43 layers keep the last 128 tokens as they are.
    assert cost.bounded_bytes == 43 * 128 * 1024
    # 21 indexers keep an fp8 key of 128 channels with a 4-byte scale for every 4 tokens.
    assert cost.indexer_bytes_per_token == 21 * (128 + 4) / 4
    # The naive reading is 16 times too high.
    assert 43 * 2 * 512 * 2 == 88_064
    assert attention_layers(model) == 41
    assert bounded_layers(model) == 2


def test_deepseek_v4_pro_at_a_million_tokens_keeps_what_its_publisher_says() -> None:
    """Published: 9.62 GiB for one sequence of 1,048,576 tokens in bf16, indexer keys in bf16 as well."""
    model = read(_v4(61, [128, 128, *[4, 128] * 29, 4, 0]))
    cost = cache_cost(model)
    indexer = 30 * 128 * 2 / 4
    assert (cost.kv_bytes_per_token + indexer) * 1_048_576 / 2**30 == pytest.approx(9.62, abs=0.005)


def test_deepseek_v4_in_fp8_has_the_layout_of_584_bytes() -> None:
    model = read(_v4(43, [0, 0, *[4, 128] * 20, 4, 0]))
    # 448 fp8 values, 64 rotary channels in bf16 and 8 bytes of scales.
    assert cache_cost(model, KV_DTYPES["fp8"]).kv_bytes_per_token == 21 * 584 / 4 + 20 * 584 / 128


def test_deepseek_v4_with_a_ratio_nobody_published_is_refused() -> None:
    with pytest.raises(Exception, match=r"compress_ratios = 16: has an unknown ratio"):
        read(_v4(3, [4, 16, 128, 0]))


def test_gemma_4_stores_keys_that_are_values_once() -> None:
    pattern = ["sliding_attention"] * 5 + ["full_attention"]
    text = dense(
        model_type="gemma4_text",
        num_hidden_layers=30,
        layer_types=pattern * 5,
        hidden_size=2816,
        num_attention_heads=16,
        num_key_value_heads=8,
        num_global_key_value_heads=2,
        head_dim=256,
        global_head_dim=512,
        attention_k_eq_v=True,
        sliding_window=1024,
        max_position_embeddings=262144,
    )
    model = read({"model_type": "gemma4", "text_config": text, "tie_word_embeddings": True})
    cost = cache_cost(model)
    # 5 full layers: 2 heads of 512 channels, one vector for key and value, 2 bytes.
    assert cost.kv_bytes_per_token == 5 * 2 * 512 * 2 == 10_240
    # 25 sliding layers keep 1,024 tokens: 8 heads of 256 channels, keys and values.
    assert cost.bounded_bytes == 25 * 1024 * 8 * (256 + 256) * 2
    # An engine that stores both anyway (vLLM does) pays twice for the full layers.
    assert cache_cost(model, shared_kv_copies=2).kv_bytes_per_token == 2 * 10_240
    full = next(
        mixer for layer in model.each_layer() for mixer in layer.mixers if getattr(mixer, "shares_key_value", 0)
    )
    assert isinstance(full, GroupedAttention)
    assert (full.kv_heads, full.key_channels, full.value_channels) == (2, 512, 512)


def test_nemotron_3_needs_no_num_hidden_layers() -> None:
    config = dense(
        model_type="nemotron_h",
        hidden_size=8192,
        layers_block_type=["mamba", "moe"] * 4 + ["attention", "moe"] + ["mamba", "mlp"],
        num_attention_heads=64,
        num_key_value_heads=2,
        head_dim=128,
        mamba_num_heads=256,
        mamba_head_dim=64,
        ssm_state_size=128,
        n_groups=8,
        conv_kernel=4,
        mamba_ssm_cache_dtype="float32",
        n_routed_experts=512,
        num_experts_per_tok=22,
        n_shared_experts=1,
        moe_intermediate_size=2688,
        moe_latent_size=2048,
        moe_shared_expert_intermediate_size=10752,
        time_step_limit=[0.0, float("inf")],
    )
    config.pop("num_hidden_layers")
    model = read(config)
    assert model.layer_count == 12
    assert attention_layers(model) == 1
    assert state_layers(model) == 5
    # One attention block: 2 heads of 128 channels, keys and values, 2 bytes.
    assert cache_cost(model).kv_bytes_per_token == 1 * 2 * (128 + 128) * 2
    # A Mamba-2 block keeps 256 x 64 x 128 fp32 numbers, and 3 inputs of its convolution over
    # 256 x 64 + 2 x 8 x 128 channels in 16 bits.
    state = 256 * 64 * 128 * 4 + 3 * (256 * 64 + 2 * 8 * 128) * 2
    assert cache_cost(model).state_bytes == 5 * state
    assert sum(isinstance(mixer, StateSpace) for layer in model.each_layer() for mixer in layer.mixers) == 5


def test_mimo_v2_has_sizes_of_its_own_for_sliding_layers() -> None:
    pattern = [0 if layer == 0 or (layer + 1) % 6 == 0 else 1 for layer in range(48)]
    model = read(
        dense(
            model_type="mimo_v2_flash",
            hidden_size=4096,
            num_hidden_layers=48,
            num_attention_heads=64,
            num_key_value_heads=4,
            head_dim=192,
            v_head_dim=128,
            swa_num_attention_heads=64,
            swa_num_key_value_heads=8,
            swa_head_dim=192,
            swa_v_head_dim=128,
            sliding_window=128,
            sliding_window_size=128,
            hybrid_layer_pattern=pattern,
            moe_layer_freq=[0] + [1] * 47,
            n_routed_experts=256,
            num_experts_per_tok=8,
            moe_intermediate_size=2048,
            max_position_embeddings=262144,
        )
    )
    cost = cache_cost(model)
    # 9 full layers: 4 heads, a key of 192 and a value of 128 channels, 2 bytes.
    assert cost.kv_bytes_per_token == 9 * 4 * (192 + 128) * 2 == 23_040
    # 39 sliding layers keep 128 tokens of 8 heads.
    assert cost.bounded_bytes == 39 * 128 * 8 * (192 + 128) * 2


@pytest.mark.parametrize("experts", [16, 128])
def test_llama_4_attends_in_chunks_except_in_every_fourth_layer(experts: int) -> None:
    text = dense(
        model_type="llama4_text",
        hidden_size=5120,
        intermediate_size=8192,
        intermediate_size_mlp=16384,
        num_hidden_layers=48,
        num_attention_heads=40,
        num_key_value_heads=8,
        head_dim=128,
        attention_chunk_size=8192,
        num_local_experts=experts,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1 if experts == 16 else 2,
        max_position_embeddings=1048576,
        vocab_size=202048,
    )
    model = read({"model_type": "llama4", "text_config": text, "tie_word_embeddings": False})
    cost = cache_cost(model)
    # Layers 4, 8, ... 48 see everything: 12 x 8 heads x (128 + 128) x 2 bytes.
    assert cost.kv_bytes_per_token == 12 * 8 * 256 * 2 == 49_152
    # The other 36 never keep more than their chunk of 8,192 tokens.
    assert cost.sequence_bytes(1_000_000) == 1_000_000 * 49_152 + 36 * 8192 * 8 * 256 * 2
    assert cost.sequence_bytes(1_000) == 1_000 * 48 * 8 * 256 * 2
    assert [each.name for each in model.assumptions] == ["text_config.no_rope_layer_interval"]


def test_the_compressed_layers_of_the_published_config_are_the_same(shared_data: Path) -> None:
    model = read_model(shared_data / "model_configs" / "deepseek-ai--DeepSeek-V4-Flash_config.json")
    assert cache_cost(model).kv_bytes_per_token == 5536
    ratios = [
        mixer.tokens_per_entry
        for layer in model.each_layer()
        for mixer in layer.mixers
        if isinstance(mixer, CompressedAttention)
    ]
    assert ratios == [None, None, *[4, 128] * 20, 4]
    assert parameter_count(model) == pytest.approx(284e9, rel=0.01)
