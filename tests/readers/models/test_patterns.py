"""Every spelling of the layer pattern, reduced to which layers grow, which are bounded, which keep a state."""

from __future__ import annotations

from typing import Any

import pytest

from support.model_configs import blocks, compressed, dense, latent, linear, moe, nested, read, sliding_sizes
from ullage.errors import InputError
from ullage.facts.model import (
    GroupedAttention,
    LatentAttention,
    Layer,
    LinearAttention,
    LinearKind,
    MoeFeedForward,
    ShortConvolution,
    StateSpace,
)
from ullage.memory.kv import cache_cost
from ullage.memory.parameters import active_parameter_count, parameter_count

_MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 32,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 1,
    "mamba_ssm_cache_dtype": "float32",
}

_RATES = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def _letter(layer: Layer) -> str:
    """f full, s sliding, c chunked, l linear, m state space, v convolution, - none; upper case with experts."""
    letters = ""
    for mixer in layer.mixers:
        match mixer:
            case GroupedAttention(window_tokens=int()):
                letters += "s"
            case GroupedAttention(chunk_tokens=int()):
                letters += "c"
            case LinearAttention():
                letters += "l"
            case StateSpace():
                letters += "m"
            case ShortConvolution():
                letters += "v"
            case _:
                letters += "f"
    letters = letters or "-"
    return letters.upper() if isinstance(layer.feed_forward, MoeFeedForward) else letters


def _pattern(config: dict[str, Any]) -> str:
    return " ".join(_letter(layer) for layer in read(config).each_layer())


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({}, "f f f f"),
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 512}, "s f s f"),
        ({"model_type": "qwen2", "sliding_window": 512, "use_sliding_window": False}, "f f f f"),
        ({"model_type": "qwen2", "sliding_window": 512}, "f f f f"),
        ({"model_type": "qwen2", "sliding_window": 512, "use_sliding_window": True, "max_window_layers": 3}, "f f f s"),
        ({"model_type": "mistral", "sliding_window": 512}, "s s s s"),
        ({"model_type": "mistral", "sliding_window": None}, "f f f f"),
        ({"model_type": "phi3", "sliding_window": 262144}, "f f f f"),
        ({"model_type": "gemma2", "sliding_window": 512}, "s f s f"),
        ({"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 2}, "s f s f"),
        ({"model_type": "exaone4", "sliding_window": 512, "sliding_window_pattern": "LLG"}, "s s f s"),
        ({"model_type": "afmoe", "sliding_window": 512, "global_attn_every_n_layers": 2}, "s f s f"),
        ({"sliding_window": 512, "sliding_window_pattern_expr": "1 if i % 2 == 0 else 0 for i in range(4)"}, "s f s f"),
        (
            {"sliding_window": 512, "sliding_window_pattern_expr": "0 if (i + 1) % 2 == 0 else 1 for i in range(4)"},
            "s f s f",
        ),
        ({"model_type": "llama4_text", "attention_chunk_size": 512}, "c c c f"),
        ({"model_type": "llama4_text", "attention_chunk_size": 512, "no_rope_layers": [1, 0, 1, 0]}, "c f c f"),
        ({"model_type": "llama4_text", "attention_chunk_size": 512, "no_rope_layer_interval": 2}, "c f c f"),
        ({"model_type": "llama4_text", "attention_chunk_size": None}, "f f f f"),
        ({"model_type": "jamba", "attn_layer_period": 2, "attn_layer_offset": 1, **_MAMBA}, "m f m f"),
        ({"model_type": "bamba", "attn_layer_indices": [1], **_MAMBA}, "m f m m"),
        ({"model_type": "granitemoehybrid", "layer_types": ["mamba", "attention"] * 2, **_MAMBA}, "m f m f"),
        ({"model_type": "lfm2", "full_attn_idxs": [2], "conv_L_cache": 3}, "v v f v"),
        ({"model_type": "lfm2", "layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3}, "v f v f"),
        ({"model_type": "minimax_text_01", "attn_type_list": [0, 0, 0, 1]}, "l l l f"),
        ({"model_type": "bailing_moe_linear", "layer_group_size": 2}, "l f l f"),
        ({"model_type": "falcon_h1", **_MAMBA}, "fm fm fm fm"),
        (
            {"model_type": "exaone_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
             "mlp_layer_types": ["dense", "sparse", "sparse", "dense"]},
            "f F F f",
        ),
    ],
)  # fmt: skip
def test_patterns_of_layers(changes: dict[str, Any], pattern: str) -> None:
    assert _pattern(dense(**changes)) == pattern


def test_linear_attention_by_interval_list_and_class_rule() -> None:
    assert _pattern(linear()) == "l l l f"
    listed = linear(layer_types=["linear_attention", "full_attention"] * 2)
    listed.pop("full_attention_interval")
    assert _pattern(listed) == "l f l f"
    unsaid = linear()
    unsaid.pop("full_attention_interval")
    assert _pattern(unsaid) == "l l l f"
    assert "full_attention_interval" in {each.name for each in read(unsaid).assumptions}


def test_a_list_and_an_interval_that_disagree_are_refused() -> None:
    with pytest.raises(InputError, match="full_attention_interval = 4: contradicts layer_types"):
        read(linear(layer_types=["linear_attention", "full_attention"] * 2))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**blocks(), "hybrid_override_pattern": "ME*E"}, "layers_block_type"),
        (compressed(layer_types=["compressed_sparse_attention"] * 4, compress_rates=_RATES), "layer_types"),
        (sliding_sizes(layer_types=["full_attention"] * 4), "hybrid_layer_pattern"),
    ],
)
def test_two_lists_that_disagree_are_refused(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match="contradicts") as refusal:
        read(config)
    assert refusal.value.field == field


