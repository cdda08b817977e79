"""What surrounds the layers: dtype, context, embeddings, multi-token prediction, and towers for images and sound."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.facts.model import PLAIN_FORMATS, Layer, LayerGroup, MtpHead, VisionTower, WeightFormat, grouped
from ullage.readers.models.keys import Keys
from ullage.readers.models.text import CONTEXT, TextConfig

_DTYPES = {**PLAIN_FORMATS, "bf16": PLAIN_FORMATS["bfloat16"], "fp16": PLAIN_FORMATS["float16"]}
_TOWERS = ("vision_config", "visual", "vision_tower_config", "vit_config", "audio_config", "audio_encoder_config")


def base_format(top: Keys, text: TextConfig) -> WeightFormat:
    """The dtype of everything that is not quantised; bf16, and reported as assumed, where the config is silent."""
    for keys in (text.keys, top):
        name = keys.states("torch_dtype", "dtype", "params_dtype")
        if name is None:
            continue
        written = (keys.text_or(name) or "").removeprefix("torch.")
        if written not in _DTYPES:
            raise keys.wrong(name, "is not a dtype this reader knows", f"Known: {', '.join(PLAIN_FORMATS)}.")
        return _DTYPES[written]
    why = "checkpoints that state no dtype are published in bfloat16"
    top.record.assume(top.where("torch_dtype"), "bfloat16", "dtype", why)
    return PLAIN_FORMATS["bfloat16"]


def max_context(top: Keys, text: TextConfig) -> int:
    found = text.context_tokens
    if found is not None:
        return found
    name = top.states(*CONTEXT)
    if name is None:
        raise text.keys.missing(*CONTEXT)
    return top.count(name)


def tied_embeddings(top: Keys, text: TextConfig) -> bool:
    """`tie_word_embeddings`, where the wrapper's value is the one that counts; else the class's."""
    for keys in (top, text.keys):
        if keys.table.get("tie_word_embeddings") is not None:
            return keys.flag("tie_word_embeddings")
    tied = text.family.tied
    why = (
        f"class default of {text.model_type}"
        if text.known
        else "a head of its own is the larger of the two possibilities"
    )
    text.keys.record.assume(text.keys.where("tie_word_embeddings"), "true" if tied else "false", "flag", why)
    return tied


def extra_embedding(text: TextConfig, layers: int) -> int:
    """Embeddings that each layer adds (Gemma-3n, Gemma-4 E-models): one table for all layers."""
    width = text.keys.count_or("hidden_size_per_layer_input", least=0) or 0
    if not width:
        return 0
    rows = text.keys.count_or("vocab_size_per_layer_input") or text.size("vocab_size")
    return rows * layers * width


def learned_positions(text: TextConfig) -> int:
    """Position tables of the older classes."""
    return max_context(text.keys, text) if text.model_type in ("gpt2", "gpt_bigcode", "opt") else 0


def mtp_layer_count(text: TextConfig) -> int:
    """How many multi-token prediction layers the checkpoint carries."""
    keys = text.keys
    if keys.has("num_mtp_modules"):
        modules = keys.count("num_mtp_modules", least=0)
        # MiniMax-M3 states both: the modules it was trained with, and how many of them engines load.
        loaded = keys.count_or("num_nextn_predict_layers", least=0)
        if keys.table.get("use_mtp") is False:
            return 0
        return min(modules, modules if loaded is None else loaded) * (keys.count_or("mtp_transformer_layers") or 1)
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers")
    return keys.count_or(*names, least=0) or 0


def mtp_head(count: int, layers: Sequence[Layer]) -> MtpHead | None:
    """`count` prediction modules of these layers each."""
    if not count:
        return None
    run = grouped(list(layers))
    groups = tuple(LayerGroup(layer=each.layer, layers=each.layers * count) for each in run)
    return MtpHead(groups=groups, projections=count)


def vision_tower(top: Keys, text: TextConfig, base: WeightFormat) -> VisionTower | None:
    """All towers of the config as one number, with a note that it is a count from their own configs."""
    parameters, depth = 0, 0
    for name in _TOWERS:
        if not isinstance(top.table.get(name), dict):
            continue
        counted = _tower(top.sub(name), text.hidden_channels)
        if counted is None:
            top.record.note(f"{name}: its sizes cannot be read, so its weights are not counted")
            continue
        parameters += counted[0]
        depth += counted[1]
        top.record.note(f"{name}: counted as {counted[0] / 1e6:.0f} million parameters from its own sizes")
    if not parameters:
        architecture = _architecture(top)
        if "ConditionalGeneration" in architecture:
            top.record.note(f"{architecture} usually has a tower for images, but the config describes none")
        return None
    return VisionTower(parameters=parameters, format=base, layers=depth)


def _tower(tower: Keys, text_hidden: int) -> tuple[int, int] | None:
    """A transformer encoder with patch embedding, positions and a projector to the language model's width."""
    depth = _first(tower, "depth", "num_hidden_layers", "vt_num_hidden_layers", "layers", "encoder_layers")
    hidden = _first(tower, "hidden_size", "vt_hidden_size", "embed_dim", "width", "d_model", "hidden_dim")
    inner = _first(tower, "intermediate_size", "vt_intermediate_size", "mlp_dim", "encoder_ffn_dim")
    if depth is None or hidden is None:
        return None
    if inner is None:
        inner = 4 * hidden
    matrices = 3 if tower.text_or("model_type") in ("gemma4_vision", "pixtral", "qwen2_5_vl") else 2
    layer = 4 * hidden * hidden + matrices * hidden * inner + 8 * hidden + inner
    patch = _first(tower, "patch_size", "spatial_patch_size") or 0
    frames = _first(tower, "temporal_patch_size") or 1
    positions = _first(tower, "num_position_embeddings", "position_embedding_size") or 0
    merged = hidden * (_first(tower, "spatial_merge_size") or _merge(tower)) ** 2
    out = _first(tower, "out_hidden_size", "text_hidden_size", "projection_dim") or text_hidden
    deep = tower.table.get("deepstack_visual_indexes")
    projectors = 1 + (len(deep) if isinstance(deep, list) else 0)
    projector = merged * merged + merged * out if merged > hidden else hidden * out
    total = depth * layer + 3 * patch * patch * frames * hidden + positions * hidden + projectors * projector
    return total, depth


def _merge(tower: Keys) -> int:
    found = tower.table.get("merge_kernel_size")
    return found[0] if isinstance(found, list) and found and isinstance(found[0], int) and 0 < found[0] < 64 else 1


def _first(tower: Keys, *names: str) -> int | None:
    """The first of these that is a sane whole number; a tower that cannot be sized is flagged, not refused."""
    for name in names:
        found = tower.table.get(name)
        if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 2**24:
            return found
    return None


def _architecture(top: Keys) -> str:
    found = top.table.get("architectures")
    return str(found[0]) if isinstance(found, list) and found else ""
