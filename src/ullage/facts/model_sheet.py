"""Models: what a sheet in models/ holds, and the `Model` it stands for.

A sheet describes parts by name and then the order in which layers follow each other:

    order = "3*dense 58*moe"                 58 layers `moe` after 3 layers `dense`
    order = "12*(3*linear full)"             a period of four layers, twelve times

    [[mixers]]     what carries information between tokens: kind and the sizes of that kind
    [[blocks]]     feed-forward blocks: kind and sizes
    [[formats]]    how weights are stored, beside bf16, fp16 and fp32
    [[layers]]     a mixer (or several), a block, and the format of each class of weights

Sizes carry the names of `ullage.facts.model`; what is zero, false or absent is left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from ullage.errors import InputError, check_name, unknown_name
from ullage.facts.catalogue import Catalogue, packaged
from ullage.facts.model import (
    PLAIN_FORMATS,
    CompressedAttention,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Layer,
    LayerFormats,
    LayerGroup,
    LinearAttention,
    LinearKind,
    Mixer,
    Model,
    MoeFeedForward,
    MtpHead,
    PublishedSize,
    ShortConvolution,
    StateSpace,
    VisionTower,
    WeightFormat,
    grouped,
)
from ullage.facts.quantised import find_quantised, requantised
from ullage.facts.sheet import FactRow, Field, RowKind, Sheet, SheetKind

Part = TypeVar("Part")

MIXER_KINDS: Mapping[str, type[Mixer]] = {
    "grouped": GroupedAttention,
    "latent": LatentAttention,
    "compressed": CompressedAttention,
    "linear": LinearAttention,
    "state-space": StateSpace,
    "convolution": ShortConvolution,
}
BLOCK_KINDS: Mapping[str, type[FeedForward]] = {"dense": DenseFeedForward, "moe": MoeFeedForward}
FORMAT_CLASSES = ("attention_in", "attention_out", "indexer", "dense", "routed", "shared")
INDEXER = "indexer_"
_RECURRENCE = "recurrence"


def _fields_of(*kinds: type[Any]) -> dict[str, Field]:
    """One field per number or flag of these dataclasses, under its own name."""
    found: dict[str, Field] = {}
    for kind in kinds:
        for each in fields(kind):
            if each.type in ("int", "int | None"):
                unit = "tokens" if each.name.endswith("_tokens") else "count"
                found[each.name] = Field(unit=unit, meaning=each.name.replace("_", " "))
            elif each.type == "float":
                found[each.name] = Field(unit="ratio", meaning=each.name.replace("_", " "))
            elif each.type == "bool":
                found[each.name] = Field(unit="flag", meaning=each.name.replace("_", " "))
    return found


_PARTS = {"name": True, "kind": True}

MODELS = SheetKind(
    noun="model",
    folder="models",
    howto="docs/howto/read-a-model-config.md",
    texts={"title": True, "architecture": True, "order": True, "mtp_order": False, "notes": False},
    listed={"architecture": "", "published_parameters": "10^9", "max_context_tokens": ""},
    fields={
        "hidden_channels": Field(unit="count", required=True, meaning="length of a token's vector between layers"),
        "vocabulary_tokens": Field(unit="tokens", required=True, meaning="rows of the embedding"),
        "max_context_tokens": Field(unit="tokens", required=True, meaning="longest context the model is made for"),
        "tied_embeddings": Field(unit="flag", required=True, meaning="whether the head is the embedding"),
        "weights": Field(unit="text", required=True, meaning="format of what is not quantised"),
        "head": Field(unit="text", meaning="format of the language-model head, where it is another"),
        "kv_dtype": Field(unit="text", meaning="cache dtype that the checkpoint states"),
        "position_embeddings": Field(unit="count", meaning="rows of a learned position table"),
        "extra_embedding_parameters": Field(unit="parameters", meaning="embeddings that layers add"),
        "mtp_projections": Field(unit="count", meaning="modules of multi-token prediction"),
        "vision_parameters": Field(unit="parameters", meaning="weights of towers for images and sound"),
        "vision_layers": Field(unit="count", meaning="layers of those towers"),
        "published_parameters": Field(unit="parameters", meaning="size as its publisher states it"),
        "published_active_parameters": Field(unit="parameters", meaning="parameters in use per token, as published"),
    },
    rows={
        "mixers": RowKind(
            texts={**_PARTS, _RECURRENCE: False},
            fields={
                **_fields_of(*MIXER_KINDS.values()),
                **{f"{INDEXER}{name}": field for name, field in _fields_of(Indexer).items()},
            },
        ),
        "blocks": RowKind(texts=_PARTS, fields=_fields_of(*BLOCK_KINDS.values())),
        "formats": RowKind(
            texts={"name": True, "stored_as": True, "compute_dtype": True}, fields=_fields_of(WeightFormat)
        ),
        "layers": RowKind(
            texts={"name": True, "mixers": False, "block": False, **dict.fromkeys(FORMAT_CLASSES, False)},
            fields=_fields_of(Layer),
        ),
    },
)


@functools.cache
def models() -> Catalogue:
    """The models that come with ullage."""
    return packaged(MODELS)


def find_model(name: str, catalogue: Catalogue | None = None, *, field: str = "model") -> Model:
    """The model of this name or alias (its Hugging Face repository), from ours or from a user's catalogue.

    A checkpoint that has no sheet is a model of the catalogue in the format that its name says (quantised.py).
    """
    known = models() if catalogue is None else catalogue
    stated = known.may_find(name)
    found = find_quantised(name, known) if stated is None else None
    if found is None:
        return model_of(known.find(name, field=field))
    sheet, said = found
    return requantised(model_of(sheet), said, name)


def model_of(sheet: Sheet) -> Model:
    """The model a sheet describes; a part that is named but not described is an InputError."""
    formats = _formats(sheet)
    base = _named(sheet, "weights", str(sheet.values["weights"].value), formats)
    layers = _layers(sheet, formats, base)
    sources = tuple(dict.fromkeys(each.source for each in sheet.values.values()))
    head = sheet.values.get("head")
    notes = sheet.texts.get("notes")
    return Model(
        name=sheet.name,
        architecture=sheet.texts["architecture"],
        hidden_channels=_count(sheet, "hidden_channels"),
        vocabulary_tokens=_count(sheet, "vocabulary_tokens"),
        layers=_ordered(sheet, "order", layers),
        max_context_tokens=_count(sheet, "max_context_tokens"),
        tied_embeddings=bool(_count(sheet, "tied_embeddings")),
        base_format=base,
        embedding_format=base,
        head_format=base if head is None else _named(sheet, "head", str(head.value), formats),
        sources=sources,
        kv_dtype=str(sheet.values["kv_dtype"].value) if "kv_dtype" in sheet.values else None,
        position_embeddings=_count(sheet, "position_embeddings"),
        extra_embedding_parameters=_count(sheet, "extra_embedding_parameters"),
        mtp=_mtp(sheet, layers),
        vision=_vision(sheet, base),
        aliases=sheet.aliases,
        published=_published(sheet),
        notes=tuple(notes.split("; ")) if notes else (),
    )


def _count(sheet: Sheet, key: str) -> int:
    return int(sheet.number(key) or 0)


def _formats(sheet: Sheet) -> dict[str, WeightFormat]:
    found = {each.name: each for each in PLAIN_FORMATS.values()}
    for row in sheet.rows.get("formats", ()):
        texts = {"name": row.texts["stored_as"], "compute_dtype": row.texts["compute_dtype"]}
        found[row.texts["name"]] = _build(sheet, "formats", WeightFormat, row, texts)
    return found


def _layers(sheet: Sheet, formats: Mapping[str, WeightFormat], base: WeightFormat) -> dict[str, Layer]:
    mixers = {row.texts["name"]: _mixer(sheet, row) for row in sheet.rows.get("mixers", ())}
    blocks = {row.texts["name"]: _block(sheet, row) for row in sheet.rows.get("blocks", ())}
    found = {}
    for row in sheet.rows.get("layers", ()):
        texts = row.texts
        stored = {
            name: _named(sheet, f"layers.{name}", texts[name], formats) if name in texts else base
            for name in FORMAT_CLASSES
        }
        found[texts["name"]] = _build(
            sheet,
            "layers",
            Layer,
            row,
            {
                "mixers": tuple(
                    _named(sheet, "layers.mixers", each, mixers) for each in texts.get("mixers", "").split()
                ),
                "feed_forward": _named(sheet, "layers.block", texts["block"], blocks) if "block" in texts else None,
                "formats": LayerFormats(**stored, other=base),
            },
        )
    return found


def _mixer(sheet: Sheet, row: FactRow) -> Mixer:
    kind = _named(sheet, "mixers.kind", row.texts["kind"], MIXER_KINDS)
    extra: dict[str, Any] = {}
    if kind is LinearAttention:
        kinds = {each.value: each for each in LinearKind}
        extra["kind"] = _named(sheet, "mixers.recurrence", row.texts.get(_RECURRENCE, ""), kinds)
    inside = {
        name.removeprefix(INDEXER): fact.value
        for name, fact in row.values.items()
        if name.startswith(INDEXER) and name not in {each.name for each in fields(kind)}
    }
    if inside:
        extra["indexer"] = _make(sheet, "mixers.indexer", Indexer, inside)
    return _build(sheet, "mixers", kind, row, extra)


def _block(sheet: Sheet, row: FactRow) -> FeedForward:
    return _build(sheet, "blocks", _named(sheet, "blocks.kind", row.texts["kind"], BLOCK_KINDS), row, {})


def _build(sheet: Sheet, where: str, kind: type[Part], row: FactRow, extra: Mapping[str, Any]) -> Part:
    """A part from the numbers of its row; a number that the part does not have is an error."""
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    numbers: dict[str, Any] = {}
    for name, fact in row.values.items():
        if name not in known:
            if name.startswith(INDEXER):
                continue
            raise unknown_name(field=f"{sheet.name}.toml: {where}.{row.texts['name']}", name=name, known=known)
        numbers[name] = bool(fact.value) if known[name].type == "bool" else fact.value
    return _make(sheet, f"{where}.{row.texts['name']}", kind, {**numbers, **extra})


def _make(sheet: Sheet, where: str, kind: type[Part], values: Mapping[str, Any]) -> Part:
    for each in fields(kind):  # type: ignore[arg-type]
        if each.default is MISSING and each.default_factory is MISSING and each.name not in values:
            fix = f"Write {each.name} = ..."
            raise InputError(field=f"{sheet.name}.toml: {where}", value=None, problem=f"has no {each.name}", fix=fix)
    try:
        return kind(**values)
    except ValueError as error:
        fix = "Correct the sheet."
        raise InputError(field=f"{sheet.name}.toml: {where}", value=str(error), problem="cannot be", fix=fix) from error


def _named(sheet: Sheet, where: str, name: str, known: Mapping[str, Part]) -> Part:
    check_name(name, known, field=f"{sheet.name}.toml: {where}")
    return known[name]


def _ordered(sheet: Sheet, key: str, layers: Mapping[str, Layer]) -> tuple[LayerGroup, ...]:
    names = read_order(sheet.texts[key], field=f"{sheet.name}.toml: {key}")
    return grouped([_named(sheet, key, name, layers) for name in names])


def _mtp(sheet: Sheet, layers: Mapping[str, Layer]) -> MtpHead | None:
    if "mtp_order" not in sheet.texts:
        return None
    return MtpHead(groups=_ordered(sheet, "mtp_order", layers), projections=_count(sheet, "mtp_projections") or 1)


def _vision(sheet: Sheet, base: WeightFormat) -> VisionTower | None:
    parameters = _count(sheet, "vision_parameters")
    if not parameters:
        return None
    return VisionTower(parameters=parameters, format=base, layers=_count(sheet, "vision_layers"))


def _published(sheet: Sheet) -> PublishedSize | None:
    if "published_parameters" not in sheet.values:
        return None
    active = sheet.number("published_active_parameters")
    return PublishedSize(
        total_parameters=_count(sheet, "published_parameters"),
        active_parameters=None if active is None else int(active),
        source=sheet.values["published_parameters"].source,
    )


_ORDER = re.compile(r"(?:(?P<times>\d+)\*)?(?:\((?P<inside>[^()]*)\)|(?P<name>[A-Za-z][\w.-]*))\s*")
_MOST_LAYERS = 4096


def read_order(written: str, *, field: str) -> list[str]:
    """The layers' names in order.

    >>> read_order("dense 2*(2*linear full)", field="order")
    ['dense', 'linear', 'linear', 'full', 'linear', 'linear', 'full']
    """
    names: list[str] = []
    position = 0
    while position < len(written):
        match = _ORDER.match(written, position)
        if match is None:
            fix = 'Write names and repeats, for example "3*dense 12*(3*linear full)".'
            raise InputError(field=field, value=written[position:], problem="is not an order of layers", fix=fix)
        inside = match["inside"]
        run = read_order(inside.strip(), field=field) if inside is not None else [match["name"]]
        times = int(match["times"] or 1)
        if len(names) + times * len(run) > _MOST_LAYERS:
            raise InputError(field=field, value=written, problem="has too many layers", fix="Correct the repeats.")
        names += run * times
        position = match.end()
    return names


def write_order(names: Sequence[str]) -> str:
    """The shortest order this notation has for these names: runs, and one period that repeats.

    >>> write_order(["dense", "linear", "linear", "full", "linear", "linear", "full"])
    'dense 2*(2*linear full)'
    """
    best = _runs(names)
    for start in range(min(len(names), 5)):
        for period in range(2, 13):
            times = 1
            while list(names[start : start + period]) == list(
                names[start + times * period : start + (times + 1) * period]
            ):
                times += 1
            if times < 2:
                continue
            inside = _runs(names[start : start + period])
            ends = (_runs(names[:start]), f"{times}*({inside})", _runs(names[start + times * period :]))
            written = " ".join(each for each in ends if each)
            best = min(best, written, key=len)
    return best


def _runs(names: Sequence[str]) -> str:
    written: list[str] = []
    index = 0
    while index < len(names):
        end = index
        while end < len(names) and names[end] == names[index]:
            end += 1
        written.append(names[index] if end == index + 1 else f"{end - index}*{names[index]}")
        index = end
    return " ".join(written)
