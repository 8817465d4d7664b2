/* Orders of channels: the assignment against every order, what is kept against counting, and that
 * it is never less than before. */
#include "prune/permute.h"

#include "tests/unit/quant_case.h"

enum { MOST = 7 };

static double best_of(const double *gain, size_t n, size_t row, unsigned used)
{
    double best = -INFINITY;
    if (row == n)
        return 0;
    for (size_t j = 0; j < n; j++)
        if (!(used >> j & 1))
            best = fmax(best, gain[row * n + j] + best_of(gain, n, row + 1, used | 1u << j));
    return best;
}

START_TEST(the_assignment_is_the_best_of_all)
{
    double gain[MOST * MOST];
    uint32_t column[MOST];
    for (uint64_t seed = 0; seed < 60; seed++) {
        const size_t n = 1 + seed % MOST;
        for (size_t i = 0; i < n * n; i++)
            gain[i] = seed % 3 ? pare_random_normal(seed, 1, i)
                               : (double)(pare_random_u64(seed, 2, i) % 3); /* many ties */
        ck_assert_int_eq(pare_permute_assign(&arena, gain, n, column), PARE_OK);
        unsigned seen = 0;
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_lt(column[i], n);
            seen |= 1u << column[i];
            sum += gain[i * n + column[i]];
        }
        ck_assert_uint_eq(seen, (1u << n) - 1);
        ck_assert_double_le(fabs(sum - best_of(gain, n, 0, 0)), 1e-9);
    }
}
END_TEST

/* Scores of neighbours that are alike: large channels lie together. */
static float *scores(size_t channels, size_t rows)
{
    float *const t = take(channels * rows, sizeof *t);
    for (size_t c = 0; c < channels; c++)
        for (size_t r = 0; r < rows; r++)
            t[c * rows + r] = fabsf((float)pare_random_normal(5, c, r)) *
                              (float)(1 + c / 4 * 7 % 5) * (r % 3 == c / 4 % 3 ? 4 : 1);
    return t;
}

/* Sum of what N:M keeps, by sorting each group. */
static double kept_by_sorting(const float *t, size_t channels, size_t rows, unsigned keep,
                              unsigned of, const uint32_t *order)
{
    double sum = 0;
    for (size_t g = 0; g < channels; g += of)
        for (size_t r = 0; r < rows; r++) {
            float v[64];
            for (size_t p = 0; p < of; p++)
                v[p] = t[(order ? order[g + p] : g + p) * rows + r];
            for (size_t i = 0; i < keep; i++) {
                size_t top = i;
                for (size_t j = i; j < of; j++)
                    top = v[j] > v[top] ? j : top;
                const float x = v[i];
                v[i] = v[top];
                v[top] = x;
                sum += (double)v[i];
            }
        }
    return sum;
}

typedef struct order_case {
    unsigned keep, of;
    size_t channels, rows, span;
} order_case;

static const order_case cases[] = {{2, 4, 64, 30, 64}, {2, 4, 64, 30, 16}, {1, 4, 32, 5, 0},
                                   {3, 5, 35, 17, 9},  {4, 8, 48, 40, 48}, {2, 4, 4, 9, 64},
                                   {1, 2, 40, 33, 10}};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(more_is_kept_and_the_sums_are_true)
{
    const order_case *const c = &cases[_i];
    const float *const t = scores(c->channels, c->rows);
    const pare_permute_opts opts = {c->keep, c->of, c->span};
    uint32_t order[64], first[64];
    double kept[2];
    for (size_t threads = 1; threads <= 3; threads++) {
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_int_eq(
            pare_permute_choose(&cx, &arena, &opts, t, c->channels, c->rows, order, kept), PARE_OK);
        if (threads == 1)
            memcpy(first, order, c->channels * sizeof *order);
        ck_assert_mem_eq(first, order, c->channels * sizeof *order);
    }
    uint64_t seen = 0;
    for (size_t i = 0; i < c->channels; i++)
        seen |= 1ULL << order[i];
    ck_assert_uint_eq(seen, c->channels == 64 ? UINT64_MAX : (1ULL << c->channels) - 1);
    const double before = kept_by_sorting(t, c->channels, c->rows, c->keep, c->of, NULL);
    const double after = kept_by_sorting(t, c->channels, c->rows, c->keep, c->of, order);
    ck_assert_double_le(fabs(kept[0] - before), 1e-9 * before);
    ck_assert_double_le(fabs(kept[1] - after), 1e-9 * after);
    if (c->channels == c->of)
        ck_assert_double_eq(kept[0], kept[1]); /* one group alone */
    else
        ck_assert_double_gt(after, 1.02 * before);
}
END_TEST

