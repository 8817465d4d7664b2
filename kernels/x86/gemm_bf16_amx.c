/* BF16 times BF16 by tiles: one product of tiles, 16 tokens by 16 rows over 32 columns, is one step
 * of the definition. Weights of 64 rows and DEPTH columns become tiles in the second-level cache,
 * pairs of columns side by side; inputs are read where they lie. Two tiles of tokens meet two of
 * rows: four loads for four products.
 *
 * Bound: the rate of tile products. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/tiles.h"
#include "kernels/x86/vnni_internal.h"

#if defined(PARE_VNNI) && (defined(__AMX_BF16__) || defined(PARE_INTRINSICS))

enum {
    CHUNK = 32, /* columns */
    DEPTH = 512,
    ROWS = 64,
    TOKENS = 128,
};

typedef uint16_t tile[TILE][CHUNK];

/* 100 KB of stack. */
typedef struct tile_block {
    _Alignas(64) tile w[DEPTH / CHUNK][ROWS / TILE];
    float y[TOKENS][ROWS];
    tile x[2]; /* at the edges: zeros behind the last token or column */
} tile_block;

/* Eight rows, of which `left` exist, into half a tile. */
PARE_INLINE void fill_half(uint16_t *to, const uint16_t *w, size_t ldw, size_t left, size_t width)
{
    uint16_t room[8][CHUNK];
    const bool whole = left >= 8 && width >= CHUNK;
    memset(room, 0, whole ? 0 : sizeof room);
    for (size_t i = 0; i < 8 && i < left && !whole; i++)
        memcpy(room[i], w + i * ldw, (width < CHUNK ? width : CHUNK) * sizeof *w);
    const uint16_t *const from = whole ? w : room[0];
    const size_t ld = whole ? ldw : CHUNK;
    for (size_t q = 0; q < 4; q++) {
        __m256i v[4], pair[4];
        for (size_t i = 0; i < 4; i++)
            v[i] = _mm256_loadu2_m128i((const __m128i *)(const void *)(from + (i + 4) * ld + 8 * q),
                                       (const __m128i *)(const void *)(from + i * ld + 8 * q));
        transpose_words(pair, v);
        for (size_t i = 0; i < 4; i++)
            _mm256_storeu_si256((__m256i *)(void *)(to + (4 * q + i) * CHUNK), pair[i]);
    }
}

/* Tiles of rows behind n are those of zeros. */
PARE_INLINE void fill_tiles(tile_block *b, const uint16_t *w, size_t ldw, size_t n, size_t depth)
{
    for (size_t j = 0; j < depth; j += CHUNK)
        for (size_t r = 0; r < ROWS; r += 8)
            fill_half(b->w[j / CHUNK][r / TILE][0] + r % TILE * 2, w + (r < n ? r * ldw + j : 0),
                      ldw, r < n ? n - r : 0, depth - j);
}

/* A tile of tokens, `left` of which exist, with its stride in bytes. */
PARE_INLINE const uint16_t *tokens(tile room, const uint16_t *x, size_t ldx, size_t left,
                                   size_t width, size_t *stride)
{
    *stride = left >= TILE && width >= CHUNK ? ldx * sizeof *x : LINE;
    if (left >= TILE && width >= CHUNK)
        return x;
    memset(room, 0, sizeof(tile));
    for (size_t i = 0; i < TILE && i < left; i++)
        memcpy(room[i], x + i * ldx, (width < CHUNK ? width : CHUNK) * sizeof *x);
    return room[0];
}

/* 32 tokens by 32 rows. */
PARE_INLINE void add_tiles(tile_block *b, const uint16_t *x, size_t ldx, size_t m, size_t t,
                           size_t strip, size_t depth)
{
    enum { LD = ROWS * sizeof(float) };
    float *const y = b->y[t] + strip * TILE, *const below = y + (size_t)TILE * ROWS;
    _tile_loadd(0, y, LD);
    _tile_loadd(1, y + TILE, LD);
    _tile_loadd(2, below, LD);
    _tile_loadd(3, below + TILE, LD);
    for (size_t j = 0; j < depth; j += CHUNK) {
        size_t stride[2];
        const size_t next = t + TILE < m ? t + TILE : t;
        const uint16_t *const one =
            tokens(b->x[0], x + t * ldx + j, ldx, m - t, depth - j, &stride[0]);
        const uint16_t *const two = tokens(b->x[1], x + next * ldx + j, ldx,
                                           t + TILE < m ? m - next : 0, depth - j, &stride[1]);
        _tile_loadd(4, one, stride[0]);
        _tile_loadd(6, b->w[j / CHUNK][strip], LINE);
        _tile_loadd(7, b->w[j / CHUNK][strip + 1], LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, two, stride[1]);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, y, LD);
    _tile_stored(1, y + TILE, LD);
    _tile_stored(2, below, LD);
    _tile_stored(3, below + TILE, LD);
}

/* At most ROWS rows by TOKENS tokens. */
static void product(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                    size_t ldw, size_t m, size_t n, size_t k)
{
    tile_block b;
    memset(b.y, 0, sizeof b.y);
    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        const size_t depth = k - k0 < DEPTH ? k - k0 : DEPTH;
        fill_tiles(&b, w + k0, ldw, n, depth);
        for (size_t strip = 0; strip * TILE < n; strip += 2)
            for (size_t t = 0; t < m; t += 2 * (size_t)TILE)
                add_tiles(&b, x + k0, ldx, m, t, strip, depth);
    }
    for (size_t t = 0; t < m; t++)
        memcpy(y + t * ldy, b.y[t], n * sizeof *y);
}

void pare_gemm_bf16_bf16_amx(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    begin_tiles();
    for (size_t r = 0; r < n; r += ROWS)
        for (size_t t = 0; t < m; t += TOKENS)
            product(y + t * ldy + r, ldy, x + t * ldx, ldx, w + r * ldw, ldw,
                    m - t < TOKENS ? m - t : TOKENS, n - r < ROWS ? n - r : ROWS, k);
    _tile_release();
}

#endif
