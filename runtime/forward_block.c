/* One block:  h = x + O attention(norm(x)),  y = h + Down(silu(Gate n) * Up n), n = norm(h), with
 * what the family has beside it (runtime/arch.h): norms inside, another activation, no gate, both
 * halves on x, experts. */
#include <assert.h>
#include <string.h>

#include "kernels/layout.h"
#include "runtime/forward_internal.h"
#include "runtime/hadamard.h"
#include "runtime/kv_internal.h"
#include "runtime/linear.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

/* The state of one call. */
typedef struct pass {
    pare_ctx *cx;
    pare_arena *scratch;
    const pare_forward *f;
    const pare_config *c;
    const pare_block *weights;
    pare_batch batch;
    size_t rows;
    pare_kv *kv;
    const pare_tap *tap;
    bool stopped; /* the tap has seen its last site */
} pass;

/* Arguments of the loops over rows. */
typedef struct row_call {
    const pass *p;
    const float *a, *w, *bias; /* bias: added behind the norm, or NULL */
    float *b, *q, *k;
    size_t width, count; /* count: pieces of `width` in a row of b, inner norms */
} row_call;

void pare__norm(const pare_config *c, float *y, const float *x, const float *w, const float *bias)
{
    if (c->arch->norm_kind == PARE_NORM_LAYER)
        pare_layer_norm(y, x, w, c->hidden, c->norm_eps);
    else
        pare_rms_norm(y, x, w, c->hidden, c->norm_eps);
    if (bias)
        pare_add(y, bias, c->hidden);
}

static void norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++)
        pare__norm(r->p->c, r->b + i * r->width, r->a + i * r->width, r->w, r->bias);
}

static void inner_norm_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin * r->count; i < end * r->count; i++) {
        float *const x = r->b + i * r->width;
        pare_rms_norm(x, x, r->w, r->width, r->p->c->norm_eps);
    }
}

static void add_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    pare_add(r->b + begin * r->width, r->a + begin * r->width, (end - begin) * r->width);
}

static void activate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const size_t first = begin * r->width, count = (end - begin) * r->width;
    pare__activate(&r->p->cx->kernels, r->p->c->act, r->b + first, r->a ? r->a + first : NULL,
                   count);
}

/* Rotates q and k by their positions and stores k and v (r->b) in an F32 cache. For a coded one
 * they are only rounded; k may have to stay as it is. */
static void rotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pass *const p = r->p;
    const pare_config *const c = p->c;
    const size_t d = c->head_dim, half = pare_rope_pairs(c), width = c->kv_heads * d;
    const bool coded = p->kv->format.method != PARE_KV_FLOAT;
    const size_t rotated = pare__kv_before_rope(&p->kv->format) ? 0 : c->kv_heads;
    for (size_t i = begin; i < end; i++) {
        const size_t position = p->batch.start + i % p->batch.length;
        const float *const cosine = half ? p->f->rope_cos + position * half : NULL;
        const float *const sine = half ? p->f->rope_sin + position * half : NULL;
        float *const k = r->k + i * width, *const v = r->b + i * width;
        for (size_t h = 0; h < c->heads; h++)
            pare_rope_apply(r->q + (i * c->heads + h) * d, cosine, sine, half);
        for (size_t h = 0; h < rotated; h++)
            pare_rope_apply(k + h * d, cosine, sine, half);
        if (coded) {
            pare__kv_round(&p->cx->kernels, k, width);
            pare__kv_round(&p->cx->kernels, v, width);
        } else {
            pare__kv_put(c, p->kv, i / p->batch.length, position, k, v);
        }
    }
}

static void for_rows(const pass *p, pare_task *task, row_call *r, size_t weight)
{
    pare_parallel(p->cx, p->rows, pare__chunk(r->width * weight), task, r);
}

static float *take_rows(const pass *p, size_t width)
{
    return pare_arena_take_raw(p->scratch, p->rows, width * sizeof(float));
}

/* The input of a linear whose weights were rotated, before anybody sees it. */
static pare_status turn(const pass *p, pare_role role, float *x)
{
    const pare_linear *const w = &p->weights->linear[role];
    pare_hadamard h;
    if (!w->rotated)
        return PARE_OK;
    PARE_TRY(pare_hadamard_make(p->cx, w->k, &h));
    pare_hadamard_apply(p->cx, &h, x, w->k, p->rows);
    return PARE_OK;
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++)
        pare_round_token(r->b + i * r->width, r->width);
}

/* What the linears of a site read, x, and others before them; rounded where the family was trained
 * so. */
static pare_status see(pass *p, pare_site site, float *x, size_t k)
{
    row_call r = {.p = p, .b = x, .width = k};
    if (p->c->arch->rounds_inputs)
        for_rows(p, round_rows, &r, 4);
    if (!p->tap)
        return PARE_OK;
    p->stopped = p->tap->last == site;
    return pare__shows(p->tap, 0) ? p->tap->see(p->tap->self, 0, site, x, p->rows, k) : PARE_OK;
}

