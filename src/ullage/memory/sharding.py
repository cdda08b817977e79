"""Parallelism of one replica: tensor, pipeline, expert and data-parallel attention, and what a model allows.

A replica is `tp` x `pp` devices. Inside a pipeline stage the same `tp` devices are grouped in three ways:

    attention      `dp_attention` groups, each with sequences of its own, of `attention_tp` devices
    experts        `ep` groups, each with whole experts of its own, of `expert_tp` devices
    the rest       follows attention, as vLLM does

An engine started with `--tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel` (vLLM) is
tp=8, dp_attention=4, ep=8; SGLang's `--tp 8 --dp 4 --enable-dp-attention --ep 8` is the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.errors import InputError
from ullage.facts.model import (
    CompressedAttention,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    LinearAttention,
    Mixer,
    Model,
    MoeFeedForward,
    StateSpace,
    grouped,
)


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """Degrees of parallelism of one replica; see the module's text. `Sharding()` is one device."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "ep", "dp_attention"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                fix = "Give a whole number of devices, at least 1."
                raise InputError(field=name, value=value, problem="is not a number of devices", fix=fix)
        _require_divides("dp_attention", self.dp_attention, "tp", self.tp)
        _require_divides("ep", self.ep, "tp", self.tp)

    @property
    def devices(self) -> int:
        return self.tp * self.pp

    @property
    def attention_tp(self) -> int:
        """Devices that share the attention heads of one sequence."""
        return self.tp // self.dp_attention

    @property
    def expert_tp(self) -> int:
        """Devices that share one expert."""
        return self.tp // self.ep


def check_sharding(model: Model, sharding: Sharding) -> None:
    """Refuse, by InputError, a parallelism with which no engine can load the model."""
    if sharding.pp > model.layer_count:
        fix = f"{model.name} has {model.layer_count} layers; each stage needs one."
        raise InputError(field="pp", value=sharding.pp, problem="is more than the model has layers", fix=fix)
    if sharding.ep > 1:
        _check_experts(model, sharding)
    _check_heads({mixer for group in model.layers for mixer in group.layer.mixers}, sharding)


def stage_layers(model: Model, pp: int) -> tuple[tuple[LayerGroup, ...], ...]:
    """The layers of each pipeline stage.

    Layers that are left over go one each to the stages before the last, from the back, as vLLM places them:
    the last stage has the language-model head to carry, the first the embedding.
    """
    layers = list(model.each_layer())
    sizes = [len(layers) // pp] * pp
    for stage in range(len(layers) % pp):
        sizes[-2 - stage] += 1
    starts = [sum(sizes[:stage]) for stage in range(pp)]
    return tuple(grouped(layers[start : start + size]) for start, size in zip(starts, sizes, strict=True))


def _check_experts(model: Model, sharding: Sharding) -> None:
    experts = {
        group.layer.feed_forward.routed_experts
        for group in model.layers
        if isinstance(group.layer.feed_forward, MoeFeedForward)
    }
    if not experts:
        problem = f"splits experts, but {model.name} has none"
        raise InputError(field="ep", value=sharding.ep, problem=problem, fix="Leave ep at 1.")
    if sharding.ep > min(experts):
        problem = f"is more than the {min(experts)} experts of {model.name}"
        raise InputError(field="ep", value=sharding.ep, problem=problem, fix=f"Use at most {min(experts)}.")


def _check_heads(mixers: set[Mixer], sharding: Sharding) -> None:
    """The fix names degrees that every layer of the model allows, not only this layer."""
    problems = {_problem(mixer, sharding.attention_tp) for mixer in mixers} - {None}
    if problems:
        groups = sharding.dp_attention
        fitting = [split * groups for split in range(1, 65) if not any(_problem(mixer, split) for mixer in mixers)]
        shared = f"leaves {sharding.attention_tp} devices for each of {groups} attention groups, which " * (groups > 1)
        problem = shared + min(filter(None, problems))
        fix = f"Use one of {', '.join(map(str, fitting))}."
        raise InputError(field="tp", value=sharding.tp, problem=problem, fix=fix)


def _problem(mixer: Mixer, split: int) -> str | None:
    """Why no engine shares this mixer among so many devices."""
    for what, heads in _split_heads(mixer):
        if heads % split:
            return f"does not divide the {heads} {what}"
    if isinstance(mixer, GroupedAttention) and max(split, mixer.kv_heads) % min(split, mixer.kv_heads):
        return f"neither divides the {mixer.kv_heads} key-value heads nor is a multiple of them"
    return None


def _split_heads(mixer: Mixer) -> list[tuple[str, int]]:
    match mixer:
        case GroupedAttention() | LatentAttention() | CompressedAttention():
            return [("query heads", mixer.query_heads)]
        case LinearAttention():
            return [("linear attention heads", mixer.value_heads), ("linear attention key heads", mixer.key_heads)]
        case StateSpace():
            return [("state-space heads", mixer.heads)]
        case _:
            return []


def _require_divides(name: str, value: int, of: str, whole: int) -> None:
    if whole % value:
        problem = f"does not divide {of} = {whole}"
        fix = f"Both group the same devices: choose {name} so that {of} is a multiple of it."
        raise InputError(field=name, value=value, problem=problem, fix=fix)
