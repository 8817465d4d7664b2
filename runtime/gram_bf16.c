#include "runtime/gram_bf16.h"

#include <math.h>

#include "runtime/ops.h"
#include "runtime/product.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { SIDE = 64, HIGH = 256, WIDE = 64 }; /* of what is turned at once; of a tile */

typedef struct turn {
    const pare_kernels *kernels;
    const float *x, *weight;
    size_t rows, k;
    uint16_t *side; /* [k, PARE_GRAM_LINE] */
} turn;

/* Columns of x in parts of SIDE. */
static void turn_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const turn *const s = arg;
    float part[SIDE * SIDE];
    (void)worker;
    for (size_t c = begin * SIDE; c < pare_smaller(end * SIDE, s->k); c += SIDE) {
        const size_t columns = pare_smaller(SIDE, s->k - c);
        for (size_t t = 0; t < s->rows; t += SIDE) {
            const size_t rows = pare_smaller(SIDE, s->rows - t);
            s->kernels->transpose_f32(part, SIDE, s->x + t * s->k + c, s->k, rows, columns);
            for (size_t i = 0; i < rows && s->weight; i++) {
                const float root = sqrtf(s->weight[t + i]);
                for (size_t j = 0; j < columns; j++)
                    part[j * SIDE + i] *= root;
            }
            for (size_t j = 0; j < columns; j++)
                s->kernels->cvt_f32_bf16(s->side + (c + j) * PARE_GRAM_LINE + t, part + j * SIDE,
                                         rows);
        }
    }
}

static void turn_rows(const pare_ctx *cx, turn s)
{
    pare_parallel(cx, (s.k + SIDE - 1) / SIDE, 1, turn_columns, &s);
}

typedef struct sums {
    const pare_kernels *kernels;
    const uint16_t *a, *b; /* [m, PARE_GRAM_LINE], [n, PARE_GRAM_LINE] */
    size_t rows, m, n;
    float *c; /* [m, n] */
    bool lower;
} sums;

static void add_tile(const sums *s, size_t row, size_t column)
{
    float part[HIGH * WIDE];
    const size_t m = pare_smaller(HIGH, s->m - row), n = pare_smaller(WIDE, s->n - column);
    s->kernels->gemm_bf16_bf16(part, WIDE, s->a + row * PARE_GRAM_LINE, PARE_GRAM_LINE,
                               s->b + column * PARE_GRAM_LINE, PARE_GRAM_LINE, m, n, s->rows);
    for (size_t i = 0; i < m; i++) {
        const size_t at = row + i;
        const size_t count = !s->lower ? n : at < column ? 0 : pare_smaller(n, at - column + 1);
        pare_add(s->c + at * s->n + column, part + i * WIDE, count);
    }
}

/* Tiles of HIGH rows, each task some columns of them. */
static void add_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const sums *const s = arg;
    const size_t across = (s->n + WIDE - 1) / WIDE;
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        const size_t row = x / across * HIGH, column = x % across * WIDE;
        if (!s->lower || column < row + HIGH)
            add_tile(s, row, column);
    }
}

static void add_sums(const pare_ctx *cx, sums s)
{
    const size_t tiles = ((s.m + HIGH - 1) / HIGH) * ((s.n + WIDE - 1) / WIDE);
    pare_parallel(cx, tiles, 1, add_tiles, &s);
}

void pare_gram_add_bf16(const pare_ctx *cx, uint16_t *side, float *h, const float *x,
                        const float *weight, size_t rows, size_t k)
{
    for (size_t t = 0; t < rows; t += PARE_GRAM_ROWS) {
        const size_t count = pare_smaller(PARE_GRAM_ROWS, rows - t);
        turn_rows(cx, (turn){&cx->kernels, x + t * k, weight ? weight + t : NULL, count, k, side});
        add_sums(cx, (sums){&cx->kernels, side, side, count, k, k, h, true});
    }
}

void pare_gram_cross_bf16(const pare_ctx *cx, uint16_t *side, float *c, const float *a, size_t m,
                          const float *b, size_t n, size_t rows)
{
    uint16_t *const other = side + m * PARE_GRAM_LINE;
    for (size_t t = 0; t < rows; t += PARE_GRAM_ROWS) {
        const size_t count = pare_smaller(PARE_GRAM_ROWS, rows - t);
        turn_rows(cx, (turn){&cx->kernels, a + t * m, NULL, count, m, side});
        turn_rows(cx, (turn){&cx->kernels, b + t * n, NULL, count, n, other});
        add_sums(cx, (sums){&cx->kernels, side, other, count, m, n, c, false});
    }
}
