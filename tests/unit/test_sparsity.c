/* Against sorting: every rule, shapes with tails, scores with many ties, any number of threads. */
#include <math.h>
#include <stdlib.h>

#include "solve/sparsity.h"
#include "tests/unit/quant_case.h"

typedef struct shape_case {
    size_t n, k;
    unsigned levels; /* different scores, 0: normal */
} shape_case;

static const shape_case shapes[] = {{1, 1, 0},      {1, 70, 3},   {5, 9, 0},
                                    {7, 64, 2},     {33, 40, 1},  {64, 172, 0},
                                    {130, 300, 50}, {3, 2100, 4}, {3000, 40, 0}};

static const pare_sparsity rules[] = {
    {.ratio = 0.5},
    {.ratio = 0.29},
    {.ratio = 0.999},
    {.ratio = 0.001},
    {.ratio = 0.5, .by_row = true},
    {.ratio = 0.3, .by_row = true},
    {.keep = 2, .of = 4},
    {.keep = 4, .of = 8},
    {.keep = 1, .of = 4},
    {.keep = 3, .of = 5},
    {.keep = 63, .of = 64},
};

enum { SHAPES = sizeof shapes / sizeof *shapes, RULES = sizeof rules / sizeof *rules };

static float *scores(const shape_case *c)
{
    float *const x = take(c->n * c->k, sizeof *x);
    for (size_t i = 0; i < c->n * c->k; i++)
        x[i] = c->levels ? (float)(pare_random_u64(4, 5, i) % c->levels) * 0.25F
                         : fabsf((float)pare_random_normal(4, 5, i));
    return x;
}

/* An entry of a set that is compared. */
typedef struct entry {
    float score; /* 0 for all that count as equal to the cut, which are drawn among */
    int where;   /* below, among or above them */
    uint64_t draw, index;
} entry;

