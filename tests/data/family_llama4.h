/* tests/data/family_llama4.h - the small Llama 4 models of family_table.h: a text model with chunks
 * shorter than the test's text and all blocks with experts but the second, and a model of texts and
 * images without norms of q and k whose blocks have experts in turns. */
#ifndef PARE_TESTS_FAMILY_LLAMA4_H
#define PARE_TESTS_FAMILY_LLAMA4_H

// clang-format off
#define FAMILY_LLAMA4_SIZES                                                                        \
    "\"intermediate_size_mlp\":112,\"head_dim\":16,\"hidden_act\":\"silu\",\"floor_scale\":8,"     \
    "\"attn_scale\":0.3," FAMILY_LLAMA_SIZES
#define FAMILY_LLAMA4_DENSE(block)                                                                 \
    block "feed_forward.gate_proj.weight MH", block "feed_forward.up_proj.weight MH",              \
        block "feed_forward.down_proj.weight HM"
#define FAMILY_LLAMA4_EXPERTS(block)                                                               \
    block "feed_forward.router.weight EH", block "feed_forward.experts.gate_up_proj EHG",          \
        block "feed_forward.experts.down_proj EXH",                                                \
        block "feed_forward.shared_expert.gate_proj.weight XH",                                    \
        block "feed_forward.shared_expert.up_proj.weight XH",                                      \
        block "feed_forward.shared_expert.down_proj.weight HX"

#define FAMILY_LLAMA4                                                                              \
    {"llama4_text",                                                                                \
     "\"model_type\":\"llama4_text\",\"architectures\":[\"Llama4ForCausalLM\"],"                   \
     "\"num_local_experts\":6,\"num_experts_per_tok\":1,\"moe_layers\":[0,2],"                     \
     "\"attention_chunk_size\":12,\"no_rope_layers\":[1,0,1],\"attention_bias\":true,"             \
     "\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"          \
     "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"                                           \
     "\"original_max_position_embeddings\":64}," FAMILY_LLAMA4_SIZES,                              \
     {64, 64, 32, 112, FAMILY_VOCAB, 256, 16, 0, 192, 1, 96, 6},                                   \
     3,                                                                                            \
     0,                                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_HEAD,                                      \
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",      \
      "model.layers.%zu.self_attn.v_proj.bias K", "model.layers.%zu.self_attn.o_proj.bias H",      \
      FAMILY_LLAMA4_EXPERTS("model.layers.0."), FAMILY_LLAMA4_DENSE("model.layers.1."),            \
      FAMILY_LLAMA4_EXPERTS("model.layers.2.")}},                                                  \
    {"llama4",                                                                                     \
     "\"model_type\":\"llama4\",\"architectures\":[\"Llama4ForConditionalGeneration\"],"           \
     "\"vision_config\":{\"model_type\":\"llama4_vision_model\",\"hidden_size\":32,"               \
     "\"intermediate_size\":128,\"num_hidden_layers\":1,\"num_attention_heads\":2,"                \
     "\"image_size\":8,\"patch_size\":4,\"projector_input_dim\":32,\"projector_output_dim\":32,"   \
     "\"vision_output_dim\":32},"                                                                  \
     "\"text_config\":{\"model_type\":\"llama4_text\",\"num_local_experts\":4,"                    \
     "\"num_experts_per_tok\":2,\"interleave_moe_layer_step\":2,\"no_rope_layer_interval\":3,"     \
     "\"attention_chunk_size\":7,\"use_qk_norm\":false," FAMILY_LLAMA4_SIZES "}",                  \
     {64, 64, 32, 112, FAMILY_VOCAB, 256, 16, 0, 192, 1, 96, 4},                                   \
     3,                                                                                            \
     0,                                                                                            \
     {"language_model.model.embed_tokens.weight VH", "language_model.model.norm.weight H",         \
      "language_model.lm_head.weight VH",                                                          \
      "language_model.model.layers.%zu.input_layernorm.weight H",                                  \
      "language_model.model.layers.%zu.post_attention_layernorm.weight H",                         \
      "language_model.model.layers.%zu.self_attn.q_proj.weight QH",                                \
      "language_model.model.layers.%zu.self_attn.k_proj.weight KH",                                \
      "language_model.model.layers.%zu.self_attn.v_proj.weight KH",                                \
      "language_model.model.layers.%zu.self_attn.o_proj.weight HQ",                                \
      FAMILY_LLAMA4_DENSE("language_model.model.layers.0."),                                       \
      FAMILY_LLAMA4_EXPERTS("language_model.model.layers.1."),                                     \
      FAMILY_LLAMA4_DENSE("language_model.model.layers.2."),                                       \
      "multi_modal_projector.linear_1.weight HH", "vision_model.layernorm_pre.weight H"}}
// clang-format on

#endif
