/* solve/scales.h - scales of a whole matrix, for grids whose scales are fixed before any code. */
#ifndef PARE_SOLVE_SCALES_H
#define PARE_SOLVE_SCALES_H

#include "solve/grid.h"

/* Fits every group of W, then does what pare_scales_finish does.
 *
 *   w    [n, k] f32, row-major; read
 *   cost [k] of an error in each column, finite and >= 0, for clip weighted and super-blocks; NULL:
 *        none. Other grids do not look at it.
 *   out  planes from pare_codes_take; scales, zeros and what belongs to them are written
 *
 * Returns PARE_OK, what pare_grid_check returns, or PARE_ENUMERIC when a weight is not finite or a
 * scale cannot be stored; the message names row, group and value. Memory  none beyond the outputs.
 * Work  O(n k), up to 80 times that with clip mse. Threads over rows. Exact: same bytes on every
 * CPU. */
PARE_CHECKED pare_status pare_scales_fit(pare_ctx *cx, const pare_grid *grid, const float *w,
                                         const float *cost, size_t n, size_t k, pare_codes *out);

/* Fills the planes that follow from the scales: MXFP4's exponents, NVFP4's codes, CODEBOOK's book;
 * for NF4 the scales are quantized themselves and replaced by what ships. */
void pare_scales_finish(const pare_grid *grid, pare_codes *out);

#endif
