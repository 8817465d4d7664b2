/* What a plan says of the steps of a recipe. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/data/tiny_model.h"
#include "tests/unit/program.h"

#define TINY "pare-plan-passes"

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    ck_assert_int_eq(system("rm -rf " TINY), 0);
    ck_assert_int_eq(mkdir(TINY, 0777), 0);
    ck_assert(tiny_model_write(&m, TINY "/model"));
    ck_assert(tiny_tokens_write(TINY "/tokens.i32", m.vocab, 300, 1));
}

static void write_recipe(const char *passes)
{
    FILE *const f = fopen(TINY "/r.yaml", "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_gt(fprintf(f,
                             "pare: 1\nmodel: model\noutput: out\n"
                             "calibration: {tokens: tokens.i32, samples: 2, window: 16}\n"
                             "passes:\n%s",
                             passes),
                     0);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(the_plan_says_what_zeros_save)
{
    pare_ctx cx;
    write_recipe("  - magnitude: {pattern: \"2:4\"}\n"
                 "  - rtn: {group: 32, targets: \"*.q_proj\"}\n"
                 "  - rtn: {bits: 3, group: 32, targets: \"*.k_proj\"}\n");
    const char *const text = call("plan " TINY "/r.yaml", OUT)->text;
    static const char *const line[] = {
        "magnitude + rtn  ",
        "\npasses            magnitude, rtn, rtn\n",
        "2:4  int4 g32 sym 2:4 ",
        "stored like other weights in 2 linears: saves no bytes and no time",
        "left out of 2 linears (2:4): ",
        "saves bytes and time",
        "left out of 10 linears (f16 2:4): ",
        "saves bytes, not time",
        "KL on 16 calibration windows held out",
    };
    for (size_t i = 0; i < sizeof line / sizeof *line; i++)
        ck_assert_msg(strstr(text, line[i]) != NULL, "no \"%s\" in\n%s", line[i], text);
    pare_json *const json = parse(&cx, "plan " TINY "/r.yaml --format json");
    const pare_json *const linear = pare_json_at(pare_json_get(json, "linears"), 0);
    const pare_json *const pruned = pare_json_get(linear, "pruned");
    ck_assert_str_eq(pare_json_text(pare_json_get(pruned, "storage"), NULL), "2:4");
    ck_assert_double_eq(pare_json_number(pare_json_get(pruned, "zeros"), -1), 0.5);
    ck_assert_int_lt(pare_json_integer(pare_json_get(linear, "bytes"), 0),
                     pare_json_integer(pare_json_get(pruned, "dense_bytes"), 0));
    pare_json_free(json);
}
END_TEST

START_TEST(the_plan_says_what_correct_comes_to)
{
    static const struct {
        const char *passes, *says, *correct;
        size_t step;
    } cases[] = {
        {"  - gptq: {group: 32}\n", "\npasses            gptq (correct: gptaq)\n", "gptaq", 0},
        {"  - gptq: {group: 32, correct: none}\n", "gptq (correct: none)\n", "none", 0},
        {"  - rotate: {}\n  - gptq: {group: 32}\n", "rotate, gptq (correct: none)\n", "none", 1},
        {"  - gptq: {group: 32, targets: \"*.q_proj\", correct: qronos}\n"
         "  - gptq: {group: 32, skip: \"*.q_proj\"}\n",
         "gptq (correct: qronos), gptq (correct: gptaq)\n", "gptaq", 1},
        {"  - exl3: {targets: \"*.down_proj\"}\n", "exl3 (correct: gptaq)\n", "gptaq", 0},
    };
    pare_ctx cx;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_recipe(cases[i].passes);
        const char *const text = call("plan " TINY "/r.yaml", OUT)->text;
        ck_assert_msg(strstr(text, cases[i].says) != NULL, "%s", text);
        const bool beside = strcmp(cases[i].correct, "none") != 0;
        ck_assert_int_eq(strstr(text, "\nfloat model       runs beside") != NULL, beside);
        pare_json *const json = parse(&cx, "plan " TINY "/r.yaml --format json");
        const pare_json *const step = pare_json_at(pare_json_get(json, "passes"), cases[i].step);
        ck_assert_str_eq(pare_json_text(pare_json_get(step, "correct"), NULL), cases[i].correct);
        pare_json_free(json);
    }
}
END_TEST

/* Whether or not there is a device; before a job does anything. */
START_TEST(what_a_device_has_no_kernels_for_is_refused)
{
    static const struct {
        const char *pass, *what;
    } cases[] = {
        {"  - fp8: {activations: fp8_token}\n",
         "model.layers.0.self_attn.q_proj rounds its inputs to 8-bit floats"},
        {"  - mxfp4: {activations: mxfp4}\n",
         "model.layers.0.self_attn.q_proj rounds its inputs to 4-bit floats"},
    };
    char recipe[512];
    (void)snprintf(recipe, sizeof recipe,
                   "%sevaluate: [{kl: {tokens: tokens.i32, window: 16, device: cuda}}]\n",
                   cases[_i].pass);
    write_recipe(recipe);
    const char *text = call("compress " TINY "/r.yaml", ERR)->text;
    ck_assert_msg(strstr(text, "r.yaml:7:58: device: cuda: model.layers.0.") &&
                      strstr(text, cases[_i].what) && strstr(text, "; say device: cpu, or"),
                  "%s", text);
    ck_assert_int_ne(access(TINY "/out.partial", F_OK), 0);
    text = call("plan " TINY "/r.yaml --set evaluate.0.kl.device=auto", OUT)->text;
    ck_assert_msg(strstr(text, "the CPU, for evaluations with device: auto: model.layers.0.") &&
                      strstr(text, cases[_i].what),
                  "%s", text);
}
END_TEST

/* The codes that a search chooses among: what they do not fit is told before it. */
START_TEST(a_search_among_trellis_codes_is_planned_as_such)
{
    static const struct {
        size_t intermediate;
        const char *more, *what;
    } cases[] = {
        {200, "",
         "r.yaml:6:5: budget: model.layers.0.mlp.gate_proj: exl3 has tiles of 16 x 16 weights, "
         "which "
         "do not divide a matrix of 200 x 128: leave it out with skip"},
        {256, "export: [{format: gptq, path: x}]\n", "it has trellis codes"},
        {256, "export: [{format: exl3, path: x}]\n", NULL},
    };
    char recipe[512];
    tiny_model m = tiny_model_default();
    m.hidden = 128;
    m.heads = m.kv_heads = 2;
    m.head_dim = 64;
    m.intermediate = cases[_i].intermediate;
    ck_assert(tiny_model_write(&m, TINY "/model"));
    (void)snprintf(recipe, sizeof recipe, "  - budget: {bits: 4, grids: trellis, tokens: 32}\n%s",
                   cases[_i].more);
    write_recipe(recipe);
    const outcome *const o = call("plan " TINY "/r.yaml", cases[_i].what ? ERR : OUT);
    ck_assert_msg((o->code == 0) == !cases[_i].what, "%s", o->text);
    ck_assert_msg(!cases[_i].what || strstr(o->text, cases[_i].what), "%s", o->text);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("plan_passes");
    TCase *const t = tcase_create("plan_passes");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, the_plan_says_what_zeros_save);
    tcase_add_test(t, the_plan_says_what_correct_comes_to);
    tcase_add_loop_test(t, what_a_device_has_no_kernels_for_is_refused, 0, 2);
    tcase_add_loop_test(t, a_search_among_trellis_codes_is_planned_as_such, 0, 3);
    suite_add_tcase(s, t);
    return unit_main(s);
}
