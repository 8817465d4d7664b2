/* runtime/arch_beside_llama.h - entries of the table in arch.c, which alone includes this: families
 * with linears, names and words of llama that compute a little otherwise. */
#ifndef PARE_RUNTIME_ARCH_BESIDE_LLAMA_H
#define PARE_RUNTIME_ARCH_BESIDE_LLAMA_H

#include "runtime/arch.h"

#define SMOLLM3                                                                                    \
    {                                                                                              \
        .model_type = "smollm3",                                                                   \
        .summary = "SmolLM 3: llama in which every fourth block has no positions", LLAMA_TENSORS,  \
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),                \
        .producer = GATED_PRODUCERS, .context = 32768, .words = &llama_words,                      \
        .demands = (const pare_demand[]){{"use_sliding_window", false}, {.key = NULL}},            \
        .norm_eps = 1e-6, .rope_theta = 2000000, .rotary_share = 1, .unturned_period = 4,          \
        .tied = true,                                                                              \
    }

/* Norms on all of q and of k, and behind both halves instead of in front of them. */
#define OLMO_COMMON                                                                                \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .block_prefix = "model.layers.%zu.", .prefix = "model.",                                       \
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),                    \
    .producer = {[PARE_SITE_ATTENDED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_V},                       \
                 [PARE_SITE_ACTIVATED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_UP}},                    \
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm",                                             \
                   [PARE_NORM_K] = "self_attn.k_norm",                                             \
                   [PARE_NORM_AFTER_ATTENTION] = "post_attention_layernorm",                       \
                   [PARE_NORM_AFTER_MLP] = "post_feedforward_layernorm"},                          \
    .whole_qk_norms = true, .context = 2048, .words = &llama_words, .norm_eps = 1e-5

#define OLMO2                                                                                      \
    {                                                                                              \
        .model_type = "olmo2",                                                                     \
        .summary = "OLMo 2: llama with norms on all of q and of k, and behind both halves "        \
                   "instead of in front of them",                                                  \
        OLMO_COMMON, .rope_theta = 10000, .rotary_share = 1,                                       \
    }

#define OLMO3                                                                                      \
    {                                                                                              \
        .model_type = "olmo3",                                                                     \
        .summary = "OLMo 3: OLMo 2 with a window and unscaled positions in all but every fourth "  \
                   "block",                                                                        \
        OLMO_COMMON, .rope_theta = 500000, .rotary_share = 1, .rope_theta_local = 500000,          \
        .rope_word_local = "rope_theta", .window = PARE_WINDOW_FOURTH, .window_width = 4096,       \
    }

#define GLM4                                                                                       \
    {                                                                                              \
        .model_type = "glm4",                                                                      \
        .summary = "GLM 4: llama with norms behind both halves too, half of each head turning, "   \
                   "gate and up in one tensor",                                                    \
        LLAMA_TENSORS,                                                                             \
        .linear = {ATTENTION_LINEARS(PARE_BIAS_UNLESS, PARE_BIAS_NEVER),                           \
                   [PARE_ROLE_GATE] =                                                              \
                       INNER("mlp.gate_up_proj.gate", PARE_SITE_MLP, PARE_BIAS_NEVER),             \
                   [PARE_ROLE_UP] = INNER("mlp.gate_up_proj.up", PARE_SITE_MLP, PARE_BIAS_NEVER),  \
                   [PARE_ROLE_DOWN] = ACTIVATED("mlp.down_proj", PARE_BIAS_NEVER)},                \
        .producer = GATED_PRODUCERS,                                                               \
        .inner_norm = {[PARE_NORM_AFTER_ATTENTION] = "post_self_attn_layernorm",                   \
                       [PARE_NORM_AFTER_MLP] = "post_mlp_layernorm"},                              \
        .fused = {{"mlp.gate_up_proj", PARE_FUSION_STACKED, PARE_ROLE_GATE, 2}},                   \
        .context = 131072, .words = &llama_words, .norm_eps = 1.5625e-07, .rope_theta = 10000,     \
        .rotary_share = 0.5, .turns_neighbours = true,                                             \
    }

#define GRANITE                                                                                    \
    {                                                                                              \
        .model_type = "granite",                                                                   \
        .summary = "Granite 3: llama with factors on embedding, scores, halves and logits",        \
        LLAMA_TENSORS, .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED), \
        .producer = GATED_PRODUCERS, .context = 2048, .words = &llama_words, .norm_eps = 1e-6,     \
        .rope_theta = 10000, .rotary_share = 1, .multiplies = true,                                \
    }

#endif
