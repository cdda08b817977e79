"""Write src/ullage/facts/models/*.toml from published configs, read by our own reader.

    .venv/bin/python scripts/write_model_facts.py ../shared/data/model_configs

Run it when a model is added to models.csv beside it. A sheet states facts in our own schema; nothing of the JSON is
kept. Sizes that publishers state stand in that table. A model whose config is not
in the folder can be given here by its sizes.
"""

from __future__ import annotations

import csv
import datetime
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

from ullage.evidence import Source
from ullage.facts.model import Indexer, Layer, LayerFormats, Mixer, Model, WeightFormat
from ullage.facts.model_sheet import BLOCK_KINDS, FORMAT_CLASSES, MIXER_KINDS, write_order
from ullage.readers.models import model_from_config
from ullage.readers.models.files import read_object

READ_ON = datetime.date(2026, 11, 15)
FOLDER = Path(__file__).resolve().parents[1] / "src" / "ullage" / "facts" / "models"
B = 10**9


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model: its sheet's name, its repository, its config, and the size its publisher states."""

    name: str
    title: str
    repository: str
    file: str = ""
    sizes: Mapping[str, object] = field(default_factory=dict)
    total: float | None = None
    active: float | None = None
    aliases: tuple[str, ...] = ()


_SIGLIP = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304, "patch_size": 14}


def _llama2(layers: int, hidden: int, heads: int, kv_heads: int, inner: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
    }


def _gemma3(layers: int, hidden: int, heads: int, kv_heads: int, head: int, inner: int) -> dict[str, object]:
    text = {
        "model_type": "gemma3_text",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        "intermediate_size": inner,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    }
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "torch_dtype": "bfloat16",
        "text_config": text,
        "vision_config": _SIGLIP,
    }


