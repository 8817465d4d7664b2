/* 2:4 weights, int8 activations. A vector holds 4 places of 8 rows: 8 columns, two places for each
 * 4. A broadcast of the 8 activation codes is shuffled by the indices, so that each place meets its
 * own, and then there is half of the products of dense weights.
 *
 *   4 bit  weights are signed, activation codes come + 128: 8 * 255 * 2 = 4080 is the most a pair
 *          of products can be. Sums of pairs may wrap: they begin at -128 times the sum of their
 *          weights, so what 128 columns leave in 16 bits is a sum of 32 products of at most
 *          8 * 127, and fits.
 *   8 bit  |code| times the activation with the code's sign, widened at once as for dense weights
 *
 * One token: memory is the limit, weights are unpacked in registers. Many: 128 columns of 8 rows at
 * a time are unpacked into the first-level cache and meet 64 tokens, 8 in a register tile; the
 * tokens of a tile lie side by side. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include <assert.h>
#include <stdbool.h>

#include "kernels/layout.h"

enum {
    MT = PARE_X24_TILE, /* tokens of a register tile */
    TOKENS = 64,        /* that meet unpacked weights */
    BLOCKS = 8,         /* row blocks that meet the same columns of activation codes */
    SPAN = 128,         /* columns that are unpacked at a time; their sums fit in 16 bits */
    WORD = 8,           /* columns of a vector */
    HALF = 32,          /* columns of half an atom */
    INDICES = 64,       /* bytes of the indices of an atom */
    AHEAD = 6144,       /* bytes of codes of prefetch distance for one token */
};

/* What a span of 8 rows needs to meet tokens. */
typedef struct span {
    __m256i pick[SPAN / WORD], w[SPAN / WORD];
    __m256i less; /* 4 bits: where the sums begin */
    size_t words;
} span;

/* Four vectors of places, and how to shuffle 8 activation codes for each. Bits 4 to 6 of a byte of
 * `pick` do not count, bit 7 is 0. */
PARE_INLINE void unpack_half(__m256i pick[4], __m256i w[4], const uint8_t *codes,
                             const uint8_t *indices, size_t half, unsigned bits)
{
    const __m256i keep = _mm256_set1_epi8(0x33), second = _mm256_set1_epi32(0x44440000);
    const __m256i e = load_32(indices + HALF * half);
    pick[0] = _mm256_or_si256(_mm256_and_si256(e, keep), second);
    pick[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(e, 2), keep), second);
    pick[2] = _mm256_srli_epi16(pick[0], 4);
    pick[3] = _mm256_srli_epi16(pick[1], 4);
    for (size_t l = 0; l < 4; l++) {
        if (bits == 8) {
            w[l] = load_32(codes + 128 * half + 32 * l);
            continue;
        }
        const __m256i v = load_32(codes + 32 * l);
        const __m256i u =
            _mm256_and_si256(half ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
        w[l] = _mm256_sub_epi8(u, _mm256_set1_epi8(8));
    }
}

/* -128 times the sums of pairs of weights, in 16 bits that may wrap. `sum` has up to 16 weights in
 * each byte, -128 .. 112. */
PARE_INLINE __m256i less_of(__m256i sum)
{
    return _mm256_sub_epi16(_mm256_setzero_si256(),
                            _mm256_maddubs_epi16(_mm256_set1_epi8(-128), sum));
}

PARE_INLINE __m256i add_4_epi8(const __m256i w[4])
{
    return _mm256_add_epi8(_mm256_add_epi8(w[0], w[1]), _mm256_add_epi8(w[2], w[3]));
}

PARE_INLINE __m256i picked(const int8_t *x, __m256i pick)
{
    int64_t columns;
    memcpy(&columns, x, sizeof columns);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(columns), pick);
}

PARE_INLINE __m256i dot_8(__m256i w, __m256i abs, __m256i x)
{
    return _mm256_madd_epi16(_mm256_maddubs_epi16(abs, _mm256_sign_epi8(x, w)),
                             _mm256_set1_epi16(1));
}

/* --- one token -------------------------------------------------------------------------------- */

/* Sums of 8 rows. */
typedef struct dot {
    __m256i d;     /* of 8 bits */
    __m256i pairs; /* of 4 bits: products and weights of at most SPAN columns */
    __m256i weights;
} dot;

PARE_INLINE void add_half(dot *to, const uint8_t *codes, const uint8_t *indices, const int8_t *x,
                          size_t half, unsigned bits)
{
    __m256i pick[4], w[4], s[4];
    unpack_half(pick, w, codes, indices, half, bits);
    for (size_t l = 0; l < 4; l++) {
        const __m256i q = picked(x + WORD * l, pick[l]);
        s[l] = bits == 4 ? _mm256_maddubs_epi16(q, w[l]) : dot_8(w[l], _mm256_abs_epi8(w[l]), q);
    }
    if (bits == 8) {
        to->d = _mm256_add_epi32(
            to->d, _mm256_add_epi32(_mm256_add_epi32(s[0], s[1]), _mm256_add_epi32(s[2], s[3])));
        return;
    }
    to->pairs = _mm256_add_epi16(
        to->pairs, _mm256_add_epi16(_mm256_add_epi16(s[0], s[1]), _mm256_add_epi16(s[2], s[3])));
    to->weights = _mm256_add_epi8(to->weights, add_4_epi8(w));
}

