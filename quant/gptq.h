/* quant/gptq.h - GPTQ: rounding column by column, the error of each compensated by the rest.
 *
 * Objective per row: minimize (w - q) H (w - q)^T over codes q, H = (2/T) X X^T + lambda I: the
 * sweep of solve/compensate.h on a grid, with a factor of solve/factor.h.
 * Source: Frantar et al., ICLR 2023, Algorithm 1. */
#ifndef PARE_QUANT_GPTQ_H
#define PARE_QUANT_GPTQ_H

#include "solve/compensate.h"

typedef struct pare_gptq_opts {
    size_t block;                   /* 128 columns between lazy updates; multiple of 32 */
    bool keep_zeros;                /* weights that are 0 stay 0: they were pruned */
    const pare_upper *spread;       /* quant/correct.h; NULL without */
    const float *start, *fitted_to; /* the same */
} pare_gptq_opts;

/* Quantizes W given the factor: pare_compensate_run with this grid; what it says holds here.
 *
 *   w     [out->n, out->k] f32; destroyed
 *   out   planes from pare_codes_take for this grid; written
 *   loss  NULL, or the sum of (w_j - q_j)^2 / (2 U_jj^2) over the matrix in double; written */
PARE_CHECKED pare_status pare_gptq_quantize(pare_ctx *cx, pare_arena *scratch,
                                            const pare_gptq_opts *opts, const pare_grid *grid,
                                            const pare_factor *factor, float *w, pare_codes *out,
                                            double *loss);

/* trace((W - Q) H (W - Q)^T): w and q [n, k], h [k, k] lower triangle; q NULL: Q is 0. Products of
 * 128 terms in F32, their sum in double in a fixed order.   Memory  130 KiB of stack.
 * Work  n k^2 / 2 multiply-adds. Threads over rows; exact on every CPU, any thread count. */
double pare_gptq_error(const pare_ctx *cx, const float *w, const float *q, const float *h, size_t n,
                       size_t k);

#endif
