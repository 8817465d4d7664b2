/* The block operations on a device: kernels of kernels/cuda on arrays in its scratch. Products and
 * attention have files of their own. */
#include <math.h>

#include "kernels/cuda/cuda_blocks.h"
#include "runtime/cuda_internal.h"
#include "runtime/small.h"

/* Routes go to the device as they lie. */
_Static_assert(sizeof(pare_visit) == sizeof(pare_cuda_visit) &&
                   offsetof(pare_visit, row) == offsetof(pare_cuda_visit, row) &&
                   offsetof(pare_visit, weight) == offsetof(pare_cuda_visit, weight),
               "");

static pare_address address(const void *at)
{
    return (pare_address)(uintptr_t)at;
}

static size_t bytes_of(pare_array x)
{
    return x.rows * x.width * sizeof *x.at;
}

/* Host memory of routes counts, too. */
static pare_status cuda_mark(const pare_ops *o, pare_mark *m)
{
    const pare__cuda_scratch *const s = &pare__cuda_of(o)->scratch;
    *m = pare_arena_mark(o->scratch);
    m->far[0] = s->current;
    m->far[1] = s->used;
    return PARE_OK;
}

static pare_status cuda_rewind(const pare_ops *o, pare_mark m)
{
    pare__cuda_scratch *const s = &pare__cuda_of(o)->scratch;
    s->current = m.far[0];
    s->used = m.far[1];
    pare_arena_rewind(o->scratch, m);
    return PARE_OK;
}

static pare_status cuda_take(const pare_ops *o, size_t rows, size_t width, pare_array *y)
{
    size_t count;
    void *at;
    if (__builtin_mul_overflow(rows, width, &count) || count > SIZE_MAX / sizeof *y->at)
        return pare_fail(o->cx, PARE_ENOMEM, "%zu rows of %zu values", rows, width);
    PARE_TRY(pare__cuda_scratch_take(pare__cuda_of(o), count * sizeof *y->at, &at));
    *y = (pare_array){.at = at, .rows = rows, .width = width};
    return PARE_OK;
}

static pare_status cuda_put(const pare_ops *o, const float *x, pare_array y)
{
    pare_device *const d = pare__cuda_of(o)->d;
    return bytes_of(y) ? d->op->put(o->cx, d, address(y.at), x, bytes_of(y)) : PARE_OK;
}

static pare_status cuda_get(const pare_ops *o, pare_array x, float *y)
{
    pare_device *const d = pare__cuda_of(o)->d;
    return bytes_of(x) ? d->op->get(o->cx, d, y, address(x.at), bytes_of(x)) : PARE_OK;
}

static pare_status cuda_zero(const pare_ops *o, pare_array y)
{
    pare_device *const d = pare__cuda_of(o)->d;
    return bytes_of(y) ? d->op->fill(o->cx, d, address(y.at), 0, bytes_of(y)) : PARE_OK;
}

/* Packed rows are decoded by the CPU. */
static pare_status cuda_embed_packed(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                                     pare_batch batch, pare_array y)
{
    pare_arena a;
    PARE_TRY(pare_arena_init(o->cx, &a, 0));
    const pare_array host = {
        .at = PARE_NEW(&a, float, y.rows *y.width), .rows = y.rows, .width = y.width};
    pare_status s = host.at ? PARE_OK : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_cpu.op->embed(&(pare_ops){.op = pare_cpu.op, .cx = o->cx}, m, tokens, batch, host);
    if (s == PARE_OK)
        s = cuda_put(o, host.at, y);
    pare_arena_release(&a);
    return s;
}

