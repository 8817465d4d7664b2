#include "runtime/sample.h"
#include "tests/unit/tiny.h"

START_TEST(temperature_0_takes_the_first_largest_logit)
{
    const float logits[] = {-1, 3, 2, 3, NAN};
    ck_assert_int_eq(pare_sample(logits, 5, 0, 0.99), 1);
}
END_TEST

START_TEST(draws_follow_the_softmax_at_the_temperature)
{
    enum { DRAWS = 20000 };
    const float logits[] = {0, 1, 2, -INFINITY, 3};
    const double temperature = _i == 0 ? 1 : 0.5 * _i;
    double p[5], total = 0;
    size_t seen[5] = {0};
    for (size_t i = 0; i < 5; i++)
        total += p[i] = exp((double)logits[i] / temperature);
    for (uint64_t i = 0; i < DRAWS; i++)
        seen[pare_sample(logits, 5, temperature, pare_random_unit(1, 2, i))]++;
    /* five standard deviations of a binomial count */
    for (size_t i = 0; i < 5; i++) {
        const double mean = DRAWS * p[i] / total;
        ck_assert_double_le(fabs((double)seen[i] - mean), 5 * sqrt(mean) + 1e-9);
    }
    ck_assert_int_eq(pare_sample(logits, 5, temperature, 0), 0);
    ck_assert_int_eq(pare_sample(logits, 5, temperature, 1 - 0x1p-53), 4);
}
END_TEST

START_TEST(logits_without_a_distribution_give_no_token)
{
    const float sick[][3] = {
        {1, NAN, 2}, {1, INFINITY, 2}, {NAN, NAN, NAN}, {-INFINITY, -INFINITY, -INFINITY}};
    for (size_t i = 0; i < sizeof sick / sizeof *sick; i++) {
        ck_assert_int_eq(pare_sample(sick[i], 3, 1, 0.5), -1);
        ck_assert_int_eq(pare_sample(sick[i], 3, 0, 0.5), i == 0 ? 2 : -1);
    }
}
END_TEST

static void filter(const pare_sample_filter *f, float *logits, double temperature,
                   const int32_t *seen, size_t count)
{
    pare_sample_entry order[6];
    pare_sample_filter_run(f, logits, 6, temperature, seen, count, order);
}

/* Bit i: token i may be drawn. */
static unsigned left(const float *logits)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < 6; i++)
        bits |= isfinite(logits[i]) ? 1u << i : 0;
    return bits;
}

/* Probabilities at temperature 1: 1/2, 1/4, 1/8, 1/16, 1/32, 1/32 in the order 3 0 5 1 2 4. */
static const float halves[] = {-1.3862944F, -2.7725887F, -3.4657359F,
                               -0.6931472F, -3.4657359F, -2.0794415F};

/* What transformers 5.24 keeps of these rows (its TopKLogitsWarper, TopPLogitsWarper,
 * MinPLogitsWarper); the row of all three has the masks one after the other. */
static const struct kept {
    pare_sample_filter f;
    double temperature;
    unsigned left;
} kepts[] = {
    {{0, 0, 0, 0}, 1, 0x3f},     {{0, 1, 0, 0}, 1, 0x08},     {{0, 3, 0, 0}, 1, 0x29},
    {{0, 5, 0, 0}, 1, 0x3f}, /* the last two are equal */
    {{0, 99, 0, 0}, 1, 0x3f},    {{0, 0, 0.7, 0}, 1, 0x09},   {{0, 0, 0.76, 0}, 1, 0x29},
    {{0, 0, 0.01, 0}, 1, 0x08},  {{0, 0, 1, 0}, 1, 0x3f},     {{0, 0, 0.95, 0}, 1, 0x3b},
    {{0, 0, 0.7, 0}, 2, 0x29},   {{0, 0, 0, 0.2}, 1, 0x29},   {{0, 0, 0, 0.2}, 0.5, 0x09},
    {{0, 0, 0, 1}, 1, 0x08},     {{0, 4, 0.8, 0.4}, 1, 0x09}, {{0, 2, 0.5, 0}, 1, 0x08},
    {{0, 1, 0.5, 0.5}, 0, 0x3f}, /* greedy */
};

START_TEST(filters_keep_what_transformers_keeps)
{
    const struct kept *const k = &kepts[_i];
    float row[6];
    memcpy(row, halves, sizeof row);
    filter(&k->f, row, k->temperature, NULL, 0);
    ck_assert_uint_eq(left(row), k->left);
    for (size_t i = 0; i < 6; i++)
        ck_assert(isinf(row[i]) || row[i] == halves[i]);
}
END_TEST

