/* runtime/linear_exl3.h - products with weights in EXL3.
 *
 *   W = diag(r) H V H diag(c),   y = r (H V H (c x)), or y = W x where a product is exact
 *
 *   V  [n, k]  values of the trellis codes (kernels/exl3.h)
 *   r  [n], c [k]  F16: signs times scales
 *   H  on both sides the Hadamard matrices of pare_exl3_span rows or columns each, times
 *      span^-1/2: hadamard_f32 of kernels.h
 *
 * Threads  none of their own. Exact: the same bytes on every CPU. */
#ifndef PARE_RUNTIME_LINEAR_EXL3_H
#define PARE_RUNTIME_LINEAR_EXL3_H

#include "runtime/model.h"

/* to [k] = H (c x); to may be x. */
void pare__exl3_turn_input(const pare_kernels *kernels, const pare_linear *w, const float *x,
                           float *to);

/* y [n] = r (H y), and the bias. */
void pare__exl3_turn_output(const pare_kernels *kernels, const pare_linear *w, float *y);

/* Rows [r0, r0 + rows) of W as F32: dst [rows, k], rows ldd apart. They lie in one of the stretches
 * of 128 rows, which is decoded whole. Columns behind k become 0. */
enum { PARE__EXL3_ROWS = 128 };
void pare__exl3_rows(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                     float *dst, size_t ldd);

#endif
