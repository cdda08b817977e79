"""Feed-forward blocks with everything that a model may have beside its routed experts, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.model_configs import moe, read
from ullage.facts.model import DenseFeedForward, FeedForward, Model, MoeFeedForward
from ullage.memory.parameters import active_parameter_count, parameter_count, weight_lines
from ullage.memory.tensors import TensorClass

HIDDEN, LAYERS = 128, 4


def with_feed_forward(block: FeedForward) -> Model:
    model = read(moe())
    groups = tuple(replace(each, layer=replace(each.layer, feed_forward=block)) for each in model.layers)
    return replace(model, layers=groups)


def counted(block: FeedForward) -> dict[TensorClass, int]:
    """The parameters of a layer's block, by class."""
    model = with_feed_forward(block)
    classes = (TensorClass.ROUTED, TensorClass.SHARED, TensorClass.DENSE, TensorClass.ROUTER)
    return {
        line.tensor_class: line.parameters // LAYERS
        for line in weight_lines(model)
        if line.tensor_class in classes and line.parameters
    }


def test_biases_are_as_wide_as_what_they_are_added_to() -> None:
    """Gate and up have a bias of the inner width each, down one of the hidden width."""
    block = MoeFeedForward(routed_experts=8, experts_per_token=2, expert_channels=64, shared_channels=96, bias=True)
    assert counted(block) == {
        TensorClass.ROUTED: 8 * (3 * HIDDEN * 64 + 2 * 64 + HIDDEN),
        TensorClass.SHARED: 3 * HIDDEN * 96 + 2 * 96 + HIDDEN,
        TensorClass.ROUTER: 8 * HIDDEN,
    }


def test_without_a_gate_there_are_two_matrices() -> None:
    block = MoeFeedForward(routed_experts=8, experts_per_token=2, expert_channels=64, gated=False, bias=True)
    assert counted(block)[TensorClass.ROUTED] == 8 * (2 * HIDDEN * 64 + 64 + HIDDEN)


def test_a_dense_block_runs_beside_the_experts() -> None:
    block = MoeFeedForward(routed_experts=8, experts_per_token=2, expert_channels=64, dense_channels=40, bias=True)
    assert counted(block)[TensorClass.DENSE] == 3 * HIDDEN * 40 + 2 * 40 + HIDDEN


def test_experts_in_a_narrower_space_are_projected_there_and_back() -> None:
    block = MoeFeedForward(routed_experts=8, experts_per_token=2, expert_channels=64, latent_channels=32)
    assert counted(block)[TensorClass.ROUTED] == 8 * 3 * 32 * 64
    assert counted(block)[TensorClass.SHARED] == 2 * HIDDEN * 32


@pytest.mark.parametrize(("more", "parameters"), [({"router_bias": True}, 8), ({"shared_gate": True}, HIDDEN)])
def test_a_router_may_have_a_bias_and_a_gate(more: dict[str, bool], parameters: int) -> None:
    block = MoeFeedForward(routed_experts=8, experts_per_token=2, expert_channels=64, **more)
    assert counted(block)[TensorClass.ROUTER] == 8 * HIDDEN + parameters


def test_a_token_uses_its_experts_and_everything_that_is_shared() -> None:
    block = MoeFeedForward(
        routed_experts=8, experts_per_token=3, expert_channels=64, shared_channels=96, dense_channels=40
    )
    model = with_feed_forward(block)
    idle = LAYERS * 5 * 3 * HIDDEN * 64
    assert parameter_count(model) - active_parameter_count(model) == idle


def test_a_dense_layer_by_itself() -> None:
    assert counted(DenseFeedForward(inner_channels=200, bias=True)) == {
        TensorClass.DENSE: 3 * HIDDEN * 200 + 2 * 200 + HIDDEN
    }
    assert counted(DenseFeedForward(inner_channels=200, gated=False)) == {TensorClass.DENSE: 2 * HIDDEN * 200}
