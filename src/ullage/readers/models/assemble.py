"""From a config's JSON to a `Model`: one function that reads like the table of contents of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.evidence import Source
from ullage.facts.model import FeedForward, Layer, Mixer, Model, grouped
from ullage.readers.models.attention import attention
from ullage.readers.models.extras import (
    base_format,
    extra_embedding,
    learned_positions,
    max_context,
    mtp_head,
    mtp_layer_count,
    tied_embeddings,
    vision_tower,
)
from ullage.readers.models.feed_forward import feed_forward
from ullage.readers.models.keys import Keys
from ullage.readers.models.layout import slots
from ullage.readers.models.listed import mtp_slots
from ullage.readers.models.modules import layer_modules
from ullage.readers.models.quantisation import Scheme, layer_formats, scheme
from ullage.readers.models.recurrent import linear_attention, short_convolution, state_space
from ullage.readers.models.slot import MixerKind, Slot
from ullage.readers.models.text import TextConfig, text_config
from ullage.readers.models.unread import refuse_unread


def model_from_config(
    config: Mapping[str, object], *, name: str, source: Source, beside: Mapping[str, object] | None = None
) -> Model:
    """Read a config.json's object, with the object of the `hf_quant_config.json` beside it where there is one.

    What is not certain is refused by an InputError whose field is the JSON path of the key.
    """
    top = Keys(table=config)
    text = text_config(top)
    pattern = slots(text)
    base = base_format(top, text)
    other = Keys(table=beside, path="hf_quant_config.json", record=top.record) if beside is not None else None
    stored = scheme(top, text.keys, other, base)
    layers = [_layer(text, slot, index, len(pattern), stored) for index, slot in enumerate(pattern)]
    predictors = mtp_layer_count(text)
    mtp = mtp_head(predictors, _mtp_layers(text, pattern, layers, stored) if predictors else ())
    model = Model(
        name=name,
        architecture=_architecture(top, text),
        hidden_channels=text.hidden_channels,
        vocabulary_tokens=text.size("vocab_size", "n_vocab", "padded_vocab_size"),
        layers=grouped(layers),
        max_context_tokens=max_context(top, text),
        tied_embeddings=tied_embeddings(top, text),
        base_format=base,
        embedding_format=base,
        head_format=stored.head or base,
        sources=(source,),
        kv_dtype=stored.kv_dtype,
        position_embeddings=learned_positions(text),
        extra_embedding_parameters=extra_embedding(text, len(layers)),
        mtp=mtp,
        vision=vision_tower(top, text, base),
        assumptions=tuple(top.record.assumed[path] for path in sorted(top.record.assumed)),
        notes=tuple(top.record.notes),
    )
    refuse_unread(text)
    return model


def _layer(
    text: TextConfig, slot: Slot, index: int, layers: int, stored: Scheme, *, module: int | None = None
) -> Layer:
    """Layer `index` of `layers`; `module` is its number in the checkpoint's names, where that is another."""
    text = text.overlaid(slot.override)
    mixers = _mixers(text, slot, index, layers)
    block = feed_forward(text, slot, index, layers)
    modules = layer_modules(mixers, block, exclusive=text.family.exclusive_blocks)
    return Layer(
        mixers=mixers,
        feed_forward=block,
        formats=layer_formats(stored, index if module is None else module, modules, text.keys.record),
        norms=_norms(text, mixers, block),
        other_parameters=_other_parameters(text),
    )


def _mixers(text: TextConfig, slot: Slot, index: int, layers: int) -> tuple[Mixer, ...]:
    return tuple(_mixer(text, slot, kind, index, layers) for kind in slot.mixers)


def _mixer(text: TextConfig, slot: Slot, kind: MixerKind, index: int, layers: int) -> Mixer:
    match kind:
        case MixerKind.LINEAR:
            return linear_attention(text)
        case MixerKind.STATE_SPACE:
            return state_space(text)
        case MixerKind.CONVOLUTION:
            return short_convolution(text)
        case _:
            return attention(text, slot, kind, index, layers)


def _norms(text: TextConfig, mixers: Sequence[Mixer], block: FeedForward | None) -> int:
    """A norm before each part that exists; the class may add others behind them."""
    parts = (1 if mixers else 0) + (1 if block is not None else 0)
    return text.family.norms if text.family.norms != 2 else parts


def _other_parameters(text: TextConfig) -> int:
    """DeepSeek-V4's hyper-connections: two mixings a layer, each from n streams to n + n + n*n weights."""
    streams = text.keys.count_or("hc_mult")
    per_layer = text.keys.count_or("hidden_size_per_layer_input", least=0) or 0
    hyper = 0 if streams is None else 2 * (2 * streams + streams * streams) * (streams * text.hidden_channels + 1)
    return hyper + 2 * per_layer * text.hidden_channels


def _mtp_layers(
    text: TextConfig, pattern: Sequence[Slot], layers: Sequence[Layer], stored: Scheme
) -> tuple[Layer, ...]:
    """The layers of one prediction module: as the config spells them, else like the last attention layer."""
    after = len(layers)
    spelled = mtp_slots(text, after)
    if spelled is not None:  # lists that state something per layer may end with the last one: read as that one
        return tuple(_layer(text, slot, after - 1, after, stored, module=after) for slot in spelled)
    wanted = (MixerKind.FULL, MixerKind.SPARSE, MixerKind.COMPRESSED, MixerKind.SLIDING, MixerKind.CHUNKED)
    for kind in wanted:
        for slot, layer in zip(reversed(pattern), reversed(layers), strict=True):
            if kind in slot.mixers:
                modules = layer_modules(layer.mixers, layer.feed_forward, exclusive=text.family.exclusive_blocks)
                formats = layer_formats(stored, after, modules, text.keys.record)
                return (
                    Layer(mixers=layer.mixers, feed_forward=layer.feed_forward, formats=formats, norms=layer.norms),
                )
    return ()


def _architecture(top: Keys, text: TextConfig) -> str:
    found = top.table.get("architectures")
    if isinstance(found, list) and found and isinstance(found[0], str):
        return found[0]
    return text.model_type or "unknown"
