/* The sweep with weights that go, against its definition: no blocks of updates, all in double. */
#include "solve/compensate.h"
#include "tests/unit/quant_case.h"

typedef struct sweep_case {
    size_t n, k, block;
    pare_sparsity s; /* ratio and of 0: none */
    bool grid, keep_zeros, act_order;
    bool costs; /* of the caller, instead of 1 / U_jj */
} sweep_case;

static const sweep_case cases[] = {
    {5, 70, 32, {.ratio = 0.5}, false, false, false, false},
    {130, 172, 128, {.ratio = 0.5}, false, false, false, false},
    {67, 100, 64, {.ratio = 0.3}, true, false, false, false},
    {67, 100, 64, {.ratio = 0.3}, false, false, true, false},
    {9, 90, 32, {.ratio = 0.7, .by_row = true}, false, false, false, false},
    {9, 90, 32, {.ratio = 0.7, .by_row = true}, true, false, false, false},
    {130, 172, 128, {.keep = 2, .of = 4}, false, false, false, false},
    {130, 172, 128, {.keep = 4, .of = 8}, true, false, false, false},
    {66, 75, 32, {.keep = 1, .of = 5}, false, false, false, false},   /* blocks of 30 */
    {7, 150, 32, {.keep = 30, .of = 64}, false, false, false, false}, /* blocks of 64 */
    {7, 20, 128, {.keep = 3, .of = 7}, true, false, false, false},
    {130, 172, 128, {.ratio = 0}, true, true, false, false},
    {67, 100, 32, {.ratio = 0}, true, true, true, false},
    {67, 100, 64, {.ratio = 0.3}, false, false, true, true},
    {130, 172, 128, {.keep = 2, .of = 4}, false, false, false, true},
};

enum { CASES = sizeof cases / sizeof *cases };

static bool prunes(const sweep_case *c)
{
    return c->s.of || c->s.ratio > 0;
}

static pare_grid grid_of(const sweep_case *c)
{
    return (pare_grid){.bits = 4, .group = c->act_order ? 32 : 0, .f16_scales = true};
}

/* |w| cost is what a weight is judged by. */
static double cost_of(const sweep_case *c, const float *u, size_t j)
{
    return c->costs ? 1 + (double)(j * 5 % 7) : 1 / (double)u[j * (c->k + 1)];
}

static const float *costs_of(const sweep_case *c)
{
    float *const cost = take(c->k, sizeof *cost);
    for (size_t j = 0; j < c->k; j++)
        cost[j] = (float)cost_of(c, NULL, j);
    return cost;
}

/* Of the columns [c0, c1) of row i, those whose scores are lowest go. */
static void take_lowest(const sweep_case *c, const double *w, const float *u, size_t first,
                        size_t rows, size_t c0, size_t c1, size_t count, uint8_t *gone)
{
    const size_t k = c->k;
    for (; count > 0; count--) {
        size_t best = SIZE_MAX;
        double least = INFINITY;
        for (size_t i = first; i < first + rows; i++)
            for (size_t j = c0; j < c1; j++) {
                const double cost = fabs(w[i * k + j]) * cost_of(c, u, j);
                if (!gone[i * k + j] && cost < least) {
                    least = cost;
                    best = i * k + j;
                }
            }
        gone[best] = 1;
    }
}

/* What goes of the columns that begin with j. */
static void choose_at(const sweep_case *c, const double *w, const float *u, size_t block, size_t j,
                      uint8_t *gone)
{
    const size_t step = c->s.of ? c->s.of : block, rows = c->s.of || c->s.by_row ? 1 : c->n;
    if (!prunes(c) || j % step != 0)
        return;
    const size_t end = c->k - j < step ? c->k : j + step, cols = end - j;
    const size_t count = c->s.of ? cols - (c->s.keep * cols + c->s.of - 1) / c->s.of
                                 : (size_t)(c->s.ratio * (double)(rows * end) + 1e-6) -
                                       (size_t)(c->s.ratio * (double)(rows * j) + 1e-6);
    for (size_t i = 0; i < c->n; i += rows)
        take_lowest(c, w, u, i, rows, j, end, count, gone);
}

