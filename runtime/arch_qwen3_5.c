/* Qwen 3.5, with one MLP or a mixture of experts, and Qwen 3 Next.
 *
 * Source  transformers 5, modeling_qwen3_5.py, modeling_qwen3_5_moe.py, modeling_qwen3_next.py. */
#include "runtime/arch_internal.h"

static const pare_demand qwen3_5_demands[] = {{"attn_output_gate", true}, {.key = NULL}};

/* No scale or shift passes to attention or a state: beta and decay read their input, too, and norms
 * and gates stand behind the values. */
#define QWEN3_5_COMMON                                                                             \
    LLAMA_TENSORS, .norm_offset = 1, .context = 32768, .demands = qwen3_5_demands,                 \
                   .norm_eps = 1e-6, .rope_theta = 10000, .rotary_share = 0.25, .turns_part = true

#define QWEN3_5_DENSE                                                                              \
    .model_type = "qwen3_5_text", QWEN3_5_COMMON, .words = &pare__llama_words,                     \
    .producer = {[PARE_SITE_MLP] = {.kind = PARE_PRODUCER_NORM},                                   \
                 [PARE_SITE_ACTIVATED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_UP}}

/* mlp: what stands in front of the names of the MLP that every token runs. */
#define QWEN3_5_MLP(mlp)                                                                           \
    NO_LATENT, [PARE_ROLE_GATE] = INNER(mlp "gate_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),          \
               [PARE_ROLE_UP] = INNER(mlp "up_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),              \
               [PARE_ROLE_DOWN] = ACTIVATED(mlp "down_proj", PARE_BIAS_NEVER)

#define QWEN3_5_ATTENTION(mlp)                                                                     \
    .linear =                                                                                      \
        {                                                                                          \
            [PARE_ROLE_Q] = ATTENTION("self_attn.q_proj", PARE_WIDTH_GATED_Q, PARE_BIAS_ASKED),    \
            [PARE_ROLE_K] = ATTENTION("self_attn.k_proj", PARE_WIDTH_KV, PARE_BIAS_ASKED),         \
            [PARE_ROLE_V] = ATTENTION("self_attn.v_proj", PARE_WIDTH_KV, PARE_BIAS_ASKED),         \
            [PARE_ROLE_O] = ATTENDED("self_attn.o_proj", PARE_BIAS_ASKED),                         \
            QWEN3_5_MLP(mlp),                                                                      \
    },                                                                                             \
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"}

#define QWEN3_5_STATE(qkv, z, mlp)                                                                 \
    .linear = {                                                                                    \
        [PARE_ROLE_Q] = ATTENTION("linear_attn." qkv, PARE_WIDTH_MIXED, PARE_BIAS_NEVER),          \
        [PARE_ROLE_K] = ATTENTION("linear_attn." z, PARE_WIDTH_STATE, PARE_BIAS_NEVER),            \
        [PARE_ROLE_V] = ABSENT,                                                                    \
        [PARE_ROLE_O] = {"linear_attn.out_proj", PARE_SITE_ATTENDED, PARE_WIDTH_HIDDEN,            \
                         PARE_WIDTH_STATE, PARE_BIAS_NEVER},                                       \
        QWEN3_5_MLP(mlp),                                                                          \
    }

#define QWEN3_5_STATE_NAMES(b, a)                                                                  \
    .beta = "linear_attn." b, .decay = "linear_attn." a, .conv = "linear_attn.conv1d",             \
    .norm = "linear_attn.norm", .rate = "linear_attn.A_log", .shift = "linear_attn.dt_bias"

static const pare_recurrence_names state_names = {QWEN3_5_STATE_NAMES("in_proj_b", "in_proj_a")};

static const pare_arch qwen3_5_recurrent = {
    QWEN3_5_DENSE,
    .summary = "blocks of Qwen 3.5 with a recurrent state",
    QWEN3_5_STATE("in_proj_qkv", "in_proj_z", "mlp."),
    .recurrence = &state_names,
};

const pare_arch pare__arch_qwen3_5_text = {
    QWEN3_5_DENSE,
    .summary = "Qwen 3.5: llama with norms of 1 + w, gated attention in every fourth block, "
               "and a recurrent state (gated DeltaNet) in the others",
    QWEN3_5_ATTENTION("mlp."),
    .recurrent = &qwen3_5_recurrent,
};

#define QWEN3_5_EXPERTS                                                                            \
    .prefix = "mlp.experts.%zu.",                                                                  \
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),                \
    .router = "mlp.gate", .shared_gate = "mlp.shared_expert_gate",                                 \
    .count = {"num_experts", "num_local_experts"}, .used = "num_experts_per_tok",                  \
    .width = "moe_intermediate_size"

static const pare_experts qwen3_5_experts = {QWEN3_5_EXPERTS, .stacking = PARE_STACKING_ROWS};

/* The norm of the MLP makes the input of a router, too. */
#define QWEN3_5_MIXTURE                                                                            \
    .model_type = "qwen3_5_moe_text", QWEN3_5_COMMON, .words = &pare__shared_words,                \
    .experts = &qwen3_5_experts

static const pare_arch qwen3_5_moe_recurrent = {
    QWEN3_5_MIXTURE,
    .summary = "blocks of Qwen 3.5 MoE with a recurrent state",
    QWEN3_5_STATE("in_proj_qkv", "in_proj_z", "mlp.shared_expert."),
    .recurrence = &state_names,
};

const pare_arch pare__arch_qwen3_5_moe_text = {
    QWEN3_5_MIXTURE,
    .summary = "Qwen 3.5 MoE: qwen3_5_text with experts beside a shared one that has a gate",
    QWEN3_5_ATTENTION("mlp.shared_expert."),
    .recurrent = &qwen3_5_moe_recurrent,
};

static const pare_experts qwen3_next_experts = {
    QWEN3_5_EXPERTS,
    .norm = "norm_topk_prob",
    .norms = true,
    .dense_blocks = "mlp_only_layers",
    .step = "decoder_sparse_step",
};

static const pare_recurrence_names next_names = {
    QWEN3_5_STATE_NAMES("in_proj_ba.b", "in_proj_ba.a"),
    .fused = {"linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"}};

#define QWEN3_NEXT_COMMON                                                                          \
    .model_type = "qwen3_next", QWEN3_5_COMMON, .words = &pare__shared_words,                      \
    .experts = &qwen3_next_experts

static const pare_arch qwen3_next_recurrent = {
    QWEN3_NEXT_COMMON,
    .summary = "blocks of Qwen 3 Next with a recurrent state",
    QWEN3_5_STATE("in_proj_qkvz.qkv", "in_proj_qkvz.z", "mlp.shared_expert."),
    .recurrence = &next_names,
};

const pare_arch pare__arch_qwen3_next = {
    QWEN3_NEXT_COMMON,
    .summary = "Qwen 3 Next: as qwen3_5_moe_text, with the inputs of a state in two tensors",
    QWEN3_5_ATTENTION("mlp.shared_expert."),
    .recurrent = &qwen3_next_recurrent,
};
