/* tests/data/family_qwen3_5.h - Qwen 3.5 in the table of family_table.h: a text model with
 * attention in block 1 of 3, and the text part of a model of texts and images, with attention in
 * its last block, beside tensors of other parts. */
#ifndef PARE_TESTS_FAMILY_QWEN3_5_H
#define PARE_TESTS_FAMILY_QWEN3_5_H

// clang-format off
/* What mixes the tokens of one block. */
#define FAMILY_QWEN3_NEXT_STATE(block)                                                             \
    block "linear_attn.in_proj_qkvz.weight BH", block "linear_attn.in_proj_ba.weight TH",          \
        FAMILY_QWEN3_5_STATE_REST(block)
#define FAMILY_QWEN3_5_STATE(block)                                                                \
    block "linear_attn.in_proj_qkv.weight AH", block "linear_attn.in_proj_z.weight WH",            \
        block "linear_attn.in_proj_b.weight NH", block "linear_attn.in_proj_a.weight NH",          \
        FAMILY_QWEN3_5_STATE_REST(block)
#define FAMILY_QWEN3_5_STATE_REST(block)                                                           \
    block "linear_attn.conv1d.weight A1C", block "linear_attn.A_log N",                            \
        block "linear_attn.dt_bias N", block "linear_attn.norm.weight U",                          \
        block "linear_attn.out_proj.weight HW"
#define FAMILY_QWEN3_5_ATTENTION(block)                                                            \
    block "self_attn.q_proj.weight GH", block "self_attn.k_proj.weight KH",                        \
        block "self_attn.v_proj.weight KH", block "self_attn.o_proj.weight HQ",                    \
        block "self_attn.q_norm.weight D", block "self_attn.k_norm.weight D"

#define FAMILY_QWEN3_5_SIZES                                                                       \
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_dim\":12,"          \
    "\"linear_value_head_dim\":20,\"linear_conv_kernel_dim\":4,\"head_dim\":16"

/* The expert that all tokens run, and its gate. */
#define FAMILY_QWEN3_5_SHARED(prefix)                                                              \
    prefix "layers.%zu.mlp.gate.weight EH", prefix "layers.%zu.mlp.shared_expert_gate.weight 1H",  \
        prefix "layers.%zu.mlp.shared_expert.gate_proj.weight MH",                                 \
        prefix "layers.%zu.mlp.shared_expert.up_proj.weight MH",                                   \
        prefix "layers.%zu.mlp.shared_expert.down_proj.weight HM"

#define FAMILY_QWEN3_5_MIXTURES                                                                    \
    {"qwen3_5_moe",                                                                                \
     "\"model_type\":\"qwen3_5_moe\",\"architectures\":[\"Qwen3_5MoeForConditionalGeneration\"],"  \
     "\"vision_config\":{\"model_type\":\"qwen3_5_moe\",\"hidden_size\":32,"                       \
     "\"intermediate_size\":32,\"depth\":1,\"num_heads\":2,\"out_hidden_size\":64},"               \
     "\"text_config\":{\"model_type\":\"qwen3_5_moe_text\",\"mtp_num_hidden_layers\":1,"           \
     "\"num_experts\":6,\"num_experts_per_tok\":3,\"moe_intermediate_size\":64,"                   \
     "\"shared_expert_intermediate_size\":96,\"full_attention_interval\":2,"                       \
     "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,"                     \
     "\"partial_rotary_factor\":0.25,\"mrope_interleaved\":true,\"mrope_section\":[1,1,0]},"       \
     FAMILY_QWEN3_5_SIZES "," FAMILY_LLAMA_SIZES "}",                                              \
     {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 128, 1, 64, 6, 4, 0, 0, 0, 0, 80, 0, 20, 4},     \
     3,                                                                                            \
     FAMILY_ZERO_NORMS,                                                                            \
     {"model.language_model.embed_tokens.weight VH", "model.language_model.norm.weight H",         \
      "lm_head.weight VH", "model.language_model.layers.%zu.input_layernorm.weight H",             \
      "model.language_model.layers.%zu.post_attention_layernorm.weight H",                         \
      FAMILY_QWEN3_5_SHARED("model.language_model."),                                              \
      "model.language_model.layers.%zu.mlp.experts.gate_up_proj EGH",                              \
      "model.language_model.layers.%zu.mlp.experts.down_proj EHX",                                 \
      FAMILY_QWEN3_5_STATE("model.language_model.layers.0."),                                      \
      FAMILY_QWEN3_5_ATTENTION("model.language_model.layers.1."),                                  \
      FAMILY_QWEN3_5_STATE("model.language_model.layers.2."),                                      \
      "model.visual.merger.norm.weight U", "mtp.norm.weight H",                                    \
      "mtp.layers.0.mlp.experts.gate_up_proj EGH"}},                                               \
    {"qwen3_next",                                                                                 \
     "\"model_type\":\"qwen3_next\",\"architectures\":[\"Qwen3NextForCausalLM\"],"                 \
     "\"hidden_act\":\"silu\",\"num_experts\":6,\"num_experts_per_tok\":3,"                        \
     "\"moe_intermediate_size\":48,\"shared_expert_intermediate_size\":96,"                        \
     "\"norm_topk_prob\":false,\"mlp_only_layers\":[],\"decoder_sparse_step\":1,"                  \
     "\"full_attention_interval\":3,\"partial_rotary_factor\":0.5,\"rope_theta\":10000000,"        \
     FAMILY_QWEN3_5_SIZES "," FAMILY_LLAMA_SIZES,                                                  \
     {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 128, 1, 48, 6, 4, 0, 0, 8, 208, 80, 0, 20, 4},   \
     3,                                                                                            \
     FAMILY_ZERO_NORMS,                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_QWEN3_5_SHARED("model."),                             \
      "model.layers.%zu.mlp.experts.%zu.gate_proj.weight XH",                                      \
      "model.layers.%zu.mlp.experts.%zu.up_proj.weight XH",                                        \
      "model.layers.%zu.mlp.experts.%zu.down_proj.weight HX",                                      \
      FAMILY_QWEN3_NEXT_STATE("model.layers.0."), FAMILY_QWEN3_NEXT_STATE("model.layers.1."),      \
      FAMILY_QWEN3_5_ATTENTION("model.layers.2."), "mtp.norm.weight H"}}

