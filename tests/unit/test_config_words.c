/* Words of config.json that families read in ways of their own. */
#include "formats/checkpoint.h"
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

int main(void)
{
    Suite *const s = suite_create("config_words");
    TCase *const t = tcase_create("words");
    tcase_add_test(t, words_of_another_family_say_nothing);
    tcase_add_test(t, gelu_is_exact_but_in_gemma);
    tcase_add_test(t, an_empty_scaling_is_none);
    suite_add_tcase(s, t);
    return unit_main(s);
}