static int by_going(const void *left, const void *right)
{
    const entry *const a = left, *const b = right;
    if (a->where != b->where)
        return a->where - b->where;
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    if (a->draw != b->draw)
        return a->draw < b->draw ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Sorts the entries [at, at + count) of the matrix; the first `gone` go. */
static void sort_set(const pare_sparsity *s, const float *score, size_t at, size_t count,
                     size_t gone, uint8_t *keep)
{
    entry *const set = take(count, sizeof *set);
    for (size_t i = 0; i < count; i++) {
        const uint64_t draw = pare_random_u64(s->seed, 0x7469657300000000 + s->tensor, at + i);
        set[i] = (entry){score[at + i], 0, s->random_ties ? draw : 0, at + i};
    }
    qsort(set, count, sizeof *set, by_going);
    const double cut = gone ? (double)set[gone - 1].score : 0;
    const float low = (float)(cut * (1 - s->tie_width)), high = (float)(cut * (1 + s->tie_width));
    for (size_t i = 0; i < count && s->tie_width > 0; i++) {
        set[i].where = set[i].score < low ? -1 : set[i].score > high;
        set[i].score = set[i].where ? set[i].score : 0;
    }
    qsort(set, count, sizeof *set, by_going);
    for (size_t i = 0; i < count; i++)
        keep[set[i].index] = i >= gone;
}

static uint8_t *by_sorting(const pare_sparsity *s, const float *score, size_t n, size_t k)
{
    uint8_t *const keep = take(n * k, 1);
    const size_t set = s->of ? s->of : k;
    if (!s->of && !s->by_row) {
        sort_set(s, score, 0, n * k, (size_t)floor(s->ratio * (double)(n * k) + 1e-9), keep);
        return keep;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j += set) {
            const size_t t = k - j < set ? k - j : set;
            const size_t stay = (size_t)ceil((double)s->keep * (double)t / (double)set);
            const size_t gone = s->of ? t - stay : (size_t)floor(s->ratio * (double)k + 1e-9);
            sort_set(s, score, i * k + j, t, gone, keep);
        }
    return keep;
}

static uint64_t ones(const uint8_t *keep, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += keep[i];
    return sum;
}

static uint8_t *choose(const pare_sparsity *s, const float *score, size_t n, size_t k)
{
    uint8_t *const keep = take(n * k, 1);
    memset(keep, 9, n * k);
    ck_assert_msg(pare_sparsity_choose(&cx, &arena, s, score, n, k, keep) == PARE_OK, "%s",
                  cx.what);
    return keep;
}

START_TEST(equals_sorting_and_keeps_what_was_said)
{
    static const double width[] = {0, 0.1, 1};
    pare_sparsity s = rules[_i];
    for (size_t v = 0; v < 3 * SHAPES; v++) {
        const shape_case *const c = &shapes[v / 3];
        const float *const score = scores(c);
        s.random_ties = v % 3 > 0;
        s.tie_width = width[v % 3];
        s.seed = 77;
        s.tensor = v;
        const uint8_t *const want = by_sorting(&s, score, c->n, c->k);
        for (size_t threads = 1; threads <= 3; threads++) {
            pare_pool_free(&cx, cx.pool);
            cx.pool = NULL;
            ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
            const uint8_t *const keep = choose(&s, score, c->n, c->k);
            ck_assert_mem_eq(keep, want, c->n * c->k);
            ck_assert_uint_eq(ones(keep, c->n * c->k), pare_sparsity_kept(&s, c->n, c->k));
        }
    }
}
END_TEST

START_TEST(counts_follow_from_shape_and_rule)
{
    static const struct {
        pare_sparsity s;
        size_t n, k;
        uint64_t kept;
    } of[] = {
        {{.keep = 2, .of = 4}, 64, 172, 5504},
        {{.keep = 4, .of = 8}, 64, 172, 5504},
        {{.keep = 1, .of = 4}, 3, 7, 6},
        {{.keep = 3, .of = 5}, 1, 6, 4},
        {{.ratio = 0.29}, 10, 10, 71},
        {{.ratio = 0.5}, 3, 3, 5},
        {{.ratio = 0.5, .by_row = true}, 3, 3, 6},
        {{.ratio = 0.1}, 1, 9, 9},
        {{.ratio = 0.7}, 100000, 100000, 3000000000u},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        ck_assert_uint_eq(pare_sparsity_kept(&of[i].s, of[i].n, of[i].k), of[i].kept);
}
END_TEST

START_TEST(equal_scores_go_in_order_or_by_the_seed)
{
    enum { N = 6, K = 50 };
    const shape_case c = {N, K, 1};
    const float *const score = scores(&c);
    pare_sparsity s = {.ratio = 0.5};
    const uint8_t *const plain = choose(&s, score, N, K);
    for (size_t i = 0; i < N * K; i++)
        ck_assert_uint_eq(plain[i], i >= N * K / 2);
    s.random_ties = true;
    const uint8_t *const first = choose(&s, score, N, K), *const again = choose(&s, score, N, K);
    ck_assert_mem_eq(first, again, N * K);
    s.seed = 1;
    ck_assert_mem_ne(first, choose(&s, score, N, K), N * K);
    s.seed = 0;
    s.tensor = 1;
    ck_assert_mem_ne(first, choose(&s, score, N, K), N * K);
    const uint64_t half = ones(first, N * K / 2); /* about as many as in the other half */
    ck_assert_uint_gt(half, 55);
    ck_assert_uint_lt(half, 95);
}
END_TEST

/* Scores 1 .. 1000 in a mixed order, of which half go: 500 is the cut. */
static uint8_t *half_of_a_thousand(pare_sparsity *s, bool random, double width, uint64_t seed)
{
    float *const score = take(1000, sizeof *score);
    for (size_t i = 0; i < 1000; i++)
        score[i] = (float)(i * 7 % 1000 + 1);
    s->random_ties = random;
    s->tie_width = width;
    s->seed = seed;
    return choose(s, score, 8, 125);
}

START_TEST(near_scores_are_drawn_among_and_no_others)
{
    pare_sparsity s = {.ratio = 0.5};
    size_t went[1001] = {0};
    for (size_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(half_of_a_thousand(&s, false, 0, 0)[i], i * 7 % 1000 + 1 > 500);
    ck_assert_mem_eq(half_of_a_thousand(&s, true, 0, 1), half_of_a_thousand(&s, false, 0, 0), 1000);
    for (uint64_t seed = 0; seed < 200; seed++) {
        const uint8_t *const keep = half_of_a_thousand(&s, true, 0.1, seed);
        ck_assert_uint_eq(ones(keep, 1000), 500);
        for (size_t i = 0; i < 1000; i++)
            went[i * 7 % 1000 + 1] += !keep[i];
    }
    /* 450 .. 550 are drawn among: 51 of 101 go, each in 200 draws about 101 times (standard
     * deviation 7.1). */
    for (size_t x = 1; x <= 1000; x++)
        if (x < 450 || x > 550)
            ck_assert_uint_eq(went[x], x < 450 ? 200 : 0);
        else
            ck_assert_msg(went[x] > 65 && went[x] < 137, "%zu: %zu", x, went[x]);
}
END_TEST

START_TEST(parts_lose_together_what_the_matrix_loses)
{
    enum { N = 13, K = 77 };
    const shape_case c = {N, K, 0};
    const float *const score = scores(&c);
    for (size_t v = 0; v < 2; v++) {
        const pare_sparsity s = {.ratio = 0.37, .by_row = v};
        uint64_t sum = 0;
        for (size_t c0 = 0, count; c0 < K; c0 += count) {
            count = K - c0 < 32 ? K - c0 : 32;
            float *const part = take(N * count, sizeof *part);
            uint8_t *const keep = take(N * count, 1), *const want = take(N * count, 1);
            for (size_t i = 0; i < N * count; i++)
                part[i] = score[i / count * K + c0 + i % count];
            const pare_sparsity_part p = {.n = N, .k = K, .c0 = c0, .count = count};
            ck_assert_int_eq(pare_sparsity_choose_part(&cx, &arena, &s, &p, part, keep), PARE_OK);
            sum += ones(keep, N * count);
            const size_t sets = v ? N : 1, set = N * count / sets;
            const size_t rows = N / sets;
            for (size_t i = 0; i < sets; i++)
                sort_set(&s, part, i * set, set,
                         (size_t)(0.37 * (double)(rows * (c0 + count))) -
                             (size_t)(0.37 * (double)(rows * c0)),
                         want);
            ck_assert_mem_eq(keep, want, N * count);
        }
        ck_assert_uint_eq(sum, pare_sparsity_kept(&s, N, K));
    }
    const pare_sparsity pattern = {.keep = 2, .of = 4};
    const pare_sparsity_part p = {.n = 1, .k = 4, .count = 4};
    uint8_t keep[4];
    ck_assert_int_eq(pare_sparsity_choose_part(&cx, &arena, &pattern, &p, score, keep),
                     PARE_EINVAL);
    ck_assert_str_eq(cx.what, "pattern 2:4 is chosen group by group");
}
END_TEST

START_TEST(a_part_draws_as_the_matrix_does)
{
    enum { N = 9, K = 50, C0 = 30, COUNT = 20 };
    const shape_case c = {N, COUNT, 1};
    const pare_sparsity s = {.ratio = 0.5, .by_row = true, .random_ties = true, .seed = 3};
    const pare_sparsity_part p = {.n = N, .k = K, .c0 = C0, .count = COUNT};
    uint8_t keep[N * COUNT];
    ck_assert_int_eq(pare_sparsity_choose_part(&cx, &arena, &s, &p, scores(&c), keep), PARE_OK);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < COUNT; j++) {
            size_t before = 0;
            for (size_t l = 0; l < COUNT; l++)
                before += pare_random_u64(3, 0x7469657300000000, i * K + C0 + l) <
                          pare_random_u64(3, 0x7469657300000000, i * K + C0 + j);
            ck_assert_uint_eq(keep[i * COUNT + j], before >= 10);
        }
}
END_TEST

START_TEST(rules_and_scores_that_make_no_sense_are_refused)
{
    static const pare_sparsity bad[] = {
        {.ratio = 0},         {.ratio = 1},         {.ratio = -0.5},      {.ratio = NAN},
        {.keep = 0, .of = 4}, {.keep = 4, .of = 4}, {.keep = 5, .of = 4}, {.keep = 2, .of = 65}};
    static const float value[] = {NAN, INFINITY, -1};
    enum { N = 40, K = 30 };
    const shape_case c = {N, K, 0};
    float *const score = scores(&c);
    uint8_t *const keep = take(N * K, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_sparsity_choose(&cx, &arena, &bad[i], score, N, K, keep),
                         PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx.what, bad[i].of ? "is not N:M with" : "between 0 and 1"));
    }
    for (size_t i = 0; i < 3; i++) {
        const pare_sparsity wide = {.keep = 2,
                                    .of = 4,
                                    .tie_width = i == 0   ? 1.1
                                                 : i == 1 ? -0.1
                                                          : NAN};
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_sparsity_choose(&cx, &arena, &wide, score, N, K, keep), PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx.what, "tie_width "));
    }
    score[31 * K + 4] = -2;
    for (size_t r = 0; r < RULES; r++) {
        pare_ctx_clear(&cx);
        score[30 * K + 7] = value[r % 3];
        ck_assert_int_eq(pare_sparsity_choose(&cx, &arena, &rules[r], score, N, K, keep),
                         PARE_ENUMERIC);
        ck_assert_ptr_nonnull(strstr(cx.what, "row 30, input 7: score "));
    }
    score[30 * K + 7] = score[31 * K + 4] = -0.0F; /* a zero */
    (void)choose(&rules[0], score, N, K);
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const shape_case c = {9, 40, 3};
    const float *const score = scores(&c);
    uint8_t *const keep = take(9, 40);
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing f = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status s = pare_sparsity_choose(&failing, &a, &rules[0], score, 9, 40, keep);
        done = s == PARE_OK;
        ck_assert(done || s == PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sparsity");
    TCase *const t = tcase_create("sparsity");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, equals_sorting_and_keeps_what_was_said, 0, RULES);
    tcase_add_test(t, counts_follow_from_shape_and_rule);
    tcase_add_test(t, equal_scores_go_in_order_or_by_the_seed);
    tcase_add_test(t, near_scores_are_drawn_among_and_no_others);
    tcase_add_test(t, parts_lose_together_what_the_matrix_loses);
    tcase_add_test(t, a_part_draws_as_the_matrix_does);
    tcase_add_test(t, rules_and_scores_that_make_no_sense_are_refused);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
