/* Parts of blocks that go: how many, which, and what is left, against definitions written out. */
#include <math.h>
#include <string.h>

#include "prune/channels.h"
#include "prune/depth.h"
#include "prune/flap.h"
#include "prune/slicegpt.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { TOKENS = 37, HIDDEN = 10, MLP = 14, HEADS = 6, KV = 3, DIM = 4 };

typedef struct model {
    pare_ctx cx;
    pare_arena a;
    pare_config c;
    pare_block block;
    float *x[PARE_PARTS]; /* inputs of o and down */
    pare_moments moments[PARE_PARTS];
} model;

static void fill(float *to, size_t count, uint64_t stream)
{
    for (size_t i = 0; to && i < count; i++)
        to[i] = (float)pare_random_normal(7, stream, i);
}

static void make(model *to, size_t threads)
{
    *to = (model){0};
    pare_ctx_init(&to->cx);
    ck_assert_int_eq(pare_arena_init(&to->cx, &to->a, 0), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&to->cx, threads, &to->cx.pool), PARE_OK);
    to->c = (pare_config){.arch = pare_arch_find("llama"),
                          .hidden = HIDDEN,
                          .intermediate = MLP,
                          .blocks = 1,
                          .heads = HEADS,
                          .kv_heads = KV,
                          .head_dim = DIM,
                          .vocab = 8,
                          .context = 64};
    const pare_biases room = {.linear = (1u << PARE_COMMON_ROLES) - 1};
    ck_assert_int_eq(pare_block_take(&to->a, &to->c, room, &to->block), PARE_OK);
    for (pare_role r = PARE_ROLE_Q; r < PARE_COMMON_ROLES; r++) {
        size_t n, k;
        pare_linear_shape(&to->c, 0, r, &n, &k);
        fill(to->block.linear[r].floats, n * k, r);
        fill(to->block.linear[r].bias, n, 10 + r);
    }
    for (pare_part p = PARE_PART_HEADS; p <= PARE_PART_CHANNELS; p++) {
        const size_t k = pare_site_width(&to->c, 0, pare_part_site(p));
        to->x[p] = PARE_NEW(&to->a, float, TOKENS *k);
        fill(to->x[p], TOKENS * k, 20 + p);
        for (size_t i = 0; i < TOKENS * k; i++) /* means that differ */
            to->x[p][i] += (float)(i % k) / 4 - 1;
        ck_assert_int_eq(
            pare_moments_take(&to->cx, &to->a, &to->c, pare_part_site(p), &to->moments[p]),
            PARE_OK);
    }
}

static void watch(model *m, pare_part p)
{
    const pare_tap tap = pare_moments_tap(&m->moments[p]);
    const size_t k = m->moments[p].k, first = 11;
    ck_assert_int_eq(tap.last, pare_part_site(p));
    ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_MLP, m->x[p], 3, k),
                     PARE_OK); /* not its site */
    ck_assert_int_eq(tap.see(tap.self, 0, pare_part_site(p), m->x[p], first, k), PARE_OK);
    ck_assert_int_eq(
        tap.see(tap.self, 0, pare_part_site(p), m->x[p] + first * k, TOKENS - first, k), PARE_OK);
}

static void finish(model *m)
{
    pare_arena_release(&m->a);
    pare_pool_free(&m->cx, m->cx.pool);
    ck_assert_uint_eq(m->cx.live_bytes, 0);
}

static pare_structure view(const model *m, pare_part p)
{
    return (pare_structure){.config = &m->c,
                            .block = &m->block,
                            .part = p,
                            .moments = &m->moments[p],
                            .seed = 5,
                            .number = 2};
}

