/* distill/scores.h - how far apart the scores of attention are in a block of one model and a block
 * of another (TinyBERT).
 *
 * Query i and key j of a head, both behind RoPE, have the score U_ij = c <q_i, k_j>, c being the
 * model's factor (1 / sqrt(head_dim)), before cap and softmax. With Us of the student and Ut of the
 * teacher
 *
 *   loss = mean of (Us_ij - Ut_ij)^2
 *
 * over sequences, heads, and pairs j <= i that the windows of both blocks let see. With N of them
 * all and D_ij = 2 c (Us_ij - Ut_ij) / N, the gradient is
 *
 *   dq_i = sum_j D_ij k_j,   dk_j = sum over the heads of its group, and over i, of D_ij q_i
 *
 * turned back by RoPE. Both models have equally many heads; their size and the number of key heads
 * are each model's own. Products in F32, sums of squares in double. Source: Jiao et al., TinyBERT,
 * 2019, eq. (7), for models that read from left to right. */
#ifndef PARE_DISTILL_SCORES_H
#define PARE_DISTILL_SCORES_H

#include "runtime/arena.h"
#include "runtime/forward.h"

/* Queries and keys of a block for all tokens of a batch, behind RoPE. */
typedef struct pare_qk {
    const pare_forward *f;
    size_t length; /* of a sequence */
    size_t window; /* of the block; 0: all tokens before */
    bool apart;    /* pare_block.apart */
    float *q, *k;  /* [rows, heads * head_dim], [rows, kv_heads * head_dim] */
} pare_qk;

/* Room for up to `rows` tokens of block `block`. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_qk_take(pare_arena *a, const pare_forward *f, size_t block,
                                      size_t length, size_t rows, pare_qk *out);

/* Floats of one token. */
size_t pare_qk_floats(const pare_config *c);

/* What pare_tap.see_qkv shows, into x. */
void pare_qk_keep(pare_qk *x, const float *q, const float *k, size_t rows);

/* The loss, *value, of the student s and the teacher t; dq and dk += scale times its gradient,
 * before RoPE, in the shapes of s. PARE_ENOMEM. Memory: pare_scores_bytes of scratch, rewound.
 * Threads over sequences and key heads: the same bytes for any number of them. */
PARE_CHECKED pare_status pare_scores(pare_ctx *cx, pare_arena *scratch, pare_batch batch,
                                     const pare_qk *s, const pare_qk *t, double scale, float *dq,
                                     float *dk, double *value);

uint64_t pare_scores_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch);

#endif
