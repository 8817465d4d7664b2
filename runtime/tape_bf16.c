/* dx += dy W with dy and W rounded to BF16: a panel of rows of W at once, turned on its side for
 * the product of the list, column by column of tasks. */
#include <string.h>

#include "runtime/gram_bf16.h"
#include "runtime/linear_internal.h"
#include "runtime/small.h"
#include "runtime/tape_internal.h"
#include "runtime/threads.h"

enum { PANEL = 1024, COLUMNS = 64, TOKENS = 256 }; /* rows of W, columns of a task, rows of dy */

typedef struct undo_call {
    const pare_kernels *kernels;
    const pare_linear *w;
    const float *dy;
    size_t rows, first, depth; /* of W: the panel */
    uint16_t *rounded;         /* [rows, depth] of dy */
    float *room;               /* [workers][ROOM] */
    float *dx;
} undo_call;

/* What a worker needs: columns as they lie and on their side, these rounded, and a product. */
typedef struct undo_room {
    float columns[PANEL * COLUMNS], turned[COLUMNS * PANEL], product[TOKENS * COLUMNS];
    uint16_t rounded[COLUMNS * PANEL];
} undo_room;

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const undo_call *const u = arg;
    for (size_t t = begin; t < end; t++)
        u->kernels->cvt_f32_bf16(u->rounded + t * u->depth, u->dy + t * u->w->n + u->first,
                                 u->depth);
}

/* The panel's columns [c, c + count) in floats, *ld apart: where they lie, or in the room. */
static const float *columns_of(const undo_call *u, undo_room *room, size_t c, size_t count,
                               size_t *ld)
{
    const pare_linear *const w = u->w;
    *ld = w->k;
    if (w->dtype == PARE_F32)
        return (const float *)w->data + u->first * w->k + c;
    *ld = COLUMNS;
    for (size_t i = 0; i < u->depth; i++) {
        const uint16_t *const from = (const uint16_t *)w->data + (u->first + i) * w->k + c;
        if (w->dtype == PARE_F16)
            u->kernels->cvt_f16_f32(room->columns + i * COLUMNS, from, count);
        else
            u->kernels->cvt_bf16_f32(room->columns + i * COLUMNS, from, count);
    }
    return room->columns;
}

/* The panel's columns [c, c + count) on their side, rounded. */
static void turn(const undo_call *u, undo_room *room, size_t c, size_t count)
{
    size_t ld;
    const float *const from = columns_of(u, room, c, count, &ld);
    u->kernels->transpose_f32(room->turned, u->depth, from, ld, u->depth, count);
    u->kernels->cvt_f32_bf16(room->rounded, room->turned, count * u->depth);
}

/* The same of weights in BF16, an even count: pairs of columns are turned as 32 bits each, the left
 * column in the lower half, and taken apart. With few rows of dy this is most of the work. */
static void turn_bf16(const undo_call *u, undo_room *room, size_t c, size_t count)
{
    const size_t pairs = count / 2, depth = u->depth;
    const uint16_t *const from = (const uint16_t *)u->w->data + u->first * u->w->k + c;
    for (size_t i = 0; i < depth; i++)
        memcpy(room->columns + i * pairs, from + i * u->w->k, count * sizeof *from);
    u->kernels->transpose_f32(room->turned, depth, room->columns, pairs, depth, pairs);
    for (size_t j = 0; j < pairs; j++)
        for (size_t i = 0; i < depth; i++) {
            uint32_t pair;
            memcpy(&pair, &room->turned[j * depth + i], sizeof pair);
            room->rounded[2 * j * depth + i] = (uint16_t)pair;
            room->rounded[(2 * j + 1) * depth + i] = (uint16_t)(pair >> 16);
        }
}

static void undo_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const undo_call *const u = arg;
    undo_room *const room = (undo_room *)(void *)u->room + worker;
    const size_t k = u->w->k;
    for (size_t c = begin * COLUMNS; c < pare_smaller(end * COLUMNS, k); c += COLUMNS) {
        const size_t count = pare_smaller(COLUMNS, k - c);
        (u->w->dtype == PARE_BF16 && count % 2 == 0 ? turn_bf16 : turn)(u, room, c, count);
        for (size_t t = 0; t < u->rows; t += TOKENS) {
            const size_t m = pare_smaller(TOKENS, u->rows - t);
            u->kernels->gemm_bf16_bf16(room->product, COLUMNS, u->rounded + t * u->depth, u->depth,
                                       room->rounded, u->depth, m, count, u->depth);
            for (size_t i = 0; i < m; i++)
                pare_add(u->dx + (t + i) * k + c, room->product + i * COLUMNS, count);
        }
    }
}

pare_status pare__tape_undo_bf16(pare_tape *t, const pare_linear *w, const float *dy, size_t rows,
                                 float *dx)
{
    const pare_ops *const o = &t->inner;
    pare_mark mark;
    pare_array rounded, room;
    PARE_TRY(o->op->mark(o, &mark));
    PARE_TRY(o->op->take(o, rows, PANEL / 2, &rounded));
    PARE_TRY(o->op->take(o, pare_threads(o->cx), sizeof(undo_room) / sizeof(float), &room));
    undo_call u = {&o->cx->kernels, w,       dy, rows, .rounded = (uint16_t *)(void *)rounded.at,
                   .room = room.at, .dx = dx};
    for (; !t->dry && u.first < w->n; u.first += PANEL) {
        u.depth = pare_smaller(PANEL, w->n - u.first);
        pare_parallel(o->cx, rows, pare__chunk(u.depth), round_rows, &u);
        pare_parallel(o->cx, (w->k + COLUMNS - 1) / COLUMNS, 1, undo_columns, &u);
    }
    return o->op->rewind(o, mark);
}

size_t pare_tape_bf16_bytes(const pare_ctx *cx, size_t rows, size_t n, size_t k)
{
    const pare_linear w = {.n = n, .k = k};
    const pare__bf16_room room = pare__linear_bf16_room(cx, &(pare__product){.w = &w}, 1);
    const size_t there =
        room.k * (PARE__TILE_ROWS * sizeof(float) + room.tile_rows * sizeof(uint16_t));
    return rows * (room.ldx + PANEL) * sizeof(uint16_t) +
           (n + k) * PARE_GRAM_LINE * sizeof(uint16_t) +
           pare_threads(cx) * (sizeof(undo_room) + there) + (size_t)8 * PARE_ALIGN;
}
