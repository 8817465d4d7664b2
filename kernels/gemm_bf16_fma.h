/* kernels/gemm_bf16_fma.h - gemm_bf16_bf16 by fused multiply-adds, for vectors of any processor. A
 * lane is a row of w, so both chains of an output stay in their lane. A panel of weights lies in
 * the first-level cache as floats, column by column; it meets TT tokens at a time. Includers
 * define:
 *   floats, LANES        a vector of floats and how many
 *   VECTORS, TT          vectors of rows, tokens of a register tile: 2 VECTORS TT sums
 *   floats_load, floats_store, floats_all, floats_add, floats_fma(a, b, c) = a b + c
 *   widen_8              8 BF16 as floats
 *   widen_rows           to[j ld + i] = column j of row[i] as a float, 8 rows, CHUNK columns
 *   bf16_region          calls bf16_product where denormals are 0 (FTZ, DAZ) */
#ifndef PARE_KERNELS_GEMM_BF16_FMA_H
#define PARE_KERNELS_GEMM_BF16_FMA_H

#ifdef floats /* by an includer */
#include <string.h>

enum {
    CHUNK = 32, /* columns of a step */
    DEPTH = 128,
    ROWS = VECTORS * LANES, /* of a strip */
    STRIPS = 64 / ROWS,
    TOKENS = 192, /* multiple of TT */
};

/* 100 KB of stack. */
typedef struct bf16_block {
    float w[STRIPS][DEPTH * ROWS], x[TT][DEPTH];
    float y[TOKENS][STRIPS * ROWS];
} bf16_block;

/* Columns of a row, zeros behind `depth`, in `room` if that is needed. */
PARE_INLINE const uint16_t *whole_chunk(const uint16_t *v, size_t depth, uint16_t room[CHUNK])
{
    if (depth >= CHUNK)
        return v;
    memset(room, 0, CHUNK * sizeof *room);
    memcpy(room, v, depth * sizeof *room);
    return room;
}

/* Rows behind the last are the last again. */
PARE_INLINE void fill_weights(bf16_block *b, const uint16_t *w, size_t ldw, size_t n, size_t depth)
{
    uint16_t room[8][CHUNK];
    const uint16_t *row[8];
    for (size_t r = 0; r < STRIPS * ROWS && r < n; r += 8)
        for (size_t j = 0; j < depth; j += CHUNK) {
            for (size_t i = 0; i < 8; i++)
                row[i] = whole_chunk(w + (r + i < n ? r + i : n - 1) * ldw + j, depth - j, room[i]);
            widen_rows(b->w[r / ROWS] + j * ROWS + r % ROWS, ROWS, row);
        }
}

/* Tokens behind the last are the last again. */
PARE_INLINE void fill_tokens(bf16_block *b, const uint16_t *x, size_t ldx, size_t m, size_t depth)
{
    for (size_t t = 0; t < TT; t++)
        for (size_t j = 0; j < depth; j += CHUNK) {
            uint16_t room[CHUNK];
            const uint16_t *const from =
                whole_chunk(x + (t < m ? t : m - 1) * ldx + j, depth - j, room);
            for (size_t i = 0; i < CHUNK; i += 8)
                widen_8(b->x[t] + j + i, from + i);
        }
}

/* y += the chunk of columns from j on; tokens lie STRIPS ROWS apart. */
PARE_INLINE void add_chunk(float *y, const float *w, const float (*x)[DEPTH], size_t j)
{
    floats even[TT][VECTORS], odd[TT][VECTORS];
    for (size_t i = 0; i < TT * VECTORS; i++)
        even[i / VECTORS][i % VECTORS] = odd[i / VECTORS][i % VECTORS] = floats_all(0.0f);
    for (size_t i = j; i < j + CHUNK; i += 2) {
        floats now[VECTORS];
        for (size_t v = 0; v < VECTORS; v++)
            now[v] = floats_load(w + i * ROWS + v * LANES);
#pragma GCC unroll 8
        for (size_t t = 0; t < TT; t++) {
            const floats one = floats_all(x[t][i]);
            for (size_t v = 0; v < VECTORS; v++)
                even[t][v] = floats_fma(one, now[v], even[t][v]);
        }
        for (size_t v = 0; v < VECTORS; v++)
            now[v] = floats_load(w + (i + 1) * ROWS + v * LANES);
#pragma GCC unroll 8
        for (size_t t = 0; t < TT; t++) {
            const floats one = floats_all(x[t][i + 1]);
            for (size_t v = 0; v < VECTORS; v++)
                odd[t][v] = floats_fma(one, now[v], odd[t][v]);
        }
    }
    for (size_t t = 0; t < TT; t++)
        for (size_t v = 0; v < VECTORS; v++) {
            float *const at = y + t * STRIPS * ROWS + v * LANES;
            floats_store(at, floats_add(floats_load(at), floats_add(even[t][v], odd[t][v])));
        }
}

/* At most STRIPS ROWS rows by TOKENS tokens. */
/* Not inlined, so that no operation leaves the region in which denormals are 0. */
__attribute__((noinline)) static void bf16_product(float *y, size_t ldy, const uint16_t *x,
                                                   size_t ldx, const uint16_t *w, size_t ldw,
                                                   size_t m, size_t n, size_t k)
{
    bf16_block b;
    memset(b.y, 0, sizeof b.y);
    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        const size_t depth = k - k0 < DEPTH ? k - k0 : DEPTH;
        fill_weights(&b, w + k0, ldw, n, depth);
        for (size_t t = 0; t < m; t += TT) {
            fill_tokens(&b, x + t * ldx + k0, ldx, m - t, depth);
            for (size_t s = 0; s * ROWS < n; s++)
                for (size_t j = 0; j < depth; j += CHUNK)
                    add_chunk(b.y[t] + s * ROWS, b.w[s], (const float(*)[DEPTH])b.x, j);
        }
    }
    for (size_t t = 0; t < m; t++)
        memcpy(y + t * ldy, b.y[t], n * sizeof *y);
}

typedef void bf16_call(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                       size_t ldw, size_t m, size_t n, size_t k);

/* Any sizes, by blocks that `one` multiplies. */
PARE_INLINE void bf16_products(bf16_call *one, float *y, size_t ldy, const uint16_t *x, size_t ldx,
                               const uint16_t *w, size_t ldw, size_t m, size_t n, size_t k)
{
    const size_t rows = (size_t)STRIPS * ROWS;
    for (size_t r = 0; r < n; r += rows)
        for (size_t t = 0; t < m; t += TOKENS)
            one(y + t * ldy + r, ldy, x + t * ldx, ldx, w + r * ldw, ldw,
                m - t < TOKENS ? m - t : TOKENS, n - r < rows ? n - r : rows, k);
}

#endif

#endif
