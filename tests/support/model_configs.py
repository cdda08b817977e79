"""Small hand-written configs, one per architecture, and a reader for them without files."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from ullage.evidence import Source
from ullage.facts.model import (
    CompressedAttention,
    GroupedAttention,
    LatentAttention,
    LinearAttention,
    Mixer,
    Model,
    ShortConvolution,
    StateSpace,
)
from ullage.readers.models import model_from_config

SOURCE = Source(what="a config written for a test", where="tests", date=datetime.date(2026, 11, 15))

Config = dict[str, Any]


def read(config: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> Model:
    return model_from_config(config, name="test", source=SOURCE, beside=beside)


def dense(**changes: Any) -> Config:
    """A decoder of 4 layers with 8 query heads, 2 key-value heads of 16 channels."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        **changes,
    }


def moe(**changes: Any) -> Config:
    """The same with 8 routed experts in each layer, of which a token uses 2."""
    return dense(
        **{
            "model_type": "qwen3_moe",
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            **changes,
        }
    )


def latent(**changes: Any) -> Config:
    """Latent attention with experts from the second layer on, as DeepSeek-V3 has."""
    return dense(
        **{
            "model_type": "deepseek_v3",
            "num_key_value_heads": 8,
            "kv_lora_rank": 32,
            "q_lora_rank": 48,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "v_head_dim": 16,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
            **changes,
        }
    )


def compressed(**changes: Any) -> Config:
    """DeepSeek-V4 attention over 4 layers and a prediction layer."""
    config = dense(
        **{
            "model_type": "deepseek_v4",
            "num_key_value_heads": 1,
            "head_dim": 64,
            "qk_rope_head_dim": 8,
            "q_lora_rank": 32,
            "o_lora_rank": 32,
            "o_groups": 2,
            "sliding_window": 128,
            "compress_ratios": [0, 4, 128, 4, 0],
            "num_nextn_predict_layers": 1,
            "index_n_heads": 4,
            "index_head_dim": 16,
            "index_topk": 64,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            **changes,
        }
    )
    config.pop("intermediate_size")
    return config


def linear(**changes: Any) -> Config:
    """Gated delta nets with every fourth layer full, as Qwen3-Next has."""
    return dense(
        **{
            "model_type": "qwen3_5_text",
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 8,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "full_attention_interval": 4,
            "mamba_ssm_dtype": "float32",
            **changes,
        }
    )


def blocks(**changes: Any) -> Config:
    """Nemotron-H: blocks that are a mixer or a feed-forward, and no num_hidden_layers."""
    config = dense(
        **{
            "model_type": "nemotron_h",
            "layers_block_type": ["mamba", "moe", "attention", "mlp"],
            "mamba_num_heads": 8,
            "mamba_head_dim": 16,
            "ssm_state_size": 32,
            "n_groups": 2,
            "conv_kernel": 4,
            "mamba_ssm_cache_dtype": "float32",
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            "n_shared_experts": 1,
            "moe_shared_expert_intermediate_size": 96,
            "mlp_hidden_act": "relu2",
            **changes,
        }
    )
    config.pop("num_hidden_layers")
    return config


def sliding_sizes(**changes: Any) -> Config:
    """MiMo-V2: sliding layers with head counts and sizes of their own, values narrower than keys."""
    return dense(
        **{
            "model_type": "mimo_v2_flash",
            "num_key_value_heads": 4,
            "head_dim": 24,
            "v_head_dim": 16,
            "swa_num_attention_heads": 8,
            "swa_num_key_value_heads": 8,
            "swa_head_dim": 24,
            "swa_v_head_dim": 16,
            "sliding_window": 128,
            "sliding_window_size": 128,
            "hybrid_layer_pattern": [0, 1, 1, 0],
            "moe_layer_freq": [0, 1, 1, 1],
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            "attention_chunk_size": 128,
            "add_swa_attention_sink_bias": True,
            **changes,
        }
    )


def nested(text: Config | None = None, **changes: Any) -> Config:
    """A multimodal wrapper around a language model."""
    return {
        "model_type": "some_vl",
        "architectures": ["SomeForConditionalGeneration"],
        "text_config": dense() if text is None else text,
        "vision_config": {
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "patch_size": 16,
            "out_hidden_size": 128,
        },
        **changes,
    }


EVERY: Mapping[str, Config] = {
    "dense": dense(),
    "moe": moe(),
    "latent": latent(),
    "compressed": compressed(),
    "linear": linear(),
    "blocks": blocks(),
    "sliding sizes": sliding_sizes(),
    "nested": nested(),
}


def attention_layers(model: Model) -> int:
    """Layers whose cache grows with the context without a bound."""
    return sum(group.layers for group in model.layers if any(_grows(mixer) for mixer in group.layer.mixers))


def bounded_layers(model: Model) -> int:
    """Layers that keep a window or a chunk of keys and values, and nothing beyond."""
    return sum(
        group.layers
        for group in model.layers
        if any(
            (isinstance(mixer, GroupedAttention) and mixer.bound_tokens is not None)
            or (isinstance(mixer, CompressedAttention) and mixer.tokens_per_entry is None)
            for mixer in group.layer.mixers
        )
    )


def state_layers(model: Model) -> int:
    """Layers that keep a state of fixed size: linear attention, state space, convolution."""
    return sum(
        group.layers
        for group in model.layers
        if any(isinstance(mixer, LinearAttention | StateSpace | ShortConvolution) for mixer in group.layer.mixers)
    )


def _grows(mixer: Mixer) -> bool:
    match mixer:
        case GroupedAttention():
            return mixer.bound_tokens is None
        case CompressedAttention():
            return mixer.tokens_per_entry is not None
        case LatentAttention():
            return True
        case _:
            return False