START_TEST(repeated_tokens_are_penalized_once_towards_less)
{
    float row[] = {2, -2, 4, 0, -INFINITY, 1};
    const float want[] = {1, -4, 4, 0, -INFINITY, 1};
    const int32_t seen[] = {0, 1, 0, 4, 3};
    const pare_sample_filter f = {.repetition = 2};
    filter(&f, row, 1, seen, 5);
    ck_assert_mem_eq(row, want, sizeof row);
    const pare_sample_filter both = {.repetition = 8, .top_k = 1};
    const int32_t large[] = {2};
    filter(&both, row, 1, large, 1); /* 4 / 8 is no longer the largest: two equal ones are */
    ck_assert_uint_eq(left(row), 0x21);
}
END_TEST

START_TEST(rows_without_a_distribution_are_left_to_the_draw)
{
    float row[] = {1, NAN, 2, 0, 0, 0}, empty[6];
    const pare_sample_filter f = {.repetition = 2, .top_k = 1};
    const int32_t seen[] = {0};
    filter(&f, row, 1, seen, 1);
    ck_assert_float_eq(row[0], 1);
    for (size_t i = 0; i < 6; i++)
        empty[i] = -INFINITY;
    filter(&f, empty, 1, seen, 1);
    ck_assert_int_eq(pare_sample(empty, 6, 1, 0.5), -1);
    ck_assert(!pare_sample_filter_valid(&(pare_sample_filter){.top_p = 1.5}));
    ck_assert(!pare_sample_filter_valid(&(pare_sample_filter){.repetition = -1}));
    ck_assert(!pare_sample_filter_valid(&(pare_sample_filter){.min_p = NAN}));
}
END_TEST

/* Sequences of a fresh context; result [sequences, length] in a static buffer. */
static const int32_t *run(size_t threads, tiny_kind kind, pare_generate_opts opts, size_t prompt)
{
    static int32_t tokens[40 * TINY_CONTEXT];
    tiny_home h;
    tiny_begin(&h, threads);
    const pare_model m = tiny_model(&h.arena, kind);
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, TINY_CONTEXT, false, &f), PARE_OK);
    for (size_t i = 0; i < opts.sequences; i++)
        memcpy(tokens + i * opts.length, tiny_tokens(&h.arena, opts.first + i, prompt),
               prompt * sizeof *tokens);
    ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &opts, prompt, tokens, NULL, NULL),
                     PARE_OK);
    tiny_end(&h);
    return tokens;
}

START_TEST(a_sequence_depends_on_seed_and_number_only)
{
    enum { LENGTH = 30, N = 70, ONE = 67 }; /* logits are formed for 64 sequences at a time */
    static int32_t all[N * LENGTH];
    const tiny_kind kind = tiny_kinds[_i];
    pare_generate_opts opts = {1.0, 3, 10, N, LENGTH, false, NULL, 0, NULL};
    memcpy(all, run(1, kind, opts, 4), sizeof all);
    ck_assert_mem_eq(all, run(3, kind, opts, 4), sizeof all);
    opts.first += ONE;
    opts.sequences = 1;
    ck_assert_mem_eq(all + ONE * LENGTH, run(2, kind, opts, 4), LENGTH * sizeof *all);
    opts.seed = 4;
    ck_assert_mem_ne(all + ONE * LENGTH, run(2, kind, opts, 4), LENGTH * sizeof *all);
}
END_TEST

