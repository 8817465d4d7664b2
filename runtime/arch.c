#include "runtime/arch.h"

#include <stdio.h>
#include <string.h>

#include "runtime/arch_beside_llama.h"
#include "runtime/arch_deepseek.h"
#include "runtime/arch_gpt_oss.h"
#include "runtime/arch_qwen3_5.h"

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

/* What Gemma 2 and 3 share. */
#define GEMMA2_COMMON                                                                              \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .block_prefix = "model.layers.%zu.", .prefix = "model.", .attention_norm = "input_layernorm",  \
    .mlp_norm = "pre_feedforward_layernorm",                                                       \
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),                    \
    .producer = GATED_PRODUCERS, .norm_offset = 1, .words = &gemma2_words, .rotary_share = 1,      \
    .act = PARE_ACT_GELU_TANH, .gelu_means_tanh = true, .window_width = 4096, .tied = true,        \
    .scales_embedding = true, .attention_scalar = 256

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

#include "runtime/arch_words.h"

static const pare_arch deepseek_forms[6];
static const pare_arch deepseek_forms[6] = DEEPSEEK_FORMS;

const pare_arch pare_archs[] = {
    {
        .model_type = "llama",
        .summary = "Llama 1 to 3: RMS norm, rotary positions, grouped-query attention, SwiGLU",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),
        .producer = GATED_PRODUCERS,
        .context = 2048,
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
        .context = 131072,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_ALL,
        .window_width = 4096,
    },
    {
        .model_type = "qwen2",
        .summary = "Qwen 2 and 2.5: llama with biases on q, k and v",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ALWAYS, PARE_BIAS_NEVER, PARE_BIAS_NEVER),
        .producer = GATED_PRODUCERS,
        .context = 32768,
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
        .context = 32768,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_SWITCHED,
    },
    SMOLLM3,
    OLMO2,
    OLMO3,
    GLM4,
    GRANITE,
    QWEN3_5_TEXT,
    {
        .model_type = "gemma",
        .summary = "Gemma: llama with GeGLU, a scaled embedding and norms of 1 + w",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),
        .producer = GATED_PRODUCERS,
        .norm_offset = 1,
        .context = 8192,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .act = PARE_ACT_GELU_TANH,
        .gelu_means_tanh = true,
        .tied = true,
        .scales_embedding = true,
    },
    {
        .model_type = "gemma2",
        .summary =
            "Gemma 2: Gemma with caps, norms behind both halves, windows in every other block",
        GEMMA2_COMMON,
        .inner_norm = {[PARE_NORM_AFTER_ATTENTION] = "post_attention_layernorm",
                       [PARE_NORM_AFTER_MLP] = "post_feedforward_layernorm"},
        .context = 8192,
        .rope_theta = 10000,
        .window = PARE_WINDOW_EVEN,
        .attention_cap = 50,
        .logit_cap = 30,
    },
    {
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
    },
    {
        .model_type = "gpt2",
        .summary =
            "GPT-2: layer norm, learned positions, transposed linears, q, k, v in one tensor",
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
    },
    {
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
    },
    {
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
        .act = PARE_ACT_GELU,
        .residual = PARE_RESIDUAL_PARALLEL,
    },
    {
        .model_type = "phi",
        .summary =
            "Phi 1.5 and 2: layer norm, both halves behind one norm, part of each head turns",
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
        .act = PARE_ACT_GELU_TANH,
        .residual = PARE_RESIDUAL_SHARED,
    },
    {
        .model_type = "phi3",
        .summary = "Phi 3: llama with q, k, v in one tensor, and gate and up in another",
        LLAMA_TENSORS,
        .linear =
            {
                NO_LATENT,
                [PARE_ROLE_Q] = ATTENTION("self_attn.qkv_proj.q", PARE_WIDTH_Q, PARE_BIAS_NEVER),
                [PARE_ROLE_K] = ATTENTION("self_attn.qkv_proj.k", PARE_WIDTH_KV, PARE_BIAS_NEVER),
                [PARE_ROLE_V] = ATTENTION("self_attn.qkv_proj.v", PARE_WIDTH_KV, PARE_BIAS_NEVER),
                [PARE_ROLE_O] = ATTENDED("self_attn.o_proj", PARE_BIAS_NEVER),
                [PARE_ROLE_GATE] = INNER("mlp.gate_up_proj.gate", PARE_SITE_MLP, PARE_BIAS_NEVER),
                [PARE_ROLE_UP] = INNER("mlp.gate_up_proj.up", PARE_SITE_MLP, PARE_BIAS_NEVER),
                [PARE_ROLE_DOWN] = ACTIVATED("mlp.down_proj", PARE_BIAS_NEVER),
            },
        .producer = GATED_PRODUCERS,
        .fused = {{"self_attn.qkv_proj", PARE_FUSION_STACKED, PARE_ROLE_Q, 3},
                  {"mlp.gate_up_proj", PARE_FUSION_STACKED, PARE_ROLE_GATE, 2}},
        .context = 4096,
        .words = &llama_words,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_ALL,
    },
    {
        .model_type = "bitnet",
        .summary = "BitNet b1.58: ternary linears, int8 inputs, norms in front of o and down",
        LLAMA_TENSORS,
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),
        /* No producers: inputs are rounded, so that a scale or shift in front of them shows. */
        .inner_norm = {[PARE_NORM_ATTENDED] = "self_attn.attn_sub_norm",
                       [PARE_NORM_ACTIVATED] = "mlp.ffn_sub_norm"},
        .context = 2048,
        .words = &llama_words,
        .rope_theta = 500000,
        .rotary_share = 1,
        .act = PARE_ACT_RELU2,
        .rounds_inputs = true,
    },
    {
        .model_type = "mixtral",
        .summary = "Mixtral: Mistral with a mixture of experts as its MLP",
        LLAMA_TENSORS,
        .linear = MIXTURE_LINEARS(PARE_BIAS_NEVER, PARE_BIAS_NEVER),
        .producer = SHARED_PRODUCERS,
        .experts = &mixtral_experts,
        .context = 131072,
        .words = &mixture_words,
        .rope_theta = 1000000,
        .rotary_share = 1,
        .window = PARE_WINDOW_ALL,
    },
    {
        .model_type = "qwen2_moe",
        .summary = "Qwen 1.5 and 2 MoE: qwen2 with experts beside a shared one that has a gate",
        LLAMA_TENSORS,
        .linear =
            {
                ATTENTION_LINEARS(PARE_BIAS_ALWAYS, PARE_BIAS_NEVER),
                [PARE_ROLE_GATE] =
                    INNER("mlp.shared_expert.gate_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),
                [PARE_ROLE_UP] = INNER("mlp.shared_expert.up_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),
                [PARE_ROLE_DOWN] = ACTIVATED("mlp.shared_expert.down_proj", PARE_BIAS_NEVER),
            },
        .producer = SHARED_PRODUCERS,
        .experts = &qwen2_experts,
        .context = 32768,
        .words = &qwen2_moe_words,
        .demands = qwen2_moe_demands,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_SWITCHED,
    },
    {
        .model_type = "qwen3_moe",
        .summary = "Qwen 3 MoE: qwen3 with a mixture of experts as its MLP",
        LLAMA_TENSORS,
        .linear = MIXTURE_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED),
        .producer = SHARED_PRODUCERS,
        .experts = &qwen3_experts,
        .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"},
        .context = 32768,
        .words = &mixture_words,
        .demands = qwen3_moe_demands,
        .rope_theta = 10000,
        .rotary_share = 1,
        .window = PARE_WINDOW_SWITCHED,
    },
    ARCH_GPT_OSS,
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    {.model_type = NULL},
};

const pare_arch *pare_arch_find(const char *model_type)
{
    for (const pare_arch *a = pare_archs; a->model_type; a++) {
        if (strcmp(a->model_type, model_type) == 0 || (a->also && strcmp(a->also, model_type) == 0))
            return a;
    }
    return NULL;
}

const pare_linear_desc *pare_arch_linear(const pare_arch *a, size_t part, pare_role role)
{
    static const pare_linear_desc absent = ABSENT;
    if (part == 0)
        return &a->linear[role];
    return a->experts && role >= PARE_ROLE_GATE ? &a->experts->linear[role] : &absent;
}

size_t pare_arch_name_in(const pare_arch *a, size_t block, size_t part, const char *name,
                         char *text, size_t size)
{
    char before[64], inside[64] = "";
    const int n = snprintf(before, sizeof before, a->block_prefix, block);
    const int m = part ? snprintf(inside, sizeof inside, a->experts->prefix, part - 1) : 0;
    if (n < 0 || (size_t)n >= sizeof before || m < 0 || (size_t)m >= sizeof inside)
        return 0;
    const int length = snprintf(text, size, "%s%s%s", before, inside, name);
    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}