START_TEST(what_stays_is_rounded_up)
{
    static const struct {
        size_t count;
        double ratio;
        size_t step, kept;
    } row[] = {{4, 0.2, 1, 4},     {4, 0.25, 1, 3},      {4, 0.3, 1, 3},      {4, 0.95, 1, 1},
               {8, 0.5, 1, 4},     {640, 0.2, 32, 512},  {640, 0.3, 32, 448}, {640, 0.31, 32, 448},
               {112, 0.5, 32, 64}, {112, 0.01, 32, 112}, {20, 0.5, 32, 20},   {1000, 0.9, 1, 100}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        ck_assert_uint_eq(pare_part_kept(row[i].count, row[i].ratio, row[i].step), row[i].kept);
}
END_TEST

START_TEST(the_lowest_scores_go_and_of_equal_ones_the_first)
{
    model m;
    make(&m, 1);
    const double score[7] = {3, 1, 2, 1, 1, 0.5, 9};
    uint8_t keep[7];
    ck_assert_int_eq(pare_structure_choose(&m.cx, &m.a, score, 7, 4, keep), PARE_OK);
    ck_assert_mem_eq(keep, ((uint8_t[]){1, 0, 1, 0, 1, 0, 1}), 7);
    ck_assert_int_eq(pare_structure_choose(&m.cx, &m.a, score, 7, 1, keep), PARE_OK);
    ck_assert_mem_eq(keep, ((uint8_t[]){0, 0, 0, 0, 0, 0, 1}), 7);
    const double bad[3][2] = {{0, NAN}, {1, -1}, {INFINITY, INFINITY}};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pare_structure_choose(&m.cx, &m.a, bad[i], 2, 1, keep), PARE_ENUMERIC);
        ck_assert_ptr_nonnull(strstr(m.cx.what, i < 2 ? "unit 1 of 2" : "unit 0 of 2"));
        pare_ctx_clear(&m.cx);
    }
    finish(&m);
}
END_TEST

START_TEST(moments_are_those_of_all_tokens)
{
    model m;
    make(&m, 3);
    for (pare_part p = PARE_PART_HEADS; p <= PARE_PART_CHANNELS; p++) {
        const size_t k = m.moments[p].k;
        watch(&m, p);
        for (size_t j = 0; j < k; j++) {
            double mean = 0, var = 0, power = 0;
            for (size_t t = 0; t < TOKENS; t++)
                mean += (double)m.x[p][t * k + j] / TOKENS;
            for (size_t t = 0; t < TOKENS; t++) {
                const double v = (double)m.x[p][t * k + j];
                var += (v - mean) * (v - mean) / TOKENS;
                power += v * v / TOKENS;
            }
            ck_assert_double_eq_tol(pare_moments_mean(&m.moments[p], j), mean, 1e-12);
            ck_assert_double_eq_tol(pare_moments_variance(&m.moments[p], j), var, 1e-12);
            ck_assert_double_eq_tol(pare_moments_power(&m.moments[p], j), power, 1e-12);
        }
    }
    finish(&m);
}
END_TEST

/* Sums over the columns of unit u, by their definitions. */
static void naive(const model *m, pare_part p, size_t u, double *flap, double *wanda)
{
    const size_t k = m->moments[p].k, width = p == PARE_PART_HEADS ? HEADS / KV * DIM : 1;
    const float *const w = m->block.linear[pare_part_role(p)].floats;
    *flap = *wanda = 0;
    for (size_t j = u * width; j < (u + 1) * width; j++) {
        double square = 0, sum = 0;
        for (size_t i = 0; i < HIDDEN; i++) {
            square += (double)w[i * k + j] * (double)w[i * k + j];
            sum += fabs((double)w[i * k + j]);
        }
        *flap += pare_moments_variance(&m->moments[p], j) * square;
        *wanda += sqrt(pare_moments_power(&m->moments[p], j)) * sum / HIDDEN;
    }
}

static double squares_of_row(const model *m, pare_role r, size_t row)
{
    double sum = 0;
    size_t n, k;
    pare_linear_shape(&m->c, 0, r, &n, &k);
    for (size_t j = 0; j < k; j++)
        sum += pow((double)m->block.linear[r].floats[row * k + j], 2);
    return sum;
}

