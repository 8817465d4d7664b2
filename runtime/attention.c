/* Attention of one tile: some queries of one sequence with query heads that share a KV head. For
 * the rows of the tile, a row being one query of one head, block after block of 64 positions:
 *
 *   S = Q K^T                              kv_mix, keys lying transposed
 *   m' = max(m, S),  c = e((m - m') / sqrt(d)),  P = e((S - m') / sqrt(d))
 *   l = l c + sum P,  O = O c + P V,  m = m'          softmax_f32, kv_mix
 *
 * and O / l in the end. Blocks begin at multiples of 64 whatever the query, a row takes part in the
 * blocks and columns that its position lets it see, in the order of positions, and in no other. So
 * its bytes depend on nothing else, and what others cannot see cannot spoil them either. Behind the
 * scores comes the cap of the family, if it has one; a window moves the first column of a row. With
 * a sink z of the head a row begins with m = z sqrt(d), l = 1, O = 0: a column without a value. */
#include <math.h>
#include <string.h>

#include "runtime/kv_internal.h"
#include "runtime/ops.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum {
    BLOCK = PARE_KV_BLOCK,
    ROWS = 64, /* of a tile, unless one query has more */
    RUN = 8,   /* queries that are mixed together where each sees one more than the one before */
};

typedef struct attention_call {
    const pare__kv_batch *b;
    const pare_config *c;
    size_t group;        /* query heads of a KV head */
    size_t heads, parts; /* of them in a tile, tiles that share a KV head */
    size_t tile, tiles;  /* queries of a tile, tiles of a sequence */
    const float *q;
    const float *sinks; /* [heads of the model], or NULL */
    float *out, *scratch;
    double scale;
    size_t floats; /* scratch of a worker */
} attention_call;

/* One tile; rows head after head. */
typedef struct work {
    const attention_call *a;
    pare__kv_reader kv;
    size_t heads, rows, width; /* heads, queries, floats from one query to the next */
    const float *sinks;        /* of the first head, or NULL */
    const float *q;            /* of the first query and head */
    float *out;
    double *total; /* [heads * rows] */
    float *max;    /* [heads * rows] */
    float *scores; /* [heads * rows][BLOCK] */
} work;

static size_t queries_of(size_t group, size_t length)
{
    return pare_smaller(length, group < ROWS ? ROWS / group : 1);
}

/* Two floats for a total, one for a maximum. */
static size_t row_floats(size_t rows)
{
    return (rows * (BLOCK + 3) + 15) / 16 * 16;
}

