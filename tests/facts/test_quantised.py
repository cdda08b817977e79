"""Checkpoints that have no sheet: what their names say of model and format."""

from __future__ import annotations

import pytest

from ullage.errors import InputError
from ullage.facts.model import MoeFeedForward
from ullage.facts.model_sheet import find_model
from ullage.memory.parameters import device_weights
from ullage.memory.sharding import Sharding


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nvidia/Llama-3.3-70B-Instruct-FP4", "llama-3.1-70b-nvfp4"),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", "llama-3.1-70b-fp8"),
        ("amd/Kimi-K2.5-MXFP4", "kimi-k2.5-mxfp4"),
        ("amd/DeepSeek-R1-0528-MXFP4-Preview", "deepseek-r1-mxfp4"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "llama-3.1-70b-int4"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b-int8"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
        ("nvidia/DeepSeek-R1-NVFP4", "deepseek-v3.1-nvfp4"),
        ("dsr1", "deepseek-r1"),
    ],
)
def test_a_checkpoint_is_a_model_in_the_format_of_its_name(name: str, found: str) -> None:
    assert find_model(name).name == found


def test_what_a_name_says_is_what_the_sheet_of_that_checkpoint_says() -> None:
    """qwen3-32b-fp8 has a sheet; read from a name it comes to the same bytes."""
    by_name = find_model("somebody/Qwen3-32B-FP8-dynamic").layers[0].layer.formats
    by_sheet = find_model("Qwen/Qwen3-32B-FP8").layers[0].layer.formats
    assert (by_name.dense.weight_bits, by_name.attention_in.weight_bits) == (8, 8)
    assert (by_sheet.dense.weight_bits, by_sheet.attention_in.weight_bits) == (8, 8)


def test_experts_are_stored_narrow_and_attention_is_not() -> None:
    model = find_model("amd/MiniMax-M2.5-MXFP4")
    layer = next(group.layer for group in model.layers if isinstance(group.layer.feed_forward, MoeFeedForward))
    assert layer.formats.routed.name == "mxfp4"
    assert layer.formats.attention_in == layer.formats.other


def test_a_narrower_format_takes_less_memory() -> None:
    names = ("meta-llama/Llama-3.1-8B-Instruct", "nvidia/Llama-3.1-8B-Instruct-FP8", "nvidia/Llama-3.1-8B-Instruct-FP4")
    stored = [device_weights(find_model(each), Sharding(), mtp=False)[0].stored_bytes for each in names]
    assert stored[0] > 1.6 * stored[1] > stored[2]


def test_a_format_read_from_a_name_is_said() -> None:
    (note,) = find_model("nvidia/Qwen3-32B-NVFP4").notes
    assert "nvfp4 is read from the name nvidia/Qwen3-32B-NVFP4" in note


@pytest.mark.parametrize("name", ["stepfun-ai/Step-3.5-Flash-FP8", "fp8", "moonshotai/Kimi-K2-Thinking"])
def test_a_model_that_no_sheet_describes_is_refused_whatever_its_format(name: str) -> None:
    with pytest.raises(InputError, match="is not known"):
        find_model(name)
