/* kernels/arm/gemm_x8_24_internal.h - 2:4 weights, int8 activations: what two levels share.
 *
 * A register holds 4 places of 4 rows: 8 columns, two places for each 4. The 8 activation codes of
 * those columns are looked up by the indices, so that each place meets its own, and then there is
 * half of the products of dense weights. A level defines add_words, which adds the products.
 *
 * One token: memory is the limit, half an atom is unpacked in registers. Many: up to 256 columns of
 * 8 rows at a time are unpacked into the first-level cache and meet 64 tokens; the tokens of a tile
 * lie side by side. */
#ifndef PARE_KERNELS_ARM_GEMM_X8_24_INTERNAL_H
#define PARE_KERNELS_ARM_GEMM_X8_24_INTERNAL_H

#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <assert.h>
#include <stdbool.h>

enum {
    MT = 4,       /* tokens of a register tile */
    TOKENS = 64,  /* that meet unpacked weights */
    BLOCKS = 8,   /* row blocks that meet the same columns of activation codes */
    SPAN = 256,   /* columns that are unpacked at a time */
    WORD = 8,     /* columns of a register */
    HALF = 32,    /* columns of half an atom */
    INDICES = 64, /* bytes of the indices of an atom */
    AHEAD = 1024, /* bytes of prefetch distance for one token */
};

/* Eight columns of rows 4 h .. 4 h + 3: weights, and which activation code each meets. */
typedef struct word {
    int8x16_t w[2];
    uint8x16_t pick[2];
} word;

/* Codes of 8 columns of one token; those of 4-bit weights come + 128. */
PARE_INLINE int8x16_t codes_8(const int8_t *x, unsigned bits)
{
    const int8x16_t v = vcombine_s8(vld1_s8(x), vdup_n_s8(0));
    return bits == 4 ? veorq_s8(v, vdupq_n_s8(-128)) : v;
}

/* d[t][h] += `words` words, at most 32, for mt tokens; words of x are `stride` bytes apart,
 * tokens 8. The level's. */
PARE_INLINE void add_words(int32x4_t d[MT][2], const int8_t *x, size_t stride, const word *w,
                           size_t words, unsigned bits, size_t mt);

/* Half an atom. */
PARE_INLINE void unpack_half(word out[4], const uint8_t *codes, const uint8_t *indices, size_t half,
                             unsigned bits)
{
    const uint8x16_t second = vreinterpretq_u8_u32(vdupq_n_u32(0x04040000u));
    int8x16_t w[4][2], e[4][2];
    unpack_16(w, codes, half, bits);
    unpack_16(e, indices, half, 2);
    for (size_t l = 0; l < 4; l++)
        for (size_t h = 0; h < 2; h++) {
            out[l].w[h] = bits == 4 ? vsubq_s8(w[l][h], vdupq_n_s8(8)) : w[l][h];
            out[l].pick[h] = vorrq_u8(vreinterpretq_u8_s8(e[l][h]), second);
        }
}

/* acc plus the sums d of a group, scaled. */
PARE_INLINE f32x8 add_group(f32x8 acc, const int32x4_t d[2], f32x8 scale, float of_x)
{
    const f32x8 sum = {vcvtq_f32_s32(d[0]), vcvtq_f32_s32(d[1])};
    return fma_8(sum, (f32x8){vmulq_n_f32(scale.lo, of_x), vmulq_n_f32(scale.hi, of_x)}, acc);
}

PARE_INLINE void one_token(float *y, const pare_x8 *x, const pare_panel *w, unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K, size = pare_atom_bytes(bits);
    const size_t groups = (w->k + w->group - 1) / w->group;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        const uint8_t *const codes = w->codes + row / 8 * atoms * size;
        const uint8_t *const indices = w->indices + row / 8 * atoms * INDICES;
        f32x8 acc = set1_8(0.0f);
        for (size_t b = 0, k = 0; k < x->k; b++) {
            const size_t end = x->k - k < x->group ? x->k : k + x->group;
            const f32x8 scale = load_scales(w->scales + row * groups + k / w->group * 8);
            int32x4_t d[MT][2];
            d[0][0] = d[0][1] = vdupq_n_s32(0);
            for (; k < end; k += HALF) {
                const uint8_t *const atom = codes + k / 64 * size, *const e = indices + k / 64 * 64;
                word half[4];
                __builtin_prefetch(atom + AHEAD + (k % 64 ? size / 2 : 0));
                __builtin_prefetch(e + AHEAD);
                if (k % 64)
                    unpack_half(half, atom, e, 1, bits);
                else
                    unpack_half(half, atom, e, 0, bits);
                add_words(d, x->codes + k, WORD, half, 4, bits, 1);
            }
            acc = add_group(acc, d[0], scale, x->scales[b]);
        }
        store_8(y + row, acc);
    }
}

/* Columns [k, end) of the row block `row`. */
PARE_INLINE void unpack_span(word *to, const pare_panel *w, size_t row, size_t k, size_t end,
                             unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K;
    for (; k < end; k += HALF, to += 4) {
        const size_t at = row / 8 * atoms + k / 64;
        const uint8_t *const codes = w->codes + at * pare_atom_bytes(bits);
        const uint8_t *const indices = w->indices + at * INDICES;
        if (k % 64)
            unpack_half(to, codes, indices, 1, bits);
        else
            unpack_half(to, codes, indices, 0, bits);
    }
}

