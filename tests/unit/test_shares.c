#include <math.h>

#include "calib/moments.h"
#include "calib/shares.h"
#include "calib/stats.h"
#include "calib/wave.h"
#include "runtime/random.h"
#include "tests/unit/folder.h"
#include "tests/unit/tiny.h"

enum { WINDOWS = 19, WINDOW = 4, K = 70, BATCH = 5, ROWS = 2 * BATCH /* of a share */ };

START_TEST(shares_follow_each_other_and_differ_by_one_window_at_most)
{
    for (size_t n = 0; n < 70; n++) {
        ck_assert_uint_eq(pare_share_begin(n, 0), 0);
        ck_assert_uint_eq(pare_share_begin(n, PARE_SHARES), n);
        size_t most = 0;
        for (size_t s = 0; s < PARE_SHARES; s++) {
            const size_t begin = pare_share_begin(n, s), end = pare_share_begin(n, s + 1);
            ck_assert_uint_eq(begin, n * s / 8);
            ck_assert(end - begin == n / 8 || end - begin == (n + 7) / 8);
            most = end - begin > most ? end - begin : most;
            for (size_t w = begin; w < end; w++)
                ck_assert_uint_eq(pare_share_end(n, w), end);
        }
        ck_assert_uint_eq(pare_share_largest(n), most);
    }
    ck_assert_uint_eq(pare_share_begin(SIZE_MAX, PARE_SHARES), SIZE_MAX);
}
END_TEST

/* What a wave tells: the rows in front of each end of a share. */
typedef struct told {
    size_t rows, most, ends, end[PARE_SHARES], lasts;
} told;

static pare_status count(void *self, size_t part, pare_site site, const float *x, size_t rows,
                         size_t k)
{
    told *const t = self;
    (void)part, (void)site, (void)x, (void)k;
    t->rows += rows;
    t->most = rows > t->most ? rows : t->most;
    return PARE_OK;
}

static void end_share(void *self, bool last)
{
    told *const t = self;
    ck_assert_uint_lt(t->ends, PARE_SHARES);
    t->end[t->ends++] = t->rows;
    t->lasts += last;
    ck_assert(!last || t->rows == WINDOWS * WINDOW || t->rows == 3 * WINDOW);
}

static void run_wave(tiny_home *home, size_t windows, told *t)
{
    pare_ctx *const cx = &home->cx;
    pare_arena *const a = &home->arena;
    pare_model model = tiny_model(a, tiny_kinds[0]);
    pare_forward f;
    pare_wave wave;
    ck_assert_int_eq(pare_forward_init(cx, a, &model, WINDOW, true, &f), PARE_OK);
    ck_assert_int_eq(
        pare_wave_open_part(cx, a, windows, 0, windows, WINDOW, model.config.hidden, NULL, &wave),
        PARE_OK);
    wave.batch = 2;
    ck_assert_int_eq(pare_wave_embed(cx, a, &wave, &model, tiny_tokens(a, 1, windows * WINDOW)),
                     PARE_OK);
    const pare_tap tap = {
        .see = count, .self = t, .last = PARE_SITE_ATTENTION, .parts = 1, .share = end_share};
    ck_assert_int_eq(pare_wave_run(cx, a, &wave, &f, &model.block[0], &tap, "counting"), PARE_OK);
    pare_wave_close(&wave);
}

START_TEST(a_wave_ends_its_batches_with_the_shares_and_tells_of_them)
{
    tiny_home home;
    told t = {0};
    tiny_begin(&home, 2);
    run_wave(&home, WINDOWS, &t);
    ck_assert_uint_eq(t.ends, PARE_SHARES);
    for (size_t s = 0; s < PARE_SHARES; s++)
        ck_assert_uint_eq(t.end[s], pare_share_begin(WINDOWS, s + 1) * WINDOW);
    ck_assert_uint_eq(t.lasts, 1);
    ck_assert_uint_eq(t.most, 2 * WINDOW);
    t = (told){0};
    run_wave(&home, 3, &t); /* five shares are empty */
    ck_assert_uint_eq(t.ends, 3);
    ck_assert_uint_eq(t.lasts, 1);
    tiny_end(&home);
}
END_TEST

