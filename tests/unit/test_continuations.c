#include "compress/evaluate/continuations.h"
#include "runtime/sample.h"
#include "tests/unit/prompt_stop.h"
#include "tests/unit/tiny.h"

enum { TOKENS = 600, WINDOW = 24, MOST = 60 };

/* A model, and one with another norm. */
typedef struct bench {
    tiny_home h;
    pare_model m[2];
    pare_forward f[2];
    int32_t *tokens;
    pare_continue_figures r[2];
} bench;

static void begin(bench *b, size_t threads)
{
    tiny_begin(&b->h, threads);
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

static pare_status evaluate(bench *b, const pare_continue_opts *o, size_t count, bool both)
{
    return pare_evaluate_continuations(&b->h.cx, &b->f[0], both ? &b->f[1] : NULL, o, b->tokens,
                                       count, b->r);
}

/* The continuation of prompt i of n, by itself; returns its length. */
static size_t write_one(bench *b, size_t side, const pare_continue_opts *o, size_t from, size_t i,
                        int32_t *text)
{
    int32_t all[TINY_CONTEXT];
    const size_t prompt = o->window / 2;
    const pare_generate_opts g = {.temperature = o->temperature,
                                  .seed = o->seed,
                                  .first = i,
                                  .sequences = 1,
                                  .length = prompt + o->most,
                                  .stop_at_eos = true};
    size_t length = 0;
    memcpy(all, b->tokens + from, prompt * sizeof *all);
    ck_assert_int_eq(pare_generate(&b->h.cx, &b->h.arena, &b->f[side], &g, prompt, all, NULL, NULL),
                     PARE_OK);
    memcpy(text, all + prompt, o->most * sizeof *text);
    while (length < o->most && text[length] != 2)
        length++;
    return length;
}

static size_t repeats(const int32_t *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 1; i + 4 <= length; i++)
        for (size_t j = 0; j < i; j++)
            if (memcmp(text + i, text + j, 4 * sizeof *text) == 0) {
                count++;
                break;
            }
    return count;
}

static const struct {
    pare_continue_opts o;
    size_t windows, prompts;
} plans[] = {
    {{WINDOW, 0, 20, MOST, 0, 0}, 25, 20},  {{WINDOW, 0, 99, MOST, 1, 7}, 25, 25},
    {{WINDOW, 10, 40, 30, 0.5, 3}, 58, 40}, {{WINDOW, 0, 1, 3, 1, 1}, 25, 1},
    {{2, 0, 17, MOST, 1.5, 2}, 300, 17},
};

/* Sums by prompts one at a time. */
START_TEST(figures_are_those_of_each_prompt_by_itself)
{
    const pare_continue_opts *const o = &plans[_i].o;
    const size_t n = plans[_i].prompts, step = o->stride ? o->stride : o->window;
    pare_continue_figures want[2] = {{.prompts = 0}};
    bench b;
    begin(&b, 3);
    ck_assert_int_eq(evaluate(&b, o, TOKENS, true), PARE_OK);
    for (size_t i = 0; i < n; i++) {
        int32_t text[2][TINY_CONTEXT];
        size_t length[2], same = 0;
        for (size_t s = 0; s < 2; s++) {
            length[s] = write_one(&b, s, o, i * plans[_i].windows / n * step, i, text[s]);
            want[s].length += length[s];
            want[s].endless += length[s] == o->most;
            want[s].grams += length[s] > 3 ? length[s] - 3 : 0;
            want[s].repeated += repeats(text[s], length[s]);
        }
        while (same < o->most && text[0][same] == text[1][same])
            same++;
        want->differ += same < o->most;
        want->first_apart += same < o->most ? same : 0;
        want->length_apart += length[0] > length[1] ? length[0] - length[1] : length[1] - length[0];
    }
    for (size_t s = 0; s < 2; s++) {
        const pare_continue_figures *const r = &b.r[s];
        ck_assert(r->complete && r->prompts == n && r->length == want[s].length);
        ck_assert(r->endless == want[s].endless && r->grams == want[s].grams);
        ck_assert_uint_eq(r->repeated, want[s].repeated);
    }
    ck_assert(b.r->has_baseline && !b.r[1].has_baseline);
    ck_assert_uint_eq(b.r->differ, want->differ);
    ck_assert_uint_eq(b.r->first_apart, want->first_apart);
    ck_assert_uint_eq(b.r->length_apart, want->length_apart);
    if (_i == 0) /* greedy: it repeats itself, and differs from the other */
        ck_assert(b.r->repeated > 0 && b.r->differ > 0);
    if (_i == 1)
        ck_assert(b.r->endless > 0 && b.r->endless < n);
    tiny_end(&b.h);
}
END_TEST