static void sweep_column(const sweep_case *c, double *w, const float *u, const pare_codes *grids,
                         const uint32_t *order, size_t j, const uint8_t *gone, float *q,
                         double *loss)
{
    const size_t k = c->k, column = order ? order[j] : j;
    for (size_t i = 0; i < c->n; i++) {
        const size_t g = i * grids->groups + (grids->groups > 1 ? column / 32 : 0);
        double kept = w[i * k + j];
        if (c->grid)
            kept = (double)pare_grid_value(
                pare_grid_code(4, (float)kept, grids->scales[g], grids->zeros[g]), grids->scales[g],
                grids->zeros[g]);
        kept = gone[i * k + j] ? 0 : kept;
        q[i * k + column] = (float)kept;
        const bool frozen = c->keep_zeros && gone[i * k + j];
        const double e = frozen ? 0 : (w[i * k + j] - kept) / (double)u[j * k + j];
        *loss += e * e / 2;
        for (size_t l = j + 1; l < k; l++)
            w[i * k + l] -= e * (double)u[j * k + l];
    }
}

/* Scales and zeros come from the sweep under test: that they fit is the grid's own test. */
static float *by_definition(const sweep_case *c, const float *weight, const pare_factor *f,
                            const pare_codes *grids, double *loss)
{
    const size_t n = c->n, k = c->k, of = c->s.of ? c->s.of : 1;
    const size_t block = c->block < of ? of : c->block - c->block % of;
    double *const w = take(n * k, sizeof *w);
    float *const q = take(n * k, sizeof *q);
    uint8_t *const gone = take(n * k, 1);
    for (size_t i = 0; i < n * k; i++) {
        const size_t column = f->order ? f->order[i % k] : i % k;
        w[i] = (double)weight[i / k * k + column];
        gone[i] = c->keep_zeros && w[i] == 0;
    }
    *loss = 0;
    for (size_t j = 0; j < k; j++) {
        choose_at(c, w, f->u, block, j, gone);
        sweep_column(c, w, f->u, grids, f->order, j, gone, q, loss);
    }
    return q;
}

/* Weights, a fifth of them 0 where zeros are kept. */
static float *case_weights(const sweep_case *c)
{
    float *const w = weights(c->n, c->k);
    for (size_t i = 0; c->keep_zeros && i < c->n * c->k; i++)
        w[i] = pare_random_u64(8, 1, i) % 5 ? w[i] : 0;
    return w;
}

static float *sweep(const sweep_case *c, const pare_factor *f, const float *w, pare_codes *codes,
                    double *loss)
{
    const pare_grid grid = grid_of(c);
    const pare_compensate how = {.factor = f,
                                 .block = c->block,
                                 .grid = c->grid ? &grid : NULL,
                                 .sparsity = prunes(c) ? &c->s : NULL,
                                 .cost = c->costs ? costs_of(c) : NULL,
                                 .keep_zeros = c->keep_zeros};
    float *const q = copy(w, c->n * c->k);
    ck_assert_int_eq(pare_codes_take(&arena, &grid, c->n, c->k, codes), PARE_OK);
    ck_assert_msg(pare_compensate_run(&cx, &arena, &how, q, c->n, c->k, c->grid ? codes : NULL,
                                      loss) == PARE_OK,
                  "%s", cx.what);
    return c->grid ? values(&grid, codes) : q;
}

START_TEST(equals_its_definition)
{
    const sweep_case *const c = &cases[_i];
    const float *const w = case_weights(c);
    const pare_factor f = factorize(hessian(c->k), c->k, c->act_order);
    pare_codes codes;
    double loss, want_loss;
    const float *const q = sweep(c, &f, w, &codes, &loss);
    const float *const want = by_definition(c, w, &f, &codes, &want_loss);
    uint64_t gone = 0;
    for (size_t i = 0; i < c->n * c->k; i++) {
        ck_assert_float_eq_tol(q[i], want[i], 2e-6F);
        ck_assert(c->grid || (q[i] == 0) == (want[i] == 0));
        ck_assert(!signbit(q[i]) || q[i] < 0);
        ck_assert(!c->keep_zeros || w[i] != 0 || q[i] == 0);
        gone += q[i] == 0;
    }
    if (prunes(c) && !c->grid)
        ck_assert_uint_eq(gone, c->n * c->k - pare_sparsity_kept(&c->s, c->n, c->k));
    ck_assert_double_le(fabs(loss - want_loss), 1e-5 * want_loss);
}
END_TEST