/* Logits in front of each position of tokens [length], by the model of a kind. */
static const float *logits_of(tiny_home *h, const pare_forward *f, const int32_t *t, size_t length)
{
    const pare_model *const m = f->model;
    pare_kv kv;
    float *const x = tiny_take(&h->arena, length, m->config.hidden * sizeof *x);
    float *const logits = tiny_take(&h->arena, length, TINY_VOCAB * sizeof *logits);
    ck_assert_int_eq(pare_kv_take(&h->arena, &m->config, 1, length, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed(&h->cx, m, t, length, x), PARE_OK);
    ck_assert_int_eq(
        pare_model_forward(&h->cx, &h->arena, f, (pare_batch){1, length, 0}, x, &kv, 1), PARE_OK);
    ck_assert_int_eq(pare_logits(&h->cx, &h->arena, f, x, NULL, length, logits), PARE_OK);
    return logits;
}

START_TEST(each_token_is_drawn_from_the_logits_before_it)
{
    enum { LENGTH = TINY_CONTEXT, PROMPT = 3 };
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    pare_forward f;
    const int32_t *const t = run(
        2, tiny_kinds[0], (pare_generate_opts){0.8, 3, 7, 1, LENGTH, false, NULL, 0, NULL}, PROMPT);
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
    const float *const logits = logits_of(&h, &f, t, LENGTH);
    for (size_t p = PROMPT; p < LENGTH; p++)
        ck_assert_int_eq(t[p], pare_sample(logits + (p - 1) * TINY_VOCAB, TINY_VOCAB, 0.8,
                                           pare_random_unit(3, 7, p)));
    tiny_end(&h);
}
END_TEST

/* With a share of 1 and 0, too. */
START_TEST(each_token_of_two_models_is_drawn_from_one_of_them)
{
    enum { LENGTH = TINY_CONTEXT, PROMPT = 3, N = 5 };
    static const double shares[] = {0, 0.3, 1};
    static int32_t tokens[2][N * LENGTH];
    size_t from[2] = {0}, told = 0;
    for (size_t threads = 1; threads <= 2; threads++) {
        tiny_home h;
        tiny_begin(&h, threads);
        const pare_model m[] = {tiny_model(&h.arena, tiny_kinds[0]),
                                tiny_model(&h.arena, tiny_kinds[6])}; /* 2 bits */
        pare_forward f[2];
        for (size_t i = 0; i < 2; i++)
            ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m[i], LENGTH, false, &f[i]),
                             PARE_OK);
        const pare_generate_opts o = {.temperature = 0.8,
                                      .seed = 3,
                                      .first = 7,
                                      .sequences = N,
                                      .length = LENGTH,
                                      .other = &f[1],
                                      .share = shares[_i]};
        int32_t *const t = tokens[threads - 1];
        for (size_t i = 0; i < N; i++)
            memcpy(t + i * LENGTH, tiny_tokens(&h.arena, i, PROMPT), PROMPT * sizeof *t);
        ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f[0], &o, PROMPT, t, NULL, NULL), PARE_OK);
        for (size_t i = 0; threads == 2 && i < N; i++) {
            const float *const logits[] = {logits_of(&h, &f[0], t + i * LENGTH, LENGTH),
                                           logits_of(&h, &f[1], t + i * LENGTH, LENGTH)};
            for (size_t p = PROMPT; p < LENGTH; p++) {
                const double u = pare_random_unit(3, 7 + i, p);
                int32_t wanted[2];
                for (size_t k = 0; k < 2; k++)
                    wanted[k] = pare_sample(logits[k] + (p - 1) * TINY_VOCAB, TINY_VOCAB, 0.8, u);
                const int32_t is = t[i * LENGTH + p];
                ck_assert(is == wanted[0] || is == wanted[1]);
                told += wanted[0] != wanted[1];
                from[0] += wanted[0] != wanted[1] && is == wanted[0];
                from[1] += wanted[0] != wanted[1] && is == wanted[1];
            }
        }
        tiny_end(&h);
    }
    ck_assert_mem_eq(tokens[0], tokens[1], sizeof tokens[0]);
    ck_assert_uint_gt(told, 200);
    ck_assert_double_le(fabs((double)from[1] / (double)told - shares[_i]), 0.08 * (_i == 1));
}
END_TEST

START_TEST(an_end_token_fills_the_rest_only_when_asked)
{
    enum { LENGTH = TINY_CONTEXT, N = 40 };
    static int32_t open[N * LENGTH], closed[N * LENGTH];
    pare_generate_opts opts = {1.5, 1, 0, N, LENGTH, false, NULL, 0, NULL};
    memcpy(open, run(2, tiny_kinds[0], opts, 1), sizeof open);
    opts.stop_at_eos = true;
    memcpy(closed, run(2, tiny_kinds[0], opts, 1), sizeof closed);
    size_t ended = 0, resumed = 0;
    for (size_t i = 0; i < N; i++) {
        bool done = false;
        for (size_t p = 1; p < LENGTH; p++) {
            const int32_t a = open[i * LENGTH + p], b = closed[i * LENGTH + p];
            ck_assert_int_eq(b, done ? 2 : a);
            resumed += done && a != 2;
            done |= b == 2;
        }
        ended += done;
    }
    ck_assert(ended > 0 && ended < N && resumed > 0);
}
END_TEST

