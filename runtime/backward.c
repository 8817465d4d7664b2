/* The sums of a gradient run over the tokens of a batch: products of whole matrices go through
 * fixed tiles of BLAS, sums of columns run in the order of tokens, in double. Attention is undone
 * by one task per sequence and key head, which takes its query heads and their tiles of queries in
 * order, so that what several of them add to one key is always added in the same order. */
#include "runtime/backward.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/kv_internal.h"
#include "runtime/linalg.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

enum { TILE_QUERIES = 64, COLUMNS = 64 };

/* The state of one call. */
typedef struct back {
    pare_ctx *cx;
    const pare_forward *f;
    const pare_config *c;
    const pare_block *weights;
    const pare_trace *trace;
    const pare_block_gradient *gradient;
    size_t rows, q_width, kv_width;
    float *t;          /* [rows, hidden] input of a norm over its root mean square */
    float *dn;         /* [rows, hidden] gradient behind a norm */
    float *dh;         /* [rows, hidden] */
    float *dq;         /* [rows, q_width] */
    float *dk, *dv;    /* [rows, kv_width] */
    float *dz;         /* [rows, q_width] */
    float *dgate, *du; /* [rows, intermediate] */
    float *scores;     /* [workers][2][tile, length] */
} back;

/* Arguments of the loops over rows and columns. */
typedef struct row_call {
    const back *b;
    const pare_kernels *kernels;
    const pare_forward *f;
    const pare_config *c;
    size_t length, width, rows;
    const float *a, *w, *bias;
    float *x, *y, *q, *k;
    const pare_kv *kv;
    double eps;
} row_call;

static void norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++) {
        float *const y = r->y + i * r->width;
        pare_rms_norm(y, r->a + i * r->width, r->w, r->width, r->eps);
        if (r->bias)
            pare_add(y, r->bias, r->width);
    }
}

static void activate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t first = begin * r->width, count = (end - begin) * r->width;
    memcpy(r->y + first, r->a + first, count * sizeof *r->y);
    r->kernels->silu_f32(r->y + first, r->w + first, count);
}

static void add_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    pare_add(r->y + begin * r->width, r->a + begin * r->width, (end - begin) * r->width);
}

/* Rotates q and k and stores k and v (r->a) as attention reads them. */
static void rotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_config *const c = r->c;
    const size_t d = c->head_dim, half = d / 2, kv_width = c->kv_heads * d;
    for (size_t i = begin; i < end; i++) {
        const size_t position = i % r->length;
        const float *const cosine = r->f->rope_cos + position * half;
        const float *const sine = r->f->rope_sin + position * half;
        for (size_t h = 0; h < c->heads; h++)
            pare_rope_apply(r->q + (i * c->heads + h) * d, cosine, sine, half);
        float *const k = r->k + i * kv_width;
        for (size_t h = 0; h < c->kv_heads; h++)
            pare_rope_apply(k + h * d, cosine, sine, half);
        pare__kv_put(c, r->kv, i / r->length, position, k, r->a + i * kv_width);
    }
}

/* The inverse rotation, which is the transposed one. */
static void unrotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t half = r->c->head_dim / 2, heads = r->width / r->c->head_dim;
    for (size_t i = begin; i < end; i++)
        for (size_t h = 0; h < heads; h++) {
            const size_t at = i % r->length * half;
            const float *const cosine = r->f->rope_cos + at, *const sine = r->f->rope_sin + at;
            float *const x = r->x + (i * heads + h) * r->c->head_dim;
            for (size_t j = 0; j < half; j++) {
                const float a = x[j], b = x[j + half];
                x[j] = a * cosine[j] + b * sine[j];
                x[j + half] = b * cosine[j] - a * sine[j];
            }
        }
}

static void for_rows(const pare_ctx *cx, pare_task *task, row_call *r, size_t weight)
{
    pare_parallel(cx, r->rows, pare__chunk(r->width * weight), task, r);
}

