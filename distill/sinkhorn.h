/* distill/sinkhorn.h - what it costs to carry the student's predictions over to the teacher's, many
 * rows at once (SinKD).
 *
 * Rows stand in groups of 64 (rows 0 .. 63, 64 .. 127, ..), whose last may be shorter; those that
 * do not count are left out. Of the n rows of a group that do, X_i = softmax(z_i / T) and Y_j =
 * softmax(t_j / T):
 *
 *   W_ij = sum |X_i - Y_j|,   K = e^(-W / 0.1)
 *   P = diag(a) K diag(b):    b = 1; then 20 times  a = 1 / (K b),  b = 1 / (K^T a)
 *   loss = T sum P o W
 *
 * These 20 steps make the sums of rows, then those of columns 1, so the loss is n times T times the
 * mean cost; in a group of one it is twice total_variation. The gradient goes through them:
 *
 *   da = (K o W) b,  db = (K o W)^T a,  dK = a b^T o W;  then back, the last step first:
 *     c = -b^2 o db,  dK += a c^T,  da += K c,   r = -a^2 o da,  dK += r b'^T,  db = K^T r,  da = 0
 *     with b' the b before the step
 *   D = P - K o dK / 0.1,   dX_i = sum_j D_ij sign(X_i - Y_j)
 *   dz_i = X_i o (dX_i - <X_i, dX_i>)
 *
 * X, Y and dz in F32, all else in double. Source: Cui et al., SinKD, 2024, whose rows are those of
 * a batch, and which has no T in front, but 0.0008 (for BERT 0.002). */
#ifndef PARE_DISTILL_SINKHORN_H
#define PARE_DISTILL_SINKHORN_H

#include "runtime/arena.h"

enum { PARE_SINKHORN_ROWS = 64 /* of a group */ };

/* The loss, *value, of all groups together, and dz = scale times its gradient.
 *
 *   z, t   [rows, vocab]
 *   label  [rows]; PARE_NO_LABEL: the row does not count, and its dz is 0
 *   dz     [rows, vocab]
 *
 * *value is not finite where z or t is not. PARE_ENOMEM. Memory: pare_sinkhorn_bytes of scratch,
 * rewound. Threads over the rows of a group: the same bytes for any number of them. */
PARE_CHECKED pare_status pare_sinkhorn(pare_ctx *cx, pare_arena *scratch, const float *z,
                                       const float *t, const int32_t *label, size_t rows,
                                       size_t vocab, double temperature, double scale, float *dz,
                                       double *value);

size_t pare_sinkhorn_bytes(const pare_ctx *cx, size_t vocab);

#endif
