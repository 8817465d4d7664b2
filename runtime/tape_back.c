/* The walk back. The sums of a gradient run over the rows of a batch: products of whole matrices as
 * product.h cuts them, sums of columns in the order of rows, in double. Behind a step
 * nothing reads what it made, nor the gradient of that: both are spare room for later gradients. */
#include <string.h>

#include "runtime/gram_bf16.h"
#include "runtime/hadamard.h"
#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/tape_internal.h"
#include "runtime/threads.h"

enum { COLUMNS = 64, PANEL = 1024 };

/* Room that is free again. */
struct pare_spare {
    float *at;
    size_t floats;
    struct pare_spare *next;
};

static float *take_spare(pare_tape *t, size_t floats)
{
    for (struct pare_spare **at = &t->spare; *at && !t->in_expert; at = &(*at)->next)
        if ((*at)->floats == floats) {
            float *const x = (*at)->at;
            *at = (*at)->next;
            return x;
        }
    pare_array y;
    return t->inner.op->take(&t->inner, 1, floats, &y) == PARE_OK ? y.at : NULL;
}

static pare_status give(pare_tape *t, float *at, size_t floats)
{
    if (t->in_expert)
        return PARE_OK;
    struct pare_spare *const s = pare__tape_new(t, 1, sizeof *s);
    if (!s)
        return PARE_ENOMEM;
    *s = (struct pare_spare){at, floats, t->spare};
    t->spare = s;
    return PARE_OK;
}

pare_status pare__tape_release(pare_tape *t, pare_array y)
{
    struct pare_slot *const slot = y.slot;
    const size_t floats = y.rows * y.width;
    if (slot->d && (t->dry || slot->d != y.at))
        PARE_TRY(give(t, slot->d, floats));
    slot->d = NULL;
    return give(t, y.at, floats);
}

pare_status pare__tape_d(pare_tape *t, pare_array x, float **d)
{
    struct pare_slot *const slot = x.slot;
    if (slot->wanted && !slot->d) {
        slot->d = take_spare(t, x.rows * x.width);
        if (!slot->d)
            return PARE_ENOMEM;
        if (!t->dry)
            memset(slot->d, 0, x.rows * x.width * sizeof *slot->d);
    }
    *d = slot->d;
    return PARE_OK;
}

float *pare__tape_leaf(const pare_tape *t, const void *value)
{
    for (size_t i = 0; value && i < t->wanted->leaves; i++)
        if (t->wanted->leaf[i].value == value)
            return t->wanted->leaf[i].gradient;
    return NULL;
}

/* Arguments of the loops over rows and columns. */
typedef struct row_call {
    const pare_step *s;
    const pare_kernels *kernels;
    const float *a, *b, *dy;
    float *y, *other, *t;
    size_t rows, width;
} row_call;

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
            const float *const b = r->b ? r->b + i * r->width + first : NULL;
            for (size_t j = 0; j < count; j++)
                sum[j] += b ? (double)a[j] * (double)b[j] : (double)a[j];
        }
        for (size_t j = 0; j < count; j++)
            r->y[first + j] += (float)sum[j];
    }
}

void pare__sum_columns(const pare_tape *t, const float *a, const float *b, size_t rows,
                       size_t width, float *y)
{
    row_call r = {.a = a, .b = b, .rows = rows, .width = width, .y = y};
    if (y)
        pare_parallel(t->inner.cx, (width + COLUMNS - 1) / COLUMNS, 1, sum_columns, &r);
}

static void for_rows(const pare_tape *t, pare_task *task, row_call *r, size_t work)
{
    if (!t->dry)
        pare_parallel(t->inner.cx, r->rows, pare__chunk(r->width * work), task, r);
}

static void add_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    pare_add(r->y + begin * r->width, r->dy + begin * r->width, (end - begin) * r->width);
}

/* d of x += dy. */
static pare_status pass_on(pare_tape *t, pare_array x, const float *dy)
{
    row_call r = {.rows = x.rows, .width = x.width, .dy = dy};
    PARE_TRY(pare__tape_d(t, x, &r.y));
    if (r.y)
        for_rows(t, add_rows, &r, 1);
    return PARE_OK;
}