/* Counts columns and stops at one. */
typedef struct listener {
    size_t next, stop_at;
} listener;

static pare_status listen(void *self, size_t position)
{
    listener *const l = self;
    ck_assert_uint_eq(position, l->next++);
    return position == l->stop_at ? PARE_EIO : PARE_OK;
}

START_TEST(every_new_position_is_shown_and_may_end_it)
{
    tiny_home h;
    tiny_begin(&h, 1);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    pare_forward f;
    int32_t tokens[20] = {1, 2, 3};
    const pare_generate_opts opts = {.sequences = 1, .length = 20};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 20, false, &f), PARE_OK);
    listener l = {3, 99};
    ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &opts, 3, tokens, listen, &l), PARE_OK);
    ck_assert_uint_eq(l.next, 20);
    l = (listener){3, 7};
    ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &opts, 3, tokens, listen, &l), PARE_EIO);
    ck_assert_uint_eq(l.next, 8);
    tiny_end(&h);
}
END_TEST

static const struct refusal {
    pare_generate_opts opts;
    size_t prompt;
    const char *what;
} refusals[] = {
    {{0, 0, 0, 1, TINY_CONTEXT + 1, false, NULL, 0, NULL},
     1,
     "97 tokens asked for, this model takes 96"},
    {{0, 0, 0, 1, 10, false, NULL, 0, NULL}, 0, "a prompt of 0 tokens in a sequence of 10"},
    {{0, 0, 0, 1, 10, false, NULL, 0, NULL}, 11, "a prompt of 11 tokens in a sequence of 10"},
    {{0, 0, 0, 0, 10, false, NULL, 0, NULL}, 1, "0 sequences at temperature 0"},
    {{-1, 0, 0, 1, 10, false, NULL, 0, NULL}, 1, "1 sequences at temperature -1"},
    {{0, 0, 0, 1, 10, false, NULL, 0, NULL}, 2, "token 1 is 53; this model knows 0 to 52"},
};

START_TEST(impossible_wishes_are_refused_with_their_numbers)
{
    tiny_home h;
    tiny_begin(&h, 1);
    const struct refusal *const r = &refusals[_i];
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    pare_forward f;
    int32_t tokens[TINY_CONTEXT + 1] = {1, TINY_VOCAB};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, TINY_CONTEXT, false, &f), PARE_OK);
    ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &r->opts, r->prompt, tokens, NULL, NULL),
                     PARE_EINVAL);
    ck_assert_str_eq(h.cx.what, r->what);
    tiny_end(&h);
}
END_TEST

START_TEST(an_interrupt_ends_a_generation)
{
    tiny_home h;
    tiny_begin(&h, 1);
    const volatile int interrupts = 1;
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    pare_forward f;
    int32_t tokens[10] = {1};
    const pare_generate_opts opts = {.sequences = 1, .length = 10};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 10, false, &f), PARE_OK);
    h.cx.interrupt = &interrupts;
    ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &opts, 1, tokens, NULL, NULL),
                     PARE_EINTERRUPTED);
    tiny_end(&h);
}
END_TEST

/* The norm of the last block overflows for every token. */
START_TEST(a_model_that_overflows_gives_no_text)
{
    tiny_home h;
    tiny_begin(&h, 2);
    pare_model m = tiny_model(&h.arena, tiny_kinds[_i]);
    float *const norm = tiny_ones(&h.arena, 1, m.config.hidden);
    norm[3] = INFINITY;
    m.block[1].norm[1] = norm;
    pare_forward f;
    int32_t tokens[2 * 10] = {1};
    tokens[10] = 1;
    const pare_generate_opts opts = {.first = 5, .sequences = 2, .length = 10, .temperature = 1};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 10, false, &f), PARE_OK);
    ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &opts, 1, tokens, NULL, NULL),
                     PARE_ENUMERIC);
    ck_assert_str_eq(h.cx.what,
                     "the logits of sequence 5 at position 1 are not finite: a weight is not, "
                     "or activations overflow; \"pare verify\" finds damaged files");
    tiny_end(&h);
}
END_TEST

