/* tests/data/family_gemma3.h - Gemma 3 in the table of family_table.h: a text model, and the text
 * part of a model of texts and images with a tensor of the other part. */
#ifndef PARE_TESTS_FAMILY_GEMMA3_H
#define PARE_TESTS_FAMILY_GEMMA3_H

#define FAMILY_GEMMA3_NORMS(prefix)                                                                \
    prefix "layers.%zu.pre_feedforward_layernorm.weight H",                                        \
        prefix "layers.%zu.post_feedforward_layernorm.weight H",                                   \
        prefix "layers.%zu.self_attn.q_norm.weight D",                                             \
        prefix "layers.%zu.self_attn.k_norm.weight D"
#define FAMILY_TEXT(name) "language_model.model." name

#define FAMILY_GEMMA3                                                                              \
    {"gemma3_text",                                                                                \
     "\"model_type\":\"gemma3_text\",\"architectures\":[\"Gemma3ForCausalLM\"],"                   \
     "\"hidden_activation\":\"gelu_pytorch_tanh\",\"head_dim\":24,\"query_pre_attn_scalar\":10,"   \
     "\"final_logit_softcapping\":1.5,\"sliding_window\":9,\"sliding_window_pattern\":2,"          \
     "\"rope_theta\":5000.0,\"rope_local_base_freq\":100.0,"                                       \
     "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.5}," FAMILY_LLAMA_SIZES,             \
     {64, 96, 48, 96, FAMILY_VOCAB, 256, 24, 128, 192},                                            \
     3,                                                                                            \
     FAMILY_ZERO_NORMS,                                                                            \
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP,                                 \
      FAMILY_GEMMA3_NORMS("model.")}},                                                             \
    {                                                                                              \
        "gemma3",                                                                                  \
            "\"model_type\":\"gemma3\",\"architectures\":[\"Gemma3ForConditionalGeneration\"],"    \
            "\"vision_config\":{\"model_type\":\"siglip_vision_model\",\"hidden_size\":32,"        \
            "\"intermediate_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":2,"          \
            "\"image_size\":28,\"patch_size\":14},\"mm_tokens_per_image\":4,\"torch_dtype\":"      \
            "\"float16\","                                                                         \
            "\"bos_token_id\":1,\"eos_token_id\":[2,3],"                                           \
            "\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":64,"                  \
            "\"intermediate_size\":96,\"num_hidden_layers\":3,\"vocab_size\":128,\"head_dim\":16," \
            "\"max_position_embeddings\":256,\"attention_bias\":true,\"sliding_window\":7,"        \
            "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\"],"    \
            "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":"   \
            "30000.0},"                                                                            \
            "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":200.0}}}",            \
            {64, 128, 64, 96, FAMILY_VOCAB, 256, 16, 32, 192}, 3, FAMILY_ZERO_NORMS,               \
        {                                                                                          \
            FAMILY_TEXT("embed_tokens.weight VH"), FAMILY_TEXT("norm.weight H"),                   \
                FAMILY_TEXT("layers.%zu.input_layernorm.weight H"),                                \
                FAMILY_TEXT("layers.%zu.post_attention_layernorm.weight H"),                       \
                FAMILY_TEXT("layers.%zu.self_attn.q_proj.weight QH"),                              \
                FAMILY_TEXT("layers.%zu.self_attn.k_proj.weight KH"),                              \
                FAMILY_TEXT("layers.%zu.self_attn.v_proj.weight KH"),                              \
                FAMILY_TEXT("layers.%zu.self_attn.o_proj.weight HQ"),                              \
                FAMILY_TEXT("layers.%zu.self_attn.q_proj.bias Q"),                                 \
                FAMILY_TEXT("layers.%zu.self_attn.k_proj.bias K"),                                 \
                FAMILY_TEXT("layers.%zu.self_attn.v_proj.bias K"),                                 \
                FAMILY_TEXT("layers.%zu.self_attn.o_proj.bias H"),                                 \
                FAMILY_TEXT("layers.%zu.mlp.gate_proj.weight MH"),                                 \
                FAMILY_TEXT("layers.%zu.mlp.up_proj.weight MH"),                                   \
                FAMILY_TEXT("layers.%zu.mlp.down_proj.weight HM"),                                 \
                FAMILY_GEMMA3_NORMS("language_model.model."),                                      \
                "vision_tower.vision_model.post_layernorm.weight A"                                \
        }                                                                                          \
    }

#endif
