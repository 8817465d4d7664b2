/* Inputs that have moved from those of the float model: their statistics, and sweeps that make up
 * for it, against their definitions in double. */
#include "calib/drift.h"
#include "quant/correct.h"
#include "tests/unit/quant_case.h"

enum {
    N = 70,
    K = 290,
    /* more than a panel of a correction */ TOKENS = 600,
    GROUP = 32,
    BLOCK = 64
};

/* Inputs of both models: those of the compressed one have noise; column 5 has died in it. */
typedef struct inputs {
    float *x, *y, *weight; /* [TOKENS, K], [TOKENS] */
    double *h, *d;         /* [K, K] sums over tokens: y y^T, (x - y) y^T */
} inputs;

/* Adds w y y^T and w (x - y) y^T. */
UNIT_PLAIN static void add_token(const inputs *in, double w, const float *x, const float *y)
{
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) {
            in->h[i * K + j] += w * (double)y[i] * (double)y[j];
            in->d[i * K + j] += w * ((double)x[i] - (double)y[i]) * (double)y[j];
        }
}

static inputs make_inputs(bool weighed)
{
    inputs in = {.x = take(TOKENS * K, sizeof *in.x),
                 .y = take(TOKENS * K, sizeof *in.y),
                 .weight = weighed ? take(TOKENS, sizeof *in.weight) : NULL,
                 .h = take(K * K, sizeof *in.h),
                 .d = take(K * K, sizeof *in.d)};
    for (size_t t = 0; t < TOKENS; t++) {
        const double common = pare_random_normal(51, 1, t);
        const double w = weighed ? 0.1 + pare_random_unit(51, 2, t) : 1;
        float *const x = in.x + t * K, *const y = in.y + t * K;
        if (weighed)
            in.weight[t] = (float)w;
        for (size_t j = 0; j < K; j++) {
            x[j] = (float)((pare_random_normal(52, t, j) + common) * (0.2 + (double)(j % 7) / 4));
            y[j] = j == 5 ? 0
                          : (float)(0.9 * (double)x[j] + 0.1 * (double)x[j / 2] +
                                    0.2 * pare_random_normal(53, t, j));
        }
        add_token(&in, w, x, y);
    }
    return in;
}

/* Batches of 128 and what is left. */
static pare_drift gather(const inputs *in)
{
    pare_drift d;
    ck_assert_int_eq(pare_drift_take(&arena, K, false, NULL, &d), PARE_OK);
    ck_assert_int_eq(pare_drift_room(&arena, K, 128, &d), PARE_OK);
    for (size_t t = 0; t < TOKENS; t += 128) {
        const size_t rows = TOKENS - t < 128 ? TOKENS - t : 128;
        pare_drift_see(&d, in->x + t * K, rows, K);
        pare_drift_add(&cx, &d, in->y + t * K, in->weight ? in->weight + t : NULL, rows, K);
    }
    return d;
}

START_TEST(drift_equals_its_definition)
{
    const inputs in = make_inputs(_i == 1);
    const pare_drift one = gather(&in);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    const pare_drift three = gather(&in);
    ck_assert_mem_eq(one.d, three.d, K * K * sizeof(float));
    for (size_t i = 0; i < K * K; i++)
        ck_assert_double_eq_tol((double)one.d[i], in.d[i], 1e-4 * TOKENS);
    for (size_t i = 0; i < K; i++)
        ck_assert(one.d[i * K + 5] == 0);
}
END_TEST

START_TEST(drift_follows_scales_and_orders)
{
    const inputs in = make_inputs(false);
    const pare_drift was = gather(&in), now = gather(&in);
    float s[K];
    uint32_t column[K];
    for (size_t j = 0; j < K; j++) {
        s[j] = 0.5F + (float)j / 100;
        column[j] = (uint32_t)(j * 7 % K);
    }
    pare_drift moved = now;
    pare_drift_scale(&moved, s, K);
    pare_drift_permute(&moved, column, K, take(K * K, sizeof(float)));
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) {
            const size_t a = column[i], b = column[j];
            const double wanted = (double)was.d[a * K + b] / ((double)s[a] * (double)s[b]);
            ck_assert_double_eq_tol((double)moved.d[i * K + j], wanted, 1e-6 * (fabs(wanted) + 1));
        }
}
END_TEST

