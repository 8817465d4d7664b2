#include "compress/evaluate/drafts.h"
#include "runtime/sample.h"
#include "tests/unit/prompt_stop.h"
#include "tests/unit/tiny.h"

enum { TOKENS = 500, WINDOW = 24 };

/* A model, and a draft with other weights in its last block. */
typedef struct bench {
    tiny_home h;
    pare_model m[2];
    pare_forward f[2];
    int32_t *tokens;
} bench;

static void begin(bench *b)
{
    tiny_begin(&b->h, 2);
    pare_arena *const a = &b->h.arena;
    for (size_t i = 0; i < 2; i++) {
        b->m[i] = tiny_model(a, tiny_kinds[3]);
        if (i)
            b->m[i].norm = tiny_ones(a, 78, b->m[i].config.hidden);
        ck_assert_int_eq(pare_forward_init(&b->h.cx, a, &b->m[i], TINY_CONTEXT, false, &b->f[i]),
                         PARE_OK);
    }
    b->tokens = tiny_tokens(a, 99, TOKENS);
}

static pare_status evaluate(bench *b, const pare_draft_opts *opts, size_t count,
                            pare_draft_result *r)
{
    *r = (pare_draft_result){.draft = "draft"};
    return pare_evaluate_draft(&b->h.cx, &b->f[0], &b->f[1], opts, b->tokens, count, r);
}

static const struct {
    size_t window, stride, count;
    size_t windows, prompts, prompt, continued;
} plans[] = {
    {24, 0, 500, 20, 16, 12, 12}, /* 16 of 20 windows */
    {24, 10, 500, 48, 16, 12, 12}, {25, 0, 60, 2, 2, 12, 13},
    {96, 0, 96, 1, 1, 48, 48},     {2, 0, 7, 3, 3, 1, 1},
};

/* The counts are those of each prompt alone, from windows that are spread evenly. */
START_TEST(prompts_are_the_beginnings_of_windows)
{
    const size_t window = plans[_i].window, prompt = plans[_i].prompt;
    const size_t step = plans[_i].stride ? plans[_i].stride : window;
    const pare_draft_opts opts = {window, plans[_i].stride, 3, 0.9, 5};
    bench b;
    pare_draft_result r;
    pare_speculate_counts c = {0};
    int32_t tokens[TINY_CONTEXT];
    begin(&b);
    ck_assert_int_eq(evaluate(&b, &opts, plans[_i].count, &r), PARE_OK);
    ck_assert_uint_eq(r.prompts, plans[_i].prompts);
    ck_assert_uint_eq(r.prompt, prompt);
    ck_assert_uint_eq(r.continued, plans[_i].continued);
    ck_assert_uint_eq(r.both.tokens, r.prompts * r.continued);
    ck_assert_uint_eq(r.alone_steps, r.prompts * (r.continued - 1));
    ck_assert(r.complete && strcmp(r.draft, "draft") == 0);
    for (size_t i = 0; i < r.prompts; i++) {
        const size_t at = i * plans[_i].windows / r.prompts * step;
        const pare_speculate_opts one = {0.9, {5, i}, 3, prompt + r.continued};
        memcpy(tokens, b.tokens + at, prompt * sizeof *tokens);
        ck_assert_int_eq(
            pare_speculate_run(&b.h.cx, &b.h.arena, &b.f[0], &b.f[1], &one, prompt, tokens, &c),
            PARE_OK);
    }
    ck_assert_uint_eq(c.accepted, r.both.accepted);
    ck_assert_uint_eq(c.examined, r.both.examined);
    ck_assert_double_eq(c.overlap, r.both.overlap);
    tiny_end(&b.h);
}
END_TEST

START_TEST(greedy_tokens_are_compared)
{
    const pare_draft_opts opts = {.window = WINDOW, .drafted = 4};
    bench b;
    pare_draft_result r;
    begin(&b);
    ck_assert_int_eq(evaluate(&b, &opts, TOKENS, &r), PARE_OK);
    ck_assert_uint_eq(r.prompts, PARE_DRAFT_PROMPTS);
    ck_assert(r.both.accepted > 0 && r.both.accepted < r.both.examined);
    tiny_end(&b.h);
}
END_TEST