static pare_status apply(const pass *p, pare_role first, size_t count, const float *x,
                         float *const *y)
{
    pare__product product[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++) {
        const pare_linear *const w = &p->weights->linear[(size_t)first + i];
        product[i] = (pare__product){w, y[i], w->n};
    }
    const size_t k = product[0].w->k;
    return pare__linear_apply_all(p->cx, p->scratch, product, count, p->f->exact, x, k, p->rows);
}

static pare_status attend(const pass *p, const float *q, const float *k, const float *v, float *out)
{
    const pare__kv_batch b = {.cx = p->cx,
                              .f = p->f,
                              .levels = &p->weights->kv,
                              .batch = p->batch,
                              .kv = p->kv,
                              .k = k,
                              .v = v,
                              .window = p->weights->window};
    if (p->kv->format.method == PARE_KV_FLOAT)
        return pare__attention(p->scratch, &b, q, out);
    PARE_TRY(pare__kv_store(p->scratch, &b));
    PARE_TRY(pare__attention(p->scratch, &b, q, out));
    pare__kv_keep(&b);
    return PARE_OK;
}

/* Norms pieces of `width` of a row of x, `count` of them, in place; nothing when there is none. */
static void inner_norm(const pass *p, pare_norm norm, float *x, size_t count)
{
    row_call r = {.p = p,
                  .w = p->weights->inner_norm[norm],
                  .b = x,
                  .width = pare_norm_width(p->c, norm),
                  .count = count};
    if (r.w)
        pare_parallel(p->cx, p->rows, pare__chunk(r.width * count * 2), inner_norm_rows, &r);
}

/* The norm in front of a half. */
static void front_norm(const pass *p, const float *h, const float *w, const float *bias, float *to)
{
    row_call r = {.p = p, .a = h, .w = w, .bias = bias, .b = to, .width = p->c->hidden};
    for_rows(p, norm_rows, &r, 2);
}

/* What a half adds to the stream. */
static void join(const pass *p, pare_norm after, float *out, float *h)
{
    inner_norm(p, after, out, 1);
    row_call r = {.p = p, .a = out, .b = h, .width = p->c->hidden};
    for_rows(p, add_rows, &r, 1);
}

/* The input of the MLP where it does not see what attention adds. */
static void look_aside(const pass *p, const float *h, const float *normed, float *aside)
{
    const pare_block *const w = p->weights;
    if (p->c->residual == PARE_RESIDUAL_SHARED)
        memcpy(aside, normed, p->rows * p->c->hidden * sizeof *aside);
    else
        front_norm(p, h, w->mlp_norm, w->mlp_norm_bias, aside);
}

static pare_status make_qkv(pass *p, const float *normed, float *q, float *k, float *v)
{
    const pare_config *const c = p->c;
    PARE_TRY(apply(p, PARE_ROLE_Q, 3, normed, (float *const[]){q, k, v}));
    inner_norm(p, PARE_NORM_Q, q, c->heads);
    inner_norm(p, PARE_NORM_K, k, c->kv_heads);
    return p->tap && p->tap->see_kv ? p->tap->see_kv(p->tap->self, k, v, p->rows) : PARE_OK;
}

/* `aside` [rows, hidden], written: the input of the MLP; NULL: it follows from the new h. */
static pare_status attention_half(pass *p, float *h, float *aside)
{
    const pare_config *const c = p->c;
    const pare_block *const w = p->weights;
    const size_t hidden = c->hidden, q_width = c->heads * c->head_dim;
    float *const normed = take_rows(p, hidden > q_width ? hidden : q_width);
    float *const q = take_rows(p, q_width > hidden ? q_width : hidden);
    float *const k = take_rows(p, c->kv_heads * c->head_dim);
    float *const v = take_rows(p, c->kv_heads * c->head_dim);
    if (!normed || !q || !k || !v)
        return PARE_ENOMEM;
    front_norm(p, h, w->attention_norm, w->attention_norm_bias, normed);
    PARE_TRY(see(p, PARE_SITE_ATTENTION, normed, hidden));
    if (p->stopped && !p->tap->see_kv)
        return PARE_OK;
    if (aside)
        look_aside(p, h, normed, aside);
    PARE_TRY(make_qkv(p, normed, q, k, v));
    if (p->stopped)
        return PARE_OK;
    row_call r = {.p = p, .b = v, .q = q, .k = k, .width = q_width};
    for_rows(p, rotate_rows, &r, 4);
    float *const attended = normed;
    PARE_TRY(attend(p, q, k, v, attended));
    inner_norm(p, PARE_NORM_ATTENDED, attended, 1);
    PARE_TRY(turn(p, PARE_ROLE_O, attended));
    PARE_TRY(see(p, PARE_SITE_ATTENDED, attended, q_width));
    if (p->stopped)
        return PARE_OK;
    float *const out = q;
    PARE_TRY(apply(p, PARE_ROLE_O, 1, attended, &out));
    join(p, PARE_NORM_AFTER_ATTENTION, out, h);
    return PARE_OK;
}

