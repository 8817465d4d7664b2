/* runtime/gram_bf16.h - sums of outer products of what is rounded to BF16.
 *
 *     c[i, j] += sum over tokens t of a[t, i] b[t, j]
 *
 * Tokens come in blocks of PARE_GRAM_ROWS: a and b are rounded and turned on their side, and a
 * block is one product gemm_bf16_bf16 for each output, which is then added to it in F32. So the
 * result has the same bytes on every CPU, for any number of threads. */
#ifndef PARE_RUNTIME_GRAM_BF16_H
#define PARE_RUNTIME_GRAM_BF16_H

#include "runtime/context.h"

enum {
    PARE_GRAM_ROWS = 1024,
    PARE_GRAM_LINE = PARE_GRAM_ROWS + 32, /* an odd number of cache lines */
};

/* h += x^T x as pare_gram_add, each row of x [rows, k] times the root of its weight first, in F32;
 * weight NULL: 1. side [k, PARE_GRAM_LINE] is written. */
void pare_gram_add_bf16(const pare_ctx *cx, uint16_t *side, float *h, const float *x,
                        const float *weight, size_t rows, size_t k);

/* c += a^T b, c [m, n], a [rows, m], b [rows, n]. side [m + n, PARE_GRAM_LINE] is written. */
void pare_gram_cross_bf16(const pare_ctx *cx, uint16_t *side, float *c, const float *a, size_t m,
                          const float *b, size_t n, size_t rows);

#endif
