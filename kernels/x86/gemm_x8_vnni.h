/* kernels/x86/gemm_x8_vnni.h - packed weights, int8 activations: what gemm_x8_avxvnni.c and
 * gemm_x8_avx512.c share.
 *
 * One instruction adds four products of u8 and s8 to each 32-bit lane: weights are the unsigned
 * side, 4 consecutive k of a row in a lane. Zero points come in as -z * (sum of the activation
 * codes). Sums of 32-bit lanes are exact, in any order.
 *
 * More than FEW tokens: SPAN columns of VT vectors of rows at a time, of two blocks of 8 rows each
 * in 512 bits, are unpacked into the first-level cache and meet all tokens, MT in a register tile.
 */
#ifndef PARE_KERNELS_X86_GEMM_X8_VNNI_H
#define PARE_KERNELS_X86_GEMM_X8_VNNI_H

#include <assert.h>

#include "kernels/x86/gemm_x8_few_vnni.h"
#include "kernels/x86/gemm_x8_one_vnni.h"
#include "kernels/x86/gemm_x8_span_vnni.h"

#ifdef PARE_VNNI

/* Zero points of a vector of rows, negative: those of the panel at `at`, or -z for all. */
PARE_INLINE vec less_zero(const pare_panel *w, size_t at, size_t stride, int z)
{
    if (z >= 0)
        return V(set1_epi32)(-z);
    return V(sub_epi32)(VS(setzero)(), load_zero_blocks(w->zeros + at, stride));
}

/* A few tokens: columns [k, end) unpacked in registers. */
PARE_INLINE void dense_dot(vec d[FT][VT], const few *f, size_t b, size_t k, size_t end,
                           unsigned bits, size_t mt)
{
    const pare_panel *const w = f->w;
    const size_t size = pare_atom_bytes(bits), bytes = w->k / PARE_ATOM_K * size, ldx = f->x->k;
    const uint8_t *const first = w->codes + f->row / 8 * bytes;
    const int8_t *x = f->x->codes + f->t0 * ldx + k;
    const uint8_t *atom[VT];
    for (size_t v = 0; v < VT; v++) {
        const size_t plane = (f->at[v].block * f->groups + k / w->group) * 8;
        const vec less = less_zero(w, plane, f->at[v].next * f->groups * 8, f->z);
        for (size_t t = 0; t < mt; t++)
            d[t][v] = V(mullo_epi32)(less, V(set1_epi32)(f->x->sums[(f->t0 + t) * f->xgroups + b]));
        atom[v] = w->codes + f->at[v].block * bytes + k / PARE_ATOM_K * size;
    }
    for (; k < end; k += PARE_ATOM_K, x += PARE_ATOM_K) {
        for (size_t line = 0; line < size; line += 64)
            prefetch_blocks(first, k / PARE_ATOM_K * size + line, bytes);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) { /* fields of a byte follow each other */
            const int i = bits == 4 ? j / 2 + j % 2 * 4 : j;
            vec q[VT];
            for (size_t v = 0; v < VT; v++)
                q[v] = unpack_quad(atom[v], f->at[v].next * bytes, i, bits);
            for (size_t t = 0; t < mt; t++) {
                const vec codes = broadcast_codes(x + t * ldx + 4 * i);
                for (size_t v = 0; v < VT; v++) {
                    d[t][v] = dot(d[t][v], q[v], codes);
                    hold(&d[t][v]);
                }
            }
        }
        for (size_t v = 0; v < VT; v++)
            atom[v] += size;
    }
}

// clang-format off
FEW_TILES(q2, dense_dot, 2)
FEW_TILES(q3, dense_dot, 3)
FEW_TILES(q4, dense_dot, 4)
FEW_TILES(q8, dense_dot, 8)
// clang-format on

/* Word l of an atom, from `w` on in a span, in which vectors of the same columns lie side by side.
 */
PARE_INLINE void unpack_word(vec (*to)[VT], vec w, size_t l, unsigned bits)
{
    const vec low = V(set1_epi8)(bits == 4 ? 15 : 3);
    if (bits == 8)
        to[l][0] = VS(xor)(w, V(set1_epi8)((char)0x80));
    if (bits == 4) {
        to[l][0] = VS(and)(w, low);
        to[l + 4][0] = VS(and)(V(srli_epi16)(w, 4), low);
    }
    for (int f = 0; bits < 4 && l < 2 && f < 4; f++)
        to[4 * l + (size_t)f][0] = VS(and)(V(srli_epi16)(w, 2 * f), low);
    for (int f = 0; bits == 3 && l == 2 && f < 8; f++) {
        const vec four = V(set1_epi8)(4);
        const vec bit = f < 2 ? V(slli_epi16)(w, 2 - f) : V(srli_epi16)(w, f - 2);
        to[f][0] = VS(or)(to[f][0], VS(and)(bit, four));
    }
}

/* Vectors of rows behind the last are the first again; their results are not stored. */
PARE_INLINE void unpack_span(span *s, const pare_panel *w, size_t row, size_t blocks, unsigned bits,
                             int z)
{
    const size_t size = pare_atom_bytes(bits), groups = (w->k + w->group - 1) / w->group;
    const size_t stride = w->k / PARE_ATOM_K * size;
    s->even = z >= 0;
    for (size_t v = 0; v < VT; v++) {
        const size_t first = v * WIDE < blocks ? v * WIDE : 0, at = row / 8 + first;
        const size_t wide = first + WIDE <= blocks ? 1 : 0;
        const uint8_t *atom = w->codes + at * stride + s->begin / PARE_ATOM_K * size;
        for (size_t k = s->begin, i = 0; k < s->end; k += PARE_ATOM_K, i += 8, atom += size)
            for (size_t l = 0; l < bits; l++)
                unpack_word((vec(*)[VT])(&s->w[i][v]), load_blocks(atom + 32 * l, wide * stride), l,
                            bits);
        for (size_t k = s->begin, i = 0; k < s->end; k += s->group, i++) {
            const size_t plane = (at * groups + k / w->group) * 8;
            s->less[i][v] = less_zero(w, plane, wide * groups * 8, z);
            s->scale[i][v] = load_scale_blocks(w->scales + plane, wide * groups * 8);
        }
    }
}