START_TEST(threads_do_not_change_a_bit)
{
    const sweep_case *const c = &cases[_i];
    const float *const w = case_weights(c);
    const pare_factor f = factorize(hessian(c->k), c->k, c->act_order);
    pare_codes codes;
    double loss, again;
    const float *const q = sweep(c, &f, w, &codes, &loss);
    for (size_t threads = 2; threads <= 3; threads++) {
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_mem_eq(sweep(c, &f, w, &codes, &again), q, c->n * c->k * sizeof *q);
        ck_assert(memcmp(&loss, &again, sizeof loss) == 0);
    }
}
END_TEST

START_TEST(zeros_stay_on_every_grid_that_has_one)
{
    enum { N = 70, K = 160 };
    static const pare_grid grids[] = {
        {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true},
        {.bits = 2, .group = 64, .clip = PARE_CLIP_MSE, .f16_scales = true},
        {.bits = 2,
         .group = 32,
         .symmetric = true,
         .f16_scales = true,
         .encoding = PARE_ENCODING_TERNARY},
        {.bits = 4,
         .group = 64,
         .symmetric = true,
         .f16_scales = true,
         .encoding = PARE_ENCODING_NF4},
        {.bits = 8, .symmetric = true, .f16_scales = true, .encoding = PARE_ENCODING_FP8},
        {.bits = 4,
         .group = 32,
         .symmetric = true,
         .f16_scales = true,
         .encoding = PARE_ENCODING_MXFP4},
        {.bits = 4,
         .group = 16,
         .symmetric = true,
         .f16_scales = true,
         .encoding = PARE_ENCODING_NVFP4}};
    const sweep_case c = {.n = N, .k = K, .keep_zeros = true};
    const float *const w = case_weights(&c);
    const pare_factor f = factorize(hessian(K), K, false);
    const pare_sparsity half = {.keep = 2, .of = 4};
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        for (int joint = 0; joint < 2; joint++) {
            const pare_compensate how = {.factor = &f,
                                         .block = 64,
                                         .grid = &grids[g],
                                         .sparsity = joint ? &half : NULL,
                                         .keep_zeros = !joint};
            pare_codes codes;
            ck_assert_int_eq(pare_codes_take(&arena, &grids[g], N, K, &codes), PARE_OK);
            ck_assert_msg(pare_compensate_run(&cx, &arena, &how, copy(w, N * K), N, K, &codes,
                                              NULL) == PARE_OK,
                          "%s", cx.what);
            const float *const q = values(&grids[g], &codes);
            for (size_t i = 0; i < N * K; i++)
                ck_assert(joint || w[i] != 0 || q[i] == 0);
            for (size_t i = 0; i < N * K; i += 4)
                ck_assert(!joint ||
                          (q[i] != 0) + (q[i + 1] != 0) + (q[i + 2] != 0) + (q[i + 3] != 0) <= 2);
        }
}
END_TEST

/* Errors of the first block reach the last group before its scale is fitted. */
START_TEST(scales_are_fitted_to_the_zeros_that_stay)
{
    enum { N = 3, K = 96 };
    const pare_grid grid = {.bits = 4, .group = 32, .symmetric = true, .f16_scales = true};
    const pare_factor f = factorize(hessian(K), K, false);
    const pare_compensate how = {.factor = &f, .block = 32, .grid = &grid, .keep_zeros = true};
    float *const w = weights(N, K);
    for (size_t j = 64; j < K; j++)
        w[K + j] = 0;
    pare_codes codes;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &codes), PARE_OK);
    ck_assert_int_eq(pare_compensate_run(&cx, &arena, &how, w, N, K, &codes, NULL), PARE_OK);
    ck_assert_float_gt(codes.scales[2], 0);
    ck_assert_float_eq(codes.scales[3 + 2], 0);
}
END_TEST