static pare_status cuda_embed(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                              pare_batch batch, pare_array y)
{
    pare_cuda *const c = pare__cuda_of(o);
    const size_t offset = m->positions.data ? m->config.arch->position_offset : 0;
    const void *w, *positions;
    void *token;
    pare_mark mark;
    if (m->embed.bits)
        return cuda_embed_packed(o, m, tokens, batch, y);
    PARE_TRY(cuda_mark(o, &mark));
    PARE_TRY(pare__cuda_find(c, m->embed.data, &w));
    PARE_TRY(pare__cuda_find(c, m->positions.data, &positions));
    PARE_TRY(pare__cuda_scratch_put(c, tokens, y.rows * sizeof *tokens, &token));
    PARE__CUDA_RUN(c, embed, .tokens = token, .w = w, .positions = positions, .y = y.at,
                   .rows = y.rows, .width = y.width, .length = batch.length,
                   .first = batch.start + offset, .type = pare__cuda_type(m->embed.dtype),
                   .positions_type = pare__cuda_type(m->positions.dtype),
                   .scale = (float)m->config.embed_scale);
    return cuda_rewind(o, mark);
}

static pare_status cuda_norm(const pare_ops *o, const pare_norm_of *n, pare_array x, pare_array y)
{
    pare_cuda *const c = pare__cuda_of(o);
    const void *w, *bias;
    PARE_TRY(pare__cuda_find(c, n->w, &w));
    PARE_TRY(pare__cuda_find(c, n->bias, &bias));
    PARE__CUDA_RUN(c, norm, .x = x.at, .w = w, .bias = bias, .y = y.at, .rows = y.rows * n->pieces,
                   .width = y.width / n->pieces, .eps = n->eps,
                   .layer = n->kind == PARE_NORM_LAYER);
    return PARE_OK;
}

static pare_status cuda_activate(const pare_ops *o, pare_act act, pare_array gate, pare_array up,
                                 pare_array y)
{
    PARE__CUDA_RUN(pare__cuda_of(o), activate, .gate = gate.at, .up = up.at, .y = y.at,
                   .n = y.rows * y.width, .act = (uint32_t)act);
    return PARE_OK;
}

static pare_status cuda_add(const pare_ops *o, pare_array a, pare_array b, pare_array y)
{
    PARE__CUDA_RUN(pare__cuda_of(o), add, .a = a.at, .b = b.at, .y = y.at, .n = y.rows * y.width);
    return PARE_OK;
}

static pare_status cuda_turn(const pare_ops *o, pare_array x)
{
    pare_cuda *const c = pare__cuda_of(o);
    pare_hadamard h;
    const float *mix;
    PARE_TRY(pare_hadamard_make(o->cx, x.width, &h));
    PARE_TRY(pare__cuda_mix(c, &h, &mix));
    PARE__CUDA_RUN(c, hadamard, .x = x.at, .runs = x.rows * h.odd, .n = h.power, .scale = h.norm);
    if (h.odd > 1)
        PARE__CUDA_RUN(c, mix, .x = x.at, .c = mix, .rows = x.rows, .n = h.power, .m = h.odd);
    return PARE_OK;
}

static pare_status cuda_round(const pare_ops *o, pare_array x)
{
    PARE__CUDA_RUN(pare__cuda_of(o), round, .x = x.at, .rows = x.rows, .width = x.width);
    return PARE_OK;
}

/* Of latent attention and of gates, which pare_cuda_open refuses. */
static pare_status cuda_pieces(const pare_ops *o, const pare_pieces *p, pare_array x, pare_array y)
{
    (void)p, (void)x, (void)y;
    return pare_fail(o->cx, PARE_ENOTSUP, "%s: no kernels for channels that change places",
                     pare__cuda_of(o)->d->name);
}

/* Experts are picked on the device, and sorted on the host, which has to know how many rows each of
 * them has. */
static pare_status cuda_route(const pare_ops *o, pare_array logit, const pare_router *how,
                              pare_routes *r)
{
    pare_cuda *const c = pare__cuda_of(o);
    const size_t used = how->used, picks = logit.rows * used;
    void *picked, *weight;
    PARE_TRY(pare__routes_take(o, logit, how, r));
    PARE_TRY(pare__cuda_scratch_take(c, picks * sizeof *r->picked, &picked));
    PARE_TRY(pare__cuda_scratch_take(c, picks * sizeof *r->weight, &weight));
    PARE__CUDA_RUN(c, route, .logit = logit.at, .picked = picked, .weight = weight,
                   .rows = logit.rows, .experts = logit.width, .used = used, .norm = how->norm);
    PARE_TRY(c->d->op->get(o->cx, c->d, r->picked, address(picked), picks * sizeof *r->picked));
    PARE_TRY(c->d->op->get(o->cx, c->d, r->weight, address(weight), picks * sizeof *r->weight));
    pare__routes_sort(r);
    return pare__cuda_scratch_put(c, r->visit, picks * sizeof *r->visit, &r->there);
}

