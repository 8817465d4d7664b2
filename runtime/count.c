#include "runtime/count.h"

#include "kernels/layout.h"
#include "runtime/kv_internal.h"
#include "runtime/threads.h"

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

/* Planes of the finest activation group for inputs and for outliers, a panel for each worker. */
static pare_status count_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                                 bool exact, pare_array x, const pare_array *y)
{
    pare_count *const n = count_of(o);
    const size_t k32 = pare_round_up(w[0]->k, PARE_ATOM_K);
    size_t total = n->used;
    (void)exact, (void)y;
    if (n->inputs == PARE_INPUTS_NONE)
        return PARE_OK;
    for (size_t i = 0; i < 2 * count && i < (size_t)n->inputs; i++) {
        total = with(total, x.rows, k32);
        total = with(total, x.rows, k32 / PARE_ATOM_K * 2 * sizeof(float));
    }
    reach(n, with(total, pare_threads(o->cx), 64 * k32 * sizeof(float)));
    return PARE_OK;
}

static pare_status count_attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                                pare_array v, pare_array y)
{
    pare_count *const n = count_of(o);
    const size_t attention = pare__attention_bytes(&n->model.config, a->batch);
    const size_t store = pare__kv_store_bytes(&n->model.config);
    (void)q, (void)k, (void)v, (void)y;
    reach(n, with(n->used, pare_threads(o->cx), attention > store ? attention : store));
    return PARE_OK;
}

/* The most that rows can do: all of them choose the same experts. */
static pare_status count_route(const pare_ops *o, pare_array logit, size_t used, bool norm,
                               pare_routes *r)
{
    *r = (pare_routes){.rows = logit.rows, .experts = logit.width, .used = used, .norm = norm};
    pare__count_add(o, logit.rows, used * (sizeof *r->picked + sizeof *r->weight));
    pare__count_add(o, logit.rows, used * sizeof *r->visit);
    pare__count_add(o, r->experts + 1, sizeof *r->start);
    r->start = PARE_NEW(o->scratch, size_t, r->experts + 1);
    if (!r->start)
        return PARE_ENOMEM;
    for (size_t e = 0; e < r->experts; e++)
        r->start[e + 1] = (e < used ? e + 1 : used) * r->rows;
    return PARE_OK;
}

static pare_status count_zero(const pare_ops *o, pare_array y)
{
    (void)o, (void)y;
    return PARE_OK;
}

static pare_status count_embed(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                               pare_batch batch, pare_array y)
{
    (void)o, (void)m, (void)tokens, (void)batch, (void)y;
    return PARE_OK;
}

static pare_status count_norm(const pare_ops *o, const pare_norm_of *n, pare_array x, pare_array y)
{
    (void)o, (void)n, (void)x, (void)y;
    return PARE_OK;
}

static pare_status count_activate(const pare_ops *o, pare_act act, pare_array gate, pare_array up,
                                  pare_array y)
{
    (void)o, (void)act, (void)gate, (void)up, (void)y;
    return PARE_OK;
}

static pare_status count_add(const pare_ops *o, pare_array a, pare_array b, pare_array y)
{
    (void)o, (void)a, (void)b, (void)y;
    return PARE_OK;
}

static pare_status count_turn(const pare_ops *o, pare_array x)
{
    (void)o, (void)x;
    return PARE_OK;
}

static pare_status count_round(const pare_ops *o, pare_array x)
{
    (void)o, (void)x;
    return PARE_OK;
}

static pare_status count_gather(const pare_ops *o, const pare_routes *r, size_t expert,
                                pare_array x, pare_array y)
{
    (void)o, (void)r, (void)expert, (void)x, (void)y;
    return PARE_OK;
}

static pare_status count_scatter(const pare_ops *o, const pare_routes *r, size_t expert,
                                 pare_array x, pare_array y)
{
    (void)o, (void)r, (void)expert, (void)x, (void)y;
    return PARE_OK;
}

static pare_status count_share(const pare_ops *o, pare_array gate, pare_array x, pare_array y)
{
    (void)o, (void)gate, (void)x, (void)y;
    return PARE_OK;
}

static pare_status count_rows(const pare_ops *o, const size_t *row, pare_array x, pare_array y)
{
    (void)o, (void)row, (void)x, (void)y;
    return PARE_OK;
}

static pare_status count_cap(const pare_ops *o, double cap, pare_array x)
{
    (void)o, (void)cap, (void)x;
    return PARE_OK;
}

#define PARE__ENTRY(name, parameters) .name = count_##name,
static const pare_block_table count_table = {PARE_BLOCK_OPS(PARE__ENTRY)};
#undef PARE__ENTRY

static void describe(const pare_config *c, size_t part, pare_role role, pare_dtype dtype,
                     pare_linear *w)
{
    *w = (pare_linear){.name = pare_arch_linear(c->arch, part, role)->name, .dtype = dtype};
    pare_linear_shape(c, part, role, &w->n, &w->k);
}

/* Dense linears in floats; those of experts as files have them. */
static pare_status describe_block(pare_count *n)
{
    const pare_config *const c = &n->model.config;
    pare_block *const b = &n->block;
    for (size_t i = 0; i < PARE_NORMS; i++)
        b->inner_norm[i] = c->arch->inner_norm[i] ? n->anywhere : NULL;
    for (size_t role = 0; role < PARE_ROLES; role++)
        describe(c, 0, (pare_role)role, PARE_F32, &b->linear[role]);
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

pare_status pare_count_begin(const pare_ctx *cx, const pare_config *c, pare_batch batch,
                             pare_inputs inputs, pare_count *n)
{
    size_t rows;
    *n = (pare_count){.cx = *cx, .model = {.config = *c}, .inputs = inputs};
    n->backend = (pare_backend){.op = &count_table, .self = n};
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
