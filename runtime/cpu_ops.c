/* The block operations on the CPU: loops over rows in chunks that depend on shapes only, and the
 * products and attention of this folder. */
#include <string.h>

#include "runtime/block_ops.h"
#include "runtime/hadamard.h"
#include "runtime/kv_internal.h"
#include "runtime/linear.h"
#include "runtime/linear_internal.h"
#include "runtime/recur.h"
#include "runtime/threads.h"

/* Arguments of the loops over rows. */
typedef struct row_call {
    const pare_ops *o;
    const pare_norm_of *norm;
    const pare_attend *attend;
    const pare_pieces *pieces;
    const pare_routes *routes;
    const pare_visit *visit; /* of an expert */
    const int32_t *target;
    pare_score *score;
    pare_act act;
    pare_array x, up, k, v, y;
    double cap;
} row_call;

static void for_rows(const pare_ops *o, pare_task *task, row_call *r, size_t work)
{
    pare_parallel(o->cx, r->y.rows, pare__chunk(r->y.width * work), task, r);
}

static pare_status cpu_mark(const pare_ops *o, pare_mark *m)
{
    *m = pare_arena_mark(o->scratch);
    return PARE_OK;
}

static pare_status cpu_rewind(const pare_ops *o, pare_mark m)
{
    pare_arena_rewind(o->scratch, m);
    return PARE_OK;
}

static pare_status cpu_take(const pare_ops *o, size_t rows, size_t width, pare_array *y)
{
    *y = (pare_array){.rows = rows, .width = width};
    y->at = pare_arena_take_raw(o->scratch, rows, width * sizeof(float));
    return y->at ? PARE_OK : PARE_ENOMEM;
}

static pare_status cpu_put(const pare_ops *o, const float *x, pare_array y)
{
    (void)o;
    memcpy(y.at, x, y.rows * y.width * sizeof *y.at);
    return PARE_OK;
}

static pare_status cpu_get(const pare_ops *o, pare_array x, float *y)
{
    (void)o;
    memcpy(y, x.at, x.rows * x.width * sizeof *y);
    return PARE_OK;
}

static pare_status cpu_zero(const pare_ops *o, pare_array y)
{
    (void)o;
    memset(y.at, 0, y.rows * y.width * sizeof *y.at);
    return PARE_OK;
}

static pare_status cpu_kv_take(const pare_ops *o, const pare_config *c, const pare_kv_format *f,
                               size_t sequences, size_t capacity, pare_kv *kv)
{
    return pare_kv_take_format(o->scratch, c, f, sequences, capacity, kv);
}

static pare_status cpu_kv_copy(const pare_ops *o, const pare_config *c, const pare_kv *from,
                               size_t f, pare_kv *to, size_t t)
{
    (void)o;
    pare_kv_copy(c, from, f, to, t);
    return PARE_OK;
}

/* x [hidden] += the learned position `position`. */
static void add_position(const pare_ctx *cx, const pare_model *m, size_t position, float *x)
{
    enum { PART = 256 };
    float part[PART];
    const size_t hidden = m->positions.k;
    const size_t first = (position + m->config.arch->position_offset) * hidden;
    for (size_t i = 0; i < hidden; i += PART) {
        const size_t count = hidden - i < PART ? hidden - i : PART;
        pare__dense_f32(&cx->kernels, &m->positions, first + i, count, part);
        pare_add(x + i, part, count);
    }
}

static pare_status cpu_embed(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                             pare_batch batch, pare_array y)
{
    const float scale = (float)m->config.embed_scale;
    for (size_t i = 0; i < y.rows; i++) {
        float *const row = y.at + i * y.width;
        pare_linear_row(o->cx, &m->embed, (size_t)tokens[i], row);
        for (size_t j = 0; scale > 0 && j < y.width; j++)
            row[j] *= scale;
        if (m->positions.data)
            add_position(o->cx, m, batch.start + i % batch.length, row);
    }
    return PARE_OK;
}

static void norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_norm_of *const n = r->norm;
    const size_t width = r->y.width / n->pieces;
    for (size_t i = begin * n->pieces; i < end * n->pieces; i++) {
        float *const y = r->y.at + i * width;
        if (n->kind == PARE_NORM_LAYER)
            pare_layer_norm(y, r->x.at + i * width, n->w, width, n->eps);
        else
            pare_rms_norm(y, r->x.at + i * width, n->w, width, n->eps);
        if (n->bias)
            pare_add(y, n->bias, width);
    }
}

static pare_status cpu_norm(const pare_ops *o, const pare_norm_of *n, pare_array x, pare_array y)
{
    row_call r = {.norm = n, .x = x, .y = y};
    for_rows(o, norm_rows, &r, 2);
    return PARE_OK;
}

static pare_status cpu_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                               bool exact, pare_array x, const pare_array *y)
{
    pare__product product[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++)
        product[i] = (pare__product){w[i], y[i].at, w[i]->n};
    return pare__linear_apply_all(o->cx, o->scratch, product, count, exact, x.at, w[0]->k, x.rows);
}

