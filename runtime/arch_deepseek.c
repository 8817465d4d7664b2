/* DeepSeek. Each family has four forms: q from a narrow vector or direct, blocks with experts or
 * without; the one with a narrow vector and experts names the three others.
 *
 * Source  transformers, modeling_deepseek_v2.py and modeling_deepseek_v3.py. */
#include "runtime/arch_internal.h"

#define DEEPSEEK_EXPERTS(corrected, usual, first, by)                                              \
    {                                                                                              \
        .prefix = "mlp.experts.%zu.",                                                              \
        .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),            \
        .router = "mlp.gate", .correction = corrected, .norms = usual,                             \
        .count = {"n_routed_experts", "num_experts"}, .used = "num_experts_per_tok",               \
        .width = "moe_intermediate_size", .norm = "norm_topk_prob", .step = "moe_layer_freq",      \
        .groups = 8, .groups_used = 4, .first_dense = first, .scale = by,                          \
    }

static const pare_experts deepseek_v2_experts = DEEPSEEK_EXPERTS(NULL, false, 0, 1);

static const pare_experts deepseek_v3_experts =
    DEEPSEEK_EXPERTS("mlp.gate.e_score_correction_bias", true, 3, 2.5);

#define DEEPSEEK_Q_NARROW                                                                          \
    [PARE_ROLE_Q_A] = ATTENTION("self_attn.q_a_proj", PARE_WIDTH_Q_LATENT, PARE_BIAS_ASKED),       \
    [PARE_ROLE_Q] = {"self_attn.q_b_proj", PARE_SITE_Q_LATENT, PARE_WIDTH_Q, PARE_WIDTH_Q_LATENT,  \
                     PARE_BIAS_NEVER}
#define DEEPSEEK_Q_DIRECT                                                                          \
    [PARE_ROLE_Q_A] = ABSENT, [PARE_ROLE_Q] =                                                      \
                                  ATTENTION("self_attn.q_proj", PARE_WIDTH_Q, PARE_BIAS_NEVER)

/* mlp: what stands in front of the names of the MLP that every token runs. */
#define DEEPSEEK_LINEARS(q, mlp, bias)                                                             \
    {                                                                                              \
        q,                                                                                         \
            [PARE_ROLE_KV_A] =                                                                     \
                ATTENTION("self_attn.kv_a_proj_with_mqa", PARE_WIDTH_KV_A, PARE_BIAS_ASKED),       \
            [PARE_ROLE_K] = {"self_attn.kv_b_proj", PARE_SITE_KV_LATENT, PARE_WIDTH_KV_B,          \
                             PARE_WIDTH_KV_LATENT, PARE_BIAS_NEVER},                               \
            [PARE_ROLE_V] = ABSENT,                                                                \
            [PARE_ROLE_O] = {"self_attn.o_proj", PARE_SITE_ATTENDED, PARE_WIDTH_HIDDEN,            \
                             PARE_WIDTH_VALUES, PARE_BIAS_ASKED},                                  \
            [PARE_ROLE_GATE] = INNER(mlp "gate_proj", PARE_SITE_MLP, bias),                        \
            [PARE_ROLE_UP] = INNER(mlp "up_proj", PARE_SITE_MLP, bias),                            \
            [PARE_ROLE_DOWN] = ACTIVATED(mlp "down_proj", bias),                                   \
    }

#define DEEPSEEK_COMMON                                                                            \
    LLAMA_TENSORS, .producer = {[PARE_SITE_ATTENTION] = {.kind = PARE_PRODUCER_NORM}},             \
                   .latent_eps = 1e-6, .words = &pare__llama_words, .norm_eps = 1e-6,              \
                   .rope_theta = 10000, .rotary_share = 1, .turns_neighbours = true
#define DEEPSEEK_V2_COMMON                                                                         \
    .model_type = "deepseek_v2",                                                                   \
    .summary = "DeepSeek V2: latent attention, experts in groups beside shared ones",              \
    .context = 2048, DEEPSEEK_COMMON
#define DEEPSEEK_V3_COMMON                                                                         \
    .model_type = "deepseek_v3", .also = "kimi_k2",                                                \
    .summary = "DeepSeek V3 and R1, Kimi K2: latent attention, experts picked by sigmoid and a "   \
               "correction",                                                                       \
    .context = 4096, DEEPSEEK_COMMON

#define DEEPSEEK_NORM_Q  [PARE_NORM_Q_LATENT] = "self_attn.q_a_layernorm"
#define DEEPSEEK_NORM_KV [PARE_NORM_KV_LATENT] = "self_attn.kv_a_layernorm"
#define DEEPSEEK_NARROW(mlp, bias)                                                                 \
    .linear = DEEPSEEK_LINEARS(DEEPSEEK_Q_NARROW, mlp, bias),                                      \
    .inner_norm = {DEEPSEEK_NORM_Q, DEEPSEEK_NORM_KV}
#define DEEPSEEK_DIRECT(mlp, bias)                                                                 \
    .linear = DEEPSEEK_LINEARS(DEEPSEEK_Q_DIRECT, mlp, bias), .inner_norm = {DEEPSEEK_NORM_KV}

/* Of V2: q direct; without experts; q direct and without experts. Then of V3. */
static const pare_arch deepseek_forms[] = {
    {DEEPSEEK_V2_COMMON, DEEPSEEK_DIRECT("mlp.shared_experts.", PARE_BIAS_ASKED),
     .experts = &deepseek_v2_experts, .dense = &deepseek_forms[2]},
    {DEEPSEEK_V2_COMMON, DEEPSEEK_NARROW("mlp.", PARE_BIAS_ASKED)},
    {DEEPSEEK_V2_COMMON, DEEPSEEK_DIRECT("mlp.", PARE_BIAS_ASKED)},
    {DEEPSEEK_V3_COMMON, DEEPSEEK_DIRECT("mlp.shared_experts.", PARE_BIAS_NEVER),
     .experts = &deepseek_v3_experts, .dense = &deepseek_forms[5]},
    {DEEPSEEK_V3_COMMON, DEEPSEEK_NARROW("mlp.", PARE_BIAS_NEVER)},
    {DEEPSEEK_V3_COMMON, DEEPSEEK_DIRECT("mlp.", PARE_BIAS_NEVER)},
};

const pare_arch pare__arch_deepseek_v2 = {
    DEEPSEEK_V2_COMMON,
    DEEPSEEK_NARROW("mlp.shared_experts.", PARE_BIAS_ASKED),
    .experts = &deepseek_v2_experts,
    .plain = &deepseek_forms[0],
    .dense = &deepseek_forms[1],
};

const pare_arch pare__arch_deepseek_v3 = {
    DEEPSEEK_V3_COMMON,
    DEEPSEEK_NARROW("mlp.shared_experts.", PARE_BIAS_NEVER),
    .experts = &deepseek_v3_experts,
    .plain = &deepseek_forms[3],
    .dense = &deepseek_forms[4],
};
