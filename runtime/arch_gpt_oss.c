/* gpt-oss.
 *
 * Source  transformers, modeling_gpt_oss.py. */
#include "runtime/arch_internal.h"

static const pare_experts gpt_oss_experts = {
    .prefix = "mlp.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_ALWAYS),
    .router = "mlp.router",
    .router_bias = true,
    .stacking = PARE_STACKING_TURNS,
    .count = {"num_local_experts", "num_experts"},
    .used = "num_experts_per_tok",
    .width = "intermediate_size",
};

const pare_arch pare__arch_gpt_oss = {
    .model_type = "gpt_oss",
    .summary = "gpt-oss: sinks in attention, windows in every other block, experts with "
               "biases and a clamped SwiGLU",
    LLAMA_TENSORS,
    .linear = MIXTURE_LINEARS(PARE_BIAS_UNLESS, PARE_BIAS_UNLESS),
    .producer = SHARED_PRODUCERS,
    .experts = &gpt_oss_experts,
    .sinks = "self_attn.sinks",
    .context = 131072,
    .words = &pare__mixture_words,
    .rope_theta = 150000,
    .rotary_share = 1,
    .rope_given = true,
    .act = PARE_ACT_CLAMPED,
    .window = PARE_WINDOW_EVEN,
    .window_width = 128,
};
