/* tests/data/family_table.h - configuration and tensors of the small models of families.h. */
#ifndef PARE_TESTS_FAMILY_TABLE_H
#define PARE_TESTS_FAMILY_TABLE_H

#include <stddef.h>

#include "tests/data/family_deepseek.h"
#include "tests/data/family_dense.h"
#include "tests/data/family_gemma3.h"
#include "tests/data/family_glm4_moe.h"
#include "tests/data/family_gpt_oss.h"
#include "tests/data/family_llama4.h"
#include "tests/data/family_mixtures.h"
#include "tests/data/family_qwen3_5.h"

/* Tensors are "NAME SHAPE", %zu in a name standing for every block, a second one for every expert;
 * a shape is one to three letters: H hidden, Q query width, K key width, M inner width, V
 * vocabulary, P positions, D a head, A all of q, k and v, G gate and up, 1 one number, X inner
 * width of an expert, E experts, N heads; of latent attention R and L the vectors of q and of k and
 * v, T L and the channels that turn, B keys and values, W values, S all shared experts; of a state
 * U a value head, C taps. A star behind it: ternary codes, four rows in one. */
enum {
    FAMILY_ZERO_NORMS = 1, /* norms lie around zero */
    FAMILY_FLOATS = 2,     /* all tensors in F32 instead of F16 */
    FAMILY_DENSE = 4       /* block 0 has no experts */
};

typedef struct family {
    const char *name;
    const char *config; /* behind the sizes */
    size_t size[21];    /* in the order of family_letters */
    size_t blocks;
    unsigned how; /* FAMILY_* bits */
    const char *tensor[40];
} family;

static const char family_letters[] = "HQKMVPDAG1XENRLTBWSUC";
enum { FAMILY_EXPERTS = 11 };
#define FAMILY_VOCAB 128
#define FAMILY_TOKENS                                                                              \
    ",\"vocab_size\":128,\"bos_token_id\":1,\"eos_token_id\":2,\"torch_dtype\":\"float16\""

#define FAMILY_LLAMA_SIZES FAMILY_LLAMA_SIZES_OF("256")
#define FAMILY_LLAMA_SIZES_OF(context)                                                             \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":3,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":" context     \
    ",\"rms_norm_eps\":1e-05" FAMILY_TOKENS
#define FAMILY_LLAMA_NUMBERS {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 192}, 3

#define FAMILY_LLAMA_MLP                                                                           \
    "model.layers.%zu.mlp.gate_proj.weight MH", "model.layers.%zu.mlp.up_proj.weight MH",          \
        "model.layers.%zu.mlp.down_proj.weight HM"
#define FAMILY_LLAMA_ATTENTION                                                                     \
    "model.layers.%zu.self_attn.q_proj.weight QH", "model.layers.%zu.self_attn.k_proj.weight KH",  \
        "model.layers.%zu.self_attn.v_proj.weight KH",                                             \
        "model.layers.%zu.self_attn.o_proj.weight HQ"
#define FAMILY_LLAMA_REST                                                                          \
    "model.embed_tokens.weight VH", "model.norm.weight H",                                         \
        "model.layers.%zu.input_layernorm.weight H",                                               \
        "model.layers.%zu.post_attention_layernorm.weight H"
#define FAMILY_HEAD "lm_head.weight VH"

#define FAMILY_NEOX_SIZES                                                                          \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"                         \
    "\"num_attention_heads\":4,\"max_position_embeddings\":256,\"layer_norm_eps\":1e-05,"          \
    "\"hidden_act\":\"gelu\"" FAMILY_TOKENS
#define FAMILY_NEOX_NUMBERS {64, 64, 64, 96, FAMILY_VOCAB, 256, 16, 192, 0}, 2
#define FAMILY_NEOX_TENSORS                                                                        \
    "gpt_neox.embed_in.weight VH", "gpt_neox.final_layer_norm.weight H",                           \
        "gpt_neox.final_layer_norm.bias H", "embed_out.weight VH",                                 \
        "gpt_neox.layers.%zu.input_layernorm.weight H",                                            \
        "gpt_neox.layers.%zu.input_layernorm.bias H",                                              \
        "gpt_neox.layers.%zu.post_attention_layernorm.weight H",                                   \
        "gpt_neox.layers.%zu.post_attention_layernorm.bias H",                                     \
        "gpt_neox.layers.%zu.attention.query_key_value.weight AH",                                 \
        "gpt_neox.layers.%zu.attention.dense.weight HH",                                           \
        "gpt_neox.layers.%zu.mlp.dense_h_to_4h.weight MH",                                         \
        "gpt_neox.layers.%zu.mlp.dense_h_to_4h.bias M",                                            \
        "gpt_neox.layers.%zu.mlp.dense_4h_to_h.weight HM",                                         \
        "gpt_neox.layers.%zu.mlp.dense_4h_to_h.bias H"