static float *floats(pare_arena *a, size_t rows, size_t width)
{
    return pare_arena_take(a, rows, width * sizeof(float));
}

pare_status pare_trace_take(pare_arena *a, const pare_config *c, pare_batch batch,
                            pare_trace *trace)
{
    size_t rows;
    if (__builtin_mul_overflow(batch.sequences, batch.length, &rows))
        return pare_fail(a->cx, PARE_ENOMEM, "batch of %zu x %zu tokens", batch.sequences,
                         batch.length);
    *trace = (pare_trace){.batch = batch};
    float **const place[] = {&trace->normed[0], &trace->normed[1], &trace->h,  &trace->q,
                             &trace->attended,  &trace->gate,      &trace->up, &trace->activated};
    const size_t q_width = c->heads * c->head_dim, inner = c->intermediate;
    const size_t width[] = {c->hidden, c->hidden, c->hidden, q_width, q_width, inner, inner, inner};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        *place[i] = floats(a, rows, width[i]);
        if (!*place[i])
            return PARE_ENOMEM;
    }
    return pare_kv_take(a, c, batch.sequences, batch.length, &trace->kv);
}

static pare_status check_block(pare_ctx *cx, const pare_block *weights)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_linear *const l = &weights->linear[r];
        if (l->bits || l->dtype != PARE_F32 || l->rotated)
            return pare_fail(cx, PARE_EINVAL, "%s: a gradient needs dense F32 weights", l->name);
    }
    return PARE_OK;
}

static void add_bias_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++)
        pare_add(r->y + i * r->width, r->bias, r->width);
}

/* y = W x + bias. */
static void apply(const pare_ctx *cx, const pare_linear *l, const float *x, size_t rows, float *y)
{
    pare_gemm_tiles(cx, &(pare_gemm){.m = rows,
                                     .n = l->n,
                                     .k = l->k,
                                     .a = x,
                                     .lda = l->k,
                                     .b = l->data,
                                     .ldb = l->k,
                                     .transpose_b = true,
                                     .c = y,
                                     .ldc = l->n,
                                     .alpha = 1,
                                     .beta = 0});
    row_call r = {.width = l->n, .rows = rows, .bias = l->bias, .y = y};
    if (l->bias)
        for_rows(cx, add_bias_rows, &r, 1);
}

static void alter_input(const pare_alter *alter, pare_site site, float *x, size_t rows, size_t k)
{
    if (alter)
        alter->change(alter->self, site, x, rows, k);
}

static pare_status trace_attention(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                                   const pare_block *weights, const pare_alter *alter,
                                   pare_trace *t)
{
    const pare_config *const c = &f->model->config;
    const size_t rows = t->batch.sequences * t->batch.length, hidden = c->hidden;
    const size_t q_width = c->heads * c->head_dim, kv_width = c->kv_heads * c->head_dim;
    float *const k = floats(scratch, rows, kv_width), *const v = floats(scratch, rows, kv_width);
    if (!k || !v)
        return PARE_ENOMEM;
    row_call r = {.width = hidden,
                  .rows = rows,
                  .a = t->x,
                  .w = weights->attention_norm,
                  .bias = weights->attention_norm_bias,
                  .y = t->normed[0],
                  .eps = c->norm_eps};
    for_rows(cx, norm_rows, &r, 2);
    alter_input(alter, PARE_SITE_ATTENTION, t->normed[0], rows, hidden);
    apply(cx, &weights->linear[PARE_ROLE_Q], t->normed[0], rows, t->q);
    apply(cx, &weights->linear[PARE_ROLE_K], t->normed[0], rows, k);
    apply(cx, &weights->linear[PARE_ROLE_V], t->normed[0], rows, v);
    r = (row_call){.f = f,
                   .c = c,
                   .length = t->batch.length,
                   .width = q_width,
                   .rows = rows,
                   .a = v,
                   .q = t->q,
                   .k = k,
                   .kv = &t->kv};
    for_rows(cx, rotate_rows, &r, 4);
    const pare__kv_batch b = {.cx = cx, .f = f, .batch = t->batch, .kv = &t->kv};
    PARE_TRY(pare__attention(scratch, &b, t->q, t->attended));
    alter_input(alter, PARE_SITE_ATTENDED, t->attended, rows, q_width);
    apply(cx, &weights->linear[PARE_ROLE_O], t->attended, rows, t->h);
    r = (row_call){.width = hidden, .rows = rows, .a = t->x, .y = t->h};
    for_rows(cx, add_rows, &r, 1);
    return PARE_OK;
}

