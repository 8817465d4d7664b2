/* Words of config.json that families read in ways of their own, and what is told of them. */
#include "formats/checkpoint.h"
#include "tests/unit/heard.h"
#include "tests/unit/unit.h"

static pare_config config; /* of the last parse */

static pare_status parse(pare_ctx *cx, const char *text)
{
    pare_json *json;
    pare_ctx_init(cx);
    pare_status s = pare_json_parse(cx, "c", text, strlen(text), 8192, &json);
    if (s == PARE_OK)
        s = pare_config_parse(cx, "c", json, &config);
    pare_json_free(json);
    return s;
}

static void parse_ok(const char *text)
{
    pare_ctx cx;
    ck_assert_msg(parse(&cx, text) == PARE_OK, "%s", cx.what);
}

#define SIZES SIZES_OF("llama")
#define SIZES_OF(type)                                                                             \
    "{\"model_type\": \"" type "\", \"hidden_size\": 64, \"intermediate_size\": 172,"              \
    "\"num_hidden_layers\": 5, \"num_attention_heads\": 8, \"vocab_size\": 512,"                   \
    "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05"

/* transformers reads these words in GPT-NeoX alone. */
START_TEST(words_of_another_family_say_nothing)
{
#define WORDS ", \"rotary_pct\": 0.25, \"rotary_emb_base\": 500}"
    parse_ok(SIZES_OF("gpt_neox") WORDS);
    ck_assert(config.rope.theta == 500 && config.rope.rotary == 2);
    parse_ok(SIZES_OF("phi") WORDS);
    ck_assert(config.rope.theta == 10000 && config.rope.rotary == 4);
    parse_ok(SIZES WORDS);
    ck_assert(config.rope.theta == 10000 && config.rope.rotary == 8);
    parse_ok(SIZES_OF("gpt_neox") ", \"rope_theta\": 70, \"partial_rotary_factor\": 1" WORDS);
    ck_assert(config.rope.theta == 500 && config.rope.rotary == 2);
    parse_ok(SIZES_OF("mistral") ", \"use_sliding_window\": false, \"sliding_window\": 9}");
    ck_assert_uint_eq(config.window, 9);
}
END_TEST

/* The first files of Gemma mean the approximation by it. */
START_TEST(gelu_is_exact_but_in_gemma)
{
    parse_ok(SIZES_OF("gemma") ", \"hidden_act\": \"gelu\"}");
    ck_assert_int_eq(config.act, PARE_ACT_GELU_TANH);
    parse_ok(SIZES_OF("gemma2") ", \"hidden_activation\": \"gelu\"}");
    ck_assert_int_eq(config.act, PARE_ACT_GELU);
    parse_ok(SIZES_OF("gemma3_text") ", \"hidden_activation\": \"gelu\"}");
    ck_assert_int_eq(config.act, PARE_ACT_GELU);
}
END_TEST

/* To transformers a switch of null is off. */
START_TEST(null_is_no_word_for_a_default_of_true)
{
    static const char is_null[] = ", \"tie_word_embeddings\": null}";
    char text[1024];
    pare_ctx cx;
    (void)snprintf(text, sizeof text, "%s%s", SIZES, is_null);
    parse_ok(text);
    ck_assert(!config.tied);
    (void)snprintf(text, sizeof text, "%s%s", SIZES_OF("gemma"), is_null);
    ck_assert_int_eq(parse(&cx, text), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "tie_word_embeddings is not true or false"));
}
END_TEST

/* transformers scales as if it were not there. */
START_TEST(an_empty_scaling_is_none)
{
    static const char text[] =
        SIZES_OF("gpt_oss") ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2,"
                            "\"rope_scaling\": {}}";
    pare_ctx cx;
    ck_assert_int_eq(parse(&cx, text), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "neither rope_scaling nor rope_parameters is there"));
}
END_TEST