static const pare_cuda_visit *visits(const pare_routes *r, size_t expert)
{
    return (const pare_cuda_visit *)r->there + r->start[expert];
}

static pare_status cuda_gather(const pare_ops *o, const pare_routes *r, size_t expert, pare_array x,
                               pare_array y)
{
    PARE__CUDA_RUN(pare__cuda_of(o), rows, .x = x.at, .row = &visits(r, expert)->row, .y = y.at,
                   .rows = y.rows, .width = y.width, .step = sizeof(pare_visit) / sizeof(uint32_t));
    return PARE_OK;
}

static pare_status cuda_scatter(const pare_ops *o, const pare_routes *r, size_t expert,
                                pare_array x, pare_array y)
{
    PARE__CUDA_RUN(pare__cuda_of(o), scatter, .x = x.at, .visit = visits(r, expert), .y = y.at,
                   .rows = x.rows, .width = x.width);
    return PARE_OK;
}

static pare_status cuda_share(const pare_ops *o, pare_array gate, pare_array x, pare_array y)
{
    PARE__CUDA_RUN(pare__cuda_of(o), share, .gate = gate.at, .x = x.at, .y = y.at, .rows = y.rows,
                   .width = y.width);
    return PARE_OK;
}

static pare_status some_rows(const pare_ops *o, const size_t *row, pare_array x, pare_array y)
{
    pare_cuda *const c = pare__cuda_of(o);
    uint32_t *const number = PARE_NEW(o->scratch, uint32_t, y.rows);
    void *there;
    if (!number)
        return PARE_ENOMEM;
    for (size_t i = 0; i < y.rows; i++) {
        if (row[i] > UINT32_MAX)
            return pare_fail(o->cx, PARE_ENOTSUP, "%s: more than 2^32 rows in a batch", c->d->name);
        number[i] = (uint32_t)row[i];
    }
    PARE_TRY(pare__cuda_scratch_put(c, number, y.rows * sizeof *number, &there));
    PARE__CUDA_RUN(c, rows, .x = x.at, .row = there, .y = y.at, .rows = y.rows, .width = y.width,
                   .step = 1);
    return PARE_OK;
}

/* Whether row[i] is i: a copy, which waits for nothing. */
static bool are_first(const size_t *row, size_t count)
{
    for (size_t i = 0; row && i < count; i++)
        if (row[i] != i)
            return false;
    return true;
}

/* A model with such blocks is not opened. */
static pare_status refuse_recurrent(const pare_ops *o)
{
    return pare_fail(o->cx, PARE_ENOTSUP, "there are no kernels for blocks with a recurrent state");
}

static pare_status cuda_recur(const pare_ops *o, const pare_recur *r, const pare_array *x,
                              pare_array y)
{
    (void)r, (void)x, (void)y;
    return refuse_recurrent(o);
}

static pare_status cuda_rows(const pare_ops *o, const size_t *row, pare_array x, pare_array y)
{
    pare_device *const d = pare__cuda_of(o)->d;
    pare_mark mark;
    if (are_first(row, y.rows))
        return bytes_of(y) ? d->op->copy(o->cx, d, address(y.at), address(x.at), bytes_of(y))
                           : PARE_OK;
    PARE_TRY(cuda_mark(o, &mark));
    const pare_status s = some_rows(o, row, x, y);
    PARE_TRY(cuda_rewind(o, mark));
    return s;
}

static pare_status cuda_cap(const pare_ops *o, double cap, pare_array x)
{
    PARE__CUDA_RUN(pare__cuda_of(o), cap, .x = x.at, .n = x.rows * x.width, .cap = cap);
    return PARE_OK;
}

