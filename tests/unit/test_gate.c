/* Requirements of a recipe, and the verdict on figures. */
#include <math.h>
#include <stdio.h>

#include "compress/report/gate.h"
#include "tests/unit/recipe_case.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
}

static pare_status parse(const char *lines, pare_recipe *out)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "pare: 1\npasses: [rtn]\n%s\n", lines);
    const pare_recipe_source source = {.file = "r.yaml", .text = text, .len = strlen(text)};
    return pare_recipe_parse(&cx, &arena, &source, recipe_passes, RECIPE_PASSES, out);
}

static const struct {
    const char *requires;
    pare_requirement_kind kind;
    double bound;
    bool relative;
} taken[] = {
    {"perplexity: \"<= +1%\"", PARE_REQUIRE_PERPLEXITY, 1.01, true},
    {"perplexity: \"<= -2.5%\"", PARE_REQUIRE_PERPLEXITY, 0.975, true},
    {"perplexity: \"<= 101%\"", PARE_REQUIRE_PERPLEXITY, 1.01, true},
    {"perplexity: \"<=31.5\"", PARE_REQUIRE_PERPLEXITY, 31.5, false},
    {"kl: \"<= 0.02\"", PARE_REQUIRE_KL, 0.02, false},
    {"kl: <= 2e-3", PARE_REQUIRE_KL, 0.002, false},
    {"top1: \">= 0.97\"", PARE_REQUIRE_TOP1, 0.97, false},
    {"top1: \">= 97%\"", PARE_REQUIRE_TOP1, 0.97, false},
    {"choice: \">= 99%\"", PARE_REQUIRE_CHOICE, 0.99, true},
    {"choice: \">= 0.41\"", PARE_REQUIRE_CHOICE, 0.41, false},
    {"tasks.piqa: \">= 99%\"", PARE_REQUIRE_TASK, 0.99, true},
    {"tasks.mmlu_anatomy.acc: \">= 0.3\"", PARE_REQUIRE_TASK, 0.3, false},
    {"needle: \">= 90%\"", PARE_REQUIRE_NEEDLE, 0.9, true},
    {"bytes: \"<= 4GiB\"", PARE_REQUIRE_BYTES, 4294967296.0, false},
};