/* Rounded inputs magnify the last bits where they lie close to a tie: these names, which the random
 * numbers follow from, keep away from ties. */
#define FAMILY_BITNET_NORMS                                                                        \
    "model.layers.%zu.self_attn.attn_sub_norm.weight Q",                                           \
        "model.layers.%zu.mlp.ffn_sub_norm.weight M"
#define FAMILY_BITNET(name, shape)                                                                 \
    "model.layers.%zu." name ".weight " shape "*", "model.layers.%zu." name ".weight_scale 1"

/* A router close to a tie would pick by the last bits of its input: with these names and
 * configurations no two of the probabilities between which it decides are closer than 5e-4 of the
 * larger (families.py looks). */
static const family families[] = {
    {"llama",
     "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\","
     "\"attention_bias\":true,\"mlp_bias\":true,\"rope_theta\":5000.0,"
     "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.5}," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS,
     0,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP, FAMILY_HEAD,
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",
      "model.layers.%zu.self_attn.v_proj.bias K", "model.layers.%zu.self_attn.o_proj.bias H",
      "model.layers.%zu.mlp.gate_proj.bias M", "model.layers.%zu.mlp.up_proj.bias M",
      "model.layers.%zu.mlp.down_proj.bias H"}},
    {"mistral",
     "\"model_type\":\"mistral\",\"architectures\":[\"MistralForCausalLM\"],"
     "\"hidden_act\":\"silu\",\"sliding_window\":9,\"head_dim\":24," FAMILY_LLAMA_SIZES,
     {64, 96, 48, 96, FAMILY_VOCAB, 256, 24, 128, 192},
     3,
     0,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP, FAMILY_HEAD}},
    {"qwen2",
     "\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_act\":\"silu\","
     "\"use_sliding_window\":true,\"sliding_window\":7,\"max_window_layers\":1,"
     "\"tie_word_embeddings\":true,\"rope_theta\":1000000.0," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS,
     0,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP,
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",
      "model.layers.%zu.self_attn.v_proj.bias K"}},
    {"qwen3",
     "\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_act\":\"silu\","
     "\"head_dim\":32,\"attention_bias\":true,\"use_sliding_window\":true,\"sliding_window\":11,"
     "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"],"
     "\"tie_word_embeddings\":true," FAMILY_LLAMA_SIZES,
     {64, 128, 64, 96, FAMILY_VOCAB, 256, 32, 128, 192},
     3,
     0,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP,
      "model.layers.%zu.self_attn.q_norm.weight D", "model.layers.%zu.self_attn.k_norm.weight D",
      "model.layers.%zu.self_attn.q_proj.bias Q", "model.layers.%zu.self_attn.k_proj.bias K",
      "model.layers.%zu.self_attn.v_proj.bias K", "model.layers.%zu.self_attn.o_proj.bias H"}},
    {"gemma",
     "\"model_type\":\"gemma\",\"architectures\":[\"GemmaForCausalLM\"],"
     "\"hidden_act\":\"gelu_pytorch_tanh\",\"head_dim\":24," FAMILY_LLAMA_SIZES,
     {64, 96, 48, 96, FAMILY_VOCAB, 256, 24, 128, 192},
     3,
     FAMILY_ZERO_NORMS,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP}},
    {"gemma2",
     "\"model_type\":\"gemma2\",\"architectures\":[\"Gemma2ForCausalLM\"],"
     "\"hidden_activation\":\"gelu_pytorch_tanh\",\"head_dim\":24,\"query_pre_attn_scalar\":10,"
     "\"attn_logit_softcapping\":2.0,\"final_logit_softcapping\":1.5,"
     "\"sliding_window\":9," FAMILY_LLAMA_SIZES,
     {64, 96, 48, 96, FAMILY_VOCAB, 256, 24, 128, 192},
     3,
     FAMILY_ZERO_NORMS,
     {FAMILY_LLAMA_REST, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP,
      "model.layers.%zu.pre_feedforward_layernorm.weight H",
      "model.layers.%zu.post_feedforward_layernorm.weight H"}},
    FAMILY_GEMMA3,
    FAMILY_SMOLLM3,
    FAMILY_OLMO2,
    FAMILY_OLMO3,
    FAMILY_GLM4,
    FAMILY_GRANITE,
    {"gpt2",
     "\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":64,\"n_layer\":2,"
     "\"n_head\":4,\"n_positions\":64,\"activation_function\":\"gelu_new\","
     "\"layer_norm_epsilon\":1e-05" FAMILY_TOKENS,
     {64, 64, 64, 256, FAMILY_VOCAB, 64, 16, 192, 0},
     2,
     0,
     {"wte.weight VH", "wpe.weight PH", "ln_f.weight H", "ln_f.bias H", "h.%zu.ln_1.weight H",
      "h.%zu.ln_1.bias H", "h.%zu.ln_2.weight H", "h.%zu.ln_2.bias H", "h.%zu.attn.bias PP",
      "h.%zu.attn.c_attn.weight HA", "h.%zu.attn.c_attn.bias A", "h.%zu.attn.c_proj.weight HH",
      "h.%zu.attn.c_proj.bias H", "h.%zu.mlp.c_fc.weight HM", "h.%zu.mlp.c_fc.bias M",
      "h.%zu.mlp.c_proj.weight MH", "h.%zu.mlp.c_proj.bias H"}},
    {"opt",
     "\"model_type\":\"opt\",\"architectures\":[\"OPTForCausalLM\"],\"hidden_size\":64,"
     "\"ffn_dim\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"max_position_embeddings\":62,\"activation_function\":\"relu\",\"word_embed_proj_dim\":64,"
     "\"do_layer_norm_before\":true,\"pad_token_id\":0" FAMILY_TOKENS,
     {64, 64, 64, 96, FAMILY_VOCAB, 64, 16, 0, 0},
     2,
     0,
     {"model.decoder.embed_tokens.weight VH",
      "model.decoder.embed_positions.weight PH",
      "model.decoder.final_layer_norm.weight H",
      "model.decoder.final_layer_norm.bias H",
      "model.decoder.layers.%zu.self_attn_layer_norm.weight H",
      "model.decoder.layers.%zu.self_attn_layer_norm.bias H",
      "model.decoder.layers.%zu.final_layer_norm.weight H",
      "model.decoder.layers.%zu.final_layer_norm.bias H",
      "model.decoder.layers.%zu.self_attn.q_proj.weight HH",
      "model.decoder.layers.%zu.self_attn.q_proj.bias H",
      "model.decoder.layers.%zu.self_attn.k_proj.weight HH",
      "model.decoder.layers.%zu.self_attn.k_proj.bias H",
      "model.decoder.layers.%zu.self_attn.v_proj.weight HH",
      "model.decoder.layers.%zu.self_attn.v_proj.bias H",
      "model.decoder.layers.%zu.self_attn.out_proj.weight HH",
      "model.decoder.layers.%zu.self_attn.out_proj.bias H",
      "model.decoder.layers.%zu.fc1.weight MH",
      "model.decoder.layers.%zu.fc1.bias M",
      "model.decoder.layers.%zu.fc2.weight HM",
      "model.decoder.layers.%zu.fc2.bias H"}},
    {"gpt_neox",
     "\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],"
     "\"rotary_pct\":0.25,\"rotary_emb_base\":5000," FAMILY_NEOX_SIZES,
     FAMILY_NEOX_NUMBERS,
     0,
     {FAMILY_NEOX_TENSORS, "gpt_neox.layers.%zu.attention.query_key_value.bias A",
      "gpt_neox.layers.%zu.attention.dense.bias H"}},
    {"gpt_neox_serial",
     "\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],"
     "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5000,"
     "\"partial_rotary_factor\":0.5},\"use_parallel_residual\":false,"
     "\"attention_bias\":false," FAMILY_NEOX_SIZES,
     FAMILY_NEOX_NUMBERS,
     0,
     {FAMILY_NEOX_TENSORS}},
    {"phi",
     "\"model_type\":\"phi\",\"architectures\":[\"PhiForCausalLM\"],\"hidden_size\":64,"
     "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"max_position_embeddings\":256,\"layer_norm_eps\":1e-05,"
     "\"hidden_act\":\"gelu_new\",\"partial_rotary_factor\":0.5" FAMILY_TOKENS,
     {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 0, 0},
     2,
     0,
     {"model.embed_tokens.weight VH", "model.final_layernorm.weight H",
      "model.final_layernorm.bias H", "lm_head.weight VH", "lm_head.bias V",
      "model.layers.%zu.input_layernorm.weight H", "model.layers.%zu.input_layernorm.bias H",
      "model.layers.%zu.self_attn.q_proj.weight QH", "model.layers.%zu.self_attn.q_proj.bias Q",
      "model.layers.%zu.self_attn.k_proj.weight KH", "model.layers.%zu.self_attn.k_proj.bias K",
      "model.layers.%zu.self_attn.v_proj.weight KH", "model.layers.%zu.self_attn.v_proj.bias K",
      "model.layers.%zu.self_attn.dense.weight HQ", "model.layers.%zu.self_attn.dense.bias H",
      "model.layers.%zu.mlp.fc1.weight MH", "model.layers.%zu.mlp.fc1.bias M",
      "model.layers.%zu.mlp.fc2.weight HM", "model.layers.%zu.mlp.fc2.bias H"}},
    {"phi3",
     "\"model_type\":\"phi3\",\"architectures\":[\"Phi3ForCausalLM\"],\"hidden_act\":\"silu\","
     "\"sliding_window\":13,\"partial_rotary_factor\":0.75,\"pad_token_id\":0,"
     "\"original_max_position_embeddings\":256," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS,
     0,
     {FAMILY_LLAMA_REST, "model.layers.%zu.self_attn.qkv_proj.weight AH",
      "model.layers.%zu.self_attn.o_proj.weight HQ", "model.layers.%zu.mlp.gate_up_proj.weight GH",
      "model.layers.%zu.mlp.down_proj.weight HM", FAMILY_HEAD}},
    {"bitnet",
     "\"model_type\":\"bitnet\",\"architectures\":[\"BitNetForCausalLM\"],"
     "\"hidden_act\":\"relu2\",\"tie_word_embeddings\":true,"
     "\"quantization_config\":{\"quant_method\":\"bitnet\",\"linear_class\":\"autobitlinear\","
     "\"quantization_mode\":\"offline\"}," FAMILY_LLAMA_SIZES,
     {64, 64, 32, 96, FAMILY_VOCAB, 256, 16, 128, 192, 1},
     3,
     0,
     {FAMILY_LLAMA_REST, FAMILY_BITNET_NORMS, FAMILY_BITNET("self_attn.q_proj", "QH"),
      FAMILY_BITNET("self_attn.k_proj", "KH"), FAMILY_BITNET("self_attn.v_proj", "KH"),
      FAMILY_BITNET("self_attn.o_proj", "HQ"), FAMILY_BITNET("mlp.gate_proj", "MH"),
      FAMILY_BITNET("mlp.up_proj", "MH"), FAMILY_BITNET("mlp.down_proj", "HM")}},
    {"bitnet_master",
     "\"model_type\":\"bitnet\",\"architectures\":[\"BitNetForCausalLM\"],"
     "\"hidden_act\":\"relu2\",\"tie_word_embeddings\":true,\"rope_theta\":500000.0,"
     "\"quantization_config\":{\"quant_method\":\"bitnet\",\"linear_class\":\"autobitlinear\","
     "\"quantization_mode\":\"online\"}," FAMILY_LLAMA_SIZES,
     FAMILY_LLAMA_NUMBERS,
     FAMILY_FLOATS,
     {FAMILY_LLAMA_REST, FAMILY_BITNET_NORMS, FAMILY_LLAMA_ATTENTION, FAMILY_LLAMA_MLP}},
    FAMILY_MIXTURES,
    FAMILY_GPT_OSS,
    FAMILY_QWEN3_5,
    FAMILY_DEEPSEEK,
    FAMILY_LLAMA4,
    FAMILY_GLM4_MOE,
};
enum { FAMILIES = sizeof families / sizeof *families };

#endif
