#include "runtime/solve.h"

#include <math.h>
#include <string.h>

#include "runtime/panels.h"
#include "runtime/product.h"

enum {
    MOST = PARE_SOLVE_MOST,
    STEP = PARE_PANEL_ROWS, /* rows that are solved without a product */
    STEPS = (MOST + STEP - 1) / STEP,
    CORNER = 48 /* rows that are factored without one */
};

#define REAL        float
#define OF(name)    name##_f32
#define add_panels  gemm_panels_f32
#define SQUARE_ROOT sqrtf
#include "runtime/solve_real.h"

#define REAL        double
#define OF(name)    name##_f64
#define add_panels  gemm_panels_f64
#define SQUARE_ROOT sqrt
#include "runtime/solve_real.h"

void pare_solve(const pare_kernels *kernels, const pare_triangle_solve *s)
{
    if (s->f64)
        solve_f64(kernels, s);
    else
        solve_f32(kernels, s);
}

size_t pare_factor_tile(const pare_kernels *kernels, void *a, size_t lda, size_t n, bool f64)
{
    return f64 ? factor_tile_f64(kernels, a, lda, n) : factor_tile_f32(kernels, a, lda, n);
}
