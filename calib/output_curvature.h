/* calib/output_curvature.h - how the loss curves in the outputs of each linear.
 *
 *     O = sum over tokens of dy dy^T
 *
 * dy: the gradient behind the linear (calib/token_weights.h). With H = sum of x x^T of its inputs,
 * the loss rises by about trace(O E H E^T) / 2 for an error E of the weights (Tseng et al., YAQA,
 * 2025, its sketch A: both factors from their own sums; here the tokens of H are weighed by the
 * same gradients, calib/token_weights.h, which the sketch does not do). Of O only blocks on the
 * diagonal are kept, PARE_OUTPUT_BLOCK rows each: errors of rows in different blocks count apart.
 */
#ifndef PARE_CALIB_OUTPUT_CURVATURE_H
#define PARE_CALIB_OUTPUT_CURVATURE_H

#include "runtime/model.h"

enum { PARE_OUTPUT_BLOCK = 64 };

/* Those of one block of a model. O of a linear of n outputs: [n up to a multiple of the block,
 * block], of each row its block; what is behind n is 0. */
typedef struct pare_output_curvature {
    size_t first[PARE_ROLES + 1]; /* where each linear begins, and all of them end */
    float *o;                     /* NULL: not known */
} pare_output_curvature;

/* Floats of a block, and bytes that pare_output_curvature_take takes, at most. */
size_t pare_output_curvature_floats(const pare_config *c);
uint64_t pare_output_curvature_bytes(const pare_config *c);

/* Zeros, for the linears that every token runs. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_output_curvature_take(pare_arena *a, const pare_config *c,
                                                    pare_output_curvature *out);

/* Adds dy [rows, n]. Threads over blocks of rows, one product over the tokens each: the
 * same bytes for any number of threads. */
void pare_output_curvature_add(const pare_ctx *cx, pare_output_curvature *oc, pare_role role,
                               const float *dy, size_t rows, size_t n);

/* Behind the last one: over the mean of the diagonal of the linear, and 0.01 added to the diagonal,
 * so that every row keeps some weight of its own; 1 on the diagonal where no gradient came.
 * PARE_ENUMERIC when a sum is not finite; `block` is named. */
PARE_CHECKED pare_status pare_output_curvature_settle(pare_ctx *cx, const pare_config *c,
                                                      size_t block, pare_output_curvature *oc);

/* Of a linear, or NULL. */
const float *pare_output_curvature_at(const pare_output_curvature *oc, pare_role role);

#endif
