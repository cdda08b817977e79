"""Layers whose state does not grow: linear attention, state spaces, short convolutions."""

from __future__ import annotations

import math

from ullage.facts.model import LinearAttention, LinearKind, ShortConvolution, StateSpace
from ullage.readers.models.keys import Keys
from ullage.readers.models.text import HEADS, TextConfig

_STATE_BITS = {"float32": 32, "fp32": 32, "bfloat16": 16, "bf16": 16, "float16": 16, "fp16": 16}
_STATE_KEYS = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype", "ssm_dtype")
_CONV = ("conv_kernel", "mamba_d_conv", "conv_kernel_size", "linear_conv_kernel_dim")


def linear_attention(text: TextConfig) -> LinearAttention:
    """Gated delta nets by their `linear_*` sizes, KDA by `linear_attn_config`, lightning attention else."""
    keys = text.keys
    if keys.has("linear_attn_config"):
        return _kda(keys.sub("linear_attn_config"))
    if keys.states("linear_num_value_heads", "linear_key_head_dim"):
        return LinearAttention(
            kind=LinearKind.GATED_DELTA,
            key_heads=keys.count("linear_num_key_heads"),
            value_heads=keys.count("linear_num_value_heads"),
            key_channels=keys.count("linear_key_head_dim"),
            value_channels=keys.count("linear_value_head_dim"),
            conv_taps=keys.count("linear_conv_kernel_dim"),
            state_bits=_state_bits(text),
        )
    if keys.states("attn_type_list", "layer_group_size") or text.model_type == "minimax":
        heads = text.size(*HEADS)
        channels = keys.count_or("head_dim") or text.hidden_channels // heads
        return LinearAttention(
            kind=LinearKind.LIGHTNING,
            key_heads=heads,
            value_heads=heads,
            key_channels=channels,
            value_channels=channels,
            conv_taps=0,
        )
    raise keys.missing("linear_num_value_heads", "linear_attn_config")


def _kda(config: Keys) -> LinearAttention:
    heads, channels = config.count("num_heads"), config.count("head_dim")
    return LinearAttention(
        kind=LinearKind.KDA,
        key_heads=config.count_or("num_k_heads") or heads,
        value_heads=heads,
        key_channels=config.count_or("head_k_dim") or channels,
        value_channels=channels,
        conv_taps=config.count("short_conv_kernel_size"),
        gate_rank_channels=channels,
        full_rank_gate=config.flag("use_full_rank_gate"),
    )


def state_space(text: TextConfig) -> StateSpace:
    """Mamba-2 by its heads; Mamba-1 where the config has none."""
    keys = text.keys
    states = keys.count("ssm_state_size", "mamba_d_state", "mamba_state_dim", "state_size")
    taps = keys.count(*_CONV)
    if text.model_type in ("jamba", "mamba", "falcon_mamba") or keys.has("mamba_dt_rank"):
        inner = _inner(text)
        return StateSpace(
            heads=inner,
            head_channels=1,
            state_channels=states,
            groups=1,
            conv_taps=taps,
            state_bits=_state_bits(text),
            step_rank_channels=_step_rank(text),
        )
    heads = text.size("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    channels = _head_channels(text, heads)
    stated = keys.count_or("mamba_d_ssm")
    if stated is not None and stated != heads * channels:
        raise keys.wrong("mamba_d_ssm", f"is not {heads} heads of {channels} channels", "Correct one of the three.")
    for name in ("expand", "mamba_expand"):  # the heads say it already, and rounding may differ
        keys.record.used.add(keys.where(name))
    return StateSpace(
        heads=heads,
        head_channels=channels,
        state_channels=states,
        groups=text.size("n_groups", "mamba_n_groups", "mamba_num_groups", "mamba_ngroups"),
        conv_taps=taps,
        state_bits=_state_bits(text),
        gated_norm=keys.flag("mamba_rms_norm", True),
    )


def _inner(text: TextConfig) -> int:
    keys = text.keys
    found = keys.count_or("mamba_d_ssm")
    if found is None and text.model_type in ("mamba", "falcon_mamba"):
        found = keys.count_or("intermediate_size")
    if found is not None:
        return found
    name = keys.states("expand", "mamba_expand")
    if name is None:
        raise keys.missing("mamba_expand", "expand")
    return round(keys.ratio(name) * text.hidden_channels)


def _head_channels(text: TextConfig, heads: int) -> int:
    keys = text.keys
    name = keys.states("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    if name is not None and keys.table[name] == "auto":
        keys.record.used.add(keys.where(name))
    elif (found := text.size_or("mamba_head_dim", "mamba_d_head", "mamba_headdim")) is not None:
        return found
    inner = _inner(text)
    if inner < heads or inner % heads:
        raise keys.wrong(name or "mamba_expand", f"leaves no whole head: {inner} by {heads} heads", "State it.")
    return inner // heads


def _step_rank(text: TextConfig) -> int:
    name = text.keys.states("mamba_dt_rank", "time_step_rank")
    if name is None or text.keys.table[name] == "auto":
        if name is not None:
            text.keys.record.used.add(text.keys.where(name))
        return math.ceil(text.hidden_channels / 16)  # what "auto" means in every Mamba-1 class
    return text.keys.count(name)


def short_convolution(text: TextConfig) -> ShortConvolution:
    channels = text.keys.count_or("conv_dim") or text.hidden_channels
    return ShortConvolution(channels=channels, conv_taps=text.keys.count("conv_L_cache"))


def _state_bits(text: TextConfig) -> int:
    """Engines keep a recurrence in fp32 unless told otherwise; a config may tell."""
    keys = text.keys
    name = keys.states(*_STATE_KEYS)
    if name is None:
        why = "recurrent states are kept in float32 where the config names no dtype for them"
        keys.record.assume(keys.where(_STATE_KEYS[0]), "float32", "dtype", why)
        return 32
    written = keys.text_or(name) or ""
    if written not in _STATE_BITS:
        raise keys.wrong(name, "is not a dtype this reader knows", f"Known: {', '.join(_STATE_BITS)}.")
    return _STATE_BITS[written]
