"""Parameters and weight bytes: of a whole model by tensor class, and of one device under a sharding.

    device bytes = sum over tensors of stored bytes x share

where the share of a device is 1 for what is replicated, 1/attention_tp for what is sharded along heads or inner
width, 1/min(attention_tp, kv heads) for keys and values (a head is the smallest piece, so more devices than
heads hold copies), and ceil(experts/ep)/experts/expert_tp for routed experts. The embedding stands on the
first pipeline stage, the language-model head and the MTP layers on the last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from ullage.facts.model import LayerGroup, Model
from ullage.memory.sharding import Sharding, check_sharding, stage_layers
from ullage.memory.tensors import Split, Tensor, TensorClass, layer_tensors


@dataclass(frozen=True, kw_only=True)
class WeightLine:
    """The weights of one class: how many, and the bytes they take with their scales."""

    tensor_class: TensorClass
    parameters: int
    stored_bytes: int


@dataclass(frozen=True, kw_only=True)
class StageWeights:
    """What one device of a pipeline stage holds."""

    stage: int
    lines: tuple[WeightLine, ...]

    @property
    def stored_bytes(self) -> int:
        return sum(line.stored_bytes for line in self.lines)


def parameter_count(model: Model, *, mtp: bool = False, vision: bool = True) -> int:
    """All parameters. MTP layers are left out unless requested, as publishers do."""
    lines = {line.tensor_class: line.parameters for line in weight_lines(model)}
    left_out = (() if mtp else (TensorClass.MTP,)) + (() if vision else (TensorClass.VISION,))
    return sum(count for tensor_class, count in lines.items() if tensor_class not in left_out)


def active_parameter_count(model: Model) -> int:
    """Parameters one text token passes through: all but the experts it is not routed to, vision and MTP.

    The embedding is counted once: a token reads one row of it, but publishers count the table.
    """
    tensors = [*_layers_tensors(model, model.layers), *_ends(model)]
    return round(sum(each.parameters * each.active_fraction for each in tensors))


def weight_lines(model: Model) -> tuple[WeightLine, ...]:
    """The whole model on one device, with its MTP layers and its vision tower."""
    (stage,) = device_weights(model, Sharding())
    return stage.lines


def device_weights(
    model: Model, sharding: Sharding, *, mtp: bool = True, vision: bool = True
) -> tuple[StageWeights, ...]:
    """What one device of each pipeline stage holds; the stages are not equally full.

    `mtp` and `vision` say whether the engine loads those parts: vLLM loads MTP layers only for speculative
    decoding, and drops the vision tower under `--language-model-only`.
    """
    check_sharding(model, sharding)
    stages = stage_layers(model, sharding.pp)
    last = len(stages) - 1
    return tuple(
        StageWeights(
            stage=index,
            lines=_lines(
                (
                    *_layers_tensors(model, groups),
                    *(_first_end(model) if index == 0 else ()),
                    *(_last_end(model, alone=last == 0) if index == last else ()),
                    *(_mtp_tensors(model) if mtp and index == last else ()),
                    *(_vision_tensors(model) if vision and index == 0 else ()),
                ),
                sharding,
            ),
        )
        for index, groups in enumerate(stages)
    )


def device_share(tensor: Tensor, sharding: Sharding) -> Fraction:
    """The part of a tensor that one device of its stage holds."""
    match tensor.split:
        case Split.NOT:
            return Fraction(1)
        case Split.HEADS:
            return Fraction(1, sharding.attention_tp)
        case Split.KV_HEADS:
            return Fraction(1, min(sharding.attention_tp, tensor.units))
        case Split.EXPERTS:
            most = math.ceil(Fraction(tensor.units, sharding.ep))
            return Fraction(most, tensor.units) / sharding.expert_tp


def _lines(tensors: Iterable[Tensor], sharding: Sharding) -> tuple[WeightLine, ...]:
    parameters: dict[TensorClass, Fraction] = defaultdict(Fraction)
    stored: dict[TensorClass, Fraction] = defaultdict(Fraction)
    for each in tensors:
        held = each.parameters * device_share(each, sharding)
        parameters[each.tensor_class] += held
        stored[each.tensor_class] += held * Fraction(each.format.stored_bits) / 8
    return tuple(
        WeightLine(tensor_class=each, parameters=math.ceil(parameters[each]), stored_bytes=math.ceil(stored[each]))
        for each in TensorClass
        if parameters[each]
    )


def _layers_tensors(model: Model, groups: Iterable[LayerGroup]) -> Iterator[Tensor]:
    for group in groups:
        for tensor in layer_tensors(group.layer, model.hidden_channels):
            yield replace(tensor, parameters=tensor.parameters * group.layers)


def _ends(model: Model) -> Iterator[Tensor]:
    yield from _first_end(model)
    yield from _last_end(model, alone=True)


def _first_end(model: Model) -> Iterator[Tensor]:
    table = model.vocabulary_tokens * model.hidden_channels + model.extra_embedding_parameters
    yield Tensor(tensor_class=TensorClass.EMBEDDING, parameters=table, format=model.embedding_format, split=Split.HEADS)
    positions = model.position_embeddings * model.hidden_channels
    yield Tensor(tensor_class=TensorClass.EMBEDDING, parameters=positions, format=model.embedding_format)


def _last_end(model: Model, *, alone: bool) -> Iterator[Tensor]:
    """The final norm and the head. A tied head is a second copy when embedding and head lie on different stages."""
    yield Tensor(tensor_class=TensorClass.NORM, parameters=model.hidden_channels, format=model.base_format)
    if model.tied_embeddings and alone:
        return
    head = model.vocabulary_tokens * model.hidden_channels
    stored = model.embedding_format if model.tied_embeddings else model.head_format
    yield Tensor(tensor_class=TensorClass.HEAD, parameters=head, format=stored, split=Split.HEADS)


def _mtp_tensors(model: Model) -> Iterator[Tensor]:
    if model.mtp is None:
        return
    hidden = model.hidden_channels
    projections = model.mtp.projections * (2 * hidden * hidden + 3 * hidden)
    yield Tensor(tensor_class=TensorClass.MTP, parameters=projections, format=model.base_format)
    for tensor in _layers_tensors(model, model.mtp.groups):
        yield replace(tensor, tensor_class=TensorClass.MTP)


def _vision_tensors(model: Model) -> Iterator[Tensor]:
    """The tower is small beside the model, and engines may run it data-parallel: counted whole on each device."""
    if model.vision is not None:
        yield Tensor(tensor_class=TensorClass.VISION, parameters=model.vision.parameters, format=model.vision.format)
