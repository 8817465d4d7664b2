#include "runtime/product.h"

#include <string.h>

#include "runtime/panels.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum {
    DEPTH = PARE_DEPTH,
    CORNER = 48,            /* rows of a square on the diagonal: whole panels of both factors */
    HIGH_BYTES = 768 << 10, /* of the packed rows of a tile */
    NEAR_BYTES = 192 << 10, /* of those that stay in the second-level cache beside .. */
    WIDE_BYTES = 384 << 10  /* .. so many packed columns, which meet them all in turn */
};

/* Part of c, rows at most as HIGH_BYTES hold. */
typedef struct tile {
    size_t row, rows, column, columns;
} tile;

#define REAL       float
#define OF(name)   name##_f32
#define add_panels gemm_panels_f32
#include "runtime/product_real.h"

#define REAL       double
#define OF(name)   name##_f64
#define add_panels gemm_panels_f64
#include "runtime/product_real.h"

static void add_tile(const pare_kernels *kernels, const pare_product *p, tile t)
{
    if (p->f64)
        add_tile_f64(kernels, p, t);
    else
        add_tile_f32(kernels, p, t);
}

/* A product and how it is cut. */
typedef struct tiles {
    const pare_kernels *kernels;
    const pare_product *p;
    size_t high, wide, down, across; /* of a tile; tiles */
} tiles;

/* Tiles of the same height, as few as can be. */
static tiles cut(const pare_kernels *kernels, const pare_product *p)
{
    const size_t most = HIGH_BYTES / DEPTH / (p->f64 ? sizeof(double) : sizeof(float));
    const size_t high = p->lower ? most / CORNER * CORNER : most;
    const size_t even = p->m / ((p->m + high - 1) / high + (p->m == 0));
    const size_t step = p->lower ? CORNER : 2 * PARE_PANEL_ROWS;
    const size_t tall = pare_smaller(even / step * step + step, high);
    return (tiles){kernels, p, tall, p->n, (p->m + tall - 1) / tall, p->n > 0};
}

static void add_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const tiles *const t = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        const size_t row = (t->down - 1 - x / t->across) * t->high,
                     column = x % t->across * t->wide;
        add_tile(t->kernels, t->p,
                 (tile){row, pare_smaller(t->high, t->p->m - row), column,
                        pare_smaller(t->wide, t->p->n - column)});
    }
}

void pare_product_add(const pare_kernels *kernels, const pare_product *p)
{
    tiles t = cut(kernels, p);
    add_tiles(&t, 0, t.down * t.across, 0);
}

void pare_product_tiles(const pare_ctx *cx, const pare_product *p)
{
    enum { TURNS = 3 /* tiles for each thread at least */ };
    const size_t threads = pare_threads(cx);
    tiles t = cut(&cx->kernels, p);
    while (threads > 1 && t.down * t.across < TURNS * threads && t.wide > 2 * CORNER) {
        t.wide = (t.wide / 2 + CORNER - 1) / CORNER * CORNER;
        t.across = (p->n + t.wide - 1) / t.wide;
    }
    pare_parallel(cx, t.down * t.across, 1, add_tiles, &t);
}

size_t pare_product_bytes(size_t columns)
{
    const size_t row = DEPTH * sizeof(float);
    return pare_smaller(columns * row, HIGH_BYTES) + pare_smaller(columns * row, WIDE_BYTES);
}
