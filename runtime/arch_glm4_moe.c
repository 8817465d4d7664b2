/* GLM 4.5 to 4.7. The family has four forms: q and k of each head normed or not, blocks with
 * experts or without; the one with norms and experts names the three others.
 *
 * Source  transformers 5, modeling_glm4_moe.py. */
#include "runtime/arch_internal.h"

static const pare_experts glm4_experts = {
    .prefix = "mlp.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),
    .router = "mlp.gate",
    .correction = "mlp.gate.e_score_correction_bias",
    .count = {"n_routed_experts", "num_local_experts"},
    .used = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .norm = "norm_topk_prob",
    .norms = true,
    .groups = 1,
    .groups_used = 1,
    .first_dense = 1,
    .scale = 1,
};

/* mlp: what stands in front of the names of the MLP that every token runs. */
#define GLM4_FORM(mlp)                                                                             \
    .model_type = "glm4_moe",                                                                      \
    .summary = "GLM 4.5: half of each head turning, experts picked by sigmoid and a correction "   \
               "beside shared ones, and first blocks without experts",                             \
    LLAMA_TENSORS, .producer = SHARED_PRODUCERS, .context = 131072, .words = &pare__llama_words,   \
    .norm_eps = 1e-5, .rope_theta = 10000, .rotary_share = 0.5, .turns_part = true,                \
    .linear = {                                                                                    \
        ATTENTION_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_NEVER),                                       \
        [PARE_ROLE_GATE] = INNER(mlp "gate_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),                 \
        [PARE_ROLE_UP] = INNER(mlp "up_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),                     \
        [PARE_ROLE_DOWN] = ACTIVATED(mlp "down_proj", PARE_BIAS_NEVER),                            \
    }
#define GLM4_NORMS                                                                                 \
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"}

static const pare_arch glm4_dense = {GLM4_FORM("mlp."), GLM4_NORMS};
static const pare_arch glm4_plain_dense = {GLM4_FORM("mlp.")};
static const pare_arch glm4_plain = {GLM4_FORM("mlp.shared_experts."), .experts = &glm4_experts,
                                     .dense = &glm4_plain_dense};

const pare_arch pare__arch_glm4_moe = {
    GLM4_FORM("mlp.shared_experts."),
    GLM4_NORMS,
    .experts = &glm4_experts,
    .dense = &glm4_dense,
    .plain = &glm4_plain,
};