/* H and D in floats, the factor, and a correction. */
typedef struct rig {
    inputs in;
    float *h, *d;
    pare_factor factor;
    pare_correction c;
    double lambda;
} rig;

static rig make_rig_of(pare_correct method, float share, size_t block, bool act_order)
{
    rig r = {.in = make_inputs(false)};
    r.h = take(K * K, sizeof *r.h);
    r.d = take(K * K, sizeof *r.d);
    for (size_t i = 0; i < K * K; i++) {
        r.h[i] = (float)r.in.h[i];
        r.d[i] = (float)r.in.d[i];
    }
    r.factor = factorize(r.h, K, act_order);
    r.lambda = r.factor.damping.lambda;
    pare_drift *const drift = take(1, sizeof *drift);
    drift->d = r.d;
    const pare_correction_opts opts = {method, share, block};
    if (method != PARE_CORRECT_NONE)
        ck_assert_int_eq(pare_correction_make(&cx, &arena, &opts, &r.factor, drift, &r.c), PARE_OK);
    return r;
}

static rig make_rig(pare_correct method, float share, bool act_order)
{
    return make_rig_of(method, share, BLOCK, act_order);
}

static size_t column_at(const rig *r, size_t position)
{
    return r->factor.order ? r->factor.order[position] : position;
}

/* H + lambda I; a dead column is apart from the others. */
static double damped(const rig *r, size_t i, size_t j)
{
    return r->in.h[i * K + j] + (i == j ? r->lambda : 0);
}

START_TEST(what_is_aimed_at_solves_the_normal_equations)
{
    const rig r = make_rig(_i ? PARE_CORRECT_GPTAQ : PARE_CORRECT_QRONOS, 0.25F, _i != 1);
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) {
            double sum = 0;
            for (size_t l = 0; l < K && j != 5; l++)
                sum += (double)r.c.aim->d[i * K + l] * damped(&r, l, j);
            const double wanted = i == 5 || j == 5 ? 0 : 0.25 * r.in.d[i * K + j];
            ck_assert_double_eq_tol(sum, wanted, 2e-3 * TOKENS);
        }
    ck_assert(fabs((double)r.c.aim->d[1 * K + 2]) > 1e-4);
}
END_TEST

START_TEST(without_a_sweep_there_is_the_aim_alone)
{
    const pare_correct method = _i ? PARE_CORRECT_GPTAQ : PARE_CORRECT_QRONOS;
    const rig swept = make_rig(method, 0.25F, false);
    const rig r = make_rig_of(method, 0.25F, 0, false);
    ck_assert_ptr_null(r.c.spread.a);
    ck_assert_ptr_null(r.c.first);
    ck_assert_mem_eq(r.c.aim->d, swept.c.aim->d, sizeof *r.d * K * K);
}
END_TEST

START_TEST(the_spread_is_that_of_the_paper)
{
    const rig r = make_rig(PARE_CORRECT_GPTAQ, 0.25F, true);
    double *const t = take(K * K, sizeof *t);
    const float *const u = r.factor.u;
    for (size_t i = 0; i < K; i++)
        for (size_t j = i + 1; j < K; j++) /* D U^T above the diagonal */
            for (size_t l = j; l < K; l++)
                if (column_at(&r, i) != 5)
                    t[i * K + j] +=
                        r.in.d[column_at(&r, i) * K + column_at(&r, l)] * (double)u[j * K + l];
    for (size_t i = 0; i < K; i++)
        for (size_t j = i + 1; j < K; j++) {
            double wanted = 0;
            for (size_t l = 0; l <= j; l++)
                wanted += 0.25 * t[i * K + l] * (double)u[l * K + j];
            ck_assert_double_eq_tol((double)*pare_upper_at(&r.c.spread, i, j), wanted, 1e-4);
        }
}
END_TEST

static const pare_grid grid = {.bits = 4, .group = GROUP, .symmetric = true, .f16_scales = true};

