/* kernels/x86/gemm_x8_24_vnni.h - 2:4 weights, int8 activations of many tokens: what
 * gemm_x8_24_avxvnni.c and gemm_x8_24_avx512.c share.
 *
 * A lane holds 4 places of a row, 8 columns. A broadcast of the 8 activation codes is shuffled by
 * the indices, so that each place meets its own. Activation codes are the unsigned side, + 128
 * (those of 8-bit weights become so here); 128 times the sum of the weights is taken away once, for
 * all tokens. */
#ifndef PARE_KERNELS_X86_GEMM_X8_24_VNNI_H
#define PARE_KERNELS_X86_GEMM_X8_24_VNNI_H

#include <assert.h>

#include "kernels/x86/gemm_x8_24_few_vnni.h"
#include "kernels/x86/gemm_x8_span_vnni.h"

#ifdef PARE_VNNI

enum {
#if PARE_VNNI_BITS == 512
    NT = 8, /* tokens of a register tile: with VT vectors of rows, 16 of 32 registers */
#else
    NT = 4, /* 8 of 16 registers */
#endif
};

/* span.w[2 i] are the weights of word i, span.w[2 i + 1] how to shuffle activation codes: bits 4 to
 * 6 of a byte do not count, bit 7 is 0. */
PARE_INLINE void unpack_half(vec (*to)[VT], vec *sum, const uint8_t *codes, size_t stride,
                             const uint8_t *indices, size_t index_stride, size_t half,
                             unsigned bits)
{
    const vec keep = V(set1_epi8)(0x33), second = V(set1_epi32)(0x44440000);
    const vec e = load_blocks(indices + HALF * half, index_stride);
    const vec pick[2] = {VS(or)(VS(and)(e, keep), second),
                         VS(or)(VS(and)(V(srli_epi16)(e, 2), keep), second)};
    for (size_t l = 0; l < 4; l++) {
        to[2 * l + 1][0] = l < 2 ? pick[l] : V(srli_epi16)(pick[l - 2], 4);
        vec w = load_blocks(codes + 32 * l + (bits == 8 ? 128 * half : 0), stride);
        if (bits == 4) {
            w = VS(and)(half ? V(srli_epi16)(w, 4) : w, V(set1_epi8)(15));
            w = V(sub_epi8)(w, V(set1_epi8)(8));
        }
        to[2 * l][0] = w;
        *sum = dot(*sum, V(set1_epi8)(1), w);
    }
}

/* Vectors of rows behind the last are the first again; their results are not stored. */
PARE_INLINE void unpack_span(span *s, const pare_panel *w, size_t row, size_t blocks, unsigned bits)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K, size = pare_atom_bytes(bits);
    for (size_t v = 0; v < VT; v++) {
        const size_t first = v * WIDE < blocks ? v * WIDE : 0, at = row / 8 + first;
        const size_t wide = first + WIDE <= blocks ? 1 : 0;
        for (size_t k = s->begin, g = 0; k < s->end; g++) {
            const size_t plane = (at * groups + k / w->group) * 8;
            const size_t end = s->end - k < s->group ? s->end : k + s->group;
            vec sum = VS(setzero)();
            for (; k < end; k += HALF) {
                const size_t atom = at * atoms + k / 64;
                vec(*const to)[VT] = (vec(*)[VT])(&s->w[(k - s->begin) / 4][v]);
                const uint8_t *const codes = w->codes + atom * size;
                const uint8_t *const indices = w->indices + atom * INDICES;
                const size_t stride = wide * atoms * size, next = wide * atoms * INDICES;
                if (k % 64)
                    unpack_half(to, &sum, codes, stride, indices, next, 1, bits);
                else
                    unpack_half(to, &sum, codes, stride, indices, next, 0, bits);
            }
            s->less[g][v] = V(sub_epi32)(VS(setzero)(), V(slli_epi32)(sum, 7));
            s->scale[g][v] = load_scale_blocks(w->scales + plane, wide * groups * 8);
        }
    }
}

/* d += `words` words (a multiple of 4) of nt tokens that lie side by side with others: codes of the
 * next word are `step` bytes away. */
PARE_INLINE void add_words(vec d[TILES][VT], const vec (*w)[VT], const int8_t *x, size_t step,
                           size_t words, size_t nt, unsigned bits)
{
    for (size_t i = 0; i < words; i += 4)
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++, w += 2, x += step)
            for (size_t t = 0; t < nt; t++) {
                int64_t word;
                memcpy(&word, x + t * WORD, sizeof word);
                vec codes = broadcast_word(word);
                if (bits == 8)
                    codes = VS(xor)(codes, V(set1_epi8)((char)0x80));
                for (size_t v = 0; v < VT; v++)
                    d[t][v] = dot(d[t][v], V(shuffle_epi8)(codes, w[1][v]), w[0][v]);
            }
}

