/* quant/matrix_error.h - what rounding and pruning a matrix cost.
 *
 * W is the matrix before, Q what it became, R the matrix against which both are held: W itself, or
 * what W was before earlier steps. H is the Hessian of its inputs, 2/n sum x x^T. */
#ifndef PARE_QUANT_MATRIX_ERROR_H
#define PARE_QUANT_MATRIX_ERROR_H

#include "runtime/context.h"

/* Sums over w, q and reference [count], cut into parts of one size whatever the threads, so that
 * each part can be a task: |w - q|^2, |reference|^2 and the elements of q that are not 0. */
enum { PARE_ERROR_PARTS = 64 };
typedef struct pare_error_sums {
    const pare_kernels *kernels;
    const float *w, *q, *reference;
    size_t count;
    pare_error_sum part[PARE_ERROR_PARTS];
} pare_error_sums;
void pare_error_sums_part(pare_error_sums *s, size_t part);

/* Of all parts: |w - q|^2 / |reference|^2, and the share of q that is 0. */
double pare_error_sums_relative(const pare_error_sums *s);
double pare_error_sums_zeros(const pare_error_sums *s);

/* tr((W-Q) H (W-Q)^T) / tr(R H R^T), R being `reference`; -1 without H. */
double pare_output_error(pare_ctx *cx, const float *w, const float *q, const float *reference,
                         const float *h, size_t n, size_t k);

/* |W - Q|^2 / |R|^2 and, with H, tr((W-Q) H (W-Q)^T) / tr(R H R^T), below 0 without. */
void pare_matrix_errors(pare_ctx *cx, const float *w, const float *q, const float *reference,
                        const float *h, size_t n, size_t k, double error[2]);

#endif
