/* quant/rtn.h - round-to-nearest quantization, the baseline every other method must beat. */
#ifndef PARE_QUANT_RTN_H
#define PARE_QUANT_RTN_H

#include "solve/grid.h"

/* Quantizes W to the nearest codes of the grid fitted to each group, of any encoding but BINARY.
 *
 *   uniform: code = clamp(rint(w / scale) + zero, 0, 2^bits - 1)
 *
 *   w    [n, k] f32, row-major; read
 *   cost [k] of errors in each column, see pare_scales_fit; NULL: none
 *   out  planes from pare_codes_take; written
 *
 * Returns PARE_OK, or
 *   PARE_EINVAL    bits do not go with the encoding, see pare_grid_check
 *   PARE_ESHAPE    group is not a multiple of 32 (0 is the row)
 *   PARE_ENUMERIC  a weight is not finite, or a scale leaves the normal range of F16; the message
 *                  names the row, the group and the value
 *
 * Memory   none beyond the outputs.        Work   O(n k), up to 80 times that with clip mse.
 * Threads  over rows.                      Exact  same bytes on every CPU.
 * Source   Jacob et al., CVPR 2018, eq. (1). */
PARE_CHECKED pare_status pare_rtn_quantize(pare_ctx *cx, const pare_grid *grid, const float *w,
                                           const float *cost, size_t n, size_t k, pare_codes *out);

/* The codes alone: scales and what belongs to them stand in `out` already. Finite w. */
void pare_rtn_codes(pare_ctx *cx, const pare_grid *grid, const float *w, pare_codes *out);

#endif
