/* BF16 times BF16 by tiles: one product of tiles, 16 tokens by 16 rows over 32 columns, is one step
 * of the definition. Up to DEPTH columns of a strip of 32 rows become tiles in the first-level
 * cache, pairs of columns side by side, and meet two tiles of tokens after the other, which are
 * read where they lie: four loads for four products. Sums of TOKENS by ROWS stay in the
 * second-level cache until the last columns, whose products go straight to the output where a strip
 * of rows meets a whole one of tokens. Weights of the next strip are fetched meanwhile.
 *
 * Bound: the rate of tile products. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/tiles.h"
#include "kernels/x86/vnni_internal.h"

#if defined(PARE_VNNI) && (defined(PARE_AMX) || defined(PARE_INTRINSICS))

#include <stdbool.h>

enum {
    CHUNK = 32,       /* columns */
    DEPTH = 288,      /* at most: long rows fall into equal parts */
    STRIP = 2 * TILE, /* rows, or tokens */
    ROWS = 256,
    TOKENS = 512,
};

typedef uint16_t tile[TILE][CHUNK];
typedef float sums[2][2][TILE][TILE]; /* of two tiles of tokens by two of rows */

/* 550 KB of stack. */
typedef struct tile_block {
    _Alignas(64) tile w[DEPTH / CHUNK][2];
    tile x[DEPTH / CHUNK][2]; /* at the edges: zeros behind the last token or column */
    sums y[ROWS / STRIP][TOKENS / STRIP];
} tile_block;

/* `rows` rows of the weights that come next. */
typedef struct ahead {
    const uint16_t *w;
    size_t ldw, rows;
} ahead;

/* Where a product of tiles goes: to the output, or to sums that later columns go on with. */
typedef struct goal {
    float *y; /* or NULL */
    size_t ldy;
    sums *sums;
    bool first; /* nothing in the sums yet */
} goal;

/* 16 rows by 32 columns into a tile. */
PARE_INLINE void fill_tile(tile to, const uint16_t *w, size_t ldw)
{
    for (size_t q = 0; q < 4; q++) {
        __m512i v[4];
        for (size_t i = 0; i < 4; i++) {
            const uint16_t *const from = w + i * ldw + 8 * q;
            v[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)from));
#define QUARTER(j)                                                                                 \
    v[i] = _mm512_inserti32x4(                                                                     \
        v[i], _mm_loadu_si128((const __m128i *)(const void *)(from + 4 * (j)*ldw)), j)
            QUARTER(1);
            QUARTER(2);
            QUARTER(3);
#undef QUARTER
        }
        const __m512i low[2] = {_mm512_unpacklo_epi32(v[0], v[1]),
                                _mm512_unpacklo_epi32(v[2], v[3])};
        const __m512i up[2] = {_mm512_unpackhi_epi32(v[0], v[1]),
                               _mm512_unpackhi_epi32(v[2], v[3])};
        store_vec(to[4 * q], _mm512_unpacklo_epi64(low[0], low[1]));
        store_vec(to[4 * q + 1], _mm512_unpackhi_epi64(low[0], low[1]));
        store_vec(to[4 * q + 2], _mm512_unpacklo_epi64(up[0], up[1]));
        store_vec(to[4 * q + 3], _mm512_unpackhi_epi64(up[0], up[1]));
    }
}

/* `rows` rows of `width` columns, zeros behind them. */
PARE_INLINE void copy_rows(tile to, const uint16_t *from, size_t ld, size_t rows, size_t width)
{
    memset(to, 0, sizeof(tile));
    for (size_t i = 0; i < rows && i < TILE; i++)
        memcpy(to[i], from + i * ld, (width < CHUNK ? width : CHUNK) * sizeof *from);
}

/* A strip of weights, `left` rows of which exist. */
PARE_INLINE void fill_strip(tile_block *b, const uint16_t *w, size_t ldw, size_t left, size_t depth)
{
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < depth; j += CHUNK) {
            const size_t have = left > i * TILE ? left - i * TILE : 0;
            const uint16_t *const from = w + (have ? i * TILE * ldw : 0) + j;
            if (have >= TILE && depth - j >= CHUNK) {
                fill_tile(b->w[j / CHUNK][i], from, ldw);
                continue;
            }
            tile room;
            copy_rows(room, from, ldw, have, depth - j);
            fill_tile(b->w[j / CHUNK][i], room[0], CHUNK);
        }
}

/* Adds `chunks` chunks of two tiles of tokens: x[i] is where tile i begins, its rows `row` bytes
 * apart and its chunks `step`. */
