"""Module names: which patterns of an ignore list mean which part of a layer.

Ignore lists name modules in four ways: in full (`model.layers.3.mlp.gate`), as a part of the path (`lm_head`,
`self_attn`), with stars (`*.self_attn*`), and as `re:` expressions. The path in front of `layers` differs by
wrapper (`model`, `backbone`, `language_model.model`), so a name is tried under each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ullage.errors import InputError
from ullage.facts.model import (
    CompressedAttention,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    LinearAttention,
    Mixer,
    MoeFeedForward,
    ShortConvolution,
    StateSpace,
)

_PREFIXES = (
    "model.",
    "",
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "llm.model.",
    "model.model.",
    "backbone.",
    "transformer.",
)
# What of a prefix a pattern may begin with: `language_model.model.layers.3.mlp`, `model.layers.3.mlp`.
_PREFIX_ENDS = tuple(
    dict.fromkeys(
        prefix[start:] for prefix in _PREFIXES for start in range(len(prefix)) if start == 0 or prefix[start - 1] == "."
    )
)
# A number between dots names one layer; "layers.1*" may also mean layer 10.
_LAYER = re.compile(r"(?:layers|blocks|h)\.(\d+)\.")

Match = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """Patterns of module names.

    Plain names, of which a list may have tens of thousands, are looked up in a set; expressions that name a layer
    are kept under its number, so that asking about a layer stays cheap.
    """

    written: tuple[str, ...] = ()
    _plain: set[str] = field(default_factory=set, repr=False, compare=False)
    _expressions: dict[str, list[Match]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for each in dict.fromkeys(self.written):
            if each.startswith("re:") or "*" in each:
                layer = None if each.startswith("re:") else _LAYER.search(each)
                self._expressions.setdefault(layer[1] if layer else "", []).append(_matcher(each))
            else:
                self._plain.add(each)

    def match(self, layer: int, name: str) -> bool:
        """Whether some pattern means module `name` of this layer (`self_attn.q_proj` of layer 3)."""
        full = [f"{prefix}layers.{layer}.{name}" for prefix in _PREFIXES]
        if self._plain and not self._plain.isdisjoint(_parts(layer, name)):
            return True
        expressions = (*self._expressions.get(str(layer), ()), *self._expressions.get("", ()))
        return any(matches(each) for matches in expressions for each in full)


def _parts(layer: int, name: str) -> Iterator[str]:
    """Every run of whole words in a module's name, under every prefix: a.b gives a, a.b and b."""
    words = ("layers", str(layer), *name.split("."))
    for start in range(len(words)):
        run = words[start]
        yield run
        for word in words[start + 1 :]:
            run = f"{run}.{word}"
            yield run
            if start == 0:
                yield from (prefix + run for prefix in _PREFIX_ENDS)


def _matcher(pattern: str) -> Match:
    if pattern.startswith("re:"):
        expression = _compiled(pattern)
        return lambda name: expression.match(name) is not None
    translated = ".*".join(re.escape(part) for part in pattern.split("*"))
    stars = re.compile(translated + r"(\..*)?")
    return lambda name: stars.fullmatch(name) is not None


def _compiled(pattern: str) -> re.Pattern[str]:
    written = pattern.removeprefix("re:")
    if len(written) > 500:
        fix = "Shorten it, or list the modules."
        raise InputError(field="quantization_config.ignore", value=pattern, problem="is too long", fix=fix)
    try:
        return re.compile(written)
    except re.error as error:
        problem = f"is not a regular expression ({error})"
        raise InputError(
            field="quantization_config.ignore", value=pattern, problem=problem, fix="Fix the file."
        ) from error


Parts = tuple[tuple[str, ...], ...]
"""Parts of a layer, each under every name that checkpoints give it."""


@dataclass(frozen=True, kw_only=True)
class LayerModules:
    """The modules of one layer by the class of weights they hold."""

    attention_in: Parts = ()
    attention_out: Parts = ()
    indexer: Parts = ()
    dense: Parts = ()
    routed: Parts = ()
    shared: Parts = ()