static double rounded(const pare_codes *c, size_t row, size_t column, double w)
{
    const size_t g = row * c->groups + column / GROUP;
    return (double)pare_grid_value(pare_grid_code(4, (float)w, c->scales[g], c->zeros[g]),
                                   c->scales[g], c->zeros[g]);
}

/* Rows of the codes that differ from q [N, K] at columns. */
static size_t different_rows(const pare_codes *c, const double *q)
{
    const float *const got = values(&grid, c);
    size_t count = 0;
    for (size_t i = 0; i < N; i++) {
        bool differs = false;
        for (size_t j = 0; j < K; j++)
            differs |= fabs((double)got[i * K + j] - q[i * K + j]) > 1e-6;
        count += differs;
    }
    return count;
}

/* Codes of the sweep: of the weights (gptaq), or of what is aimed at (qronos). */
static pare_codes sweep(const rig *r, const float *w)
{
    float start[N], *const swept = copy(w, N * K);
    const bool qronos = r->c.first != NULL;
    pare_codes codes;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &codes), PARE_OK);
    if (qronos) {
        ck_assert_int_eq(pare_correction_aim(&cx, &arena, &r->c, w, N, swept), PARE_OK);
        pare_correction_start(&r->c, w, N, column_at(r, 0), start);
    }
    const pare_gptq_opts opts = {.block = BLOCK,
                                 .spread = r->c.spread.a ? &r->c.spread : NULL,
                                 .start = qronos ? start : NULL,
                                 .fitted_to = qronos ? w : NULL};
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, &grid, &r->factor, swept, &codes, NULL),
                     PARE_OK);
    return codes;
}

START_TEST(gptaq_equals_its_definition)
{
    const rig r = make_rig(PARE_CORRECT_GPTAQ, 1, _i == 1);
    const float *const w = weights(N, K);
    const pare_codes codes = sweep(&r, w);
    double *const q = take(N * K, sizeof *q), v[K];
    for (size_t i = 0; i < N; i++) {
        for (size_t p = 0; p < K; p++)
            v[p] = column_at(&r, p) == 5 ? 0 : (double)w[i * K + column_at(&r, p)];
        for (size_t p = 0; p < K; p++) {
            const float *const u = r.factor.u + p * K;
            const double kept = rounded(&codes, i, column_at(&r, p), v[p]);
            const double e = (v[p] - kept) / (double)u[p];
            for (size_t l = p + 1; l < K; l++)
                v[l] += (l / BLOCK == p / BLOCK ? v[p] : kept) *
                            (double)*pare_upper_at(&r.c.spread, p, l) -
                        e * (double)u[l];
            q[i * K + column_at(&r, p)] = kept;
        }
    }
    ck_assert_uint_le(different_rows(&codes, q), 1);
}
END_TEST

/* a [m, m] becomes its inverse: Gauss and Jordan, of a positive matrix. */
UNIT_PLAIN static void invert(double *a, size_t m)
{
    for (size_t p = 0; p < m; p++) {
        const double pivot = a[p * m + p];
        a[p * m + p] = 1;
        for (size_t j = 0; j < m; j++)
            a[p * m + j] /= pivot;
        for (size_t i = 0; i < m; i++) {
            const double f = a[i * m + p];
            if (i == p)
                continue;
            a[i * m + p] = 0;
            for (size_t j = 0; j < m; j++)
                a[i * m + j] -= f * a[p * m + j];
        }
    }
}

/* The least of the objective over the columns from p on, those before it being rounded:
 * v = (w G - q H) A, A the inverse of what is left of H. At positions, [K] each. */
static void solve_rest(const rig *r, const double *goal, const double *q, size_t p, const double *a,
                       double *v)
{
    double b[K] = {0};
    for (size_t j = p; j < K; j++) {
        b[j] = goal[j];
        for (size_t i = 0; i < p; i++)
            b[j] -= q[i] * damped(r, column_at(r, i), column_at(r, j));
    }
    for (size_t j = p; j < K; j++) {
        v[j] = 0;
        for (size_t i = p; i < K; i++)
            v[j] += b[i] * a[(i - p) * (K - p) + j - p];
    }
}

