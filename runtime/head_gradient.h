/* runtime/head_gradient.h - the gradient of the loss in front of the last norm.
 *
 *   l = head(norm(x)),  p = softmax(l),  loss = sum over rows of -ln p[label]
 *   dl = p - [label],   dn = dl W,       dx = dnorm(dn)          (runtime/backward.h) */
#ifndef PARE_RUNTIME_HEAD_GRADIENT_H
#define PARE_RUNTIME_HEAD_GRADIENT_H

#include "runtime/forward.h"

/* Labels are drawn from p by one number for each row.
 *
 *   x   [rows, hidden], outputs of the last block
 *   u   [rows] in [0, 1): the label of a row is the first whose sum of p from the start is above it
 *   dx  [rows, hidden]; written
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_ENOTSUP (a packed head, capped logits), or PARE_ENUMERIC when
 * logits are not finite.
 * Memory   scratch, rewound: pare_head_gradient_bytes.   Work  twice the multiply-adds of the head.
 * Threads over rows and tiles; class MACHINE (BLAS), any thread count. */
PARE_CHECKED pare_status pare_head_gradient(pare_ctx *cx, pare_arena *scratch,
                                            const pare_forward *f, const float *x, const double *u,
                                            size_t rows, float *dx);

uint64_t pare_head_gradient_bytes(const pare_config *c);

#endif