static void trace_mlp(const pare_ctx *cx, const pare_forward *f, const pare_block *weights,
                      const pare_alter *alter, pare_trace *t, float *y)
{
    const pare_config *const c = &f->model->config;
    const size_t rows = t->batch.sequences * t->batch.length;
    row_call r = {.width = c->hidden,
                  .rows = rows,
                  .a = t->h,
                  .w = weights->mlp_norm,
                  .bias = weights->mlp_norm_bias,
                  .y = t->normed[1],
                  .eps = c->norm_eps};
    for_rows(cx, norm_rows, &r, 2);
    alter_input(alter, PARE_SITE_MLP, t->normed[1], rows, c->hidden);
    apply(cx, &weights->linear[PARE_ROLE_GATE], t->normed[1], rows, t->gate);
    apply(cx, &weights->linear[PARE_ROLE_UP], t->normed[1], rows, t->up);
    r = (row_call){.kernels = &cx->kernels,
                   .width = c->intermediate,
                   .rows = rows,
                   .a = t->gate,
                   .w = t->up,
                   .y = t->activated};
    for_rows(cx, activate_rows, &r, 16);
    alter_input(alter, PARE_SITE_ACTIVATED, t->activated, rows, c->intermediate);
    apply(cx, &weights->linear[PARE_ROLE_DOWN], t->activated, rows, y);
    r = (row_call){.width = c->hidden, .rows = rows, .a = t->h, .y = y};
    for_rows(cx, add_rows, &r, 1);
}

pare_status pare_block_trace(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                             const pare_block *weights, pare_batch batch, const float *x,
                             const pare_alter *alter, pare_trace *trace, float *y)
{
    assert(batch.start == 0 && batch.length <= f->positions);
    assert(!pare_config_no_gradient(&f->model->config));
    assert(batch.sequences <= trace->kv.sequences && batch.length <= trace->kv.capacity);
    PARE_TRY(check_block(cx, weights));
    trace->batch = batch;
    trace->x = x;
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = trace_attention(cx, scratch, f, weights, alter, trace);
    pare_arena_rewind(scratch, mark);
    if (s == PARE_OK)
        trace_mlp(cx, f, weights, alter, trace, y);
    return s;
}

/* Arguments of the sums over rows: y[j] += sum_i a[i, j] (w[i, j], or 1 when w is NULL). */
static void sum_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t chunk = begin; chunk < end; chunk++) {
        double sum[COLUMNS] = {0};
        const size_t first = chunk * COLUMNS, left = r->width - first;
        const size_t count = left < COLUMNS ? left : COLUMNS;
        for (size_t i = 0; i < r->rows; i++) {
            const float *const a = r->a + i * r->width + first;
            const float *const w = r->w ? r->w + i * r->width + first : NULL;
            for (size_t j = 0; j < count; j++)
                sum[j] += w ? (double)a[j] * (double)w[j] : (double)a[j];
        }
        for (size_t j = 0; j < count; j++)
            r->y[first + j] += (float)sum[j];
    }
}

