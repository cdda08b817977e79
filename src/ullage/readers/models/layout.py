"""Which kind of mixer each layer has: all spellings of the layer pattern, reduced to one slot per layer.

    block_configs                     Nemotron-NAS: a block per layer, each of which may be a no-op
    hybrid_override_pattern           Nemotron-H: one letter per block, which is a mixer or a feed-forward
    layers_block_type                 the same as words, without num_hidden_layers; Granite, Zamba
    layer_types                       words, one per layer
    compress_ratios                   DeepSeek-V4: 0 is the window alone
    linear_attn_config                Kimi: lists of layers, counted from 1
    hybrid_layer_pattern              MiMo: 1 slides
    attn_type_list                    MiniMax: 1 is full, 0 is linear
    full_attention_interval           Qwen3-Next: every n-th layer is full, the others linear
    attn_layer_period and _offset, attn_layer_indices, full_attn_idxs, layer_group_size
    attention_chunk_size              Llama-4: chunked where a layer has rotary positions
    sliding_window_pattern, global_attn_every_n_layers
    sliding_window                    by the class's own rule

Where a config has several of them they must tell the same story.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.readers.models.listed import listed_slots
from ullage.readers.models.ruled import ruled_slots, window_is_wider_than_context
from ullage.readers.models.slot import MixerKind, Slot
from ullage.readers.models.text import LAYERS, TextConfig

_OVERRIDABLE = ("head_dim", "num_key_value_heads", "num_attention_heads", "intermediate_size", "sliding_window")


def slots(text: TextConfig) -> tuple[Slot, ...]:
    """One slot per layer, in order."""
    found = listed_slots(text)
    if found is None:
        layers = text.stated_layers()
        if layers is None:
            raise text.keys.missing(*LAYERS)
        found = ruled_slots(text, layers)
    return _overridden(text, _unbounded_where_the_window_is_wider(text, found))


def _overridden(text: TextConfig, found: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """transformers 5 writes what one layer has differently under `per_layer_config`, by layer number."""
    if not text.keys.has("per_layer_config"):
        return found
    every = text.keys.sub("per_layer_config")
    changed = list(found)
    for name in every.table:
        if not name.isdigit() or int(name) >= len(found):
            raise every.wrong(name, "is not the number of a layer", f"Layers are 0 to {len(found) - 1}.")
        own = every.sub(name)
        for key in own.table:
            if key not in _OVERRIDABLE:
                fix = f"Known: {', '.join(_OVERRIDABLE)}."
                raise own.wrong(key, "is not an override this reader knows", fix)
        changed[int(name)] = replace(changed[int(name)], override=own)
    return tuple(changed)


def _unbounded_where_the_window_is_wider(text: TextConfig, found: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """A window as wide as the longest context bounds nothing."""
    window = text.keys.states("sliding_window", "sliding_window_size")
    if window is None or not window_is_wider_than_context(text, window):
        return found
    return tuple(
        replace(slot, mixers=tuple(MixerKind.FULL if kind is MixerKind.SLIDING else kind for kind in slot.mixers))
        for slot in found
    )
