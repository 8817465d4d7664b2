/* Attention over a coded cache: one KV head and a tile of queries of all its query heads at a time.
 * Columns go in blocks of 64 positions. A block is read from up to three sources, in the order of
 * positions: the sink (F16), codes, recent tokens (F16). A query takes a column from the one source
 * that its own position allows; for the others its weight there is exactly 0, which changes no sum.
 * So a row has the same sums in a tile of any size. */
#include <math.h>
#include <string.h>

#include "runtime/kv_internal.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

enum { COLUMNS = 64, ROWS = 64 };

typedef enum source { SINK, CODES, RECENT, SOURCES } source;

typedef struct call {
    const pare__kv_batch *b;
    const pare_config *c;
    const pare_kernels *kernels;
    size_t group;       /* query heads of a KV head */
    size_t tile, tiles; /* queries of a tile, tiles of a sequence */
    size_t floats;      /* scratch of a worker */
    const float *q;
    float *out, *scratch, scale;
} call;

/* One tile: rows of `group` heads, head after head. */
typedef struct work {
    const call *a;
    size_t sequence, head;        /* KV head */
    size_t t0, rows, first, last; /* queries; positions of the first and last of them */
    float *scores;                /* [group * tile][start + length], rows `ld` apart */
    size_t ld;
    float *part;    /* [group * tile][COLUMNS] */
    float *columns; /* [COLUMNS][head_dim] */
} work;

static size_t queries(const pare_config *c, pare_batch batch)
{
    const size_t group = c->heads / c->kv_heads, most = group < ROWS ? ROWS / group : 1;
    return batch.length < most ? batch.length : most;
}

static size_t floats_of(const pare_config *c, pare_batch batch)
{
    const size_t rows = c->heads / c->kv_heads * queries(c, batch);
    return rows * (batch.start + batch.length + COLUMNS) + COLUMNS * c->head_dim;
}

size_t pare__kv_attention_bytes(const pare_config *c, pare_batch batch)
{
    size_t columns, rows, bytes;
    const size_t group = c->heads / c->kv_heads, tile = queries(c, batch);
    if (__builtin_add_overflow(batch.start, batch.length + COLUMNS, &columns) ||
        __builtin_mul_overflow(group * tile, columns, &rows) ||
        __builtin_add_overflow(rows, COLUMNS * c->head_dim, &rows) ||
        __builtin_mul_overflow(rows, sizeof(float), &bytes))
        return SIZE_MAX;
    return bytes;
}