/* dx += dy W, W a panel of rows as floats. */
static void add_product(const pare_tape *t, const pare_linear *w, size_t first, size_t rows_of_w,
                        const float *panel, const float *dy, size_t rows, float *dx)
{
    if (t->dry)
        return;
    pare_gemm_tiles(t->inner.cx, &(pare_gemm){.m = rows,
                                              .n = w->k,
                                              .k = rows_of_w,
                                              .a = dy + first,
                                              .lda = w->n,
                                              .b = panel,
                                              .ldb = w->k,
                                              .c = dx,
                                              .ldc = w->k,
                                              .alpha = 1,
                                              .beta = 1});
}

static pare_status undo_product(pare_tape *t, const pare_linear *w, const float *dy, size_t rows,
                                float *dx)
{
    if (t->bf16)
        return pare__tape_undo_bf16(t, w, dy, rows, dx);
    if (w->dtype == PARE_F32) {
        add_product(t, w, 0, w->n, w->data, dy, rows, dx);
        return PARE_OK;
    }
    const pare_ops *const o = &t->inner;
    const size_t bytes = w->k * pare_dtype_bits(w->dtype) / 8;
    pare_mark mark;
    pare_array panel;
    PARE_TRY(o->op->mark(o, &mark));
    PARE_TRY(o->op->take(o, w->n < PANEL ? w->n : PANEL, w->k, &panel));
    for (size_t first = 0; !t->dry && first < w->n; first += PANEL) {
        pare_linear part = *w;
        part.data = (const uint8_t *)w->data + first * bytes;
        part.n = w->n - first < PANEL ? w->n - first : PANEL;
        pare_linear_to_f32(o->cx, &part, panel.at);
        add_product(t, w, first, part.n, panel.at, dy, rows, dx);
    }
    return o->op->rewind(o, mark);
}

/* dw += dy^T x; nothing where it is NULL. */
static pare_status add_weights(pare_tape *t, const pare_linear *w, const float *dy, const float *x,
                               size_t rows, float *dw)
{
    const pare_ops *const o = &t->inner;
    pare_mark mark;
    pare_array side;
    if (dw && !t->bf16)
        pare_gemm_tiles(o->cx, &(pare_gemm){.m = w->n,
                                            .n = w->k,
                                            .k = rows,
                                            .a = dy,
                                            .lda = w->n,
                                            .transpose_a = true,
                                            .b = x,
                                            .ldb = w->k,
                                            .c = dw,
                                            .ldc = w->k,
                                            .alpha = 1,
                                            .beta = 1});
    if (!t->bf16 || (!dw && !t->dry))
        return PARE_OK;
    PARE_TRY(o->op->mark(o, &mark));
    PARE_TRY(o->op->take(o, w->n + w->k, PARE_GRAM_LINE / 2, &side));
    if (dw)
        pare_gram_cross_bf16(o->cx, (uint16_t *)(void *)side.at, dw, dy, w->n, x, w->k, rows);
    return o->op->rewind(o, mark);
}

static pare_status undo_linears(pare_tape *t, const pare_step *s)
{
    const size_t rows = s->x.rows;
    float *dx;
    PARE_TRY(pare__tape_d(t, s->x, &dx));
    for (size_t i = 0; i < s->count; i++) {
        const pare_linear *const w = s->w[i];
        float *const dw = pare__tape_leaf(t, w->data);
        float *dy;
        PARE_TRY(pare__tape_d(t, s->outs[i], &dy));
        if (t->wanted->see)
            t->wanted->see(t->wanted->self, w, dy, rows, w->n);
        PARE_TRY(add_weights(t, w, dy, s->x.at, rows, dw));
        pare__sum_columns(t, dy, NULL, rows, w->n, pare__tape_leaf(t, w->bias));
        if (dx)
            PARE_TRY(undo_product(t, w, dy, rows, dx));
    }
    for (size_t i = 0; i < s->count; i++)
        PARE_TRY(pare__tape_release(t, s->outs[i]));
    return PARE_OK;
}

static void undo_norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_norm_of *const n = &r->s->norm;
    for (size_t i = begin; i < end; i++)
        pare_norm_backward(n->kind, r->y ? r->y + i * r->width : NULL,
                           r->t ? r->t + i * r->width : NULL, r->dy + i * r->width,
                           r->a + i * r->width, n->w, r->width, n->eps);
}