/* Sums of up to 64 tokens with 8 rows, while columns are gone through. */
typedef struct sums {
    float acc[TOKENS][8];
    int32_t d[TOKENS][8]; /* of a group that is longer than a span */
} sums;

/* A span of 8 rows with tokens of a tile. */
typedef struct step {
    const word *words;
    size_t count, stride;
    const int8_t *x;
    const float *xscale;
    size_t xgroups;
    f32x8 scale;
    bool first, last; /* span of its group */
} step;

PARE_INLINE void tile(const step *at, float (*acc)[8], int32_t (*carry)[8], unsigned bits,
                      size_t mt)
{
    int32x4_t d[MT][2];
    for (size_t t = 0; t < mt; t++)
        for (size_t h = 0; h < 2; h++)
            d[t][h] = at->first ? vdupq_n_s32(0) : vld1q_s32(carry[t] + 4 * h);
    add_words(d, at->x, at->stride, at->words, at->count, bits, mt);
    for (size_t t = 0; t < mt; t++) {
        if (at->last) {
            store_8(acc[t],
                    add_group(load_8(acc[t]), d[t], at->scale, at->xscale[t * at->xgroups]));
            continue;
        }
        vst1q_s32(carry[t], d[t][0]);
        vst1q_s32(carry[t] + 4, d[t][1]);
    }
}

/* One function per width and number of tokens, so that both are constants inside. */
typedef void tile_fn(const step *at, float (*acc)[8], int32_t (*carry)[8]);

/* The tokens [t0, t1) meet an unpacked span, whose first column is k. */
PARE_INLINE void all_tokens(step *at, sums *to, const pare_x8 *x, size_t t0, size_t t1, size_t k,
                            tile_fn *const fn[MT])
{
    for (size_t t = t0; t < t1; t += MT) {
        const size_t first = t / PARE_X24_TILE * PARE_X24_TILE;
        const size_t side = x->m - first < PARE_X24_TILE ? x->m - first : PARE_X24_TILE;
        at->stride = side * WORD;
        at->x = x->codes + pare_x24_at(x->m, x->k, t, k);
        at->xscale = x->scales + t * at->xgroups + k / x->group;
        fn[t1 - t < MT ? t1 - t - 1 : MT - 1](at, to->acc + (t - t0), to->d + (t - t0));
    }
}

/* Rows [r0, r1) by tokens [t0, t1), at most BLOCKS row blocks and TOKENS. */
PARE_INLINE void block(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t r0,
                       size_t r1, size_t t0, size_t t1, unsigned bits, tile_fn *const fn[MT])
{
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    const size_t groups = (w->k + w->group - 1) / w->group;
    sums sum[BLOCKS];
    for (size_t i = 0; i < (r1 - r0) / 8; i++)
        memset(sum[i].acc, 0, (t1 - t0) * sizeof *sum[i].acc);
    for (size_t k = 0, end; k < x->k; k = end) {
        const size_t b = k / x->group,
                     last = x->k - b * x->group < x->group ? x->k : (b + 1) * x->group;
        end = last - k < SPAN ? last : k + SPAN;
        for (size_t row = r0; row < r1; row += 8) {
            word words[SPAN / WORD];
            unpack_span(words, w, row, k, end, bits);
            step at = {.words = words,
                       .count = (end - k) / WORD,
                       .xgroups = xgroups,
                       .scale = load_scales(w->scales + row * groups + k / w->group * 8),
                       .first = k == b * x->group,
                       .last = end == last};
            all_tokens(&at, &sum[(row - r0) / 8], x, t0, t1, k, fn);
        }
    }
    for (size_t i = 0; i < (r1 - r0) / 8; i++)
        for (size_t t = t0; t < t1; t++)
            memcpy(y + t * ldy + r0 + 8 * i, sum[i].acc[t - t0], sizeof sum[i].acc[0]);
}

PARE_INLINE void gemm(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                      tile_fn *const fn[MT])
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0 && !w->zeros);
    assert(w->group % x->group == 0 || w->group >= w->k);
    if (x->m == 1) {
        one_token(y, x, w, bits);
        return;
    }
    const size_t rows = (size_t)BLOCKS * PARE_ATOM_N;
    for (size_t r = 0; r < w->n; r += rows)
        for (size_t t = 0; t < x->m; t += TOKENS)
            block(y, ldy, x, w, r, w->n - r < rows ? w->n : r + rows, t,
                  x->m - t < TOKENS ? x->m : t + TOKENS, bits, fn);
}

#define PARE_X24_TILE_FN(bits, mt)                                                                 \
    static void tile_s##bits##_##mt(const step *at, float(*acc)[8], int32_t(*carry)[8])            \
    {                                                                                              \
        tile(at, acc, carry, bits, mt);                                                            \
    }

/* The kernel of a width. */
#define PARE_X24_KERNEL(bits, level)                                                               \
    PARE_X24_TILE_FN(bits, 1)                                                                      \
    PARE_X24_TILE_FN(bits, 2)                                                                      \
    PARE_X24_TILE_FN(bits, 3)                                                                      \
    PARE_X24_TILE_FN(bits, 4)                                                                      \
    void pare_gemm_x8_s##bits##_##level(float *y, size_t ldy, const pare_x8 *x,                    \
                                        const pare_panel *w)                                       \
    {                                                                                              \
        static tile_fn *const fn[MT] = {tile_s##bits##_1, tile_s##bits##_2, tile_s##bits##_3,      \
                                        tile_s##bits##_4};                                         \
        gemm(y, ldy, x, w, bits, fn);                                                              \
    }

#endif

#endif