/* Statistics of random inputs at one site: [ROWS, K] for each share. */
typedef struct input {
    float x[PARE_SHARES][ROWS * K], y[PARE_SHARES][ROWS * K], weight[PARE_SHARES * ROWS];
} input;

static void fill(input *in)
{
    for (size_t s = 0; s < PARE_SHARES; s++)
        for (size_t i = 0; i < ROWS * K; i++) {
            in->x[s][i] = (float)pare_random_normal(1, 1, s * ROWS * K + i);
            in->y[s][i] = in->x[s][i] + 0.1F * (float)pare_random_normal(1, 2, s * ROWS * K + i);
        }
    for (size_t i = 0; i < PARE_SHARES * ROWS; i++)
        in->weight[i] = 0.5F + (float)(i % 7);
}

static void take(tiny_home *home, const pare_config *c, bool bf16, const float *weight,
                 pare_stats *s)
{
    const unsigned all = PARE_STATS_HESSIAN | PARE_STATS_HELD | PARE_STATS_CHANNELS |
                         PARE_STATS_DRIFT | PARE_STATS_SAMPLE | (bf16 ? PARE_STATS_BF16 : 0);
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_ACTIVATED] = all};
    pare_arena *const a = &home->arena;
    ck_assert_int_eq(pare_stats_take(&home->cx, a, c, 0, kinds, PARE_SHARES * ROWS, s), PARE_OK);
    ck_assert_int_eq(pare_stats_take_drift(a, kinds, NULL, s), PARE_OK);
    ck_assert_int_eq(pare_stats_drift_room(a, ROWS, s), PARE_OK);
    ck_assert_uint_eq(s->site[PARE_SITE_ACTIVATED].k, K);
    s->held_from = 2;
    s->site[PARE_SITE_ACTIVATED].weight = weight;
}

static void add(pare_stats *s, const float *y, const float *x)
{
    const pare_tap floats = pare_stats_float_tap(s), tap = pare_stats_tap(s);
    ck_assert(!floats.share);
    for (size_t at = 0; at < ROWS * K; at += BATCH * K) {
        ck_assert_int_eq(floats.see(floats.self, 0, PARE_SITE_ACTIVATED, y + at, BATCH, K),
                         PARE_OK);
        ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_ACTIVATED, x + at, BATCH, K), PARE_OK);
    }
}

/* sum + p in the order of shares. */
static void join(pare_site_stats *sum, const pare_site_stats *p)
{
    for (size_t i = 0; i < (size_t)K * K; i++) {
        sum->h[i] = sum->h[i] + p->h[i];
        sum->held[i] = sum->held[i] + p->held[i];
        sum->drift.d[i] = sum->drift.d[i] + p->drift.d[i];
    }
    for (size_t j = 0; j < K; j++) {
        sum->fourth[j] = sum->fourth[j] + p->fourth[j];
        sum->sum[j] = sum->sum[j] + p->sum[j];
        sum->abs_sum[j] = sum->abs_sum[j] + p->abs_sum[j];
    }
    sum->loudness.sum += p->loudness.sum;
}

