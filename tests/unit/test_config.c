#include <math.h>

#include "formats/checkpoint.h"
#include "tests/unit/folder.h"
#include "tests/unit/heard.h"

/* Every message of the parser; mistakes of JSON itself belong to test_json. */
static const char *const messages[] = {
    "bytes of JSON, at most 8192 are accepted",
    "NUL byte",
    "nested deeper than 64 levels",
    "duplicate object key",
    "unexpected token",
    "premature end of input",
    "c: is not a JSON object",
    "model_type is missing or not a text",
    "model_type bert is not supported (llama, mistral, qwen2",
    "model_type gemma4 is not supported: pare does not compute heads of other widths in",
    "swiglu_limit 5 is not supported (7 is)",
    "swiglu_alpha 1.5 is not supported (1.702 is)",
    "neither rope_scaling nor rope_parameters is there, and models of this type scale their",
    "model_type llava is a model of several parts, with a language model of type llama in",
    "hidden_size is missing",
    "intermediate_size is missing",
    "num_hidden_layers is missing",
    "num_attention_heads is missing",
    "vocab_size is missing",
    "rms_norm_eps is missing",
    "hidden_size is not a whole number from 1 to 16777216",
    "num_hidden_layers is not a whole number from 1 to 4096",
    "intermediate_size has 2 items for 3 blocks (num_hidden_layers)",
    "intermediate_size: item 2 is not a whole number from 1 to 16777216",
    "intermediate_size is a list, which is not supported for models of type qwen3",
    "intermediate_size is a list, which is not supported for models of type mistral: it has a "
    "sliding window",
    "intermediate_size is a list, which is not supported for models of type gemma: it scales its "
    "embedding",
    "num_key_value_heads is not a whole number",
    "num_attention_heads 8 is not a multiple of num_key_value_heads 3",
    "num_attention_heads 7 does not divide hidden_size 64",
    "head_dim 7 is odd",
    "8388608 heads of 64 are more than 16777216 attention outputs",
    "rms_norm_eps is not a number above 0",
    "rope_theta is not a number above 0",
    "rope_scaling is not an object",
    "rope_scaling: rope_type is not a text",
    "rope_scaling: factor is there, but rope_type is missing; nothing says what it is for",
    "rope_scaling: rope_type linear needs factor, which is missing",
    "rope_scaling: rope_type llama3 needs factor, which is missing",
    "rope_scaling of type ntk is not supported (default, linear, llama3, dynamic, yarn and "
    "longrope",
    "rope_scaling: yarn needs factor >= 1, beta_fast >= beta_slow and rope_theta > 1",
    "rope_scaling: truncate is not true or false",
    "rope_scaling: mscale is not a number of at least 0",
    "attention_factor is not a number above 0",
    "rope_scaling: attention_factor 1e-60 does not fit F32",
    "rope_scaling: dynamic needs factor >= 1",
    "rope_scaling: short_factor is not a list of 4 numbers, one for each pair of channels that",
    "rope_scaling: long_factor: item 1 is not a number above 0",
    "rope_scaling: longrope with 512 channels of a head that turn is not supported (up to 256 are)",
    "rope_scaling: rope_type is llama3, but type is linear",
    "original_max_position_embeddings is not a whole number",
    "llama3 needs factor >= 1 and low_freq_factor <= high_freq_factor",
    "rope_scaling and rope_parameters contradict each other",
    "rope_theta is given twice, 10000 and 500000",
    "rotary positions of 0.05 times 8 channels",
    "rope_theta is 10000, and rope_theta of full_attention is 500000",
    "rope_parameters: rope_type is neither full_attention nor sliding_attention, the kinds of "
    "blocks "
    "of models of type gemma3_text",
    "rope_parameters is not an object",
    "rope_scaling and rope_parameters of full_attention contradict each other",
    "partial_rotary_factor 0.5 is not supported in models of type gemma3_text (1 is)",
    "sliding_window_pattern 6 leaves windows to blocks, and there is no sliding_window",
    "use_bidirectional_attention: true is not supported",
    "is_causal: false is not supported",
    "per_layer_config is not supported: blocks would have other settings than those of the whole",
    "final_logit_softcapping is not a number above 0",
    "partial_rotary_factor is not a number above 0",
    "partial_rotary_factor is null, which transformers reads as 1, and not as the usual 0.5 of "
    "models of type glm4",
    "bos_token_id is not a token id",
    "eos_token_id is not a token id",
    "eos_token_id has 9 entries, at most 8 are accepted",
    "tie_word_embeddings is not true or false",
    "attention_bias is not true or false",
    "mlp_bias is not true or false",
    "hidden_act tanh is not supported (silu, gelu",
    "hidden_act is not a text",
    "hidden_act gelu is not supported in models whose activation is clamped (silu is)",
    "sliding_window is not a whole number",
    "qk_layernorm: true is not supported",
    "do_layer_norm_before: false is not supported",
    "attn_logit_softcapping is not a number above 0",
    "use_parallel_residual is not true or false",
    "layer_types is not a list",
    "layer_types has 1 item for 3 blocks (num_hidden_layers)",
    "layer_types: item 1 is not supported",
    "layer_types: item 1 is sliding_attention, and there is no sliding_window",
    "layer_types: item 1 is full_attention, and in models of type phi3 sliding_window is of all",
    "layer_types: item 2 is not supported in models of type smollm3 (full_attention is)",
    "sliding_window is null, and three of four blocks of a model of type olmo3 have one unless",
    "rope_parameters of sliding_attention: a rope_type that goes by the length of the sequence is",
    "embedding_multiplier is not a number above 0",
    "residual_multiplier 1e-30 and logits_scaling 1 do not fit F32",
    "num_key_value_heads 2 is not supported with latent attention (num_attention_heads, 4, is)",
    "qk_rope_head_dim 7 is odd, rotary positions need pairs",
    "qk_nope_head_dim 16 with qk_rope_head_dim 8 and v_head_dim 64 is not supported: keys of an",
    "keys and values of 1048576 heads of 24 are more than 16777216",
    "partial_rotary_factor 0.5 is not supported in models of type deepseek_v3 (1 is)",
    "partial_rotary_factor 0.5 is not supported in models of type llama (1 is)",
    "partial_rotary_factor 0.5 is not supported in models of type llama4_text (1 is)",
    "positions of models of type deepseek_v3 are scaled by yarn or not at all",
    "topk_method greedy is not supported (noaux_tc is)",
    "scoring_func sigmoid is not supported (softmax is)",
    "norm_topk_prob: true is not supported in models of type deepseek_v2",
    "8 experts in 3 groups (n_group), 2 of which are picked from (topk_group), do not fit together "
    "with 3 experts for a token; a group needs two experts at least",
    "12 experts in 8 groups (the default of n_group), 2 of which are picked from (topk_group), do",
    "first_k_dense_replace is not a whole number from 0 to 2: one block at least has experts",
    "first_k_dense_replace is missing, and its default 1 is not from 0 to 0: one block",
    "first_k_dense_replace is missing, and its default 3 is not from 0 to 2: one block",
    "n_shared_experts is missing",
    "q_lora_rank is missing",
    "attn_output_gate: false is not supported",
    "hidden_act: only silu is supported in models of type qwen3_5_text",
    "linear_num_key_heads is missing",
    "linear_key_head_dim is not a whole number from 1 to 1024",
    "linear_num_value_heads 3 is not a multiple of linear_num_key_heads 2",
    "of a recurrent state are more than 16777216",
    "linear_conv_kernel_dim 1 is not supported: 2 to 16 are",
    "full_attention_interval is not a whole number from 1 to 16777216",
    "layer_types: item 2 is not supported (full_attention and linear_attention are)",
    "moe_layers is not a list",
    "moe_layers: item 1 is not a whole number",
    "moe_layers: item 1 is 4, not a block from 0 to 3",
    "no block has experts (moe_layers, interleave_moe_layer_step); at least one needs them",
    "interleave_moe_layer_step is not a whole number from 1 to 16777216",
    "floor_scale is not a whole number from 1 to 16777216",
    "attn_scale is not a number of at least 0",
    "attn_scale 1e+38 scales queries by more than fits F32",
    "attn_temperature_tuning is not true or false",
    "use_qk_norm with positions of a type that scales attention by 1.20794 is not supported",
    "use_qk_norm is not true or false",
    "layer_types: item 2 is not supported (full_attention and chunked_attention are)",
    "layer_types: item 0 is chunked_attention, and there is no attention_chunk_size",
    "attention_chunk_size is not a whole number",
    "intermediate_size_mlp is missing",
    "intermediate_size_mlp is a list, which is not supported for models of type llama4_text",
    "no_rope_layers is not a list",
    "no_rope_layers has 2 items for 3 blocks (num_hidden_layers)",
    "no_rope_layers: item 1 is neither 0 nor 1",
    "no_rope_layer_interval is not a whole number from 1 on",
    "word_embed_proj_dim 32 other than hidden_size 64 is not supported",
    "already quantized by hqq, which pare does not read; give the checkpoint in F32",
    "quantization_config.quant_method is missing or not a text; where the weights are floats,",
    "num_experts is missing",
    "num_local_experts is missing",
    "num_experts is not a whole number from 1 to 1024",
    "num_experts is 8, but num_local_experts is 9",
    "num_experts_per_tok is missing",
    "num_experts_per_tok is not a whole number from 1 to 8",
    "moe_intermediate_size is missing",
    "shared_expert_intermediate_size is missing",
    "norm_topk_prob is not true or false",
    "mlp_only_layers is not a list",
    "mlp_only_layers: item 0 is not a whole number",
    "mlp_only_layers: item 1 is 7, not a block from 0 to 2",
    "mlp_only_layers names 2 blocks without experts",
    "decoder_sparse_step 2 leaves blocks without experts",
    "use_sliding_window: true is not supported",
    "qkv_bias: false is not supported",
};

