/* Recording. What an operation reads and writes stays where it is: block code writes over nothing
 * that is read again (pare__reuse), so a record is a list of arrays. */
#include "runtime/tape.h"

#include <stddef.h>
#include <string.h>

#include "runtime/count.h"
#include "runtime/tape_internal.h"

static pare_tape *tape_of(const pare_ops *o)
{
    return o->backend.self;
}

/* In the arena. */
static void *take_zeroed(pare_tape *t, size_t count, size_t size)
{
    if (t->dry)
        pare__count_add(&t->inner, count, size);
    return pare_arena_take(t->inner.scratch, count, size);
}

/* Small things share slabs, so that they leave no holes between large ones. */
void *pare__tape_new(pare_tape *t, size_t count, size_t size)
{
    enum { SLAB = 8000 };
    if (count > SLAB / size)
        return take_zeroed(t, count, size);
    const size_t bytes =
        (count * size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (bytes > t->slab_left) {
        t->slab = take_zeroed(t, 1, SLAB);
        t->slab_left = t->slab ? SLAB : 0;
    }
    if (!t->slab)
        return NULL;
    void *const at = t->slab + (SLAB - t->slab_left);
    t->slab_left -= bytes;
    return at;
}

static pare_status record(pare_tape *t, const pare_step *what)
{
    pare_step *const s = pare__tape_new(t, 1, sizeof *s);
    if (!s)
        return PARE_ENOMEM;
    *s = *what;
    s->before = t->last;
    t->last = s;
    return PARE_OK;
}

static pare_status new_slot(pare_tape *t, bool wanted, pare_array *y)
{
    y->slot = pare__tape_new(t, 1, sizeof *y->slot);
    if (!y->slot)
        return PARE_ENOMEM;
    *y->slot = (struct pare_slot){.of = *y, .wanted = wanted};
    return PARE_OK;
}

/* Values stay. */
static pare_status tape_mark(const pare_ops *o, pare_mark *m)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->mark(inner, m);
}

static pare_status tape_rewind(const pare_ops *o, pare_mark m)
{
    (void)o, (void)m;
    return PARE_OK;
}

static pare_status tape_take(const pare_ops *o, size_t rows, size_t width, pare_array *y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(t->inner.op->take(&t->inner, rows, width, y));
    return new_slot(t, true, y);
}

static pare_status tape_put(const pare_ops *o, const float *x, pare_array y)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->put(inner, x, y);
}

static pare_status tape_get(const pare_ops *o, pare_array x, float *y)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->get(inner, x, y);
}

static pare_status tape_kv_take(const pare_ops *o, const pare_config *c, const pare_kv_format *f,
                                size_t sequences, size_t capacity, pare_kv *kv)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->kv_take(inner, c, f, sequences, capacity, kv);
}

static pare_status tape_kv_copy(const pare_ops *o, const pare_config *c, const pare_kv *from,
                                size_t f, pare_kv *to, size_t t)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->kv_copy(inner, c, from, f, to, t);
}

static pare_status tape_zero(const pare_ops *o, pare_array y)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->zero(inner, y);
}

static pare_status tape_embed(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                              pare_batch batch, pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(
        t,
        &(pare_step){.op = PARE__OP_embed, .model = m, .tokens = tokens, .batch = batch, .y = y}));
    return t->inner.op->embed(&t->inner, m, tokens, batch, y);
}

static pare_status tape_norm(const pare_ops *o, const pare_norm_of *n, pare_array x, pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_norm, .norm = *n, .x = x, .y = y}));
    return t->inner.op->norm(&t->inner, n, x, y);
}

static pare_status tape_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                                bool exact, pare_array x, const pare_array *y)
{
    pare_tape *const t = tape_of(o);
    pare_step s = {.op = PARE__OP_linears, .count = count, .x = x};
    for (size_t i = 0; i < count; i++) {
        if (w[i]->bits)
            return pare_fail(t->inner.cx, PARE_ENOTSUP, "%s: a gradient needs dense weights",
                             w[i]->name);
        s.w[i] = w[i];
        s.outs[i] = y[i];
    }
    PARE_TRY(record(t, &s));
    return t->unread ? PARE_OK : t->inner.op->linears(&t->inner, w, count, exact, x, y);
}

static pare_status tape_attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                               pare_array v, pare_array y)
{
    pare_tape *const t = tape_of(o);
    if (a->kv->format.method != PARE_KV_FLOAT || a->batch.start > 0)
        return pare_fail(t->inner.cx, PARE_ENOTSUP,
                         "a gradient needs an F32 cache that begins with the batch");
    PARE_TRY(record(
        t,
        &(pare_step){.op = PARE__OP_attend, .attend = *a, .x = q, .other = k, .third = v, .y = y}));
    return t->inner.op->attend(&t->inner, a, q, k, v, y);
}

