"""Layer patterns that are rules: which layers attend to everything, and what the others do."""

from __future__ import annotations

import re

from ullage.readers.models.slot import BlockKind, MixerKind, Slot, plain_slots
from ullage.readers.models.text import TextConfig

_PATTERN_LETTERS = {"L": MixerKind.SLIDING, "G": MixerKind.FULL}
_RECURRENT_SIZES = (
    "linear_num_value_heads",
    "linear_key_head_dim",
    "mamba_num_heads",
    "mamba_n_heads",
    "n_mamba_heads",
    "mamba_d_state",
    "ssm_state_size",
    "mamba_state_dim",
    "conv_L_cache",
    "lru_width",
)
_EXPRESSIONS = (
    (re.compile(r"0 if \(i \+ 1\) % (\d+) == 0 else 1 for i in range\((\d+)\)"), 1),
    (re.compile(r"1 if i % (\d+) == 0 else 0 for i in range\((\d+)\)"), 0),
)


def ruled_slots(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """The pattern from a rule, for a number of layers that is stated elsewhere."""
    keys = text.keys
    if keys.has("linear_attn_config"):
        return _kimi(text, layers)
    if keys.has("sparse_attention_config"):
        nested = keys.sub("sparse_attention_config")
        if nested.has("sparse_attention_freq") and nested.flag("use_sparse_attention", True):
            flags = nested.whole_items("sparse_attention_freq", least=layers, most=layers)
            return plain_slots(MixerKind.SPARSE if flag else MixerKind.FULL for flag in flags)
    if keys.has("hybrid_layer_pattern"):
        flags = keys.whole_items("hybrid_layer_pattern", least=layers, most=layers)
        return plain_slots(MixerKind.SLIDING if flag else MixerKind.FULL for flag in flags)
    if keys.has("attn_type_list"):
        flags = keys.whole_items("attn_type_list", least=layers, most=layers)
        return plain_slots(MixerKind.FULL if flag else MixerKind.LINEAR for flag in flags)
    if keys.has("full_attention_interval"):
        return _every(layers, keys.count("full_attention_interval"), MixerKind.LINEAR)
    if keys.has("attn_layer_period"):
        period, offset = keys.count("attn_layer_period"), keys.count_or("attn_layer_offset", least=0) or 0
        return plain_slots(
            MixerKind.FULL if index % period == offset else MixerKind.STATE_SPACE for index in range(layers)
        )
    for name, other in (("attn_layer_indices", MixerKind.STATE_SPACE), ("full_attn_idxs", MixerKind.CONVOLUTION)):
        if keys.has(name):
            full = set(keys.whole_items(name))
            return plain_slots(MixerKind.FULL if index in full else other for index in range(layers))
    if keys.has("layer_group_size"):
        return _every(layers, keys.count("layer_group_size"), MixerKind.LINEAR)
    if text.model_type in ("falcon_mamba", "mamba", "mamba2"):
        return tuple(Slot(mixers=(MixerKind.STATE_SPACE,), block=BlockKind.NONE) for _ in range(layers))
    if text.model_type == "falcon_h1":
        return tuple(Slot(mixers=(MixerKind.FULL, MixerKind.STATE_SPACE)) for _ in range(layers))
    return _bounded_by_rule(text, layers)


def _bounded_by_rule(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """Chunked and sliding layers; without either, every layer attends to everything."""
    keys = text.keys
    if text.family.needs_pattern:
        raise keys.missing("layer_types")
    recurrent = keys.states(*_RECURRENT_SIZES)
    if recurrent is not None:
        if not text.family.linear_unless_every_layers:
            fix = "Add layer_types with an entry per layer."
            raise keys.wrong(recurrent, "sizes a recurrent layer, but no key says which layers are recurrent", fix)
        every = text.family.linear_unless_every_layers
        why = f"{text.model_type}: every {every}. layer attends to everything, the others are linear"
        keys.record.assume(keys.where("full_attention_interval"), every, "layers", why)
        return _every(layers, every, MixerKind.LINEAR)
    if keys.has("attention_chunk_size"):
        return _chunked(text, layers)
    if keys.has("sliding_window_pattern_expr"):
        return _expression(text, layers)
    window = keys.states("sliding_window", "sliding_window_size", "attention_window_size")
    if window is None and text.class_default("sliding_window") is None:
        if text.family.window_is_default and "sliding_window" not in keys.table:
            why = f"{text.model_type}: its class has a window of 4096 by default; without one the cache is larger"
            keys.record.assume(keys.where("sliding_window"), "none", "tokens", why)
        return plain_slots([MixerKind.FULL] * layers)
    if window is not None and _off(keys.table[window]):
        return plain_slots([MixerKind.FULL] * layers)
    return _sliding(text, window or "sliding_window", layers)


def _sliding(text: TextConfig, window: str, layers: int) -> tuple[Slot, ...]:
    keys = text.keys
    if keys.table.get("use_sliding_window") is not None:
        if not keys.flag("use_sliding_window"):
            return plain_slots([MixerKind.FULL] * layers)
        full = keys.count("max_window_layers", least=0)
        return plain_slots(MixerKind.FULL if index < full else MixerKind.SLIDING for index in range(layers))
    pattern = keys.table.get("sliding_window_pattern")
    if isinstance(pattern, str):
        kinds = [_PATTERN_LETTERS.get(letter) for letter in pattern]
        if not kinds or None in kinds:
            raise keys.wrong("sliding_window_pattern", "is not made of L and G", "L slides, G is full.")
        keys.record.used.add(keys.where("sliding_window_pattern"))
        return plain_slots(kinds[index % len(kinds)] or MixerKind.FULL for index in range(layers))
    every = keys.count_or("sliding_window_pattern", "global_attn_every_n_layers")
    if every is not None:
        return _every(layers, every, MixerKind.SLIDING)
    if text.family.full_every_layers:
        why = f"{text.model_type}: every {text.family.full_every_layers}. layer attends to everything, the others slide"
        keys.record.assume(keys.where("sliding_window_pattern"), text.family.full_every_layers, "layers", why)
        return _every(layers, text.family.full_every_layers, MixerKind.SLIDING)
    if text.family.window_everywhere or window_is_wider_than_context(text, window):
        return plain_slots([MixerKind.SLIDING] * layers)
    if text.model_type in ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "dots1"):
        why = f"{text.model_type}: a window is used only where use_sliding_window says so"
        keys.record.assume(keys.where("use_sliding_window"), "false", "flag", why)
        return plain_slots([MixerKind.FULL] * layers)
    fix = "Add layer_types with an entry per layer, or set sliding_window to null if no layer slides."
    raise keys.wrong(window, "is stated, but not which layers slide", fix)


def _kimi(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    config = text.keys.sub("linear_attn_config")
    full = set(config.whole_items("full_attn_layers"))
    linear = set(config.whole_items("kda_layers"))
    first = 0 if 0 in full | linear else 1
    everything = set(range(first, first + layers))
    if full & linear or full | linear != everything:
        name = "full_attn_layers"
        problem = f"and kda_layers do not share out the {layers} layers, which are counted from 1"
        raise config.wrong(name, problem, "Each layer stands in one of the two lists.")
    return plain_slots(MixerKind.FULL if index in full else MixerKind.LINEAR for index in sorted(everything))


def _chunked(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """Llama-4: layers with rotary positions attend within a chunk, those without attend to everything."""
    keys = text.keys
    stated = keys.table.get("no_rope_layers")
    if stated:
        rotary = [bool(each) for each in keys.whole_items("no_rope_layers", least=layers, most=layers)]
    else:
        interval = keys.count_or("no_rope_layer_interval")
        if interval is None and not text.model_type.startswith("llama4"):
            fix = "Add layer_types with an entry per layer."
            raise keys.wrong("attention_chunk_size", "is stated, but not which layers attend in chunks", fix)
        if interval is None:
            interval = 4
            why = "Llama-4: every 4. layer has no rotary position and attends to everything"
            keys.record.assume(keys.where("no_rope_layer_interval"), interval, "layers", why)
        rotary = [(index + 1) % interval != 0 for index in range(layers)]
    return plain_slots(MixerKind.CHUNKED if each else MixerKind.FULL for each in rotary)


def _expression(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """litgpt's own notation, in the two forms it uses: 1 slides."""
    written = text.keys.text_or("sliding_window_pattern_expr") or ""
    for pattern, ahead in _EXPRESSIONS:
        match = pattern.fullmatch(written)
        if match and int(match[2]) == layers and int(match[1]) > 0:
            every = int(match[1])
            hits = [(index + ahead) % every == 0 for index in range(layers)]
            return plain_slots(MixerKind.SLIDING if hit is (ahead == 0) else MixerKind.FULL for hit in hits)
    fix = "Write layer_types with an entry per layer."
    raise text.keys.wrong("sliding_window_pattern_expr", "is not a form this reader knows", fix)


def window_is_wider_than_context(text: TextConfig, window: str) -> bool:
    context, bound = text.context_tokens, text.keys.table.get(window)
    return context is not None and isinstance(bound, int) and bound >= context


def _off(value: object) -> bool:
    return value is None or value is False or value in (0, -1)


def _every(layers: int, interval: int, other: MixerKind) -> tuple[Slot, ...]:
    return plain_slots(MixerKind.FULL if (index + 1) % interval == 0 else other for index in range(layers))
