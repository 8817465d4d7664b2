/* tests/data/scaled_table.h - small models of families.h whose positions are scaled. */
#ifndef PARE_TESTS_SCALED_TABLE_H
#define PARE_TESTS_SCALED_TABLE_H

#include "tests/data/family_table.h"

/* Families with scaled positions, most of them beyond the context that they were trained on first:
 * for what looks at positions alone. */
#define FAMILY_YARN                                                                                \
    "\"factor\":16,\"original_max_position_embeddings\":16,\"beta_fast\":0.5,"                     \
    "\"beta_slow\":0.05"
#define FAMILY_LLAMA_TENSORS                                                                       \
    {                                                                                              \
        FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP, FAMILY_HEAD                   \
    }
#define FAMILY_PHI3_TENSORS                                                                        \
    {                                                                                              \
        FAMILY_LLAMA_REST, "model.layers.%zu.self_attn.qkv_proj.weight AH",                        \
            "model.layers.%zu.self_attn.o_proj.weight HQ",                                         \
            "model.layers.%zu.mlp.gate_up_proj.weight GH",                                         \
            "model.layers.%zu.mlp.down_proj.weight HM", FAMILY_HEAD                                \
    }

static const family scaled_families[] = {
    {"llama_yarn",
     "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\","
     "\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":5000.0," FAMILY_YARN
     "}," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS, 0, FAMILY_LLAMA_TENSORS},
    {"qwen2_yarn",
     "\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_act\":\"silu\","
     "\"rope_theta\":5000.0,\"rope_scaling\":{\"type\":\"yarn\",\"truncate\":false,"
     "\"mscale\":1.5,\"mscale_all_dim\":0.5," FAMILY_YARN "}," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS,
     0,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP, FAMILY_HEAD,
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",
      "model.layers.%zu.self_attn.v_proj.bias K"}},
    {"neox_yarn",
     "\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],"
     "\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":5000,\"attention_factor\":1.25,"
     "\"partial_rotary_factor\":0.5," FAMILY_YARN "},\"use_parallel_residual\":false,"
     "\"attention_bias\":false," FAMILY_NEOX_SIZES,
     FAMILY_NEOX_NUMBERS,
     0,
     {FAMILY_NEOX_TENSORS}},
    {"llama_dynamic",
     "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\","
     "\"rope_theta\":5000.0,\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":3.0}"
     "," FAMILY_LLAMA_SIZES_OF("24"),
     FAMILY_LLAMA_NUMBERS, 0, FAMILY_LLAMA_TENSORS},
    {"llama_longrope",
     "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\","
     "\"rope_parameters\":{\"rope_type\":\"longrope\",\"rope_theta\":5000.0,\"factor\":8,"
     "\"original_max_position_embeddings\":16,\"short_factor\":[1,1.1,1.2,1.3,1.4,1.5,1.6,1.7],"
     "\"long_factor\":[1,1.5,2.1,3,4.5,6.7,8,9]}," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS, 0, FAMILY_LLAMA_TENSORS},
    {"phi3_longrope",
     "\"model_type\":\"phi3\",\"architectures\":[\"Phi3ForCausalLM\"],\"hidden_act\":\"silu\","
     "\"sliding_window\":13,\"partial_rotary_factor\":0.75,\"pad_token_id\":0,"
     "\"original_max_position_embeddings\":16,\"rope_scaling\":{\"type\":\"longrope\","
     "\"short_factor\":[1,1.1,1.2,1.3,1.4,1.5],\"long_factor\":[1,1.5,2.1,3,4.5,6.7]}"
     "," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS, 0, FAMILY_PHI3_TENSORS},
    {"phi3_short",
     "\"model_type\":\"phi3\",\"architectures\":[\"Phi3ForCausalLM\"],\"hidden_act\":\"silu\","
     "\"partial_rotary_factor\":0.75,\"pad_token_id\":0,"
     "\"original_max_position_embeddings\":40,\"rope_parameters\":{\"rope_type\":\"longrope\","
     "\"attention_factor\":1.3,\"short_factor\":[1,1.1,1.2,1.3,1.4,1.5],"
     "\"long_factor\":[1,1.5,2.1,3,4.5,6.7]}," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS, 0, FAMILY_PHI3_TENSORS},
};
enum { SCALED_FAMILIES = sizeof scaled_families / sizeof *scaled_families };

#endif