static pare_status tape_recur(const pare_ops *o, const pare_recur *r, const pare_array *x,
                              pare_array y)
{
    pare_tape *const t = tape_of(o);
    if (r->batch.start > 0)
        return pare_fail(t->inner.cx, PARE_ENOTSUP,
                         "a gradient needs a recurrent state that begins with the batch");
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_recur,
                                    .recur = *r,
                                    .x = x[0],
                                    .other = x[1],
                                    .third = x[2],
                                    .outs = {x[3]},
                                    .y = y}));
    return t->inner.op->recur(&t->inner, r, x, y);
}

static pare_status tape_activate(const pare_ops *o, pare_act act, pare_array gate, pare_array up,
                                 pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(
        t, &(pare_step){.op = PARE__OP_activate, .act = act, .x = gate, .other = up, .y = y}));
    return t->inner.op->activate(&t->inner, act, gate, up, y);
}

static pare_status tape_add(const pare_ops *o, pare_array a, pare_array b, pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_add, .x = a, .other = b, .y = y}));
    return t->unread ? PARE_OK : t->inner.op->add(&t->inner, a, b, y);
}

static pare_status tape_pieces(const pare_ops *o, const pare_pieces *p, pare_array x, pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_pieces, .pieces = *p, .x = x, .y = y}));
    return t->inner.op->pieces(&t->inner, p, x, y);
}

static pare_status tape_turn(const pare_ops *o, pare_array x)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_turn, .x = x}));
    return t->inner.op->turn(&t->inner, x);
}

static pare_status tape_round(const pare_ops *o, pare_array x)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->round(inner, x);
}

/* A dry run sends all rows to as few experts as it can. In a real one more of them have rows, and
 * steps and arrays of their own: gather, linears, activate, linears, scatter; and, inward, gather,
 * pieces and share of the logits. */
static void count_experts(pare_tape *t, const pare_routes *r)
{
    const size_t steps = r->router.inward ? 8 : 5, arrays = steps - 1;
    const size_t most = r->used * r->rows < r->experts ? r->used * r->rows : r->experts;
    const size_t each = sizeof(pare_step) + sizeof(struct pare_slot) + arrays * PARE_ALIGN;
    if (most > r->used)
        pare__count_add(&t->inner, steps * (most - r->used), each);
}

/* The operation writes over its logits, so it gets a copy. */
static pare_status tape_route(const pare_ops *o, pare_array logit, const pare_router *how,
                              pare_routes *r)
{
    pare_tape *const t = tape_of(o);
    const pare_ops *const inner = &t->inner;
    pare_step s = {.op = PARE__OP_route, .x = logit};
    pare_array copy;
    PARE_TRY(inner->op->take(inner, logit.rows, logit.width, &copy));
    PARE_TRY(inner->op->rows(inner, NULL, logit, copy));
    PARE_TRY(inner->op->route(inner, copy, how, r));
    s.routes = *r;
    s.dweight = pare__tape_new(t, logit.rows * how->used, sizeof *s.dweight);
    if (!s.dweight)
        return PARE_ENOMEM;
    if (t->dry)
        count_experts(t, r);
    return record(t, &s);
}

/* The step that made r. */
static const pare_step *route_of(const pare_step *s, const pare_routes *r)
{
    while (s && !(s->op == PARE__OP_route && s->routes.visit == r->visit))
        s = s->before;
    return s;
}

static pare_status tape_gather(const pare_ops *o, const pare_routes *r, size_t expert, pare_array x,
                               pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_gather,
                                    .route = route_of(t->last, r),
                                    .expert = expert,
                                    .x = x,
                                    .y = y}));
    return t->inner.op->gather(&t->inner, r, expert, x, y);
}

static pare_status tape_scatter(const pare_ops *o, const pare_routes *r, size_t expert,
                                pare_array x, pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_scatter,
                                    .route = route_of(t->last, r),
                                    .expert = expert,
                                    .x = x,
                                    .y = y}));
    return t->inner.op->scatter(&t->inner, r, expert, x, y);
}

static pare_status tape_share(const pare_ops *o, pare_array gate, pare_array x, pare_array y)
{
    pare_tape *const t = tape_of(o);
    const pare_ops *const inner = &t->inner;
    pare_array from = x;
    if (x.slot == y.slot) { /* written over: the way back reads a copy */
        PARE_TRY(inner->op->take(inner, x.rows, x.width, &from));
        PARE_TRY(inner->op->rows(inner, NULL, x, from));
        from.slot = x.slot;
    }
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_share, .other = gate, .x = from, .y = y}));
    return inner->op->share(inner, gate, x, y);
}

static pare_status tape_rows(const pare_ops *o, const size_t *row, pare_array x, pare_array y)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_rows, .row = row, .x = x, .y = y}));
    return t->inner.op->rows(&t->inner, row, x, y);
}

static pare_status tape_cap(const pare_ops *o, double cap, pare_array x)
{
    pare_tape *const t = tape_of(o);
    PARE_TRY(record(t, &(pare_step){.op = PARE__OP_cap, .cap = cap, .x = x}));
    return t->inner.op->cap(&t->inner, cap, x);
}

static pare_status tape_score(const pare_ops *o, pare_array logit, pare_array base,
                              const int32_t *target, pare_score *out)
{
    const pare_ops *const inner = &tape_of(o)->inner;
    return inner->op->score(inner, logit, base, target, out);
}

