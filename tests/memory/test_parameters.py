"""Parameters counted by hand, and laws of cutting a model over devices."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.model_configs import EVERY, blocks, compressed, dense, latent, linear, moe, nested, read
from ullage.errors import InputError
from ullage.facts.model import Model
from ullage.memory.parameters import (
    StageWeights,
    active_parameter_count,
    device_share,
    device_weights,
    parameter_count,
    weight_lines,
)
from ullage.memory.sharding import Sharding, check_sharding, stage_layers
from ullage.memory.tensors import Split, Tensor, TensorClass


def fullest_bytes(stages: Iterable[StageWeights]) -> float:
    """What a device of the fullest stage holds."""
    return max(float(stage.stored_bytes) for stage in stages)


MODELS = {name: read(config) for name, config in EVERY.items()}


def _parameters(model: Model) -> dict[TensorClass, int]:
    return {line.tensor_class: line.parameters for line in weight_lines(model)}


def test_a_dense_decoder_by_hand() -> None:
    found = _parameters(read(dense()))
    hidden, inner, vocabulary, layers = 128, 256, 1000, 4
    query, key_value = 8 * 16, 2 * 16
    assert found == {
        TensorClass.EMBEDDING: vocabulary * hidden,
        TensorClass.ATTENTION: layers * (hidden * query + 2 * hidden * key_value + query * hidden),
        TensorClass.DENSE: layers * 3 * hidden * inner,
        TensorClass.NORM: (2 * layers + 1) * hidden,
        TensorClass.HEAD: vocabulary * hidden,
    }


def test_a_tied_head_is_counted_once() -> None:
    tied, untied = read(dense(tie_word_embeddings=True)), read(dense())
    assert parameter_count(untied) - parameter_count(tied) == 1000 * 128
    assert TensorClass.HEAD not in _parameters(tied)


def test_experts_by_hand() -> None:
    model = read(moe())
    found = _parameters(model)
    assert found[TensorClass.ROUTED] == 4 * 8 * 3 * 128 * 64
    assert found[TensorClass.ROUTER] == 4 * 8 * 128
    # A token uses 2 of the 8 experts.
    assert parameter_count(model) - active_parameter_count(model) == 4 * 6 * 3 * 128 * 64


def test_latent_attention_by_hand() -> None:
    found = _parameters(read(latent()))
    query = 128 * 48 + 48 * 8 * (16 + 8)
    key_value = 128 * (32 + 8) + 32 * 8 * (16 + 16)
    output = 8 * 16 * 128
    norms = 48 + 32
    assert found[TensorClass.ATTENTION] == 4 * (query + key_value + output + norms)
    assert found[TensorClass.SHARED] == 3 * 3 * 128 * 64


def test_gated_delta_nets_by_hand() -> None:
    model = read(linear())
    key, value = 4 * 16, 8 * 16
    delta = 128 * (2 * key + 2 * value + 2 * 8) + 4 * (2 * key + value) + 2 * 8 + 16 + value * 128
    full = 128 * (2 * 8 * 16 + 2 * 2 * 16) + 8 * 16 * 128 + 2 * 16  # queries carry an output gate
    assert _parameters(model)[TensorClass.ATTENTION] == 3 * delta + full


def test_state_space_and_expert_blocks_by_hand() -> None:
    found = _parameters(read(blocks()))
    inner, mixed = 8 * 16, 2 * 2 * 32
    mamba = 128 * (2 * inner + mixed + 8) + 5 * (inner + mixed) + 3 * 8 + inner + inner * 128
    attention = 128 * (8 + 2 + 2) * 16 + 8 * 16 * 128
    assert found[TensorClass.ATTENTION] == mamba + attention
    # relu2 is not gated: two matrices.
    assert found[TensorClass.ROUTED] == 8 * 2 * 128 * 64
    assert found[TensorClass.SHARED] == 2 * 128 * 96
    assert found[TensorClass.DENSE] == 2 * 128 * 256


def test_prediction_layers_and_towers_are_apart() -> None:
    plain, predicting = read(latent()), read(latent(num_nextn_predict_layers=1))
    assert parameter_count(predicting) == parameter_count(plain)
    extra = parameter_count(predicting, mtp=True) - parameter_count(plain)
    experts = 9 * 3 * 128 * 64  # routed and shared experts of one layer
    assert extra > experts + 2 * 128 * 128
    seeing = read(nested())
    assert seeing.vision is not None
    assert parameter_count(seeing) - parameter_count(seeing, vision=False) == seeing.vision.parameters


def test_scales_are_part_of_the_bytes() -> None:
    blocks_of = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    lines = {line.tensor_class: line for line in weight_lines(read(dense(quantization_config=blocks_of)))}
    matrices = lines[TensorClass.DENSE]
    assert matrices.stored_bytes == matrices.parameters + 4 * matrices.parameters // 256
    assert lines[TensorClass.EMBEDDING].stored_bytes == 2 * lines[TensorClass.EMBEDDING].parameters


SHARDINGS = st.builds(
    lambda attention, groups, pp, ep: Sharding(tp=attention * groups, pp=pp, ep=ep, dp_attention=groups),
    st.sampled_from((1, 2, 4)),
    st.sampled_from((1, 2)),
    st.sampled_from((1, 2, 3)),
    st.sampled_from((1,)),
)


@given(name=st.sampled_from(sorted(MODELS)), sharding=SHARDINGS)
def test_devices_together_hold_at_least_the_model(name: str, sharding: Sharding) -> None:
    model = MODELS[name]
    whole = sum(line.stored_bytes for line in weight_lines(model))
    stages = device_weights(model, sharding)
    assert sharding.tp * sum(stage.stored_bytes for stage in stages) >= whole
    assert fullest_bytes(stages) <= whole + 2 * model.vocabulary_tokens * model.hidden_channels


@given(name=st.sampled_from(sorted(MODELS)), groups=st.sampled_from((1, 2)), pp=st.integers(1, 4))
def test_more_devices_never_hold_more_each(name: str, groups: int, pp: int) -> None:
    model = MODELS[name]
    held = [
        fullest_bytes(device_weights(model, Sharding(tp=tp * groups, pp=pp, dp_attention=groups))) for tp in (1, 2, 4)
    ]
    assert held == sorted(held, reverse=True)


@given(name=st.sampled_from(("moe", "latent", "compressed", "blocks")), ep=st.sampled_from((1, 2, 4)))
def test_whole_experts_never_take_less_room_than_cut_ones(name: str, ep: int) -> None:
    model = MODELS[name]
    sharded = fullest_bytes(device_weights(model, Sharding(tp=4)))
    assert fullest_bytes(device_weights(model, Sharding(tp=4, ep=ep))) >= sharded


def test_more_devices_than_key_value_heads_hold_copies() -> None:
    tensor = Tensor(
        tensor_class=TensorClass.ATTENTION,
        parameters=1000,
        format=read(dense()).base_format,
        split=Split.KV_HEADS,
        units=2,
    )
    shares = [device_share(tensor, Sharding(tp=tp)) for tp in (1, 2, 4, 8)]
    assert [float(share) for share in shares] == [1, 0.5, 0.5, 0.5]


def test_experts_that_do_not_divide_leave_one_device_fuller() -> None:
    model = read(moe(num_experts=6))
    lines = {line.tensor_class: line for line in device_weights(model, Sharding(tp=4, ep=4))[0].lines}
    assert lines[TensorClass.ROUTED].parameters == 4 * 2 * 3 * 128 * 64  # 6 experts on 4 devices: 2 on the fullest


def test_attention_groups_hold_whole_attention_and_share_the_experts() -> None:
    model = read(moe())
    (plain,) = device_weights(model, Sharding(tp=4))
    (groups,) = device_weights(model, Sharding(tp=4, dp_attention=4, ep=4))
    one, other = ({line.tensor_class: line.parameters for line in each.lines} for each in (plain, groups))
    assert other[TensorClass.ROUTED] == one[TensorClass.ROUTED]
    assert other[TensorClass.ATTENTION] > 3 * one[TensorClass.ATTENTION]


def test_stages_get_the_remainder_before_the_last_as_vllm_places_it() -> None:
    model = read(dense(num_hidden_layers=11))
    sizes = [sum(group.layers for group in stage) for stage in stage_layers(model, 4)]
    assert sizes == [3, 3, 3, 2]
    assert [sum(group.layers for group in stage) for stage in stage_layers(read(dense(num_hidden_layers=9)), 4)] == [
        2,
        2,
        3,
        2,
    ]


def test_a_tied_head_is_a_copy_on_the_last_stage() -> None:
    stages = device_weights(read(dense(tie_word_embeddings=True)), Sharding(pp=2))
    classes = [{line.tensor_class for line in stage.lines} for stage in stages]
    assert TensorClass.EMBEDDING in classes[0]
    assert TensorClass.EMBEDDING not in classes[1]
    assert TensorClass.HEAD in classes[1]


@pytest.mark.parametrize(
    ("degrees", "field"),
    [
        ({"tp": 3}, "tp"),
        ({"tp": 0}, "tp"),
        ({"tp": 1.5}, "tp"),
        ({"tp": 8, "dp_attention": 3}, "dp_attention"),
        ({"tp": 8, "ep": 3}, "ep"),
        ({"tp": 8, "ep": 8}, "ep"),
        ({"pp": 5}, "pp"),
    ],
)
def test_parallelism_that_no_engine_loads_is_refused(degrees: dict[str, int], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        check_sharding(read(dense()), Sharding(**degrees))
    assert refusal.value.field == field


def test_a_cut_between_heads_and_key_value_heads_is_refused() -> None:
    model = read(dense(num_attention_heads=12, num_key_value_heads=4, head_dim=16))
    with pytest.raises(InputError, match="neither divides the 4 key-value heads"):
        check_sharding(model, Sharding(tp=6))
    check_sharding(model, Sharding(tp=12))


@given(heads=st.sampled_from(((8, 1), (12, 4), (28, 4), (40, 10))), tp=st.integers(1, 64))
def test_degrees_named_by_a_refusal_are_not_refused(heads: tuple[int, int], tp: int) -> None:
    model = read(dense(num_attention_heads=heads[0], num_key_value_heads=heads[1], head_dim=16))
    for groups in (1, 2):
        refusal = refused(model, Sharding(tp=tp * groups, dp_attention=groups))
        if refusal is not None:
            assert refusal.value == tp * groups
            named = [Sharding(tp=int(each), dp_attention=groups) for each in re.findall(r"\d+", refusal.fix)]
            assert named
            assert not any(refused(model, each) for each in named)


def refused(model: Model, sharding: Sharding) -> InputError | None:
    try:
        check_sharding(model, sharding)
    except InputError as refusal:
        return refusal
    return None


def test_linear_attention_is_cut_no_finer_than_its_key_heads() -> None:
    with pytest.raises(InputError, match="tp = 8: does not divide the 4 linear attention key heads"):
        check_sharding(read(linear()), Sharding(tp=8))


def test_compressed_attention_by_hand() -> None:
    model = read(compressed())
    hidden, head, query, rank = 128, 64, 8 * 64, 32
    shared = hidden * (rank + head) + rank * query + query * 32 + 2 * 32 * hidden + rank + head + 8
    sparse = 2 * hidden * 2 * head + 4 * 2 * head + head  # overlapping entries of 4 tokens
    indexer = rank * 4 * 16 + hidden * 4 + 2 * hidden * 2 * 16 + 4 * 2 * 16 + 16
    heavy = 2 * hidden * head + 128 * head + head  # entries of 128 tokens
    assert _parameters(model)[TensorClass.ATTENTION] == 4 * shared + 2 * (sparse + indexer) + heavy