static void add_column_sums(const back *b, const float *a, const float *w, size_t width, float *y)
{
    row_call r = {.width = width, .rows = b->rows, .a = a, .w = w, .y = y};
    if (y)
        pare_parallel(b->cx, (width + COLUMNS - 1) / COLUMNS, 1, sum_columns, &r);
}

/* Through y = W x + bias: adds to the gradients of W and bias; dx = dy W, or += when `more`. */
static void undo_linear(const back *b, pare_role role, const float *x, const float *dy, float *dx,
                        bool more)
{
    const pare_linear *const l = &b->weights->linear[role];
    float *const dw = b->gradient->weight[role];
    if (b->gradient->see)
        b->gradient->see(b->gradient->self, role, dy, b->rows, l->n);
    if (dw)
        pare_gemm_tiles(b->cx, &(pare_gemm){.m = l->n,
                                            .n = l->k,
                                            .k = b->rows,
                                            .a = dy,
                                            .lda = l->n,
                                            .transpose_a = true,
                                            .b = x,
                                            .ldb = l->k,
                                            .c = dw,
                                            .ldc = l->k,
                                            .alpha = 1,
                                            .beta = 1});
    add_column_sums(b, dy, NULL, l->n, b->gradient->bias[role]);
    pare_gemm_tiles(b->cx, &(pare_gemm){.m = b->rows,
                                        .n = l->k,
                                        .k = l->n,
                                        .a = dy,
                                        .lda = l->n,
                                        .b = l->data,
                                        .ldb = l->k,
                                        .c = dx,
                                        .ldc = l->k,
                                        .alpha = 1,
                                        .beta = more ? 1 : 0});
}

static void undo_norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t n = r->width;
    for (size_t i = begin; i < end; i++)
        pare_rms_norm_backward(r->y + i * n, r->b->t + i * n, r->b->dn + i * n, r->a + i * n, r->w,
                               n, r->eps);
}

/* Through norm `which` of x: dx += what b->dn makes of it. */
static void undo_norm(const back *b, size_t which, const float *x, const float *w, float *dx)
{
    row_call r = {.b = b,
                  .width = b->c->hidden,
                  .rows = b->rows,
                  .a = x,
                  .w = w,
                  .y = dx,
                  .eps = b->c->norm_eps};
    for_rows(b->cx, undo_norm_rows, &r, 4);
    add_column_sums(b, b->dn, b->t, b->c->hidden, b->gradient->norm[which]);
    add_column_sums(b, b->dn, NULL, b->c->hidden, b->gradient->norm_bias[which]);
}

static void undo_activation_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t first = begin * r->width, count = (end - begin) * r->width;
    pare_silu_backward(r->y + first, r->x + first, r->y + first, r->a + first, r->w + first, count);
}

/* dh becomes the gradient of h; it comes as that of y. */
static void undo_mlp(const back *b)
{
    const pare_trace *const t = b->trace;
    undo_linear(b, PARE_ROLE_DOWN, t->activated, b->dh, b->dgate, false);
    row_call r = {.width = b->c->intermediate,
                  .rows = b->rows,
                  .a = t->gate,
                  .w = t->up,
                  .x = b->du,
                  .y = b->dgate};
    for_rows(b->cx, undo_activation_rows, &r, 24);
    undo_linear(b, PARE_ROLE_GATE, t->normed[1], b->dgate, b->dn, false);
    undo_linear(b, PARE_ROLE_UP, t->normed[1], b->du, b->dn, true);
    undo_norm(b, 1, t->h, b->weights->mlp_norm, b->dh);
}

/* p, dp [rows, visible], rows of queries t0 ..: dp becomes p (dp - rowsum(p dp)) scale. */
static void undo_softmax(const float *p, float *dp, size_t rows, size_t visible, float scale)
{
    for (size_t i = 0; i < rows; i++) {
        const float *const row = p + i * visible;
        float *const d = dp + i * visible;
        double sum = 0;
        for (size_t j = 0; j < visible; j++)
            sum += (double)row[j] * (double)d[j];
        for (size_t j = 0; j < visible; j++)
            d[j] = row[j] * (d[j] - (float)sum) * scale;
    }
}