static double squares_of_unit(const model *m, pare_part p, size_t u)
{
    double sum = 0;
    const size_t k = m->moments[p].k, width = p == PARE_PART_HEADS ? HEADS / KV * DIM : 1;
    for (size_t j = u * width; j < (u + 1) * width; j++) {
        for (size_t i = 0; i < HIDDEN; i++)
            sum += pow((double)m->block.linear[pare_part_role(p)].floats[i * k + j], 2);
        if (p == PARE_PART_HEADS)
            sum += squares_of_row(m, PARE_ROLE_Q, j);
    }
    for (size_t i = 0; p == PARE_PART_HEADS && i < DIM; i++)
        sum += squares_of_row(m, PARE_ROLE_K, u * DIM + i) +
               squares_of_row(m, PARE_ROLE_V, u * DIM + i);
    if (p == PARE_PART_CHANNELS)
        sum += squares_of_row(m, PARE_ROLE_GATE, u) + squares_of_row(m, PARE_ROLE_UP, u);
    return sum;
}

START_TEST(scores_are_those_of_the_definitions)
{
    model m;
    make(&m, 1 + (size_t)_i);
    for (pare_part p = PARE_PART_HEADS; p <= PARE_PART_CHANNELS; p++) {
        double flap[MLP], wanda[MLP], magnitude[MLP], want[2];
        watch(&m, p);
        const pare_structure s = view(&m, p);
        ck_assert_int_eq(pare_flap_score(&m.cx, &m.a, &s, flap), PARE_OK);
        ck_assert_int_eq(pare_channels_wanda(&m.cx, &m.a, &s, wanda), PARE_OK);
        ck_assert_int_eq(pare_channels_magnitude(&m.cx, &m.a, &s, magnitude), PARE_OK);
        for (size_t u = 0; u < pare_part_units(&m.c, p); u++) {
            naive(&m, p, u, &want[0], &want[1]);
            ck_assert_double_eq_tol(flap[u], want[0], 1e-9 * want[0]);
            ck_assert_double_eq_tol(wanda[u], want[1], 1e-9 * want[1]);
            ck_assert_double_eq_tol(magnitude[u], squares_of_unit(&m, p, u), 1e-9 * magnitude[u]);
        }
    }
    finish(&m);
}
END_TEST

START_TEST(random_scores_follow_seed_block_and_part)
{
    model m;
    make(&m, 1);
    double score[5][MLP];
    pare_structure s = view(&m, PARE_PART_CHANNELS);
    pare_channels_random(&s, score[0]);
    pare_channels_random(&s, score[1]);
    ck_assert_mem_eq(score[0], score[1], sizeof score[0]);
    s.number++;
    pare_channels_random(&s, score[1]);
    s.number--;
    s.seed++;
    pare_channels_random(&s, score[2]);
    s.seed--;
    s.part = PARE_PART_HEADS;
    pare_channels_random(&s, score[3]);
    for (size_t i = 1; i < 4; i++)
        ck_assert_mem_ne(score[0], score[i], KV * sizeof(double));
    finish(&m);
}
END_TEST

/* What o or down gives for token t, from columns with keep, and its bias. */
static double output(const model *m, pare_part p, size_t t, size_t row, const uint8_t *keep)
{
    const size_t k = m->moments[p].k, width = k / pare_part_units(&m->c, p);
    double y = (double)m->block.linear[pare_part_role(p)].bias[row];
    for (size_t j = 0; j < k; j++)
        if (keep[j / width])
            y += (double)m->block.linear[pare_part_role(p)].floats[row * k + j] *
                 (double)m->x[p][t * k + j];
    return y;
}

