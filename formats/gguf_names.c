/* Which tensor of a GGUF file is which of the original checkpoint, family by family. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf_internal.h"

static const pare__gguf_name llama_global[] = {
    {"token_embd", "model.embed_tokens", PARE__GGUF_SAME},
    {"output_norm", "model.norm", PARE__GGUF_SAME},
    {"output", "lm_head", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name llama_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_PAIRS_Q},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_PAIRS_K},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_gate", "mlp.gate_proj", PARE__GGUF_SAME},
    {"ffn_up", "mlp.up_proj", PARE__GGUF_SAME},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

/* The families that kept llama's names; bitnet's inner norms too. */
static const pare__gguf_name qwen_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_q_norm", "self_attn.q_norm", PARE__GGUF_SAME},
    {"attn_k_norm", "self_attn.k_norm", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"attn_sub_norm", "self_attn.attn_sub_norm", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_gate", "mlp.gate_proj", PARE__GGUF_SAME},
    {"ffn_up", "mlp.up_proj", PARE__GGUF_SAME},
    {"ffn_sub_norm", "mlp.ffn_sub_norm", PARE__GGUF_SAME},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name mixtral_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_PAIRS_Q},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_PAIRS_K},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_gate_inp", "block_sparse_moe.gate", PARE__GGUF_F32},
    {"ffn_gate_exps", "block_sparse_moe.experts.%zu.w1", PARE__GGUF_EXPERTS},
    {"ffn_up_exps", "block_sparse_moe.experts.%zu.w3", PARE__GGUF_EXPERTS},
    {"ffn_down_exps", "block_sparse_moe.experts.%zu.w2", PARE__GGUF_EXPERTS},
    {NULL, NULL, PARE__GGUF_SAME},
};

/* Qwen's mixtures; the shared expert of the older one. */
static const pare__gguf_name qwen_moe_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_q_norm", "self_attn.q_norm", PARE__GGUF_SAME},
    {"attn_k_norm", "self_attn.k_norm", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_gate_inp", "mlp.gate", PARE__GGUF_F32},
    {"ffn_gate_exps", "mlp.experts.%zu.gate_proj", PARE__GGUF_EXPERTS},
    {"ffn_up_exps", "mlp.experts.%zu.up_proj", PARE__GGUF_EXPERTS},
    {"ffn_down_exps", "mlp.experts.%zu.down_proj", PARE__GGUF_EXPERTS},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", PARE__GGUF_ROW},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj", PARE__GGUF_SAME},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj", PARE__GGUF_SAME},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name gpt_oss_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"attn_sinks", "self_attn.sinks", PARE__GGUF_BARE},
    {"post_attention_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_gate_inp", "mlp.router", PARE__GGUF_F32},
    {"ffn_gate_exps", "mlp.experts.%zu.gate_proj", PARE__GGUF_EXPERTS},
    {"ffn_up_exps", "mlp.experts.%zu.up_proj", PARE__GGUF_EXPERTS},
    {"ffn_down_exps", "mlp.experts.%zu.down_proj", PARE__GGUF_EXPERTS},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name gemma_global[] = {
    {"token_embd", "model.embed_tokens", PARE__GGUF_SAME},
    {"output_norm", "model.norm", PARE__GGUF_PLUS_ONE},
    {"output", "lm_head", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name gemma_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_PLUS_ONE},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_PLUS_ONE},
    {"ffn_gate", "mlp.gate_proj", PARE__GGUF_SAME},
    {"ffn_up", "mlp.up_proj", PARE__GGUF_SAME},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

