"""Feed-forward blocks: which layers have experts, how many, how wide, and what runs beside them."""

from __future__ import annotations

from ullage.errors import InputError
from ullage.facts.model import DenseFeedForward, FeedForward, MoeFeedForward
from ullage.readers.models.keys import Keys
from ullage.readers.models.slot import BlockKind, Slot
from ullage.readers.models.text import TextConfig

_DENSE = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "mlp_hidden_size", "inner_size")
_EXPERTS = (
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_routed_experts",
    "n_experts",
)
_TOP = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "num_experts_per_topk",
    "num_selected_experts",
)
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_intermediate_size")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_SHARED_WIDTH = (
    "moe_shared_expert_intermediate_size",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
_ACTIVATIONS = ("hidden_act", "hidden_activation", "mlp_hidden_act", "activation_function", "activation")
_GATED = ("silu", "swish", "gelu_pytorch_tanh", "swiglu", "geglu", "swigluoai", "swiglu_oai")
_MLP_WORDS = {"dense": False, "sparse": True, "moe": True, "hash_moe": True}


def feed_forward(text: TextConfig, slot: Slot, index: int, layers: int) -> FeedForward | None:
    """The block of layer `index` out of `layers`."""
    if slot.block is BlockKind.NONE:
        return None
    if slot.entry is not None:
        return DenseFeedForward(inner_channels=_block_width(text, slot.entry), gated=_gated(text))
    experts = experts_stated(text)
    if slot.block is BlockKind.MOE and experts is None:
        raise text.keys.missing(*_EXPERTS)
    if slot.block is BlockKind.MOE or (
        slot.block is BlockKind.BY_KEYS and experts is not None and _is_moe(text, index, layers)
    ):
        return _moe(text, index)
    return DenseFeedForward(
        inner_channels=_dense_width(text, index, beside_experts=experts is not None),
        gated=_gated(text),
        bias=text.keys.flag("mlp_bias") or (text.family.qkv_bias and not text.family.gated),
    )


def experts_stated(text: TextConfig) -> int | None:
    """The number of routed experts, or None for a dense model; 0 and 1 mean dense."""
    keys = text.keys
    if keys.table.get("enable_moe_block") is False:
        return None
    found = text.size_or(*_EXPERTS, least=0)
    if found is None:
        _refuse_experts_without_number(keys)
        return None
    if found <= 1:
        return None
    for name in text.family.experts_need:
        if not keys.has(name) and text.class_default(name) is None and not keys.has("mlp_layer_types"):
            raise keys.missing(name)
    return found


def _refuse_experts_without_number(keys: Keys) -> None:
    """A config that speaks of experts but does not say how many is cut, not dense."""
    hint = next((name for name in (*_TOP, *_EXPERT_WIDTH, *_SHARED) if keys.table.get(name) not in (None, 0)), None)
    if hint is not None:
        problem = f"is missing, though {hint} speaks of experts"
        fix = "Give the model's own config.json; say 0 for a dense model."
        raise InputError(field=keys.where(_EXPERTS[0]), value=None, problem=problem, fix=fix)


def _moe(text: TextConfig, index: int) -> MoeFeedForward:
    keys = text.keys
    width = _at(keys, index, *_EXPERT_WIDTH)
    if width is None:
        width = text.size(*_DENSE)
        if not text.family.experts_use_intermediate_size:
            why = "experts are as wide as intermediate_size where the config names no width for them"
            keys.record.assume(keys.where(_EXPERT_WIDTH[0]), width, "channels", why)
    experts, top = text.size(*_EXPERTS), _top(text, index)
    if top > experts:
        name = keys.states(*_TOP) or _TOP[0]
        raise keys.wrong(name, f"is more than the {experts} experts", "Correct one of the two.")
    beside = keys.flag("enable_moe_block") or text.model_type == "longcat_flash"
    shared = _shared_width(text, index, width)
    return MoeFeedForward(
        routed_experts=experts,
        experts_per_token=top,
        expert_channels=width,
        shared_channels=shared,
        dense_channels=_dense_width(text, index) if beside else 0,
        latent_channels=keys.count_or("moe_latent_size", "routed_expert_hidden_size"),
        gated=_gated(text),
        bias=text.family.expert_bias,
        router_bias=text.family.expert_bias or keys.table.get("topk_method") == "noaux_tc",
        shared_gate=text.family.shared_gate and shared > 0,
    )


def _top(text: TextConfig, index: int) -> int:
    name = text.keys.states(*_TOP)
    if name is not None and isinstance(text.keys.table[name], list):
        found = _at(text.keys, index, name)
        assert found is not None
        return found
    return text.size(*_TOP)


def _shared_width(text: TextConfig, index: int, expert_width: int) -> int:
    """Experts that every token uses: a width of their own, or as many routed ones."""
    keys = text.keys
    own = text.size_or(*_SHARED_WIDTH, least=0)
    number = _at(keys, index, *_SHARED, least=0)
    if own is not None:
        return own * (number if number is not None and keys.has("moe_shared_expert_intermediate_size") else 1)
    if number is not None:
        return number * expert_width
    return expert_width if text.family.shared_expert_like_routed else 0


