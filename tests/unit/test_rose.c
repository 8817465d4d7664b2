/* ROSE: the order against sorting the definition, the sweep in an order against reordered inputs,
 * and what the order is for. */
#include "prune/rose.h"

#include "prune/sparsegpt.h"
#include "tests/unit/quant_case.h"

enum { N = 40, K = 150, BLOCK = 32, WHOLE = K / BLOCK };

static const pare_sparsity half = {.ratio = 0.5};

/* Columns from 64 on, and some others, are large. */
static float *columnar(void)
{
    float *const w = weights(N, K);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++)
            w[i * K + j] *= (j / BLOCK == 2 ? 6 : j / BLOCK == 3 ? 2 : 1) * (float)(1 + j % 3);
    return w;
}

static float *diagonal(const float *h)
{
    float *const d = take(K, sizeof *d);
    for (size_t j = 0; j < K; j++)
        d[j] = h[j * (K + 1)];
    return d;
}

/* Loss of a column when half of its block goes, by counting who is smaller. */
static double loss_of(const float *w, const float *square, size_t j)
{
    const size_t c0 = j / BLOCK * BLOCK, count = K - c0 < BLOCK ? K - c0 : BLOCK;
    double loss = 0;
    for (size_t i = 0; i < N; i++) {
        const float own = fabsf(w[i * K + j]) * sqrtf(square[j]);
        size_t smaller = 0;
        for (size_t r = 0; r < N; r++)
            for (size_t c = c0; c < c0 + count; c++)
                smaller += fabsf(w[r * K + c]) * sqrtf(square[c]) < own;
        loss += smaller < N * count / 2 ? (double)own : 0;
    }
    return loss;
}

START_TEST(columns_and_blocks_fall_in_loss)
{
    const float *const w = columnar(), *const square = diagonal(hessian(K));
    uint32_t order[K];
    pare_rose_found found;
    ck_assert_int_eq(pare_rose_order(&cx, &arena, &half, square, w, N, K, BLOCK, order, &found),
                     PARE_OK);
    ck_assert(found.columnar);
    double column[K], block[WHOLE] = {0}, most = 0, least = INFINITY;
    for (size_t j = 0; j < K; j++) {
        column[j] = loss_of(w, square, j);
        if (j / BLOCK < WHOLE)
            block[j / BLOCK] += column[j];
    }
    for (size_t b = 0; b < WHOLE; b++) {
        most = fmax(most, block[b]);
        least = fmin(least, block[b]);
    }
    ck_assert_double_le(fabs(found.range - (most - least) / most), 1e-9);
    uint8_t seen[K] = {0};
    for (size_t i = 0; i < K; i++) {
        ck_assert_uint_lt(order[i], K);
        ck_assert_uint_eq(seen[order[i]]++, 0);
        ck_assert(i < WHOLE * BLOCK ? order[i] < WHOLE * BLOCK : order[i] >= WHOLE * BLOCK);
        if (i % BLOCK == 0)
            continue;
        ck_assert_uint_eq(order[i] / BLOCK, order[i - 1] / BLOCK);
        ck_assert_double_ge(column[order[i - 1]], column[order[i]]);
    }
    for (size_t b = 1; b < WHOLE; b++)
        ck_assert_double_ge(block[order[(b - 1) * BLOCK] / BLOCK], block[order[b * BLOCK] / BLOCK]);
    ck_assert_uint_eq(order[0] / BLOCK, 2);
}
END_TEST

START_TEST(blocks_that_lose_alike_stay)
{
    float *const w = weights(N, K), *const square = take(K, sizeof *square);
    uint32_t order[K];
    pare_rose_found found;
    for (size_t j = 0; j < K; j++)
        square[j] = 1;
    ck_assert_int_eq(pare_rose_order(&cx, &arena, &half, square, w, N, K, BLOCK, order, &found),
                     PARE_OK);
    ck_assert(!found.columnar && found.range > 0 && found.range < 0.5);
    for (uint32_t j = 0; j < K; j++)
        ck_assert_uint_eq(order[j], j);
    const pare_sparsity pattern = {.keep = 2, .of = 4};
    ck_assert_int_eq(pare_rose_order(&cx, &arena, &pattern, square, w, N, K, BLOCK, order, &found),
                     PARE_EINVAL);
}
END_TEST