/* The configuration is taken, and what pare_config_warn says of it stands in `warned`. */
static void parse_heard(const char *text)
{
    pare_ctx cx;
    pare_json *json;
    pare_ctx_init(&cx);
    cx.progress.warn = hear;
    warned[0] = '\0';
    ck_assert_int_eq(pare_json_parse(&cx, "c", text, strlen(text), 8192, &json), PARE_OK);
    ck_assert_msg(pare_config_parse(&cx, "c", json, &config) == PARE_OK, "%s", cx.what);
    pare_config_warn(&cx, "c", json, &config);
    pare_json_free(json);
}

static const struct {
    const char *scaling, *told;
} odd_scaling[] = {
    {"\"type\": \"linear\", \"factor\": 0.5",
     "c: linear scaling by a factor of 0.5 moves positions apart, where 1 or more brings them "
     "together; it is computed as it stands, as in transformers\n"},
    {"\"type\": \"linear\", \"factor\": 1", ""},
    {"\"type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 1000000",
     "c: original_max_position_embeddings 1000000 is above max_position_embeddings 512; pare "
     "applies factor 2 all the same, as transformers does\n"},
    {"\"type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 16", ""},
    {"\"type\": \"yarn\", \"factor\": 2", ""},
};

START_TEST(scaling_that_can_hardly_be_meant_is_told)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "%s, \"rope_scaling\": {%s}}", SIZES,
                   odd_scaling[_i].scaling);
    parse_heard(text);
    ck_assert_str_eq(warned, odd_scaling[_i].told);
}
END_TEST

START_TEST(a_word_that_transformers_ignores_in_a_family_is_told)
{
    static const char scaling[] = ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}}";
    char text[2048];
    (void)snprintf(text, sizeof text, "%s%s", SIZES_OF("olmo3"), scaling);
    parse_heard(text);
    ck_assert(config.rope.stretch == 8);
    ck_assert_ptr_nonnull(strstr(warned, "does not look at it in models of type olmo3"));
    (void)snprintf(text, sizeof text, "%s%s", SIZES, scaling);
    parse_heard(text);
    ck_assert_str_eq(warned, "");
}
END_TEST

START_TEST(what_the_model_does_not_use_is_left_out_and_told)
{
    parse_heard(SIZES ", \"bos_token_id\": 50256, \"eos_token_id\": [511, 512, -1],"
                      "\"sliding_window\": 4096, \"layer_types\": [\"full_attention\"]}");
    ck_assert_int_eq(config.bos_id, -1);
    ck_assert_uint_eq(config.eos_ids, 1);
    ck_assert_int_eq(config.eos_id[0], 511);
    ck_assert_uint_eq(config.window, 0);
    ck_assert_uint_eq(pare_config_window(&config, 0), 0);
    ck_assert_str_eq(warned, "c: bos_token_id 50256 is left out: vocab_size is 512\n"
                             "c: eos_token_id 512 is left out: vocab_size is 512\n"
                             "c: layer_types is left out: it has 1 item for 5 blocks; transformers "
                             "refuses such a file\n"
                             "c: sliding_window is left out: in models of type llama a token sees "
                             "all before it\n");
    parse_heard(SIZES ", \"bos_token_id\": 1, \"eos_token_id\": 511, \"sliding_window\": null,"
                      "\"max_token_id\": 1000000000000000019884624838656}");
    ck_assert_str_eq(warned, "");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("config_words");
    TCase *const t = tcase_create("words");
    tcase_add_test(t, words_of_another_family_say_nothing);
    tcase_add_test(t, gelu_is_exact_but_in_gemma);
    tcase_add_test(t, null_is_no_word_for_a_default_of_true);
    tcase_add_test(t, an_empty_scaling_is_none);
    tcase_add_loop_test(t, scaling_that_can_hardly_be_meant_is_told, 0,
                        sizeof odd_scaling / sizeof *odd_scaling);
    tcase_add_test(t, a_word_that_transformers_ignores_in_a_family_is_told);
    tcase_add_test(t, what_the_model_does_not_use_is_left_out_and_told);
    suite_add_tcase(s, t);
    return unit_main(s);
}
