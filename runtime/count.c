#include "runtime/count.h"

#include <math.h>

#include "kernels/layout.h"
#include "runtime/kv_internal.h"
#include "runtime/linear_internal.h"
#include "runtime/small.h"
#include "runtime/threads.h"

/* Operations that take no scratch, and whose arithmetic is small beside that of products. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define PARE__NOTHING(name, parameters)                                                            \
    static pare_status nothing_##name parameters                                                   \
    {                                                                                              \
        return PARE_OK;                                                                            \
    }
PARE_BLOCK_OPS(PARE__NOTHING)
#undef PARE__NOTHING
#pragma GCC diagnostic pop

static pare_count *count_of(const pare_ops *o)
{
    return o->backend.self;
}

/* Stays at SIZE_MAX once it would overflow. */
static size_t with(size_t total, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)4 * PARE_ALIGN, &bytes) ||
        __builtin_add_overflow(total, bytes, &total))
        return SIZE_MAX;
    return total;
}

static void reach(pare_count *n, size_t bytes)
{
    n->peak = bytes > n->peak ? bytes : n->peak;
}

void pare__count_add(const pare_ops *o, size_t count, size_t size)
{
    pare_count *const n = count_of(o);
    n->used = with(n->used, count, size);
    reach(n, n->used);
}

static pare_status count_mark(const pare_ops *o, pare_mark *m)
{
    *m = (pare_mark){.used = count_of(o)->used};
    return PARE_OK;
}

static pare_status count_rewind(const pare_ops *o, pare_mark m)
{
    count_of(o)->used = m.used;
    return PARE_OK;
}

static pare_status count_take(const pare_ops *o, size_t rows, size_t width, pare_array *y)
{
    *y = (pare_array){.at = count_of(o)->anywhere, .rows = rows, .width = width};
    pare__count_add(o, rows, width * sizeof(float));
    return PARE_OK;
}

static pare_status count_kv_take(const pare_ops *o, const pare_config *c, const pare_kv_format *f,
                                 size_t sequences, size_t capacity, pare_kv *kv)
{
    *kv = (pare_kv){.sequences = sequences, .capacity = capacity, .format = *f};
    pare__count_add(o, 1, pare_kv_bytes(c, f, sequences, capacity));
    return PARE_OK;
}

/* Planes of the finest activation group for inputs and for outliers, inputs in floats, a panel for
 * each worker. */
static pare_status count_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                                 bool exact, pare_array x, const pare_array *y)
{
    pare_count *const n = count_of(o);
    const size_t k32 = pare_round_up(w[0]->k, PARE_ATOM_K);
    size_t total = n->used;
    pare__product product[PARE__LINEARS_MAX];
    (void)exact, (void)y;
    for (size_t i = 0; i < count; i++) {
        product[i] = (pare__product){.w = w[i]};
        n->work.products[n->part] += 2.0 * (double)x.rows * (double)w[i]->n * (double)w[i]->k;
        if (n->visit)
            n->visit->see(n->visit->self, w[i], n->part, (double)x.rows);
    }
    if (n->inputs == PARE_INPUTS_NONE)
        return PARE_OK;
    if (n->inputs == PARE_INPUTS_BF16) {
        const pare__bf16_room room = pare__linear_bf16_room(o->cx, product, count);
        total = with(total, x.rows, room.ldx * sizeof(uint16_t));
        total = with(total, pare_threads(o->cx), PARE__TILE_ROWS * room.k * sizeof(float));
        reach(n, with(total, pare_threads(o->cx), room.tile_rows * room.k * sizeof(uint16_t)));
        return PARE_OK;
    }
    size_t planes = pare_smaller(2 * count, (size_t)n->inputs);
    if (n->inputs == PARE_INPUTS_ANY) { /* one may take floats for both: rounded to 8 bits */
        total = with(total, x.rows, k32 * sizeof(float));
        planes -= 2;
    }
    for (size_t i = 0; i < planes; i++) {
        total = with(total, x.rows, k32);
        total = with(total, x.rows, k32 / PARE_ATOM_K * 2 * sizeof(float));
    }
    reach(n, with(total, pare_threads(o->cx), 64 * k32 * sizeof(float)));
    return PARE_OK;
}

