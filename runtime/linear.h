/* runtime/linear.h - y = W x for every kind of weight, over the pool. */
#ifndef PARE_RUNTIME_LINEAR_H
#define PARE_RUNTIME_LINEAR_H

#include "runtime/model.h"

/* y[t, r] = sum_j w[r, j] x[t, j] (+ bias[r]).
 *
 *   dense            F32 arithmetic, gemm_f32_* of kernels.h
 *   packed           x is quantized to int8 per token and activation group, then gemm_x8_q*
 *   packed, exact    W is dequantized to F32 in panels, then gemm_f32_f32
 *
 *   x  [m, k] f32, rows ldx apart, read      y  [m, n] f32, rows ldy apart, written, not x
 *
 * Returns PARE_OK or PARE_ENOMEM (scratch).
 * Memory   scratch: dense none; packed m * (k32 + 8 k32 / group32) bytes; exact threads * 64 k32
 *          floats. Rewound before it returns.
 * Threads  over tiles of rows and tokens; Exact: same bytes for any thread count, m and CPU. */
PARE_CHECKED pare_status pare_linear_apply(pare_ctx *cx, pare_arena *scratch, const pare_linear *w,
                                           bool exact, const float *x, size_t ldx, size_t m,
                                           float *y, size_t ldy);

/* Writes W as f32 [n, k] (ld = k): converts or dequantizes. Threads over rows; exact. */
void pare_linear_to_f32(pare_ctx *cx, const pare_linear *w, float *dst);

#endif