#define FAMILY_QWEN3_5                                                                             \
    {"qwen3_5_text",                                                                               \
     "\"model_type\":\"qwen3_5_text\",\"architectures\":[\"Qwen3_5ForCausalLM\"],"                 \
     "\"hidden_act\":\"silu\",\"attention_bias\":true,"                                            \
     "\"layer_types\":[\"linear_attention\",\"full_attention\",\"linear_attention\"],"             \
     "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5000.0,"                       \
     "\"partial_rotary_factor\":0.5}," FAMILY_QWEN3_5_SIZES "," FAMILY_LLAMA_SIZES,                \
     {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 128, 1, 0, 0, 4, 0, 0, 0, 0, 80, 0, 20, 4},      \
     3,                                                                                            \
     FAMILY_ZERO_NORMS,                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_MLP, FAMILY_HEAD,                                            \
      FAMILY_QWEN3_5_STATE("model.layers.0."), FAMILY_QWEN3_5_STATE("model.layers.2."),            \
      FAMILY_QWEN3_5_ATTENTION("model.layers.1."), "model.layers.1.self_attn.q_proj.bias G",       \
      "model.layers.1.self_attn.k_proj.bias K", "model.layers.1.self_attn.v_proj.bias K",          \
      "model.layers.1.self_attn.o_proj.bias H"}},                                                  \
    {"qwen3_5",                                                                                    \
     "\"model_type\":\"qwen3_5\",\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],"         \
     "\"vision_config\":{\"model_type\":\"qwen3_5\",\"hidden_size\":32,\"intermediate_size\":32,"  \
     "\"depth\":1,\"num_heads\":2,\"out_hidden_size\":64},\"tie_word_embeddings\":true,"           \
     "\"text_config\":{\"model_type\":\"qwen3_5_text\",\"tie_word_embeddings\":true,"              \
     "\"mtp_num_hidden_layers\":1,"                                                                \
     "\"attn_output_gate\":true,\"rope_parameters\":{\"rope_type\":\"default\","                   \
     "\"rope_theta\":10000000,\"partial_rotary_factor\":0.25,\"mrope_interleaved\":true,"          \
     "\"mrope_section\":[1,1,0]},\"full_attention_interval\":3," FAMILY_QWEN3_5_SIZES ","          \
     FAMILY_LLAMA_SIZES "}",                                                                       \
     {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 128, 1, 0, 0, 4, 0, 0, 0, 0, 80, 0, 20, 4},      \
     3,                                                                                            \
     FAMILY_ZERO_NORMS,                                                                            \
     {"model.language_model.embed_tokens.weight VH", "model.language_model.norm.weight H",         \
      "model.language_model.layers.%zu.input_layernorm.weight H",                                  \
      "model.language_model.layers.%zu.post_attention_layernorm.weight H",                         \
      "model.language_model.layers.%zu.mlp.gate_proj.weight MH",                                   \
      "model.language_model.layers.%zu.mlp.up_proj.weight MH",                                     \
      "model.language_model.layers.%zu.mlp.down_proj.weight HM",                                   \
      FAMILY_QWEN3_5_STATE("model.language_model.layers.0."),                                      \
      FAMILY_QWEN3_5_STATE("model.language_model.layers.1."),                                      \
      FAMILY_QWEN3_5_ATTENTION("model.language_model.layers.2."),                                  \
      "model.visual.merger.norm.weight U", "mtp.norm.weight H",                                    \
      "mtp.layers.0.input_layernorm.weight H"}},                                                   \
    FAMILY_QWEN3_5_MIXTURES
// clang-format on

#endif
