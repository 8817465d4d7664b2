/* tests/data/family_mixtures.h - the small mixtures of experts of family_table.h that are llama
 * otherwise. */
#ifndef PARE_TESTS_FAMILY_MIXTURES_H
#define PARE_TESTS_FAMILY_MIXTURES_H

// clang-format off
#define FAMILY_EXPERTS_MLP                                                                         \
    "model.layers.%zu.mlp.gate.weight EH", "model.layers.%zu.mlp.experts.%zu.gate_proj.weight XH", \
        "model.layers.%zu.mlp.experts.%zu.up_proj.weight XH",                                      \
        "model.layers.%zu.mlp.experts.%zu.down_proj.weight HX"

#define FAMILY_MIXTURES                                                                            \
    {"mixtral",                                                                                    \
     "\"model_type\":\"mixtral\",\"architectures\":[\"MixtralForCausalLM\"],"                      \
     "\"hidden_act\":\"silu\",\"sliding_window\":9,\"num_local_experts\":6,"                       \
     "\"num_experts_per_tok\":2," FAMILY_LLAMA_SIZES,                                              \
     {64, 64, 32, 0, FAMILY_VOCAB, 256, 16, 0, 0, 1, 96, 6},                                       \
     3,                                                                                            \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_HEAD,                                      \
      "model.layers.%zu.block_sparse_moe.gate.weight EH",                                          \
      "model.layers.%zu.block_sparse_moe.experts.%zu.w1.weight XH",                                \
      "model.layers.%zu.block_sparse_moe.experts.%zu.w2.weight HX",                                \
      "model.layers.%zu.block_sparse_moe.experts.%zu.w3.weight XH"}},                              \
    {"qwen2_moe",                                                                                  \
     "\"model_type\":\"qwen2_moe\",\"architectures\":[\"Qwen2MoeForCausalLM\"],"                   \
     "\"hidden_act\":\"silu\",\"num_experts\":8,\"num_experts_per_tok\":4,"                        \
     "\"moe_intermediate_size\":32,\"shared_expert_intermediate_size\":64,"                        \
     "\"norm_topk_prob\":false,\"mlp_only_layers\":[],\"decoder_sparse_step\":1,"                  \
     "\"sliding_window\":7,\"use_sliding_window\":false,\"rope_theta\":1000000."                   \
     "0," FAMILY_LLAMA_SIZES,                                                                      \
     {64, 64, 32, 64, FAMILY_VOCAB, 256, 16, 0, 0, 1, 32, 8},                                      \
     3,                                                                                            \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_HEAD, FAMILY_EXPERTS_MLP,                  \
      "model.layers.%zu.mlp.shared_expert.gate_proj.weight MH",                                    \
      "model.layers.%zu.mlp.shared_expert.up_proj.weight MH",                                      \
      "model.layers.%zu.mlp.shared_expert.down_proj.weight HM",                                    \
      "model.layers.%zu.mlp.shared_expert_gate.weight 1H",                                         \
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",      \
      "model.layers.%zu.self_attn.v_proj.bias K"}},                                                \
    {"qwen3_moe",                                                                                  \
     "\"model_type\":\"qwen3_moe\",\"architectures\":[\"Qwen3MoeForCausalLM\"],"                   \
     "\"hidden_act\":\"silu\",\"head_dim\":32,\"num_experts\":8,\"num_experts_per_tok\":2,"        \
     "\"moe_intermediate_size\":64,\"norm_topk_prob\":true,\"attention_bias\":false,"              \
     "\"rope_theta\":1000000.0," FAMILY_LLAMA_SIZES,                                               \
     {64, 128, 64, 0, FAMILY_VOCAB, 256, 32, 0, 0, 1, 64, 8},                                      \
     3,                                                                                            \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_HEAD, FAMILY_EXPERTS_MLP,                  \
      "model.layers.%zu.self_attn.q_norm.weight D", "model.layers.%zu.self_attn.k_norm.weight D"}}
// clang-format on

#endif
