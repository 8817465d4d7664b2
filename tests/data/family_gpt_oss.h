/* tests/data/family_gpt_oss.h - the small gpt-oss of family_table.h: all experts of a block in one
 * tensor, positions scaled, a window in blocks 0 and 2. */
#ifndef PARE_TESTS_FAMILY_GPT_OSS_H
#define PARE_TESTS_FAMILY_GPT_OSS_H

// clang-format off
#define FAMILY_GPT_OSS                                                                             \
    {"gpt_oss",                                                                                    \
     "\"model_type\":\"gpt_oss\",\"architectures\":[\"GptOssForCausalLM\"],"                       \
     "\"hidden_act\":\"silu\",\"head_dim\":16,\"sliding_window\":9,\"num_local_experts\":6,"       \
     "\"num_experts_per_tok\":2,\"swiglu_limit\":7.0,\"rope_theta\":150000,"                       \
     "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0,\"beta_fast\":32.0,"                 \
     "\"beta_slow\":1.0,\"truncate\":false,\"original_max_position_embeddings\":64},"              \
     FAMILY_LLAMA_SIZES,                                                                           \
     {64, 64, 32, 0, FAMILY_VOCAB, 256, 16, 0, 192, 1, 96, 6, 4},                                  \
     3,                                                                                            \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_HEAD,                                      \
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",      \
      "model.layers.%zu.self_attn.v_proj.bias K", "model.layers.%zu.self_attn.o_proj.bias H",      \
      "model.layers.%zu.self_attn.sinks N", "model.layers.%zu.mlp.router.weight EH",               \
      "model.layers.%zu.mlp.router.bias E", "model.layers.%zu.mlp.experts.gate_up_proj EHG",       \
      "model.layers.%zu.mlp.experts.gate_up_proj_bias EG",                                         \
      "model.layers.%zu.mlp.experts.down_proj EXH",                                                \
      "model.layers.%zu.mlp.experts.down_proj_bias EH"}}
// clang-format on

#endif
