"""What a `model_type` implies that its config.json does not say: one row per class, from the class's own code.

A config.json states sizes. It leaves unsaid what the class fixes (Qwen-2 has biases on queries, keys and
values; Gemma has four norms a layer) and, in a nested `text_config`, whatever equals the class default.
`sizes` are those class defaults: they are used for nested configs alone, because a config at top level that
lacks a size is cut, not terse. `omitted` are defaults for keys that may be absent anywhere. Both are listed
on the model when used. A `model_type` that has no row is read by its keys, and the model says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a class fixes.

    Without another statement, one in `full_every_layers` is full and the others slide, or one in
    `linear_unless_every_layers` is full and the others are linear. `needs_pattern` refuses to read without one.
    `experts_need` names keys that a config with experts must state, because leaving them out is not "none".
    """

    tied: bool = False
    gated: bool = True
    norms: int = 2
    qkv_bias: bool = False
    qk_norm: str = ""
    output_gate: bool = False
    sinks: bool = False
    full_every_layers: int = 0
    linear_unless_every_layers: int = 0
    window_everywhere: bool = False
    window_is_default: bool = False
    experts_use_intermediate_size: bool = False
    shared_expert_like_routed: bool = False
    shared_gate: bool = False
    expert_bias: bool = False
    experts_need: tuple[str, ...] = ()
    exclusive_blocks: bool = False
    needs_pattern: bool = False
    multi_head_by_default: bool = False
    head_channels: int = 0
    sizes: Mapping[str, int | str | bool] = field(default_factory=dict)
    omitted: Mapping[str, int | str | bool] = field(default_factory=dict)


_LLAMA_SIZES = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
_MISTRAL_SIZES = {
    **_LLAMA_SIZES,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
_QWEN2_SIZES = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
}
_GEMMA3_SIZES = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}
_GEMMA4_SIZES = {**_GEMMA3_SIZES, "vocab_size": 262144, "num_hidden_layers": 30, "sliding_window": 512}
_LLAMA4_SIZES = {
    "vocab_size": 202048,
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
}
_NEMOTRON_H_OMITTED = {
    "num_attention_heads": 32,
    "vocab_size": 131072,
    "intermediate_size": 21504,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "max_position_embeddings": 4096,
}
_QWEN3_NEXT_OMITTED = {"vocab_size": 151936, "num_experts_per_tok": 10, "shared_expert_intermediate_size": 512}

_LLAMA = Family(multi_head_by_default=True, sizes=_LLAMA_SIZES)
_MHA = Family(multi_head_by_default=True)
_OLD = Family(gated=False, multi_head_by_default=True, qkv_bias=True)
_QWEN2 = Family(qkv_bias=True, sizes=_QWEN2_SIZES)
_QWEN3 = Family(qk_norm="head", head_channels=128)
_QWEN3_MOE = replace(_QWEN3, shared_gate=True)
_DEEPSEEK = replace(_MHA, experts_need=("n_shared_experts", "first_k_dense_replace"))
_GLM_MOE = Family(experts_need=("n_shared_experts", "first_k_dense_replace"))
_QWEN35 = Family(
    qk_norm="head",
    shared_gate=True,
    output_gate=True,
    head_channels=256,
    linear_unless_every_layers=4,
    omitted={"shared_expert_intermediate_size": 512},
)
_GEMMA = Family(tied=True, head_channels=256)
_GEMMA2 = Family(tied=True, norms=4, head_channels=256, full_every_layers=2)
_GEMMA3 = Family(tied=True, norms=4, qk_norm="head", full_every_layers=6, head_channels=256, sizes=_GEMMA3_SIZES)
_GEMMA4 = replace(_GEMMA3, sizes=_GEMMA4_SIZES, experts_need=("enable_moe_block",), omitted={"global_head_dim": 512})
_MINIMAX_M3 = Family(experts_use_intermediate_size=True, qk_norm="head", head_channels=128)
_WINDOWED = Family(window_everywhere=True, window_is_default=True)