static pare_config config; /* of the last parse_bytes */

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_json *json;
    pare_status s = pare_json_parse(cx, "c", bytes, len, 8192, &json);
    if (s == PARE_OK)
        s = pare_config_parse(cx, "c", json, &config);
    pare_json_free(json);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("config", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

#define SIZES SIZES_OF("llama")
#define SIZES_OF(type)                                                                             \
    "{\"model_type\": \"" type "\", \"hidden_size\": 64, \"intermediate_size\": 172,"              \
    "\"num_hidden_layers\": 5, \"num_attention_heads\": 8, \"vocab_size\": 512,"                   \
    "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05"

static void parse_ok(const char *text)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    const pare_status s = parse_bytes(&cx, text, strlen(text));
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
}

START_TEST(absent_options_get_the_defaults_of_the_family)
{
    parse_ok(SIZES "}");
    ck_assert_str_eq(config.arch->model_type, "llama");
    ck_assert_uint_eq(config.hidden, 64);
    ck_assert_uint_eq(config.intermediate, 172);
    ck_assert_uint_eq(config.blocks, 5);
    ck_assert_uint_eq(config.heads, 8);
    ck_assert_uint_eq(config.kv_heads, 8);
    ck_assert_uint_eq(config.head_dim, 8);
    ck_assert_uint_eq(config.vocab, 512);
    ck_assert_uint_eq(config.context, 512);
    ck_assert(config.norm_eps == 1e-5);
    ck_assert(config.rope.theta == 10000 && config.rope.kind == PARE_ROPE_LINEAR);
    ck_assert(!config.tied);
    ck_assert_int_eq(config.bos_id, -1);
    ck_assert_uint_eq(config.eos_ids, 0);
}
END_TEST