static pare_status bf16_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                                bool exact, pare_array x, const pare_array *y)
{
    (void)exact;
    pare__product product[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++)
        product[i] = (pare__product){w[i], y[i].at, w[i]->n};
    return pare__linear_apply_bf16(o->cx, o->scratch, product, count, x.at, w[0]->k, x.rows);
}

/* Rotates q and k by their positions and stores k and v in an F32 cache. For a coded one they are
 * only rounded; k may have to stay as it is. */
static void rotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_attend *const a = r->attend;
    const pare_config *const c = &a->f->model->config;
    const size_t d = c->head_dim, half = pare_rope_pairs(c), width = r->k.width;
    const bool coded = a->kv->format.method != PARE_KV_FLOAT, beside = c->turns_neighbours;
    const size_t rotated = pare__kv_before_rope(&a->kv->format) ? 0 : c->kv_heads;
    const size_t table = pare_rope_table(a->f, a->apart, a->kv->capacity);
    for (size_t i = begin; i < end; i++) {
        const size_t position = a->batch.start + i % a->batch.length, at = table + position * half;
        const float *const cosine = half ? a->f->rope_cos + at : NULL;
        const float *const sine = half ? a->f->rope_sin + at : NULL;
        float *const k = r->k.at + i * width, *const v = r->v.at + i * width;
        const float scale = pare_config_temperature(c, a->apart, position);
        for (size_t j = 0; scale != 1 && j < c->heads * d; j++)
            r->y.at[i * c->heads * d + j] *= scale;
        for (size_t h = 0; h < c->heads; h++)
            pare_rope_apply(r->y.at + (i * c->heads + h) * d, cosine, sine, half, beside);
        for (size_t h = 0; h < rotated; h++)
            pare_rope_apply(k + h * d, cosine, sine, half, beside);
        if (coded) {
            pare__kv_round(&r->o->cx->kernels, k, width);
            pare__kv_round(&r->o->cx->kernels, v, width);
        } else {
            pare__kv_put(c, a->kv, i / a->batch.length, position, k, v);
        }
    }
}

static pare_status cpu_attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                              pare_array v, pare_array y)
{
    row_call r = {.o = o, .attend = a, .k = k, .v = v, .y = q};
    const pare__kv_batch b = {.cx = o->cx,
                              .f = a->f,
                              .levels = a->levels,
                              .batch = a->batch,
                              .kv = a->kv,
                              .k = k.at,
                              .v = v.at,
                              .window = a->window,
                              .sinks = a->sinks,
                              .apart = a->apart};
    for_rows(o, rotate_rows, &r, 4);
    if (a->kv->format.method == PARE_KV_FLOAT)
        return pare__attention(o->scratch, &b, q.at, y.at);
    PARE_TRY(pare__kv_store(o->scratch, &b));
    PARE_TRY(pare__attention(o->scratch, &b, q.at, y.at));
    pare__kv_keep(&b);
    return PARE_OK;
}

static pare_status cpu_recur(const pare_ops *o, const pare_recur *r, const pare_array *x,
                             pare_array y)
{
    return pare__recur(o->cx, r, x, y.at);
}

static void activate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t first = begin * r->y.width, count = (end - begin) * r->y.width;
    float *const y = r->y.at + first;
    const float *const up = r->up.at ? r->up.at + first : NULL;
    if (r->x.at != r->y.at)
        memcpy(y, r->x.at + first, count * sizeof *y);
    if (up && r->act == PARE_ACT_SILU)
        r->o->cx->kernels.silu_f32(y, up, count);
    else
        pare_activate(r->act, y, up, count);
}

static pare_status cpu_activate(const pare_ops *o, pare_act act, pare_array gate, pare_array up,
                                pare_array y)
{
    row_call r = {.o = o, .act = act, .x = gate, .up = up, .y = y};
    for_rows(o, activate_rows, &r, 16);
    return PARE_OK;
}

static void add_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t first = begin * r->y.width, count = (end - begin) * r->y.width;
    if (r->y.at != r->up.at)
        memcpy(r->y.at + first, r->up.at + first, count * sizeof *r->y.at);
    pare_add(r->y.at + first, r->x.at + first, count);
}

static pare_status cpu_add(const pare_ops *o, pare_array a, pare_array b, pare_array y)
{
    row_call r = {.x = a, .up = b, .y = y};
    for_rows(o, add_rows, &r, 1);
    return PARE_OK;
}

static void piece_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_pieces *const p = r->pieces;
    for (size_t i = begin; i < end; i++)
        for (size_t piece = 0; piece < p->count; piece++) {
            const float *const x = r->x.at + i * r->x.width + p->from + piece * p->from_step;
            float *const y = r->y.at + i * r->y.width + p->to + piece * p->to_step;
            memcpy(y, x, p->width * sizeof *y);
        }
}

static pare_status cpu_pieces(const pare_ops *o, const pare_pieces *p, pare_array x, pare_array y)
{
    row_call r = {.pieces = p, .x = x, .y = y};
    for_rows(o, piece_rows, &r, 1);
    return PARE_OK;
}