size_t pare__attention_bytes(const pare_config *c, pare_batch batch)
{
    size_t floats, bytes;
    const size_t group = c->heads / c->kv_heads;
    if (__builtin_mul_overflow(c->head_dim, (size_t)2 * BLOCK, &floats) ||
        __builtin_add_overflow(floats, row_floats(group * queries_of(group, batch.length)),
                               &floats) ||
        __builtin_mul_overflow(floats, sizeof(float), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* y += x z for queries t .. u - 1 of every head; rows of y and x are ldy and ldx apart from query
 * to query, and head_y and head_x from head to head. A query alone has its heads for rows. */
typedef struct product {
    float *y;
    const float *x;
    size_t ldy, head_y, ldx, head_x;
} product;

static void mix(const work *w, const product *p, size_t t, size_t u, const float *z, size_t ldz,
                size_t n, size_t columns)
{
    const pare_kernels *const kernels = &w->a->b->cx->kernels;
    float *const y = p->y + t * p->ldy;
    const float *const x = p->x + t * p->ldx;
    if (u - t == 1) {
        kernels->kv_mix(y, p->head_y, x, p->head_x, z, ldz, w->heads, n, columns);
        return;
    }
    for (size_t h = 0; h < w->heads; h++)
        kernels->kv_mix(y + h * p->head_y, p->ldy, x + h * p->head_x, p->ldx, z, ldz, u - t, n,
                        columns);
}

/* Scores of queries t0 and later with the block at c0; behind a row's own columns anything. */
static void score(const work *w, size_t t0, size_t c0, size_t c1)
{
    const size_t d = w->a->c->head_dim, head = w->rows * BLOCK;
    size_t begin, end, next_begin, next_end;
    for (pare__kv_source s = 0; s < PARE__KV_SOURCES; s++) {
        const float *const keys = pare__kv_keys(&w->kv, s, t0, w->rows, c0, c1);
        for (size_t t = t0, u; keys && t < w->rows; t = u) {
            pare__kv_columns(&w->kv, s, true, t, c0, c1, &begin, &end);
            for (u = t + 1; u < w->rows; u++) {
                pare__kv_columns(&w->kv, s, true, u, c0, c1, &next_begin, &next_end);
                if (next_begin != begin || next_end != end)
                    break;
            }
            if (begin == end)
                continue;
            const size_t from = begin - c0;
            for (size_t h = 0; h < w->heads; h++)
                for (size_t i = t; i < u; i++)
                    memset(w->scores + h * head + i * BLOCK + from, 0,
                           (BLOCK - from) * sizeof *w->scores);
            const product p = {w->scores + from, w->q, BLOCK, head, w->width, d};
            mix(w, &p, t, u, keys + from, BLOCK, d, BLOCK - from);
        }
    }
}

/* Scores become weights; what was gathered before shrinks. */
static void weigh(const work *w, size_t t0, size_t c0)
{
    const size_t d = w->a->c->head_dim;
    const double cap = w->a->c->attention_cap;
    for (size_t h = 0; h < w->heads; h++)
        for (size_t t = t0; t < w->rows; t++) {
            const size_t r = h * w->rows + t, low = pare__kv_low(&w->kv, t);
            const size_t from = low > c0 ? low - c0 : 0;
            const size_t columns = pare_smaller(w->kv.first + t + 1 - c0, BLOCK);
            float *const out = w->out + t * w->width + h * d;
            float *const scores = w->scores + r * BLOCK + from;
            if (from >= columns)
                continue;
            if (cap > 0)
                pare_soft_cap(scores, columns - from, w->a->scale, cap);
            const float shrink = w->a->b->cx->kernels.softmax_f32(
                scores, columns - from, cap > 0 ? 1.0f : (float)w->a->scale, &w->max[r],
                &w->total[r]);
            for (size_t i = 0; shrink != 1.0f && i < d; i++)
                out[i] *= shrink;
        }
}

static void gather_columns(const work *w, size_t t, size_t u, const float *values, size_t c0,
                           size_t begin, size_t end)
{
    const size_t d = w->a->c->head_dim, column = begin - c0;
    const product p = {w->out, w->scores + column, w->width, d, BLOCK, w->rows * BLOCK};
    if (begin < end)
        mix(w, &p, t, u, values + column * d, d, end - begin, d);
}

/* Columns that all queries of a run see are mixed for all at once, those before and behind them
 * query by query: each takes its columns in their order. */
static void gather_run(const work *w, pare__kv_source s, size_t t, size_t u, const float *values,
                       size_t c0)
{
    size_t begin[RUN], end[RUN];
    for (size_t i = 0; i < u - t; i++)
        pare__kv_columns(&w->kv, s, false, t + i, c0,
                         pare_smaller(c0 + BLOCK, w->kv.first + t + i + 1), &begin[i], &end[i]);
    const size_t first = begin[u - t - 1], last = end[0] > first ? end[0] : first;
    for (size_t i = 0; i < u - t; i++)
        gather_columns(w, t + i, t + i + 1, values, c0, begin[i], pare_smaller(end[i], first));
    gather_columns(w, t, u, values, c0, first, last);
    for (size_t i = 0; i < u - t; i++)
        gather_columns(w, t + i, t + i + 1, values, c0, begin[i] > last ? begin[i] : last, end[i]);
}

static void gather(const work *w, size_t t0, size_t c0, size_t c1)
{
    for (pare__kv_source s = 0; s < PARE__KV_SOURCES; s++) {
        const float *const values = pare__kv_values(&w->kv, s, t0, w->rows, c0, c1);
        for (size_t t = t0; values && t < w->rows; t += RUN)
            gather_run(w, s, t, pare_smaller(t + RUN, w->rows), values, c0);
    }
}

static void attend(const work *w)
{
    const size_t d = w->a->c->head_dim, visible = w->kv.first + w->rows;
    for (size_t t = 0; t < w->rows; t++)
        memset(w->out + t * w->width, 0, w->heads * d * sizeof *w->out);
    for (size_t r = 0; r < w->heads * w->rows; r++) {
        w->max[r] =
            w->sinks ? pare__sink_score(w->a->c, w->sinks[r / w->rows], w->a->scale) : -INFINITY;
        w->total[r] = w->sinks ? 1 : 0;
    }
    for (size_t c0 = pare__kv_low(&w->kv, 0) / BLOCK * BLOCK; c0 < visible; c0 += BLOCK) {
        const size_t t0 = c0 > w->kv.first ? c0 - w->kv.first : 0;
        const size_t c1 = pare_smaller(c0 + BLOCK, visible);
        score(w, t0, c0, c1);
        weigh(w, t0, c0);
        gather(w, t0, c0, c1);
    }
    for (size_t h = 0; h < w->heads; h++)
        for (size_t t = 0; t < w->rows; t++) {
            const float inverse = (float)(1.0 / w->total[h * w->rows + t]);
            for (size_t i = 0; i < d; i++)
                w->out[t * w->width + h * d + i] *= inverse;
        }
}

static void run_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const attention_call *const a = arg;
    const pare_batch batch = a->b->batch;
    const size_t d = a->c->head_dim, rows = a->heads * a->tile;
    float *const scratch = a->scratch + worker * a->floats;
    for (size_t i = begin; i < end; i++) {
        const size_t t0 = i % a->tiles * a->tile, part = i / a->tiles % a->parts;
        const size_t plane = i / a->tiles / a->parts, head = part * a->heads;
        work w = {
            .a = a, .width = a->c->heads * d, .rows = pare_smaller(batch.length - t0, a->tile)};
        w.kv = (pare__kv_reader){.b = a->b,
                                 .sequence = plane / a->c->kv_heads,
                                 .head = plane % a->c->kv_heads,
                                 .first = batch.start + t0,
                                 .decoded = scratch + row_floats(rows),
                                 .keys = scratch + row_floats(rows) + BLOCK * d};
        w.heads = pare_smaller(a->group - head, a->heads);
        const size_t at =
            (w.kv.sequence * batch.length + t0) * w.width + (w.kv.head * a->group + head) * d;
        w.q = a->q + at;
        w.sinks = a->sinks ? a->sinks + w.kv.head * a->group + head : NULL;
        w.out = a->out + at;
        w.total = (double *)(void *)scratch;
        w.max = scratch + 2 * rows;
        w.scores = w.max + rows;
        attend(&w);
    }
}

/* Where there are fewer tiles than workers, the heads of a tile are dealt out. */
static void split_heads(attention_call *a, size_t workers)
{
    const size_t tiles = a->b->batch.sequences * a->c->kv_heads * a->tiles;
    const size_t parts =
        tiles < workers ? pare_smaller((workers + tiles - 1) / tiles, a->group) : 1;
    a->heads = (a->group + parts - 1) / parts;
    a->parts = (a->group + a->heads - 1) / a->heads;
}

pare_status pare__attention(pare_arena *scratch, const pare__kv_batch *b, const float *q,
                            float *out)
{
    const pare_config *const c = &b->f->model->config;
    attention_call a = {
        .b = b, .c = c, .q = q, .sinks = b->sinks, .out = out, .group = c->heads / c->kv_heads};
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t positions = b->batch.start + b->batch.length;
    a.tile = queries_of(a.group, b->batch.length);
    a.tiles = (b->batch.length + a.tile - 1) / a.tile;
    split_heads(&a, pare_threads(b->cx));
    a.scale = c->attention_scale > 0 ? c->attention_scale : 1.0 / sqrt((double)c->head_dim);
    a.floats = pare__attention_bytes(c, b->batch) / sizeof(float);
    a.scratch = pare_arena_take_raw(scratch, pare_threads(b->cx), a.floats * sizeof(float));
    if (!a.scratch)
        return PARE_ENOMEM;
    pare_parallel(b->cx, b->batch.sequences * c->kv_heads * a.parts * a.tiles,
                  pare__chunk(a.heads * a.tile * positions * c->head_dim), run_tiles, &a);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