/* Sums of columns [k, end), at most SPAN, of the row block whose codes and indices begin there. */
PARE_INLINE __m256i span_dot(const uint8_t *codes, const uint8_t *indices, const int8_t *x,
                             size_t k, size_t end, unsigned bits)
{
    const size_t size = pare_atom_bytes(bits);
    dot sums = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    while (k < end) {
        const uint8_t *const atom = codes + k / 64 * size, *const e = indices + k / 64 * INDICES;
        if (k % 64 == 0 && end - k >= 64) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(atom + line, AHEAD);
            prefetch_stream(e, AHEAD * INDICES / size);
            add_half(&sums, atom, e, x + k, 0, bits);
            add_half(&sums, atom, e, x + k + HALF, 1, bits);
            k += 64;
        } else if (k % 64 == 0) {
            add_half(&sums, atom, e, x + k, 0, bits);
            k += HALF;
        } else {
            add_half(&sums, atom, e, x + k, 1, bits);
            k += HALF;
        }
    }
    if (bits == 8)
        return sums.d;
    return _mm256_madd_epi16(_mm256_add_epi16(sums.pairs, less_of(sums.weights)),
                             _mm256_set1_epi16(1));
}

PARE_INLINE void one_token(float *y, const pare_x8 *x, const pare_panel *w, unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K;
    const size_t groups = (w->k + w->group - 1) / w->group;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        const uint8_t *const codes = w->codes + row / 8 * atoms * pare_atom_bytes(bits);
        const uint8_t *const indices = w->indices + row / 8 * atoms * INDICES;
        __m256 acc = _mm256_setzero_ps();
        for (size_t b = 0, k = 0; k < x->k; b++) {
            const size_t end = x->k - k < x->group ? x->k : k + x->group;
            __m256i d = _mm256_setzero_si256();
            for (size_t next; k < end; k = next) {
                next = end - k < SPAN ? end : k + SPAN;
                d = _mm256_add_epi32(d, span_dot(codes, indices, x->codes, k, next, bits));
            }
            const __m256 s = load_scales(w->scales + row * groups + (end - 1) / w->group * 8);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d),
                                  _mm256_mul_ps(s, _mm256_set1_ps(x->scales[b])), acc);
        }
        _mm256_storeu_ps(y + row, acc);
    }
}

/* --- many tokens ------------------------------------------------------------------------------ */

/* Columns [k, end) of the row block `row`. */
PARE_INLINE void unpack_span(span *s, const pare_panel *w, size_t row, size_t k, size_t end,
                             unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K;
    __m256i sum = _mm256_setzero_si256();
    s->words = (end - k) / WORD;
    for (size_t i = 0; k < end; k += HALF, i += 4) {
        const size_t at = row / 8 * atoms + k / 64;
        const uint8_t *const codes = w->codes + at * pare_atom_bytes(bits);
        const uint8_t *const indices = w->indices + at * INDICES;
        if (k % 64)
            unpack_half(s->pick + i, s->w + i, codes, indices, 1, bits);
        else
            unpack_half(s->pick + i, s->w + i, codes, indices, 0, bits);
        if (bits == 4)
            sum = _mm256_add_epi8(sum, add_4_epi8(s->w + i));
    }
    s->less = less_of(sum);
}

/* Sums of four words are added to those of mt tokens, which lie side by side. */
PARE_INLINE void add_words(__m256i s[MT], const int8_t *x, const __m256i *pick, const __m256i *w,
                           size_t mt, unsigned bits)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const __m256i p = pick[i], v = w[i], abs = _mm256_abs_epi8(v);
#pragma GCC unroll 8
        for (size_t t = 0; t < mt; t++) {
            const __m256i q = picked(x + (i * mt + t) * WORD, p);
            s[t] = bits == 4 ? _mm256_add_epi16(s[t], _mm256_maddubs_epi16(q, v))
                             : _mm256_add_epi32(s[t], dot_8(v, abs, q));
            /* Keeps the compiler from making trees of sums, for which registers are few. */
            __asm__("" : "+x"(s[t]));
        }
    }
}

/* Sums of up to 64 tokens with 8 rows, while columns are gone through. */
typedef struct sums {
    float acc[TOKENS][8];
    int32_t d[TOKENS][8]; /* of a group that is longer than a span */
} sums;

