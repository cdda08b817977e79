"""A checkpoint that has no sheet of its own, by its name: a model of the catalogue, stored in another format.

`nvidia/Llama-3.3-70B-Instruct-FP4`, `amd/Kimi-K2.5-MXFP4` and `Qwen/Qwen3-32B-AWQ` name a model and a format. Which
matrices publishers store so is a habit: all of them in 8 bits and in dense models; in mixtures of experts 4 bits are
for experts and dense blocks, and attention stays as wide as the model was made. The config.json of the checkpoint says
it outright and goes before this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.facts.catalogue import Catalogue
from ullage.facts.model import LayerFormats, LayerGroup, Model, MoeFeedForward, WeightFormat
from ullage.facts.sheet import Sheet

_FP8 = WeightFormat(name="fp8", weight_bits=8, compute_dtype="fp8")
_BLOCK_FP8 = replace(_FP8, scale_bits=32, values_per_scale=128 * 128)
_NVFP4 = WeightFormat(name="nvfp4", weight_bits=4, scale_bits=8, values_per_scale=16, compute_dtype="fp4")
_MXFP4 = WeightFormat(name="mxfp4", weight_bits=4, scale_bits=8, values_per_scale=32)
_INT4 = WeightFormat(name="int4", weight_bits=4, scale_bits=16, values_per_scale=128)
_INT8 = WeightFormat(name="int8", weight_bits=8, compute_dtype="int8")

_FORMATS: Mapping[str, WeightFormat] = {
    "fp8": _FP8,
    "nvfp4": _NVFP4,
    "fp4": _NVFP4,
    "mxfp4": _MXFP4,
    "awq": _INT4,
    "gptq": _INT4,
    "int4": _INT4,
    "w4a16": _INT4,
    "int8": _INT8,
    "w8a8": _INT8,
}
"""Formats by the words for them; of several in one name the first counts."""
# Words beside a format that say how it was found, and of a release which one: neither changes the shape of a model.
_BESIDE = ("dynamic", "static", "kv", "preview", "quantized", "quantised", "4bit", "8bit", "v2", "block", "ptpc", "exp")
_RELEASE = re.compile(r"\d{4}")
# Who scales an fp8 tensor or row as a whole; the others scale blocks of 128 by 128, as DeepSeek began to.
_WHOLE_TENSORS = ("nvidia", "redhatai", "neuralmagic", "amd", "meta-llama")


@dataclass(frozen=True, kw_only=True)
class QuantisedName:
    """A parsed name: the model, and the format of its weights where the name contains it."""

    base: str
    format: WeightFormat | None
    has_fp8_cache: bool


def read_quantised_name(name: str) -> QuantisedName | None:
    """The model and the format in a name; None where it says neither a format nor a release.

    >>> found = read_quantised_name("nvidia/Llama-3.3-70B-Instruct-FP4")
    >>> found.base, found.format.name
    ('Llama-3.3-70B-Instruct', 'nvfp4')
    """
    owner, _, rest = name.strip().rpartition("/")
    words = re.findall(r"[A-Za-z0-9]+(?:\.[0-9][A-Za-z0-9]*)*", rest)
    formats = [each for word in words if (each := _FORMATS.get(word.lower())) is not None]
    kept = [word for word in words if not _is_beside(word)]
    if len(kept) == len(words) or not kept:
        return None
    found = formats[0] if formats else None
    if found is _FP8 and owner and owner.lower() not in _WHOLE_TENSORS and "dynamic" not in rest.lower():
        found = _BLOCK_FP8
    is_nvidias = found is _NVFP4 or (found is _FP8 and owner.lower() == "nvidia")
    return QuantisedName(base="-".join(kept), format=found, has_fp8_cache=is_nvidias or _says_kv(words))


def find_quantised(name: str, catalogue: Catalogue) -> tuple[Sheet, QuantisedName] | None:
    """The sheet of the model that a name is a checkpoint of: one with that format where there is one."""
    said = read_quantised_name(name)
    if said is None:
        return None
    base = catalogue.may_find(said.base)
    if base is None:
        return None
    own = None if said.format is None else catalogue.sheets.get(f"{base.name}-{said.format.name}")
    return (own, replace(said, format=None)) if own is not None else (base, said)


def requantised(model: Model, said: QuantisedName, name: str) -> Model:
    """The model with its weights in the format that the name says, and a note that it was read there."""
    if said.format is None:
        return replace(
            model, notes=(*model.notes, f"{name} is read as {model.name}: another release of the same shape")
        )
    chosen = said.format
    layers = tuple(_stored(group, chosen) for group in model.layers)
    mtp = model.mtp and replace(model.mtp, groups=tuple(_stored(group, chosen) for group in model.mtp.groups))
    note = f"{chosen.name} is read from the name {name}; its config.json says for sure what is stored how"
    return replace(
        model,
        name=f"{model.name}-{chosen.name}",
        layers=layers,
        mtp=mtp,
        kv_dtype="fp8" if said.has_fp8_cache else model.kv_dtype,
        notes=(*model.notes, note),
    )


def _stored(group: LayerGroup, chosen: WeightFormat) -> LayerGroup:
    formats, other = group.layer.formats, group.layer.formats.other
    parts = dict.fromkeys(("dense", "routed", "shared"), chosen)
    if chosen.weight_bits >= 8 or not isinstance(group.layer.feed_forward, MoeFeedForward):
        parts |= dict.fromkeys(("attention_in", "attention_out"), chosen)
    else:
        parts |= dict.fromkeys(("attention_in", "attention_out", "indexer"), other)
    changed: LayerFormats = replace(formats, **parts)
    return replace(group, layer=replace(group.layer, formats=changed))


def _is_beside(word: str) -> bool:
    lower = word.lower()
    return lower in _FORMATS or lower in _BESIDE or _RELEASE.fullmatch(word) is not None or _is_mix(lower)


def _is_mix(word: str) -> bool:
    """The words of `w-mxfp4-a-fp8` and of `quantized.w8a8`."""
    return word in ("w", "a")


def _says_kv(words: Sequence[str]) -> bool:
    return "kv" in {word.lower() for word in words}