_KIMI_LINEAR: dict[str, object] = {
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "vocab_size": 163840,
    "hidden_size": 2304,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 9216,
    "model_max_length": 1048576,
    "linear_attn_config": {
        "kda_layers": [layer for layer in range(1, 28) if layer % 4 and layer != 27],
        "full_attn_layers": [layer for layer in range(1, 28) if not layer % 4 or layer == 27],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
    "num_experts": 256,
    "moe_intermediate_size": 1024,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
_GRANITE: dict[str, object] = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "vocab_size": 100352,
    "hidden_size": 4096,
    "num_hidden_layers": 40,
    "layer_types": ["attention" if layer in (5, 15, 25, 35) else "mamba" for layer in range(40)],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 768,
    "shared_intermediate_size": 1536,
    "num_local_experts": 72,
    "num_experts_per_tok": 10,
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
_PHI4: dict[str, object] = {"model_type": "phi3", "torch_dtype": "bfloat16", "tie_word_embeddings": False}
_QWEN25: dict[str, object] = {"model_type": "qwen2", "torch_dtype": "bfloat16", "tie_word_embeddings": False}
_MISTRAL: dict[str, object] = {
    "model_type": "mistral",
    "sliding_window": None,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
_NEXT: dict[str, object] = {
    "vocab_size": 151936,
    "num_experts_per_tok": 10,
    "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

# Sizes that no config in the folder states: whole configs, or the keys that a partial one lacks.
SIZES: Mapping[str, Mapping[str, object]] = {
    "gemma-3-4b": _gemma3(34, 2560, 8, 4, 256, 10240),
    "gemma-3-12b": _gemma3(48, 3840, 16, 8, 256, 15360),
    "gemma-3-27b": _gemma3(62, 5376, 32, 16, 128, 21504),
    "granite-4.0-h-small": _GRANITE,
    "kimi-linear-48b-a3b": _KIMI_LINEAR,
    "llama-2-13b": _llama2(40, 5120, 40, 40, 13824),
    "llama-2-70b": _llama2(80, 8192, 64, 8, 28672),
    "mistral-large-2411": _MISTRAL,
    "phi-4": _PHI4,
    "qwen2.5-32b": _QWEN25,
    "qwen2.5-72b": _QWEN25,
    "qwen3-next-80b-a3b": _NEXT,
}


def _recipe(layers: int, **formats: str) -> dict[str, object]:
    """A checkpoint of mixed precision: the formats of modules below each layer's mixer, but for the MTP layer's."""
    named = {
        f"backbone.layers.{layer}.mixer.{part}*": {"quant_algo": form}
        for layer in range(layers)
        for part, form in formats.items()
    }
    return {"quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": named}}


# Checkpoints whose config in the folder names one format for all weights, where the publisher's recipe names several:
# what it leaves out, and the MTP layer, stays in 16 bits.
RECIPES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "nemotron-3-super-120b-a12b-fp8": (
        "precision settings in docs.nvidia.com/nemotron, super3/quantization, 2026-11-19",
        _recipe(88, experts="FP8", shared_experts="FP8", in_proj="FP8", out_proj="FP8"),
    ),
    "nemotron-3-super-120b-a12b-nvfp4": (
        "recipe super-nvfp4 in github.com/NVIDIA/Model-Optimizer, 2026-11-19",
        _recipe(88, experts="NVFP4", shared_experts="FP8", in_proj="FP8", out_proj="FP8"),
    ),
}


def entries() -> tuple[Entry, ...]:
    """The table models.csv beside this script."""
    with (Path(__file__).with_name("models.csv")).open(encoding="utf-8", newline="") as table:
        return tuple(
            Entry(
                name=row["name"],
                title=row["title"],
                repository=row["repository"],
                file=row["config"],
                sizes=SIZES.get(row["name"], {}),
                total=float(row["total_billions"]) if row["total_billions"] else None,
                active=float(row["active_billions"]) if row["active_billions"] else None,
                aliases=tuple(row["other_repositories"].split()),
            )
            for row in csv.DictReader(table)
        )


def model_of_entry(entry: Entry, folder: Path) -> Model:
    """The model of an entry, read from the folder's config or from the sizes in the table."""
    source = Source(what="config.json", where=f"https://huggingface.co/{entry.repository}", date=READ_ON)
    config = dict(read_object(_path(entry, folder))) if entry.file else {}
    beside = folder / f"{entry.file}_hf_quant_config.json"
    if entry.name in RECIPES:
        config.pop("quantization_config", None)
        return model_from_config(config, name=entry.name, source=source, beside=RECIPES[entry.name][1])
    return model_from_config(
        {**config, **entry.sizes},
        name=entry.name,
        source=source,
        beside=read_object(beside) if entry.file and beside.is_file() else None,
    )


def _path(entry: Entry, folder: Path) -> Path:
    return folder / (entry.file if entry.file.endswith(".json") else f"{entry.file}_config.json")


def sheet_text(entry: Entry, model: Model) -> str:
    """The sheet of a model."""
    names = _Names(model)
    published = entry.total is not None or entry.active is not None
    lines = [
        f"title = {_text(entry.title)}",
        f"architecture = {_text(model.architecture)}",
        f"aliases = {_list((entry.repository, *entry.aliases))}",
        f"order = {_text(write_order([names.layer(each) for each in model.each_layer()]))}",
    ]
    if model.mtp is not None:
        run = [names.layer(group.layer) for group in model.mtp.groups for _ in range(group.layers)]
        lines.append(f"mtp_order = {_text(write_order(run))}")
    notes = [*model.notes, *(f"{each.name} = {each.value} by class default" for each in model.assumptions)]
    if notes:
        lines.append(f"notes = {_text('; '.join(notes))}")
    lines += ['source = "config"', *_config_source(entry)]
    if published:
        quoted = f"size that {entry.repository} is quoted with; its model card was not opened"
        lines += _source("publisher", quoted, entry.repository, "assumed")
    lines += ["", "[values]", *_values(entry, model, names)]
    return "\n".join([*lines, *names.tables(), ""])


# The published packages whose copies of a config were read, by the prefix of the file; the first is for all others.
COPIES = {
    "": "aiconfigurator-core 0.12.0",
    "inference-sim": "inference-sim",
    "mlc": "the presets of mlc-llm",
    "litgpt": "litgpt",
    "dynamo": "a fixture of Dynamo",
}


def _config_source(entry: Entry) -> list[str]:
    if not entry.file:
        typed = f"sizes of {entry.repository}, typed in; its config.json was not opened"
        return _source("config", typed, entry.repository, "assumed")
    copy = COPIES.get(entry.file.split("--")[0], COPIES[""])
    what = f"config.json of {entry.repository}"
    if entry.name in RECIPES:
        what += f"; formats of its weights: {RECIPES[entry.name][0]}"
    return _source("config", what, f"{entry.repository}, in the copy of {copy}", "estimated")


def _source(key: str, what: str, where: str, evidence: str) -> list[str]:
    return [
        "",
        f"[sources.{key}]",
        f"what = {_text(what)}",
        f"where = {_text(f'huggingface.co/{where}')}",
        f"date = {READ_ON}",
        f'evidence = "{evidence}"',
    ]


def _values(entry: Entry, model: Model, names: _Names) -> list[str]:
    plain: dict[str, int | str | bool | None] = {
        "hidden_channels": model.hidden_channels,
        "vocabulary_tokens": model.vocabulary_tokens,
        "max_context_tokens": model.max_context_tokens,
        "tied_embeddings": model.tied_embeddings,
        "weights": model.base_format.name,
        "head": names.format(model.head_format) if model.head_format != model.base_format else None,
        "kv_dtype": model.kv_dtype,
        "position_embeddings": model.position_embeddings or None,
        "extra_embedding_parameters": model.extra_embedding_parameters or None,
        "mtp_projections": model.mtp.projections if model.mtp else None,
        "vision_parameters": model.vision.parameters if model.vision else None,
        "vision_layers": model.vision.layers if model.vision else None,
    }
    lines = [f"{key} = {_value(value)}" for key, value in plain.items() if value is not None]
    for key, size in (("published_parameters", entry.total), ("published_active_parameters", entry.active)):
        if size is not None:
            lines.append(f'{key} = {{ value = {round(size * B)}, source = "publisher" }}')
    return lines


class _Names:
    """Gives each distinct part a short name, in the order they are first met."""

    def __init__(self, model: Model) -> None:
        self.base = model.base_format
        self.layers: dict[Layer, str] = {}
        self.mixers: dict[object, str] = {}
        self.blocks: dict[object, str] = {}
        self.formats: dict[WeightFormat, str] = {}

    def layer(self, layer: Layer) -> str:
        if layer not in self.layers:
            parts = [self._part(self.mixers, each, _mixer_word(each)) for each in layer.mixers]
            if layer.feed_forward is not None:
                word = "moe" if hasattr(layer.feed_forward, "routed_experts") else "dense"
                parts.append(self._part(self.blocks, layer.feed_forward, word))
            for name in FORMAT_CLASSES:
                self.format(getattr(layer.formats, name))
            self.layers[layer] = _free("-".join(parts) or "empty", self.layers.values())
        return self.layers[layer]

    def format(self, form: WeightFormat) -> str:
        if form == self.base:
            return form.name
        return self._part(self.formats, form, form.name)

    def _part(self, known: dict[Any, str], part: object, word: str) -> str:
        if part not in known:
            known[part] = _free(word, known.values())
        return known[part]

    def tables(self) -> Iterable[str]:
        for form, name in self.formats.items():
            yield from ("", "[[formats]]", f"name = {_text(name)}", f"stored_as = {_text(form.name)}")
            yield f"compute_dtype = {_text(form.compute_dtype)}"
            yield from _numbers(form)
        for mixer, name in self.mixers.items():
            kind = next(key for key, each in MIXER_KINDS.items() if type(mixer) is each)
            yield from ("", "[[mixers]]", f"name = {_text(name)}", f"kind = {_text(kind)}")
            if isinstance(recurrence := getattr(mixer, "kind", None), Enum):
                yield f"recurrence = {_text(str(recurrence.value))}"
            yield from _numbers(mixer)
        for block, name in self.blocks.items():
            kind = next(key for key, each in BLOCK_KINDS.items() if type(block) is each)
            yield from ("", "[[blocks]]", f"name = {_text(name)}", f"kind = {_text(kind)}", *_numbers(block))
        for layer, name in self.layers.items():
            yield from ("", "[[layers]]", f"name = {_text(name)}")
            if layer.mixers:
                yield f"mixers = {_text(' '.join(self.mixers[each] for each in layer.mixers))}"
            if layer.feed_forward is not None:
                yield f"block = {_text(self.blocks[layer.feed_forward])}"
            yield from _numbers(layer)
            yield from self._stored(layer.formats)

    def _stored(self, formats: LayerFormats) -> Iterable[str]:
        for name in FORMAT_CLASSES:
            form = getattr(formats, name)
            if form != self.base:
                yield f"{name} = {_text(self.format(form))}"


def _mixer_word(mixer: Mixer) -> str:
    word = next(key for key, each in MIXER_KINDS.items() if type(mixer) is each)
    if word != "grouped":
        return {"state-space": "mamba"}.get(word, word)
    if getattr(mixer, "window_tokens", None):
        return "sliding"
    return "chunked" if getattr(mixer, "chunk_tokens", None) else "full"


def _free(word: str, taken: Iterable[str]) -> str:
    used = set(taken)
    if word not in used:
        return word
    return next(f"{word}{number}" for number in range(2, 100) if f"{word}{number}" not in used)


def _numbers(part: object) -> Iterable[str]:
    for each in fields(part):  # type: ignore[arg-type]
        value = getattr(part, each.name)
        if isinstance(value, Indexer):
            yield from (f"indexer_{line}" for line in _numbers(value))
        elif isinstance(value, bool) and value != (each.default is True):
            yield f"{each.name} = {_value(value)}"
        elif isinstance(value, int | float) and not isinstance(value, bool) and value and value != each.default:
            yield f"{each.name} = {value:g}" if isinstance(value, float) else f"{each.name} = {value}"


def _value(value: int | str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(_text(each) for each in values) + "]"


def main() -> None:
    folder = Path(sys.argv[1])
    for entry in entries():
        model = model_of_entry(entry, folder)
        (FOLDER / f"{entry.name}.toml").write_text(sheet_text(entry, model), encoding="utf-8")
    print(f"{len(entries())} sheets written to {FOLDER}")


if __name__ == "__main__":
    main()