/* A span of 8 rows with a tile of mt tokens. */
typedef struct step {
    const span *s;
    const int8_t *x;
    const float *xscale;
    size_t xgroups;
    __m256 scale;
    bool first, last; /* span of its group */
} step;

PARE_INLINE void tile(const step *at, float (*acc)[8], int32_t (*carry)[8], size_t mt,
                      unsigned bits)
{
    const span *const s = at->s;
    const __m256i *pick = s->pick, *w = s->w, *const end = pick + s->words;
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
    const int8_t *x = at->x;
    __m256i d[MT];
#pragma GCC unroll 8
    for (size_t t = 0; t < mt; t++)
        d[t] = bits == 4 ? s->less : zero;
    for (; pick < end; pick += 4, w += 4, x += 4 * mt * WORD)
        add_words(d, x, pick, w, mt, bits);
#pragma GCC unroll 8
    for (size_t t = 0; t < mt; t++)
        d[t] = bits == 4 ? _mm256_madd_epi16(d[t], ones) : d[t];
    if (!at->first)
#pragma GCC unroll 8
        for (size_t t = 0; t < mt; t++)
            d[t] = _mm256_add_epi32(d[t], load_32(carry[t]));
    if (!at->last) {
#pragma GCC unroll 8
        for (size_t t = 0; t < mt; t++)
            _mm256_storeu_si256((__m256i *)(void *)carry[t], d[t]);
        return;
    }
    const float *xscale = at->xscale;
    const size_t xgroups = at->xgroups;
    const __m256 scale = at->scale;
#pragma GCC unroll 8
    for (size_t t = 0; t < mt; t++, xscale += xgroups) {
        const __m256 st = _mm256_mul_ps(scale, _mm256_broadcast_ss(xscale));
        _mm256_storeu_ps(acc[t],
                         _mm256_fmadd_ps(_mm256_cvtepi32_ps(d[t]), st, _mm256_loadu_ps(acc[t])));
    }
}

/* One function per width and number of tokens, so that both are constants inside. */
typedef void tile_fn(const step *at, float (*acc)[8], int32_t (*carry)[8]);

#define TILE(bits, mt)                                                                             \
    static void tile_s##bits##_##mt(const step *at, float(*acc)[8], int32_t(*carry)[8])            \
    {                                                                                              \
        tile(at, acc, carry, mt, bits);                                                            \
    }
#define TILES(bits)                                                                                \
    TILE(bits, 1)                                                                                  \
    TILE(bits, 2)                                                                                  \
    TILE(bits, 3)                                                                                  \
    TILE(bits, 4)                                                                                  \
    TILE(bits, 5)                                                                                  \
    TILE(bits, 6)                                                                                  \
    TILE(bits, 7)                                                                                  \
    TILE(bits, 8)

// clang-format off
TILES(4)
TILES(8)
// clang-format on

/* The codes of tile i of the tokens [t0, t1), columns [k, end), which come from far. */
PARE_INLINE void prefetch_tile(const pare_x8 *x, size_t t0, size_t t1, size_t i, size_t k,
                               size_t end)
{
    const size_t t = t0 + i * MT;
    if (t >= t1)
        return;
    const size_t mt = t1 - t < MT ? t1 - t : MT;
    const int8_t *const codes = x->codes + t * x->k + k * mt;
    for (size_t at = 0; at < (end - k) * mt; at += 64)
        _mm_prefetch((const char *)codes + at, _MM_HINT_T0);
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
            sums *const to = &sum[(row - r0) / 8];
            span s;
            unpack_span(&s, w, row, k, end, bits);
            prefetch_tile(x, t0, t1, (row - r0) / 8, end, x->k - end < SPAN ? x->k : end + SPAN);
            step at = {.s = &s,
                       .xgroups = xgroups,
                       .scale = load_scales(w->scales + row * groups + k / w->group * 8),
                       .first = k == b * x->group,
                       .last = end == last};
            for (size_t t = t0; t < t1; t += MT) {
                const size_t mt = t1 - t < MT ? t1 - t : MT;
                at.x = x->codes + t * x->k + k * mt;
                at.xscale = x->scales + t * xgroups + b;
                fn[mt - 1](&at, to->acc + (t - t0), to->d + (t - t0));
            }
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

#define GEMM(bits)                                                                                 \
    void pare_gemm_x8_s##bits##_avx2(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)  \
    {                                                                                              \
        static tile_fn *const fn[MT] = {tile_s##bits##_1, tile_s##bits##_2, tile_s##bits##_3,      \
                                        tile_s##bits##_4, tile_s##bits##_5, tile_s##bits##_6,      \
                                        tile_s##bits##_7, tile_s##bits##_8};                       \
        gemm(y, ldy, x, w, bits, fn);                                                              \
    }

// clang-format off
GEMM(4)
GEMM(8)
// clang-format on

#endif