def test_two_lists_that_agree_are_read() -> None:
    assert read({**blocks(), "hybrid_override_pattern": "ME*-"}).layers == read(blocks()).layers
    words = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    assert read(sliding_sizes(layer_types=words)).layers == read(sliding_sizes()).layers


def test_kimi_counts_its_layers_from_one() -> None:
    config = latent(
        model_type="kimi_linear",
        num_shared_experts=1,
        linear_attn_config={
            "kda_layers": [1, 2, 3],
            "full_attn_layers": [4],
            "num_heads": 8,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
        },
    )
    model = read(config)
    assert " ".join(_letter(layer) for layer in model.each_layer()) == "l L L F"
    last = list(model.each_layer())[-1].mixers[0]
    assert isinstance(last, LatentAttention)
    config["linear_attn_config"]["full_attn_layers"] = [3]
    with pytest.raises(InputError, match=r"linear_attn_config\.full_attn_layers"):
        read(config)


def test_nemotron_blocks_as_letters_and_as_words_are_the_same_model() -> None:
    words = blocks()
    letters = {**blocks(), "hybrid_override_pattern": "ME*-"}
    letters.pop("layers_block_type")
    assert read(words).layers == read(letters).layers
    assert [_letter(layer) for layer in read(words).each_layer()] == ["m", "-", "f", "-"]


def test_prediction_layers_of_nemotron_are_spelled_by_a_pattern() -> None:
    model = read(blocks(num_nextn_predict_layers=1, mtp_hybrid_override_pattern="*E"))
    assert model.mtp is not None
    assert [_letter(group.layer) for group in model.mtp.groups] == ["f", "-"]


def test_prediction_layers_go_on_where_the_list_of_layers_does() -> None:
    listed = sliding_sizes(layer_types=["full_attention"] + ["sliding_attention"] * 5, num_nextn_predict_layers=2)
    listed.pop("hybrid_layer_pattern")
    model = read(listed)
    assert model.layer_count == 4
    assert model.mtp is not None
    assert [(_letter(group.layer), group.layers) for group in model.mtp.groups] == [("S", 2)]


@pytest.mark.parametrize(
    ("changes", "moe_layers"),
    [
        ({"decoder_sparse_step": 1}, "1111"),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 1]}, "0011"),
        ({"decoder_sparse_step": 2}, "0101"),
        ({"model_type": "deepseek_v3", "first_k_dense_replace": 2, "n_shared_experts": 1}, "0011"),
        ({"model_type": "llama4_text", "interleave_moe_layer_step": 2}, "0101"),
        ({"model_type": "llama4_text", "moe_layers": [3]}, "0001"),
        ({"model_type": "mimo_v2", "moe_layer_freq": [0, 0, 1, 1]}, "0011"),
        ({"model_type": "jamba", "expert_layer_period": 2, "expert_layer_offset": 1}, "0101"),
        ({"model_type": "step3p5", "moe_layers_enum": "1,3"}, "0101"),
        ({"model_type": "lfm2_moe", "num_dense_layers": 3, "layer_types": ["full_attention"] * 4}, "0001"),
        ({"model_type": "ernie4_5_moe", "moe_layer_start_index": 1, "moe_layer_end_index": 2}, "0110"),
    ],
)  # fmt: skip
def test_which_layers_have_experts(changes: dict[str, Any], moe_layers: str) -> None:
    found = "".join(
        "1" if isinstance(layer.feed_forward, MoeFeedForward) else "0"
        for layer in read(moe(**{"decoder_sparse_step": None, **changes})).each_layer()
    )
    assert found == moe_layers


