/* runtime/panels.h - packs matrices of floats and of doubles into the panels that kernels multiply.
 * Included by what is built on them: pack_rows_f32, pack_panel_f32, transpose_f32 and the same for
 * doubles. */
#ifndef PARE_RUNTIME_PANELS_H
#define PARE_RUNTIME_PANELS_H

#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"

/* dst[j, i] = src[i, j], src [m, n]. */
static inline void transpose_f32(const pare_kernels *kernels, float *dst, size_t ldd,
                                 const float *src, size_t lds, size_t m, size_t n)
{
    kernels->transpose_f32(dst, ldd, src, lds, m, n);
}

static inline void transpose_f64(const pare_kernels *kernels, double *dst, size_t ldd,
                                 const double *src, size_t lds, size_t m, size_t n)
{
    (void)kernels;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++)
            dst[j * ldd + i] = src[i * lds + j];
}

#define REAL     float
#define OF(name) name##_f32
#include "runtime/panels_real.h"

#define REAL     double
#define OF(name) name##_f64
#include "runtime/panels_real.h"

#endif
