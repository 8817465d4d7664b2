/* distill/projection.h - hidden states of models of different width: a matrix W, trained together
 * with the student and thrown away at the end, carries its streams over to the teacher's width.
 *
 *   s [rows, width] of the student, u [rows, wide] of the teacher, W [wide, width]
 *   y = s W^T,   loss = sum (y - u)^2 / sum u^2
 *   e = 2 (y - u) / sum u^2,   ds = e W,   dW = e^T s
 *
 * One W for all blocks; at first normal numbers of variance 1 / width from the seed. It decays as
 * other matrices do. Products in F32, in a fixed order: the same bytes for any number of threads.
 * Source: Jiao et al., TinyBERT, 2019, eq. (8); there without the sum below the fraction. */
#ifndef PARE_DISTILL_PROJECTION_H
#define PARE_DISTILL_PROJECTION_H

#include "distill/adamw.h"
#include "runtime/arena.h"

typedef struct pare_projection {
    pare_trained w;
    size_t width, wide;
} pare_projection;

/* W as it is at first. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_projection_take(pare_arena *a, size_t width, size_t wide,
                                              uint64_t seed, pare_projection *out);

/* The loss, *value; ds += scale times its gradient, and that of W likewise. 0, and nothing is
 * added, where u is 0. PARE_ENOMEM. Memory: pare_projection_scratch, rewound. Threads. */
PARE_CHECKED pare_status pare_projection_hidden(pare_ctx *cx, pare_arena *scratch,
                                                const pare_projection *p, const float *s,
                                                const float *u, size_t rows, double scale,
                                                float *ds, double *value);

uint64_t pare_projection_scratch(size_t rows, size_t wide);

#endif