PARE_INLINE void tile(const span *s, const tokens *p, size_t nt, unsigned bits)
{
    for (size_t k = s->begin, g = 0; k < s->end; k += s->group, g++) {
        const size_t width = s->end - k < s->group ? s->end - k : s->group, at = k - s->begin;
        vec d[TILES][VT];
        for (size_t i = 0; i < nt * VT; i++) {
            const size_t t = i / VT, v = i % VT;
            d[t][v] = s->less[g][v];
            if (!s->first)
                d[t][v] = V(add_epi32)(d[t][v], p->carry[t][v]);
        }
        add_words(d, s->w + at / 4, p->x + at / WORD * p->ldx, p->ldx, width / WORD, nt, bits);
        finish_group(s, g, p, d, nt);
    }
}

/* One function per width and number of tokens, so that both are constant inside. */
typedef void tile_fn(const span *s, const tokens *p);

#define TILE(bits, nt)                                                                             \
    static void tile_s##bits##_##nt(const span *s, const tokens *p)                                \
    {                                                                                              \
        tile(s, p, nt, bits);                                                                      \
    }
#define TILE_4(bits) TILE(bits, 1) TILE(bits, 2) TILE(bits, 3) TILE(bits, 4)
#define TILE_8(bits) TILE_4(bits) TILE(bits, 5) TILE(bits, 6) TILE(bits, 7) TILE(bits, 8)

// clang-format off
#if PARE_VNNI_BITS == 512
TILE_8(4)
TILE_8(8)
#define TILE_TABLE(bits)                                                                           \
    {tile_s##bits##_1, tile_s##bits##_2, tile_s##bits##_3, tile_s##bits##_4,                       \
     tile_s##bits##_5, tile_s##bits##_6, tile_s##bits##_7, tile_s##bits##_8}
#else
TILE_4(4)
TILE_4(8)
#define TILE_TABLE(bits) {tile_s##bits##_1, tile_s##bits##_2, tile_s##bits##_3, tile_s##bits##_4}
#endif
// clang-format on

/* Blocks of eight rows, at most VT * WIDE, by the tokens [t0, t1), at most TOKENS: whole tiles from
 * t0 on. */
PARE_INLINE void block(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                       size_t blocks, size_t t0, size_t t1, unsigned bits, tile_fn *const fn[NT])
{
    vecf acc[TOKENS][VT];
    vec carry[TOKENS][VT];
    span s;
    for (size_t i = 0; i < (t1 - t0) * VT; i++)
        acc[i / VT][i % VT] = V(setzero_ps)();
    for (size_t k = 0; k < x->k; k = s.end) {
        set_span(&s, x, k);
        unpack_span(&s, w, row, blocks, bits);
        for (size_t t = t0, nt; t < t1; t += nt) {
            const size_t first = t / PARE_X24_TILE * PARE_X24_TILE;
            const size_t mt = x->m - first < PARE_X24_TILE ? x->m - first : PARE_X24_TILE;
            nt = first + mt - t < NT ? first + mt - t : NT;
            tokens p = tokens_at(x, t, s.b, acc + (t - t0), carry + (t - t0));
            p.x = x->codes + pare_x24_at(x->m, x->k, t, k);
            p.ldx = mt * WORD;
            fn[nt - 1](&s, &p);
        }
    }
    store_tokens(y, ldy, row, blocks, t0, t1, acc);
}

PARE_INLINE void gemm_24(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                         tile_fn *const fn[NT], few_fn *const few_tiles[FT])
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0 && !w->zeros);
    assert(w->group % x->group == 0 || w->group >= w->k);
    if (x->m <= FEW) {
        few_tokens(y, ldy, x, w, 0, few_tiles);
        return;
    }
    for (size_t row = 0; row < w->n; row += VT * ROWS) {
        const size_t blocks = w->n - row < VT * ROWS ? (w->n - row) / 8 : VT * WIDE;
        for (size_t t = 0; t < x->m; t += TOKENS)
            block(y, ldy, x, w, row, blocks, t, x->m - t < TOKENS ? x->m : t + TOKENS, bits, fn);
    }
}
#endif

#endif