START_TEST(statistics_are_sums_of_shares_in_their_order)
{
    static input in;
    tiny_home home;
    tiny_begin(&home, 1 + (size_t)_i % 2 * 2);
    const pare_model model = tiny_model(&home.arena, tiny_kinds[0]);
    pare_stats all, want;
    const bool bf16 = _i > 1;
    fill(&in);
    take(&home, &model.config, bf16, in.weight, &all);
    take(&home, &model.config, bf16, in.weight, &want);
    pare_site_stats *const a = &all.site[PARE_SITE_ACTIVATED];
    pare_site_stats *const w = &want.site[PARE_SITE_ACTIVATED];
    const pare_tap tap = pare_stats_tap(&all);
    for (size_t s = 0; s < PARE_SHARES; s++) {
        pare_stats part;
        take(&home, &model.config, bf16, in.weight + s * ROWS, &part);
        part.held_from = s ? 0 : 2;
        add(&part, in.y[s], in.x[s]);
        join(w, &part.site[PARE_SITE_ACTIVATED]);
        add(&all, in.y[s], in.x[s]);
        tap.share(tap.self, s + 1 == PARE_SHARES);
    }
    const size_t square = sizeof(float) * K * K;
    ck_assert_mem_eq(a->h, w->h, square); /* 0 above the diagonal, too */
    ck_assert_mem_eq(a->held, w->held, square);
    ck_assert_mem_eq(a->drift.d, w->drift.d, square);
    ck_assert_mem_eq(a->fourth, w->fourth, sizeof(double) * K);
    ck_assert_mem_eq(a->sum, w->sum, sizeof(double) * K);
    ck_assert_mem_eq(a->abs_sum, w->abs_sum, sizeof(double) * K);
    ck_assert(a->loudness.sum == w->loudness.sum);
    for (size_t j = 0; j < K; j++)
        ck_assert(a->mean[j] == (float)(w->sum[j] / (PARE_SHARES * ROWS)));
    ck_assert(a->h[0] > 0 && a->held[0] > 0 && a->h[0] > a->held[0]);
    tiny_end(&home);
}
END_TEST

/* Rows of a share, as an expert sees them: none in the first process, nor in some others. */
static size_t rows_of(size_t share, bool expert)
{
    return expert && (share < 2 || share == 4 || share == 7) ? 0 : ROWS;
}

static size_t rows_before(size_t share, bool expert)
{
    size_t rows = 0;
    for (size_t s = 0; s < share; s++)
        rows += rows_of(s, expert);
    return rows;
}

/* Three processes: the second and third send their shares to the first. */
START_TEST(shares_that_are_sent_make_the_same_statistics)
{
    static input in;
    const bool bf16 = _i % 2, expert = _i / 2;
    tiny_home home;
    tiny_begin(&home, 2);
    const pare_model model = tiny_model(&home.arena, tiny_kinds[0]);
    pare_stats all, sent;
    fill(&in);
    for (size_t s = 0; s < PARE_SHARES; s++)
        for (size_t i = 0; i < ROWS; i++) /* 0 is outside their range */
            in.x[s][i * K] = fabsf(in.x[s][i * K]) + 1;
    take(&home, &model.config, bf16, in.weight, &all);
    take(&home, &model.config, bf16, in.weight, &sent);
    all.held_from = sent.held_from = 3 * ROWS + 2;
    const pare_site_stats *const a = &all.site[PARE_SITE_ACTIVATED];
    const pare_site_stats *const b = &sent.site[PARE_SITE_ACTIVATED];
    const size_t bytes = pare_stats_share_bytes(&all);
    const pare_tap tap = pare_stats_tap(&all), other = pare_stats_tap(&sent);
    for (size_t s = 0; s < PARE_SHARES; s++) {
        if (rows_of(s, expert))
            add(&all, in.y[s], in.x[s]);
        tap.share(tap.self, s + 1 == PARE_SHARES);
    }
    for (size_t r = 0; r < 3; r++) {
        size_t first, end;
        pare_stats own;
        pare_share_range(3, r, &first, &end);
        ck_assert_uint_eq(end - first, r ? 3 : 2);
        take(&home, &model.config, bf16, in.weight, &own);
        own.held_from = sent.held_from;
        unsigned char *const room = tiny_take(&home.arena, end - first, bytes);
        pare_stats_share_begin(&own, rows_before(first, expert));
        own.kept = room;
        const pare_tap its = pare_stats_tap(&own);
        for (size_t s = first; s < end; s++) {
            pare_stats *const to = r ? &own : &sent; /* the first needs to send nothing */
            if (rows_of(s, expert))
                add(to, in.y[s], in.x[s]);
            if (r)
                its.share(its.self, false);
            else
                other.share(other.self, false);
        }
        for (size_t s = first; r && s < end; s++) {
            ck_assert_int_eq(
                pare_stats_share_put(&sent, room + (s - first) * bytes, rows_of(s, expert)),
                PARE_OK);
            other.share(other.self, s + 1 == PARE_SHARES);
        }
        ck_assert(!r || own.kept == room + (end - first) * bytes);
    }
    ck_assert_uint_eq(b->tokens, rows_before(PARE_SHARES, expert));
    ck_assert_uint_eq(b->samples, a->samples);
    ck_assert_mem_eq(b->h, a->h, sizeof(float) * K * K);
    ck_assert_mem_eq(b->held, a->held, sizeof(float) * K * K);
    ck_assert_mem_eq(b->drift.d, a->drift.d, sizeof(float) * K * K);
    ck_assert_mem_eq(b->sample, a->sample, sizeof(float) * K * a->samples);
    ck_assert_mem_eq(b->fourth, a->fourth, sizeof(double) * K);
    const float *const left[] = {a->min, a->max, a->absmax, a->mean, a->absmean};
    const float *const right[] = {b->min, b->max, b->absmax, b->mean, b->absmean};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        ck_assert_mem_eq(left[i], right[i], sizeof(float) * K);
    ck_assert(a->loudness.sum == b->loudness.sum && a->loudness.most == b->loudness.most);
    tiny_end(&home);
}
END_TEST