/* Gemma 2 has these but for the norms of queries and keys. */
static const pare__gguf_name gemma3_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_PLUS_ONE},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_q_norm", "self_attn.q_norm", PARE__GGUF_PLUS_ONE},
    {"attn_k_norm", "self_attn.k_norm", PARE__GGUF_PLUS_ONE},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"post_attention_norm", "post_attention_layernorm", PARE__GGUF_PLUS_ONE},
    {"ffn_norm", "pre_feedforward_layernorm", PARE__GGUF_PLUS_ONE},
    {"ffn_gate", "mlp.gate_proj", PARE__GGUF_SAME},
    {"ffn_up", "mlp.up_proj", PARE__GGUF_SAME},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {"post_ffw_norm", "post_feedforward_layernorm", PARE__GGUF_PLUS_ONE},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name olmo2_block[] = {
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_q_norm", "self_attn.q_norm", PARE__GGUF_SAME},
    {"attn_k_norm", "self_attn.k_norm", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"post_attention_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_gate", "mlp.gate_proj", PARE__GGUF_SAME},
    {"ffn_up", "mlp.up_proj", PARE__GGUF_SAME},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {"post_ffw_norm", "post_feedforward_layernorm", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name glm4_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"post_attention_norm", "post_self_attn_layernorm", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_up", "mlp.gate_up_proj", PARE__GGUF_GATE_UP},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {"post_ffw_norm", "post_mlp_layernorm", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name gpt2_global[] = {
    {"token_embd", "transformer.wte", PARE__GGUF_SAME},
    {"position_embd", "transformer.wpe", PARE__GGUF_F32},
    {"output_norm", "transformer.ln_f", PARE__GGUF_SAME},
    {"output", "lm_head", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name gpt2_block[] = {
    {"attn_norm", "ln_1", PARE__GGUF_SAME},
    {"attn_qkv", "attn.c_attn", PARE__GGUF_QKV},
    {"attn_output", "attn.c_proj", PARE__GGUF_SAME},
    {"ffn_norm", "ln_2", PARE__GGUF_SAME},
    {"ffn_up", "mlp.c_fc", PARE__GGUF_SAME},
    {"ffn_down", "mlp.c_proj", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name neox_global[] = {
    {"token_embd", "gpt_neox.embed_in", PARE__GGUF_SAME},
    {"output_norm", "gpt_neox.final_layer_norm", PARE__GGUF_SAME},
    {"output", "embed_out", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name neox_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_qkv", "attention.query_key_value", PARE__GGUF_QKV},
    {"attn_output", "attention.dense", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_up", "mlp.dense_h_to_4h", PARE__GGUF_SAME},
    {"ffn_down", "mlp.dense_4h_to_h", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name phi_global[] = {
    {"token_embd", "model.embed_tokens", PARE__GGUF_SAME},
    {"output_norm", "model.final_layernorm", PARE__GGUF_SAME},
    {"output", "lm_head", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name phi_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_q", "self_attn.q_proj", PARE__GGUF_SAME},
    {"attn_k", "self_attn.k_proj", PARE__GGUF_SAME},
    {"attn_v", "self_attn.v_proj", PARE__GGUF_SAME},
    {"attn_output", "self_attn.dense", PARE__GGUF_SAME},
    {"ffn_up", "mlp.fc1", PARE__GGUF_SAME},
    {"ffn_down", "mlp.fc2", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_name phi3_block[] = {
    {"attn_norm", "input_layernorm", PARE__GGUF_SAME},
    {"attn_qkv", "self_attn.qkv_proj", PARE__GGUF_QKV},
    {"attn_output", "self_attn.o_proj", PARE__GGUF_SAME},
    {"ffn_norm", "post_attention_layernorm", PARE__GGUF_SAME},
    {"ffn_up", "mlp.gate_up_proj", PARE__GGUF_GATE_UP},
    {"ffn_down", "mlp.down_proj", PARE__GGUF_SAME},
    {NULL, NULL, PARE__GGUF_SAME},
};

static const pare__gguf_word llama_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word granite_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {"embedding_scale", "embedding_multiplier", PARE__GGUF_REAL, true},
    {"attention.scale", "attention_multiplier", PARE__GGUF_REAL, true},
    {"residual_scale", "residual_multiplier", PARE__GGUF_REAL, true},
    {"logit_scale", "logits_scaling", PARE__GGUF_REAL, true},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word gemma2_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {"attn_logit_softcapping", "attn_logit_softcapping", PARE__GGUF_REAL, false},
    {"final_logit_softcapping", "final_logit_softcapping", PARE__GGUF_REAL, false},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word gemma3_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {"final_logit_softcapping", "final_logit_softcapping", PARE__GGUF_REAL, false},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word gpt2_words[] = {
    {"context_length", "n_positions", PARE__GGUF_WHOLE, true},
    {"embedding_length", "n_embd", PARE__GGUF_WHOLE, true},
    {"block_count", "n_layer", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "n_inner", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "n_head", PARE__GGUF_WHOLE, true},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", PARE__GGUF_REAL, true},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word neox_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_epsilon", "layer_norm_eps", PARE__GGUF_REAL, true},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word mixtral_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {"expert_count", "num_local_experts", PARE__GGUF_WHOLE, true},
    {"expert_used_count", "num_experts_per_tok", PARE__GGUF_WHOLE, true},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word qwen_moe_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {"expert_count", "num_experts", PARE__GGUF_WHOLE, true},
    {"expert_used_count", "num_experts_per_tok", PARE__GGUF_WHOLE, true},
    {"expert_feed_forward_length", "moe_intermediate_size", PARE__GGUF_WHOLE, true},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", PARE__GGUF_WHOLE,
     false},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

static const pare__gguf_word gpt_oss_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.head_count_kv", "num_key_value_heads", PARE__GGUF_WHOLE, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", PARE__GGUF_REAL, true},
    {"expert_count", "num_local_experts", PARE__GGUF_WHOLE, true},
    {"expert_used_count", "num_experts_per_tok", PARE__GGUF_WHOLE, true},
    {"expert_feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

/* GPT-NeoX may add its halves one after the other. */
static const pare__gguf_word gptneox_words[] = {
    {"context_length", "max_position_embeddings", PARE__GGUF_WHOLE, true},
    {"embedding_length", "hidden_size", PARE__GGUF_WHOLE, true},
    {"block_count", "num_hidden_layers", PARE__GGUF_WHOLE, true},
    {"feed_forward_length", "intermediate_size", PARE__GGUF_WHOLE, true},
    {"attention.head_count", "num_attention_heads", PARE__GGUF_WHOLE, true},
    {"attention.layer_norm_epsilon", "layer_norm_eps", PARE__GGUF_REAL, true},
    {"use_parallel_residual", "use_parallel_residual", PARE__GGUF_FLAG, false},
    {NULL, NULL, PARE__GGUF_WHOLE, false},
};

enum {
    ROTARY = PARE__GGUF_ROTARY,
    HEAD = PARE__GGUF_HEAD,
    SQUARE = PARE__GGUF_SQUARE,
    KEY_LENGTH = PARE__GGUF_KEY_LENGTH,
    ACT = PARE__GGUF_ACT,
    QKV_BIAS = PARE__GGUF_QKV_BIAS,
    TIED = PARE__GGUF_TIED,
    NO_WINDOW = PARE__GGUF_NO_WINDOW,
    NO_O_BIAS = PARE__GGUF_NO_O_BIAS,
    NO_BIAS = PARE__GGUF_NO_BIAS,
    WINDOW = PARE__GGUF_WINDOW,
    EXPERTS = PARE__GGUF_MIXTURE,
    EXPERT_NORM = PARE__GGUF_EXPERT_NORM,
    DIVISORS = PARE__GGUF_DIVISORS,
    LOCAL = PARE__GGUF_LOCAL,
    FACTORS = PARE__GGUF_FACTORS,
    UNEVEN = PARE__GGUF_UNEVEN,
    MLP_SCALE = PARE__GGUF_MLP_SCALE
};
_Static_assert((ROTARY + HEAD + SQUARE + KEY_LENGTH + ACT + QKV_BIAS + TIED + NO_WINDOW +
                NO_O_BIAS + WINDOW + EXPERTS + EXPERT_NORM + DIVISORS + LOCAL + FACTORS + NO_BIAS +
                UNEVEN + MLP_SCALE) ==
                   (ROTARY | HEAD | SQUARE | KEY_LENGTH | ACT | QKV_BIAS | TIED | NO_WINDOW |
                    NO_O_BIAS | WINDOW | EXPERTS | EXPERT_NORM | DIVISORS | LOCAL | FACTORS |
                    NO_BIAS | UNEVEN | MLP_SCALE),
               "two are the same bit");

static const pare__gguf_family families[] = {
    {"llama", "llama", "LlamaForCausalLM", "model.layers.%zu.", llama_global, llama_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY | NO_WINDOW | DIVISORS | FACTORS | MLP_SCALE},
    {"deci", "llama", "LlamaForCausalLM", "model.layers.%zu.", llama_global, llama_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY | NO_WINDOW | DIVISORS | FACTORS | UNEVEN},
    {"llama", "mixtral", "MixtralForCausalLM", "model.layers.%zu.", llama_global, mixtral_block,
     mixtral_words, "hidden_act", "silu", NULL,
     ROTARY | EXPERTS | NO_WINDOW | DIVISORS | FACTORS | MLP_SCALE},
    {"qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", "model.layers.%zu.", llama_global,
     qwen_moe_block, qwen_moe_words, "hidden_act", "silu", NULL, ROTARY | HEAD | SQUARE | EXPERTS},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", "model.layers.%zu.", llama_global,
     qwen_moe_block, qwen_moe_words, "hidden_act", "silu", NULL,
     ROTARY | KEY_LENGTH | EXPERTS | EXPERT_NORM | NO_O_BIAS | MLP_SCALE},
    {"gpt-oss", "gpt_oss", "GptOssForCausalLM", "model.layers.%zu.", llama_global, gpt_oss_block,
     gpt_oss_words, "hidden_act", "silu", NULL, ROTARY | KEY_LENGTH | EXPERTS},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", "model.layers.%zu.", llama_global, qwen_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", "model.layers.%zu.", llama_global, qwen_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY | KEY_LENGTH | NO_O_BIAS | MLP_SCALE},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", "model.layers.%zu.", llama_global, llama_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY | NO_BIAS},
    {"olmo2", "olmo2", "Olmo2ForCausalLM", "model.layers.%zu.", llama_global, olmo2_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY | HEAD | SQUARE | NO_BIAS},
    {"glm4", "glm4", "Glm4ForCausalLM", "model.layers.%zu.", llama_global, glm4_block, llama_words,
     "hidden_act", "silu", "partial_rotary_factor", ROTARY},
    {"granite", "granite", "GraniteForCausalLM", "model.layers.%zu.", llama_global, llama_block,
     granite_words, "hidden_act", "silu", NULL, ROTARY | DIVISORS},
    {"gemma", "gemma", "GemmaForCausalLM", "model.layers.%zu.", gemma_global, gemma_block,
     llama_words, "hidden_activation", "gelu_pytorch_tanh", NULL,
     ROTARY | KEY_LENGTH | TIED | NO_O_BIAS},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", "model.layers.%zu.", gemma_global, gemma3_block,
     gemma2_words, "hidden_activation", "gelu_pytorch_tanh", NULL,
     ROTARY | KEY_LENGTH | TIED | NO_O_BIAS},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", "model.layers.%zu.", gemma_global, gemma3_block,
     gemma3_words, "hidden_activation", "gelu_pytorch_tanh", NULL,
     ROTARY | KEY_LENGTH | TIED | NO_O_BIAS | LOCAL},
    {"gpt2", "gpt2", "GPT2LMHeadModel", "transformer.h.%zu.", gpt2_global, gpt2_block, gpt2_words,
     "activation_function", "gelu_new", NULL, HEAD | SQUARE},
    {"gptneox", "gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.layers.%zu.", neox_global, neox_block,
     gptneox_words, "hidden_act", "gelu", "rotary_pct", ROTARY | HEAD | SQUARE | QKV_BIAS},
    {"phi2", "phi", "PhiForCausalLM", "model.layers.%zu.", phi_global, phi_block, neox_words,
     "hidden_act", "gelu_new", "partial_rotary_factor", ROTARY | HEAD | SQUARE},
    {"phi3", "phi3", "Phi3ForCausalLM", "model.layers.%zu.", llama_global, phi3_block, llama_words,
     "hidden_act", "silu", NULL, ROTARY | HEAD | SQUARE | WINDOW | NO_WINDOW | FACTORS},
    {"bitnet", "bitnet", "BitNetForCausalLM", "model.layers.%zu.", llama_global, qwen_block,
     llama_words, "hidden_act", "silu", NULL, ROTARY | SQUARE | ACT | TIED | NO_O_BIAS | MLP_SCALE},
};

const pare__gguf_family *pare__gguf_family_of(const pare_gguf *g)
{
    const char *arch;
    size_t len;
    if (!pare_gguf_text(pare_gguf_find(g, "general.architecture"), &arch, &len))
        return NULL;
    int64_t experts = 0;
    (void)pare__gguf_integer(g, "expert_count", &experts);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strlen(families[i].arch) == len && memcmp(families[i].arch, arch, len) == 0 &&
            !(families[i].how & EXPERTS) == (experts <= 0))
            return &families[i];
    }
    return NULL;
}

/* "blk.N." in front: the number, and the rest of the name. */
static const char *behind_block(const char *name, size_t *block)
{
    if (strncmp(name, "blk.", 4) != 0)
        return NULL;
    const char *at = name + 4;
    size_t n = 0;
    for (; *at >= '0' && *at <= '9' && n < 100000; at++)
        n = 10 * n + (size_t)(*at - '0');
    if (at == name + 4 || *at != '.' || (name[4] == '0' && at != name + 5))
        return NULL;
    *block = n;
    return at + 1;
}

bool pare__gguf_rename(const pare__gguf_family *f, const char *name, char out[PARE__GGUF_NAME],
                       const char **suffix, pare__gguf_form *form)
{
    size_t block = 0;
    const char *const inner = behind_block(name, &block), *const base = inner ? inner : name;
    const char *const dot = strrchr(base, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return false;
    const size_t len = (size_t)(dot - base);
    const pare__gguf_name *n = inner ? f->block : f->global;
    while (n->gguf && (strlen(n->gguf) != len || memcmp(n->gguf, base, len) != 0))
        n++;
    if (!n->gguf)
        return false;
    char prefix[64] = "";
    if (inner)
        (void)snprintf(prefix, sizeof prefix, f->prefix, block);
    (void)snprintf(out, PARE__GGUF_NAME, "%s%s", prefix, n->original);
    *suffix = dot;
    *form = n->form;
    return true;
}

static const pare__gguf_windowed windowed[] = {{"llama", "mistral", "MistralForCausalLM"},
                                               {"olmo2", "olmo3", "Olmo3ForCausalLM"}};

const pare__gguf_windowed *pare__gguf_windowed_of(const pare__gguf_family *f)
{
    for (size_t i = 0; i < sizeof windowed / sizeof *windowed; i++)
        if (strcmp(windowed[i].plain, f->model_type) == 0)
            return &windowed[i];
    return NULL;
}

static const pare__gguf_family *family_named(const char *model_type, bool uneven)
{
    const char *name = model_type;
    for (size_t i = 0; i < sizeof windowed / sizeof *windowed; i++)
        if (strcmp(windowed[i].model_type, model_type) == 0)
            name = windowed[i].plain;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].model_type, name) == 0 && (!uneven || families[i].how & UNEVEN))
            return &families[i];
    }
    return NULL;
}

const pare__gguf_family *pare__gguf_family_for(const pare_config *c)
{
    return family_named(c->arch->model_type, c->uneven);
}

/* The block prefix in front of a name: the number, and the rest. */
static const char *behind_prefix(const pare__gguf_family *f, const char *name, size_t *block)
{
    const char *const percent = strchr(f->prefix, '%');
    const size_t len = (size_t)(percent - f->prefix);
    if (strncmp(name, f->prefix, len) != 0)
        return NULL;
    const char *at = name + len;
    size_t n = 0;
    for (; *at >= '0' && *at <= '9' && n < 100000; at++)
        n = 10 * n + (size_t)(*at - '0');
    if (at == name + len || strncmp(at, percent + 3, strlen(percent + 3)) != 0)
        return NULL;
    *block = n;
    return at + strlen(percent + 3);
}

/* Whether a name is that of the list, in which %zu stands for a number. */
static bool is_original(const char *pattern, const char *name)
{
    const char *const percent = strchr(pattern, '%');
    if (!percent)
        return strcmp(pattern, name) == 0;
    const size_t len = (size_t)(percent - pattern);
    if (strncmp(pattern, name, len) != 0)
        return false;
    const char *const digits = name + len, *const rest = digits + strspn(digits, "0123456789");
    return rest > digits && strcmp(rest, percent + 3) == 0;
}

bool pare__gguf_unname(const pare__gguf_family *f, const char *name, const char *suffix,
                       pare__gguf_place *out)
{
    size_t block = 0, i = 0;
    const char *const inner = behind_prefix(f, name, &block), *const base = inner ? inner : name;
    const pare__gguf_name *const list = inner ? f->block : f->global;
    while (list[i].gguf && !is_original(list[i].original, base))
        i++;
    if (!list[i].gguf)
        return false;
    if (inner)
        (void)snprintf(out->name, sizeof out->name, "blk.%zu.%s%s", block, list[i].gguf, suffix);
    else
        (void)snprintf(out->name, sizeof out->name, "%s%s", list[i].gguf, suffix);
    out->form = list[i].form;
    out->order = (inner ? 64 * (block + 1) : 0) + 2 * i + (strcmp(suffix, ".bias") == 0);
    return true;
}

/* The tensor that a linear is rows of, by its name without the last word ("qkv_proj.q"). */
static bool unname_whole(const pare__gguf_family *f, const char *linear, pare__gguf_place *out)
{
    char whole[PARE__GGUF_NAME];
    const char *const dot = strrchr(linear, '.');
    const size_t len = dot ? (size_t)(dot - linear) : sizeof whole;
    if (len >= sizeof whole)
        return false;
    (void)snprintf(whole, sizeof whole, "%.*s", (int)len, linear);
    return pare__gguf_unname(f, whole, ".weight", out) &&
           (out->form == PARE__GGUF_QKV || out->form == PARE__GGUF_GATE_UP);
}

bool pare_gguf_name_of(const char *model_type, const char *tensor, char out[PARE_GGUF_NAME])
{
    const pare__gguf_family *const f = family_named(model_type, false);
    pare__gguf_place place;
    if (!f ||
        (!pare__gguf_unname(f, tensor, ".weight", &place) && !unname_whole(f, tensor, &place)))
        return false;
    (void)snprintf(out, PARE_GGUF_NAME, "%s", place.name);
    return true;
}