static pare_factor factor_in(const float *h, const uint32_t *order)
{
    const pare_factor_opts opts = {.damp = 0.01F, .order = order};
    pare_factor f;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, copy(h, (size_t)K * K), K, &f), PARE_OK);
    ck_assert_ptr_nonnull(f.u);
    return f;
}

static void sweep(const pare_factor *f, float *w, double *loss)
{
    const pare_sparsegpt_opts opts = {.block = BLOCK, .sparsity = &half};
    ck_assert_int_eq(pare_sparsegpt_prune(&cx, &arena, &opts, f, w, N, K, NULL, loss), PARE_OK);
}

/* The order may as well be given to weights and Hessian by hand. */
START_TEST(a_sweep_in_an_order_is_that_of_reordered_inputs)
{
    float *const w = columnar(), *const h = hessian(K);
    float *const moved = take((size_t)N * K, sizeof *moved), *const g = take(K * K, sizeof *g);
    uint32_t order[K];
    pare_rose_found found;
    double loss[2], natural;
    ck_assert_int_eq(
        pare_rose_order(&cx, &arena, &half, diagonal(h), w, N, K, BLOCK, order, &found), PARE_OK);
    for (size_t j = 0; j < K; j++) {
        for (size_t i = 0; i < N; i++)
            moved[i * K + j] = w[i * K + order[j]];
        for (size_t i = 0; i < K; i++)
            g[i * K + j] = h[order[i] * K + order[j]];
    }
    const pare_factor in_order = factor_in(h, order), by_hand = factor_in(g, NULL);
    const pare_factor plain = factor_in(h, NULL);
    float *const rest = copy(w, (size_t)N * K);
    sweep(&plain, rest, &natural);
    sweep(&in_order, w, &loss[0]);
    sweep(&by_hand, moved, &loss[1]);
    ck_assert_double_le(fabs(loss[0] - loss[1]), 1e-6 * loss[1]);
    size_t zeros = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < K; j++) {
            const double e = fabs((double)(w[i * K + order[j]] - moved[i * K + j]));
            ck_assert_double_le(e, 1e-4);
            zeros += w[i * K + j] == 0;
        }
    ck_assert_uint_eq(zeros, N * K / 2);
    ck_assert_double_lt(loss[0], natural);
}
END_TEST

START_TEST(orders_that_do_not_go_together_are_refused)
{
    uint32_t order[K] = {0};
    const pare_factor_opts opts[] = {{.damp = 0.01F, .order = order, .act_order = true},
                                     {.damp = 0.01F, .order = order, .apart = 3},
                                     {.damp = 0.01F, .order = order}}; /* column 0 everywhere */
    for (size_t i = 0; i < 3; i++) {
        pare_factor f;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_factorize(&cx, &arena, &opts[i], hessian(K), K, &f), PARE_EINVAL);
    }
    ck_assert_ptr_nonnull(strstr(cx.what, "position 1 has column 0"));
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    const float *const w = columnar(), *const square = diagonal(hessian(K));
    uint32_t order[K];
    pare_rose_found found;
    long n = 0;
    for (bool done = false; !done; n++) {
        pare_ctx failing;
        pare_ctx_init(&failing);
        unit_failing left = {.left = n};
        failing.alloc = (pare_alloc){unit_failing_resize, &left};
        pare_arena a;
        ck_assert_int_eq(pare_arena_init(&failing, &a, 0), PARE_OK);
        const pare_status s =
            pare_rose_order(&failing, &a, &half, square, w, N, K, BLOCK, order, &found);
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
    Suite *const s = suite_create("rose");
    TCase *const t = tcase_create("rose");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_test(t, columns_and_blocks_fall_in_loss);
    tcase_add_test(t, blocks_that_lose_alike_stay);
    tcase_add_test(t, a_sweep_in_an_order_is_that_of_reordered_inputs);
    tcase_add_test(t, orders_that_do_not_go_together_are_refused);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
