#include "runtime/arch.h"

#include <string.h>

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

/* Linears named as llama names them. */
#define LLAMA_LINEARS(qkv, o, mlp)                                                                 \
    {                                                                                              \
        [PARE_ROLE_Q] = ATTENTION("self_attn.q_proj", PARE_WIDTH_Q, qkv),                          \
        [PARE_ROLE_K] = ATTENTION("self_attn.k_proj", PARE_WIDTH_KV, qkv),                         \
        [PARE_ROLE_V] = ATTENTION("self_attn.v_proj", PARE_WIDTH_KV, qkv),                         \
        [PARE_ROLE_O] = ATTENDED("self_attn.o_proj", o),                                           \
        [PARE_ROLE_GATE] = INNER("mlp.gate_proj", PARE_SITE_MLP, mlp),                             \
        [PARE_ROLE_UP] = INNER("mlp.up_proj", PARE_SITE_MLP, mlp),                                 \
        [PARE_ROLE_DOWN] = ACTIVATED("mlp.down_proj", mlp),                                        \
    }

#define LLAMA_TENSORS                                                                              \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .block_prefix = "model.layers.%zu.", .attention_norm = "input_layernorm",                      \
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

const pare_arch pare_archs[] = {
    {
        .model_type = "llama",
        .summary = "Llama 1 to 3: RMS norm, rotary positions, grouped-query attention, SwiGLU",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),
        .producer = GATED_PRODUCERS,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
    },
    {
        .model_type = "mistral",
        .summary = "Mistral: llama with a sliding window",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_NEVER, PARE_BIAS_NEVER, PARE_BIAS_NEVER),
        .producer = GATED_PRODUCERS,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_ALL,
    },
    {
        .model_type = "qwen2",
        .summary = "Qwen 2 and 2.5: llama with biases on q, k and v",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ALWAYS, PARE_BIAS_NEVER, PARE_BIAS_NEVER),
        .producer = GATED_PRODUCERS,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_SWITCHED,
    },
    {
        .model_type = "qwen3",
        .summary = "Qwen 3: llama with a norm on each head of q and k",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),
        .producer = GATED_PRODUCERS,
        .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"},
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_SWITCHED,
    },
    {.model_type = NULL},
};

const pare_arch *pare_arch_find(const char *model_type)
{
    for (const pare_arch *a = pare_archs; a->model_type; a++) {
        if (strcmp(a->model_type, model_type) == 0)
            return a;
    }
    return NULL;
}