static size_t coded(const work *w, bool key, size_t position)
{
    return pare_kv_coded(&w->a->b->kv->format, key, position + 1);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Columns of [c0, c1) that the query at `position` reads from a source: [*begin, *end). */
static void columns_of(const work *w, source s, bool key, size_t position, size_t c0, size_t c1,
                       size_t *begin, size_t *end)
{
    const size_t sink = w->a->b->kv->format.sink, n = coded(w, key, position);
    const size_t from = s == SINK ? 0 : s == CODES ? sink : larger(sink, n);
    const size_t to = s == SINK ? smaller(sink, position + 1) : s == CODES ? n : position + 1;
    *begin = smaller(larger(c0, from), c1);
    *end = larger(*begin, smaller(c1, to));
}

/* Columns that any query of the tile reads from a source; `whole` when none of them must be hidden
 * from a query that reads the column elsewhere. Columns behind a query's own are hidden later. */
static bool columns_of_all(const work *w, source s, bool key, size_t c0, size_t c1, size_t *begin,
                           size_t *end, bool *whole)
{
    size_t last_begin, first_end;
    columns_of(w, s, key, w->first, c0, c1, begin, &first_end);
    columns_of(w, s, key, w->last, c0, c1, &last_begin, end);
    const bool hidden_later = s == SINK || (s == CODES && w->a->b->kv->format.window == 0);
    *whole = hidden_later || (s == CODES ? first_end == *end : last_begin == *begin);
    return *begin < *end;
}

/* Keys or values of positions [begin, end) in F32. */
static void fetch(const work *w, source s, bool key, size_t begin, size_t end)
{
    const pare__kv_batch *const b = w->a->b;
    const pare_kv *const kv = b->kv;
    const pare_kv_side *const side = key ? &kv->key : &kv->value;
    const size_t d = w->a->c->head_dim, at = w->sequence * w->a->c->kv_heads + w->head;
    if (s == SINK) {
        w->a->kernels->cvt_f16_f32(w->columns, side->sink + (at * kv->format.sink + begin) * d,
                                   (end - begin) * d);
        return;
    }
    for (size_t t = begin; s == RECENT && t < end; t++) {
        float *const x = w->columns + (t - begin) * d;
        const size_t row = w->sequence * b->batch.length + t - b->batch.start;
        if (t < b->batch.start)
            w->a->kernels->cvt_f16_f32(x, side->recent + (at * kv->slots + t % kv->slots) * d, d);
        else
            memcpy(x, (key ? b->k : b->v) + (row * w->a->c->kv_heads + w->head) * d, d * sizeof *x);
    }
    if (s != CODES)
        return;
    const size_t room = pare_kv_coded(&kv->format, key, kv->capacity);
    pare_kv_tile tile = {.group = side->group, .bits = side->bits};
    if (kv->format.method == PARE_KV_KVQUANT)
        tile.levels = key ? b->levels->key : b->levels->value;
    for (size_t t = begin, next; t < end; t = next) {
        next = side->tokens > 1 ? smaller(end, (t / side->tokens + 1) * side->tokens) : end;
        tile.codes = side->codes + (at * room + t) * pare_kv_row_bytes(d, side->bits);
        if (side->tokens == 0) {
            tile.scales = b->levels->key_scale + w->head * d;
            tile.lows = b->levels->key_low + w->head * d;
        } else {
            const size_t rows = (room + side->tokens - 1) / side->tokens;
            const size_t row = (at * rows + t / side->tokens) * side->entries;
            tile.scales = side->scales + row;
            tile.lows = side->lows ? side->lows + row : NULL;
            tile.ld = side->tokens == 1 ? side->entries : 0;
        }
        w->a->kernels->kv_decode(w->columns + (t - begin) * d, d, &tile, next - t, d);
    }
}

/* The rotation of keys that are kept without it. */
static void rotate(const work *w, size_t begin, size_t end)
{
    const size_t d = w->a->c->head_dim, half = d / 2;
    for (size_t t = begin; t < end; t++)
        pare_rope_apply(w->columns + (t - begin) * d, w->a->b->f->rope_cos + t * half,
                        w->a->b->f->rope_sin + t * half, half);
}

static const float *query(const work *w, size_t head)
{
    const call *const a = w->a;
    const size_t d = a->c->head_dim, width = a->c->heads * d;
    const size_t row = w->sequence * a->b->batch.length + w->t0;
    return a->q + row * width + (w->head * a->group + head) * d;
}

/* to[row, column] = q k for all rows of the tile; with one query its heads are the rows. */
static void multiply(const work *w, float *to, size_t ld, size_t columns)
{
    const call *const a = w->a;
    const size_t d = a->c->head_dim, width = a->c->heads * d;
    if (w->rows == 1) {
        a->kernels->gemm_f32_f32(to, ld, query(w, 0), d, w->columns, d, a->group, columns, d);
        return;
    }
    for (size_t g = 0; g < a->group; g++)
        a->kernels->gemm_f32_f32(to + g * w->rows * ld, ld, query(w, g), width, w->columns, d,
                                 w->rows, columns, d);
}

static void score(const work *w, source s, size_t c0, size_t c1)
{
    size_t begin, end, from, to;
    bool whole;
    if (!columns_of_all(w, s, true, c0, c1, &begin, &end, &whole))
        return;
    fetch(w, s, true, begin, end);
    if (pare__kv_before_rope(&w->a->b->kv->format))
        rotate(w, begin, end);
    if (whole) {
        multiply(w, w->scores + begin, w->ld, end - begin);
        return;
    }
    multiply(w, w->part, COLUMNS, end - begin);
    for (size_t r = 0; r < w->a->group * w->rows; r++) {
        columns_of(w, s, true, w->first + r % w->rows, c0, c1, &from, &to);
        memcpy(w->scores + r * w->ld + from, w->part + r * COLUMNS + from - begin,
               (to - from) * sizeof *w->scores);
    }
}

/* out[row] += p v for all rows of the tile. */
static void mix(const work *w, const float *p, size_t ldp, size_t columns)
{
    const call *const a = w->a;
    const size_t d = a->c->head_dim, width = a->c->heads * d;
    float *const out = a->out + (query(w, 0) - a->q);
    if (w->rows == 1) {
        a->kernels->kv_mix(out, d, p, ldp, w->columns, d, a->group, columns, d);
        return;
    }
    for (size_t g = 0; g < a->group; g++)
        a->kernels->kv_mix(out + g * d, width, p + g * w->rows * ldp, ldp, w->columns, d, w->rows,
                           columns, d);
}

static void gather(const work *w, source s, size_t c0, size_t c1)
{
    size_t begin, end, from, to;
    bool whole;
    if (!columns_of_all(w, s, false, c0, c1, &begin, &end, &whole))
        return;
    fetch(w, s, false, begin, end);
    if (whole) {
        mix(w, w->scores + begin, w->ld, end - begin);
        return;
    }
    for (size_t r = 0; r < w->a->group * w->rows; r++) {
        columns_of(w, s, false, w->first + r % w->rows, c0, c1, &from, &to);
        memset(w->part + r * COLUMNS, 0, COLUMNS * sizeof *w->part);
        memcpy(w->part + r * COLUMNS + from - begin, w->scores + r * w->ld + from,
               (to - from) * sizeof *w->part);
    }
    mix(w, w->part, COLUMNS, end - begin);
}

static void attend(const work *w)
{
    const call *const a = w->a;
    const size_t visible = w->last + 1, d = a->c->head_dim, width = a->c->heads * d;
    for (size_t c0 = 0; c0 < visible; c0 += COLUMNS)
        for (source s = SINK; s < SOURCES; s++)
            score(w, s, c0, smaller(c0 + COLUMNS, visible));
    for (size_t r = 0; r < a->group * w->rows; r++)
        pare_softmax(w->scores + r * w->ld, w->first + r % w->rows + 1, visible, a->scale);
    for (size_t t = 0; t < w->rows; t++)
        memset(a->out + (query(w, 0) - a->q) + t * width, 0, a->group * d * sizeof *a->out);
    for (size_t c0 = 0; c0 < visible; c0 += COLUMNS)
        for (source s = SINK; s < SOURCES; s++)
            gather(w, s, c0, smaller(c0 + COLUMNS, visible));
}

static void run_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const call *const a = arg;
    const pare_batch batch = a->b->batch;
    float *const scratch = a->scratch + worker * a->floats;
    for (size_t i = begin; i < end; i++) {
        const size_t plane = i / a->tiles, t0 = i % a->tiles * a->tile;
        work w = {.a = a, .sequence = plane / a->c->kv_heads, .head = plane % a->c->kv_heads};
        w.t0 = t0;
        w.rows = smaller(batch.length - t0, a->tile);
        w.first = batch.start + t0;
        w.last = w.first + w.rows - 1;
        w.scores = scratch;
        w.ld = batch.start + batch.length;
        w.part = w.scores + a->group * a->tile * w.ld;
        w.columns = w.part + a->group * a->tile * COLUMNS;
        attend(&w);
    }
}

pare_status pare__kv_attention(pare_arena *scratch, const pare__kv_batch *b, const float *q,
                               float *out)
{
    const pare_config *const c = &b->f->model->config;
    call a = {.b = b, .c = c, .kernels = &b->cx->kernels, .q = q, .out = out};
    const pare_mark mark = pare_arena_mark(scratch);
    a.group = c->heads / c->kv_heads;
    a.tile = queries(c, b->batch);
    a.tiles = (b->batch.length + a.tile - 1) / a.tile;
    a.floats = floats_of(c, b->batch);
    a.scale = (float)(1.0 / sqrt((double)c->head_dim));
    a.scratch = pare_arena_take(scratch, pare_threads(b->cx), a.floats * sizeof(float));
    if (!a.scratch)
        return PARE_ENOMEM;
    const size_t positions = b->batch.start + b->batch.length;
    pare_parallel(b->cx, b->batch.sequences * c->kv_heads * a.tiles,
                  pare__chunk(a.group * a.tile * positions * c->head_dim), run_tiles, &a);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