/* d += `quads` times 4 columns. */
PARE_INLINE void add_quads(vec d[TILES][VT], const vec (*w)[VT], const int8_t *x, size_t ldx,
                           size_t quads, size_t mt)
{
    for (size_t q = 0; q < quads; q += 8)
#pragma GCC unroll 8
        for (size_t i = q; i < q + 8; i++)
            for (size_t t = 0; t < mt; t++) {
                const vec codes = broadcast_codes(x + t * ldx + 4 * i);
                for (size_t v = 0; v < VT; v++)
                    d[t][v] = dot(d[t][v], w[i][v], codes);
            }
}

/* d of token t at first: what zero points take away, or what went before of a long group. */
PARE_INLINE void start_group(const span *s, size_t g, const tokens *p, vec d[VT], size_t t)
{
    const vec sum = V(set1_epi32)(s->first ? p->sums[t * p->xgroups + g] : 0);
    if (!s->first) {
        for (size_t v = 0; v < VT; v++)
            d[v] = p->carry[t][v];
    } else if (s->even) {
        const vec all = V(mullo_epi32)(s->less[g][0], sum);
        for (size_t v = 0; v < VT; v++)
            d[v] = all;
    } else {
        for (size_t v = 0; v < VT; v++)
            d[v] = V(mullo_epi32)(s->less[g][v], sum);
    }
}

PARE_INLINE void tile(const span *s, const tokens *p, size_t mt)
{
    for (size_t k = s->begin, g = 0; k < s->end; k += s->group, g++) {
        const size_t width = s->end - k < s->group ? s->end - k : s->group;
        const size_t quad = (k - s->begin) / 4;
        vec d[TILES][VT];
        for (size_t t = 0; t < mt; t++)
            start_group(s, g, p, d[t], t);
        add_quads(d, s->w + quad, p->x + 4 * quad, p->ldx, width / 4, mt);
        finish_group(s, g, p, d, mt);
    }
}

/* One function per number of tokens, so that it is constant inside. */
typedef void tile_fn(const span *s, const tokens *p);

#define TILE(mt)                                                                                   \
    static void tile_##mt(const span *s, const tokens *p)                                          \
    {                                                                                              \
        tile(s, p, mt);                                                                            \
    }

// clang-format off
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8)
    // clang-format on

    static tile_fn *const tiles[TILES] = {tile_1, tile_2, tile_3, tile_4,
                                          tile_5, tile_6, tile_7, tile_8};

/* Blocks of eight rows, at most VT * WIDE, by the tokens [t0, t1), at most TOKENS. */
PARE_INLINE void block(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                       size_t blocks, size_t t0, size_t t1, unsigned bits, int z)
{
    const size_t step = x->group < SHORT ? MT_SHORT : MT;
    vecf acc[TOKENS][VT];
    vec carry[TOKENS][VT];
    span s;
    for (size_t i = 0; i < (t1 - t0) * VT; i++)
        acc[i / VT][i % VT] = V(setzero_ps)();
    for (size_t k = 0; k < x->k; k = s.end) {
        set_span(&s, x, k);
        unpack_span(&s, w, row, blocks, bits, z);
        for (size_t t = t0; t < t1; t += step) {
            tokens p = tokens_at(x, t, s.b, acc + (t - t0), carry + (t - t0));
            p.x = x->codes + t * x->k + k;
            tiles[(t1 - t < step ? t1 - t : step) - 1](&s, &p);
        }
    }
    store_tokens(y, ldy, row, blocks, t0, t1, acc);
}

PARE_INLINE void gemm(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                      int z, few_fn *const few_tiles[FT])
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    if (x->m == 1) {
        for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
            one_token(y, x, w, row, bits, z);
        return;
    }
    if (x->m <= FEW) {
        few_tokens(y, ldy, x, w, z, few_tiles);
        return;
    }
    for (size_t row = 0; row < w->n; row += VT * ROWS) {
        const size_t blocks = w->n - row < VT * ROWS ? (w->n - row) / 8 : VT * WIDE;
        for (size_t t = 0; t < x->m; t += TOKENS)
            block(y, ldy, x, w, row, blocks, t, x->m - t < TOKENS ? x->m : t + TOKENS, bits, z);
    }
}

#define GEMM(bits)                                                                                 \
    void PARE_VNNI(gemm_x8_q##bits)(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)   \
    {                                                                                              \
        if (w->zeros)                                                                              \
            gemm(y, ldy, x, w, bits, -1, few_q##bits);                                             \
        else                                                                                       \
            gemm(y, ldy, x, w, bits, 1 << (bits - 1), few_q##bits);                                \
    }

// clang-format off
GEMM(2)
GEMM(3)
GEMM(4)
GEMM(8)
// clang-format on

void PARE_VNNI(gemm_x8_t2)(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm(y, ldy, x, w, 2, 1, few_q2);
}

#endif

#endif
