"""Layer patterns that are lists: one entry per layer, which also says how many layers there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ullage.errors import InputError, check_name, unknown_name
from ullage.readers.models.keys import Keys
from ullage.readers.models.slot import BlockKind, MixerKind, Slot, plain_slots
from ullage.readers.models.text import LAYERS, TextConfig

_WORDS: dict[str, MixerKind] = {
    "full_attention": MixerKind.FULL,
    "attention": MixerKind.FULL,
    "global_attention": MixerKind.FULL,
    "global": MixerKind.FULL,
    "full": MixerKind.FULL,
    "deepseek_sparse_attention": MixerKind.FULL,
    "minimax_m3_sparse": MixerKind.SPARSE,
    "sliding_attention": MixerKind.SLIDING,
    "sliding_window_attention": MixerKind.SLIDING,
    "sliding_window": MixerKind.SLIDING,
    "local_attention": MixerKind.SLIDING,
    "local": MixerKind.SLIDING,
    "swa": MixerKind.SLIDING,
    "chunked_attention": MixerKind.CHUNKED,
    "compressed_sparse_attention": MixerKind.COMPRESSED,
    "heavily_compressed_attention": MixerKind.COMPRESSED,
    "linear_attention": MixerKind.LINEAR,
    "linear": MixerKind.LINEAR,
    "kda": MixerKind.LINEAR,
    "mamba": MixerKind.STATE_SPACE,
    "mamba2": MixerKind.STATE_SPACE,
    "conv": MixerKind.CONVOLUTION,
    "short_conv": MixerKind.CONVOLUTION,
}
_BLOCK_WORDS = {"mlp": BlockKind.DENSE, "moe": BlockKind.MOE}
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_SHORT_RATES = {
    "compressed_sparse_attention": "compress_rate_csa",
    "heavily_compressed_attention": "compress_rate_hca",
}


def listed_slots(text: TextConfig) -> tuple[Slot, ...] | None:
    """The pattern from a list with an entry per layer, which also says how many layers there are."""
    keys = text.keys
    if text.model_type == "longcat_flash":  # each of its layers is two attention blocks with their dense blocks
        return plain_slots([MixerKind.FULL] * (2 * keys.count("num_layers")))
    if keys.has("block_configs"):
        return _block_configs(text)
    exclusive = text.family.exclusive_blocks
    found: dict[str, tuple[Slot, ...]] = {}
    if keys.has("hybrid_override_pattern"):
        found["hybrid_override_pattern"] = _letters(text, "hybrid_override_pattern")
    if keys.has("layers_block_type"):
        found["layers_block_type"] = _words(text, "layers_block_type", exclusive=exclusive)
    if keys.has("compress_ratios"):
        found["compress_ratios"] = _compress_ratios(text)
    if keys.has("layer_types"):
        found["layer_types"] = _words(text, "layer_types", exclusive=exclusive)
        _check_interval(text, found["layer_types"])
        _check_sliding(text, found["layer_types"])
    _check_same(text, found)
    return next(iter(found.values()), None)


def _check_same(text: TextConfig, found: Mapping[str, tuple[Slot, ...]]) -> None:
    """Several lists must tell the same story; the first that does not is named."""
    (first, *others) = found or ("",)
    for name in others:
        if found[name] != found[first]:
            raise text.keys.wrong(name, f"contradicts {first}", "Keep the list that is right.")


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
    check_name(word, (*_WORDS, *_BLOCK_WORDS), field=entry.where("block_type"))
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
            found.append(Slot(mixers=(_settle(text, _WORDS[word]),), block=block))
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


def _check_sliding(text: TextConfig, found: Sequence[Slot]) -> None:
    """MiMo's flags beside the words of layer_types."""
    if not text.keys.has("hybrid_layer_pattern"):
        return
    flags = text.keys.whole_items("hybrid_layer_pattern", least=len(found))
    if [bool(flag) for flag in flags[: len(found)]] != [MixerKind.SLIDING in slot.mixers for slot in found]:
        raise text.keys.wrong("hybrid_layer_pattern", "contradicts layer_types", "Correct one of the two.")


def _check_interval(text: TextConfig, found: Sequence[Slot]) -> None:
    interval = text.keys.count_or("full_attention_interval")
    if interval is None:
        return
    stated = [MixerKind.FULL in slot.mixers for slot in found]
    if stated != [(index + 1) % interval == 0 for index in range(len(found))]:
        problem = "contradicts layer_types"
        raise text.keys.wrong("full_attention_interval", problem, "Correct one of the two.")
