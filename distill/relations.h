/* distill/relations.h - how far apart the relations between tokens are in attention of two models
 * (MiniLMv2).
 *
 * x [rows, width] are the queries of a block, all heads side by side, cut into A pieces of e =
 * width / A channels; likewise its keys and its values. Of piece a of a sequence:
 *
 *   R_ij = softmax over j <= i of <x_i, x_j> / sqrt(e)
 *   loss = mean over queries, keys and values, pieces and rows of sum_j Rt_ij ln(Rt_ij / Rs_ij)
 *
 * Rt of the teacher, Rs of the student. Each model has widths of its own. With w the weight of a
 * row in the mean and D_ij = w (Rs_ij - Rt_ij) / sqrt(e), the gradient is
 *
 *   dx_i = sum_j (D_ij + D_ji) x_j
 *
 * Queries and keys are those before RoPE; windows and caps of attention have no part. Products and
 * exponentials in F32, sums over a row in double. Source: Wang et al., MiniLMv2, 2021, with j <= i
 * for models that read from left to right. */
#ifndef PARE_DISTILL_RELATIONS_H
#define PARE_DISTILL_RELATIONS_H

#include "runtime/arena.h"
#include "runtime/forward.h"

enum { PARE_RELATIONS = 3 /* queries, keys, values */ };

/* Of all tokens of a batch; at[i] [sequences * length, width[i]]. */
typedef struct pare_qkv {
    float *at[PARE_RELATIONS];
    size_t width[PARE_RELATIONS];
} pare_qkv;

/* Room for up to `rows` tokens of a model. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_qkv_take(pare_arena *a, const pare_config *c, size_t rows,
                                       pare_qkv *out);

/* Floats of one token. */
size_t pare_qkv_floats(const pare_config *c);

/* pare_tap.see_qkv: copies into the pare_qkv `self`. */
PARE_CHECKED pare_status pare_qkv_keep(void *self, const float *q, const float *k, const float *v,
                                       size_t rows);

/* The loss, *value, of the student s and the teacher t; d = scale times its gradient.
 *   pieces  A, at least 1; divides all widths
 * PARE_ENOMEM. Memory: pare_relations_bytes of scratch, rewound. Threads over sequences, pieces and
 * the three kinds: the same bytes for any number of them. */
PARE_CHECKED pare_status pare_relations(pare_ctx *cx, pare_arena *scratch, pare_batch batch,
                                        size_t pieces, const pare_qkv *s, const pare_qkv *t,
                                        double scale, const pare_qkv *d, double *value);

size_t pare_relations_bytes(const pare_ctx *cx, pare_batch batch, size_t pieces);

#endif
