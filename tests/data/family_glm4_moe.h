/* tests/data/family_glm4_moe.h - GLM 4.5 in the table of family_table.h: with norms of q and k,
 * groups of experts and a first block without them; and as GLM 4.5 Air, without those norms. */
#ifndef PARE_TESTS_FAMILY_GLM4_MOE_H
#define PARE_TESTS_FAMILY_GLM4_MOE_H

// clang-format off
#define FAMILY_GLM4_MOE_BIASES                                                                     \
    "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",        \
        "model.layers.%zu.self_attn.v_proj.bias K"
#define FAMILY_GLM4_MOE_EXPERTS                                                                    \
    FAMILY_EXPERTS_MLP, "model.layers.%zu.mlp.gate.e_score_correction_bias E"

#define FAMILY_GLM4_MOE                                                                            \
    {"glm4_moe",                                                                                   \
     "\"model_type\":\"glm4_moe\",\"architectures\":[\"Glm4MoeForCausalLM\"],"                     \
     "\"hidden_act\":\"silu\",\"attention_bias\":true,\"use_qk_norm\":true,\"head_dim\":24,"       \
     "\"partial_rotary_factor\":0.5,\"rope_theta\":1000000,\"rope_scaling\":null,"                 \
     "\"first_k_dense_replace\":1,\"n_routed_experts\":8,\"num_experts_per_tok\":3,"               \
     "\"moe_intermediate_size\":48,\"n_shared_experts\":2,\"n_group\":4,\"topk_group\":2,"         \
     "\"routed_scaling_factor\":2.5,\"norm_topk_prob\":true,\"num_nextn_predict_layers\":1,"       \
     FAMILY_LLAMA_SIZES,                                                                           \
     {64, 96, 48, 96, FAMILY_VOCAB, 256, 24, 0, 0, 1, 48, 8, 0, 0, 0, 0, 0, 0, 96},                \
     3,                                                                                            \
     FAMILY_DENSE,                                                                                 \
     {FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_LLAMA_ATTENTION, FAMILY_GLM4_MOE_BIASES,              \
      "model.layers.%zu.self_attn.q_norm.weight D", "model.layers.%zu.self_attn.k_norm.weight D",  \
      FAMILY_DEEPSEEK_DENSE, FAMILY_DEEPSEEK_SHARED, FAMILY_GLM4_MOE_EXPERTS}},                    \
    {"glm4_moe_air",                                                                               \
     "\"model_type\":\"glm4_moe\",\"architectures\":[\"Glm4MoeForCausalLM\"],"                     \
     "\"hidden_act\":\"silu\",\"use_qk_norm\":false,\"first_k_dense_replace\":0,"                  \
     "\"n_routed_experts\":6,\"num_experts_per_tok\":1,\"moe_intermediate_size\":64,"              \
     "\"n_shared_experts\":1,\"norm_topk_prob\":false," FAMILY_LLAMA_SIZES,                        \
     {64, 64, 32, 0, FAMILY_VOCAB, 256, 16, 0, 0, 1, 64, 6, 0, 0, 0, 0, 0, 0, 64},                 \
     3,                                                                                            \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_LLAMA_ATTENTION, FAMILY_DEEPSEEK_SHARED,              \
      FAMILY_GLM4_MOE_EXPERTS}}
// clang-format on

#endif