START_TEST(stated_options_are_taken)
{
    parse_ok(SIZES ", \"num_key_value_heads\": 2, \"head_dim\": 32, \"tie_word_embeddings\": true,"
                   "\"bos_token_id\": 0, \"eos_token_id\": [3, -1, 511], \"rope_theta\": 5e5}");
    ck_assert_uint_eq(config.kv_heads, 2);
    ck_assert_uint_eq(config.head_dim, 32);
    ck_assert(config.tied);
    ck_assert_int_eq(config.bos_id, 0);
    ck_assert_uint_eq(config.eos_ids, 2);
    ck_assert_int_eq(config.eos_id[0], 3);
    ck_assert_int_eq(config.eos_id[1], 511);
    ck_assert(config.rope.theta == 500000);
    size_t n, k;
    pare_linear_shape(&config, 0, PARE_ROLE_Q, &n, &k);
    ck_assert(n == 256 && k == 64);
    pare_linear_shape(&config, 0, PARE_ROLE_V, &n, &k);
    ck_assert(n == 64 && k == 64);
    pare_linear_shape(&config, 0, PARE_ROLE_O, &n, &k);
    ck_assert(n == 64 && k == 256);
    pare_linear_shape(&config, 0, PARE_ROLE_DOWN, &n, &k);
    ck_assert(n == 64 && k == 172);
}
END_TEST

