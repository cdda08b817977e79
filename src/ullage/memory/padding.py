"""Experts in mxfp4 take more than their parameters: kernels need their sides to be multiples of a few numbers.

vLLM rounds the width of an expert and the hidden size up when it loads mxfp4 experts, by the kernel it picks for the
device. gpt-oss-120b has 2880 channels on both sides: on Hopper (inner to 128, hidden to 256) that is 9 % more on one
device and 14 % more when each expert is sharded over two devices, as its start-up logs show (66.14 and 34.38 GiB).
"""

from __future__ import annotations

import math

from ullage.facts.model import Model, MoeFeedForward
from ullage.memory.sharding import Sharding, stage_layers

_PADDED_FORMAT = "mxfp4"
_HIDDEN_UNIT = 256
_USUAL_INNER_UNIT = 128
_INNER_UNITS = {"blackwell": 256, "cdna": 256}
"""The multiple by architecture, from vLLM's mxfp4_round_up_hidden_size_and_intermediate_size (0.22): Marlin kernels
on Hopper and older, TensorRT-LLM's on Blackwell, AITER's on CDNA."""


def expert_padding_bytes(model: Model, sharding: Sharding, *, engine: str, architecture: str, stage: int) -> int:
    """Bytes that padding adds to the routed experts on one device of a stage."""
    if engine != "vllm":
        return 0
    added = 0.0
    for group in stage_layers(model, sharding.pp)[stage]:
        block, stored = group.layer.feed_forward, group.layer.formats.routed
        if isinstance(block, MoeFeedForward) and stored.name == _PADDED_FORMAT:
            hidden = block.latent_channels or model.hidden_channels
            inner = block.expert_channels / sharding.expert_tp
            padded = _up(inner, _inner_unit(architecture)) * _up(hidden, _HIDDEN_UNIT)
            matrices = math.ceil(block.routed_experts / sharding.ep) * (3 if block.gated else 2)
            added += group.layers * matrices * (padded - inner * hidden) * stored.stored_bits / 8
    return math.ceil(added)


def _inner_unit(architecture: str) -> int:
    name = architecture.lower()
    return next((unit for key, unit in _INNER_UNITS.items() if key in name), _USUAL_INNER_UNIT)


def _up(value: float, unit: int) -> int:
    return math.ceil(value / unit) * unit
