/* kernels/x86/gemm_x8_span_vnni.h - products of packed weights and int8 activations of many tokens,
 * cut into spans of columns: what dense and 2:4 weights share. */
#ifndef PARE_KERNELS_X86_GEMM_X8_SPAN_VNNI_H
#define PARE_KERNELS_X86_GEMM_X8_SPAN_VNNI_H

#include <stdbool.h>

#include "kernels/layout.h"
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

enum {
    ROWS = 8 * WIDE, /* of a vector */
#if PARE_VNNI_BITS == 512
    MT = 8,       /* tokens of a register tile: with VT vectors of rows, 16 of 32 registers */
    MT_SHORT = 6, /* where groups are short: measured, 3 to 15 % faster than 8 */
#else
    MT = 6, /* 12 of 16 registers */
    MT_SHORT = 6,
#endif
    SHORT = 64, /* columns; shorter groups are short */
    TILES = 8,
    VT = 2, /* vectors of rows of a register tile */
#ifdef PARE_TILES
    SPAN = 512,   /* columns that are unpacked at a time */
    TOKENS = 512, /* that meet them */
#else
    SPAN = 256,
    TOKENS = 64,
#endif
};

/* SPAN columns of VT vectors of rows, or as many whole activation groups as fit. */
typedef struct span {
    vec w[SPAN / 4][VT];
    vec less[SPAN / PARE_ATOM_K][VT]; /* by activation group */
    vecf scale[SPAN / PARE_ATOM_K][VT];
    size_t begin, end, group; /* columns */
    size_t b;                 /* first activation group */
    bool first, last;         /* span of its groups */
    bool even;                /* all rows have the same zero point */
} span;

/* Of a register tile: sums so far, codes, scales and sums of its tokens at the span. */
typedef struct tokens {
    vecf (*acc)[VT];
    vec (*carry)[VT]; /* of groups that are longer than a span */
    const int8_t *x;
    const float *scales;
    const int32_t *sums; /* NULL: none */
    size_t ldx, xgroups;
} tokens;

/* Columns of the span that begins at `begin`. */
static void set_span(span *s, const pare_x8 *x, size_t begin)
{
    const size_t in_group = begin % x->group;
    s->begin = begin;
    s->b = begin / x->group;
    s->group = x->group;
    s->first = in_group == 0;
    size_t width = x->group <= SPAN ? SPAN / x->group * x->group : SPAN;
    if (x->group > SPAN && x->group - in_group < width)
        width = x->group - in_group;
    s->end = x->k - begin < width ? x->k : begin + width;
    s->last = x->group <= SPAN || s->end == x->k || s->end % x->group == 0;
}

/* Codes are those of the caller. */
PARE_INLINE tokens tokens_at(const pare_x8 *x, size_t t, size_t b, vecf (*acc)[VT],
                             vec (*carry)[VT])
{
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    return (tokens){.acc = acc,
                    .carry = carry,
                    .scales = x->scales + t * xgroups + b,
                    .sums = x->sums ? x->sums + t * xgroups + b : NULL,
                    .ldx = x->k,
                    .xgroups = xgroups};
}

/* Sums of nt tokens in group g of a span: carried on, or scaled and added to what there is. */
PARE_INLINE void finish_group(const span *s, size_t g, const tokens *p, vec d[TILES][VT], size_t nt)
{
    for (size_t i = 0; i < nt * VT; i++) {
        const size_t t = i / VT, v = i % VT;
        if (!s->last) {
            p->carry[t][v] = d[t][v];
            continue;
        }
        const vecf st = V(mul_ps)(s->scale[g][v], V(set1_ps)(p->scales[t * p->xgroups + g]));
        p->acc[t][v] = V(fmadd_ps)(V(cvtepi32_ps)(d[t][v]), st, p->acc[t][v]);
    }
}

/* What the tokens [t0, t1) have added up, into the rows from `row` on. */
static void store_tokens(float *y, size_t ldy, size_t row, size_t blocks, size_t t0, size_t t1,
                         vecf (*acc)[VT])
{
    for (size_t t = t0; t < t1; t++)
        for (size_t v = 0; v * WIDE < blocks; v++)
            store_blocks(y + t * ldy + row + v * ROWS, acc[t - t0][v], blocks - v * WIDE);
}
#endif

#endif