START_TEST(a_requirement_is_read)
{
    pare_recipe r;
    char lines[128];
    (void)snprintf(lines, sizeof lines, "require: {%s}", taken[_i].requires);
    ck_assert_msg(parse(lines, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.requirements, 1);
    ck_assert_int_eq(r.requirement[0].kind, taken[_i].kind);
    ck_assert_double_eq_tol(r.requirement[0].bound, taken[_i].bound, 1e-15);
    ck_assert(r.requirement[0].relative == taken[_i].relative);
}
END_TEST

static const char *const refused[][2] = {
    {"require: {perplexity: \">= 3\"}", "r.yaml:3:23: \"perplexity\" is \">= 3\""},
    {"require: {perplexity: \"<= +3\"}", "\"<= +1%\" of the original's"},
    {"require: {perplexity: \"<= +-1%\"}", "\"<= +1%\" of the original's"},
    {"require: {top1: \">= +1%\"}", "\">= 97%\""},
    {"require: {top1: \">= 97\"}", "\">= 97%\""},
    {"require: {needle: \">= 1.5\"}", "\">= 0.9\""},
    {"require: {needle: \">= +1%\"}", "\">= 99%\" of the original's"},
    {"require: {choice: \">= 41\"}", "\">= 0.41\""},
    {"require: {kl: 0.02}", "r.yaml:3:15: \"kl\" is \"0.02\"; it takes \"<= 0.02\""},
    {"require: {kl: \"<= 2%\"}", "in nats"},
    {"require: {kl: \"<= -1\"}", "in nats"},
    {"require: {kl: \"<= nan\"}", "in nats"},
    {"require: {kl: \"<=\"}", "in nats"},
    {"require: {bytes: \"<= 4 stones\"}", "4GiB"},
    {"require: {bytes: \"<= 4.5MB\"}", "\"<= 4GiB\" (in quotes): a whole number above 0"},
    {"require: {perplexity: \"<= 1%\"}", "write \"<= +1%\" for so much above it"},
    {"require: {bytes: \"<= 0\"}", "4GiB"},
    {"require: {bits: \"<= 4\"}", "unknown key \"bits\""},
    {"require: {tasks: \">= 1\"}", "unknown key \"tasks\""},
    {"require: {tasks.: \">= 1\"}", "unknown key \"tasks.\""},
    {"require: [kl]", "require"},
    {"fallback: [{seed: 1}]", "\"require\""},
    {"require: {kl: \"<= 1\"}\nfallback: {seed: 1}", "a list of settings"},
    {"require: {kl: \"<= 1\"}\nfallback: [{}]", "a list of settings"},
    {"require: {kl: \"<= 1\"}\nfallback: [{passes: [rtn]}]", "its whole path"},
    {"require: {kl: \"<= 1\"}\nfallback: [{seed: 1, output: x}]", "\"output\" stays"},
    {"require: {kl: \"<= 1\"}\nfallback: [{require.kl: \"<= 9\"}]", "\"require.kl\" stays"},
    {"require: {kl: \"<= 1\"}\nfallback: [{evaluate.0.kl.text: x}]", "\"evaluate.0.kl.text\""},
};

START_TEST(a_requirement_that_cannot_be_read_is_refused_with_its_place)
{
    pare_recipe r;
    ck_assert_int_eq(parse(refused[_i][0], &r), PARE_EUSAGE);
    ck_assert_msg(strncmp(cx.what, "r.yaml:", 7) == 0, "%s", cx.what);
    ck_assert_msg(strstr(cx.what, refused[_i][1]) != NULL, "%s", cx.what);
}
END_TEST

START_TEST(settings_of_a_fallback_are_sets)
{
    pare_recipe r;
    char *text;
    size_t len;
    ck_assert_int_eq(parse("require: {kl: \"<= 1\"}\n"
                           "fallback: [{passes.0.rtn.bits: 8}, {passes.0.rtn.bits: 8, seed: 2}]",
                           &r),
                     PARE_OK);
    ck_assert_uint_eq(r.fallbacks, 2);
    ck_assert_str_eq(r.fallback[0].item[0].text, "passes.0.rtn.bits=8");
    ck_assert_uint_eq(r.fallback[1].count, 2);
    ck_assert_str_eq(r.fallback[1].item[1].text, "seed=2");
    ck_assert_int_eq(pare_recipe_normalize(&cx, &arena, &r, recipe_passes, false, &text, &len),
                     PARE_OK);
    ck_assert_msg(strstr(text, "require:\n  kl: \"<= 1\"\nfallback:\n"
                               "  - passes.0.rtn.bits: \"8\"\n"
                               "  - passes.0.rtn.bits: \"8\"\n    seed: \"2\"\n") != NULL,
                  "%s", text);
    ck_assert_int_eq(pare_recipe_normalize(&cx, &arena, &r, recipe_passes, true, &text, &len),
                     PARE_OK);
    ck_assert_ptr_null(strstr(text, "require"));
}
END_TEST

/* As an evaluation of KL has them: 10 +- 0.3 before. */
static pare_gate_figures text(double perplexity, double kl, double top1)
{
    return (pare_gate_figures){.data = "text",
                               .has_perplexity = true,
                               .has_kl = true,
                               .perplexity = perplexity,
                               .error = 0.4,
                               .perplexity_before = 10,
                               .error_before = 0.3,
                               .kl = kl,
                               .top1 = top1};
}

static pare_gate_figures choice(double accuracy, double gained, double lost, double p)
{
    return (pare_gate_figures){
        .data = "choice", .share = {{"accuracy", accuracy, 0.5, gained, lost, p}}, .shares = 1};
}

static pare_gate_figures needle(double after, double before)
{
    return (pare_gate_figures){.data = "needle",
                               .task = pare_gate_needle,
                               .share = {{pare_gate_needle, after, before, 0, 0, 1}},
                               .shares = 1};
}

/* acc 0.5 before, acc_norm 0.6. */
static pare_gate_figures task(const char *name, double acc, double norm, double p)
{
    return (pare_gate_figures){
        .data = "file",
        .task = name,
        .share = {{"acc", acc, 0.5, 1, 0, p}, {"acc_norm", norm, 0.6, 3, 1, NAN}},
        .shares = 2};
}

START_TEST(a_verdict_is_of_all_figures)
{
    const struct {
        const char *requires;
        pare_gate_figures found;
        pare_gate_kind kind;
        const char *why;
    } all[] = {
        {"kl: \"<= 0.02\"", text(10, 0.02, 1), PARE_GATE_ACCEPT, "every requirement is kept"},
        {"kl: \"<= 0.02\"", text(10, 0.021, 1), PARE_GATE_REGRESSION,
         "kl <= 0.02 is not kept: 0.021 on text"},
        {"perplexity: \"<= +1%\"", text(10.0999, 1, 1), PARE_GATE_ACCEPT, "every"},
        {"perplexity: \"<= +1%\"", text(10.11, 1, 1), PARE_GATE_REGRESSION, "10.11 on text"},
        {"perplexity: \"<= 10\"", text(10.01, 1, 1), PARE_GATE_REGRESSION, "10.01 on text"},
        {"top1: \">= 0.97\"", text(10, 1, 0.96), PARE_GATE_REGRESSION, "0.96 on text"},
        {"choice: \">= 99%\"", choice(0.4949, 1, 2, 1), PARE_GATE_REGRESSION, "0.4949 on choice"},
        {"choice: \">= 99%\"", choice(0.4951, 1, 2, 1), PARE_GATE_ACCEPT, "every"},
        {"tasks.piqa: \">= 99%\"", task("piqa", 0.4951, 0, 1), PARE_GATE_ACCEPT, "every"},
        {"tasks.piqa: \">= 99%\"", task("piqa", 0.4949, 1, 1), PARE_GATE_REGRESSION,
         "tasks.piqa >= 99% is not kept: 0.4949 on file"},
        {"tasks.piqa.acc_norm: \">= 99%\"", task("piqa", 1, 0.59, 1), PARE_GATE_REGRESSION, "0.59"},
        {"tasks.boolq: \">= 99%\"", task("piqa", 0, 0, 1), PARE_GATE_ANOMALOUS,
         "no figure of tasks.boolq"},
        {"choice: \">= 99%\"", task("piqa", 0, 0, 1), PARE_GATE_ANOMALOUS, "no figure of choice"},
        {"kl: \"<= 1\", bytes: \"<= 1KB\"", choice(0.4, 5, 20, 1), PARE_GATE_ANOMALOUS,
         "no figure of kl"},
        {"tasks.piqa: \">= 1%\"", task("piqa", 1, 1, 0.01), PARE_GATE_ANOMALOUS, "(acc, p 0.01"},
        {"bytes: \"<= 999\"", text(10, 1, 1), PARE_GATE_REGRESSION, "is not kept: 1000 bytes"},
        /* Twice the error of the difference is 1. */
        {"kl: \"<= 9\"", text(9.01, 1, 1), PARE_GATE_ACCEPT, "every"},
        {"kl: \"<= 9\"", text(8.99, 1, 1), PARE_GATE_ANOMALOUS, "is lower than the 10.0000"},
        {"kl: \"<= 0.1\"", text(8.99, 1, 1), PARE_GATE_ANOMALOUS, "is lower than the 10.0000"},
        {"kl: \"<= 9\"", text(NAN, 1, 1), PARE_GATE_ANOMALOUS, "not finite"},
        {"kl: \"<= 9\"", text(10, NAN, 1), PARE_GATE_ANOMALOUS, "cannot be"},
        {"kl: \"<= 9\"", text(10, -0.1, 1), PARE_GATE_ANOMALOUS, "cannot be"},
        {"needle: \">= 90%\"", needle(0, 0), PARE_GATE_ANOMALOUS, "which is 0 on needle"},
        {"needle: \">= 90%\"", needle(0.1, 0), PARE_GATE_ANOMALOUS, "which is 0 on needle"},
        {"needle: \">= 90%\"", needle(0.45, 0.5), PARE_GATE_ACCEPT, "every"},
        {"needle: \">= 0.5\"", needle(0, 0), PARE_GATE_REGRESSION, "0 on needle"},
        {"choice: \">= 1%\"", choice(0.6, 20, 5, 0.004), PARE_GATE_ANOMALOUS, "20 items"},
        {"choice: \">= 1%\"", choice(0.4, 5, 20, 0.004), PARE_GATE_ACCEPT, "every"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pare_recipe r;
        pare_gate v;
        const char *why;
        char lines[128];
        (void)snprintf(lines, sizeof lines, "require: {%s}", all[i].requires);
        ck_assert_int_eq(parse(lines, &r), PARE_OK);
        ck_assert_int_eq(pare_gate_take(&arena, &r, &all[i].found, 1, 1000, &v), PARE_OK);
        ck_assert_int_eq(pare_gate_why(&arena, &v, &why), PARE_OK);
        ck_assert_msg(v.kind == all[i].kind, "%s: %s, %s", all[i].requires, pare_gate_name(v.kind),
                      why);
        ck_assert_msg(strstr(why, all[i].why) != NULL, "%s", why);
    }
}
END_TEST

START_TEST(bytes_are_known_before_the_work)
{
    pare_recipe r;
    pare_gate v;
    ck_assert_int_eq(parse("require: {kl: \"<= 1\", bytes: \"<= 1KB\"}", &r), PARE_OK);
    ck_assert_int_eq(pare_gate_of_bytes(&arena, &r, 1000, &v), PARE_OK);
    ck_assert_int_eq(v.kind, PARE_GATE_ACCEPT);
    ck_assert_uint_eq(v.checks, 1);
    ck_assert_int_eq(pare_gate_of_bytes(&arena, &r, 1001, &v), PARE_OK);
    ck_assert_int_eq(v.kind, PARE_GATE_INFEASIBLE);
}
END_TEST

int main(void)
{
    enum { TAKEN = sizeof taken / sizeof *taken, REFUSED = sizeof refused / sizeof *refused };
    Suite *const s = suite_create("gate");
    TCase *const t = tcase_create("gate");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_requirement_is_read, 0, TAKEN);
    tcase_add_loop_test(t, a_requirement_that_cannot_be_read_is_refused_with_its_place, 0, REFUSED);
    tcase_add_test(t, settings_of_a_fallback_are_sets);
    tcase_add_test(t, a_verdict_is_of_all_figures);
    tcase_add_test(t, bytes_are_known_before_the_work);
    suite_add_tcase(s, t);
    return unit_main(s);
}
