"""Cache bytes by hand for each kind of layer, and laws over contexts, dtypes and cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.model_configs import EVERY, blocks, compressed, dense, latent, linear, read, sliding_sizes
from ullage.errors import InputError
from ullage.memory.kv import KV_DTYPES, cache_cost, device_cache, kv_dtype
from ullage.memory.sharding import Sharding

MODELS = {name: read(config) for name, config in EVERY.items()}
BF16, FP8 = KV_DTYPES["bf16"], KV_DTYPES["fp8"]


def test_grouped_attention() -> None:
    assert cache_cost(read(dense())).kv_bytes_per_token == 4 * 2 * (16 + 16) * 2
    assert cache_cost(read(dense()), FP8).kv_bytes_per_token == 4 * 2 * (16 + 16)
    assert cache_cost(read(dense(v_head_dim=8))).kv_bytes_per_token == 4 * 2 * (16 + 8) * 2


def test_engines_own_word_on_bytes_per_token() -> None:
    """Lines that engines printed: TensorRT-LLM on Llama-2-7B 524,288; SGLang on a Qwen3-32B shape at tp 4 65,538."""
    llama = dense(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, head_dim=128)
    assert cache_cost(read(llama)).kv_bytes_per_token == 524_288
    qwen = dense(hidden_size=5120, num_hidden_layers=64, num_attention_heads=64, num_key_value_heads=8, head_dim=128)
    (device,) = device_cache(read(qwen), Sharding(tp=4), BF16)
    assert device.kv_bytes_per_token == pytest.approx(65_538, rel=1e-4)


def test_a_window_stops_growing() -> None:
    cost = cache_cost(read(dense(layer_types=["sliding_attention"] * 3 + ["full_attention"], sliding_window=512)))
    token = 2 * 32 * 2
    assert cost.kv_bytes_per_token == token
    assert cost.sequence_bytes(100) == 4 * token * 100
    assert cost.sequence_bytes(512) == 4 * token * 512
    assert cost.sequence_bytes(2000) == token * 2000 + 3 * token * 512
    assert [(each.layers, each.bound_tokens) for each in cost.bounded] == [(3, 512)]


def test_a_cache_that_is_reused_is_stored_once() -> None:
    config = dense(model_type="gemma4_text", num_kv_shared_layers=3, global_head_dim=16)
    assert cache_cost(read(config)).kv_bytes_per_token == 1 * 2 * 32 * 2


def test_latent_attention_is_whole_on_every_device() -> None:
    model = read(latent())
    assert cache_cost(model).kv_bytes_per_token == 4 * (32 + 8) * 2
    for tp in (2, 4, 8):
        (device,) = device_cache(model, Sharding(tp=tp), BF16)
        assert device == cache_cost(model)


def test_sparse_latent_attention_has_a_layout_of_its_own_in_fp8() -> None:
    """DeepSeek-V3.2 in fp8: 512 values, 4 scales of 4 bytes, 64 rotary channels in bf16: 656 bytes a token."""
    sizes = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_topk": 64, "index_n_heads": 4, "index_head_dim": 128}
    sparse = read(latent(model_type="deepseek_v32", **sizes))
    assert cache_cost(sparse, FP8).kv_bytes_per_token == 4 * 656
    assert cache_cost(sparse, FP8).indexer_bytes_per_token == 4 * 132
    assert cache_cost(sparse).indexer_bytes_per_token == 4 * 132
    plain = read(latent(kv_lora_rank=512, qk_rope_head_dim=64))
    assert cache_cost(plain, FP8).kv_bytes_per_token == 4 * 576


def test_more_devices_than_heads_keep_copies() -> None:
    model = read(dense())
    bytes_per_token = [device_cache(model, Sharding(tp=tp), BF16)[0].kv_bytes_per_token for tp in (1, 2, 4, 8)]
    assert bytes_per_token == [512, 256, 256, 256]


def test_states_do_not_depend_on_the_context() -> None:
    cost = cache_cost(read(linear()))
    inputs = 3 * (2 * 4 * 16 + 8 * 16) * 2
    assert cost.state_bytes == 3 * (8 * 16 * 16 * 4 + inputs)
    assert cost.sequence_bytes(0) == cost.state_bytes
    half = cache_cost(read(linear(mamba_ssm_dtype="bfloat16")))
    assert half.state_bytes == 3 * (8 * 16 * 16 * 2 + inputs)


def test_states_are_shared_out_by_heads() -> None:
    whole = cache_cost(read(blocks()))
    (device,) = device_cache(read(blocks()), Sharding(tp=2), BF16)
    assert device.state_bytes * 2 == whole.state_bytes


def test_the_open_entry_of_a_compressor_is_a_state() -> None:
    # 2 layers of ratio 4: 8 tokens x 2 series x (value, gate) x (64 + 16 channels) x 4 bytes; 1 layer of ratio 128.
    state = 2 * (8 * 2 * 2 * (64 + 16) * 4) + 128 * 2 * 64 * 4
    assert cache_cost(read(compressed())).state_bytes == state


def test_stages_keep_what_their_layers_keep() -> None:
    stages = device_cache(read(sliding_sizes()), Sharding(pp=2), BF16)
    assert [stage.kv_bytes_per_token for stage in stages] == [4 * (24 + 16) * 2] * 2
    assert [stage.bounded_bytes for stage in stages] == [128 * 8 * (24 + 16) * 2] * 2


def test_prediction_layers_keep_a_cache_where_they_are_used() -> None:
    model = read(latent(num_nextn_predict_layers=1))
    plain = device_cache(model, Sharding(pp=2), BF16)
    predicting = device_cache(model, Sharding(pp=2), BF16, mtp=True)
    assert plain[0] == predicting[0]
    assert predicting[1].kv_bytes_per_token - plain[1].kv_bytes_per_token == (32 + 8) * 2


def test_names_of_dtypes() -> None:
    assert kv_dtype("fp8_e5m2") is FP8
    assert kv_dtype(" BFloat16 ") is BF16
    with pytest.raises(InputError, match="kv_dtype = 'fp9': is not known"):
        kv_dtype("fp9")


CONTEXTS = st.integers(0, 2_000_000)


@given(name=st.sampled_from(sorted(MODELS)), one=CONTEXTS, other=CONTEXTS)
def test_a_longer_context_never_keeps_less(name: str, one: int, other: int) -> None:
    cost = cache_cost(MODELS[name])
    short, long = sorted((one, other))
    assert cost.sequence_bytes(short) <= cost.sequence_bytes(long)
    assert cost.sequence_bytes(long) <= long * cost.bytes_per_token + cost.bounded_bytes + cost.state_bytes


@given(name=st.sampled_from(sorted(MODELS)), context=CONTEXTS, tp=st.sampled_from((1, 2, 4)))
def test_a_wider_dtype_never_keeps_less(name: str, context: int, tp: int) -> None:
    kept = [
        device_cache(MODELS[name], Sharding(tp=tp), KV_DTYPES[dtype])[0].sequence_bytes(context)
        for dtype in ("nvfp4", "fp8", "bf16", "fp32")
    ]
    assert kept == sorted(kept)


@given(name=st.sampled_from(sorted(MODELS)), context=CONTEXTS, pp=st.integers(1, 4))
def test_a_cut_never_loses_bytes(name: str, context: int, pp: int) -> None:
    model = MODELS[name]
    whole = cache_cost(model).sequence_bytes(context)
    for tp in (1, 2, 4):
        kept = [stage.sequence_bytes(context) for stage in device_cache(model, Sharding(tp=tp, pp=pp), BF16)]
        assert tp * sum(kept) >= whole * (1 - 1e-12)
        assert max(kept) <= whole * (1 + 1e-12)