static pare_status cpu_turn(const pare_ops *o, pare_array x)
{
    pare_hadamard h;
    PARE_TRY(pare_hadamard_make(o->cx, x.width, &h));
    pare_hadamard_apply(o->cx, &h, x.at, x.width, x.rows);
    return PARE_OK;
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++)
        pare_round_token(r->y.at + i * r->y.width, r->y.width);
}

static pare_status cpu_round(const pare_ops *o, pare_array x)
{
    row_call r = {.y = x};
    for_rows(o, round_rows, &r, 4);
    return PARE_OK;
}

static void route_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_routes *const to = r->routes;
    for (size_t t = begin; t < end; t++)
        pare__route(r->y.at + t * to->experts, to->experts, &to->router, to->picked + t * to->used,
                    to->weight + t * to->used);
}

static pare_status cpu_route(const pare_ops *o, pare_array logit, const pare_router *how,
                             pare_routes *r)
{
    PARE_TRY(pare__routes_take(o, logit, how, r));
    row_call call = {.routes = r, .y = logit};
    for_rows(o, route_rows, &call, 16);
    pare__routes_sort(r);
    return PARE_OK;
}

static void gather_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t width = r->y.width;
    for (size_t i = begin; i < end; i++)
        memcpy(r->y.at + i * width, r->x.at + r->visit[i].row * width, width * sizeof *r->y.at);
}

static pare_status cpu_gather(const pare_ops *o, const pare_routes *to, size_t expert, pare_array x,
                              pare_array y)
{
    row_call r = {.visit = to->visit + to->start[expert], .x = x, .y = y};
    for_rows(o, gather_rows, &r, 1);
    return PARE_OK;
}

/* y[row] = fma(weight, x, y[row]); rows of an expert differ. */
static void scatter_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t width = r->y.width;
    for (size_t i = begin; i < end; i++)
        r->o->cx->kernels.kv_mix(r->up.at + r->visit[i].row * width, width, &r->visit[i].weight, 1,
                                 r->y.at + i * width, width, 1, 1, width);
}

static pare_status cpu_scatter(const pare_ops *o, const pare_routes *to, size_t expert,
                               pare_array x, pare_array y)
{
    row_call r = {.o = o, .visit = to->visit + to->start[expert], .up = y, .y = x};
    for_rows(o, scatter_rows, &r, 1);
    return PARE_OK;
}

static void share_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t width = r->y.width / r->up.width; /* channels of a gate */
    for (size_t t = begin * r->up.width; t < end * r->up.width; t++) {
        const float share = (float)(1.0 / (1.0 + pare_exp(-(double)r->up.at[t])));
        for (size_t j = t * width; j < (t + 1) * width; j++)
            r->y.at[j] = r->x.at[j] * share;
    }
}

static pare_status cpu_share(const pare_ops *o, pare_array gate, pare_array x, pare_array y)
{
    row_call r = {.up = gate, .x = x, .y = y};
    for_rows(o, share_rows, &r, 1);
    return PARE_OK;
}

static pare_status cpu_rows(const pare_ops *o, const size_t *row, pare_array x, pare_array y)
{
    (void)o;
    for (size_t i = 0; i < y.rows; i++)
        memcpy(y.at + i * y.width, x.at + (row ? row[i] : i) * y.width, y.width * sizeof *y.at);
    return PARE_OK;
}

static void cap_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    pare_soft_cap(r->y.at + begin * r->y.width, (end - begin) * r->y.width, 1, r->cap);
}

static pare_status cpu_cap(const pare_ops *o, double cap, pare_array x)
{
    row_call r = {.cap = cap, .y = x};
    for_rows(o, cap_rows, &r, 16);
    return PARE_OK;
}

static void score_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t width = r->x.width;
    for (size_t i = begin; i < end; i++) {
        const float *const x = r->x.at + i * width;
        r->score[i] =
            (pare_score){.nll = pare_logsumexp(&r->o->cx->kernels, x, width) -
                                (double)x[r->target ? r->target[i] : 0],
                         .kl = r->y.at ? pare_divergence(r->y.at + i * width, x, width) : 0,
                         .best = pare_argmax(x, width)};
    }
}

static pare_status cpu_score(const pare_ops *o, pare_array logit, pare_array base,
                             const int32_t *target, pare_score *out)
{
    row_call r = {.o = o, .target = target, .score = out, .x = logit, .y = base};
    pare_parallel(o->cx, logit.rows, 1, score_rows, &r);
    return PARE_OK;
}

#define PARE__ENTRY(name, parameters) .name = cpu_##name,
static const pare_block_table cpu_table = {PARE_BLOCK_OPS(PARE__ENTRY)};
#define cpu_linears bf16_linears
static const pare_block_table bf16_table = {PARE_BLOCK_OPS(PARE__ENTRY)};
#undef cpu_linears
#undef PARE__ENTRY

const pare_backend pare_cpu = {.op = &cpu_table};
const pare_backend pare_cpu_bf16 = {.op = &bf16_table};

pare_ops pare_ops_of(pare_ctx *cx, pare_arena *scratch, const pare_forward *f)
{
    const pare_backend *const b = f->backend ? f->backend : &pare_cpu;
    return (pare_ops){.op = b->op, .backend = *b, .cx = cx, .scratch = scratch};
}
