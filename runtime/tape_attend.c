/* Attention is undone by one task per sequence and key head, which takes its query heads and their
 * tiles of queries in order, so that what several of them add to one key is always added in the
 * same order. */
#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/tape_internal.h"
#include "runtime/threads.h"

enum { TILE_QUERIES = 64 };

typedef struct undo_call {
    const pare_step *s;
    const pare_config *c;
    const pare_kernels *kernels;
    size_t q_width, kv_width;
    float *dq, *dk, *dv;
    const float *dz;
    float *scores; /* [workers][3][TILE_QUERIES, length] */
    float *sunk;   /* [sequences, heads], what goes to the sinks; NULL: there are none */
    double scale;
} undo_call;

/* One tile: queries first .. first + rows - 1 of a sequence, keys low .. low + columns - 1. */
typedef struct tile {
    size_t first, rows, low, columns;
    float *p, *dp, *capped; /* [rows, columns]; capped: S, where there is a cap */
    double *sink;           /* [rows], the weights of the sink; 0: none */
    double *dsink;          /* of the head, summed over rows in order */
} tile;

/* The first key that a query sees. */
static size_t low_of(const undo_call *u, size_t query)
{
    return pare_window_low(u->c, u->s->attend.window, query);
}

/* From q k^T to the weights of attention, row by row; 0 where a query does not see a key. A sink
 * has a weight that meets no value: what goes back to q, k and v is the same with and without it.
 */
static void weigh(const undo_call *u, const tile *t, const float *sink)
{
    const double cap = u->c->attention_cap;
    for (size_t i = 0; i < t->rows; i++) {
        float *const row = t->p + i * t->columns;
        const size_t from = low_of(u, t->first + i) - t->low;
        const size_t end = t->first + i + 1 - t->low;
        const float z = sink ? pare__sink_score(u->c, *sink, u->scale) : -INFINITY;
        const float factor = cap > 0 ? 1.0f : (float)u->scale;
        float max = z;
        double total = sink ? 1 : 0;
        if (cap > 0) {
            pare_soft_cap(row + from, end - from, u->scale, cap);
            memcpy(t->capped + i * t->columns, row, t->columns * sizeof *row);
        }
        (void)u->kernels->softmax_f32(row + from, end - from, factor, &max, &total);
        t->sink[i] = sink ? exp(((double)z - (double)max) * (double)factor) / total : 0;
        for (size_t j = from; j < end; j++)
            row[j] *= (float)(1.0 / total);
        memset(row, 0, from * sizeof *row);
        memset(row + end, 0, (t->columns - end) * sizeof *row);
    }
}

/* dp becomes the gradient of q k^T. Of the sink s with weight w: ds -= w sum_j p_j dp_j. */
static void undo_softmax(const undo_call *u, const tile *t)
{
    const double cap = u->c->attention_cap;
    const float scale = (float)u->scale;
    for (size_t i = 0; i < t->rows; i++) {
        const float *const p = t->p + i * t->columns, *const z = t->capped + i * t->columns;
        float *const d = t->dp + i * t->columns;
        double sum = 0;
        for (size_t j = 0; j < t->columns; j++)
            sum += (double)p[j] * (double)d[j];
        *t->dsink -= t->sink[i] * sum;
        for (size_t j = 0; j < t->columns; j++)
            d[j] = p[j] * (d[j] - (float)sum) * scale;
        for (size_t j = 0; cap > 0 && j < t->columns; j++)
            d[j] = p[j] > 0 ? d[j] * (float)(1 - ((double)z[j] / cap) * ((double)z[j] / cap)) : 0;
    }
}

static void undo_tile(const undo_call *u, size_t sequence, size_t head, tile t)
{
    double sink[TILE_QUERIES];
    const size_t d = u->c->head_dim, length = u->s->attend.batch.length;
    const size_t kv_head = head / (u->c->heads / u->c->kv_heads), n = t.columns;
    const size_t at = (sequence * length + t.first) * u->q_width + head * d;
    const size_t kv_at = (sequence * length + t.low) * u->kv_width + kv_head * d;
    const float *const q = u->s->x.at + at, *const dz = u->dz + at;
    const float *const k = u->s->other.at + kv_at, *const v = u->s->third.at + kv_at;
    t.sink = sink;
    pare_gemm_run(u->kernels, &(pare_gemm){t.rows, n, d, q, u->q_width, false, k, u->kv_width, true,
                                           t.p, n, 1, 0});
    weigh(u, &t, u->s->attend.sinks ? u->s->attend.sinks + head : NULL);
    pare_gemm_run(u->kernels, &(pare_gemm){t.rows, n, d, dz, u->q_width, false, v, u->kv_width,
                                           true, t.dp, n, 1, 0});
    pare_gemm_run(u->kernels, &(pare_gemm){n, d, t.rows, t.p, n, true, dz, u->q_width, false,
                                           u->dv + kv_at, u->kv_width, 1, 1});
    undo_softmax(u, &t);
    pare_gemm_run(u->kernels, &(pare_gemm){t.rows, d, n, t.dp, n, false, k, u->kv_width, false,
                                           u->dq + at, u->q_width, 1, 1});
    pare_gemm_run(u->kernels, &(pare_gemm){n, d, t.rows, t.dp, n, true, q, u->q_width, false,
                                           u->dk + kv_at, u->kv_width, 1, 1});
}

