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

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ullage.errors import InputError, unknown_name
from ullage.readers.models.keys import Keys
from ullage.readers.models.text import CONTEXT, LAYERS, TextConfig


class MixerKind(enum.Enum):
    """What carries information between tokens in a layer."""

    FULL = "full"
    SPARSE = "sparse"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    COMPRESSED = "compressed"
    LINEAR = "linear"
    STATE_SPACE = "state space"
    CONVOLUTION = "convolution"


class BlockKind(enum.Enum):
    """Whether a layer has a feed-forward block: as the expert keys say, or fixed by the pattern."""

    BY_KEYS = "by keys"
    DENSE = "dense"
    MOE = "moe"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One layer: its mixers, its feed-forward block, and what its own entry in a list adds.

    `entry` is Nemotron-NAS's own notation; an `override` states ordinary keys that hold for this layer alone.
    """

    mixers: tuple[MixerKind, ...]
    block: BlockKind = BlockKind.BY_KEYS
    ratio: int = 0
    entry: Keys | None = None
    override: Keys | None = None


_WORDS: dict[str, tuple[MixerKind, ...]] = {
    "full_attention": (MixerKind.FULL,),
    "attention": (MixerKind.FULL,),
    "global_attention": (MixerKind.FULL,),
    "global": (MixerKind.FULL,),
    "full": (MixerKind.FULL,),
    "deepseek_sparse_attention": (MixerKind.FULL,),
    "minimax_m3_sparse": (MixerKind.SPARSE,),
    "sliding_attention": (MixerKind.SLIDING,),
    "sliding_window_attention": (MixerKind.SLIDING,),
    "sliding_window": (MixerKind.SLIDING,),
    "local_attention": (MixerKind.SLIDING,),
    "local": (MixerKind.SLIDING,),
    "swa": (MixerKind.SLIDING,),
    "chunked_attention": (MixerKind.CHUNKED,),
    "compressed_sparse_attention": (MixerKind.COMPRESSED,),
    "heavily_compressed_attention": (MixerKind.COMPRESSED,),
    "linear_attention": (MixerKind.LINEAR,),
    "linear": (MixerKind.LINEAR,),
    "kda": (MixerKind.LINEAR,),
    "mamba": (MixerKind.STATE_SPACE,),
    "mamba2": (MixerKind.STATE_SPACE,),
    "conv": (MixerKind.CONVOLUTION,),
    "short_conv": (MixerKind.CONVOLUTION,),
}
_BLOCK_WORDS = {"mlp": BlockKind.DENSE, "moe": BlockKind.MOE}
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
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
_OVERRIDABLE = ("head_dim", "num_key_value_heads", "num_attention_heads", "intermediate_size", "sliding_window")
_SHORT_RATES = {
    "compressed_sparse_attention": "compress_rate_csa",
    "heavily_compressed_attention": "compress_rate_hca",
}
_EXPRESSIONS = (
    (re.compile(r"0 if \(i \+ 1\) % (\d+) == 0 else 1 for i in range\((\d+)\)"), 1),
    (re.compile(r"1 if i % (\d+) == 0 else 0 for i in range\((\d+)\)"), 0),
)


def slots(text: TextConfig) -> tuple[Slot, ...]:
    """One slot per layer, in order."""
    found = _listed(text)
    if found is None:
        layers = text.stated_layers()
        if layers is None:
            raise text.keys.missing(*LAYERS)
        found = _by_rule(text, layers)
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


def _listed(text: TextConfig) -> tuple[Slot, ...] | None:
    """The pattern from a list with an entry per layer, which also says how many layers there are."""
    keys = text.keys
    if text.model_type == "longcat_flash":  # each of its layers is two attention blocks with their dense blocks
        return _slots([MixerKind.FULL] * (2 * keys.count("num_layers")))
    if keys.has("block_configs"):
        return _block_configs(text)
    if keys.has("hybrid_override_pattern"):
        return _letters(text, "hybrid_override_pattern")
    if keys.has("layers_block_type"):
        return _words(text, "layers_block_type", exclusive=text.family.exclusive_blocks)
    if keys.has("compress_ratios"):
        return _compress_ratios(text)
    if keys.has("layer_types"):
        found = _words(text, "layer_types", exclusive=text.family.exclusive_blocks)
        _check_interval(text, found)
        return found
    return None


def mtp_slots(text: TextConfig, layers: int) -> tuple[Slot, ...] | None:
    """The blocks of a multi-token prediction layer, where the config spells them.

    Nemotron-3 has a pattern for them; others let the list of layers go on (DeepSeek-V4, Step).
    """
    if text.keys.has("mtp_hybrid_override_pattern"):
        return _letters(text, "mtp_hybrid_override_pattern", counted=False)
    if text.keys.has("mtp_layers_block_type"):
        return _words(text, "mtp_layers_block_type", exclusive=True, counted=False)
    if text.family.exclusive_blocks:
        why = f"{text.model_type}: a prediction module is an attention block and an expert block"
        text.keys.record.assume(text.keys.where("mtp_hybrid_override_pattern"), "*E", "blocks", why)
        return _blocks(text, "mtp_hybrid_override_pattern", ["attention", "moe"], exclusive=True, counted=False)
    for name in ("compress_ratios", "layer_types"):
        listed = text.keys.table.get(name)
        if isinstance(listed, list) and len(listed) > layers:
            if name == "compress_ratios":
                return (Slot(mixers=(MixerKind.COMPRESSED,), ratio=listed[layers]),)
            return _blocks(text, name, [str(listed[layers])], exclusive=False, counted=False)
    return None


def _block_configs(text: TextConfig) -> tuple[Slot, ...]:
    layers = text.stated_layers()
    entries = text.keys.items("block_configs", least=layers or 1, most=layers or 4096)
    found = []
    for index, each in enumerate(entries):
        place = f"block_configs[{index}]"
        if not isinstance(each, dict):
            fix = "Write an object with attention and ffn."
            raise InputError(field=text.keys.where(place), value=each, problem="is not an object", fix=fix)
        entry = Keys(table=each, path=text.keys.where(place), record=text.keys.record)
        if entry.has("block_type"):
            found.append(_typed_block(text, entry))
            continue
        attention = entry.sub("attention") if entry.has("attention") else None
        ffn = entry.sub("ffn") if entry.has("ffn") else None
        if attention is None or ffn is None:
            raise entry.missing("attention" if attention is None else "ffn")
        for part in (attention, ffn):
            for unsupported in ("replace_with_linear", "sparsify", "mamba", "llama4", "moe"):
                if part.table.get(unsupported) not in (None, False):
                    raise part.wrong(unsupported, "is a block this program does not model", "Plan another variant.")
        kind = MixerKind.SLIDING if attention.has("window_length") else MixerKind.FULL
        found.append(
            Slot(
                mixers=() if attention.flag("no_op") else (kind,),
                block=BlockKind.NONE if ffn.flag("no_op") else BlockKind.DENSE,
                entry=entry,
            )
        )
    return tuple(found)


def _typed_block(text: TextConfig, entry: Keys) -> Slot:
    """A block that names its type and states ordinary keys of its own (pruned Nemotron-H)."""
    word = entry.text_or("block_type") or ""
    if word not in (*_WORDS, *_BLOCK_WORDS):
        raise unknown_name(field=entry.where("block_type"), name=word, known=(*_WORDS, *_BLOCK_WORDS))
    (slot,) = _blocks(text, "block_configs", [word], exclusive=True, counted=False)
    return replace(slot, override=entry)


def _letters(text: TextConfig, name: str, *, counted: bool = True) -> tuple[Slot, ...]:
    pattern = text.keys.text_or(name) or ""
    for index, letter in enumerate(pattern):
        if letter not in _LETTERS:
            place = f"{text.keys.where(name)}[{index}]"
            raise unknown_name(field=place, name=letter, known=_LETTERS, fix="M, *, - and E stand for the blocks.")
    return _blocks(text, name, [_LETTERS[letter] for letter in pattern], exclusive=True, counted=counted)


def _words(text: TextConfig, name: str, *, exclusive: bool, counted: bool = True) -> tuple[Slot, ...]:
    written = text.keys.items(name, least=1, most=4096)
    words = [_LETTERS.get(str(word), word) for word in written]
    known = (*_WORDS, *_BLOCK_WORDS, "hybrid")
    for index, word in enumerate(words):
        if word not in known:
            place = f"{text.keys.where(name)}[{index}]"
            fix = "A layer of another kind cannot be sized from its name."
            raise unknown_name(field=place, name=str(word), known=known, fix=fix)
    return _blocks(text, name, [str(word) for word in words], exclusive=exclusive, counted=counted)


def _blocks(
    text: TextConfig, name: str, words: Sequence[str], *, exclusive: bool, counted: bool = True
) -> tuple[Slot, ...]:
    """Slots of words. With exclusive blocks an entry is either a mixer or a feed-forward block."""
    if not words:
        raise text.keys.wrong(name, "names no layer", "One entry per layer.")
    if counted:
        words = _cut_to_layers(text, name, words)
    exclusive = exclusive or any(word in _BLOCK_WORDS for word in words)
    found = []
    for word in words:
        if word in _BLOCK_WORDS:
            found.append(Slot(mixers=(), block=_BLOCK_WORDS[word]))
        elif word == "hybrid":
            found.append(_hybrid(text, name))
        elif text.keys.has("o_lora_rank"):
            found.append(Slot(mixers=(MixerKind.COMPRESSED,), ratio=_compress_rate(text, name, word)))
        else:
            block = BlockKind.NONE if exclusive else BlockKind.BY_KEYS
            found.append(Slot(mixers=tuple(_settle(text, kind) for kind in _WORDS[word]), block=block))
    return tuple(found)


def _cut_to_layers(text: TextConfig, name: str, words: Sequence[str]) -> Sequence[str]:
    """A list may go on for the multi-token prediction layers; any other surplus is a contradiction."""
    layers = text.stated_layers()
    if layers is None or layers == len(words):
        return words
    surplus = len(words) - layers
    if 0 < surplus <= _predicted_layers(text.keys):
        return words[:layers]
    problem = f"has {len(words)} entries, but the config has {layers} layers"
    raise text.keys.wrong(name, problem, "Correct num_hidden_layers or the list; one entry per layer.")


def _predicted_layers(keys: Keys) -> int:
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")
    return max((keys.count_or(name, least=0) or 0 for name in names if keys.has(name)), default=0)


def _settle(text: TextConfig, kind: MixerKind) -> MixerKind:
    """`linear_attention` is also the modern word for state-space and convolution layers: the sizes tell which."""
    if kind is not MixerKind.LINEAR:
        return kind
    keys = text.keys
    if keys.states("linear_num_value_heads", "linear_attn_config", "linear_key_head_dim"):
        return MixerKind.LINEAR
    if keys.states("mamba_num_heads", "mamba_n_heads", "mamba_d_state", "ssm_state_size", "state_size"):
        return MixerKind.STATE_SPACE
    if keys.states("conv_L_cache"):
        return MixerKind.CONVOLUTION
    return MixerKind.LINEAR


def _hybrid(text: TextConfig, name: str) -> Slot:
    if text.model_type == "falcon_h1":
        return Slot(mixers=(MixerKind.FULL, MixerKind.STATE_SPACE))
    fix = "Its hybrid layers share weights in a way that the config does not state."
    raise text.keys.wrong(name, f"has hybrid layers of {text.model_type or 'an unknown class'}", fix)


def _compress_ratios(text: TextConfig) -> tuple[Slot, ...]:
    ratios = text.keys.whole_items("compress_ratios", least=1, most=4096)
    layers = text.stated_layers()
    if layers is None:  # the list goes on for prediction layers, so its length does not say
        raise text.keys.missing(*LAYERS)
    if not 0 <= len(ratios) - layers <= _predicted_layers(text.keys):
        problem = f"has {len(ratios)} entries, but the config has {layers} layers"
        raise text.keys.wrong("compress_ratios", problem, "One entry per layer, and one per prediction layer.")
    return tuple(Slot(mixers=(MixerKind.COMPRESSED,), ratio=ratio) for ratio in ratios[:layers])


def _compress_rate(text: TextConfig, name: str, word: str) -> int:
    """DeepSeek-V4 in words: the ratio of each word stands in `compress_rates`."""
    if word == "sliding_attention":
        return 0
    if word not in _SHORT_RATES:
        raise text.keys.wrong(name, f"has the word {word} in a compressed model", "Use the words of DeepSeek-V4.")
    if text.keys.has("compress_rates"):
        return text.keys.sub("compress_rates").count(word)
    return text.keys.count(_SHORT_RATES[word])


def _check_interval(text: TextConfig, found: Sequence[Slot]) -> None:
    interval = text.keys.count_or("full_attention_interval")
    if interval is None:
        return
    said = [MixerKind.FULL in slot.mixers for slot in found]
    if said != [(index + 1) % interval == 0 for index in range(len(found))]:
        problem = "contradicts layer_types"
        raise text.keys.wrong("full_attention_interval", problem, "Correct one of the two.")


def _by_rule(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """The pattern from a rule, for a number of layers that is stated elsewhere."""
    keys = text.keys
    if keys.has("linear_attn_config"):
        return _kimi(text, layers)
    if keys.has("sparse_attention_config"):
        nested = keys.sub("sparse_attention_config")
        if nested.has("sparse_attention_freq"):
            flags = nested.whole_items("sparse_attention_freq", least=layers, most=layers)
            return _slots(MixerKind.SPARSE if flag else MixerKind.FULL for flag in flags)
    if keys.has("hybrid_layer_pattern"):
        flags = keys.whole_items("hybrid_layer_pattern", least=layers, most=layers)
        return _slots(MixerKind.SLIDING if flag else MixerKind.FULL for flag in flags)
    if keys.has("attn_type_list"):
        flags = keys.whole_items("attn_type_list", least=layers, most=layers)
        return _slots(MixerKind.FULL if flag else MixerKind.LINEAR for flag in flags)
    if keys.has("full_attention_interval"):
        return _every(layers, keys.count("full_attention_interval"), MixerKind.LINEAR)
    if keys.has("attn_layer_period"):
        period, offset = keys.count("attn_layer_period"), keys.count_or("attn_layer_offset", least=0) or 0
        return _slots(MixerKind.FULL if index % period == offset else MixerKind.STATE_SPACE for index in range(layers))
    for name, other in (("attn_layer_indices", MixerKind.STATE_SPACE), ("full_attn_idxs", MixerKind.CONVOLUTION)):
        if keys.has(name):
            full = set(keys.whole_items(name))
            return _slots(MixerKind.FULL if index in full else other for index in range(layers))
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
        return _slots([MixerKind.FULL] * layers)
    if window is not None and _off(keys.table[window]):
        return _slots([MixerKind.FULL] * layers)
    return _sliding(text, window or "sliding_window", layers)


def _sliding(text: TextConfig, window: str, layers: int) -> tuple[Slot, ...]:
    keys = text.keys
    if keys.table.get("use_sliding_window") is not None:
        if not keys.flag("use_sliding_window"):
            return _slots([MixerKind.FULL] * layers)
        full = keys.count("max_window_layers", least=0)
        return _slots(MixerKind.FULL if index < full else MixerKind.SLIDING for index in range(layers))
    pattern = keys.table.get("sliding_window_pattern")
    if isinstance(pattern, str):
        kinds = [_PATTERN_LETTERS.get(letter) for letter in pattern]
        if not kinds or None in kinds:
            raise keys.wrong("sliding_window_pattern", "is not made of L and G", "L slides, G is full.")
        keys.record.used.add(keys.where("sliding_window_pattern"))
        return _slots(kinds[index % len(kinds)] or MixerKind.FULL for index in range(layers))
    every = keys.count_or("sliding_window_pattern", "global_attn_every_n_layers")
    if every is not None:
        return _every(layers, every, MixerKind.SLIDING)
    if text.family.full_every_layers:
        why = f"{text.model_type}: every {text.family.full_every_layers}. layer attends to everything, the others slide"
        keys.record.assume(keys.where("sliding_window_pattern"), text.family.full_every_layers, "layers", why)
        return _every(layers, text.family.full_every_layers, MixerKind.SLIDING)
    if text.family.window_everywhere or _is_wider_than_context(text, window):
        return _slots([MixerKind.SLIDING] * layers)
    if text.model_type in ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "dots1"):
        why = f"{text.model_type}: a window is used only where use_sliding_window says so"
        keys.record.assume(keys.where("use_sliding_window"), "false", "flag", why)
        return _slots([MixerKind.FULL] * layers)
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
    return _slots(MixerKind.FULL if index in full else MixerKind.LINEAR for index in sorted(everything))


def _chunked(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """Llama-4: layers with rotary positions attend within a chunk, those without attend to everything."""
    keys = text.keys
    stated = keys.table.get("no_rope_layers")
    if stated:
        rotary = [bool(each) for each in keys.whole_items("no_rope_layers", least=layers, most=layers)]
    else:
        interval = keys.count_or("no_rope_layer_interval")
        if interval is None:
            interval = 4
            why = "Llama-4: every 4. layer has no rotary position and attends to everything"
            keys.record.assume(keys.where("no_rope_layer_interval"), interval, "layers", why)
        rotary = [(index + 1) % interval != 0 for index in range(layers)]
    return _slots(MixerKind.CHUNKED if each else MixerKind.FULL for each in rotary)


def _expression(text: TextConfig, layers: int) -> tuple[Slot, ...]:
    """litgpt's own notation, in the two forms it uses: 1 slides."""
    written = text.keys.text_or("sliding_window_pattern_expr") or ""
    for pattern, ahead in _EXPRESSIONS:
        match = pattern.fullmatch(written)
        if match and int(match[2]) == layers and int(match[1]) > 0:
            every = int(match[1])
            hits = [(index + ahead) % every == 0 for index in range(layers)]
            return _slots(MixerKind.SLIDING if hit is (ahead == 0) else MixerKind.FULL for hit in hits)
    fix = "Write layer_types with an entry per layer."
    raise text.keys.wrong("sliding_window_pattern_expr", "is not a form this reader knows", fix)


def _unbounded_where_the_window_is_wider(text: TextConfig, found: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """A window as wide as the longest context bounds nothing."""
    window = text.keys.states("sliding_window", "sliding_window_size")
    if window is None or not _is_wider_than_context(text, window):
        return found
    return tuple(
        replace(slot, mixers=tuple(MixerKind.FULL if kind is MixerKind.SLIDING else kind for kind in slot.mixers))
        for slot in found
    )


def _is_wider_than_context(text: TextConfig, window: str) -> bool:
    context, bound = text.size_or(*CONTEXT), text.keys.table.get(window)
    return context is not None and isinstance(bound, int) and bound >= context


def _off(value: object) -> bool:
    return value is None or value is False or value in (0, -1)


def _every(layers: int, interval: int, other: MixerKind) -> tuple[Slot, ...]:
    return _slots(MixerKind.FULL if (index + 1) % interval == 0 else other for index in range(layers))


def _slots(kinds: Iterable[MixerKind]) -> tuple[Slot, ...]:
    return tuple(Slot(mixers=(kind,)) for kind in kinds)