@pytest.mark.parametrize(
    "spelling", ["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts"]
)
@pytest.mark.parametrize("top", ["num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"])
def test_spellings_of_experts(spelling: str, top: str) -> None:
    config = moe()
    config[spelling] = config.pop("num_experts")
    config[top] = config.pop("num_experts_per_tok")
    block = next(read(config).each_layer()).feed_forward
    assert isinstance(block, MoeFeedForward)
    assert (block.routed_experts, block.experts_per_token) == (8, 2)


def test_two_spellings_must_agree() -> None:
    with pytest.raises(InputError, match="contradicts another spelling"):
        read(moe(num_local_experts=16))


def test_the_language_model_is_found_in_its_wrapper() -> None:
    for key in ("text_config", "llm_config", "language_config"):
        config = nested()
        config[key] = config.pop("text_config") if key != "text_config" else config["text_config"]
        assert read(config).layers == read(dense()).layers
    inside = {"model_type": "some_omni", "thinker_config": nested()}
    assert read(inside).layers == read(dense()).layers


def test_class_defaults_fill_a_nested_config_and_are_listed() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "sliding_window": 1024}  # fmt: skip
    model = read({"model_type": "gemma3", "text_config": text, "torch_dtype": "bfloat16"})
    assumed = {each.name: each.value for each in model.assumptions}
    assert assumed["text_config.num_attention_heads"] == 8
    assert assumed["text_config.num_key_value_heads"] == 4
    assert assumed["text_config.vocab_size"] == 262208
    # At top level the same config is cut, not terse.
    with pytest.raises(InputError, match="num_attention_heads = None: is missing"):
        read({**text, "torch_dtype": "bfloat16"})


def test_layers_may_override_their_sizes_one_by_one() -> None:
    model = read(dense(per_layer_config={"3": {"head_dim": 32, "num_key_value_heads": 1}}))
    last = list(model.each_layer())[-1].mixers[0]
    assert isinstance(last, GroupedAttention)
    assert (last.key_channels, last.kv_heads) == (32, 1)
    with pytest.raises(InputError, match=r"per_layer_config\.3\.odd_size"):
        read(dense(per_layer_config={"3": {"odd_size": 32}}))


def test_layers_may_reuse_the_cache_of_an_earlier_one() -> None:
    model = read(dense(model_type="gemma4_text", num_kv_shared_layers=2, global_head_dim=16))
    reuses = [
        layer.mixers[0].reuses_cache for layer in model.each_layer() if isinstance(layer.mixers[0], GroupedAttention)
    ]
    assert reuses == [False, False, True, True]


def test_indexers_that_are_shared_keep_no_keys() -> None:
    sizes = {"index_topk": 64, "index_n_heads": 4, "index_head_dim": 16}
    model = read(latent(model_type="deepseek_v32", indexer_types=["full", "shared", "full", "shared"], **sizes))
    mixers = [layer.mixers[0] for layer in model.each_layer()]
    assert [isinstance(mixer, LatentAttention) and mixer.indexer is not None for mixer in mixers] == [1, 0, 1, 0]
    assert [isinstance(mixer, LatentAttention) and mixer.indexer_is_shared for mixer in mixers] == [0, 1, 0, 1]


def test_kinds_of_recurrence() -> None:
    delta = next(read(linear()).each_layer()).mixers[0]
    assert isinstance(delta, LinearAttention)
    assert delta.kind is LinearKind.GATED_DELTA
    lightning = next(read(dense(model_type="minimax_text_01", attn_type_list=[0, 1, 1, 1])).each_layer()).mixers[0]
    assert isinstance(lightning, LinearAttention)
    assert lightning.kind is LinearKind.LIGHTNING


