/* tests/data/family_dense.h - families beside llama in the table of family_table.h. */
#ifndef PARE_TESTS_FAMILY_DENSE_H
#define PARE_TESTS_FAMILY_DENSE_H

/* Block 3 of 5 has no positions. */
#define FAMILY_SMOLLM3                                                                             \
    {                                                                                              \
        "smollm3",                                                                                 \
            "\"model_type\":\"smollm3\",\"architectures\":[\"SmolLM3ForCausalLM\"],"               \
            "\"hidden_act\":\"silu\",\"rope_theta\":5000.0,\"hidden_size\":64,"                    \
            "\"intermediate_size\":96,\"num_hidden_layers\":5,\"num_attention_heads\":4,"          \
            "\"num_key_value_heads\":2,\"max_position_embeddings\":256,\"pad_token_id\":0,"        \
            "\"rms_norm_eps\":1e-05" FAMILY_TOKENS,                                                \
            {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 192}, 5, 0,                               \
        {                                                                                          \
            FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP                            \
        }                                                                                          \
    }

#define FAMILY_OLMO_TENSORS                                                                        \
    "model.embed_tokens.weight VH", "model.norm.weight H", FAMILY_HEAD,                            \
        "model.layers.%zu.post_attention_layernorm.weight H",                                      \
        "model.layers.%zu.post_feedforward_layernorm.weight H",                                    \
        "model.layers.%zu.self_attn.q_norm.weight Q",                                              \
        "model.layers.%zu.self_attn.k_norm.weight K", FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP

#define FAMILY_OLMO2                                                                               \
    {                                                                                              \
        "olmo2",                                                                                   \
            "\"model_type\":\"olmo2\",\"architectures\":[\"Olmo2ForCausalLM\"],"                   \
            "\"hidden_act\":\"silu\",\"rope_theta\":5000.0,\"pad_token_id\":"                      \
            "0," FAMILY_LLAMA_SIZES,                                                               \
            FAMILY_LLAMA_NUMBERS, 0,                                                               \
        {                                                                                          \
            FAMILY_OLMO_TENSORS                                                                    \
        }                                                                                          \
    }

/* Block 3 of 5 has no window, and scaled positions. */
#define FAMILY_OLMO3                                                                               \
    {                                                                                              \
        "olmo3",                                                                                   \
            "\"model_type\":\"olmo3\",\"architectures\":[\"Olmo3ForCausalLM\"],"                   \
            "\"hidden_act\":\"silu\",\"rope_theta\":500000,\"hidden_size\":64,"                    \
            "\"intermediate_size\":96,\"num_hidden_layers\":5,\"num_attention_heads\":4,"          \
            "\"num_key_value_heads\":2,\"max_position_embeddings\":256,\"pad_token_id\":0,"        \
            "\"sliding_window\":9,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0,"        \
            "\"attention_factor\":1.2079441541679836,\"beta_fast\":32.0,\"beta_slow\":1.0,"        \
            "\"original_max_position_embeddings\":32},"                                            \
            "\"rms_norm_eps\":1e-05" FAMILY_TOKENS,                                                \
            {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 192}, 5, 0,                               \
        {                                                                                          \
            FAMILY_OLMO_TENSORS                                                                    \
        }                                                                                          \
    }

#define FAMILY_GLM4                                                                                \
    {                                                                                              \
        "glm4",                                                                                    \
            "\"model_type\":\"glm4\",\"architectures\":[\"Glm4ForCausalLM\"],"                     \
            "\"hidden_act\":\"silu\",\"rope_theta\":5000.0,\"head_dim\":24,"                       \
            "\"partial_rotary_factor\":0.5,\"attention_bias\":true,\"pad_token_id\":"              \
            "0," FAMILY_LLAMA_SIZES,                                                               \
            {64, 96, 48, 96, FAMILY_VOCAB, 256, 24, 0, 192}, 3, 0,                                 \
        {                                                                                          \
            FAMILY_LLAMA_REST, FAMILY_HEAD, FAMILY_LLAMA_ATTENTION,                                \
                "model.layers.%zu.self_attn.q_proj.bias Q",                                        \
                "model.layers.%zu.self_attn.k_proj.bias K",                                        \
                "model.layers.%zu.self_attn.v_proj.bias K",                                        \
                "model.layers.%zu.post_self_attn_layernorm.weight H",                              \
                "model.layers.%zu.post_mlp_layernorm.weight H",                                    \
                "model.layers.%zu.mlp.gate_up_proj.weight GH",                                     \
                "model.layers.%zu.mlp.down_proj.weight HM"                                         \
        }                                                                                          \
    }

#define FAMILY_GRANITE                                                                             \
    {                                                                                              \
        "granite",                                                                                 \
            "\"model_type\":\"granite\",\"architectures\":[\"GraniteForCausalLM\"],"               \
            "\"hidden_act\":\"silu\",\"rope_theta\":5000.0,\"pad_token_id\":0,"                    \
            "\"embedding_multiplier\":1.5,\"attention_multiplier\":0.125,"                         \
            "\"residual_multiplier\":0.7,\"logits_scaling\":1.5,\"tie_word_embeddings\":"          \
            "true," FAMILY_LLAMA_SIZES,                                                            \
            FAMILY_LLAMA_NUMBERS, 0,                                                               \
        {                                                                                          \
            FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP                            \
        }                                                                                          \
    }

#endif
