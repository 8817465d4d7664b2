/* Llama 4: the text model.
 *
 * Source  transformers 5, modeling_llama4.py. */
#include "runtime/arch_internal.h"

static const pare_experts llama4_experts = {
    .prefix = "feed_forward.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),
    .router = "feed_forward.router",
    .stacking = PARE_STACKING_HALVES,
    .inward = true,
    .count = {"num_local_experts"},
    .used = "num_experts_per_tok",
    .width = "intermediate_size",
};

static const pare_config_words llama4_words = {
    .hidden = "hidden_size",
    .intermediate = "intermediate_size_mlp",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .norm_eps = "rms_norm_eps",
};

/* mlp: what stands in front of the names of the MLP that every token runs. */
#define LLAMA4_FORM(mlp)                                                                           \
    .model_type = "llama4_text",                                                                   \
    .summary = "Llama 4: attention in chunks, and without positions in every fourth block; a "     \
               "router scales the inputs of experts",                                              \
    LLAMA_TENSORS, .producer = SHARED_PRODUCERS, .context = 131072, .words = &llama4_words,        \
    .norm_eps = 1e-5, .rope_theta = 500000, .rotary_share = 1, .turns_neighbours = true,           \
    .unturned_period = 4, .window = PARE_WINDOW_CHUNKS, .window_width = 8192,                      \
    .linear = {                                                                                    \
        ATTENTION_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED),                                       \
        [PARE_ROLE_GATE] = INNER(mlp "gate_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),                 \
        [PARE_ROLE_UP] = INNER(mlp "up_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),                     \
        [PARE_ROLE_DOWN] = ACTIVATED(mlp "down_proj", PARE_BIAS_NEVER),                            \
    }

static const pare_arch llama4_dense = {LLAMA4_FORM("feed_forward.")};

const pare_arch pare__arch_llama4_text = {
    LLAMA4_FORM("feed_forward.shared_expert."),
    .experts = &llama4_experts,
    .dense = &llama4_dense,
};