START_TEST(a_bias_takes_the_place_of_the_mean)
{
    model m;
    make(&m, 1);
    for (pare_part p = PARE_PART_HEADS; p <= PARE_PART_CHANNELS; p++) {
        uint8_t all[MLP], keep[MLP];
        double before[HIDDEN] = {0}, after[HIDDEN] = {0};
        memset(all, 1, sizeof all);
        for (size_t i = 0; i < MLP; i++)
            keep[i] = i % 3 != 1;
        watch(&m, p);
        const pare_structure s = view(&m, p);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t i = 0; i < HIDDEN; i++)
                before[i] += output(&m, p, t, i, all) / TOKENS;
        pare_flap_bias(&s, keep, m.block.linear[pare_part_role(p)].bias);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t i = 0; i < HIDDEN; i++)
                after[i] += output(&m, p, t, i, keep) / TOKENS;
        for (size_t i = 0; i < HIDDEN; i++)
            ck_assert_double_eq_tol(after[i], before[i], 1e-5);
    }
    finish(&m);
}
END_TEST

START_TEST(what_stays_stands_in_front_in_its_order)
{
    static const uint8_t heads[KV] = {1, 0, 1}, mlp[MLP] = {0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1};
    model m, was;
    make(&m, 1);
    make(&was, 1);
    pare_structure_move(&m.c, &m.block, PARE_PART_HEADS, heads);
    pare_structure_move(&m.c, &m.block, PARE_PART_CHANNELS, mlp);
    for (pare_role r = PARE_ROLE_Q; r < PARE_COMMON_ROLES; r++) {
        const bool attention = r <= PARE_ROLE_O, reads = r == PARE_ROLE_O || r == PARE_ROLE_DOWN;
        size_t n, k;
        pare_linear_shape(&m.c, 0, r, &n, &k);
        const size_t units = attention ? KV : MLP, unit = (reads ? k : n) / units;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++) {
                size_t from = 0, seen = 0;
                const size_t at = reads ? j : i;
                while (from < units && seen < at / unit + 1)
                    seen += (attention ? heads : mlp)[from++];
                const size_t old = (from - 1) * unit + at % unit;
                const float want = seen < at / unit + 1 ? 0.0F
                                   : reads              ? was.block.linear[r].floats[i * k + old]
                                                        : was.block.linear[r].floats[old * k + j];
                ck_assert_float_eq(m.block.linear[r].floats[i * k + j], want);
                if (j == 0 && !reads)
                    ck_assert_float_eq(m.block.linear[r].bias[i],
                                       seen < at / unit + 1 ? 0.0F : was.block.linear[r].bias[old]);
                if (j == 0 && reads)
                    ck_assert_float_eq(m.block.linear[r].bias[i], was.block.linear[r].bias[i]);
            }
    }
    finish(&m);
    finish(&was);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    model m;
    make(&m, 1);
    double score[MLP];
    uint8_t keep[MLP];
    watch(&m, PARE_PART_CHANNELS);
    const pare_structure s = view(&m, PARE_PART_CHANNELS);
    for (long n = 0, done = 0; !done; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_arena a;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){.resize = unit_failing_resize, .self = &f};
        pare_status t = pare_arena_init(&cx, &a, 0);
        if (t == PARE_OK)
            t = pare_flap_score(&cx, &a, &s, score);
        if (t == PARE_OK)
            t = pare_channels_wanda(&cx, &a, &s, score);
        if (t == PARE_OK)
            t = pare_channels_magnitude(&cx, &a, &s, score);
        if (t == PARE_OK)
            t = pare_structure_choose(&cx, &a, score, MLP, 3, keep);
        ck_assert(t == PARE_OK || t == PARE_ENOMEM);
        done = t == PARE_OK;
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
    finish(&m);
}
END_TEST