/* Pairs of the first `tokens` and what they attend to. */
static double pairs_of(const pare_config *c, double tokens, double window)
{
    if (c->chunked && window > 0) {
        const double whole = floor(tokens / window), rest = tokens - whole * window;
        return whole * window * (window + 1) / 2 + rest * (rest + 1) / 2;
    }
    const double growing = window > 0 && window < tokens ? window : tokens;
    return growing * (growing + 1) / 2 + (tokens - growing) * window;
}

static pare_status count_attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                                pare_array v, pare_array y)
{
    pare_count *const n = count_of(o);
    const size_t attention = pare__attention_bytes(&n->model.config, a->batch);
    const size_t store = pare__kv_store_bytes(&n->model.config);
    const double start = (double)a->batch.start, window = (double)a->window;
    const double pairs = (double)a->batch.sequences *
                         (pairs_of(&n->model.config, start + (double)a->batch.length, window) -
                          pairs_of(&n->model.config, start, window));
    (void)k, (void)v, (void)y;
    n->work.pairs += pairs;
    n->work.attend += 4.0 * pairs * (double)q.width; /* scores, and values mixed by them */
    reach(n, with(n->used, pare_threads(o->cx), attention > store ? attention : store));
    return PARE_OK;
}

/* The most that rows can do: all of them choose the same experts. For the work of a model, they are
 * spread over all experts. */
static pare_status count_route(const pare_ops *o, pare_array logit, const pare_router *how,
                               pare_routes *r)
{
    pare_count *const n = count_of(o);
    const size_t used = how->used;
    *r = (pare_routes){.rows = logit.rows, .experts = logit.width, .used = used, .router = *how};
    pare__count_add(o, logit.rows, used * (sizeof *r->picked + sizeof *r->weight));
    pare__count_add(o, logit.rows, (used + 1) * sizeof *r->visit); /* one: fill_up of experts */
    pare__count_add(o, r->experts + 1, sizeof *r->start);
    r->start = PARE_NEW(o->scratch, size_t, r->experts + 1);
    if (!r->start)
        return PARE_ENOMEM;
    for (size_t e = 1; e <= r->experts; e++)
        r->start[e] = n->spread ? e * used * r->rows / r->experts : (e < used ? e : used) * r->rows;
    n->part = PARE_WORK_EXPERTS;
    return PARE_OK;
}

/* Decay, what k reads, what is written, what q reads: a state takes no scratch. */
static pare_status count_recur(const pare_ops *o, const pare_recur *r, const pare_array *x,
                               pare_array y)
{
    (void)r, (void)x;
    const double key = (double)count_of(o)->model.config.recurrence.key_width;
    count_of(o)->work.scan += 7.0 * (double)y.rows * (double)y.width * key;
    return PARE_OK;
}

static void describe(const pare_config *c, size_t part, pare_role role, pare_dtype dtype,
                     pare_linear *w)
{
    *w = (pare_linear){.name = pare_arch_linear(c->arch, part, role)->name, .dtype = dtype};
    pare_linear_shape(c, part, role, &w->n, &w->k);
}

void pare__count_kind(pare_count *n, const pare_config *own)
{
    const pare_arch *const arch = own->arch;
    pare_block *const b = &n->block;
    for (size_t i = 0; i < PARE_NORMS; i++)
        b->inner_norm[i] = arch->inner_norm[i] ? n->anywhere : NULL;
    if (own->unit_norms)
        b->inner_norm[PARE_NORM_Q] = b->inner_norm[PARE_NORM_K] = n->anywhere;
    for (size_t role = 0; role < PARE_ROLES; role++)
        describe(own, 0, (pare_role)role, PARE_F32, &b->linear[role]);
    b->recurrence.beta = (pare_linear){.name = arch->recurrence ? arch->recurrence->beta : NULL,
                                       .n = own->recurrence.value_heads,
                                       .k = own->hidden,
                                       .dtype = PARE_BF16}; /* as the router */
    b->recurrence.decay = b->recurrence.beta;
    b->router.name = own->experts ? arch->experts->router : NULL;
}

bool pare__count_recurrent(pare_count *n)
{
    pare_config own = n->model.config;
    if (!own.mixed)
        return false;
    own.arch = own.arch->recurrent;
    own.mixed = false;
    n->used = 0;
    pare__count_kind(n, &own);
    return true;
}

