/* Gemma: scaled embeddings, norms of 1 + w. */
#include "runtime/arch_internal.h"

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

static const pare_demand gemma3_demands[] = {{"use_bidirectional_attention", false}, {.key = NULL}};

/* What Gemma 2 and 3 share. */
#define GEMMA2_COMMON                                                                              \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .block_prefix = "model.layers.%zu.", .prefix = "model.", .attention_norm = "input_layernorm",  \
    .mlp_norm = "pre_feedforward_layernorm",                                                       \
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),                    \
    .producer = GATED_PRODUCERS, .norm_offset = 1, .words = &gemma2_words, .rotary_share = 1,      \
    .act = PARE_ACT_GELU_TANH, .window_width = 4096, .tied = true, .scales_embedding = true,       \
    .attention_scalar = 256

const pare_arch pare__arch_gemma = {
    .model_type = "gemma",
    .summary = "Gemma: llama with GeGLU, a scaled embedding and norms of 1 + w",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),
    .producer = GATED_PRODUCERS,
    .norm_offset = 1,
    .context = 8192,
    .words = &pare__llama_words,
    .rope_theta = 10000,
    .rotary_share = 1,
    .act = PARE_ACT_GELU_TANH,
    .gelu_means_tanh = true,
    .tied = true,
    .scales_embedding = true,
};

const pare_arch pare__arch_gemma2 = {
    .model_type = "gemma2",
    .summary = "Gemma 2: Gemma with caps, norms behind both halves, windows in every other block",
    GEMMA2_COMMON,
    .inner_norm = {[PARE_NORM_AFTER_ATTENTION] = "post_attention_layernorm",
                   [PARE_NORM_AFTER_MLP] = "post_feedforward_layernorm"},
    .context = 8192,
    .rope_theta = 10000,
    .window = PARE_WINDOW_EVEN,
    .attention_cap = 50,
    .logit_cap = 30,
};

const pare_arch pare__arch_gemma3_text = {
    .model_type = "gemma3_text",
    .summary = "Gemma 3: Gemma 2 without caps, with norms on q and k, and positions of their "
               "own in blocks with a window",
    GEMMA2_COMMON,
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm",
                   [PARE_NORM_K] = "self_attn.k_norm",
                   [PARE_NORM_AFTER_ATTENTION] = "post_attention_layernorm",
                   [PARE_NORM_AFTER_MLP] = "post_feedforward_layernorm"},
    .context = 131072,
    .demands = gemma3_demands,
    .rope_theta = 1000000,
    .rope_theta_local = 10000,
    .rope_word_local = "rope_local_base_freq",
    .window = PARE_WINDOW_PERIOD,
    .logit_cap = -1,
};
