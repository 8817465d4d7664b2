/* runtime/arch_internal.h - what the entries of families (arch_*.c) are made of; arch.c has the
 * list of all of them. */
#ifndef PARE_RUNTIME_ARCH_INTERNAL_H
#define PARE_RUNTIME_ARCH_INTERNAL_H

#include "runtime/arch.h"

#define ATTENTION(name, out, bias)                                                                 \
    {                                                                                              \
        name, PARE_SITE_ATTENTION, out, PARE_WIDTH_HIDDEN, bias                                    \
    }
#define ATTENDED(name, bias)                                                                       \
    {                                                                                              \
        name, PARE_SITE_ATTENDED, PARE_WIDTH_HIDDEN, PARE_WIDTH_Q, bias                            \
    }
#define INNER(name, site, bias)                                                                    \
    {                                                                                              \
        name, site, PARE_WIDTH_MLP, PARE_WIDTH_HIDDEN, bias                                        \
    }
#define ACTIVATED(name, bias)                                                                      \
    {                                                                                              \
        name, PARE_SITE_ACTIVATED, PARE_WIDTH_HIDDEN, PARE_WIDTH_MLP, bias                         \
    }
#define ABSENT                                                                                     \
    {                                                                                              \
        .name = NULL, .site = PARE_SITES, .bias = PARE_BIAS_NEVER                                  \
    }

/* Where there is no latent attention. */
#define NO_LATENT [PARE_ROLE_Q_A] = ABSENT, [PARE_ROLE_KV_A] = ABSENT

/* Attention named as llama names it. */
#define ATTENTION_LINEARS(qkv, o)                                                                  \
    NO_LATENT, [PARE_ROLE_Q] = ATTENTION("self_attn.q_proj", PARE_WIDTH_Q, qkv),                   \
               [PARE_ROLE_K] = ATTENTION("self_attn.k_proj", PARE_WIDTH_KV, qkv),                  \
               [PARE_ROLE_V] = ATTENTION("self_attn.v_proj", PARE_WIDTH_KV, qkv),                  \
               [PARE_ROLE_O] = ATTENDED("self_attn.o_proj", o)

/* Linears named as llama names them. */
#define LLAMA_LINEARS(qkv, o, mlp)                                                                 \
    {                                                                                              \
        ATTENTION_LINEARS(qkv, o), [PARE_ROLE_GATE] = INNER("mlp.gate_proj", PARE_SITE_MLP, mlp),  \
                                   [PARE_ROLE_UP] = INNER("mlp.up_proj", PARE_SITE_MLP, mlp),      \
                                   [PARE_ROLE_DOWN] = ACTIVATED("mlp.down_proj", mlp),             \
    }

/* The same without an MLP. */
#define MIXTURE_LINEARS(qkv, o)                                                                    \
    {                                                                                              \
        ATTENTION_LINEARS(qkv, o), [PARE_ROLE_GATE] = ABSENT, [PARE_ROLE_UP] = ABSENT,             \
                                   [PARE_ROLE_DOWN] = ABSENT,                                      \
    }

/* Names of gate, up and down of an expert. */
#define EXPERT_LINEARS(gate, up, down, bias)                                                       \
    {                                                                                              \
        NO_LATENT, [PARE_ROLE_Q] = ABSENT, [PARE_ROLE_K] = ABSENT, [PARE_ROLE_V] = ABSENT,         \
                   [PARE_ROLE_O] = ABSENT,                                                         \
                   [PARE_ROLE_GATE] = {gate, PARE_SITE_MLP, PARE_WIDTH_EXPERT, PARE_WIDTH_HIDDEN,  \
                                       bias},                                                      \
                   [PARE_ROLE_UP] = {up, PARE_SITE_MLP, PARE_WIDTH_EXPERT, PARE_WIDTH_HIDDEN,      \
                                     bias},                                                        \
                   [PARE_ROLE_DOWN] = {down, PARE_SITE_ACTIVATED, PARE_WIDTH_HIDDEN,               \
                                       PARE_WIDTH_EXPERT, bias},                                   \
    }

#define LLAMA_TENSORS                                                                              \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .block_prefix = "model.layers.%zu.", .prefix = "model.", .attention_norm = "input_layernorm",  \
    .mlp_norm = "post_attention_layernorm"

/* Norms and linears in front of every site. */
#define GATED_PRODUCERS                                                                            \
    {                                                                                              \
        [PARE_SITE_ATTENTION] = {.kind = PARE_PRODUCER_NORM},                                      \
        [PARE_SITE_ATTENDED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_V},                                \
        [PARE_SITE_MLP] = {.kind = PARE_PRODUCER_NORM},                                            \
        [PARE_SITE_ACTIVATED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_UP},                              \
    }

/* No scale passes through an activation without a gate. */
#define PLAIN_PRODUCERS                                                                            \
    {                                                                                              \
        [PARE_SITE_ATTENTION] = {.kind = PARE_PRODUCER_NORM},                                      \
        [PARE_SITE_ATTENDED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_V},                                \
        [PARE_SITE_MLP] = {.kind = PARE_PRODUCER_NORM},                                            \
    }

/* The same where one norm stands in front of attention and MLP, or where the norm of the MLP makes
 * the input of a router too. */
#define SHARED_PRODUCERS                                                                           \
    {                                                                                              \
        [PARE_SITE_ATTENTION] = {.kind = PARE_PRODUCER_NORM},                                      \
        [PARE_SITE_ATTENDED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_V},                                \
    }

/* Words of config.json: as llama has them; with experts alone, and no MLP that every token runs;
 * with experts beside a shared one. */
extern const pare_config_words pare__llama_words, pare__mixture_words, pare__shared_words;

extern const pare_arch pare__arch_llama;
extern const pare_arch pare__arch_mistral;
extern const pare_arch pare__arch_qwen2;
extern const pare_arch pare__arch_qwen3;
extern const pare_arch pare__arch_smollm3;
extern const pare_arch pare__arch_olmo2;
extern const pare_arch pare__arch_olmo3;
extern const pare_arch pare__arch_glm4;
extern const pare_arch pare__arch_granite;
extern const pare_arch pare__arch_qwen3_5_text;
extern const pare_arch pare__arch_qwen3_5_moe_text;
extern const pare_arch pare__arch_qwen3_next;
extern const pare_arch pare__arch_glm4_moe;
extern const pare_arch pare__arch_gemma;
extern const pare_arch pare__arch_gemma2;
extern const pare_arch pare__arch_gemma3_text;
extern const pare_arch pare__arch_gpt2;
extern const pare_arch pare__arch_opt;
extern const pare_arch pare__arch_gpt_neox;
extern const pare_arch pare__arch_phi;
extern const pare_arch pare__arch_phi3;
extern const pare_arch pare__arch_bitnet;
extern const pare_arch pare__arch_mixtral;
extern const pare_arch pare__arch_qwen2_moe;
extern const pare_arch pare__arch_qwen3_moe;
extern const pare_arch pare__arch_gpt_oss;
extern const pare_arch pare__arch_deepseek_v2;
extern const pare_arch pare__arch_deepseek_v3;
extern const pare_arch pare__arch_llama4_text;

#endif
