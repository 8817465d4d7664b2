/* A context, inputs and errors for tests of quantizers. Included by one test program each. */
#ifndef PARE_TESTS_UNIT_QUANT_CASE_H
#define PARE_TESTS_UNIT_QUANT_CASE_H

#include <math.h>
#include <string.h>

#include "quant/gptq.h"
#include "quant/rtn.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static inline void quant_setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static inline void quant_teardown(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static inline void *take(size_t count, size_t size)
{
    void *const p = pare_arena_take(&arena, count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static inline float *copy(const float *x, size_t count)
{
    return memcpy(take(count, sizeof *x), x, count * sizeof *x);
}

/* Adds x x^T / rows to the upper half. */
UNIT_PLAIN static inline void add_outer(double *h, const double *x, size_t k, size_t rows)
{
    for (size_t i = 0; i < k; i++)
        for (size_t j = i; j < k; j++)
            h[i * k + j] += x[i] * x[j] / (double)rows;
}

/* Inputs with a common direction, columns of different size; H = X^T X / rows, both halves. */
static inline float *hessian(size_t k)
{
    const size_t rows = 3 * k;
    double *const h = take(k * k, sizeof *h), *const x = take(k, sizeof *x);
    for (size_t t = 0; t < rows; t++) {
        const double common = pare_random_normal(21, 1, t);
        for (size_t j = 0; j < k; j++)
            x[j] = (pare_random_normal(22, t, j) + common) * (0.2 + (double)(j * 7 % 11) / 5);
        add_outer(h, x, k, rows);
    }
    float *const f = take(k * k, sizeof *f);
    for (size_t i = 0; i < k; i++)
        for (size_t j = i; j < k; j++)
            f[i * k + j] = f[j * k + i] = (float)h[i * k + j];
    return f;
}

static inline float *weights(size_t n, size_t k)
{
    float *const w = take(n * k, sizeof *w);
    for (size_t i = 0; i < n * k; i++)
        w[i] = (float)pare_random_normal(23, 4, i) * 0.1F;
    return w;
}

static inline pare_factor factorize(const float *h, size_t k, bool act_order)
{
    const pare_factor_opts opts = {.damp = 0.01F, .act_order = act_order};
    pare_factor f;
    ck_assert_int_eq(pare_factorize(&cx, &arena, &opts, copy(h, k * k), k, &f), PARE_OK);
    ck_assert_ptr_nonnull(f.u);
    return f;
}

static inline float *values(const pare_grid *g, const pare_codes *c)
{
    float *const q = take(c->n * c->k, sizeof *q);
    pare_codes_values(g, c, q);
    return q;
}

/* sum (w - q)^2 */
static inline double square_error(const float *w, const float *q, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += ((double)w[i] - (double)q[i]) * ((double)w[i] - (double)q[i]);
    return sum;
}

#endif