def layer_modules(mixers: tuple[Mixer, ...], block: FeedForward | None, *, exclusive: bool) -> LayerModules:
    """Names to ask an ignore list about. Exclusive blocks (Nemotron-H) keep everything under `mixer`."""
    inputs: list[tuple[str, ...]] = []
    outputs: list[tuple[str, ...]] = []
    indexer: list[tuple[str, ...]] = []
    for mixer in mixers:
        into, out, index = _mixer_modules(mixer, "mixer" if exclusive else "self_attn")
        inputs += into
        outputs += out
        indexer += index
    dense, routed, shared = _block_modules(block, exclusive=exclusive)
    return LayerModules(
        attention_in=tuple(inputs),
        attention_out=tuple(outputs),
        indexer=tuple(indexer),
        dense=dense,
        routed=routed,
        shared=shared,
    )


def _mixer_modules(mixer: Mixer, holder: str) -> tuple[Parts, Parts, Parts]:
    inputs: Parts
    outputs: Parts
    match mixer:
        case GroupedAttention():
            return tuple((f"{holder}.{each}_proj",) for each in "qkv"), ((f"{holder}.o_proj",),), ()
        case LatentAttention():
            query = ("q_a_proj", "q_b_proj") if mixer.query_latent_channels else ("q_proj",)
            names = ("kv_a_proj_with_mqa", "kv_b_proj", *query)
            inputs = tuple((f"{holder}.{each}",) for each in names)
            return inputs, ((f"{holder}.o_proj",),), ((f"{holder}.indexer.wq_b",),)
        case CompressedAttention():
            inputs = (("attn.wq_a", f"{holder}.q_a_proj"), ("attn.wq_b", f"{holder}.q_b_proj"))
            outputs = (("attn.wo_a", f"{holder}.o_a_proj"), ("attn.wo_b", f"{holder}.o_b_proj"))
            return inputs, outputs, (("attn.indexer.wq_b", f"{holder}.indexer.wq_b"),)
        case LinearAttention():
            inputs = (("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz", f"{holder}.q_proj"),)
            return inputs, (("linear_attn.out_proj", f"{holder}.o_proj"),), ()
        case StateSpace():
            name = "mamba" if holder == "self_attn" else holder
            return ((f"{name}.in_proj",),), ((f"{name}.out_proj",),), ()
        case ShortConvolution():
            return (("conv.in_proj",),), (("conv.out_proj",),), ()


def _block_modules(block: FeedForward | None, *, exclusive: bool) -> tuple[Parts, Parts, Parts]:
    match block:
        case DenseFeedForward() if exclusive:
            return (("mixer.up_proj",), ("mixer.down_proj",)), (), ()
        case DenseFeedForward():
            return (("mlp.gate_proj", "feed_forward.gate_proj"), ("mlp.down_proj", "feed_forward.down_proj")), (), ()
        case MoeFeedForward() if exclusive:
            return (), (("mixer.experts.0.up_proj",),), (("mixer.shared_experts.up_proj",),)
        case MoeFeedForward() if block.dense_channels:
            # Gemma-4: the dense block is `mlp`, and the experts stand beside it.
            return (("mlp.gate_proj",), ("mlp.down_proj",)), (("experts.0.gate_proj", "experts.gate_up_proj"),), ()
        case MoeFeedForward():
            # Qwen, DeepSeek and Kimi say `mlp`, Mixtral and MiniMax `block_sparse_moe`, Llama-4 `feed_forward`.
            holders = ("mlp", "block_sparse_moe", "feed_forward", "ffn")
            routed = tuple(f"{holder}.experts.0.{name}" for holder in holders for name in ("gate_proj", "w1"))
            shared = tuple(
                f"{holder}.{name}.gate_proj" for holder in holders for name in ("shared_experts", "shared_expert")
            )
            return (), (routed,), (shared,)
        case None:
            return (), (), ()