static pare_status undo_norm(pare_tape *t, const pare_step *s)
{
    const pare_norm_of *const n = &s->norm;
    const size_t floats = s->x.rows * s->x.width;
    float *const dw = pare__tape_leaf(t, n->w), *dy;
    row_call r = {.s = s, .a = s->x.at, .rows = s->x.rows * n->pieces};
    r.width = s->x.width / n->pieces;
    PARE_TRY(pare__tape_d(t, s->x, &r.y));
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    r.dy = dy;
    if (dw || t->dry) {
        r.t = take_spare(t, floats);
        if (!r.t)
            return PARE_ENOMEM;
    }
    for_rows(t, undo_norm_rows, &r, 4);
    pare__sum_columns(t, dy, r.t, r.rows, r.width, dw);
    pare__sum_columns(t, dy, NULL, r.rows, r.width, pare__tape_leaf(t, n->bias));
    if (r.t)
        PARE_TRY(give(t, r.t, floats));
    return pare__tape_release(t, s->y);
}

static void undo_activation_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t first = begin * r->width, count = (end - begin) * r->width;
    pare_activate_backward(r->kernels, r->s->act, r->y + first, r->other ? r->other + first : NULL,
                           r->dy + first, r->a + first, r->b ? r->b + first : NULL, count);
}

static pare_status undo_activation(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s,
                  .kernels = &t->inner.cx->kernels,
                  .a = s->x.at,
                  .b = s->other.at,
                  .rows = s->x.rows,
                  .width = s->x.width};
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pare__tape_d(t, s->x, &r.y));
    if (s->other.at)
        PARE_TRY(pare__tape_d(t, s->other, &r.other));
    r.dy = dy;
    for_rows(t, undo_activation_rows, &r, 24);
    return pare__tape_release(t, s->y);
}

static pare_status undo_add(pare_tape *t, const pare_step *s)
{
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pass_on(t, s->x, dy));
    PARE_TRY(pass_on(t, s->other, dy));
    return pare__tape_release(t, s->y);
}

static pare_status undo_turn(pare_tape *t, const pare_step *s)
{
    pare_hadamard h;
    float *d;
    PARE_TRY(pare__tape_d(t, s->x, &d));
    PARE_TRY(pare_hadamard_make(t->inner.cx, s->x.width, &h));
    if (!t->dry)
        pare_hadamard_invert(t->inner.cx, &h, d, s->x.width, s->x.rows);
    return PARE_OK;
}

/* Pieces of x may go to many places: they run one after the other. */
static void undo_piece_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_pieces *const p = &r->s->pieces;
    for (size_t i = begin; i < end; i++)
        for (size_t piece = 0; piece < p->count; piece++) {
            float *const dx = r->y + i * r->s->x.width + p->from + piece * p->from_step;
            const float *const dy = r->dy + i * r->s->y.width + p->to + piece * p->to_step;
            for (size_t j = 0; j < p->width; j++)
                dx[j] += dy[j];
        }
}

/* Other steps may have filled the rest of y, which is not released here. */
static pare_status undo_pieces(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s, .rows = s->x.rows, .width = s->y.width};
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pare__tape_d(t, s->x, &r.y));
    r.dy = dy;
    if (r.y)
        for_rows(t, undo_piece_rows, &r, 2);
    return PARE_OK;
}

static void undo_cap_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin * r->width; i < end * r->width; i++) {
        const double z = (double)r->a[i] / r->s->cap;
        r->y[i] = (float)((double)r->y[i] * (1.0 - z * z));
    }
}

static pare_status undo_cap(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s, .a = s->x.at, .rows = s->x.rows, .width = s->x.width};
    PARE_TRY(pare__tape_d(t, s->x, &r.y));
    for_rows(t, undo_cap_rows, &r, 4);
    return PARE_OK;
}

/* Column by column, each in the order of rows, which may repeat. */
static void undo_rows_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = 0; i < r->rows; i++) {
        const size_t to = r->s->row ? r->s->row[i] : i;
        for (size_t j = begin; j < end; j++)
            r->y[to * r->width + j] += r->dy[i * r->width + j];
    }
}

static pare_status undo_rows(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s, .rows = s->y.rows, .width = s->y.width};
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pare__tape_d(t, s->x, &r.y));
    r.dy = dy;
    if (r.y && !t->dry)
        pare_parallel(t->inner.cx, r.width, COLUMNS, undo_rows_columns, &r);
    return pare__tape_release(t, s->y);
}