/* What attention makes of a row of scores: weights of `count` columns, 0 behind them. */
static void softmax_row(const pare_kernels *kernels, float *row, size_t count, size_t width,
                        float scale)
{
    float max = -INFINITY;
    double total = 0;
    (void)kernels->softmax_f32(row, count, scale, &max, &total);
    for (size_t i = 0; i < count; i++)
        row[i] *= (float)(1.0 / total);
    memset(row + count, 0, (width - count) * sizeof *row);
}

/* One tile of queries of one head. Keys lie transposed block by block. */
static void undo_tile(const back *b, size_t sequence, size_t head, size_t t0, float *p)
{
    enum { BLOCK = PARE_KV_BLOCK };
    const pare_config *const c = b->c;
    const pare_kv *const kv = &b->trace->kv;
    const size_t d = c->head_dim, length = b->trace->batch.length;
    const size_t rows = length - t0 < TILE_QUERIES ? length - t0 : TILE_QUERIES;
    const size_t visible = t0 + rows, kv_head = head / (c->heads / c->kv_heads);
    const size_t plane = sequence * c->kv_heads + kv_head;
    const size_t at = (sequence * length + t0) * b->q_width + head * d;
    const size_t kv_at = sequence * length * b->kv_width + kv_head * d;
    const float scale = (float)(1.0 / sqrt((double)d));
    float *const dp = p + TILE_QUERIES * length, *const dq = b->dq + at;
    const float *const q = b->trace->q + at, *const dz = b->dz + at;
    const float *const keys = kv->keys + plane * pare_kv_key_room(kv->capacity) * d;
    const float *const values = kv->values + plane * kv->capacity * d;
    for (size_t c0 = 0, n; c0 < visible; c0 += n) {
        n = visible - c0 < BLOCK ? visible - c0 : BLOCK;
        pare_gemm_run(&(pare_gemm){rows, n, d, q, b->q_width, false, keys + c0 * d, BLOCK, false,
                                   p + c0, visible, 1, 0});
    }
    for (size_t i = 0; i < rows; i++)
        softmax_row(&b->cx->kernels, p + i * visible, t0 + i + 1, visible, scale);
    pare_gemm_run(
        &(pare_gemm){rows, visible, d, dz, b->q_width, false, values, d, true, dp, visible, 1, 0});
    pare_gemm_run(&(pare_gemm){visible, d, rows, p, visible, true, dz, b->q_width, false,
                               b->dv + kv_at, b->kv_width, 1, 1});
    undo_softmax(p, dp, rows, visible, scale);
    for (size_t c0 = 0, n; c0 < visible; c0 += n) {
        n = visible - c0 < BLOCK ? visible - c0 : BLOCK;
        pare_gemm_run(&(pare_gemm){rows, d, n, dp + c0, visible, false, keys + c0 * d, BLOCK, true,
                                   dq, b->q_width, 1, c0 > 0});
    }
    pare_gemm_run(&(pare_gemm){visible, d, rows, dp, visible, true, q, b->q_width, false,
                               b->dk + kv_at, b->kv_width, 1, 1});
}

static void undo_heads(void *arg, size_t begin, size_t end, size_t worker)
{
    const back *const b = arg;
    const size_t kv_heads = b->c->kv_heads, group = b->c->heads / kv_heads;
    const size_t length = b->trace->batch.length;
    float *const scores = b->scores + worker * 2 * TILE_QUERIES * length;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < group; g++)
            for (size_t t0 = 0; t0 < length; t0 += TILE_QUERIES)
                undo_tile(b, i / kv_heads, i % kv_heads * group + g, t0, scores);
}

