/* Packed weights by int8 activations of many tokens, by tiles: two of 16 tokens meet two of 16 rows
 * over 64 columns, or over 32 where a group is no multiple of 64.
 *
 * SPAN columns of 32 rows are unpacked into the first-level cache, less their zero points, so that
 * tiles hold the sums of the definition; tokens are read where they lie. The sums of some groups
 * leave the tiles, then are scaled, with the outputs in registers.
 *
 * Bound: of a scale per row, tile products; of groups, the three steps that scale a sum. */
#define PARE_VNNI_BITS 512
#define PARE_TILES
#include "kernels/x86/gemm_x8_span_vnni.h"
#include "kernels/x86/tiles.h"

#if defined(PARE_VNNI) && (defined(PARE_AMX) || defined(PARE_INTRINSICS))

#include <assert.h>

enum {
    FEW = 16, /* tokens, which AVX-512 multiplies */
    PAIR = 2 * TILE,
    BATCH = 4,       /* groups whose sums leave the tiles before they are scaled */
    ROW = VT * LINE, /* bytes of a row of sums, and of a word of a span */
};

typedef vec sums[PAIR][VT];

/* What a call has in common. z: zero point of all weights, or -1. */
typedef struct call {
    const pare_x8 *x;
    const pare_panel *w;
    size_t width; /* columns of a product */
    int z;
} call;

/* Codes of 32 columns of a vector of rows less their zero points, as bytes with a sign. */
PARE_INLINE void unpack_signed(vec (*to)[VT], const uint8_t *atom, size_t stride, vec zero,
                               unsigned bits)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        to[i][0] = V(sub_epi8)(unpack_quad(atom, stride, i, bits), zero);
}

/* Vectors of rows behind the last are the first again; their results are not stored. */
PARE_INLINE void unpack(span *s, const call *c, size_t row, size_t blocks, unsigned bits)
{
    const pare_panel *const w = c->w;
    const size_t size = pare_atom_bytes(bits), groups = (w->k + w->group - 1) / w->group;
    const size_t stride = w->k / PARE_ATOM_K * size;
    for (size_t v = 0; v < VT; v++) {
        const size_t first = v * WIDE < blocks ? v * WIDE : 0, at = row / 8 + first;
        const size_t wide = first + WIDE <= blocks ? 1 : 0;
        for (size_t k = s->begin, g = 0; k < s->end; g++) {
            const size_t plane = (at * groups + k / w->group) * 8;
            const size_t end = s->end - k < s->group ? s->end : k + s->group;
            const vec zero =
                c->z >= 0 ? V(set1_epi8)((char)c->z)
                          : V(mullo_epi32)(load_zero_blocks(w->zeros + plane, wide * groups * 8),
                                           V(set1_epi32)(0x01010101));
            for (; k < end; k += PARE_ATOM_K)
                unpack_signed((vec(*)[VT]) & s->w[(k - s->begin) / 4][v],
                              w->codes + at * stride + k / PARE_ATOM_K * size, wide * stride, zero,
                              bits);
            s->scale[g][v] = load_scale_blocks(w->scales + plane, wide * groups * 8);
        }
    }
}

/* Adds columns [k, end) of the span; x: where both tiles of tokens have column 0 of it. */
PARE_INLINE void multiply(const span *s, const int8_t *const x[2], size_t ldx, size_t k, size_t end,
                          size_t width)
{
    for (; k < end; k += width) {
        const vec *const w = s->w[k / 4];
        _tile_loadd(4, x[0] + k, ldx);
        _tile_loadd(6, w, ROW);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, w + 1, ROW);
        _tile_dpbssd(1, 4, 7);
        _tile_loadd(5, x[1] + k, ldx);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
}

PARE_INLINE void load_sums(const vec (*from)[VT])
{
    _tile_loadd(0, from[0], ROW);
    _tile_loadd(1, from[0] + 1, ROW);
    _tile_loadd(2, from[TILE], ROW);
    _tile_loadd(3, from[TILE] + 1, ROW);
}

PARE_INLINE void zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

PARE_INLINE void store_sums(vec (*to)[VT])
{
    _tile_stored(0, to[0], ROW);
    _tile_stored(1, to[0] + 1, ROW);
    _tile_stored(2, to[TILE], ROW);
    _tile_stored(3, to[TILE] + 1, ROW);
}

/* Adds `count` groups from g on to 16 tokens by a vector of rows. */
PARE_INLINE void scale_tile(vecf (*acc)[VT], const sums *sum, const span *s, size_t g, size_t count,
                            const float *scales, size_t ld, size_t v)
{
    vecf y[TILE];
#pragma GCC unroll 16
    for (size_t i = 0; i < TILE; i++)
        y[i] = acc[i][v];
    for (size_t b = 0; b < count; b++) {
        const vec(*const d)[VT] = sum[b];
        const vecf scale = s->scale[g + b][v];
#pragma GCC unroll 16
        for (size_t i = 0; i < TILE; i++)
            y[i] = V(fmadd_ps)(V(cvtepi32_ps)(d[i][v]),
                               V(mul_ps)(scale, V(set1_ps)(scales[i * ld + b])), y[i]);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < TILE; i++)
        acc[i][v] = y[i];
}

