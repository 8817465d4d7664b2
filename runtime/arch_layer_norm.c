/* Families with norms that take the mean away. */
#include "runtime/arch_internal.h"

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

const pare_arch pare__arch_gpt2 = {
    .model_type = "gpt2",
    .summary = "GPT-2: layer norm, learned positions, transposed linears, q, k, v in one tensor",
    .embed = "transformer.wte",
    .norm = "transformer.ln_f",
    .head = "lm_head",
    .block_prefix = "transformer.h.%zu.",
    .attention_norm = "ln_1",
    .mlp_norm = "ln_2",
    .linear =
        {
            NO_LATENT,
            [PARE_ROLE_Q] = ATTENTION("attn.c_attn.q", PARE_WIDTH_Q, PARE_BIAS_ALWAYS),
            [PARE_ROLE_K] = ATTENTION("attn.c_attn.k", PARE_WIDTH_KV, PARE_BIAS_ALWAYS),
            [PARE_ROLE_V] = ATTENTION("attn.c_attn.v", PARE_WIDTH_KV, PARE_BIAS_ALWAYS),
            [PARE_ROLE_O] = ATTENDED("attn.c_proj", PARE_BIAS_ALWAYS),
            [PARE_ROLE_GATE] = ABSENT,
            [PARE_ROLE_UP] = INNER("mlp.c_fc", PARE_SITE_MLP, PARE_BIAS_ALWAYS),
            [PARE_ROLE_DOWN] = ACTIVATED("mlp.c_proj", PARE_BIAS_ALWAYS),
        },
    .producer = PLAIN_PRODUCERS,
    .positions = "transformer.wpe",
    .norm_kind = PARE_NORM_LAYER,
    .fused = {{"attn.c_attn", PARE_FUSION_STACKED, PARE_ROLE_Q, 3}},
    .transposed = true,
    .prefix = "transformer.",
    .ignored = {"attn.bias", "attn.masked_bias"},
    .context = 1024,
    .words = &gpt2_words,
    .demands = gpt2_demands,
    .norm_eps = 1e-5,
    .act = PARE_ACT_GELU_TANH,
    .tied = true,
};

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

const pare_arch pare__arch_opt = {
    .model_type = "opt",
    .summary = "OPT: layer norm, learned positions from row 2 on, ReLU",
    .embed = "model.decoder.embed_tokens",
    .norm = "model.decoder.final_layer_norm",
    .head = "lm_head",
    .block_prefix = "model.decoder.layers.%zu.",
    .attention_norm = "self_attn_layer_norm",
    .mlp_norm = "final_layer_norm",
    .linear =
        {
            NO_LATENT,
            [PARE_ROLE_Q] = ATTENTION("self_attn.q_proj", PARE_WIDTH_Q, PARE_BIAS_ALWAYS),
            [PARE_ROLE_K] = ATTENTION("self_attn.k_proj", PARE_WIDTH_KV, PARE_BIAS_ALWAYS),
            [PARE_ROLE_V] = ATTENTION("self_attn.v_proj", PARE_WIDTH_KV, PARE_BIAS_ALWAYS),
            [PARE_ROLE_O] = ATTENDED("self_attn.out_proj", PARE_BIAS_ALWAYS),
            [PARE_ROLE_GATE] = ABSENT,
            [PARE_ROLE_UP] = INNER("fc1", PARE_SITE_MLP, PARE_BIAS_ALWAYS),
            [PARE_ROLE_DOWN] = ACTIVATED("fc2", PARE_BIAS_ALWAYS),
        },
    .producer = PLAIN_PRODUCERS,
    .positions = "model.decoder.embed_positions",
    .position_offset = 2,
    .norm_kind = PARE_NORM_LAYER,
    .prefix = "model.",
    .context = 2048,
    .words = &opt_words,
    .demands = opt_demands,
    .norm_eps = 1e-5,
    .act = PARE_ACT_RELU,
    .tied = true,
};

