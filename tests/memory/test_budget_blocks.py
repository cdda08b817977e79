"""How caches are split into blocks, against figures worked by hand from vLLM's rules."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.served import DEEPSEEK_V3, GEMMA_3_27B, LLAMA_2_7B, LLAMA_3_8B, QWEN3_NEXT_80B, SERVED
from ullage.facts.model import Model
from ullage.memory.blocks import (
    BlockGroup,
    CachePart,
    Retention,
    cache_parts,
    is_latent,
    kept_states,
    own_pools_layout,
    shared_pool_layout,
    unbounded,
)
from ullage.memory.kv import KV_DTYPES, device_cache
from ullage.memory.sharding import Sharding

BF16 = KV_DTYPES["bf16"]


def parts_of(model: Model, tp: int = 1) -> tuple[CachePart, ...]:
    return cache_parts(model, Sharding(tp=tp), BF16)


def test_a_block_of_a_plain_model_is_all_layers_of_its_tokens() -> None:
    """Llama-2-7B: 32 layers x 2 x 32 heads x 128 channels x 2 bytes = 524,288 bytes a token, 16 tokens a block."""
    layout = shared_pool_layout(parts_of(LLAMA_2_7B), 16, latent=False)
    assert layout.block_bytes == 16 * 524_288
    assert layout.is_uniform
    assert layout.blocks_in(62_596_000_000) == 62_596_000_000 // (16 * 524_288)
    assert layout.sequence_blocks(4096, 2048) == 256


def test_latent_attention_is_whole_on_every_device() -> None:
    """DeepSeek-V3: 61 layers x 576 channels x 2 bytes, whatever the tp."""
    for tp in (1, 8):
        layout = shared_pool_layout(parts_of(DEEPSEEK_V3, tp), 16, latent=True)
        assert layout.block_bytes == 16 * 70_272


def test_gemma_3_has_groups_of_ten_layers_and_eight_of_padding() -> None:
    """52 sliding and 10 full layers: groups of 10, so 6 sliding groups for 52 layers and 1 full one."""
    layout = shared_pool_layout(parts_of(GEMMA_3_27B), 16, latent=False)
    kinds = [group.kept for group in layout.groups]
    assert (kinds.count(Retention.WINDOW), kinds.count(Retention.ALL)) == (6, 1)
    page = 16 * 2 * 16 * 128 * 2
    assert layout.block_bytes == 10 * page
    assert layout.padding_fraction == pytest.approx(8 / 70)
    # One sequence of 131,072 tokens: 8192 full blocks, and per sliding group the window, a step, and one more block.
    window = math.ceil((1023 + 8192) / 16) + 1
    assert layout.sequence_blocks(131_072, 8192) == 8192 + 6 * window


def test_a_state_makes_the_attention_block_grow_until_a_page_holds_it() -> None:
    """Qwen3-Next: 12 attention layers (2 heads x 256 x 2 x 2 bytes a token) beside 36 with a state."""
    parts = parts_of(QWEN3_NEXT_80B)
    state = next(part for part in parts if part.kept is Retention.STATE)
    convolution = (2 * 16 * 128 + 32 * 128) * 3 * 2
    assert state.state_bytes == 32 * 128 * 128 * 4 + convolution
    layout = shared_pool_layout(parts, 16, latent=False)
    assert layout.block_tokens == 16 * math.ceil(state.state_bytes / (16 * 2048))
    assert layout.block_tokens * 2048 >= state.state_bytes
    kinds = [group.kept for group in layout.groups]
    assert (kinds.count(Retention.STATE), kinds.count(Retention.ALL)) == (3, 1)


def test_nearly_equal_kinds_are_padded_to_the_larger_instead_of_split() -> None:
    """12 sliding and 13 full layers (gpt-oss with a draft head) become two groups of 13, not 24 of one."""
    parts = (
        CachePart(kept=Retention.WINDOW, layers=12, layer_bytes_per_token=2048.0, bound_tokens=128),
        CachePart(kept=Retention.ALL, layers=13, layer_bytes_per_token=2048.0),
    )
    layout = shared_pool_layout(parts, 16, latent=False)
    assert [group.layers for group in layout.groups] == [13, 13]
    assert layout.padding_fraction == pytest.approx(1 / 26)


def test_smaller_pages_hold_more_tokens_where_that_divides_and_are_padded_where_not() -> None:
    full = CachePart(kept=Retention.ALL, layers=4, layer_bytes_per_token=1024.0)
    half = CachePart(kept=Retention.WINDOW, layers=4, layer_bytes_per_token=512.0, bound_tokens=64)
    odd = CachePart(kept=Retention.WINDOW, layers=4, layer_bytes_per_token=700.0, bound_tokens=64)
    divided = shared_pool_layout((full, half), 16, latent=False)
    assert [group.block_tokens for group in divided.groups] == [16, 32]
    assert divided.padding_fraction == 0
    padded = shared_pool_layout((full, odd), 16, latent=False)
    assert [group.block_tokens for group in padded.groups] == [16, 16]
    assert padded.padding_fraction == pytest.approx((1024 - 700) / 2048)


def test_a_window_holds_the_window_and_the_step_that_runs() -> None:
    group = BlockGroup(kept=Retention.WINDOW, layers=1, block_tokens=16, bound_tokens=1024)
    assert group.blocks(100, 8192) == math.ceil(100 / 16) + 1
    assert group.blocks(10**6, 2048) == math.ceil((1023 + 2048) / 16) + 1
    chunk = BlockGroup(kept=Retention.CHUNK, layers=1, block_tokens=16, bound_tokens=8192)
    assert chunk.blocks(10**6, 2048) == math.ceil((8192 + 2048) / 16)


@given(name=st.sampled_from(range(len(SERVED))), context=st.integers(1, 200_000), step=st.integers(1, 16_384))
def test_no_layout_holds_a_sequence_in_less_than_its_bytes(name: int, context: int, step: int) -> None:
    """Rounding and padding only ever add: a sequence takes at least the bytes of its tokens and its state."""
    model = SERVED[name]
    (cost,) = device_cache(model, Sharding(), BF16)
    for layout in (
        shared_pool_layout(parts_of(model), 16, latent=is_latent(model)),
        own_pools_layout(parts_of(model), 16),
    ):
        taken = layout.sequence_blocks(context, step) * layout.block_bytes
        assert taken >= cost.sequence_bytes(context) * (1 - 1e-9)


@given(name=st.sampled_from(range(len(SERVED))), context=st.integers(1, 100_000), more=st.integers(0, 10_000))
def test_longer_contexts_never_take_fewer_blocks(name: int, context: int, more: int) -> None:
    layout = shared_pool_layout(parts_of(SERVED[name]), 16, latent=is_latent(SERVED[name]))
    assert layout.sequence_blocks(context + more, 2048) >= layout.sequence_blocks(context, 2048)


def test_parts_add_up_to_the_cost_of_the_model() -> None:
    for model in SERVED:
        (cost,) = device_cache(model, Sharding(), BF16)
        parts = parts_of(model)
        growing = sum(part.layers * part.layer_bytes_per_token for part in parts if part.kept is Retention.ALL)
        assert growing == cost.bytes_per_token
        assert sum(part.layers * part.state_bytes for part in parts) == cost.state_bytes


def test_the_tokens_of_a_hybrid_are_sequences_times_context() -> None:
    """As engines print them: 1,000 blocks hold 1,000 / (blocks of a sequence) sequences of the longest context."""
    layout = shared_pool_layout(parts_of(GEMMA_3_27B), 16, latent=False)
    each = layout.sequence_blocks(32_768, 2048)
    assert layout.tokens_in(100_000, 32_768, 2048) == int(100_000 / each * 32_768)
    plain = shared_pool_layout(parts_of(LLAMA_3_8B), 16, latent=False)
    assert plain.tokens_in(1000, 32_768, 2048) == 16_000


def test_layers_that_an_old_engine_cannot_mix_keep_everything() -> None:
    """Before 0.9.1 vLLM kept every token of Gemma-3's sliding layers: 62 layers of it instead of 10."""
    parts = unbounded(parts_of(GEMMA_3_27B), [Retention.WINDOW])
    layout = shared_pool_layout(parts, 16, latent=False)
    assert layout.is_uniform
    assert layout.block_bytes == 62 * 16 * 2 * 16 * 128 * 2
    assert unbounded(parts_of(LLAMA_3_8B), [Retention.WINDOW]) == parts_of(LLAMA_3_8B)


@pytest.mark.parametrize("drafted", [1, 3, 15])
def test_drafted_tokens_take_a_state_each_where_layers_keep_one(drafted: int) -> None:
    """vLLM cannot tell which drafts will be accepted. Qwen3-Next: three groups with a state, one with a cache."""
    plain = parts_of(QWEN3_NEXT_80B)
    layout = shared_pool_layout(kept_states(plain, 1 + drafted), 16, latent=False)
    alone = shared_pool_layout(plain, 16, latent=False)
    assert layout.block_bytes == alone.block_bytes
    assert layout.sequence_blocks(32_768, 2048) == alone.sequence_blocks(32_768, 2048) + 3 * drafted
    assert kept_states(parts_of(LLAMA_3_8B), 1 + drafted) == parts_of(LLAMA_3_8B)
