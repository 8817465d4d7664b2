/* runtime/linear.h - y = W x for every kind of weight, over the pool. */
#ifndef PARE_RUNTIME_LINEAR_H
#define PARE_RUNTIME_LINEAR_H

#include "runtime/model.h"

/* y[t, r] = sum_j w[r, j] x[t, j] (+ bias[r]). Where W is rotated, x was rotated by the block.
 * Products with weights in EXL3 turn x and y themselves, but exact ones, which decode W
 * (runtime/linear_exl3.h).
 *
 *   dense            F32 arithmetic, gemm_f32_* of kernels.h
 *   packed           x is quantized as w->activation says, then gemm_x8_*
 *                      GROUP   a scale per token and activation group (kernels/layout.h)
 *                      TOKEN   a scale per token
 *                      TENSOR  the scale of W; a token with a value that is not finite becomes NaN
 *                    2:4: gemm_x8_s4, gemm_x8_s8, which give the bits of the dense kernels
 *   packed, FLOAT    W is decoded to F32 in panels, then gemm_f32_f32
 *   packed, exact    the same, whatever the activation: the float product of what is stored
 *
 * Packed and not decoded, the parts of y are added in this order: the product of the codes, in
 * which the x of outlier columns count as 0; outliers (F16: gemm_f32_f16 with their x; int8: their
 * x quantized per token, gemm_x8_q8); single weights (gemm_sparse_f32); bias. Decoded, outliers
 * take the places of the codes and single weights are added to them.
 *
 *   x  [m, k] f32, rows ldx apart, read      y  [m, n] f32, rows ldy apart, written, not x
 *
 * Returns PARE_OK, PARE_ENOMEM (scratch), or what pare_linear_check says.
 * Memory   scratch: dense none; packed m * (k32 + 8 k32 / group32) bytes, for int8 outliers as much
 *          for their columns, for F16 ones threads * 64 * count floats; decoded, but for
 *          one token in registers, threads * 64 k32 floats. Rewound before it returns.
 * Threads  over tiles of rows and tokens; Exact: same bytes for any thread count, m and CPU. */
PARE_CHECKED pare_status pare_linear_apply(pare_ctx *cx, pare_arena *scratch, const pare_linear *w,
                                           bool exact, const float *x, size_t ldx, size_t m,
                                           float *y, size_t ldy);

/* The same of x and W rounded to BF16, packed weights decoded first, whatever their activation:
 * gemm_bf16_bf16, and the bias in F32. Scratch: up to 2 m (k + 64) bytes, 768 (k + 32) for
 * each thread. */
PARE_CHECKED pare_status pare_linear_apply_bf16(pare_ctx *cx, pare_arena *scratch,
                                                const pare_linear *w, const float *x, size_t ldx,
                                                size_t m, float *y, size_t ldy);

/* Whether there is a way to compute with w: PARE_ENOTSUP, naming it, for a width that its encoding
 * does not have, integer activations of an encoding without an integer product, activations that
 * are not 4 or 8 bits wide, a fixed scale that is no positive number, or a width that cannot be
 * rotated. Reads no weights. */
PARE_CHECKED pare_status pare_linear_check(pare_ctx *cx, const pare_linear *w);

/* Writes W as f32 [n, k] (ld = k): converts or decodes, with outliers and single weights in their
 * places. A rotated W is written as it is stored. Threads over rows; exact. */
void pare_linear_to_f32(pare_ctx *cx, const pare_linear *w, float *dst);

/* Row `row` of W as f32 [k], the same values: for the embedding, whose rows are looked up. For a W
 * that has rows of its own: dense, or codes with nothing apart from them, neither pruned nor
 * rotated. Exact; one thread. */
bool pare_linear_has_rows(const pare_linear *w);
void pare_linear_row(const pare_ctx *cx, const pare_linear *w, size_t row, float *dst);

#endif
