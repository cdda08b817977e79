"""The most a forward pass holds beside weights and cache: what an engine's profile run finds.

An engine runs the largest step it allows (`step_tokens` tokens, `sequences` of them sampled) and keeps the peak.
Buffers are reused from layer to layer, so the peak is the widest moment of one layer or of the sampler:

    attention      2 hidden + queries, keys, values + the attended values
    feed-forward   2 hidden + both halves of the gated product and the product itself
    experts        2 hidden + two workspaces for every expert a token uses (vLLM's fused experts)
    sampler        logits in 16 bits, in fp32, and their probabilities: 10 bytes for every token of the vocabulary

The first three are for every token of the step, in the model's compute format; the last for every sequence, and
whole on every device, because logits are gathered before sampling. `2 hidden` are the residual stream and its
norm. Checked on a device with bench/device_memory.py; encoders of images or sound are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from ullage.facts.model import (
    CompressedAttention,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Layer,
    LinearAttention,
    Mixer,
    Model,
    MoeFeedForward,
    ShortConvolution,
    StateSpace,
)
from ullage.memory.sharding import Sharding

_LOGIT_BYTES = 2 + 4 + 4
_VALUE_BYTES = {"fp32": 4}
_USUAL_VALUE_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class ActivationPeak:
    """The widest moments of one step on one device; the larger of them is the peak."""

    layers_bytes: int
    sampler_bytes: int
    widest: str

    @property
    def peak_bytes(self) -> int:
        return max(self.layers_bytes, self.sampler_bytes)


def activation_peak(model: Model, sharding: Sharding, *, step_tokens: int, sequences: int) -> ActivationPeak:
    """The peak on one device of the widest stage. Sequences of other attention groups are sampled elsewhere."""
    value_bytes = _VALUE_BYTES.get(model.base_format.compute_dtype, _USUAL_VALUE_BYTES)
    moments = [
        moment for group in model.layers for moment in _moments(group.layer, model.hidden_channels, sharding)
    ] or [("hidden", 2.0 * model.hidden_channels)]
    widest, channels = max(moments, key=lambda moment: moment[1])
    layers_bytes = round(step_tokens * channels * value_bytes)
    sampler_bytes = min(sequences, step_tokens) * model.vocabulary_tokens * _LOGIT_BYTES
    return ActivationPeak(
        layers_bytes=layers_bytes,
        sampler_bytes=sampler_bytes,
        widest="sampler" if sampler_bytes > layers_bytes else widest,
    )


def _moments(layer: Layer, hidden: int, sharding: Sharding) -> list[tuple[str, float]]:
    moments = [("attention", 2 * hidden + _mixer_channels(mixer) / sharding.attention_tp) for mixer in layer.mixers]
    if layer.feed_forward is not None:
        moments.append(("feed-forward", 2 * hidden + _feed_forward_channels(layer.feed_forward, hidden, sharding)))
    return moments


def _mixer_channels(mixer: Mixer) -> float:
    match mixer:
        case GroupedAttention():
            keys = mixer.query_heads * mixer.key_channels + mixer.kv_heads * mixer.key_channels
            return keys + mixer.kv_heads * mixer.value_channels + mixer.query_heads * mixer.value_channels
        case LatentAttention():
            query = mixer.nope_channels + mixer.rope_channels
            return mixer.query_heads * (query + mixer.nope_channels + 3 * mixer.value_channels)
        case CompressedAttention():
            return 2 * mixer.query_heads * mixer.head_channels
        case LinearAttention():
            return 2 * mixer.key_heads * mixer.key_channels + 3 * mixer.value_heads * mixer.value_channels
        case StateSpace():
            return 3 * mixer.inner_channels + 2 * mixer.groups * mixer.state_channels
        case ShortConvolution():
            return 4 * mixer.channels
        case _:
            assert_never(mixer)


def _feed_forward_channels(block: FeedForward, hidden: int, sharding: Sharding) -> float:
    match block:
        case DenseFeedForward():
            return _dense_channels(block.inner_channels, gated=block.gated) / sharding.attention_tp
        case MoeFeedForward():
            inner = block.expert_channels / sharding.expert_tp
            width = block.latent_channels or hidden
            first = (2 if block.gated else 1) * inner
            experts = block.experts_per_token * (max(inner, width) + max(first, width))
            beside = _dense_channels(block.shared_channels + block.dense_channels, gated=block.gated)
            # Attention groups hand their tokens to all experts: each device sees the tokens of every group.
            return experts * sharding.dp_attention + beside / sharding.attention_tp
        case _:
            assert_never(block)


def _dense_channels(inner: int, *, gated: bool) -> float:
    return (3.0 if gated else 2.0) * inner