def test_minimax_m3_scores_blocks_of_keys_from_its_fourth_layer_on() -> None:
    """Sizes as vLLM's class states them; the publisher says 427 billion parameters."""
    flags = [0] * 3 + [1] * 57
    text = dense(
        model_type="minimax_m3_text",
        hidden_act="swigluoai",
        hidden_size=6144,
        intermediate_size=3072,
        dense_intermediate_size=12288,
        shared_intermediate_size=3072,
        num_hidden_layers=60,
        num_attention_heads=64,
        num_key_value_heads=4,
        head_dim=128,
        vocab_size=200064,
        max_position_embeddings=524288,
        attention_output_gate=False,
        use_qk_norm=True,
        num_local_experts=128,
        num_experts_per_tok=4,
        n_shared_experts=1,
        num_mtp_modules=1,
        moe_layer_freq=flags,
        sparse_attention_config={
            "use_sparse_attention": True,
            "sparse_index_dim": 128,
            "sparse_num_index_heads": 4,
            "sparse_topk_blocks": 16,
            "sparse_block_size": 128,
            "sparse_attention_freq": flags,
        },
    )
    model = read({"model_type": "minimax_m3_vl", "text_config": text})
    cost = cache_cost(model)
    assert cost.kv_bytes_per_token == 60 * 4 * (128 + 128) * 2 == 122_880
    assert cost.indexer_bytes_per_token == 57 * 128 * 2
    assert parameter_count(model) == pytest.approx(427e9, rel=0.01)


def test_step_3_has_more_query_heads_where_it_slides() -> None:
    """Sizes as its class states them; the publisher says 196 billion parameters, 11 billion in use."""
    types = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"] * 12
    model = read(
        dense(
            model_type="step3p5",
            hidden_size=4096,
            intermediate_size=11264,
            num_hidden_layers=45,
            layer_types=types[:48],
            num_nextn_predict_layers=3,
            num_attention_heads=64,
            num_attention_groups=8,
            num_key_value_heads=None,
            head_dim=128,
            attention_other_setting={
                "attention_type": "sliding_attention",
                "num_attention_heads": 96,
                "num_attention_groups": 8,
                "head_dim": 128,
            },
            sliding_window=512,
            use_head_wise_attn_gate=True,
            moe_num_experts=288,
            moe_top_k=8,
            moe_intermediate_size=1280,
            share_expert_dim=1280,
            moe_layers_enum=",".join(str(layer) for layer in range(3, 45)),
            vocab_size=128815,
            max_seq_len=65536,
            max_position_embeddings=262144,
        )
    )
    cost = cache_cost(model)
    assert cost.kv_bytes_per_token == 12 * 8 * (128 + 128) * 2
    assert [(each.layers, each.bound_tokens) for each in cost.bounded] == [(33, 512)]
    assert model.max_context_tokens == 262144
    assert parameter_count(model) == pytest.approx(196e9, rel=0.01)
    tables = 2 * 128815 * 4096  # its publisher leaves embedding and head out
    assert active_parameter_count(model) - tables == pytest.approx(11e9, rel=0.01)


def test_sliding_layers_may_have_heads_of_their_own() -> None:
    """Four query heads of 16 channels in sliding layers beside eight in full ones."""
    types = ["sliding_attention", "full_attention"] * 2
    model = read(dense(layer_types=types, sliding_window=64, num_sliding_attention_heads=4, head_dim=16))
    heads = [mixer.query_heads for group in model.layers for mixer in group.layer.mixers for _ in range(group.layers)]  # type: ignore[union-attr]
    assert heads == [4, 8, 4, 8]


def test_a_prediction_layer_is_like_the_last_that_attends() -> None:
    """Of linear layers and full ones it is a full one; of full and sliding ones a full one, wherever they stand."""
    model = read(linear(num_nextn_predict_layers=1))
    assert model.mtp is not None
    assert [_letter(group.layer) for group in model.mtp.groups] == ["f"]
    mixed = read(dense(model_type="qwen3_moe", num_nextn_predict_layers=1))
    assert mixed.mtp is not None
    (group,) = mixed.mtp.groups
    assert group.layer.mixers == next(iter(mixed.each_layer())).mixers


def test_modules_trained_and_modules_loaded_are_two_numbers_of_one_config() -> None:
    both = read(dense(num_mtp_modules=7, num_nextn_predict_layers=1))
    one, seven = (read(dense(num_mtp_modules=count)) for count in (1, 7))
    assert both.mtp == one.mtp != seven.mtp


def test_a_mark_of_the_quantiser_is_no_compression_of_the_cache() -> None:
    assert cache_cost(read(dense(for_llm_compressor=True))) == cache_cost(read(dense()))