START_TEST(a_list_of_widths_is_one_for_each_block)
{
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": [%s],"
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 8, \"vocab_size\": 512,"
        "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05}";
    char all[512];
    size_t n, k;
    (void)snprintf(all, sizeof all, text, "96, 64, 160");
    parse_ok(all);
    ck_assert(config.uneven && config.intermediate == 160);
    ck_assert_uint_eq(pare_config_mlp(&config, 1), 64);
    ck_assert_uint_eq(pare_config_channels(&config), 320);
    pare_block_shape(&config, 0, 0, PARE_ROLE_DOWN, &n, &k);
    ck_assert(n == 64 && k == 96);
    pare_block_shape(&config, 2, 0, PARE_ROLE_GATE, &n, &k);
    ck_assert(n == 160 && k == 64);
    pare_block_shape(&config, 2, 0, PARE_ROLE_Q, &n, &k);
    ck_assert(n == 64 && k == 64);
    (void)snprintf(all, sizeof all, text, "96, 96, 96");
    parse_ok(all);
    ck_assert(!config.uneven && config.intermediate == 96);
}
END_TEST

#define LLAMA3                                                                                     \
    "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0,"                        \
    "\"original_max_position_embeddings\": 8192}}"

START_TEST(rope_scaling_of_llama_3_is_read_wherever_it_stands)
{
    static const char *const texts[] = {
        SIZES ", \"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", " LLAMA3,
        SIZES ", \"rope_theta\": 5e5, \"rope_scaling\": {\"type\": \"llama3\", " LLAMA3,
        SIZES ", \"rope_parameters\": {\"rope_theta\": 500000, \"rope_type\": \"llama3\", " LLAMA3,
    };
    for (size_t i = 0; i < 3; i++) {
        parse_ok(texts[i]);
        ck_assert(config.rope.kind == PARE_ROPE_LLAMA3 && config.rope.theta == 500000);
        ck_assert(config.rope.factor == 8 && config.rope.low_freq_factor == 1);
        ck_assert(config.rope.high_freq_factor == 4);
        ck_assert_uint_eq(config.rope.original_context, 8192);
    }
}
END_TEST

