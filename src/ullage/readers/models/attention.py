"""Attention layers: grouped, latent and compressed, with the keys that make one layer differ from the next.

A kind of layer can have sizes of its own: MiMo's `swa_*`, Step's `attention_other_setting` and Inkling's
`swa_*` for sliding layers, Gemma-4's `global_head_dim` and `num_global_key_value_heads` for full ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from ullage.errors import InputError
from ullage.facts.model import CompressedAttention, GroupedAttention, Indexer, LatentAttention
from ullage.readers.models.keys import Keys
from ullage.readers.models.slot import MixerKind, Slot
from ullage.readers.models.text import HEADS, KV_HEADS, TextConfig

_WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size")
_SWA = ("swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim")
_SPARSE_NAMES = {
    "index_n_heads": "sparse_num_index_heads",
    "index_head_dim": "sparse_index_dim",
    "index_topk_blocks": "sparse_topk_blocks",
    "index_block_size": "sparse_block_size",
}


def attention(
    text: TextConfig, slot: Slot, kind: MixerKind, index: int, layers: int
) -> GroupedAttention | LatentAttention | CompressedAttention:
    """The attention of layer `index` out of `layers`."""
    if kind is MixerKind.COMPRESSED:
        return _compressed(text, slot)
    if text.keys.has("kv_lora_rank") and kind in (MixerKind.FULL, MixerKind.SPARSE):
        return _latent(text, index, layers)
    if text.keys.states("qk_nope_head_dim", "qk_rope_head_dim") and not text.keys.has("swa_head_dim"):
        raise text.keys.missing("kv_lora_rank")
    return _grouped(text, slot, kind, index, layers)


def _grouped(text: TextConfig, slot: Slot, kind: MixerKind, index: int, layers: int) -> GroupedAttention:
    keys = text.keys
    query_heads, kv_heads, key_channels, value_channels = _head_sizes(text, slot, kind)
    if keys.has("num_global_key_value_heads") and not keys.states("attention_k_eq_v"):
        raise keys.missing("attention_k_eq_v")
    shares = kind is MixerKind.FULL and keys.flag("attention_k_eq_v")
    bias = keys.states("attention_bias", "qkv_bias", "use_qkv_bias", "use_bias", "add_qkv_bias")
    has_bias = keys.flag(bias) if bias is not None else text.family.qkv_bias
    gated = keys.states("attn_output_gate", "attention_output_gate")
    gate = query_heads * value_channels if (keys.flag(gated) if gated else text.family.output_gate) else 0
    if keys.flag("use_head_wise_attn_gate"):
        gate = query_heads
    return GroupedAttention(
        query_heads=query_heads,
        kv_heads=kv_heads,
        key_channels=key_channels,
        value_channels=key_channels if shares else value_channels,
        window_tokens=_window(text, slot) if kind is MixerKind.SLIDING else None,
        chunk_tokens=keys.count("attention_chunk_size") if kind is MixerKind.CHUNKED else None,
        shares_key_value=shares,
        reuses_cache=index >= layers - (keys.count_or("num_kv_shared_layers", least=0) or 0),
        output_gate_channels=gate,
        qk_norm_channels=_qk_norm(text, query_heads, kv_heads, key_channels),
        qkv_bias=has_bias,
        output_bias=has_bias and text.model_type in ("llama", "gpt_oss", "gpt2", "gpt_neox", "opt", "bloom", "phi"),
        sinks=query_heads if _has_sinks(text, kind) else 0,
        indexer=_block_indexer(text) if kind is MixerKind.SPARSE else None,
    )


def _head_sizes(text: TextConfig, slot: Slot, kind: MixerKind) -> tuple[int, int, int, int]:
    """Query heads, key-value heads, key size and value size of one layer."""
    keys = text.keys
    if kind is MixerKind.SLIDING and (keys.has("hybrid_layer_pattern") or keys.states(*_SWA)):
        heads, kv_heads, head = (keys.count(name) for name in _SWA)
        value = keys.count("swa_v_head_dim") if keys.has("v_head_dim") else keys.count_or("swa_v_head_dim") or head
    else:
        other = keys.sub("attention_other_setting") if _has_other_setting(text, kind) else None
        heads = _own(other, *HEADS) or _sliding_heads(text, kind) or text.size(*HEADS)
        kv_heads = _own(other, *KV_HEADS) or _kv_heads(text, slot, kind, heads)
        head = _own(other, "head_dim") or _head_channels(text, heads, full=kind is not MixerKind.SLIDING)
        value = keys.count_or("v_head_dim") or head
    _require_heads(text, heads, kv_heads)
    return heads, kv_heads, head, value


def _has_other_setting(text: TextConfig, kind: MixerKind) -> bool:
    """Step: sizes of the layers of one type, which it names."""
    if not text.keys.has("attention_other_setting"):
        return False
    named = text.keys.sub("attention_other_setting").text_or("attention_type")
    return kind is (MixerKind.FULL if named == "full_attention" else MixerKind.SLIDING)


def _sliding_heads(text: TextConfig, kind: MixerKind) -> int | None:
    return text.keys.count_or("num_sliding_attention_heads") if kind is MixerKind.SLIDING else None


def _own(source: Keys | None, *names: str) -> int | None:
    return None if source is None else source.count_or(*names)


def _kv_heads(text: TextConfig, slot: Slot, kind: MixerKind, query_heads: int) -> int:
    keys = text.keys
    if slot.entry is not None:
        attention = slot.entry.sub("attention")
        if attention.has("num_key_value_heads"):
            return attention.count("num_key_value_heads")
        group = attention.count("n_heads_in_group")
        if query_heads % group:
            raise attention.wrong("n_heads_in_group", f"does not divide {query_heads} heads", "Correct the block.")
        return query_heads // group
    if kind is MixerKind.FULL and keys.has("num_global_key_value_heads") and keys.flag("attention_k_eq_v"):
        return keys.count("num_global_key_value_heads")
    if keys.table.get("multi_query") is not None and not keys.flag("new_decoder_architecture"):
        # Falcon-7B states 71 key-value heads beside this flag, and has one.
        return 1 if keys.flag("multi_query") else keys.count_or(*KV_HEADS) or query_heads
    found = text.size_or(*KV_HEADS)
    if found is not None:
        return found
    if text.family.multi_head_by_default:
        why = f"{text.model_type}: as many key-value heads as query heads where the config names none"
        keys.record.assume(keys.where(KV_HEADS[0]), query_heads, "heads", why)
        return query_heads
    raise keys.missing(*KV_HEADS)


def _head_channels(text: TextConfig, query_heads: int, *, full: bool) -> int:
    keys = text.keys
    if full and (found := text.size_or("global_head_dim")) is not None:
        return found
    name = keys.states("head_dim", "attention_head_dim", "kv_channels", "head_size", "d_kv")
    if name is not None:
        return keys.count(name)
    default = text.class_default("head_dim") or text.family.head_channels
    if isinstance(default, int) and default:
        keys.record.assume(keys.where("head_dim"), default, "channels", f"class default of {text.model_type}")
        return default
    if text.hidden_channels % query_heads:
        fix = "State head_dim."
        raise keys.wrong(keys.states(*HEADS) or HEADS[0], f"does not divide hidden_size {text.hidden_channels}", fix)
    found = text.hidden_channels // query_heads
    if text.known:  # the class computes it: a consequence of what the config states, not an assumption of ours
        keys.record.note(f"head_dim is hidden_size / num_attention_heads = {found}, as {text.model_type} computes it")
    else:
        why = "hidden_size / num_attention_heads, as in every class that lets head_dim be absent"
        keys.record.assume(keys.where("head_dim"), found, "channels", why)
    return found


def _require_heads(text: TextConfig, query_heads: int, kv_heads: int) -> None:
    if kv_heads > query_heads or query_heads % kv_heads:
        name = text.keys.states(*KV_HEADS) or KV_HEADS[0]
        problem = f"does not divide the {query_heads} query heads"
        raise InputError(
            field=text.keys.where(name), value=kv_heads, problem=problem, fix="Correct one of the two head counts."
        )


def _window(text: TextConfig, slot: Slot) -> int:
    if slot.entry is not None:
        return slot.entry.sub("attention").count("window_length")
    return text.size(*_WINDOWS)


def _qk_norm(text: TextConfig, query_heads: int, kv_heads: int, channels: int) -> int:
    keys = text.keys
    rule = text.family.qk_norm
    stated = keys.states("use_qk_norm", "qk_layernorm", "add_qk_norm")
    if stated is not None:
        # Llama-4's norm of queries and keys has no weights.
        rule = (rule or "head") if keys.flag(stated) and not text.model_type.startswith("llama4") else ""
    if rule == "whole":
        return (query_heads + kv_heads) * channels
    return 2 * channels if rule == "head" else 0


def _has_sinks(text: TextConfig, kind: MixerKind) -> bool:
    stated = "add_swa_attention_sink_bias" if kind is MixerKind.SLIDING else "add_full_attention_sink_bias"
    return text.keys.flag(stated, text.family.sinks)


def _latent(text: TextConfig, index: int, layers: int) -> LatentAttention:
    keys = text.keys
    query_heads = text.size(*HEADS)
    indexer, shared = _token_indexer(text, index, layers)
    value = keys.count("v_head_dim")
    return LatentAttention(
        query_heads=query_heads,
        latent_channels=keys.count("kv_lora_rank"),
        rope_channels=keys.count("qk_rope_head_dim", least=0),
        nope_channels=keys.count("qk_nope_head_dim"),
        value_channels=value,
        query_latent_channels=_query_rank(text),
        indexer=indexer,
        indexer_is_shared=shared,
        output_gate_channels=query_heads * value if keys.flag("mla_use_output_gate") else 0,
    )


def _query_rank(text: TextConfig) -> int | None:
    keys = text.keys
    if "q_lora_rank" not in keys.table:
        why = "queries are projected directly where the config names no rank for them"
        keys.record.assume(keys.where("q_lora_rank"), "none", "channels", why)
    return keys.count_or("q_lora_rank")


def _token_indexer(text: TextConfig, index: int, layers: int) -> tuple[Indexer | None, bool]:
    """DeepSeek sparse attention. From GLM-5.2 on some layers reuse the choice of the layer before."""
    keys = text.keys
    if keys.states("index_topk", "index_n_heads", "index_head_dim") is None:
        return None, False
    if _indexer_types(text, layers)[index] == "shared":
        return None, True
    found = Indexer(
        heads=keys.count("index_n_heads"),
        key_channels=keys.count("index_head_dim"),
        top_tokens=keys.count("index_topk"),
    )
    return found, False


def _indexer_types(text: TextConfig, layers: int) -> list[str]:
    keys = text.keys
    name = keys.states("indexer_types", "index_topk_pattern")
    if name is None:
        every = keys.count_or("index_topk_freq") or 1
        offset = keys.count_or("index_skip_topk_offset", least=0)
        ahead = 2 if offset is None else offset
        return ["full" if max(index - ahead + 1, 0) % every == 0 else "shared" for index in range(layers)]
    written = keys.value(name)
    words: Mapping[object, str] = {"F": "full", "S": "shared", "full": "full", "shared": "shared"}
    if not isinstance(written, str | list) or any(not isinstance(each, str) or each not in words for each in written):
        raise keys.wrong(name, "is not a list of full and shared", "One word (or letter F, S) per layer.")
    if len(written) < layers:
        raise keys.wrong(name, f"has {len(written)} entries for {layers} layers", "One entry per layer.")
    return [words[each] for each in written]


def _block_indexer(text: TextConfig) -> Indexer:
    """MiniMax-M3: blocks of keys are scored; the flat names are newer than the nested ones."""
    keys = text.keys
    nested = keys.sub("sparse_attention_config") if keys.has("sparse_attention_config") else None
    size = {
        flat: keys.count(flat) if nested is None or keys.has(flat) else nested.count(old)
        for flat, old in _SPARSE_NAMES.items()
    }
    return Indexer(
        heads=size["index_n_heads"],
        key_channels=size["index_head_dim"],
        top_tokens=size["index_topk_blocks"] * size["index_block_size"],
    )


def _compressed(text: TextConfig, slot: Slot) -> CompressedAttention:
    """DeepSeek-V4. Entries of 4 tokens overlap and are chosen by an indexer; entries of 128 are all read."""
    keys = text.keys
    query_heads, groups = text.size(*HEADS), keys.count("o_groups")
    if query_heads % groups:
        raise keys.wrong("o_groups", f"does not divide {query_heads} heads", "Correct one of the two.")
    if (keys.count_or(*KV_HEADS) or 1) != 1:
        raise keys.wrong(KV_HEADS[0], "is not 1, as compressed attention needs", "Give the real config.")
    if slot.ratio not in (0, 4, 128):
        fix = "0, 4 and 128 are the ratios whose layout is published."
        raise InputError(field=keys.where("compress_ratios"), value=slot.ratio, problem="has an unknown ratio", fix=fix)
    selects = slot.ratio == 4
    indexer = None
    if selects:
        indexer = Indexer(
            heads=keys.count("index_n_heads"),
            key_channels=keys.count("index_head_dim"),
            top_tokens=keys.count("index_topk"),
            tokens_per_key=slot.ratio,
        )
    head, rope = keys.count("head_dim"), keys.count("qk_rope_head_dim", least=0)
    if rope > head:
        raise keys.wrong("qk_rope_head_dim", f"is more than head_dim {head}", "Correct one of the two.")
    return CompressedAttention(
        query_heads=query_heads,
        head_channels=head,
        rope_channels=rope,
        query_latent_channels=keys.count("q_lora_rank"),
        output_groups=groups,
        output_latent_channels=keys.count("o_lora_rank"),
        window_tokens=keys.count("sliding_window"),
        tokens_per_entry=slot.ratio or None,
        overlapping_entries=selects,
        indexer=indexer,
    )