START_TEST(figures_follow_from_counts_and_times)
{
    const pare_draft_result r = {.both = {.tokens = 40,
                                          .passes = 10,
                                          .examined = 35,
                                          .accepted = 28,
                                          .overlap = 27.3,
                                          .draft_steps = 40,
                                          .full_passes = 8,
                                          .seconds = 0.2,
                                          .draft_seconds = 0.1,
                                          .full_seconds = 0.12},
                                 .alone_steps = 50,
                                 .alone_seconds = 0.5};
    const pare_draft_figures f = pare_draft_figures_of(&r);
    ck_assert_double_eq_tol(f.acceptance, .8, 1e-12);
    ck_assert_double_eq_tol(f.overlap, .78, 1e-12);
    ck_assert_double_eq_tol(f.tokens_per_pass, 4, 1e-12);
    ck_assert_double_eq_tol(f.tpot_ms, 5, 1e-12);
    ck_assert_double_eq_tol(f.alone_tpot_ms, 10, 1e-12);
    ck_assert_double_eq_tol(f.speedup, 2, 1e-12);
    ck_assert_double_eq_tol(f.draft_cost, .25, 1e-12);
    ck_assert_double_eq_tol(f.pass_cost, 1.5, 1e-12);
    const pare_draft_figures none = pare_draft_figures_of(&(pare_draft_result){.prompts = 0});
    ck_assert(isnan(none.acceptance) && isnan(none.speedup) && isnan(none.pass_cost));
}
END_TEST

START_TEST(an_interrupt_leaves_the_prompts_that_were_done)
{
    const pare_draft_opts opts = {.window = WINDOW, .drafted = 4, .temperature = 1};
    prompt_stop s = {.what = "drafting", .prompts = 3};
    bench b;
    pare_draft_result r;
    begin(&b);
    prompt_stop_watch(&b.h.cx, &s);
    ck_assert_int_eq(evaluate(&b, &opts, TOKENS, &r), PARE_EINTERRUPTED);
    ck_assert_uint_eq(r.prompts, 3);
    ck_assert_uint_eq(r.both.tokens, 3 * r.continued);
    ck_assert(!r.complete);
    tiny_end(&b.h);
}
END_TEST

START_TEST(a_text_below_a_window_is_refused)
{
    const pare_draft_opts opts = {.window = WINDOW, .drafted = 4}, one = {.window = 1};
    bench b;
    pare_draft_result r;
    begin(&b);
    ck_assert_int_eq(evaluate(&b, &opts, WINDOW - 1, &r), PARE_EINVAL);
    ck_assert_str_eq(b.h.cx.what, "23 tokens for prompts of windows of 24");
    ck_assert_int_eq(evaluate(&b, &one, TOKENS, &r), PARE_EINVAL);
    tiny_end(&b.h);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    const pare_draft_opts opts = {.window = WINDOW, .drafted = 2};
    bench b;
    pare_draft_result r;
    begin(&b);
    pare_ctx *const cx = &b.h.cx;
    const pare_alloc plain = cx->alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_ctx_clear(cx);
        cx->alloc = (pare_alloc){unit_failing_resize, &failing};
        s = evaluate(&b, &opts, WINDOW, &r);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && cx->what[0]));
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 3);
    cx->alloc = plain;
    tiny_end(&b.h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("drafts");
    TCase *const c = tcase_create("drafts");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, prompts_are_the_beginnings_of_windows, 0, sizeof plans / sizeof *plans);
    tcase_add_test(c, greedy_tokens_are_compared);
    tcase_add_test(c, figures_follow_from_counts_and_times);
    tcase_add_test(c, an_interrupt_leaves_the_prompts_that_were_done);
    tcase_add_test(c, a_text_below_a_window_is_refused);
    tcase_add_test(c, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, c);
    return unit_main(s);
}
