/* Jobs whose calibration says too little: told, counted, and no worse than without it. */
#include <stdlib.h>

#include "tests/unit/job_tiny.h"
#include "tests/unit/program.h"

enum { LINEARS = 14, TOKENS = 1280 };

static const outcome *call_recipe(const char *command, const char *options, int stream)
{
    char line[2048];
    (void)snprintf(line, sizeof line, "%s %s %s", command, job_path(&place, "recipe.yaml"),
                   options);
    return call(line, stream);
}

/* Runs the recipe under --strict; what the result says of `key`. */
static int64_t run(const char *output, int code, const char *key)
{
    char options[600];
    pare_ctx cx;
    pare_json *json = NULL;
    (void)snprintf(options, sizeof options, "--strict --restart --format json --output %s",
                   job_path(&place, output));
    const outcome *const o = call_recipe("compress", options, OUT);
    ck_assert_msg(o->code == code, "exit %d, not %d: %s", o->code, code, o->text);
    pare_ctx_init(&cx);
    ck_assert_int_eq(
        pare_json_parse(&cx, "stdout", o->text, strlen(o->text), sizeof o->text, &json), PARE_OK);
    const int64_t value = pare_json_integer(pare_json_get(json, key), -1);
    pare_json_free(json);
    return value;
}

static void write_tokens(size_t count, int32_t (*token)(size_t at))
{
    FILE *const f = fopen(job_path(&place, "tokens.i32"), "wb");
    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < count; i++) {
        const int32_t id = token(i);
        ck_assert_uint_eq(fwrite(&id, sizeof id, 1, f), 1);
    }
    ck_assert_int_eq(fclose(f), 0);
}

static int32_t five(size_t at)
{
    (void)at;
    return 5;
}

static int32_t zero(size_t at)
{
    (void)at;
    return 0;
}

static int32_t each(size_t at)
{
    return (int32_t)(at % 50);
}

static void recipe(size_t samples, size_t window, const char *passes)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: %zu, window: "
                   "%zu}\npasses:\n%sevaluate:\n  - perplexity: {tokens: data.i32, window: 16}\n",
                   samples, window, passes);
    job_recipe(&place, text);
    ck_assert(tiny_tokens_write(job_path(&place, "data.i32"), 50, 64, 4));
}