#define PARE__ENTRY(name, parameters) .name = tape_##name,
static const pare_block_table tape_table = {PARE_BLOCK_OPS(PARE__ENTRY)};
#undef PARE__ENTRY

static void begin(const pare_backend *inner, pare_ctx *cx, pare_arena *a, pare_tape *t)
{
    *t = (pare_tape){
        .backend = {.op = &tape_table, .keeps = true, .self = t},
        .inner = {.op = inner->op, .backend = *inner, .cx = cx, .scratch = a},
        .start = pare_arena_mark(a),
    };
}

void pare_tape_begin(pare_ctx *cx, pare_arena *a, const pare_backend *over, pare_tape *t)
{
    begin(over ? over : &pare_cpu, cx, a, t);
    t->bf16 = over == &pare_cpu_bf16;
}

void pare_tape_end(pare_tape *t)
{
    pare_arena_rewind(t->inner.scratch, t->start);
    t->last = NULL;
    t->spare = NULL;
    t->slab = NULL;
    t->slab_left = 0;
}

pare_ops pare_tape_ops(pare_tape *t)
{
    return (pare_ops){
        .op = t->backend.op, .backend = t->backend, .cx = t->inner.cx, .scratch = t->inner.scratch};
}

pare_status pare_tape_input(pare_tape *t, const float *x, size_t rows, size_t width, bool gradient,
                            pare_array *out)
{
    *out = (pare_array){.at = (float *)(uintptr_t)x, .rows = rows, .width = width};
    return new_slot(t, gradient, out);
}

pare_status pare_tape_block(pare_tape *t, const pare_forward *f, const pare_block *weights,
                            pare_batch batch, pare_array x, const pare_tap *tap, pare_array *y)
{
    const pare_ops o = pare_tape_ops(t);
    const pare_config *const c = &f->model->config;
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    pare_kv *const kv = pare__tape_new(t, 1, sizeof *kv);
    pare_forward *const own = pare__tape_new(t, 1, sizeof *own);
    if (!kv || !own)
        return PARE_ENOMEM;
    *own = *f;
    own->backend = &t->backend;
    PARE_TRY(o.op->kv_take(&o, c, &floats, batch.sequences, batch.length, kv));
    return pare_block_run(&o, own, weights, batch, x, kv, tap, y);
}

/* Behind the last input of a linear nothing reads what the block makes, unless a norm stands there
 * or experts add to it. */
static pare_status see_last(void *tape, size_t part, pare_site site, const float *x, size_t rows,
                            size_t k)
{
    (void)part, (void)x, (void)rows, (void)k;
    ((pare_tape *)tape)->unread = site == PARE_SITE_ACTIVATED;
    return PARE_OK;
}

pare_status pare_tape_block_for_gradients(pare_tape *t, const pare_forward *f,
                                          const pare_block *weights, pare_batch batch, pare_array x,
                                          pare_array *y)
{
    const pare_config *const c = &f->model->config;
    const pare_tap tap = {.see = see_last, .self = t, .last = PARE_SITES, .parts = 1};
    const bool read = c->experts || c->arch->inner_norm[PARE_NORM_AFTER_MLP];
    const pare_status s = pare_tape_block(t, f, weights, batch, x, read ? NULL : &tap, y);
    t->unread = false;
    return s;
}

/* A block without weights goes there and back. *held: at least what it keeps between. */
static pare_status dry_run(pare_count *n, pare_batch batch, bool bf16, size_t *held)
{
    const size_t rows = batch.sequences * batch.length;
    const pare_gradients none = {0};
    pare_tape t;
    pare_array x, y;
    begin(&n->backend, &n->cx, &n->arena, &t);
    t.bf16 = bf16;
    t.dry = true;
    PARE_TRY(pare_tape_input(&t, n->anywhere, rows, n->model.config.hidden, true, &x));
    PARE_TRY(pare_tape_block(&t, &n->forward, &n->block, batch, x, NULL, &y));
    *held = n->used > *held ? n->used : *held;
    return pare_tape_back(&t, y, NULL, &none);
}

static size_t count_block(const pare_ctx *cx, const pare_config *c, pare_batch batch, bool bf16,
                          size_t *held)
{
    pare_count n;
    *held = 0;
    pare_status s = pare_count_begin(cx, c, batch, bf16 ? PARE_INPUTS_BF16 : PARE_INPUTS_NONE, &n);
    if (s == PARE_OK)
        s = dry_run(&n, batch, bf16, held);
    if (s == PARE_OK && pare__count_recurrent(&n))
        s = dry_run(&n, batch, bf16, held);
    return pare_count_end(&n, s);
}

size_t pare_tape_block_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch, bool bf16)
{
    size_t held;
    return count_block(cx, c, batch, bf16, &held);
}

size_t pare_tape_held_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch, bool bf16)
{
    size_t held;
    return count_block(cx, c, batch, bf16, &held) < SIZE_MAX ? held : SIZE_MAX;
}