/* The assignment adds to what the allocation reaches. */
START_TEST(assignment_keeps_more_than_allocation_alone)
{
    const float *const t = scores(64, 30);
    uint32_t order[64];
    double dealt[2], assigned[2];
    pare_permute_opts opts = {2, 4, 0};
    ck_assert_int_eq(pare_permute_choose(&cx, &arena, &opts, t, 64, 30, order, dealt), PARE_OK);
    opts.span = 64;
    ck_assert_int_eq(pare_permute_choose(&cx, &arena, &opts, t, 64, 30, order, assigned), PARE_OK);
    ck_assert_double_gt(assigned[1], 1.005 * dealt[1]);
}
END_TEST

/* The last place was shared out best: no two groups gain by trading their channels there. */
START_TEST(no_trade_at_the_last_place_gains)
{
    const order_case *const c = &cases[_i];
    const float *const t = scores(c->channels, c->rows);
    const pare_permute_opts opts = {c->keep, c->of, c->channels};
    uint32_t order[64];
    double kept[2];
    ck_assert_int_eq(pare_permute_choose(&cx, &arena, &opts, t, c->channels, c->rows, order, kept),
                     PARE_OK);
    for (size_t g = c->of - 1; g < c->channels; g += c->of)
        for (size_t h = c->of - 1; h < g; h += c->of) {
            uint32_t traded[64];
            memcpy(traded, order, sizeof traded);
            traded[g] = order[h];
            traded[h] = order[g];
            const double sum = kept_by_sorting(t, c->channels, c->rows, c->keep, c->of, traded);
            ck_assert_double_le(sum, kept[1] * (1 + 1e-9));
        }
}
END_TEST

/* By falling sums: first place of each group in turn, second place backwards, and so on. */
START_TEST(channels_are_dealt_forth_and_back)
{
    enum { GROUPS = 4, OF = 4, CHANNELS = GROUPS * OF };
    static const uint32_t rank[CHANNELS] = {0, 7, 8, 15, 1, 6, 9, 14, 2, 5, 10, 13, 3, 4, 11, 12};
    const pare_permute_opts opts = {2, OF, 0};
    float score[CHANNELS];
    uint32_t order[CHANNELS];
    double kept[2];
    for (size_t c = 0; c < CHANNELS; c++)
        score[c] = (float)c;
    ck_assert_int_eq(pare_permute_choose(&cx, &arena, &opts, score, CHANNELS, 1, order, kept),
                     PARE_OK);
    for (size_t i = 0; i < CHANNELS; i++)
        ck_assert_uint_eq(order[i], CHANNELS - 1 - rank[i]);
}
END_TEST

/* Where each group has exactly two channels that matter nothing can be gained. */
START_TEST(channels_stay_where_nothing_is_gained)
{
    float *const t = take((size_t)32 * 6, sizeof *t);
    uint32_t order[32];
    double kept[2];
    const pare_permute_opts opts = {2, 4, 32};
    for (size_t c = 0; c < 32; c++)
        for (size_t r = 0; r < 6; r++)
            t[c * 6 + r] = c % 4 < 2 ? 1 : 0;
    ck_assert_int_eq(pare_permute_choose(&cx, &arena, &opts, t, 32, 6, order, kept), PARE_OK);
    for (uint32_t c = 0; c < 32; c++)
        ck_assert_uint_eq(order[c], c);
    ck_assert_double_eq(kept[0], kept[1]);
    ck_assert_int_eq(pare_permute_choose(&cx, &arena, &opts, t, 30, 6, order, kept), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "30 channels are no whole groups of 4"));
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const float *const t = scores(64, 30);
    const pare_permute_opts opts = {2, 4, 64};
    uint32_t order[64];
    double kept[2];
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status s = pare_permute_choose(&failing, &a, &opts, t, 64, 30, order, kept);
        done = s == PARE_OK;
        ck_assert(done || s == PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(left.live, 0);
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("permute");
    TCase *const t = tcase_create("permute");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, the_assignment_is_the_best_of_all);
    tcase_add_loop_test(t, more_is_kept_and_the_sums_are_true, 0, CASES);
    tcase_add_loop_test(t, no_trade_at_the_last_place_gains, 0, CASES);
    tcase_add_test(t, assignment_keeps_more_than_allocation_alone);
    tcase_add_test(t, channels_are_dealt_forth_and_back);
    tcase_add_test(t, channels_stay_where_nothing_is_gained);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