static void unrotate(const back *b, float *x, size_t width)
{
    row_call r = {.f = b->f,
                  .c = b->c,
                  .length = b->trace->batch.length,
                  .width = width,
                  .rows = b->rows,
                  .x = x};
    for_rows(b->cx, unrotate_rows, &r, 4);
}

/* dh becomes the gradient of x. */
static void undo_attention(back *b)
{
    const pare_trace *const t = b->trace;
    undo_linear(b, PARE_ROLE_O, t->attended, b->dh, b->dz, false);
    memset(b->dk, 0, b->rows * b->kv_width * sizeof *b->dk);
    memset(b->dv, 0, b->rows * b->kv_width * sizeof *b->dv);
    pare_parallel(b->cx, t->batch.sequences * b->c->kv_heads, 1, undo_heads, b);
    unrotate(b, b->dq, b->q_width);
    unrotate(b, b->dk, b->kv_width);
    undo_linear(b, PARE_ROLE_Q, t->normed[0], b->dq, b->dn, false);
    undo_linear(b, PARE_ROLE_K, t->normed[0], b->dk, b->dn, true);
    undo_linear(b, PARE_ROLE_V, t->normed[0], b->dv, b->dn, true);
    undo_norm(b, 0, t->x, b->weights->attention_norm, b->dh);
}

static pare_status take_back(pare_arena *scratch, back *b)
{
    const size_t hidden = b->c->hidden, inner = b->c->intermediate;
    float **const place[] = {&b->t,  &b->dn, &b->dh, &b->dq,   &b->dz,
                             &b->dk, &b->dv, &b->du, &b->dgate};
    const size_t width[] = {hidden,      hidden,      hidden, b->q_width, b->q_width,
                            b->kv_width, b->kv_width, inner,  inner};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        *place[i] = floats(scratch, b->rows, width[i]);
        if (!*place[i])
            return PARE_ENOMEM;
    }
    b->scores = floats(scratch, pare_threads(b->cx), 2 * TILE_QUERIES * b->trace->batch.length);
    return b->scores ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_block_backward(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                                const pare_block *weights, const pare_trace *trace, const float *dy,
                                float *dx, const pare_block_gradient *gradient)
{
    const pare_config *const c = &f->model->config;
    back b = {.cx = cx, .f = f, .c = c, .weights = weights, .trace = trace, .gradient = gradient};
    b.rows = trace->batch.sequences * trace->batch.length;
    b.q_width = c->heads * c->head_dim;
    b.kv_width = c->kv_heads * c->head_dim;
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = take_back(scratch, &b);
    if (s == PARE_OK) {
        const size_t bytes = b.rows * c->hidden * sizeof(float);
        memcpy(b.dh, dy, bytes);
        undo_mlp(&b);
        undo_attention(&b);
        if (dx)
            memcpy(dx, b.dh, bytes);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

size_t pare_block_backward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch)
{
    const size_t q_width = c->heads * c->head_dim, kv_width = c->kv_heads * c->head_dim;
    const size_t width = 6 * c->hidden + 4 * q_width + 6 * kv_width + 5 * c->intermediate;
    const size_t places = 24 * (size_t)PARE_ALIGN * 4;
    size_t rows, kept, scores;
    /* Keys lie in whole blocks: all rows are counted as if they did. */
    if (__builtin_add_overflow(batch.length, PARE_KV_BLOCK - 1, &rows) ||
        __builtin_mul_overflow(batch.sequences, rows / PARE_KV_BLOCK * PARE_KV_BLOCK, &rows) ||
        __builtin_mul_overflow(rows, width * sizeof(float), &kept) ||
        __builtin_mul_overflow(pare_threads(cx) * 2 * TILE_QUERIES * sizeof(float), batch.length,
                               &scores) ||
        __builtin_add_overflow(kept, scores + places, &kept) ||
        __builtin_add_overflow(kept, pare_threads(cx) * pare__attention_bytes(c, batch), &kept))
        return SIZE_MAX;
    return kept;
}