/* Right values: those of transformers, modeling_rope_utils.py. */
START_TEST(the_first_length_of_llama_3_may_be_missing_or_stand_at_the_top)
{
#define BENT                                                                                       \
    ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"   \
    "\"high_freq_factor\": 4.0"
    static const struct {
        const char *text;
        size_t original;
    } cases[] = {
        {SIZES BENT "}}", 512},
        {SIZES BENT ", \"original_max_position_embeddings\": null}}", 512},
        {SIZES BENT ", \"original_max_position_embeddings\": 32.0}}", 32},
        {SIZES BENT ", \"original_max_position_embeddings\": 32},"
                    "\"original_max_position_embeddings\": 64}",
         64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse_ok(cases[i].text);
        ck_assert(config.rope.kind == PARE_ROPE_LLAMA3);
        ck_assert_uint_eq(config.rope.original_context, cases[i].original);
    }
}
END_TEST

#define YARN "\"original_max_position_embeddings\": 128, \"factor\": 4, "

/* Right values: those of transformers, modeling_rope_utils.py: 1 + ln(4) / 10 where nothing is said
 * of attention, the quotient of two such with both scales. */
START_TEST(yarn_is_read_wherever_it_stands)
{
    static const struct {
        const char *text;
        double fast, attention;
        bool exact_bounds;
    } cases[] = {
        {SIZES ", \"rope_scaling\": {\"type\": \"yarn\", " YARN "\"beta_fast\": 16}}", 16,
         1.138629436111989, false},
        {SIZES ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 10000, " YARN
               "\"truncate\": false, \"mscale\": 1, \"mscale_all_dim\": 0.5}}",
         32, 1.0648216253695715, true},
        {SIZES ", \"rope_scaling\": {\"rope_type\": \"yarn\", " YARN "\"mscale\": 2,"
               "\"mscale_all_dim\": null, \"attention_factor\": null}}",
         32, 1.138629436111989, false},
        {SIZES ", \"rope_scaling\": {\"rope_type\": \"yarn\", " YARN "\"mscale\": 2,"
               "\"mscale_all_dim\": 1, \"attention_factor\": 1.5}}",
         32, 1.5, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pare_rope *const r = &config.rope;
        parse_ok(cases[i].text);
        ck_assert(r->kind == PARE_ROPE_YARN && r->factor == 4 && r->theta == 10000);
        ck_assert(r->beta_fast == cases[i].fast && r->beta_slow == 1);
        ck_assert(r->exact_bounds == cases[i].exact_bounds);
        ck_assert(fabs(r->attention - cases[i].attention) < 1e-7);
        ck_assert_uint_eq(r->original_context, 128);
    }
}
END_TEST

/* Its attention: sqrt(1 + ln(512 / 128) / ln(128)), the factor of the lengths unless one is given.
 */
START_TEST(longrope_and_dynamic_are_read)
{
    static const char lists[] = "\"short_factor\": [1, 1.5, 2, 2.5], \"long_factor\": [1, 3, 5, 7]";
    static const char *const more[] = {"", ", \"factor\": 4", ", \"attention_factor\": 1.25"};
    const pare_rope *const r = &config.rope;
    char text[600];
    for (size_t i = 0; i < 6; i++) {
        (void)snprintf(text, sizeof text,
                       SIZES ", \"original_max_position_embeddings\": 128,"
                             "\"%s\": {\"rope_type\": \"longrope\", %s%s}}",
                       i % 2 ? "rope_scaling" : "rope_parameters", lists, more[i / 2]);
        parse_ok(text);
        ck_assert(r->kind == PARE_ROPE_LONGROPE && pare_rope_by_length(r));
        ck_assert(fabs(r->attention - (i < 4 ? 1.1338934190276817 : 1.25)) < 1e-7);
        ck_assert_uint_eq(r->original_context, 128);
        ck_assert(pare_rope_frequency(r, 1, 4, 128) == 0.1 / 1.5);
        ck_assert(pare_rope_frequency(r, 1, 4, 129) == 0.1 / 3);
        ck_assert_uint_eq(pare_rope_rows(r, 128), 128);
        ck_assert_uint_eq(pare_rope_rows(r, 129), 257);
    }
    parse_ok(SIZES ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}");
    ck_assert(r->kind == PARE_ROPE_DYNAMIC && r->factor == 2 && r->attention == 0);
    ck_assert_uint_eq(r->original_context, 512);
    ck_assert(pare_rope_frequency(r, 1, 4, 512) == 0.1);
    ck_assert(fabs(pare_rope_frequency(r, 1, 4, 1024) - 0.1 * pow(3, -1.0 / 3)) < 1e-15);
}
END_TEST

START_TEST(rope_settings_without_a_type_are_plain)
{
    static const char *const texts[] = {
        SIZES ", \"rope_theta\": 5e5, \"rope_scaling\": {}}",
        SIZES ", \"rope_parameters\": {\"rope_theta\": 500000.0}}",
        SIZES ", \"rope_scaling\": {}, \"rope_parameters\": {\"rope_theta\": 500000.0,"
              "\"rope_type\": null, \"partial_rotary_factor\": 1.0}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        parse_ok(texts[i]);
        ck_assert(config.rope.theta == 500000 && config.rope.kind == PARE_ROPE_LINEAR &&
                  config.rope.stretch == 0);
        ck_assert_uint_eq(config.rope.rotary, 8);
    }
    parse_ok(SIZES
             ", \"rope_scaling\": {\"rope_type\": null, \"type\": \"linear\", \"factor\": 4}}");
    ck_assert(config.rope.stretch == 4);
}
END_TEST

/* Right values: those of transformers, Gemma3TextConfig. */
START_TEST(blocks_with_a_window_may_have_a_base_of_their_own)
{
#define GEMMA3                                                                                     \
    "{\"model_type\": \"gemma3_text\", \"hidden_size\": 64, \"intermediate_size\": 172,"           \
    "\"num_hidden_layers\": 7, \"num_attention_heads\": 8, \"vocab_size\": 512, \"head_dim\": 8,"  \
    "\"rms_norm_eps\": 1e-06"
#define SCALED "{\"rope_type\": \"linear\", \"factor\": 8"
    static const struct {
        const char *text;
        double all, local, stretch;
        size_t window, wide; /* the first block that sees all; 7: none */
        double cap;
    } cases[] = {
        {GEMMA3 "}", 1e6, 1e4, 0, 4096, 5, 0},
        {GEMMA3 ", \"rope_theta\": 5e5, \"rope_local_base_freq\": 2e4, \"sliding_window\": 16,"
                "\"sliding_window_pattern\": 3, \"rope_scaling\": " SCALED "}}",
         5e5, 2e4, 8, 16, 2, 0},
        {GEMMA3
         ", \"sliding_window_pattern\": 8, \"final_logit_softcapping\": 30, \"rope_parameters\":"
         "{\"full_attention\": " SCALED ", \"rope_theta\": 5e5},"
         "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 2e4}}}",
         5e5, 2e4, 8, 4096, 7, 30},
        {GEMMA3 ", \"sliding_window\": null, \"sliding_window_pattern\": 1}", 1e6, 1e4, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t wide = 0;
        parse_ok(cases[i].text);
        while (wide < 7 && pare_config_window(&config, wide))
            wide++;
        ck_assert(config.rope.theta == cases[i].all && config.rope.stretch == cases[i].stretch);
        ck_assert(config.rope_local.theta == cases[i].local && config.rope_local.stretch == 0);
        ck_assert_uint_eq(config.window, cases[i].window);
        ck_assert_uint_eq(wide, cases[i].wide);
        ck_assert(config.logit_cap == cases[i].cap && config.attention_cap == 0);
        ck_assert(config.attention_scale == 1.0 / 16 && config.embed_scale == 8 && config.tied);
        ck_assert_uint_eq(pare_rope_table_rows(&config, 7), 14);
    }
    parse_ok(SIZES "}");
    ck_assert_uint_eq(pare_rope_table_rows(&config, 7), 7);
}
END_TEST

/* Right values: those of transformers, SmolLM3Config. */
START_TEST(blocks_without_positions)
{
#define SMOLLM3 SIZES_OF("smollm3")
    static const struct {
        const char *text;
        uint64_t unturned;
    } cases[] = {
        {SMOLLM3 "}", 0x8},
        {SMOLLM3 ", \"no_rope_layer_interval\": 2}", 0xa},
        {SMOLLM3 ", \"no_rope_layer_interval\": 6}", 0},
        {SMOLLM3 ", \"no_rope_layers\": [0, 1, 1, 1, 0], \"no_rope_layer_interval\": 2}", 0x11},
        {SMOLLM3 ", \"no_rope_layers\": [1, 1, 1, 1, 1]}", 0},
        {SMOLLM3 ", \"no_rope_layers\": [true, false, true, 0, true]}", 0xa},
        {SMOLLM3 ", \"no_rope_layers\": [0, 1, 1, 1, 1], \"no_rope_layer_interval\": 0}", 0x1},
        {SIZES ", \"no_rope_layer_interval\": 2}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse_ok(cases[i].text);
        for (size_t b = 0; b < 5; b++)
            ck_assert(pare_config_turns_apart(&config, b) == (cases[i].unturned >> b & 1));
        ck_assert_uint_eq(pare_rope_table_rows(&config, 7), cases[i].unturned ? 14 : 7);
        ck_assert(!pare_config_no_structure(&config) == !cases[i].unturned);
        for (size_t p = 0; p < 4 && cases[i].unturned; p++)
            ck_assert(pare_rope_frequency(&config.rope_local, p, 4, 7) == 0);
    }
}
END_TEST

/* Right values: those of transformers, Llama4TextConfig. */
START_TEST(chunks_and_blocks_without_experts)
{
#define LLAMA4                                                                                     \
    SIZES_OF("llama4_text")                                                                        \
    ", \"intermediate_size_mlp\": 300, \"num_local_experts\": 4, \"num_experts_per_tok\": 1"
    static const struct {
        const char *text;
        uint64_t dense, chunks;
        size_t window, step;
        double temperature;
        bool norms;
    } cases[] = {
        {LLAMA4 "}", 0, 0x17, 8192, 8192, 0.1, true},
        {LLAMA4 ", \"interleave_moe_layer_step\": 2, \"floor_scale\": 8, \"attn_scale\": 0.5}",
         0x15, 0x17, 8192, 8, 0.5, true},
        {LLAMA4 ", \"moe_layers\": [0, 4], \"attention_chunk_size\": 5, \"no_rope_layers\": [0, 1, "
                "0, 1, 1], \"use_qk_norm\": false, \"attn_temperature_tuning\": 0}",
         0xe, 0x1a, 5, 8192, 0, false},
        {LLAMA4 ", \"attention_chunk_size\": null, \"attn_temperature_tuning\": 4}", 0, 0, 0, 8192,
         0.1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse_ok(cases[i].text);
        for (size_t b = 0; b < 5; b++) {
            ck_assert((pare_block_arch(&config, b)->experts == NULL) == (cases[i].dense >> b & 1));
            ck_assert_uint_eq(pare_config_mlp(&config, b),
                              cases[i].dense >> b & 1 ? 300 : config.expert_width);
            ck_assert_uint_eq(pare_config_window(&config, b),
                              cases[i].chunks >> b & 1 ? cases[i].window : 0);
        }
        ck_assert(config.unit_norms == cases[i].norms);
        ck_assert(config.temperature == cases[i].temperature);
        ck_assert_uint_eq(config.temperature_step, cases[i].step);
    }
    parse_ok(cases[1].text);
    ck_assert(pare_config_temperature(&config, false, 100) == 1);
    ck_assert(pare_config_temperature(&config, true, 6) == 1);
    ck_assert(pare_config_temperature(&config, true, 7) == (float)(1 + 0.5 * log(2)));
    ck_assert_uint_eq(pare_window_low(&config, 8, 7), 0);
    ck_assert_uint_eq(pare_window_low(&config, 8, 23), 16);
    ck_assert_uint_eq(pare_window_low(&config, 0, 23), 0);
}
END_TEST

START_TEST(the_number_of_positions_may_be_that_of_the_family)
{
    static const char text[] = "{\"model_type\": \"%s\", \"hidden_size\": 64,"
                               "\"intermediate_size\": 172, \"num_hidden_layers\": 2,"
                               "\"num_attention_heads\": 8, \"vocab_size\": 512,"
                               "\"rms_norm_eps\": 1e-05}";
    static const struct {
        const char *family;
        size_t positions;
    } cases[] = {{"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768}, {"gemma", 8192}};
    char filled[400];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(filled, sizeof filled, text, cases[i].family);
        parse_ok(filled);
        ck_assert_uint_eq(config.context, cases[i].positions);
    }
}
END_TEST

START_TEST(what_is_not_computed_is_not_supported_rather_than_malformed)
{
    static const char *const texts[] = {
        SIZES ", \"hidden_act\": \"tanh\"}",
        SIZES ", \"rope_scaling\": {\"type\": \"ntk\", \"factor\": 2}}",
        SIZES ", \"quantization_config\": {\"quant_method\": \"hqq\"}}",
        "{\"model_type\": \"gemma4\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        ck_assert_int_eq(parse_bytes(&cx, texts[i], strlen(texts[i])), PARE_ENOTSUP);
    }
}
END_TEST

START_TEST(the_table_of_families_is_complete)
{
    ck_assert_ptr_null(pare_arch_find("bert"));
    for (const pare_arch *const *family = pare_archs; *family; family++) {
        const pare_arch *const a = *family;
        ck_assert_ptr_eq(pare_arch_find(a->model_type), a);
        ck_assert_uint_gt(a->context, 0);
        ck_assert(a->summary && a->embed && a->norm && a->head);
        if (a->attention_norm)
            ck_assert((a->mlp_norm == NULL) == (a->residual == PARE_RESIDUAL_SHARED));
        else
            ck_assert(!a->mlp_norm && a->residual == PARE_RESIDUAL_SERIAL);
        for (pare_site site = 0; site < PARE_SITES && !a->attention_norm; site++)
            ck_assert(a->producer[site].kind != PARE_PRODUCER_NORM);
        ck_assert_ptr_nonnull(strstr(a->block_prefix, "%zu"));
        ck_assert(!a->experts || strstr(a->experts->prefix, "%zu"));
        for (pare_role r = 0; r < PARE_ROLES; r++) {
            ck_assert((a->linear[r].name != NULL) == (a->linear[r].site < PARE_SITES));
            ck_assert(a->linear[r].name || r == PARE_ROLE_GATE || r >= PARE_ROLE_Q_A ||
                      (a->latent_eps > 0 && r == PARE_ROLE_V) ||
                      (a->experts && r > PARE_ROLE_GATE && !a->words->intermediate));
            ck_assert_int_eq(pare_arch_linear(a, 1, r)->name != NULL,
                             a->experts && r >= PARE_ROLE_GATE && r <= PARE_ROLE_DOWN);
        }
    }
}
END_TEST

static pare_status read_generation(pare_ctx *cx, const char *text)
{
    pare_json *json;
    pare_status s = pare_json_parse(cx, "g", text, strlen(text), 8192, &json);
    if (s == PARE_OK)
        s = pare_config_generation(cx, "g", json, &config);
    pare_json_free(json);
    return s;
}

START_TEST(end_tokens_of_generation_take_the_place_of_others)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    cx.progress.warn = hear;
    warned[0] = '\0';
    parse_ok(SIZES ", \"bos_token_id\": 1, \"eos_token_id\": [2, 4, 5]}");
    ck_assert_int_eq(read_generation(&cx, "{\"eos_token_id\": null, \"top_p\": 0.9}"), PARE_OK);
    ck_assert(config.eos_ids == 3 && config.eos_id[2] == 5 && config.bos_id == 1);
    ck_assert_int_eq(read_generation(&cx, "{\"eos_token_id\": [7, 9], \"bos_token_id\": 3}"),
                     PARE_OK);
    ck_assert(config.eos_ids == 2 && config.eos_id[0] == 7 && config.eos_id[1] == 9);
    ck_assert(config.eos_id[2] == -1 && config.bos_id == 3);
    ck_assert_int_eq(read_generation(&cx, "{\"eos_token_id\": 2}"), PARE_OK);
    ck_assert(config.eos_ids == 1 && config.eos_id[0] == 2 && config.eos_id[1] == -1);
    ck_assert_str_eq(warned, "");
    ck_assert_int_eq(read_generation(&cx, "{\"eos_token_id\": [512, 3]}"), PARE_OK);
    ck_assert(config.eos_ids == 1 && config.eos_id[0] == 3);
    ck_assert_str_eq(warned, "g: eos_token_id 512 is left out: vocab_size is 512\n");
    ck_assert_int_eq(read_generation(&cx, "[]"), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, "g: is not a JSON object"), "%s", cx.what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("config");
    TCase *const t = tcase_create("config");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, absent_options_get_the_defaults_of_the_family);
    tcase_add_test(t, stated_options_are_taken);
    tcase_add_test(t, a_list_of_widths_is_one_for_each_block);
    tcase_add_test(t, rope_scaling_of_llama_3_is_read_wherever_it_stands);
    tcase_add_test(t, the_first_length_of_llama_3_may_be_missing_or_stand_at_the_top);
    tcase_add_test(t, yarn_is_read_wherever_it_stands);
    tcase_add_test(t, longrope_and_dynamic_are_read);
    tcase_add_test(t, rope_settings_without_a_type_are_plain);
    tcase_add_test(t, blocks_with_a_window_may_have_a_base_of_their_own);
    tcase_add_test(t, blocks_without_positions);
    tcase_add_test(t, chunks_and_blocks_without_experts);
    tcase_add_test(t, the_number_of_positions_may_be_that_of_the_family);
    tcase_add_test(t, end_tokens_of_generation_take_the_place_of_others);
    tcase_add_test(t, what_is_not_computed_is_not_supported_rather_than_malformed);
    tcase_add_test(t, the_table_of_families_is_complete);
    suite_add_tcase(s, t);
    return unit_main(s);
}