START_TEST(what_does_not_go_together_is_refused)
{
    enum { N = 2, K = 64 };
    const pare_factor f = factorize(hessian(K), K, false), sorted = factorize(hessian(K), K, true);
    const pare_sparsity half = {.ratio = 0.5}, pairs = {.keep = 2, .of = 4}, bad = {.ratio = 2};
    const pare_grid book = {.bits = 4,
                            .symmetric = true,
                            .f16_scales = true,
                            .encoding = PARE_ENCODING_CODEBOOK,
                            .book = take(N << 4, sizeof(float))};
    const struct {
        pare_compensate how;
        const char *what;
    } of[] = {
        {{&f, 128, NULL, NULL, false, NULL, NULL, NULL, NULL}, "neither a grid nor a sparsity"},
        {{&f, 48, NULL, &half, false, NULL, NULL, NULL, NULL}, "block of 48 columns"},
        {{&f, 128, NULL, &bad, false, NULL, NULL, NULL, NULL}, "sparsity 2 is not between"},
        {{&f, 128, NULL, &half, true, NULL, NULL, NULL, NULL}, "is not pruned again"},
        {{&sorted, 128, NULL, &pairs, false, NULL, NULL, NULL, NULL},
         "groups of 4 inputs need columns in natural order"},
        {{&f, 128, &book, NULL, true, NULL, NULL, NULL, NULL}, "codebook has no code"},
        {{&f, 128, &book, &half, false, NULL, NULL, NULL, NULL}, "codebook has no code"},
        {{.factor = &f, .block = 128, .sparsity = &half, .spread = &(pare_upper){f.u, K, 128}},
         "on a grid only"},
    };
    pare_codes codes;
    ck_assert_int_eq(pare_codes_take(&arena, &book, N, K, &codes), PARE_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        pare_ctx_clear(&cx);
        ck_assert_int_eq(
            pare_compensate_run(&cx, &arena, &of[i].how, weights(N, K), N, K, &codes, NULL),
            PARE_EINVAL);
        ck_assert_msg(strstr(cx.what, of[i].what), "%s", cx.what);
    }
}
END_TEST

START_TEST(weights_beyond_f32_are_refused)
{
    enum { K = 64 };
    const pare_sparsity rules[] = {{.keep = 1, .of = 4}, {.ratio = 0.75}};
    float *const u = take(K * K, sizeof *u), *const pivot = take(K, sizeof *pivot);
    for (size_t i = 0; i < K; i++) {
        pivot[i] = 1e-20F;
        for (size_t j = i + 1; j < K; j++)
            u[i * K + j] = 1e20F;
    }
    const pare_factor f = {.k = K, .u = u, .pivot = pivot, .dead = take(K, 1)};
    for (size_t i = 0; i < 2; i++) {
        const pare_compensate how = {.factor = &f, .block = 32, .sparsity = &rules[i]};
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_compensate_run(&cx, &arena, &how, weights(1, K), 1, K, NULL, NULL),
                         PARE_ENUMERIC);
    }
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const sweep_case *const c = &cases[2];
    const float *const w = case_weights(c);
    const pare_factor f = factorize(hessian(c->k), c->k, false);
    const pare_compensate how = {.factor = &f, .block = 64, .sparsity = &c->s};
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status s =
            pare_compensate_run(&failing, &a, &how, copy(w, c->n * c->k), c->n, c->k, NULL, NULL);
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
    Suite *const s = suite_create("compensate");
    TCase *const t = tcase_create("compensate");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, equals_its_definition, 0, CASES);
    tcase_add_loop_test(t, threads_do_not_change_a_bit, 0, CASES);
    tcase_add_test(t, zeros_stay_on_every_grid_that_has_one);
    tcase_add_test(t, scales_are_fitted_to_the_zeros_that_stay);
    tcase_add_test(t, what_does_not_go_together_is_refused);
    tcase_add_test(t, weights_beyond_f32_are_refused);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
