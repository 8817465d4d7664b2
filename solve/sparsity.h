/* solve/sparsity.h - which weights of a matrix go: the lowest scores, under a rule.
 *
 * N:M            of each M consecutive inputs of a row at most N stay; a tail of t < M inputs
 *                keeps ceil(N t / M)
 * unstructured   exactly floor(ratio count) go, count being the weights that are compared: a row,
 *                or the matrix. A product within 1e-6 of a whole number counts as it.
 *
 * So how many stay follows from shape and rule alone. Of equal scores the lower (row, then column)
 * goes first; with random_ties their order is drawn from (seed, tensor, row * k + column). Scores
 * are hardly ever equal to the last bit, so near ones count as equal then: with c the highest score
 * that would go, all in [c (1 - tie_width), c (1 + tie_width)] are drawn among. What lies below
 * goes and what lies above stays, as without. So who makes a model and knows the rule cannot tell
 * which of the weights near the cut will survive it. */
#ifndef PARE_SOLVE_SPARSITY_H
#define PARE_SOLVE_SPARSITY_H

#include <stdbool.h>

#include "runtime/arena.h"

enum { PARE_SPARSITY_OF_MAX = 64 };

typedef struct pare_sparsity {
    double ratio;      /* unstructured: the share that goes */
    unsigned keep, of; /* keep of each `of` inputs; of 0: unstructured */
    bool by_row;       /* unstructured: a weight is compared with its row only */
    bool random_ties;
    double tie_width;      /* of random ties: 0 .. 1, relative; 0: equal scores only */
    uint64_t seed, tensor; /* of random ties */
} pare_sparsity;

/* PARE_EINVAL unless 0 < ratio < 1, or 1 <= keep < of <= 64; for a width outside 0 .. 1. */
PARE_CHECKED pare_status pare_sparsity_check(pare_ctx *cx, const pare_sparsity *s);

/* Weights of an [n, k] matrix that stay. */
uint64_t pare_sparsity_kept(const pare_sparsity *s, size_t n, size_t k);

/* keep[i] = 1 where a weight stays, 0 where it goes.
 *
 *   score  [n, k] >= 0 and finite; read
 *   keep   [n, k]; written
 *
 * Returns PARE_OK, what pare_sparsity_check returns, PARE_ENUMERIC for the first score that is
 * negative or not finite (row and input are named), PARE_ENOMEM. Memory  16 KiB per worker and 8 n
 * bytes from `scratch`, given back.   Work  O(n k).   Threads over rows; Exact. */
PARE_CHECKED pare_status pare_sparsity_choose(pare_ctx *cx, pare_arena *scratch,
                                              const pare_sparsity *s, const float *score, size_t n,
                                              size_t k, uint8_t *keep);

/* The columns of a matrix that is pruned unstructured from left to right, some at a time. */
typedef struct pare_sparsity_part {
    size_t n, k;      /* the matrix */
    size_t c0, count; /* columns [c0, c0 + count) */
} pare_sparsity_part;

/* The same for these columns alone: score and keep [n, count]. So many of them go that parts which
 * make up the matrix lose what the matrix loses: with W weights left of the part and V in it,
 * floor(ratio (W + V)) - floor(ratio W). */
PARE_CHECKED pare_status pare_sparsity_choose_part(pare_ctx *cx, pare_arena *scratch,
                                                   const pare_sparsity *s,
                                                   const pare_sparsity_part *part,
                                                   const float *score, uint8_t *keep);

/* One group of N:M by itself.
 *
 *   score  [count], count <= of; any order of bits is total, so a NaN is merely large
 *   index  row * k + column of the first
 *   keep   [count]; written */
void pare_sparsity_group(const pare_sparsity *s, const float *score, size_t count, uint64_t index,
                         uint8_t *keep);

#endif
