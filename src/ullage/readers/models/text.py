"""Finds the language model's part of a config, and what its class implies.

Multimodal configs nest it (`text_config`, `llm_config`, `thinker_config.text_config`); others keep it at top
level. Encoders and encoder-decoders are refused: they keep no cache that this program plans for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ullage.errors import InputError
from ullage.readers.models.families import FAMILIES, UNKNOWN, Family
from ullage.readers.models.keys import Keys

_NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "text_model_config")
_WRAPPERS = ("thinker_config",)
_SECTIONS = ("attn_config", "ffn_config")
_ENCODERS = ("bert", "roberta", "albert", "electra", "deberta", "modernbert", "t5", "bart", "whisper", "clip", "vit")
_MOST_LAYERS = 4096

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "num_query_groups",
    "num_attention_groups",
    "multi_query_group_num",
    "kv_n_heads",
)
HIDDEN = ("hidden_size", "n_embd", "d_model")
CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
    "n_ctx",
    "model_max_length",
)


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The language model's keys with its class. `nested` says that class defaults may have been left out."""

    keys: Keys
    model_type: str
    family: Family
    nested: bool

    def size(self, *names: str) -> int:
        """A size the config states, or its class default where leaving it out is legal; else a refusal."""
        found = self.size_or(*names)
        if found is None:
            raise self.keys.missing(*names)
        return found

    def size_or(self, *names: str, least: int = 1) -> int | None:
        found = self.keys.count_or(*names, least=least)
        if found is not None:
            return found
        for name in names:
            default = self.class_default(name)
            if isinstance(default, int):
                why = f"class default of {self.model_type}, which the config leaves out"
                self.keys.record.assume(self.keys.where(name), default, "count", why)
                return default
        return None

    def overlaid(self, override: Keys | None) -> TextConfig:
        """The config as one layer sees it: what its own entry states lies over the rest."""
        if override is None:
            return self
        table = {**self.keys.table, **{name: value for name, value in override.table.items() if value is not None}}
        keys = Keys(table=table, path=self.keys.path, record=self.keys.record)
        return replace(self, keys=keys)

    def class_default(self, name: str) -> int | str | bool | None:
        if name in self.family.omitted:
            return self.family.omitted[name]
        return self.family.sizes.get(name) if self.nested else None

    @property
    def hidden_channels(self) -> int:
        return self.size(*HIDDEN)

    @property
    def context_tokens(self) -> int | None:
        """The longest context. Configs carry limits of other things beside it, so the first spelling wins."""
        name = self.keys.states(*CONTEXT)
        return self.size_or(name if name is not None else CONTEXT[0])

    @property
    def known(self) -> bool:
        return self.model_type in FAMILIES

    def stated_layers(self) -> int | None:
        """`num_hidden_layers`; None where the layer list alone says how many there are."""
        found = self.size_or(*LAYERS)
        if found is not None and found > _MOST_LAYERS:
            name = self.keys.states(*LAYERS) or LAYERS[0]
            raise self.keys.wrong(name, f"is more than {_MOST_LAYERS} layers", "Give the real config.")
        return found


def text_config(top: Keys) -> TextConfig:
    """The language model inside a config, by whatever name it is nested under."""
    _refuse_encoders(top)
    outer = top
    for wrapper in _WRAPPERS:
        if isinstance(outer.table.get(wrapper), dict):
            outer = outer.sub(wrapper)
    name = next((each for each in _NESTED if isinstance(outer.table.get(each), dict)), None)
    keys = _flattened(outer.sub(name) if name is not None else outer)
    model_type = keys.text_or("model_type") or top.text_or("model_type") or ""
    family = FAMILIES.get(model_type, UNKNOWN)
    if not model_type:
        keys.record.note("no model_type: read by its keys alone")
    elif model_type not in FAMILIES:
        keys.record.note(f"model_type {model_type} has no row in our table of classes: read by its keys alone")
    return TextConfig(keys=keys, model_type=model_type, family=family, nested=name is not None)


def _flattened(keys: Keys) -> Keys:
    """DBRX and MPT keep attention and feed-forward sizes in objects of their own; elsewhere they are at one level."""
    parts = [keys.sub(name).table for name in _SECTIONS if isinstance(keys.table.get(name), dict)]
    if not parts:
        return keys
    table = dict(keys.table)
    for part in parts:
        table |= {name: value for name, value in part.items() if name not in keys.table}
    return Keys(table=table, path=keys.path, record=keys.record)


def _refuse_encoders(top: Keys) -> None:
    if top.flag("is_encoder_decoder"):
        fix = "Plan decoder-only language models; an encoder-decoder's cache is not modelled."
        raise top.wrong("is_encoder_decoder", "is an encoder-decoder", fix)
    model_type = top.text_or("model_type") or ""
    if model_type.split("_")[0].split("-")[0] in _ENCODERS:
        fix = "Plan decoder-only language models."
        raise InputError(field=top.where("model_type"), value=model_type, problem="is an encoder", fix=fix)