/* Likewise: rows of the embedding repeat, positions do in every sequence. */
static void undo_embed_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_config *const c = &r->s->model->config;
    const float scale = c->embed_scale > 0 ? (float)c->embed_scale : 1;
    for (size_t i = 0; i < r->rows; i++) {
        const size_t at = r->s->batch.start + i % r->s->batch.length + c->arch->position_offset;
        for (size_t j = begin; j < end; j++) {
            const float d = r->dy[i * r->width + j];
            if (r->y)
                r->y[(size_t)r->s->tokens[i] * r->width + j] += scale * d;
            if (r->other)
                r->other[at * r->width + j] += d;
        }
    }
}

static pare_status undo_embed(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s, .rows = s->y.rows, .width = s->y.width};
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    r.dy = dy;
    r.y = pare__tape_leaf(t, s->model->embed.data);
    r.other = pare__tape_leaf(t, s->model->positions.data);
    pare_parallel(t->inner.cx, r.width, COLUMNS, undo_embed_columns, &r);
    return pare__tape_release(t, s->y);
}

static pare_status undo_attend(pare_tape *t, const pare_step *s)
{
    PARE_TRY(pare__tape_attend(t, s));
    return pare__tape_release(t, s->y);
}

/* Experts have rows of their own number, whose room fits no other: what the gradients of one took
 * is free behind the first of its gathers. What any of its gathers adds to outside is there
 * before. */
static pare_status enter_expert(pare_tape *t, const pare_step *scatter)
{
    const pare_step *first = NULL;
    float *d;
    for (const pare_step *s = scatter; s && s != scatter->route; s = s->before)
        if (s->op == PARE__OP_gather && s->route == scatter->route &&
            s->expert == scatter->expert) {
            PARE_TRY(pare__tape_d(t, s->x, &d));
            first = s;
        }
    if (!first)
        return PARE_OK;
    t->in_expert = first;
    return t->inner.op->mark(&t->inner, &t->expert);
}

static pare_status undo_scatter(pare_tape *t, const pare_step *s)
{
    PARE_TRY(enter_expert(t, s));
    return pare__tape_scatter(t, s);
}

static pare_status undo_gather(pare_tape *t, const pare_step *s)
{
    PARE_TRY(pare__tape_gather(t, s));
    if (s != t->in_expert)
        return PARE_OK;
    t->in_expert = NULL;
    return t->inner.op->rewind(&t->inner, t->expert);
}

static pare_status undo(pare_tape *t, const pare_step *s)
{
    switch (s->op) {
    case PARE__OP_embed: return undo_embed(t, s);
    case PARE__OP_norm: return undo_norm(t, s);
    case PARE__OP_linears: return undo_linears(t, s);
    case PARE__OP_attend: return undo_attend(t, s);
    case PARE__OP_recur: return pare__tape_recur(t, s);
    case PARE__OP_activate: return undo_activation(t, s);
    case PARE__OP_add: return undo_add(t, s);
    case PARE__OP_turn: return undo_turn(t, s);
    case PARE__OP_pieces: return undo_pieces(t, s);
    case PARE__OP_rows: return undo_rows(t, s);
    case PARE__OP_cap: return undo_cap(t, s);
    case PARE__OP_route: return pare__tape_route(t, s);
    case PARE__OP_gather: return undo_gather(t, s);
    case PARE__OP_scatter: return undo_scatter(t, s);
    case PARE__OP_share: return pare__tape_share(t, s);
    case PARE__OP_round: /* passes as it is, and is not recorded */
    case PARE__OP_mark:
    case PARE__OP_rewind:
    case PARE__OP_kv_take:
    case PARE__OP_kv_copy:
    case PARE__OP_score:
    case PARE__OP_take:
    case PARE__OP_put:
    case PARE__OP_get:
    case PARE__OP_zero: break;
    }
    return PARE_OK;
}

pare_status pare_tape_back(pare_tape *t, pare_array y, const float *dy,
                           const pare_gradients *wanted)
{
    float *d = y.at;
    t->wanted = wanted;
    if (dy == y.at)
        y.slot->d = y.at;
    else
        PARE_TRY(pare__tape_d(t, y, &d));
    if (dy != d && !t->dry)
        memcpy(d, dy, y.rows * y.width * sizeof *d);
    for (const pare_step *s = t->last; s; s = s->before)
        PARE_TRY(undo(t, s));
    return PARE_OK;
}

const float *pare_tape_gradient(pare_array input)
{
    return input.slot->d;
}
