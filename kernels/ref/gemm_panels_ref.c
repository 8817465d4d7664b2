#include <math.h>

#include "kernels/kernels_internal.h"

void pare_gemm_panels_f32_ref(float *c, size_t ldc, const float *a, const float *b, size_t m,
                              size_t n, size_t k)
{
    enum { ROWS = PARE_PANEL_ROWS, COLUMNS = PARE_PANEL_BYTES / sizeof *c };
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const float *const x = a + i / ROWS * ROWS * k + i % ROWS;
            const float *const y = b + j / COLUMNS * COLUMNS * k + j % COLUMNS;
            float s = 0;
            for (size_t p = 0; p < k; p++)
                s = fmaf(x[p * ROWS], y[p * COLUMNS], s);
            c[i * ldc + j] += s;
        }
}

void pare_gemm_panels_f64_ref(double *c, size_t ldc, const double *a, const double *b, size_t m,
                              size_t n, size_t k)
{
    enum { ROWS = PARE_PANEL_ROWS, COLUMNS = PARE_PANEL_BYTES / sizeof *c };
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const double *const x = a + i / ROWS * ROWS * k + i % ROWS;
            const double *const y = b + j / COLUMNS * COLUMNS * k + j % COLUMNS;
            double s = 0;
            for (size_t p = 0; p < k; p++)
                s = fma(x[p * ROWS], y[p * COLUMNS], s);
            c[i * ldc + j] += s;
        }
}