PARE_INLINE void add_tiles(const goal *g, const char *const x[2], size_t row, size_t step,
                           const tile (*w)[2], size_t chunks, const ahead *a)
{
    float(*const y)[2][TILE][TILE] = *g->sums;
    if (g->first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, y[0][0], LINE);
        _tile_loadd(1, y[0][1], LINE);
        _tile_loadd(2, y[1][0], LINE);
        _tile_loadd(3, y[1][1], LINE);
    }
    for (size_t j = 0; j < chunks; j++) {
        for (size_t i = 0; i < a->rows; i++)
            _mm_prefetch((const char *)(a->w + i * a->ldw + j * CHUNK), _MM_HINT_T1);
        _tile_loadd(4, x[0] + j * step, row);
        _tile_loadd(6, w[j][0], LINE);
        _tile_loadd(7, w[j][1], LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, x[1] + j * step, row);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    float *const out = g->y ? g->y : y[0][0][0];
    const size_t ld = g->y ? g->ldy : TILE;
    const size_t right = g->y ? TILE : TILE * TILE, below = g->y ? TILE * ld : 2 * TILE * TILE;
    _tile_stored(0, out, ld * sizeof *out);
    _tile_stored(1, out + right, ld * sizeof *out);
    _tile_stored(2, out + below, ld * sizeof *out);
    _tile_stored(3, out + below + right, ld * sizeof *out);
}

/* The strip in b->w by two tiles of tokens, `left` tokens of which exist. */
PARE_INLINE void add_tokens(tile_block *b, const goal *g, const uint16_t *x, size_t ldx,
                            size_t left, size_t depth, const ahead *a)
{
    const size_t chunks = (depth + CHUNK - 1) / CHUNK;
    const tile(*const w)[2] = (const tile(*)[2])b->w;
    if (left >= STRIP && depth % CHUNK == 0) {
        const char *const at[2] = {(const char *)x, (const char *)(x + TILE * ldx)};
        add_tiles(g, at, ldx * sizeof *x, LINE, w, chunks, a);
        return;
    }
    for (size_t j = 0; j < depth; j += CHUNK)
        for (size_t i = 0; i < 2; i++)
            copy_rows(b->x[j / CHUNK][i], x + (left > i * TILE ? i * TILE * ldx : 0) + j, ldx,
                      left > i * TILE ? left - i * TILE : 0, depth - j);
    see_stores();
    const char *const at[2] = {(const char *)b->x[0][0], (const char *)b->x[0][1]};
    add_tiles(g, at, LINE, sizeof b->x[0], w, chunks, a);
}

/* The strip in b->w by all tokens, from column k0 on; `left` rows of it exist, y and the sums begin
 * at its first row. `next` is fetched meanwhile. */
PARE_INLINE void add_strip(tile_block *b, const goal *g, sums *y, size_t left, const uint16_t *x,
                           size_t ldx, size_t m, size_t depth, const ahead *next)
{
    const size_t each = (STRIP * STRIP + m - 1) / m;
    for (size_t t = 0, row = 0; t < m; t += STRIP) {
        const bool whole = g->y && left >= STRIP && m - t >= STRIP;
        const goal to = {whole ? g->y + t * g->ldy : NULL, g->ldy, &y[t / STRIP], g->first};
        const size_t more = next->rows - row < each ? next->rows - row : each;
        const ahead a = {next->w + (more ? row * next->ldw : 0), next->ldw, more};
        add_tokens(b, &to, x + t * ldx, ldx, m - t, depth, &a);
        row += more;
    }
}

/* At most ROWS rows by TOKENS tokens. */
static void product(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                    size_t ldw, size_t m, size_t n, size_t k)
{
    tile_block b;
    const size_t parts = (k + DEPTH - 1) / DEPTH;
    const size_t part = ((k + parts - 1) / parts + CHUNK - 1) / CHUNK * CHUNK;
    for (size_t k0 = 0; k0 < k; k0 += part)
        for (size_t r = 0; r < n; r += STRIP) {
            const bool down = r + STRIP < n, end = k - k0 <= part;
            const size_t depth = end ? k - k0 : part, r1 = down ? r + STRIP : 0;
            const ahead next = {w + r1 * ldw + k0 + (down ? 0 : depth), ldw,
                                !down && end     ? 0
                                : n - r1 < STRIP ? n - r1
                                                 : STRIP};
            const goal g = {end ? y + r : NULL, ldy, NULL, k0 == 0};
            fill_strip(&b, w + r * ldw + k0, ldw, n - r, depth);
            see_stores();
            add_strip(&b, &g, b.y[r / STRIP], n - r, x + k0, ldx, m, depth, &next);
        }
    const size_t whole = m / STRIP * STRIP;
    for (size_t t = 0; t < m; t++) /* what the last strips hold */
        for (size_t r = t < whole ? n / STRIP * STRIP : 0; r < n; r += TILE) {
            sums *const from = &b.y[r / STRIP][t / STRIP];
            memcpy(y + t * ldy + r, (*from)[t % STRIP / TILE][r % STRIP / TILE][t % TILE],
                   (n - r < TILE ? n - r : TILE) * sizeof *y);
        }
}

void pare_gemm_bf16_bf16_amx(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m && k == 0; t++)
        memset(y + t * ldy, 0, n * sizeof *y);
    if (k == 0)
        return;
    begin_tiles(LINE);
    for (size_t r = 0; r < n; r += ROWS)
        for (size_t t = 0; t < m; t += TOKENS)
            product(y + t * ldy + r, ldy, x + t * ldx, ldx, w + r * ldw, ldw,
                    m - t < TOKENS ? m - t : TOKENS, n - r < ROWS ? n - r : ROWS, k);
    _tile_release();
}

#endif