static const struct {
    const char *method, *plain;
} pairs[] = {
    {"  - gptq: {bits: 4, group: 32, clip: none}\n", "  - rtn: {bits: 4, group: 32}\n"},
    {"  - gptq: {bits: 2, group: 32, clip: none}\n", "  - rtn: {bits: 2, group: 32}\n"},
    {"  - sparsegpt: {pattern: \"2:4\"}\n", "  - magnitude: {pattern: \"2:4\"}\n"},
    {"  - wanda: {pattern: \"2:4\"}\n", "  - magnitude: {pattern: \"2:4\"}\n"},
    {"  - awq: {}\n  - rtn: {bits: 3, group: 32}\n", NULL},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* 192 or 384 tokens are needed: what cannot be had from these data is not asked for. */
START_TEST(only_windows_that_are_there_are_asked_for)
{
    static const char gptq[] = "  - gptq: {bits: 4, group: 32}\n";
    static const struct {
        size_t tokens;
        const char *samples, *asks;
    } row[] = {
        {96, "all", "give more text: at least "},
        {96, "6", "give more text: at least "},
        {1280, "6", "give samples: "},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char options[600];
        write_tokens(row[i].tokens, each);
        recipe(6, 16, gptq);
        (void)snprintf(options, sizeof options,
                       "--restart --set calibration.samples=%s --output %s", row[i].samples,
                       job_path(&place, "few"));
        const outcome *o = call_recipe("compress", options, ERR);
        ck_assert_msg(o->code == 0 && strstr(o->text, row[i].asks), "%zu: %s", i, o->text);
        o = call_recipe("plan", options, OUT);
        ck_assert_msg(strstr(o->text, row[i].asks), "%zu: %s", i, o->text);
        ck_assert_msg(strstr(o->text, "calibration       6 windows of 16 tokens\n"), "%s", o->text);
    }
}
END_TEST

/* A text of 48 tokens, again and again. */
static int32_t turns(size_t at)
{
    return (int32_t)(at % 48);
}

static const struct {
    size_t samples, window;
    int32_t (*token)(size_t at);
} useless[] = {{1, 2, five}, {20, 64, zero}, {1, 2, each}, {20, 64, turns}};
enum { USELESS = sizeof useless / sizeof *useless };

/* Two equal tokens, 1280 zeros, two tokens, 48 tokens again and again: every linear is told and
 * gets what its plain form gives, to the byte. */
START_TEST(a_useless_calibration_is_told_and_does_no_harm)
{
    const size_t u = (size_t)_i % USELESS, p = (size_t)_i / USELESS;
    char text[1 << 16];
    write_tokens(useless[u].samples * useless[u].window, useless[u].token);
    recipe(useless[u].samples, useless[u].window, pairs[p].method);
    ck_assert_int_eq(run("thin", 3, "thin"), LINEARS);
    ck_assert_int_eq(run("thin", 3, "fallbacks"), LINEARS);
    char options[600];
    (void)snprintf(options, sizeof options, "--restart --output %s", job_path(&place, "thin"));
    const outcome *const o = call_recipe("compress", options, ERR);
    ck_assert_msg(
        o->code == 0 && strstr(o->text, "warning: calibration: block 1 of 2: ") &&
            !strstr(o->text, "calibration: block 2") &&
            strstr(o->text, " of 7 linears; the first, model.layers.0.self_attn.q_proj, got "),
        "%s", o->text);
    FILE *const f = fopen(job_path(&place, "thin/run.json"), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(strstr(text, "\"calibration: block 1 of 2: ") != NULL, "%s", text);
    if (!pairs[p].plain)
        return;
    recipe(useless[u].samples, useless[u].window, pairs[p].plain);
    ck_assert_int_eq(run("plain", 0, "thin"), 0);
    job_check_same_weights(&place, "thin", "plain");
}
END_TEST

/* What looks at ranges alone: how many linears are told, and what becomes of them. */
static const struct {
    const char *passes, *told;
    int64_t thin;
} ranges[] = {
    {"  - rtn: {bits: 8, group: row, activations: int8_tensor}\n",
     "(2 new), where rtn needs 32 new tokens: they have scales of their inputs from these tokens "
     "alone",
     LINEARS},
    {"  - smoothquant: {}\n  - rtn: {bits: 8, group: row, activations: int8}\n",
     "(2 new), where smoothquant needs 32 new tokens: they stay as they are", 10},
    {"  - omniquant: {epochs: 1}\n  - rtn: {bits: 3, group: 32}\n",
     "(2 new), where omniquant needs 128 new tokens: they stay as they are", LINEARS},
};
enum { RANGES = sizeof ranges / sizeof *ranges };

static int32_t two(size_t at)
{
    return (int32_t)(at % 2);
}

START_TEST(ranges_of_few_different_inputs_are_told)
{
    write_tokens(512, two);
    recipe(8, 64, ranges[_i].passes);
    ck_assert_int_eq(run("thin", 3, "thin"), ranges[_i].thin);
    char options[600];
    (void)snprintf(options, sizeof options, "--restart --output %s", job_path(&place, "thin"));
    const outcome *const o = call_recipe("compress", options, ERR);
    ck_assert_msg(o->code == 0 && strstr(o->text, ranges[_i].told), "%s", o->text);
}
END_TEST

/* The inputs of q, k and v of the first block are 0, and so those of o. */
START_TEST(inputs_that_are_zero_are_told)
{
    job_change(&place, "model.layers.0.input_layernorm.weight", JOB_ALL, JOB_ALL, 0, 0);
    recipe(TOKENS / 64, 64, pairs[0].method);
    ck_assert_int_eq(run("out", 3, "thin"), 4);
    char options[600];
    (void)snprintf(options, sizeof options, "--strict --output %s", job_path(&place, "out"));
    const outcome *o = call_recipe("compress", options, ERR);
    ck_assert_msg(o->code == 3 && strstr(o->text, "already complete"), "%s", o->text);
    (void)snprintf(options, sizeof options, "--restart --output %s", job_path(&place, "out"));
    o = call_recipe("compress", options, ERR);
    ck_assert_msg(
        strstr(o->text,
               "block 1 of 2: too little for 4 of 7 linears; the first, "
               "model.layers.0.self_attn.q_proj, got 1280 tokens (1280 new), rank 0 of 48 and 0.0 "
               "effective samples, where gptq needs "),
        "%s", o->text);
    ck_assert(!strstr(o->text, "block 2 of 2: too"));
}
END_TEST

/* What a pruner got too little for is said to the end, whatever comes behind the training. */
START_TEST(a_training_hides_nothing)
{
    static const char *const behind[] = {"", "  - rtn: {bits: 8, group: 32}\n"};
    char passes[256];
    (void)snprintf(passes, sizeof passes,
                   "  - sparsegpt: {pattern: \"2:4\"}\n  - distill: {tokens: 64, batch: 1}\n%s",
                   behind[_i]);
    write_tokens(1280, each);
    recipe(4, 16, passes);
    ck_assert_int_eq(run("out", 3, "thin"), LINEARS);
}
END_TEST

/* What is left to be held out, plan and job count alike; few windows are a warning of both. */
START_TEST(a_training_on_few_windows_held_out_is_told)
{
    static const char few[] = "distill: what it trained is judged on 1 window held out, and fewer "
                              "than 8 tell little; give more text, or fewer samples";
    static const struct {
        size_t windows;
        const char *plans;
    } row[] = {{9, "perplexity and KL on 1 calibration window held out"},
               {16, "perplexity and KL on 8 calibration windows held out"}};
    for (size_t i = 0; i < 2; i++) {
        write_tokens(row[i].windows * 16, each);
        recipe(8, 16, "  - magnitude: {pattern: \"2:4\"}\n  - distill: {tokens: 16, batch: 1}\n");
        const outcome *o = call_recipe("plan", "--output none", OUT);
        ck_assert_msg(strstr(o->text, row[i].plans) && !strstr(o->text, few) == (i > 0), "%s",
                      o->text);
        char options[256];
        (void)snprintf(options, sizeof options, "--output %s",
                       job_path(&place, i ? "eight" : "one"));
        o = call_recipe("compress", options, ERR);
        ck_assert_msg(o->code == 0 && !strstr(o->text, few) == (i > 0), "%s", o->text);
    }
}
END_TEST

START_TEST(an_ordinary_calibration_is_not_told)
{
    recipe(20, 64, pairs[_i].method);
    ck_assert_int_eq(run("out", 0, "thin"), 0);
    if (!pairs[_i].plain)
        return;
    recipe(20, 64, pairs[_i].plain);
    ck_assert_int_eq(run("plain", 0, "thin"), 0);
    ck_assert(!job_same_weights(&place, "out", "plain"));
}
END_TEST

START_TEST(a_plan_warns_before_any_work)
{
    recipe(5, 64, pairs[0].method);
    const outcome *const o = call_recipe("plan", "--output none", OUT);
    ck_assert_msg(o->code == 0 &&
                      strstr(o->text, "\nwarning           gptq needs 336 tokens of "
                                      "calibration for 112 inputs, and there are 320: "
                                      "2 linears get its plain form; give samples: 6 or "
                                      "more (windows of 64)\n"),
                  "%s", o->text);
    ck_assert_int_eq(run("out", 3, "thin"), 2);
    recipe(6, 64, pairs[0].method);
    ck_assert(!strstr(call_recipe("plan", "--output none", OUT)->text, "warning"));
    ck_assert_int_eq(run("out", 0, "thin"), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("thin_job");
    TCase *const t = tcase_create("thin_job");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, only_windows_that_are_there_are_asked_for);
    tcase_add_loop_test(t, a_useless_calibration_is_told_and_does_no_harm, 0, USELESS * PAIRS);
    tcase_add_loop_test(t, ranges_of_few_different_inputs_are_told, 0, RANGES);
    tcase_add_test(t, inputs_that_are_zero_are_told);
    tcase_add_test(t, a_training_on_few_windows_held_out_is_told);
    tcase_add_loop_test(t, an_ordinary_calibration_is_not_told, 0, PAIRS);
    tcase_add_test(t, a_plan_warns_before_any_work);
    tcase_add_loop_test(t, a_training_hides_nothing, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