/* Dense linears in floats; those of experts as files have them. */
static pare_status describe_block(pare_count *n)
{
    const pare_config *const c = &n->model.config;
    pare_block *const b = &n->block;
    n->model.head = (pare_linear){.n = c->vocab, .k = c->hidden, .dtype = PARE_F32};
    pare__count_kind(n, c);
    if (c->experts == 0)
        return PARE_OK;
    b->expert = PARE_NEW(&n->arena, pare_linear, c->experts * PARE_ROLES);
    if (!b->expert)
        return PARE_ENOMEM;
    for (size_t i = 0; i < c->experts * PARE_ROLES; i++)
        describe(c, 1, (pare_role)(i % PARE_ROLES), PARE_BF16, &b->expert[i]);
    b->router = (pare_linear){
        .name = c->arch->experts->router, .n = c->experts, .k = c->hidden, .dtype = PARE_BF16};
    b->shared_gate = (pare_linear){
        .name = c->arch->experts->shared_gate, .n = 1, .k = c->hidden, .dtype = PARE_BF16};
    return PARE_OK;
}

static pare_block_table table_of(void)
{
#define PARE__ENTRY(name, parameters) .name = nothing_##name,
    pare_block_table t = {PARE_BLOCK_OPS(PARE__ENTRY)};
#undef PARE__ENTRY
    t.mark = count_mark;
    t.rewind = count_rewind;
    t.take = count_take;
    t.kv_take = count_kv_take;
    t.linears = count_linears;
    t.attend = count_attend;
    t.recur = count_recur;
    t.route = count_route;
    return t;
}

pare_status pare_count_begin(const pare_ctx *cx, const pare_config *c, pare_batch batch,
                             pare_inputs inputs, pare_count *n)
{
    size_t rows;
    *n = (pare_count){.cx = *cx, .model = {.config = *c}, .inputs = inputs};
    n->table = table_of();
    n->backend = (pare_backend){.op = &n->table, .self = n};
    n->cx.limit_bytes = 0;
    n->arena.cx = &n->cx;
    n->forward = (pare_forward){
        .model = &n->model, .positions = batch.start + batch.length, .backend = &n->backend};
    if (__builtin_mul_overflow(batch.sequences, batch.length, &rows))
        return PARE_ENOMEM;
    return describe_block(n);
}

size_t pare_count_end(pare_count *n, pare_status s)
{
    pare_arena_release(&n->arena);
    return s == PARE_OK ? n->peak : SIZE_MAX;
}

/* Takes what a tap is shown. */
static pare_status look(void *self, size_t part, pare_site site, const float *x, size_t rows,
                        size_t k)
{
    (void)self, (void)part, (void)site, (void)x, (void)rows, (void)k;
    return PARE_OK;
}

/* All blocks and, behind a whole one, the head. */
static pare_status run_model(pare_count *n, pare_batch batch, pare_site last)
{
    const pare_ops o = pare_ops_of(&n->cx, &n->arena, &n->forward);
    const pare_model *const m = n->forward.model;
    const pare_tap tap = {.see = look, .last = last, .parts = 1};
    pare_kv kv = {.sequences = batch.sequences, .capacity = batch.start + batch.length};
    pare_array x = {.at = n->anywhere, .width = m->config.hidden}, y;
    pare_config own;
    x.rows = batch.sequences * batch.length;
    for (size_t i = 0; i < m->config.blocks; i++) {
        pare_block_config(&m->config, i, &own);
        pare__count_kind(n, &own);
        n->block.window = pare_config_window(&m->config, i);
        n->block.apart = pare_config_turns_apart(&m->config, i);
        n->part = PARE_WORK_COMMON;
        PARE_TRY(pare_block_run(&o, &n->forward, m->block ? &m->block[i] : &n->block, batch, x, &kv,
                                last < PARE_SITES ? &tap : NULL, &y));
    }
    n->part = PARE_WORK_HEAD;
    y = (pare_array){.at = n->anywhere, .rows = x.rows, .width = m->head.n};
    return last < PARE_SITES ? PARE_OK : pare_logits_run(&o, &n->forward, x, NULL, y);
}

pare_status pare_work_of(pare_ctx *cx, const pare_model *m, pare_batch batch, pare_site last,
                         const pare_work_visit *visit, pare_work *out)
{
    pare_count n;
    pare_status s = pare_count_begin(cx, &m->config, batch, PARE_INPUTS_NONE, &n);
    n.visit = visit;
    n.spread = true;
    if (m->block)
        n.forward.model = m;
    if (s == PARE_OK)
        s = run_model(&n, batch, last);
    *out = n.work;
    pare_arena_release(&n.arena);
    return s == PARE_OK ? s : pare_fail(cx, s, "%s", n.cx.what);
}