static void undo_heads(void *arg, size_t begin, size_t end, size_t worker)
{
    const undo_call *const u = arg;
    const size_t kv_heads = u->c->kv_heads, group = u->c->heads / kv_heads;
    const size_t length = u->s->attend.batch.length, room = TILE_QUERIES * length;
    float *const scores = u->scores + worker * 3 * room;
    tile t = {.p = scores, .dp = scores + room, .capped = scores + 2 * room};
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < group; g++) {
            const size_t head = i % kv_heads * group + g;
            double dsink = 0;
            t.dsink = &dsink;
            for (t.first = 0; t.first < length; t.first += TILE_QUERIES) {
                t.rows = length - t.first < TILE_QUERIES ? length - t.first : TILE_QUERIES;
                t.low = low_of(u, t.first);
                t.columns = t.first + t.rows - t.low;
                undo_tile(u, i / kv_heads, head, t);
            }
            if (u->sunk)
                u->sunk[i / kv_heads * u->c->heads + head] = (float)dsink;
        }
}

/* Arguments of the loop over rows that turn back. */
typedef struct turn_call {
    const pare_attend *a;
    size_t heads;
    bool query; /* x belongs to q */
    float *x;
} turn_call;

static void unrotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const turn_call *const r = arg;
    const pare_forward *const f = r->a->f;
    const size_t table = pare_rope_table(f, r->a->apart, r->a->kv->capacity);
    const size_t half = pare_rope_pairs(&f->model->config), d = f->model->config.head_dim;
    for (size_t i = begin; i < end; i++) {
        const size_t position = i % r->a->batch.length, at = table + position * half;
        const float scale = pare_config_temperature(&f->model->config, r->a->apart, position);
        for (size_t j = i * r->heads * d; r->query && scale != 1 && j < (i + 1) * r->heads * d; j++)
            r->x[j] *= scale;
        for (size_t h = 0; h < r->heads; h++)
            pare_rope_undo(r->x + (i * r->heads + h) * d, f->rope_cos + at, f->rope_sin + at, half,
                           f->model->config.turns_neighbours);
    }
}

static void unrotate(const pare_tape *t, const pare_attend *a, bool query, pare_array x, float *d)
{
    const pare_config *const c = &a->f->model->config;
    turn_call r = {.a = a, .heads = x.width / c->head_dim, .query = query, .x = d};
    if (pare_rope_pairs(c) > 0)
        pare_parallel(t->inner.cx, x.rows, pare__chunk(x.width * 4), unrotate_rows, &r);
}

/* What comes to q, k and v from elsewhere. */
static void add_given(const pare_tape *t, const pare_step *s, const undo_call *u)
{
    const float *const *const given = t->wanted->qkv;
    if (!given[0])
        return;
    pare_add(u->dq, given[0], s->x.rows * s->x.width);
    pare_add(u->dk, given[1], s->other.rows * s->other.width);
    pare_add(u->dv, given[2], s->third.rows * s->third.width);
}

pare_status pare__tape_attend(pare_tape *t, const pare_step *s)
{
    const pare_config *const c = &s->attend.f->model->config;
    const pare_batch batch = s->attend.batch;
    const pare_ops *const o = &t->inner;
    pare_mark mark;
    pare_array scores, sunk = {0};
    undo_call u = {.s = s, .c = c, .kernels = &t->inner.cx->kernels, .q_width = s->x.width};
    float *dz;
    u.kv_width = s->other.width;
    u.scale = c->attention_scale > 0 ? c->attention_scale : 1.0 / sqrt((double)c->head_dim);
    PARE_TRY(pare__tape_d(t, s->y, &dz));
    PARE_TRY(pare__tape_d(t, s->x, &u.dq));
    PARE_TRY(pare__tape_d(t, s->other, &u.dk));
    PARE_TRY(pare__tape_d(t, s->third, &u.dv));
    u.dz = dz;
    PARE_TRY(o->op->mark(o, &mark));
    PARE_TRY(o->op->take(o, pare_threads(o->cx) * 3 * TILE_QUERIES, batch.length, &scores));
    u.scores = scores.at;
    if (c->arch->sinks)
        PARE_TRY(o->op->take(o, batch.sequences, c->heads, &sunk));
    u.sunk = sunk.at;
    if (!t->dry) {
        pare_parallel(o->cx, batch.sequences * c->kv_heads, 1, undo_heads, &u);
        if (u.sunk)
            pare__sum_columns(t, u.sunk, NULL, batch.sequences, c->heads,
                              pare__tape_leaf(t, s->attend.sinks));
        unrotate(t, &s->attend, true, s->x, u.dq);
        unrotate(t, &s->attend, false, s->other, u.dk);
        add_given(t, s, &u);
    }
    return o->op->rewind(o, mark);
}