START_TEST(processes_have_all_shares_in_order_and_no_more_than_told)
{
    for (size_t size = 1; size < 12; size++) {
        size_t at = 0, begin, end;
        for (size_t r = 0; r < size; r++) {
            pare_share_range(size, r, &begin, &end);
            ck_assert_uint_eq(begin, at);
            ck_assert_uint_le(end - begin, pare_share_most(size));
            ck_assert(end > begin || r >= PARE_SHARES);
            for (size_t n = 0; n < 20; n++)
                ck_assert_uint_le(pare_share_begin(n, end) - pare_share_begin(n, begin),
                                  pare_share_windows(n, size));
            at = end;
        }
        ck_assert_uint_eq(at, PARE_SHARES);
    }
    ck_assert_uint_eq(pare_share_windows(21, 1), 21);
    ck_assert_uint_eq(pare_share_windows(21, 3), 8);
}
END_TEST

START_TEST(moments_are_sums_of_shares_in_their_order)
{
    static input in;
    tiny_home home;
    tiny_begin(&home, 2);
    const pare_model model = tiny_model(&home.arena, tiny_kinds[0]);
    pare_moments m;
    fill(&in);
    ck_assert_int_eq(
        pare_moments_take(&home.cx, &home.arena, &model.config, PARE_SITE_ACTIVATED, &m), PARE_OK);
    const pare_tap tap = pare_moments_tap(&m);
    double want = 0, squares = 0;
    for (size_t s = 0; s < PARE_SHARES; s++) {
        double sum = 0, square = 0;
        for (size_t i = 0; i < ROWS; i++) {
            const double v = (double)in.x[s][i * K + 3];
            sum += v;
            square += v * v;
        }
        want += sum;
        squares += square;
        ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_ACTIVATED, in.x[s], ROWS, K), PARE_OK);
        tap.share(tap.self, s + 1 == PARE_SHARES);
    }
    ck_assert(pare_moments_mean(&m, 3) == want / (PARE_SHARES * ROWS));
    ck_assert(pare_moments_power(&m, 3) == squares / (PARE_SHARES * ROWS));
    tiny_end(&home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("shares");
    TCase *const c = tcase_create("shares");
    tcase_add_test(c, shares_follow_each_other_and_differ_by_one_window_at_most);
    tcase_add_test(c, a_wave_ends_its_batches_with_the_shares_and_tells_of_them);
    tcase_add_loop_test(c, statistics_are_sums_of_shares_in_their_order, 0, 4);
    tcase_add_loop_test(c, shares_that_are_sent_make_the_same_statistics, 0, 4);
    tcase_add_test(c, processes_have_all_shares_in_order_and_no_more_than_told);
    tcase_add_test(c, moments_are_sums_of_shares_in_their_order);
    suite_add_tcase(s, c);
    return unit_main(s);
}