static const pare_config_words neox_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "intermediate_size",
    .norm_eps = "layer_norm_eps",
};

const pare_arch pare__arch_gpt_neox = {
    .model_type = "gpt_neox",
    .summary = "GPT-NeoX and Pythia: layer norm, parallel halves, part of each head turns",
    .embed = "gpt_neox.embed_in",
    .norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .block_prefix = "gpt_neox.layers.%zu.",
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .linear =
        {
            NO_LATENT,
            [PARE_ROLE_Q] =
                ATTENTION("attention.query_key_value.q", PARE_WIDTH_Q, PARE_BIAS_UNLESS),
            [PARE_ROLE_K] =
                ATTENTION("attention.query_key_value.k", PARE_WIDTH_KV, PARE_BIAS_UNLESS),
            [PARE_ROLE_V] =
                ATTENTION("attention.query_key_value.v", PARE_WIDTH_KV, PARE_BIAS_UNLESS),
            [PARE_ROLE_O] = ATTENDED("attention.dense", PARE_BIAS_UNLESS),
            [PARE_ROLE_GATE] = ABSENT,
            [PARE_ROLE_UP] = INNER("mlp.dense_h_to_4h", PARE_SITE_MLP, PARE_BIAS_ALWAYS),
            [PARE_ROLE_DOWN] = ACTIVATED("mlp.dense_4h_to_h", PARE_BIAS_ALWAYS),
        },
    .producer = PLAIN_PRODUCERS,
    .norm_kind = PARE_NORM_LAYER,
    .fused = {{"attention.query_key_value", PARE_FUSION_HEADS, PARE_ROLE_Q, 3}},
    .prefix = "gpt_neox.",
    .ignored = {"attention.bias", "attention.masked_bias"},
    .context = 2048,
    .words = &neox_words,
    .norm_eps = 1e-5,
    .rope_theta = 10000,
    .rotary_share = 0.25,
    .turns_part = true,
    .act = PARE_ACT_GELU,
    .residual = PARE_RESIDUAL_PARALLEL,
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

static const pare_demand phi_demands[] = {{"qk_layernorm", false}, {.key = NULL}};

const pare_arch pare__arch_phi = {
    .model_type = "phi",
    .summary = "Phi 1.5 and 2: layer norm, both halves behind one norm, part of each head turns",
    .embed = "model.embed_tokens",
    .norm = "model.final_layernorm",
    .head = "lm_head",
    .block_prefix = "model.layers.%zu.",
    .prefix = "model.",
    .attention_norm = "input_layernorm",
    .linear =
        {
            NO_LATENT,
            [PARE_ROLE_Q] = ATTENTION("self_attn.q_proj", PARE_WIDTH_Q, PARE_BIAS_ALWAYS),
            [PARE_ROLE_K] = ATTENTION("self_attn.k_proj", PARE_WIDTH_KV, PARE_BIAS_ALWAYS),
            [PARE_ROLE_V] = ATTENTION("self_attn.v_proj", PARE_WIDTH_KV, PARE_BIAS_ALWAYS),
            [PARE_ROLE_O] = ATTENDED("self_attn.dense", PARE_BIAS_ALWAYS),
            [PARE_ROLE_GATE] = ABSENT,
            [PARE_ROLE_UP] = INNER("mlp.fc1", PARE_SITE_ATTENTION, PARE_BIAS_ALWAYS),
            [PARE_ROLE_DOWN] = ACTIVATED("mlp.fc2", PARE_BIAS_ALWAYS),
        },
    .producer = SHARED_PRODUCERS,
    .norm_kind = PARE_NORM_LAYER,
    .head_bias = true,
    .context = 2048,
    .words = &phi_words,
    .demands = phi_demands,
    .norm_eps = 1e-5,
    .rope_theta = 10000,
    .rotary_share = 0.5,
    .turns_part = true,
    .act = PARE_ACT_GELU_TANH,
    .residual = PARE_RESIDUAL_SHARED,
};
