/* Families with the tensors of llama and one MLP. */
#include "runtime/arch_internal.h"

const pare_config_words pare__llama_words = {
    .hidden = "hidden_size",
    .blocks = "num_hidden_layers",
    .heads = "num_attention_heads",
    .context = "max_position_embeddings",
    .act = "hidden_act",
    .intermediate = "intermediate_size",
    .kv_heads = "num_key_value_heads",
    .norm_eps = "rms_norm_eps",
};

const pare_arch pare__arch_llama = {
    .model_type = "llama",
    .summary = "Llama 1 to 3: RMS norm, rotary positions, grouped-query attention, SwiGLU",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),
    .producer = GATED_PRODUCERS,
    .context = 2048,
    .words = &pare__llama_words,
    .rope_theta = 10000,
    .rotary_share = 1,
};

const pare_arch pare__arch_mistral = {
    .model_type = "mistral",
    .summary = "Mistral: llama with a sliding window",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_NEVER, PARE_BIAS_NEVER, PARE_BIAS_NEVER),
    .producer = GATED_PRODUCERS,
    .context = 131072,
    .words = &pare__llama_words,
    .rope_theta = 10000,
    .rotary_share = 1,
    .window = PARE_WINDOW_ALL,
    .window_width = 4096,
};

const pare_arch pare__arch_qwen2 = {
    .model_type = "qwen2",
    .summary = "Qwen 2 and 2.5: llama with biases on q, k and v",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ALWAYS, PARE_BIAS_NEVER, PARE_BIAS_NEVER),
    .producer = GATED_PRODUCERS,
    .context = 32768,
    .words = &pare__llama_words,
    .rope_theta = 10000,
    .rotary_share = 1,
    .window = PARE_WINDOW_SWITCHED,
};

const pare_arch pare__arch_qwen3 = {
    .model_type = "qwen3",
    .summary = "Qwen 3: llama with a norm on each head of q and k",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),
    .producer = GATED_PRODUCERS,
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm", [PARE_NORM_K] = "self_attn.k_norm"},
    .context = 32768,
    .words = &pare__llama_words,
    .rope_theta = 10000,
    .rotary_share = 1,
    .window = PARE_WINDOW_SWITCHED,
};

const pare_arch pare__arch_phi3 = {
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
    .words = &pare__llama_words,
    .rope_theta = 10000,
    .rotary_share = 1,
    .turns_part = true,
    .window = PARE_WINDOW_ALWAYS,
};

const pare_arch pare__arch_bitnet = {
    .model_type = "bitnet",
    .summary = "BitNet b1.58: ternary linears, int8 inputs, norms in front of o and down",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),
    /* No producers: inputs are rounded, so that a scale or shift in front of them shows. */
    .inner_norm = {[PARE_NORM_ATTENDED] = "self_attn.attn_sub_norm",
                   [PARE_NORM_ACTIVATED] = "mlp.ffn_sub_norm"},
    .context = 2048,
    .words = &pare__llama_words,
    .rope_theta = 500000,
    .rotary_share = 1,
    .act = PARE_ACT_RELU2,
    .rounds_inputs = true,
};

const pare_arch pare__arch_smollm3 = {
    .model_type = "smollm3",
    .summary = "SmolLM 3: llama in which every fourth block has no positions",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),
    .producer = GATED_PRODUCERS,
    .context = 32768,
    .words = &pare__llama_words,
    .demands = (const pare_demand[]){{"use_sliding_window", false}, {.key = NULL}},
    .norm_eps = 1e-6,
    .rope_theta = 2000000,
    .rotary_share = 1,
    .unturned_period = 4,
    .tied = true,
};

/* Norms on all of q and of k, and behind both halves instead of in front of them. */
#define OLMO_COMMON                                                                                \
    .embed = "model.embed_tokens", .norm = "model.norm", .head = "lm_head",                        \
    .block_prefix = "model.layers.%zu.", .prefix = "model.",                                       \
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_NEVER),                    \
    .producer = {[PARE_SITE_ATTENDED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_V},                       \
                 [PARE_SITE_ACTIVATED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_UP}},                    \
    .inner_norm = {[PARE_NORM_Q] = "self_attn.q_norm",                                             \
                   [PARE_NORM_K] = "self_attn.k_norm",                                             \
                   [PARE_NORM_AFTER_ATTENTION] = "post_attention_layernorm",                       \
                   [PARE_NORM_AFTER_MLP] = "post_feedforward_layernorm"},                          \
    .whole_qk_norms = true, .context = 2048, .words = &pare__llama_words, .norm_eps = 1e-5

const pare_arch pare__arch_olmo2 = {
    .model_type = "olmo2",
    .summary = "OLMo 2: llama with norms on all of q and of k, and behind both halves "
               "instead of in front of them",
    OLMO_COMMON,
    .rope_theta = 10000,
    .rotary_share = 1,
};

const pare_arch pare__arch_olmo3 = {
    .model_type = "olmo3",
    .summary = "OLMo 3: OLMo 2 with a window and unscaled positions in all but every fourth "
               "block",
    OLMO_COMMON,
    .rope_theta = 500000,
    .rotary_share = 1,
    .rope_theta_local = 500000,
    .rope_word_local = "rope_theta",
    .window = PARE_WINDOW_FOURTH,
    .window_width = 4096,
};

const pare_arch pare__arch_glm4 = {
    .model_type = "glm4",
    .summary = "GLM 4: llama with norms behind both halves too, half of each head turning, "
               "gate and up in one tensor",
    LLAMA_TENSORS,
    .linear = {ATTENTION_LINEARS(PARE_BIAS_UNLESS, PARE_BIAS_NEVER),
               [PARE_ROLE_GATE] = INNER("mlp.gate_up_proj.gate", PARE_SITE_MLP, PARE_BIAS_NEVER),
               [PARE_ROLE_UP] = INNER("mlp.gate_up_proj.up", PARE_SITE_MLP, PARE_BIAS_NEVER),
               [PARE_ROLE_DOWN] = ACTIVATED("mlp.down_proj", PARE_BIAS_NEVER)},
    .producer = GATED_PRODUCERS,
    .inner_norm = {[PARE_NORM_AFTER_ATTENTION] = "post_self_attn_layernorm",
                   [PARE_NORM_AFTER_MLP] = "post_mlp_layernorm"},
    .fused = {{"mlp.gate_up_proj", PARE_FUSION_STACKED, PARE_ROLE_GATE, 2}},
    .context = 131072,
    .words = &pare__llama_words,
    .norm_eps = 1.5625e-07,
    .rope_theta = 10000,
    .rotary_share = 0.5,
    .turns_part = true,
    .turns_neighbours = true,
};

const pare_arch pare__arch_granite = {
    .model_type = "granite",
    .summary = "Granite 3: llama with factors on embedding, scores, halves and logits",
    LLAMA_TENSORS,
    .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),
    .producer = GATED_PRODUCERS,
    .context = 2048,
    .words = &pare__llama_words,
    .norm_eps = 1e-6,
    .rope_theta = 10000,
    .rotary_share = 1,
    .multiplies = true,
};