static pare_status divergences(const pare_ops *o, pare_array logit, pare_array base,
                               pare_score *out)
{
    pare_cuda *const c = pare__cuda_of(o);
    const size_t bytes = logit.rows * sizeof(pare_cuda_row_divergence);
    pare_cuda_row_divergence *const sum = pare_arena_take_raw(o->scratch, 1, bytes);
    void *there;
    if (!sum)
        return PARE_ENOMEM;
    PARE_TRY(pare__cuda_scratch_take(c, bytes, &there));
    PARE__CUDA_RUN(c, divergence, .base = base.at, .logit = logit.at, .sums = there,
                   .rows = logit.rows, .width = logit.width);
    PARE_TRY(c->d->op->get(o->cx, c->d, sum, address(there), bytes));
    for (size_t i = 0; i < logit.rows; i++) {
        const pare_cuda_row_divergence *const s = &sum[i];
        const double kl =
            s->part / s->total0 - (s->largest0 + log(s->total0)) + (s->largest + log(s->total));
        out[i].kl = kl < 0 ? 0 : kl;
    }
    return PARE_OK;
}

/* No wait for what was asked for before, as a put would be. */
static pare_status zero_targets(pare_cuda *c, size_t bytes, void **token)
{
    PARE_TRY(pare__cuda_scratch_take(c, bytes, token));
    return bytes ? c->d->op->fill(c->cx, c->d, address(*token), 0, bytes) : PARE_OK;
}

static pare_status scores(const pare_ops *o, pare_array logit, pare_array base,
                          const int32_t *target, pare_score *out)
{
    pare_cuda *const c = pare__cuda_of(o);
    const size_t bytes = logit.rows * sizeof(pare_cuda_row_score);
    pare_cuda_row_score *const sum = pare_arena_take_raw(o->scratch, 1, bytes);
    const size_t parts = pare_cuda_parts_of(logit.width), blocks = (logit.width + 63) / 64;
    void *token, *there, *part, *sums;
    if (!sum)
        return PARE_ENOMEM;
    PARE_TRY(pare__cuda_scratch_take(c, logit.rows * parts * sizeof(pare_cuda_part), &part));
    PARE_TRY(pare__cuda_scratch_take(c, logit.rows * blocks * sizeof(float), &sums));
    PARE_TRY(target ? pare__cuda_scratch_put(c, target, logit.rows * sizeof *target, &token)
                    : zero_targets(c, logit.rows * sizeof *target, &token));
    PARE_TRY(pare__cuda_scratch_take(c, bytes, &there));
    PARE__CUDA_RUN(c, score_parts, .logit = logit.at, .part = part, .rows = logit.rows,
                   .width = logit.width);
    PARE__CUDA_RUN(c, score_sums, .logit = logit.at, .part = part, .sums = sums, .rows = logit.rows,
                   .width = logit.width);
    PARE__CUDA_RUN(c, score, .logit = logit.at, .target = token, .part = part, .sums = sums,
                   .score = there, .rows = logit.rows, .width = logit.width);
    PARE_TRY(c->d->op->get(o->cx, c->d, sum, address(there), bytes));
    for (size_t i = 0; i < logit.rows; i++)
        out[i] = (pare_score){.nll = sum[i].largest + log(sum[i].total) - sum[i].at,
                              .best = (size_t)sum[i].best};
    return base.at ? divergences(o, logit, base, out) : PARE_OK;
}

/* Sums come back, whose logarithms the host takes, as pare_logsumexp and pare_divergence do. */
static pare_status cuda_score(const pare_ops *o, pare_array logit, pare_array base,
                              const int32_t *target, pare_score *out)
{
    pare_mark mark;
    PARE_TRY(cuda_mark(o, &mark));
    const pare_status s = scores(o, logit, base, target, out);
    PARE_TRY(cuda_rewind(o, mark));
    return s;
}

#define cuda_linears                  pare__cuda_linears
#define cuda_attend                   pare__cuda_attend
#define cuda_kv_take                  pare__cuda_kv_take
#define cuda_kv_copy                  pare__cuda_kv_copy
#define PARE__ENTRY(name, parameters) .name = cuda_##name,
static const pare_block_table cuda_table = {PARE_BLOCK_OPS(PARE__ENTRY)};
#undef PARE__ENTRY

