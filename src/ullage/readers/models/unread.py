"""Refuses a config with a key that could change memory and that this reader does not understand.

A new architecture announces itself by new keys. Reading such a config by the keys we know would give a
confident wrong number, so a key whose name speaks of attention, heads, caches, states or experts must either
be one the reader used, stand in the list of harmless ones below, or be switched off. Classes whose code the
table of families rests on are trusted further: there only keys that change the shape of the cache are suspect.
"""

from __future__ import annotations

import re

from ullage.errors import InputError
from ullage.readers.models.text import TextConfig

_SPEAKS_OF_MEMORY = re.compile(
    r"attn|attention|head|kv|window|chunk|ssm|mamba|conv|state|linear|compress|lora|latent|index|sparse|layer_types"
    r"|pattern|block|expert|moe|share|recurrent|memory|lru|rwkv|delta|mixer|cache|_rank|mtp|nextn|mlp|ffn"
    r"|intermediate|num_layers|hash|per_layer|loop|repeat|key_|value_|query|codebook|depth|group|cca_"
)

_HARMLESS = frozenset(
    """
    add_cross_attention attention_dropout attention_in_multiplier attention_multiplier attention_out_multiplier
    attention_out_bias attention_probs_dropout_prob attention_softmax_in_fp32 attention_value_scale attn_impl
    attn_logit_softcapping attn_pdrop attn_scale attn_softmax_bf16 attn_temperature_tuning attn_res_block_size
    auto_map begin_suppress_tokens cache_implementation chunk_size chunk_size_feed_forward clip_qkv
    compress_rope_theta cross_attention_hidden_size encoder_no_repeat_ngram_size enable_moe_fp32_combine
    expert_selection_fn final_logit_softcapping full_attn_alpha_factor full_attn_beta_factor full_attn_mod
    head_dtype hidden_dropout hidden_state_size hc_mult indexer_rope_interleave initializer_range
    interpolate_factor latent_moe_use_norm layer_norm_eps layer_norm_epsilon layernorm_epsilon layer_rope_theta
    linear_a_log_max linear_a_log_min linear_allow_neg_eigval linear_attn_alpha_factor linear_attn_beta_factor
    linear_dt_init_floor linear_dt_max linear_dt_min lm_head_bias lm_head_multiplier logits_to_keep
    mamba_chunk_size mamba_conv_bias mamba_dt_init_floor mamba_dt_limit mamba_dt_max mamba_dt_min
    mamba_hidden_act mamba_norm_before_gate mamba_proj_bias max_window_layers mla_use_nope mlp_alpha_factor
    mlp_beta_factor mlp_dropout mlp_multipliers mlp_hidden_act moe_aux_loss_coef moe_apply_router_weight_on_input
    moe_dropout moe_eval_capacity_token_fraction moe_jitter_eps moe_layer_freq moe_layer_interval
    moe_loss_weight moe_norm_min moe_normalize_expert_weights moe_renormalize moe_routed_scaling_factor
    moe_router_activation_func moe_router_dtype moe_router_enable_expert_bias moe_router_logit_softcapping
    moe_router_scaling_factor moe_shared_expert_overlap moe_use_aux_loss mtp_hidden_states_first
    mtp_loss_scaling_factor mtp_transformer_layers mtp_use_dedicated_embeddings n_group norm_head
    num_beam_groups num_expert_group num_group num_hash_layers num_ln_in_parallel_attn num_logits_to_keep
    output_attentions output_hidden_states parallel_attn pruned_heads qk_head_dim qk_layernorm query_pre_attn_scalar
    reorder_and_upcast_attn return_dict_in_generate route_scale routed_scaling_factor router_aux_loss_coef
    scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func
    shared_expert_combination_strategy sliding_window_pattern sliding_window ssm_in_multiplier ssm_multipliers
    ssm_out_multiplier swiglu_limits_shared swiglu_limits topk_group topk_method use_attention_sinks
    use_bidirectional_attention use_cache use_conv_bias use_double_wide_mlp use_expert_bias use_grouped_topk
    use_mamba_kernels use_mambapy use_associative_scan use_falcon_mambapy use_routing_bias use_sliding_window
    vocab_size_per_layer_input use_cache_quantization no_rope_layers no_rope_layer_interval layer_types
    full_attention_interval mlp_bias conv_bias use_mtp num_key_value_heads num_attention_heads head_dim v_head_dim
    intermediate_size first_k_dense_replace moe_layers_enum share_q_dim shared_expert_gate
    mlp_only_layers decoder_sparse_step block_auto_adjust_ff_dim time_step_rank moe_group_topk
    attention_bias apply_residual_connection_post_layernorm use_parallel_residual sliding_window_size
    max_cache_length use_flash_attn use_flash_attention use_dynamic_ntk use_logn_attn attn_bias_enabled
    attention_chunk_size intermediate_size_mlp dense_intermediate_size hybrid_block_size use_moe
    block_size expert_dtype for_llm_compressor output_router_logits ep_size index_local_blocks nextn_predict_layers_loss
    """.split()
)

_ROUTINES = re.compile(
    r"token_id|token_index|_dropout|_pdrop|_loss|_act$|_eps$|_epsilon$|_coef$|_scaling|_multiplier|_theta|rope|rotary"
    r"|^_|^quantization_config$|^compression_config$|^vision|^audio|^image|^video|_config$|^label|^id2label|^summary_"
    r"|^generation|_bias$|_seed$|_method$|_implementation$|_freq$|_fp32$|_dtype$|softcap|temperature|_init"
)


# For a class whose code is in the table of families, only keys that change the shape of the cache are suspect.
_CHANGES_THE_CACHE = re.compile(
    r"compress|kv_shar|k_eq_v|layer_pattern|block_type|layer_types|window|ssm|state_size|lora_rank|latent|cross_layer"
)


def refuse_unread(text: TextConfig) -> None:
    """Raise an InputError for the first key that may matter and that nobody read."""
    keys = text.keys
    for name, value in keys.table.items():
        if keys.where(name) in keys.record.used or _is_off(value) or name in _HARMLESS or _ROUTINES.search(name):
            continue
        lenient = text.known or value is True
        if not (_CHANGES_THE_CACHE if lenient else _SPEAKS_OF_MEMORY).search(name):
            continue
        problem = "may affect memory and is not understood by this reader"
        fix = "Take the key out if it changes neither weights nor cache, or model it in ullage/readers/models."
        raise InputError(field=keys.where(name), value=value, problem=problem, fix=fix)


def _is_off(value: object) -> bool:
    return value is None or value is False or value in (0, "", "none", "null") or value in ([], {})