START_TEST(influence_is_one_less_the_mean_cosine)
{
    model m;
    enum { K = 9 };
    float in[4][K], out[4][K];
    pare_depth d = {0};
    double want = 0;
    make(&m, 1 + (size_t)_i);
    fill(in[0], sizeof in / sizeof(float), 30);
    fill(out[0], sizeof out / sizeof(float), 31);
    memset(in[2], 0, sizeof in[2]); /* against something: orthogonal */
    memset(in[3], 0, sizeof in[3]); /* against zeros: the same */
    memset(out[3], 0, sizeof out[3]);
    ck_assert_double_eq(pare_depth_influence(&d), 0);
    ck_assert_int_eq(pare_depth_add(&m.cx, &m.a, &d, in[0], out[0], 1, K), PARE_OK);
    ck_assert_int_eq(pare_depth_add(&m.cx, &m.a, &d, in[1], out[1], 3, K), PARE_OK);
    for (size_t t = 0; t < 2; t++) {
        double dot = 0, a = 0, b = 0;
        for (size_t j = 0; j < K; j++) {
            dot += (double)in[t][j] * (double)out[t][j];
            a += (double)in[t][j] * (double)in[t][j];
            b += (double)out[t][j] * (double)out[t][j];
        }
        want += dot / sqrt(a * b);
    }
    ck_assert_double_eq_tol(pare_depth_influence(&d), 1 - (want + 1) / 4, 1e-12);
    finish(&m);
}
END_TEST

/* The vectors are the columns of a reflection, the values 1 + k^2. */
START_TEST(the_basis_is_that_of_the_largest_values)
{
    model m;
    enum { N = 40, KEPT = 24 };
    make(&m, 1);
    double *const h = PARE_NEW(&m.a, double, N *N), *const v = PARE_NEW(&m.a, double, N);
    double whole = 0, held = 0;
    pare_slicegpt s;
    for (size_t i = 0; i < N; i++) /* of a reflection */
        v[i] = pare_random_normal(9, 1, i);
    double norm = 0;
    for (size_t i = 0; i < N; i++)
        norm += v[i] * v[i];
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            for (size_t k = 0; k < N; k++) {
                const double a = (i == k) - 2 * v[i] * v[k] / norm;
                const double b = (j == k) - 2 * v[j] * v[k] / norm;
                h[i * N + j] += a * (double)(1 + k * k) * b;
            }
    for (size_t k = 0; k < N; k++) {
        whole += (double)(1 + k * k);
        held += k >= N - KEPT ? (double)(1 + k * k) : 0;
    }
    ck_assert_int_eq(pare_slicegpt_basis(&m.cx, &m.a, &m.a, h, N, KEPT, &s), PARE_OK);
    ck_assert_double_eq_tol(s.captured, held / whole, 1e-9);
    for (size_t i = 0; i < KEPT; i++) {
        const size_t k = N - 1 - i; /* column k of the reflection, up to its sign */
        double dot = 0;
        for (size_t j = 0; j < N; j++)
            dot += (double)s.basis[i * N + j] * ((j == k) - 2 * v[j] * v[k] / norm);
        ck_assert_double_eq_tol(fabs(dot), 1, 1e-5);
    }
    finish(&m);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("structure");
    TCase *const tc = tcase_create("parts");
    tcase_add_test(tc, what_stays_is_rounded_up);
    tcase_add_test(tc, the_lowest_scores_go_and_of_equal_ones_the_first);
    tcase_add_test(tc, moments_are_those_of_all_tokens);
    tcase_add_loop_test(tc, scores_are_those_of_the_definitions, 0, 3);
    tcase_add_test(tc, random_scores_follow_seed_block_and_part);
    tcase_add_test(tc, a_bias_takes_the_place_of_the_mean);
    tcase_add_test(tc, what_stays_stands_in_front_in_its_order);
    tcase_add_test(tc, every_failed_allocation_is_reported);
    tcase_add_loop_test(tc, influence_is_one_less_the_mean_cosine, 0, 3);
    tcase_add_test(tc, the_basis_is_that_of_the_largest_values);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