pare_status pare__cuda_launch(pare_cuda *c, pare__cuda_kernel k, const pare_cuda_shape *shape,
                              const void *arguments, size_t bytes)
{
    const pare_launch l = {
        {shape->grid[0], shape->grid[1], 1}, {shape->block, 1, 1}, shape->shared};
    if (!shape->grid[0] || !shape->grid[1])
        return PARE_OK;
    return c->d->op->launch(c->cx, c->d, c->kernel[k], &l, arguments, bytes);
}

static pare_status find_kernels(pare_cuda *c)
{
#define PARE__ENTRY(name, ...) "pare_" #name "_cuda",
    static const char *const name[] = {PARE_CUDA_KERNELS(PARE__ENTRY)};
#undef PARE__ENTRY
    for (size_t i = 0; i < PARE__CUDA_KERNELS; i++)
        PARE_TRY(c->d->op->kernel(c->cx, c->d, name[i], &c->kernel[i]));
    return PARE_OK;
}

/* Refuses what does not fit before anything is copied: on paper first. */
static pare_status weigh(pare_cuda *c)
{
    pare_device *const d = c->d;
    pare_device paper = pare_device_on_paper(d);
    pare_cuda trial = *c;
    trial.d = &paper;
    trial.limit = 0;
    const pare_status s = pare__cuda_upload_model(&trial);
    pare_arena_release(&trial.arena);
    PARE_TRY(s);
    return pare_cuda_room(c->cx, d, c->limit, "weights", paper.live);
}

/* Of what is free an eighth each. On paper the least, so that nothing is refused that can run. */
static pare_status find_room(pare_cuda *c)
{
    size_t free, total;
    PARE_TRY(c->d->op->memory(c->cx, c->d, &free, &total));
    if (c->limit)
        free = pare_smaller(free, c->limit - pare_smaller(c->d->live, c->limit));
    const bool paper = free == SIZE_MAX;
    const size_t most = paper ? PARE_CUDA_PANEL : pare_smaller(free / 8, (size_t)1 << 30);
    c->panel_bytes = pare_smaller(most, (size_t)256 << 20);
    c->rounded_bytes = most;
    return PARE_OK;
}

static pare_status open_model(pare_cuda *c)
{
    const pare_status s = pare_cuda_check_model(c->cx, c->f->model, c->f->exact);
    if (s != PARE_OK)
        return pare_fail_context(c->cx, s, "%s", c->d->name);
    PARE_TRY(find_kernels(c));
    PARE_TRY(weigh(c));
    const size_t others = c->d->live;
    PARE_TRY(pare__cuda_upload_model(c));
    c->model = c->d->live - others;
    return find_room(c);
}

pare_status pare_cuda_open(pare_ctx *cx, pare_device *d, size_t limit, pare_forward *f,
                           pare_cuda **out)
{
    pare_cuda *const c = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof *c);
    *out = NULL;
    if (!c)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: %zu bytes for a device", sizeof *c);
    *c = (pare_cuda){.cx = cx, .d = d, .f = f, .limit = limit, .arena = {.cx = cx}};
    c->backend = (pare_backend){.op = &cuda_table, .place = d, .self = c};
    const pare_status s = open_model(c);
    f->backend = &c->backend;
    if (s == PARE_OK)
        *out = c;
    else
        pare_cuda_close(c);
    return s;
}

void pare_cuda_use_f16(pare_cuda *c)
{
    c->f16 = true;
}

void pare_cuda_close(pare_cuda *c)
{
    if (!c)
        return;
    pare_ctx *const cx = c->cx;
    c->f->backend = NULL;
    pare__cuda_give_all(c);
    pare_arena_release(&c->arena);
    (void)cx->alloc.resize(cx->alloc.self, c, sizeof *c, 0);
}

size_t pare_cuda_model_bytes(const pare_cuda *c)
{
    return c->model;
}

size_t pare_cuda_peak_bytes(const pare_cuda *c)
{
    return c->d->peak;
}
