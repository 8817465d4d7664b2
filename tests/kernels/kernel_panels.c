/* Products of panels, and wrong ones. */
#include <math.h>
#include <string.h>

#include "kernels/kernels_internal.h"
#include "tests/kernels/kernel_test.h"

/* Adds to what is there: the output starts as a copy of the input behind a and b. */
static void run_panels_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->start, c->out_bytes);
    k->gemm_panels_f32((float *)(void *)out, c->ldy, c->x, c->w, c->m, c->n, c->k);
}

static void run_panels_f64(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->start, c->out_bytes);
    k->gemm_panels_f64((double *)(void *)out, c->ldy, c->x, c->w, c->m, c->n, c->k);
}

/* Numbers of all sizes, doubles with all their bits; products of some underflow. */
static void *reals(kt *t, size_t count, size_t size)
{
    if (size == sizeof(float))
        return kt_floats(t, count);
    double *const x = kt_input(t, count, size);
    for (size_t i = 0; i < count; i++) {
        const double u = (double)(int64_t)kt_u64(t) * 0x1p-63;
        x[i] = kt_below(t, 8) ? u : u * (kt_below(t, 2) ? 0x1p-530 : 0x1p+40);
    }
    return x;
}

static void check_panels(kt *t, size_t size, size_t m, size_t n, size_t k)
{
    const size_t rows = (m + PARE_PANEL_ROWS - 1) / PARE_PANEL_ROWS * PARE_PANEL_ROWS;
    const size_t columns = (n * size + PARE_PANEL_BYTES - 1) / PARE_PANEL_BYTES * PARE_PANEL_BYTES;
    kt_case c = {.m = m, .n = n, .k = k, .ldy = n + kt_below(t, 3)};
    c.x = reals(t, rows * k, size);
    c.w = reals(t, columns / size * k, size);
    c.out_bytes = m && n ? ((m - 1) * c.ldy + n) * size : 0;
    c.start = reals(t, c.out_bytes / size, size);
    c.work_bytes = (rows * size + columns) * k + 2 * c.out_bytes;
    kt_check(t, &c, size == sizeof(float) ? run_panels_f32 : run_panels_f64);
}

/* Every number of panels that a register tile may hold, whole and broken, then blocks of them. */
static void test_panels(kt *t, size_t size)
{
    static const size_t depths[] = {0, 1, 2, 3, 7, 64, 256, 300};
    if (t->bench) {
        check_panels(t, size, 192, 96, 256);
        return;
    }
    for (size_t m = 1; m <= 26; m++)
        for (size_t n = 1; n <= 70; n += 1 + kt_below(t, 3))
            check_panels(t, size, m, n, depths[kt_below(t, 4)]);
    for (size_t i = 0; i < 40; i++)
        check_panels(t, size, kt_below(t, 60), kt_below(t, 80), depths[kt_below(t, 8)]);
}

void kt_gemm_panels_f32(kt *t)
{
    test_panels(t, sizeof(float));
}

void kt_gemm_panels_f64(kt *t)
{
    test_panels(t, sizeof(double));
}

/* From c on in place of from 0. */
static void one_chain(float *c, size_t ldc, const float *a, const float *b, size_t m, size_t n,
                      size_t k)
{
    for (size_t p = 0; p < k; p++) {
        float x[64 * PARE_PANEL_ROWS], y[64 * 16];
        for (size_t i = 0; i < m; i++)
            x[i] = a[i / 6 * 6 * k + p * 6 + i % 6];
        for (size_t j = 0; j < n; j++)
            y[j] = b[j / 16 * 16 * k + p * 16 + j % 16];
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                c[i * ldc + j] = fmaf(x[i], y[j], c[i * ldc + j]);
    }
}

static void last_row_lost(float *c, size_t ldc, const float *a, const float *b, size_t m, size_t n,
                          size_t k)
{
    pare_gemm_panels_f32_ref(c, ldc, a, b, m % 12 == 7 ? m - 1 : m, n, k);
}

static void whole_panels_stored(float *c, size_t ldc, const float *a, const float *b, size_t m,
                                size_t n, size_t k)
{
    pare_gemm_panels_f32_ref(c, ldc, a, b, m, n < 16 && ldc > n ? n + 1 : n, k);
}

static void rounded_products(double *c, size_t ldc, const double *a, const double *b, size_t m,
                             size_t n, size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double s = 0;
            for (size_t p = 0; p < k; p++)
                s += a[i / 6 * 6 * k + p * 6 + i % 6] * b[j / 8 * 8 * k + p * 8 + j % 8];
            c[i * ldc + j] += s;
        }
}

#define FAULTS(X)                                                                                  \
    X(gemm_panels_f32, one_chain, "the sum begins with the output")                                \
    X(gemm_panels_f32, last_row_lost, "a row alone in a panel lost")                               \
    X(gemm_panels_f32, whole_panels_stored, "writes behind the last column")                       \
    X(gemm_panels_f64, rounded_products, "products rounded before they are added")

const char *kt_plant_panels(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return kt_plant_optimizer(i - at, k, what);
}