/* act(gate) * up, or act(up); `inner` is what the activation changes in place. */
static pare_status activated(pass *p, const float *normed, float *inner, float *up)
{
    const bool gated = pare_arch_has(p->c->arch, PARE_ROLE_GATE);
    row_call r = {.p = p, .a = gated ? up : NULL, .b = inner, .width = p->c->intermediate};
    if (gated)
        PARE_TRY(apply(p, PARE_ROLE_GATE, 2, normed, (float *const[]){inner, up}));
    else
        PARE_TRY(apply(p, PARE_ROLE_UP, 1, normed, (float *const[]){inner}));
    for_rows(p, activate_rows, &r, 16);
    inner_norm(p, PARE_NORM_ACTIVATED, inner, 1);
    return PARE_OK;
}

/* The MLP that all rows run; out may be normed. */
static pare_status common_mlp(pass *p, float *normed, float *out)
{
    const size_t inner = p->c->intermediate;
    float *const gate = take_rows(p, inner);
    float *const up = take_rows(p, inner);
    if (!gate || !up)
        return PARE_ENOMEM;
    if (p->c->residual != PARE_RESIDUAL_SHARED)
        PARE_TRY(see(p, PARE_SITE_MLP, normed, p->c->hidden));
    if (p->stopped)
        return PARE_OK;
    PARE_TRY(activated(p, normed, gate, up));
    PARE_TRY(turn(p, PARE_ROLE_DOWN, gate));
    PARE_TRY(see(p, PARE_SITE_ACTIVATED, gate, inner));
    if (p->stopped)
        return PARE_OK;
    return apply(p, PARE_ROLE_DOWN, 1, gate, &out);
}

/* With experts, out is what they add to: the common MLP or 0. */
static pare_status mixture(pass *p, float *normed, float *out)
{
    const bool common = pare_arch_has(p->c->arch, PARE_ROLE_UP);
    const pare_mark mark = pare_arena_mark(p->scratch);
    if (common && (pare__shows(p->tap, 0) || !pare__stops(p->tap)))
        PARE_TRY(common_mlp(p, normed, out));
    if (!common)
        memset(out, 0, p->rows * p->c->hidden * sizeof *out);
    pare_arena_rewind(p->scratch, mark);
    p->stopped = pare__stops(p->tap); /* behind the last site of the experts */
    return pare__experts_forward(p->cx, p->scratch, p->f, p->weights, p->tap, normed, p->rows, out);
}

/* `aside`: the input of the MLP, or NULL. */
static pare_status mlp_half(pass *p, float *h, float *aside)
{
    const pare_config *const c = p->c;
    const pare_block *const w = p->weights;
    float *const normed = aside ? aside : take_rows(p, c->hidden);
    float *const out = c->experts ? take_rows(p, c->hidden) : normed;
    if (!normed || !out)
        return PARE_ENOMEM;
    if (!aside)
        front_norm(p, h, w->mlp_norm, w->mlp_norm_bias, normed);
    PARE_TRY(c->experts ? mixture(p, normed, out) : common_mlp(p, normed, out));
    if (!p->stopped)
        join(p, PARE_NORM_AFTER_MLP, out, h);
    return PARE_OK;
}

/* With a tap that stops early the pass runs on a copy, so that x stays as it is. */
static pare_status run(pass *p, float *x)
{
    float *h = x;
    if (pare__stops(p->tap)) {
        h = take_rows(p, p->c->hidden);
        if (!h)
            return PARE_ENOMEM;
        memcpy(h, x, p->rows * p->c->hidden * sizeof *h);
    }
    const bool serial = p->c->residual == PARE_RESIDUAL_SERIAL;
    float *const aside = serial ? NULL : take_rows(p, p->c->hidden);
    if (!serial && !aside)
        return PARE_ENOMEM;
    const pare_mark mark = pare_arena_mark(p->scratch);
    PARE_TRY(attention_half(p, h, aside));
    pare_arena_rewind(p->scratch, mark);
    return p->stopped ? PARE_OK : mlp_half(p, h, aside);
}