/* One block of scratch serves all tokens: the number of requests does not grow with them. */
START_TEST(nothing_is_allocated_per_token)
{
    long requests[2];
    for (size_t i = 0; i < 2; i++) {
        tiny_home h;
        tiny_begin(&h, 3);
        const pare_model m = tiny_model(&h.arena, tiny_kinds[_i / 2]);
        pare_forward f;
        int32_t tokens[5 * TINY_CONTEXT] = {1};
        const pare_generate_opts opts = {.sequences = 5,
                                         .length = i ? TINY_CONTEXT : TINY_CONTEXT / 2};
        ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, TINY_CONTEXT, _i % 2 != 0, &f),
                         PARE_OK);
        const pare_alloc plain = h.cx.alloc;
        pare_arena scratch;
        unit_failing count = {.left = 1000};
        h.cx.alloc = (pare_alloc){unit_failing_resize, &count};
        ck_assert_int_eq(pare_arena_init(&h.cx, &scratch, 1 << 22), PARE_OK);
        ck_assert_int_eq(pare_generate(&h.cx, &scratch, &f, &opts, 3, tokens, NULL, NULL), PARE_OK);
        pare_arena_release(&scratch);
        requests[i] = 1000 - count.left;
        h.cx.alloc = plain;
        tiny_end(&h);
    }
    ck_assert_int_eq(requests[0], 2);
    ck_assert_int_eq(requests[1], 2);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    pare_forward f;
    int32_t tokens[64 * 12] = {1};
    const pare_generate_opts opts = {.sequences = 64, .length = 12, .temperature = 1};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 12, false, &f), PARE_OK);
    const pare_alloc plain = h.cx.alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena scratch = {.cx = &h.cx};
        pare_ctx_clear(&h.cx);
        h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_generate(&h.cx, &scratch, &f, &opts, 1, tokens, NULL, NULL);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && h.cx.what[0]));
        pare_arena_release(&scratch);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 3);
    h.cx.alloc = plain;
    tiny_end(&h);
}
END_TEST

/* With top-k 1 every draw is the greedy one; a penalty that large repeats nothing. */
START_TEST(generation_draws_through_the_filter)
{
    enum { N = 3, LENGTH = 20, PROMPT = 4 };
    const pare_sample_filter one = {.top_k = 1}, penalty = {.repetition = 1e30};
    pare_generate_opts opts = {0, 3, 0, N, LENGTH, false, NULL, 0, NULL};
    int32_t greedy[N * LENGTH];
    memcpy(greedy, run(1, tiny_kinds[0], opts, PROMPT), sizeof greedy);
    opts.temperature = 1;
    opts.filter = &one;
    ck_assert_mem_eq(run(2, tiny_kinds[0], opts, PROMPT), greedy, sizeof greedy);
    for (int t = 0; t < 2; t++) {
        opts.temperature = t;
        opts.filter = &penalty;
        const int32_t *const drawn = run(2, tiny_kinds[0], opts, PROMPT);
        size_t positive_again = 0;
        for (size_t i = 0; i < N; i++)
            for (size_t p = PROMPT + 1; p < LENGTH; p++)
                positive_again += drawn[i * LENGTH + p] == drawn[i * LENGTH + p - 1];
        ck_assert_uint_eq(positive_again, 0);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sample");
    TCase *const c = tcase_create("sample");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, temperature_0_takes_the_first_largest_logit);
    tcase_add_loop_test(c, filters_keep_what_transformers_keeps, 0, sizeof kepts / sizeof *kepts);
    tcase_add_test(c, generation_draws_through_the_filter);
    tcase_add_test(c, repeated_tokens_are_penalized_once_towards_less);
    tcase_add_test(c, rows_without_a_distribution_are_left_to_the_draw);
    tcase_add_loop_test(c, draws_follow_the_softmax_at_the_temperature, 0, 4);
    tcase_add_test(c, logits_without_a_distribution_give_no_token);
    tcase_add_loop_test(c, a_model_that_overflows_gives_no_text, 0, TINY_KINDS);
    tcase_add_loop_test(c, nothing_is_allocated_per_token, 0, TINY_KINDS * 2);
    tcase_add_loop_test(c, a_sequence_depends_on_seed_and_number_only, 0, TINY_KINDS);
    tcase_add_test(c, each_token_is_drawn_from_the_logits_before_it);
    tcase_add_loop_test(c, each_token_of_two_models_is_drawn_from_one_of_them, 0, 3);
    tcase_add_test(c, an_end_token_fills_the_rest_only_when_asked);
    tcase_add_test(c, every_new_position_is_shown_and_may_end_it);
    tcase_add_loop_test(c, impossible_wishes_are_refused_with_their_numbers, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(c, an_interrupt_ends_a_generation);
    tcase_add_test(c, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, c);
    return unit_main(s);
}
