/* tests/data/family_deepseek.h - the small DeepSeek models of family_table.h: latent attention, a
 * dense first block, experts in groups beside shared ones. */
#ifndef PARE_TESTS_FAMILY_DEEPSEEK_H
#define PARE_TESTS_FAMILY_DEEPSEEK_H

// clang-format off
#define FAMILY_DEEPSEEK_SIZES                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":3,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"max_position_embeddings\":512,"         \
    "\"rms_norm_eps\":1e-05,\"hidden_act\":\"silu\",\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,"  \
    "\"qk_rope_head_dim\":8,\"v_head_dim\":12,\"n_routed_experts\":8,\"n_shared_experts\":2,"      \
    "\"moe_intermediate_size\":32" FAMILY_TOKENS
#define FAMILY_DEEPSEEK_NUMBERS                                                                    \
    {64, 96, 0, 96, FAMILY_VOCAB, 512, 24, 0, 0, 1, 32, 8, 4, 24, 32, 40, 112, 48, 64}, 3
#define FAMILY_DEEPSEEK_ATTENTION                                                                  \
    "model.layers.%zu.self_attn.kv_a_proj_with_mqa.weight TH",                                     \
    "model.layers.%zu.self_attn.kv_a_layernorm.weight L",                                          \
    "model.layers.%zu.self_attn.kv_b_proj.weight BL", "model.layers.%zu.self_attn.o_proj.weight HW"
#define FAMILY_DEEPSEEK_Q                                                                          \
    "model.layers.%zu.self_attn.q_a_proj.weight RH",                                               \
    "model.layers.%zu.self_attn.q_a_layernorm.weight R",                                           \
    "model.layers.%zu.self_attn.q_b_proj.weight QR"
#define FAMILY_DEEPSEEK_DENSE                                                                      \
    "model.layers.0.mlp.gate_proj.weight MH", "model.layers.0.mlp.up_proj.weight MH",              \
    "model.layers.0.mlp.down_proj.weight HM"
#define FAMILY_DEEPSEEK_SHARED                                                                     \
    "model.layers.%zu.mlp.shared_experts.gate_proj.weight SH",                                     \
    "model.layers.%zu.mlp.shared_experts.up_proj.weight SH",                                       \
    "model.layers.%zu.mlp.shared_experts.down_proj.weight HS"

#define FAMILY_DEEPSEEK                                                                            \
    {"deepseek_v2",                                                                                \
     "\"model_type\":\"deepseek_v2\",\"architectures\":[\"DeepseekV2ForCausalLM\"],"               \
     "\"q_lora_rank\":24,\"first_k_dense_replace\":1,\"topk_method\":\"group_limited_greedy\","    \
     "\"n_group\":4,\"topk_group\":2,\"num_experts_per_tok\":3,\"routed_scaling_factor\":1.5,"     \
     "\"norm_topk_prob\":false,\"rope_theta\":10000," FAMILY_DEEPSEEK_SIZES,                       \
     FAMILY_DEEPSEEK_NUMBERS,                                                                      \
     FAMILY_DENSE,                                                                                 \
     {FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_DEEPSEEK_ATTENTION, FAMILY_DEEPSEEK_Q,                \
      FAMILY_DEEPSEEK_DENSE, FAMILY_DEEPSEEK_SHARED, FAMILY_EXPERTS_MLP}},                         \
    {"deepseek_v2_lite",                                                                           \
     "\"model_type\":\"deepseek_v2\",\"architectures\":[\"DeepseekV2ForCausalLM\"],"               \
     "\"q_lora_rank\":null,\"first_k_dense_replace\":0,\"topk_method\":\"greedy\","                \
     "\"num_experts_per_tok\":2,\"norm_topk_prob\":false,\"rope_theta\":10000,"                    \
     "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0,\"beta_fast\":32.0,"                 \
     "\"beta_slow\":1.0,\"mscale\":0.707,\"mscale_all_dim\":0.707,"                                \
     "\"original_max_position_embeddings\":64}," FAMILY_DEEPSEEK_SIZES,                            \
     FAMILY_DEEPSEEK_NUMBERS,                                                                      \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_DEEPSEEK_ATTENTION,                                   \
      "model.layers.%zu.self_attn.q_proj.weight QH", FAMILY_DEEPSEEK_SHARED, FAMILY_EXPERTS_MLP}}, \
    {"deepseek_v3",                                                                                \
     "\"model_type\":\"deepseek_v3\",\"architectures\":[\"DeepseekV3ForCausalLM\"],"               \
     "\"q_lora_rank\":24,\"first_k_dense_replace\":1,\"topk_method\":\"noaux_tc\","                \
     "\"scoring_func\":\"sigmoid\",\"n_group\":4,\"topk_group\":2,\"num_experts_per_tok\":3,"      \
     "\"routed_scaling_factor\":2.5,\"norm_topk_prob\":true,\"attention_bias\":true,"              \
     "\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":8,\"beta_fast\":32,"     \
     "\"beta_slow\":1,\"mscale\":1.0,\"mscale_all_dim\":0.8,"                                      \
     "\"original_max_position_embeddings\":64}," FAMILY_DEEPSEEK_SIZES,                            \
     FAMILY_DEEPSEEK_NUMBERS,                                                                      \
     FAMILY_DENSE,                                                                                 \
     {FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_DEEPSEEK_ATTENTION, FAMILY_DEEPSEEK_Q,                \
      FAMILY_DEEPSEEK_DENSE, FAMILY_DEEPSEEK_SHARED, FAMILY_EXPERTS_MLP,                           \
      "model.layers.%zu.mlp.gate.e_score_correction_bias E",                                       \
      "model.layers.%zu.self_attn.q_a_proj.bias R",                                                \
      "model.layers.%zu.self_attn.kv_a_proj_with_mqa.bias T",                                      \
      "model.layers.%zu.self_attn.o_proj.bias H"}}
// clang-format on

#endif
