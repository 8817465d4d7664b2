/* Families with the attention of llama and a mixture of experts. */
#include "runtime/arch_internal.h"

/* The experts alone: no MLP that every token runs. */
const pare_config_words pare__mixture_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

static const pare_experts mixtral_experts = {
    .prefix = "block_sparse_moe.experts.%zu.",
    .linear = EXPERT_LINEARS("w1", "w3", "w2", PARE_BIAS_NEVER),
    .router = "block_sparse_moe.gate",
    .count = {"num_local_experts", "num_experts"},
    .used = "num_experts_per_tok",
    .width = "intermediate_size",
};

const pare_arch pare__arch_mixtral = {
    .model_type = "mixtral",
    .summary = "Mixtral: Mistral with a mixture of experts as its MLP",
    LLAMA_TENSORS,
    .linear = MIXTURE_LINEARS(PARE_BIAS_NEVER, PARE_BIAS_NEVER),
    .producer = SHARED_PRODUCERS,
    .experts = &mixtral_experts,
    .context = 131072,
    .words = &pare__mixture_words,
    .rope_theta = 1000000,
    .rotary_share = 1,
    .window = PARE_WINDOW_ALWAYS,
};

/* Experts beside a shared one. */
const pare_config_words pare__shared_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "shared_expert_intermediate_size",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

static const pare_experts qwen2_experts = {
    .prefix = "mlp.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),
    .router = "mlp.gate",
    .shared_gate = "mlp.shared_expert_gate",
    .count = {"num_experts", "num_local_experts"},
    .used = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .norm = "norm_topk_prob",
    .dense_blocks = "mlp_only_layers",
    .step = "decoder_sparse_step",
};

/* Which blocks a window is for differs between versions of these families. */
static const pare_demand qwen2_moe_demands[] = {
    {"use_sliding_window", false}, {"qkv_bias", true}, {.key = NULL}};

const pare_arch pare__arch_qwen2_moe = {
    .model_type = "qwen2_moe",
    .summary = "Qwen 1.5 and 2 MoE: qwen2 with experts beside a shared one that has a gate",
    LLAMA_TENSORS,
    .linear =
        {
            ATTENTION_LINEARS(PARE_BIAS_ALWAYS, PARE_BIAS_NEVER),
            [PARE_ROLE_GATE] = INNER("mlp.shared_expert.gate_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),
            [PARE_ROLE_UP] = INNER("mlp.shared_expert.up_proj", PARE_SITE_MLP, PARE_BIAS_NEVER),
            [PARE_ROLE_DOWN] = ACTIVATED("mlp.shared_expert.down_proj", PARE_BIAS_NEVER),
        },
    .producer = SHARED_PRODUCERS,
    .experts = &qwen2_experts,
    .context = 32768,
    .words = &pare__shared_words,
    .demands = qwen2_moe_demands,
    .rope_theta = 10000,
    .rotary_share = 1,
    .window = PARE_WINDOW_SWITCHED,
};

static const pare_experts qwen3_experts = {
    .prefix = "mlp.experts.%zu.",
    .linear = EXPERT_LINEARS("gate_proj", "up_proj", "down_proj", PARE_BIAS_NEVER),
    .router = "mlp.gate",
    .count = {"num_experts", "num_local_experts"},
    .used = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .norm = "norm_topk_prob",
    .dense_blocks = "mlp_only_layers",
    .step = "decoder_sparse_step",
};

static const pare_demand qwen3_moe_demands[] = {{"use_sliding_window", false}, {.key = NULL}};

const pare_arch pare__arch_qwen3_moe = {
    .model_type = "qwen3_moe",
    .summary = "Qwen 3 MoE: qwen3 with a mixture of experts as its MLP",
    LLAMA_TENSORS,
    .linear = MIXTURE_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED),
    .producer = SHARED_PRODUCERS,
    .experts = &qwen3_experts,
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"},
    .context = 32768,
    .words = &pare__mixture_words,
    .demands = qwen3_moe_demands,
    .rope_theta = 10000,
    .rotary_share = 1,
    .window = PARE_WINDOW_SWITCHED,
};
