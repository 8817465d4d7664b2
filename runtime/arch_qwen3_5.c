/* Qwen 3.5.
 *
 * Source  transformers 5, modeling_qwen3_5.py. */
#include "runtime/arch_internal.h"

static const pare_demand qwen3_5_demands[] = {{"attn_output_gate", true}, {.key = NULL}};

/* No scale or shift passes to attention or a state: beta and decay read their input, too, and norms
 * and gates stand behind the values. */
#define QWEN3_5_COMMON                                                                             \
    .model_type = "qwen3_5_text", LLAMA_TENSORS, .norm_offset = 1,                                 \
    .producer = {[PARE_SITE_MLP] = {.kind = PARE_PRODUCER_NORM},                                   \
                 [PARE_SITE_ACTIVATED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_UP}},                    \
    .context = 32768, .words = &pare__llama_words, .demands = qwen3_5_demands, .norm_eps = 1e-6,   \
    .rope_theta = 10000, .rotary_share = 0.25, .turns_part = true

#define QWEN3_5_MLP                                                                                \
    NO_LATENT, [PARE_ROLE_GATE] = INNER("mlp.gate_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),          \
               [PARE_ROLE_UP] = INNER("mlp.up_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),              \
               [PARE_ROLE_DOWN] = ACTIVATED("mlp.down_proj", PARE_BIAS_NEVER)

static const pare_recurrence_names state_names = {"linear_attn.in_proj_b", "linear_attn.in_proj_a",
                                                  "linear_attn.conv1d",    "linear_attn.norm",
                                                  "linear_attn.A_log",     "linear_attn.dt_bias"};

static const pare_arch qwen3_5_recurrent = {
    QWEN3_5_COMMON,
    .summary = "blocks of Qwen 3.5 with a recurrent state",
    .linear =
        {
            [PARE_ROLE_Q] = ATTENTION("linear_attn.in_proj_qkv", PARE_WIDTH_MIXED, PARE_BIAS_NEVER),
            [PARE_ROLE_K] = ATTENTION("linear_attn.in_proj_z", PARE_WIDTH_STATE, PARE_BIAS_NEVER),
            [PARE_ROLE_V] = ABSENT,
            [PARE_ROLE_O] = {"linear_attn.out_proj", PARE_SITE_ATTENDED, PARE_WIDTH_HIDDEN,
                             PARE_WIDTH_STATE, PARE_BIAS_NEVER},
            QWEN3_5_MLP,
        },
    .recurrence = &state_names,
};

const pare_arch pare__arch_qwen3_5_text = {
    QWEN3_5_COMMON,
    .summary = "Qwen 3.5: llama with norms of 1 + w, gated attention in every fourth block, "
               "and a recurrent state (gated DeltaNet) in the others",
    .linear =
        {
            [PARE_ROLE_Q] = ATTENTION("self_attn.q_proj", PARE_WIDTH_GATED_Q, PARE_BIAS_ASKED),
            [PARE_ROLE_K] = ATTENTION("self_attn.k_proj", PARE_WIDTH_KV, PARE_BIAS_ASKED),
            [PARE_ROLE_V] = ATTENTION("self_attn.v_proj", PARE_WIDTH_KV, PARE_BIAS_ASKED),
            [PARE_ROLE_O] = ATTENDED("self_attn.o_proj", PARE_BIAS_ASKED),
            QWEN3_5_MLP,
        },
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"},
    .recurrent = &qwen3_5_recurrent,
};