def _is_moe(text: TextConfig, index: int, layers: int) -> bool:
    """Whether layer `index` has experts: the spellings of that, one after the other."""
    keys = text.keys
    if text.model_type == "longcat_flash":
        return index % 2 == 0
    if keys.has("mlp_layer_types"):
        return _mlp_words(keys, layers)[index]
    if isinstance(keys.table.get("moe_layer_freq"), list):
        return bool(keys.whole_items("moe_layer_freq", least=layers)[index])
    for name in ("moe_layers", "moe_layers_enum"):
        if keys.has(name):
            return index in _indices(keys, name)
    if index in (keys.whole_items("mlp_only_layers") if keys.has("mlp_only_layers") else ()):
        return False
    if keys.has("moe_layer_start_index"):
        last = keys.count_or("moe_layer_end_index", least=-1)
        interval = keys.count_or("moe_layer_interval") or 1
        inside = index >= keys.count("moe_layer_start_index", least=0) and (last in (None, -1) or index <= (last or 0))
        return inside and (index + 1) % interval == 0
    if keys.has("expert_layer_period"):
        return index % keys.count("expert_layer_period") == keys.count("expert_layer_offset", least=0)
    dense = keys.count_or("first_k_dense_replace", "num_dense_layers", "first_dense_layers", least=0)
    if index < (dense or 0):
        return False
    step = text.size_or("decoder_sparse_step", "interleave_moe_layer_step", "moe_every_n_layers")
    if step is not None:
        return (index + 1) % step == 0
    every = keys.count_or("moe_layer_freq")
    known = text.family.experts_use_intermediate_size or text.family.experts_need
    if every is None and dense is None and not known:
        why = "every layer has experts where the config does not say which have"
        keys.record.assume(keys.where("moe_layer_freq"), 1, "layers", why)
    return index % (every or 1) == 0


def _mlp_words(keys: Keys, layers: int) -> list[bool]:
    words = keys.items("mlp_layer_types", least=layers)
    for place, word in enumerate(words):
        if not isinstance(word, str) or word not in _MLP_WORDS:
            field = f"{keys.where('mlp_layer_types')}[{place}]"
            fix = f"Known: {', '.join(_MLP_WORDS)}."
            raise InputError(field=field, value=word, problem="is not a kind of feed-forward block", fix=fix)
    return [_MLP_WORDS[str(word)] for word in words]


def _indices(keys: Keys, name: str) -> set[int]:
    """Layer numbers, as a list or as Step's text "3,4,5"."""
    written = keys.value(name)
    if isinstance(written, str):
        parts = [part.strip() for part in written.split(",") if part.strip()]
        if not all(part.isdigit() for part in parts):
            raise keys.wrong(name, "is not a list of layer numbers", "Write a JSON list of whole numbers.")
        return {int(part) for part in parts}
    return set(keys.whole_items(name))


def _dense_width(text: TextConfig, index: int, *, beside_experts: bool = False) -> int:
    """The width of a dense block. Where experts exist, some classes keep the dense layers' width apart."""
    keys = text.keys
    if beside_experts:
        own = text.size_or("intermediate_size_mlp", "dense_intermediate_size", "prefix_dense_intermediate_size")
        if own is not None:
            return own
    if keys.has("block_ff_dim") or (text.model_type.startswith("lfm2") and keys.has("block_multiple_of")):
        return _lfm2_width(text)
    found = _at(keys, index, *_DENSE)
    if found is None:
        found = text.size_or(*_DENSE)
    if found is None and text.model_type in ("gpt2", "gpt_bigcode", "gptj", "bloom", "falcon", "mpt"):
        found = 4 * text.hidden_channels
        keys.record.assume(keys.where("n_inner"), found, "channels", f"{text.model_type}: four times the hidden size")
    if found is None:
        raise keys.missing(*_DENSE)
    if text.model_type in ("gemma4", "gemma4_text") and keys.flag("use_double_wide_mlp"):
        shared = keys.count_or("num_kv_shared_layers", least=0) or 0
        layers = text.stated_layers() or 0
        return 2 * found if shared and index >= layers - shared else found
    return found


def _lfm2_width(text: TextConfig) -> int:
    """LFM2 states the width before it is cut to two thirds and rounded up."""
    keys = text.keys
    width = keys.count("block_ff_dim", "intermediate_size")
    if not keys.flag("block_auto_adjust_ff_dim"):
        return width
    width = 2 * width // 3
    if keys.has("block_ffn_dim_multiplier"):
        width = int(keys.ratio("block_ffn_dim_multiplier") * width)
    unit = keys.count("block_multiple_of")
    return -(-width // unit) * unit


def _block_width(text: TextConfig, entry: Keys) -> int:
    """Nemotron-NAS: the multiple of the hidden size, times 2/3 for the gate, rounded up to 256."""
    ffn = entry.sub("ffn")
    if ffn.has("intermediate_size"):
        return ffn.count("intermediate_size")
    if not ffn.has("ffn_mult"):
        raise ffn.missing("ffn_mult", "intermediate_size")
    width = int(2 * ffn.ratio("ffn_mult") * text.hidden_channels / 3)
    return -(-width // 256) * 256


def _gated(text: TextConfig) -> bool:
    if text.known:
        return text.family.gated
    keys = text.keys
    name = keys.states(*_ACTIVATIONS)
    written = keys.text_or(name) if name is not None else None
    if name is not None and written not in _GATED:
        fix = f"Known gated ones: {', '.join(_GATED)}. Add the class to the reader's table of families."
        raise keys.wrong(name, "does not state whether the feed-forward block is gated", fix)
    why = f"a feed-forward block with {written or 'no stated activation'} is gated in every class we know"
    keys.record.assume(keys.where("gated feed-forward"), "true", "flag", why)
    return True


def _at(keys: Keys, index: int, *names: str, least: int = 1) -> int | None:
    """A count that may be given once, or as a list with one entry per layer."""
    name = keys.states(*names)
    if name is None:
        return None
    if not isinstance(keys.table[name], list):
        return keys.count_or(*names, least=least)
    found = keys.whole_items(name, low=least)
    if index >= len(found):
        raise keys.wrong(name, f"has no entry for layer {index}", "One entry per layer.")
    return found[index]
