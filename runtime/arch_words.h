/* runtime/arch_words.h - words of config.json, experts and switches of the entries in arch.c, which
 * alone includes this. */
#ifndef PARE_RUNTIME_ARCH_WORDS_H
#define PARE_RUNTIME_ARCH_WORDS_H

#include "runtime/arch.h"

static const pare_config_words llama_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "intermediate_size",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

static const pare_config_words gemma2_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_activation",
    .intermediate = "intermediate_size",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

static const pare_config_words gpt2_words = {
    .hidden = "n_embd",
    .blocks = "n_layer",
    .heads = "n_head",
    .context = "n_positions",
    .act = "activation_function",
    .intermediate = "n_inner",
    .norm_eps = "layer_norm_epsilon",
    .may_lack_intermediate = true,
};

static const pare_demand gpt2_demands[] = {{"scale_attn_weights", true},
                                           {"scale_attn_by_inverse_layer_idx", false},
                                           {"add_cross_attention", false},
                                           {.key = NULL}};

static const pare_config_words opt_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "activation_function",
    .intermediate = "ffn_dim",
};

static const pare_demand opt_demands[] = {{"do_layer_norm_before", true},
                                          {"enable_bias", true},
                                          {"layer_norm_elementwise_affine", true},
                                          {"_remove_final_layer_norm", false},
                                          {.key = NULL}};

static const pare_config_words neox_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "intermediate_size",
    .norm_eps = "layer_norm_eps",
};

static const pare_config_words phi_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "intermediate_size",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "layer_norm_eps",
};

/* The experts alone: no MLP that every token runs. */
static const pare_config_words mixture_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

static const pare_config_words qwen2_moe_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "shared_expert_intermediate_size",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

static const pare_experts mixtral_experts = {
    .prefix = "block_sparse_moe.experts.%zu.",
    .linear = EXPERT_LINEARS("w1", "w3", "w2", PARE_BIAS_NEVER),
    .router = "block_sparse_moe.gate",
    .count = {"num_local_experts", "num_experts"},
    .used = "num_experts_per_tok",
    .width = "intermediate_size",
};

static const pare_experts qwen2_experts = {
    .prefix = "mlp.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),
    .router = "mlp.gate",
    .shared_gate = "mlp.shared_expert_gate",
    .count = {"num_experts", "num_local_experts"},
    .used = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .norm = "norm_topk_prob",
    .dense_blocks = "mlp_only_layers",
    .step = "decoder_sparse_step",
};

static const pare_experts qwen3_experts = {
    .prefix = "mlp.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),
    .router = "mlp.gate",
    .count = {"num_experts", "num_local_experts"},
    .used = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .norm = "norm_topk_prob",
    .dense_blocks = "mlp_only_layers",
    .step = "decoder_sparse_step",
};

static const pare_experts gpt_oss_experts = ARCH_GPT_OSS_EXPERTS;

/* Which blocks a window is for differs between versions of these families. */
static const pare_demand qwen2_moe_demands[] = {
    {"use_sliding_window", false}, {"qkv_bias", true}, {.key = NULL}};
static const pare_demand qwen3_moe_demands[] = {{"use_sliding_window", false}, {.key = NULL}};

static const pare_demand gemma3_demands[] = {{"use_bidirectional_attention", false}, {.key = NULL}};
static const pare_demand phi_demands[] = {{"qk_layernorm", false}, {.key = NULL}};

static const pare_experts deepseek_v2_experts = DEEPSEEK_EXPERTS(NULL);
static const pare_experts deepseek_v3_experts =
    DEEPSEEK_EXPERTS("mlp.gate.e_score_correction_bias");

#endif
