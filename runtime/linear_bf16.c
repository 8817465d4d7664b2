/* Products of what is rounded to BF16: the inputs once, weights in tiles of rows that meet all
 * tokens. */
#include "runtime/linear.h"

#include <assert.h>

#include "kernels/layout.h"
#include "runtime/linear_internal.h"
#include "runtime/threads.h"

enum { LINE = 32 /* values */, TILE_ROWS_MAX = 256 };

typedef struct call {
    const pare_kernels *kernels;
    const pare__product *product;
    size_t count, m;
    const float *from;
    size_t ldx;
    uint16_t *x;       /* [m, room.ldx] */
    float *panel;      /* [workers][TILE_ROWS room.k] */
    uint16_t *rounded; /* [workers][room.tile_rows, room.k] */
    pare__bf16_room room;
} call;

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const call *const c = arg;
    const size_t k = c->product->w->k;
    for (size_t t = begin; t < end; t++)
        c->kernels->cvt_f32_bf16(c->x + t * c->room.ldx, c->from + t * c->ldx, k);
}

/* Up to PARE__TILE_ROWS rows of W from r0 on, which are not BF16, rounded into `to`. */
static void round_weights(const call *c, const pare_linear *w, size_t r0, size_t rows, float *panel,
                          uint16_t *to)
{
    const size_t ld = w->bits ? w->panel.k : w->k;
    const float *from = panel;
    if (w->bits)
        pare__linear_decode(c->kernels, w, r0, rows, panel);
    else if (w->dtype == PARE_F16)
        c->kernels->cvt_f16_f32(panel, (const uint16_t *)w->data + r0 * ld, rows * ld);
    else
        from = (const float *)w->data + r0 * ld;
    c->kernels->cvt_f32_bf16(to, from, rows * ld);
}

/* `rows` rows of W from r0 on in BF16, *ld apart: where they lie, or in the panel of a worker. */
static const uint16_t *weights(const call *c, const pare_linear *w, size_t r0, size_t rows,
                               size_t worker, size_t *ld)
{
    float *const panel = c->panel + worker * PARE__TILE_ROWS * c->room.k;
    uint16_t *const rounded = c->rounded + worker * c->room.tile_rows * c->room.k;
    *ld = w->bits ? w->panel.k : w->k;
    if (!w->bits && w->dtype == PARE_BF16)
        return (const uint16_t *)w->data + r0 * w->k;
    for (size_t r = 0; r < rows; r += PARE__TILE_ROWS)
        round_weights(c, w, r0 + r, rows - r < PARE__TILE_ROWS ? rows - r : PARE__TILE_ROWS, panel,
                      rounded + r * *ld);
    return rounded;
}

static size_t tiles(const pare_linear *w, size_t tile_rows)
{
    return (w->n + tile_rows - 1) / tile_rows;
}

static size_t all_tiles(const pare__product *product, size_t count, size_t tile_rows)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += tiles(product[i].w, tile_rows);
    return all;
}

static void run_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const call *const c = arg;
    const size_t most = c->room.tile_rows;
    for (size_t i = begin; i < end; i++) {
        size_t at = i;
        const pare__product *p = c->product;
        for (; at >= tiles(p->w, most); p++)
            at -= tiles(p->w, most);
        const pare_linear *const w = p->w;
        const size_t r0 = at * most, rows = w->n - r0 < most ? w->n - r0 : most;
        size_t ld;
        const uint16_t *const data = weights(c, w, r0, rows, worker, &ld);
        c->kernels->gemm_bf16_bf16(p->y + r0, p->ldy, c->x, c->room.ldx, data, ld, c->m, rows,
                                   w->k);
        for (size_t t = 0; t < c->m && w->bias; t++)
            for (size_t r = r0; r < r0 + rows; r++)
                p->y[t * p->ldy + r] += w->bias[r];
    }
}

/* Many rows of W meet all tokens at a time, so that tokens are read seldom from far caches, but
 * there are enough tiles for every thread. */
pare__bf16_room pare__linear_bf16_room(const pare_ctx *cx, const pare__product *product,
                                       size_t count)
{
    const size_t k = pare_round_up(product->w->k, PARE_ATOM_K);
    pare__bf16_room room = {k, (k / LINE | 1) * LINE, TILE_ROWS_MAX};
    while (room.tile_rows > PARE__TILE_ROWS &&
           all_tiles(product, count, room.tile_rows) < 4 * pare_threads(cx))
        room.tile_rows /= 2;
    return room;
}

static pare_status prepare(pare_ctx *cx, pare_arena *scratch, call *c)
{
    for (size_t i = 0; i < c->count; i++)
        PARE_TRY(pare_linear_check(cx, c->product[i].w));
    c->room = pare__linear_bf16_room(cx, c->product, c->count);
    c->x = pare_arena_take_raw(scratch, c->m, c->room.ldx * sizeof *c->x);
    c->panel = pare_arena_take_raw(scratch, pare_threads(cx),
                                   PARE__TILE_ROWS * c->room.k * sizeof *c->panel);
    c->rounded = pare_arena_take_raw(scratch, pare_threads(cx),
                                     c->room.tile_rows * c->room.k * sizeof *c->rounded);
    return c->x && c->panel && c->rounded ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__linear_apply_bf16(pare_ctx *cx, pare_arena *scratch, const pare__product *product,
                                    size_t count, const float *x, size_t ldx, size_t m)
{
    if (m == 0)
        return PARE_OK;
    call c = {&cx->kernels, product, count, m, .from = x, .ldx = ldx};
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = prepare(cx, scratch, &c);
    if (s == PARE_OK) {
        const size_t k = product->w->k;
        pare_parallel(cx, m, pare__chunk(k), round_rows, &c);
        pare_parallel(cx, all_tiles(product, count, c.room.tile_rows),
                      pare__chunk(c.room.tile_rows * m * k), run_tiles, &c);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare_linear_apply_bf16(pare_ctx *cx, pare_arena *scratch, const pare_linear *w,
                                   const float *x, size_t ldx, size_t m, float *y, size_t ldy)
{
    const pare__product product = {w, y, ldy};
    return pare__linear_apply_bf16(cx, scratch, &product, 1, x, ldx, m);
}
