/* tests/unit/grid_fit.h - grids of single groups, with the kernels of this processor. */
#ifndef PARE_TESTS_GRID_FIT_H
#define PARE_TESTS_GRID_FIT_H

#include "runtime/context.h"
#include "solve/grid.h"

static inline pare_grid_fault fit_grid(const pare_grid *g, const float *w, size_t count,
                                       float *scale, uint8_t *zero)
{
    pare_kernels kernels;
    pare_kernels_init(&kernels, pare_cpu_detect());
    return pare_grid_fit(&kernels, g, w, count, scale, zero);
}

/* With what the errors cost, for clip weighted. */
static inline pare_grid_fault fit_grid_by(const pare_grid *g, const float *w, const float *cost,
                                          size_t count, float *scale, uint8_t *zero)
{
    pare_kernels kernels;
    pare_kernels_init(&kernels, pare_cpu_detect());
    return pare_grid_fit_by(&kernels, g, w, cost, count, scale, zero);
}

static inline pare_grid_fault round_grid(const pare_grid *g, size_t row, const float *w,
                                         size_t count, float *q)
{
    pare_kernels kernels;
    pare_kernels_init(&kernels, pare_cpu_detect());
    return pare_grid_round(&kernels, g, row, w, count, q);
}

#endif