/* The paper's definition without its shortcuts: each column is rounded at its best value, and the
 * rest solved for anew; the first one with the others as they were. Column 5 is left out: it is
 * dead, and 0. */
START_TEST(qronos_equals_its_definition)
{
    enum { ROWS = 4 };
    const rig r = make_rig(PARE_CORRECT_QRONOS, 1, _i == 1);
    const float *const w = weights(N, K);
    const pare_codes codes = sweep(&r, w);
    const float *const got = values(&grid, &codes);
    double *const a = take(K * K, sizeof *a), goal[ROWS][K], q[ROWS][K], v[ROWS][K];
    for (size_t i = 0; i < ROWS; i++)
        for (size_t p = 0; p < K; p++) { /* w G, G = sum x y^T + lambda I = D + H */
            const size_t c = column_at(&r, p);
            goal[i][p] = 0;
            for (size_t j = 0; j < K && c != 5; j++)
                if (j != 5)
                    goal[i][p] += (double)w[i * K + j] * (r.in.d[j * K + c] + damped(&r, j, c));
        }
    for (size_t p = 0; p < K; p++) {
        const size_t m = K - p, c = column_at(&r, p);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++) {
                const size_t row = column_at(&r, p + i), column = column_at(&r, p + j);
                a[i * m + j] = row == 5 || column == 5 ? row == column : damped(&r, row, column);
            }
        invert(a, m);
        for (size_t i = 0; i < ROWS; i++) {
            solve_rest(&r, goal[i], q[i], p, a, v[i]);
            if (p == 0) {
                v[i][0] = goal[i][0] - r.lambda * (double)w[i * K + c];
                for (size_t j = 0; j < K; j++)
                    if (j != c && j != 5)
                        v[i][0] -= (double)w[i * K + j] * r.in.h[j * K + c];
                v[i][0] /= r.in.h[c * K + c];
            }
            q[i][p] = c == 5 ? 0 : rounded(&codes, i, c, v[i][p]);
        }
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t p = 0; p < K; p++)
            ck_assert_double_eq_tol((double)got[i * K + column_at(&r, p)], q[i][p], 1e-6);
}
END_TEST

/* sum |Q y - W x|^2 */
static double objective(const inputs *in, const float *w, const pare_codes *codes)
{
    const float *const q = values(&grid, codes);
    double sum = 0;
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < N; i++) {
            double e = 0;
            for (size_t j = 0; j < K; j++)
                e += (double)q[i * K + j] * (double)in->y[t * K + j] -
                     (double)w[i * K + j] * (double)in->x[t * K + j];
            sum += e * e;
        }
    return sum;
}

START_TEST(corrections_lower_the_objective)
{
    const float *const w = weights(N, K);
    const rig plain = make_rig(PARE_CORRECT_NONE, 0, true);
    const rig gptaq = make_rig(PARE_CORRECT_GPTAQ, 1, true);
    const rig qronos = make_rig(PARE_CORRECT_QRONOS, 1, true);
    const pare_codes of[] = {sweep(&plain, w), sweep(&gptaq, w), sweep(&qronos, w)};
    double loss[3];
    for (size_t i = 0; i < 3; i++)
        loss[i] = objective(&plain.in, w, &of[i]);
    ck_assert_msg(loss[1] < 0.9 * loss[0] && loss[2] < 0.9 * loss[1], "%g %g %g", loss[0], loss[1],
                  loss[2]);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("correct");
    TCase *const t = tcase_create("correct");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, drift_equals_its_definition, 0, 2);
    tcase_add_test(t, drift_follows_scales_and_orders);
    tcase_add_loop_test(t, what_is_aimed_at_solves_the_normal_equations, 0, 3);
    tcase_add_loop_test(t, without_a_sweep_there_is_the_aim_alone, 0, 2);
    tcase_add_test(t, the_spread_is_that_of_the_paper);
    tcase_add_loop_test(t, gptaq_equals_its_definition, 0, 2);
    tcase_add_loop_test(t, qronos_equals_its_definition, 0, 2);
    tcase_add_test(t, corrections_lower_the_objective);
    suite_add_tcase(s, t);
    return unit_main(s);
}
