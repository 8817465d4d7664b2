/* runtime/head_gradient.h - a gradient in front of the last norm that shows the curvature of the
 * divergence.
 *
 *   l = head(norm(x)),  p = softmax(l),  e_v = +1 or -1 by chance
 *   dl_v = sqrt(p_v) e_v - p_v sum over u of sqrt(p_u) e_u
 *   dn = dl W,          dx = dnorm(dn)                           (runtime/tape.h)
 *
 * The products run on the backend of f.
 *
 * The mean over e of dl dl^T is diag(p) - p p^T, the second derivative of KL(p || .) at p, and so
 * that of dx dx^T is that curvature in x. The gradient of -ln p(y), with y drawn from p, has the
 * same mean, but is nearly 0 for most draws and large for few; this one is about as large in each.
 * Source: ours; curvature from random signs: Hutchinson, 1990. */
#ifndef PARE_RUNTIME_HEAD_GRADIENT_H
#define PARE_RUNTIME_HEAD_GRADIENT_H

#include "runtime/forward.h"

/* One draw.
 *
 *   x      [rows, hidden], outputs of the last block
 *   seed   e_v of row t: bit v % 64 of pare_random_u64(seed, first + t, v / 64)
 *   dx     [rows, hidden]; written
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_ENOTSUP (a packed head), or PARE_ENUMERIC when logits are not
 * finite.
 * Memory   scratch, rewound: pare_head_gradient_bytes.   Work  twice the multiply-adds of the head.
 * Threads over rows and tiles; the same bytes for any thread count. */
PARE_CHECKED pare_status pare_head_gradient(pare_ctx *cx, pare_arena *scratch,
                                            const pare_forward *f, const float *x, uint64_t seed,
                                            size_t first, size_t rows, float *dx);

/* bf16: on pare_cpu_bf16. */
uint64_t pare_head_gradient_bytes(const pare_ctx *cx, const pare_config *c, bool bf16);

#endif