pare_status pare_block_forward(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               const pare_block *weights, pare_batch batch, float *x, pare_kv *kv,
                               const pare_tap *tap)
{
    assert(batch.start + batch.length <= kv->capacity && batch.sequences <= kv->sequences);
    assert(batch.start + batch.length <= f->positions);
    pass p = {cx, scratch, f, &f->model->config, weights, batch, 0, kv, tap, false};
    if (__builtin_mul_overflow(batch.sequences, batch.length, &p.rows))
        return pare_fail(cx, PARE_ENOMEM, "batch of %zu x %zu tokens", batch.sequences,
                         batch.length);
    if (p.rows == 0)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = run(&p, x);
    pare_arena_rewind(scratch, mark);
    return s;
}

void pare__add_bytes(size_t *total, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)4 * PARE_ALIGN, &bytes) ||
        __builtin_add_overflow(*total, bytes, total))
        *total = SIZE_MAX;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What pare__linear_apply_all may take for `count` linears: planes of the finest activation group
 * for inputs and for outliers, a panel for each worker. */
size_t pare__linear_bytes(const pare_ctx *cx, size_t rows, size_t k, size_t count,
                          pare_inputs inputs)
{
    const size_t k32 = pare_round_up(k, PARE_ATOM_K);
    size_t total = 0;
    if (inputs == PARE_INPUTS_NONE)
        return 0;
    for (size_t i = 0; i < 2 * count && i < (size_t)inputs; i++) {
        pare__add_bytes(&total, rows, k32);
        pare__add_bytes(&total, rows, k32 / PARE_ATOM_K * 2 * sizeof(float));
    }
    pare__add_bytes(&total, pare_threads(cx), 64 * k32 * sizeof(float));
    return total;
}

static bool alike(const pare_linear *a, const pare_linear *b)
{
    const pare_activation *const x = &a->activation, *const y = &b->activation;
    const size_t p = a->panel.group < a->panel.k ? a->panel.group : 0;
    const size_t q = b->panel.group < b->panel.k ? b->panel.group : 0;
    return x->mode == y->mode && x->bits == y->bits && p == q && a->bits == b->bits &&
           a->sparsity == b->sparsity;
}

pare_inputs pare_model_inputs(const pare_model *m)
{
    const size_t parts = pare_block_parts(&m->config);
    const pare_linear *first = NULL;
    for (size_t i = 0; i < m->config.blocks * parts * PARE_ROLES; i++) {
        const pare_linear *const w = pare_block_linear(
            &m->block[i / PARE_ROLES / parts], i / PARE_ROLES % parts, (pare_role)(i % PARE_ROLES));
        if (!w->name || !w->bits)
            continue;
        first = first ? first : w;
        if (w->outliers.count || w->activation.mode == PARE_ACTIVATION_TENSOR || !alike(first, w))
            return PARE_INPUTS_ANY;
    }
    return first ? PARE_INPUTS_ALIKE : PARE_INPUTS_NONE;
}

size_t pare_block_forward_scratch(const pare_ctx *cx, const pare_config *c, pare_batch batch)
{
    return pare_block_forward_bytes(cx, c, batch, PARE_INPUTS_ANY);
}

size_t pare_block_forward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch,
                                pare_inputs inputs)
{
    size_t rows, copy = 0, attention = 0, inner = 0, mlp = 0;
    if (__builtin_mul_overflow(batch.sequences, batch.length, &rows))
        return SIZE_MAX;
    const size_t q_width = c->heads * c->head_dim, wide = larger(c->hidden, q_width);
    pare__add_bytes(&copy, rows,
                    (c->residual == PARE_RESIDUAL_SERIAL ? 1 : 2) * c->hidden * sizeof(float));
    pare__add_bytes(&attention, rows, 2 * (wide + c->kv_heads * c->head_dim) * sizeof(float));
    pare__add_bytes(&attention, 1, 4 * PARE_ALIGN * 4);
    pare__add_bytes(&inner, pare_threads(cx),
                    larger(pare__attention_bytes(c, batch), pare__kv_store_bytes(c)));
    pare__add_bytes(&attention, 1,
                    larger(inner, larger(pare__linear_bytes(cx, rows, c->hidden, 3, inputs),
                                         pare__linear_bytes(cx, rows, q_width, 1, inputs))));
    pare__add_bytes(&mlp, rows, (c->experts ? 2 : 1) * c->hidden * sizeof(float));
    inner = 0;
    pare__add_bytes(&inner, rows, 2 * c->intermediate * sizeof(float));
    pare__add_bytes(&inner, 1, 3 * PARE_ALIGN * 4);
    pare__add_bytes(&inner, 1,
                    larger(pare__linear_bytes(cx, rows, c->hidden, 2, inputs),
                           pare__linear_bytes(cx, rows, c->intermediate, 1, inputs)));
    pare__add_bytes(&mlp, 1, larger(inner, c->experts ? pare__experts_bytes(cx, c, rows) : 0));
    pare__add_bytes(&copy, 1, larger(attention, mlp));
    return copy;
}