START_TEST(a_model_beside_itself_writes_the_same)
{
    const pare_continue_opts o = {WINDOW, 0, 18, MOST, _i, 4};
    bench b;
    pare_continue_figures alone;
    begin(&b, 1);
    ck_assert_int_eq(evaluate(&b, &o, TOKENS, false), PARE_OK);
    alone = b.r[0];
    ck_assert(!alone.has_baseline && b.r[1].prompts == 0);
    b.f[1] = b.f[0];
    ck_assert_int_eq(evaluate(&b, &o, TOKENS, true), PARE_OK);
    ck_assert(b.r->length == alone.length && b.r[1].length == alone.length);
    ck_assert(b.r->repeated == alone.repeated && b.r->endless == alone.endless);
    const pare_continue_means m = pare_continue_means_of(&b.r[0]);
    ck_assert(m.same >= 1 && m.length_apart <= 0 && isnan(m.first_apart));
    tiny_end(&b.h);
}
END_TEST

START_TEST(means_follow_from_sums)
{
    const pare_continue_figures f = {.prompts = 8,
                                     .length = 100,
                                     .endless = 2,
                                     .grams = 80,
                                     .repeated = 20,
                                     .length_apart = 12,
                                     .differ = 6,
                                     .first_apart = 33};
    const pare_continue_means m = pare_continue_means_of(&f);
    ck_assert_double_eq_tol(m.length, 12.5, 1e-12);
    ck_assert_double_eq_tol(m.endless, .25, 1e-12);
    ck_assert_double_eq_tol(m.repeated, .25, 1e-12);
    ck_assert_double_eq_tol(m.length_apart, 1.5, 1e-12);
    ck_assert_double_eq_tol(m.same, .25, 1e-12);
    ck_assert_double_eq_tol(m.first_apart, 5.5, 1e-12);
}
END_TEST

START_TEST(an_interrupt_leaves_the_prompts_that_both_are_done_with)
{
    const pare_continue_opts o = {WINDOW, 0, 25, MOST, 1, 0};
    prompt_stop s = {.what = "continuing prompts", .prompts = 17};
    bench b;
    begin(&b, 2);
    prompt_stop_watch(&b.h.cx, &s);
    ck_assert_int_eq(evaluate(&b, &o, TOKENS, true), PARE_EINTERRUPTED);
    ck_assert(b.r[0].prompts == 16 && b.r[1].prompts == 16 && !b.r[0].complete);
    tiny_end(&b.h);
}
END_TEST

START_TEST(what_cannot_be_continued_is_refused)
{
    const pare_continue_opts o = {WINDOW, 0, 4, MOST, 0, 0}, one = {1, 0, 4, MOST, 0, 0};
    const pare_continue_opts longer = {WINDOW, 0, 4, TINY_CONTEXT, 0, 0};
    bench b;
    begin(&b, 1);
    ck_assert_int_eq(evaluate(&b, &o, WINDOW - 1, true), PARE_EINVAL);
    ck_assert_str_eq(b.h.cx.what, "23 tokens for 4 prompts of windows of 24");
    ck_assert_int_eq(evaluate(&b, &one, TOKENS, true), PARE_EINVAL);
    ck_assert_int_eq(evaluate(&b, &longer, TOKENS, true), PARE_EINVAL);
    float *const norm = tiny_ones(&b.h.arena, 5, b.m[1].config.hidden);
    norm[0] = NAN;
    b.m[1].norm = norm;
    ck_assert_int_eq(evaluate(&b, &o, TOKENS, true), PARE_ENUMERIC);
    ck_assert_msg(strstr(b.h.cx.what, "by the baseline") != NULL, "%s", b.h.cx.what);
    tiny_end(&b.h);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    const pare_continue_opts o = {WINDOW, 0, 2, 4, 0, 0};
    bench b;
    begin(&b, 1);
    pare_ctx *const cx = &b.h.cx;
    const pare_alloc plain = cx->alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_ctx_clear(cx);
        cx->alloc = (pare_alloc){unit_failing_resize, &failing};
        s = evaluate(&b, &o, WINDOW * 3, true);
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
    Suite *const s = suite_create("continuations");
    TCase *const c = tcase_create("continuations");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, figures_are_those_of_each_prompt_by_itself, 0,
                        sizeof plans / sizeof *plans);
    tcase_add_loop_test(c, a_model_beside_itself_writes_the_same, 0, 2);
    tcase_add_test(c, means_follow_from_sums);
    tcase_add_test(c, an_interrupt_leaves_the_prompts_that_both_are_done_with);
    tcase_add_test(c, what_cannot_be_continued_is_refused);
    tcase_add_test(c, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, c);
    return unit_main(s);
}