/* The span by two tiles of tokens, which begin with t[0] and t[1]. */
PARE_INLINE void pair(const span *s, const call *c, const size_t t[2], vecf (*acc)[VT],
                      vec (*carry)[VT])
{
    const pare_x8 *const x = c->x;
    const size_t xgroups = (x->k + x->group - 1) / x->group, all = s->end - s->begin;
    const int8_t *const at[2] = {x->codes + t[0] * x->k + s->begin,
                                 x->codes + t[1] * x->k + s->begin};
    const size_t groups = (all + s->group - 1) / s->group;
    for (size_t g = 0, count; g < groups; g += count) {
        sums sum[BATCH];
        count = groups - g < BATCH ? groups - g : BATCH;
        for (size_t b = 0; b < count; b++) {
            const size_t k = (g + b) * s->group, end = all - k < s->group ? all : k + s->group;
            if (s->first)
                zero_sums();
            else
                load_sums((const vec(*)[VT])carry);
            multiply(s, at, x->k, k, end, c->width);
            store_sums(s->last ? sum[b] : carry);
        }
        for (size_t i = 0; s->last && i < 2; i++)
            for (size_t v = 0; v < VT; v++)
                scale_tile(acc + i * TILE, (const sums *)&sum[0][i * TILE], s, g, count,
                           x->scales + t[i] * xgroups + s->b + g, xgroups, v);
    }
}

/* First token of a tile: the last one overlaps another, whose tokens come out the same. */
PARE_INLINE size_t tile_begin(const pare_x8 *x, size_t tile)
{
    return (tile + 1) * TILE <= x->m ? tile * TILE : x->m - TILE;
}

/* Blocks of eight rows, at most VT * WIDE, by the tiles [first, last) of tokens. */
PARE_INLINE void block(float *y, size_t ldy, const call *c, size_t row, size_t blocks, size_t first,
                       size_t last, unsigned bits)
{
    vecf acc[TOKENS][VT];
    vec carry[TOKENS][VT];
    span s;
    for (size_t i = 0; i < (last - first) * TILE * VT; i++)
        acc[i / VT][i % VT] = V(setzero_ps)();
    for (size_t k = 0; k < c->x->k; k = s.end) {
        set_span(&s, c->x, k);
        unpack(&s, c, row, blocks, bits);
        see_stores();
        for (size_t i = first; i < last; i += 2) {
            const size_t at = (i - first) * TILE, next = i + 1 < last ? i + 1 : i;
            const size_t t[2] = {tile_begin(c->x, i), tile_begin(c->x, next)};
            pair(&s, c, t, acc + at, carry + at);
        }
    }
    for (size_t i = first; i < last; i++) {
        const size_t t = tile_begin(c->x, i);
        store_tokens(y, ldy, row, blocks, t, t + TILE, acc + (i - first) * TILE);
    }
}

typedef void gemm_fn(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w);

PARE_INLINE void gemm(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                      int z, gemm_fn *few)
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    if (x->m <= FEW) {
        few(y, ldy, x, w);
        return;
    }
    const size_t tiles = (x->m + TILE - 1) / TILE, step = TOKENS / TILE;
    const call c = {x, w, x->group % LINE || x->k % LINE ? LINE / 2 : LINE, z};
    begin_tiles(c.width);
    for (size_t row = 0; row < w->n; row += VT * ROWS) {
        const size_t blocks = w->n - row < VT * ROWS ? (w->n - row) / 8 : VT * WIDE;
        for (size_t i = 0; i < tiles; i += step)
            block(y, ldy, &c, row, blocks, i, tiles - i < step ? tiles : i + step, bits);
    }
    _tile_release();
}

#define GEMM(bits)                                                                                 \
    void pare_gemm_x8_q##bits##_amx(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)   \
    {                                                                                              \
        gemm(y, ldy, x, w, bits, w->zeros ? -1 : 1 << (bits - 1), pare_gemm_x8_q##bits##_avx512);  \
    }

// clang-format off
GEMM(2)
GEMM(3)
GEMM(4)
// clang-format on

/* Codes of 8 bits less any zero point are no bytes. */
void pare_gemm_x8_q8_amx(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    if (w->zeros)
        pare_gemm_x8_q8_avx512(y, ldy, x, w);
    else
        gemm(y, ldy, x, w, 8, 128, pare_gemm_x8_q8_avx512);
}

void pare_gemm_x8_t2_amx(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm(y, ldy, x, w, 2, 1, pare_gemm_x8_t2_avx512);
}

#endif