FAMILIES: Mapping[str, Family] = {
    "afmoe": Family(norms=4, qk_norm="head", output_gate=True, multi_head_by_default=True),
    "apertus": Family(gated=False, qk_norm="head", multi_head_by_default=True),
    "arcee": Family(gated=False, multi_head_by_default=True),
    "baichuan": _MHA,
    "bailing_moe": Family(),
    "bailing_moe_v2": Family(qk_norm="head"),
    "bamba": Family(multi_head_by_default=True),
    "bloom": replace(_OLD, tied=True),
    "codellama": _LLAMA,
    "cohere": Family(tied=True, norms=1, multi_head_by_default=True),
    "cohere2": Family(tied=True, norms=1, full_every_layers=4, multi_head_by_default=True),
    "cohere2_moe": Family(tied=True, norms=1, full_every_layers=4, multi_head_by_default=True),
    "dbrx": Family(experts_use_intermediate_size=True),
    "deepseek_ref": Family(sinks=True, experts_need=("n_shared_experts",)),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "deepseek_v4": Family(sinks=True, experts_need=("n_shared_experts",)),
    "dots1": Family(qk_norm="head", multi_head_by_default=True),
    "ernie4_5": Family(tied=True),
    "ernie4_5_moe": Family(tied=True),
    "exaone": _MHA,
    "exaone4": Family(qk_norm="head", full_every_layers=4),
    "exaone_moe": Family(qk_norm="head", full_every_layers=4),
    "falcon": Family(tied=True, gated=False, multi_head_by_default=True),
    "falcon_h1": Family(multi_head_by_default=True),
    "falcon_mamba": Family(tied=True, norms=1),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n_text": replace(_GEMMA3, full_every_layers=5, sizes={}),
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "glm": Family(qkv_bias=True),
    "glm4": Family(norms=4),
    "glm4_moe": _GLM_MOE,
    "glm4_moe_lite": Family(),
    "glm4v_moe_text": _GLM_MOE,
    "glm_moe_dsa": _GLM_MOE,
    "gpt2": replace(_OLD, tied=True),
    "gpt_bigcode": replace(_OLD, tied=True),
    "gpt_neox": _OLD,
    "gpt_oss": Family(
        sinks=True,
        qkv_bias=True,
        head_channels=64,
        experts_use_intermediate_size=True,
        expert_bias=True,
        full_every_layers=2,
    ),
    "gptj": replace(_OLD, norms=1, qkv_bias=False),
    "granite": _MHA,
    "granitemoe": Family(experts_use_intermediate_size=True, multi_head_by_default=True),
    "granitemoehybrid": Family(experts_use_intermediate_size=True, multi_head_by_default=True),
    "granitemoeshared": Family(experts_use_intermediate_size=True, multi_head_by_default=True),
    "hunyuan_v1_dense": Family(qk_norm="head"),
    "hunyuan_v1_moe": Family(qk_norm="head"),
    "hy_v3": Family(qk_norm="head"),
    "internlm2": Family(),
    "internlm3": Family(),
    "jamba": Family(experts_use_intermediate_size=True),
    "kimi_k2": _DEEPSEEK,
    "kimi_linear": replace(_MHA, needs_pattern=True, experts_need=("num_shared_experts", "first_k_dense_replace")),
    "lfm2": Family(tied=True, qk_norm="head", needs_pattern=True),
    "lfm2_moe": Family(tied=True, qk_norm="head", needs_pattern=True),
    "llama": _LLAMA,
    "llama4": Family(experts_use_intermediate_size=True, shared_expert_like_routed=True, sizes=_LLAMA4_SIZES),
    "llama4_text": Family(experts_use_intermediate_size=True, shared_expert_like_routed=True, sizes=_LLAMA4_SIZES),
    "longcat_flash": Family(),
    "mamba": Family(tied=True, norms=1),
    "mamba2": Family(norms=1),
    "mimo": Family(qkv_bias=True),
    "mimo_v2": Family(sinks=True),
    "mimo_v2_flash": Family(sinks=True),
    "minicpm": Family(tied=True, multi_head_by_default=True),
    "minicpm3": Family(tied=True, multi_head_by_default=True),
    "minimax": Family(experts_use_intermediate_size=True, needs_pattern=True),
    "minimax_m2": Family(experts_use_intermediate_size=True, qk_norm="whole", head_channels=128),
    "minimax_m3_text": _MINIMAX_M3,
    "minimax_m3_vl": _MINIMAX_M3,
    "minimax_m3_vl_text": _MINIMAX_M3,
    "minimax_text_01": Family(experts_use_intermediate_size=True, needs_pattern=True),
    "ministral": _WINDOWED,
    "ministral3": _WINDOWED,
    "mistral4": _MHA,
    "mistral": replace(_WINDOWED, sizes=_MISTRAL_SIZES),
    "mixtral": Family(window_everywhere=True, experts_use_intermediate_size=True),
    "mpt": replace(_OLD, tied=True, qkv_bias=False),
    "nemotron": Family(gated=False),
    "nemotron-nas": Family(),
    "nemotron_h": Family(
        gated=False,
        norms=1,
        exclusive_blocks=True,
        experts_need=("moe_shared_expert_intermediate_size",),
        omitted=_NEMOTRON_H_OMITTED,
    ),
    "olmo": Family(norms=0, multi_head_by_default=True),
    "olmo2": Family(qk_norm="whole", multi_head_by_default=True),
    "olmo3": Family(qk_norm="whole", full_every_layers=4, multi_head_by_default=True),
    "olmo_hybrid": Family(qk_norm="whole", multi_head_by_default=True, needs_pattern=True),
    "olmoe": Family(qk_norm="whole", experts_use_intermediate_size=True, multi_head_by_default=True),
    "opt": replace(_OLD, tied=True),
    "phi": replace(_OLD, norms=1),
    "phi3": Family(window_everywhere=True, multi_head_by_default=True),
    "phi4mm": Family(window_everywhere=True, multi_head_by_default=True),
    "phimoe": Family(window_everywhere=True, experts_use_intermediate_size=True),
    "qwen2": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": Family(qkv_bias=True, shared_gate=True),
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_5_moe_text": _QWEN35,
    "qwen3_5_text": _QWEN35,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_next": replace(_QWEN35, omitted=_QWEN3_NEXT_OMITTED),
    "qwen3_omni_moe_text": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_vl_text": _QWEN3,
    "seed_oss": Family(),
    "smollm3": Family(tied=True),
    "solar": _MHA,
    "stablelm": Family(),
    "starcoder2": Family(tied=True, gated=False, qkv_bias=True, window_everywhere=True),
    "step3p5": Family(qk_norm="head"),
    "vaultgemma": replace(_GEMMA2, norms=2),
    "yi": _LLAMA,
    "zaya": Family(tied=True, needs_pattern=True),
}

UNKNOWN = Family()
"""The commonest decoder: gated feed-forward, two norms, nothing implied."""
