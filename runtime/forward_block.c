/* One block:  h = x + O attention(norm(x)),  y = h + Down(silu(Gate n) * Up n), n = norm(h), with
 * what the family has beside it (runtime/arch.h): norms inside, another activation, no gate, both
 * halves on x, experts, gates on attention, a recurrent state in its place. Written in block
 * operations only, so that every backend runs it. */
#include <assert.h>

#include "runtime/forward_internal.h"
#include "runtime/small.h"

pare_status pare__from_host(const pare_ops *o, const float *x, size_t rows, size_t width,
                            pare_array *y)
{
    *y = (pare_array){.at = (float *)(uintptr_t)x, .rows = rows, .width = width};
    if (!o->backend.place)
        return PARE_OK;
    PARE_TRY(o->op->take(o, rows, width, y));
    return o->op->put(o, x, *y);
}

pare_status pare__look(const pare_ops *o, pare_array x, float **at)
{
    *at = x.at;
    if (!o->backend.place)
        return PARE_OK;
    *at = pare_arena_take_raw(o->scratch, x.rows, x.width * sizeof(float));
    return *at ? o->op->get(o, x, *at) : PARE_ENOMEM;
}

pare_status pare__see(const pare_ops *o, const pare_tap *tap, size_t part, pare_site site,
                      pare_array x)
{
    const bool shows = pare__shows(tap, part), changes = tap && tap->change;
    float *at = NULL;
    if (shows || changes)
        PARE_TRY(pare__look(o, x, &at));
    if (changes) {
        tap->change(tap->self, site, at, x.rows, x.width);
        if (o->backend.place)
            PARE_TRY(o->op->put(o, at, x));
    }
    if (shows)
        PARE_TRY(tap->see(tap->self, part, site, at, x.rows, x.width));
    return tap && tap->last == site ? PARE__STOPPED : PARE_OK;
}

/* The state of one call. */
typedef struct block_call {
    const pare_ops *o;
    const pare_forward *f;
    const pare_config *c;
    const pare_block *weights;
    pare_batch batch;
    size_t rows;
    pare_kv *kv;
    const pare_tap *tap;
    pare_array apart; /* for the stream behind attention, where x must stay as it is */
} block_call;

static pare_status take(const block_call *p, size_t width, pare_array *y)
{
    return p->o->op->take(p->o, p->rows, width, y);
}

/* [rows, width] that takes values of another width later. */
static pare_status take_wide(const block_call *p, size_t width, size_t later, pare_array *y)
{
    PARE_TRY(take(p, p->o->backend.keeps ? width : pare_larger(width, later), y));
    y->width = width;
    return PARE_OK;
}

/* What the linears of a site read, x, and others before them; rounded where the family was trained
 * so. */
static pare_status see(const block_call *p, pare_site site, pare_array x)
{
    if (p->c->arch->rounds_inputs)
        PARE_TRY(p->o->op->round(p->o, x));
    return pare__see(p->o, p->tap, 0, site, x);
}

/* The input of a linear whose weights were rotated, before anybody sees it. */
static pare_status turn(const block_call *p, pare_role role, pare_array x)
{
    return p->weights->linear[role].rotated ? p->o->op->turn(p->o, x) : PARE_OK;
}

static pare_status apply(const block_call *p, pare_role first, size_t count, pare_array x,
                         const pare_array *y)
{
    const pare_linear *w[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++)
        w[i] = &p->weights->linear[(size_t)first + i];
    return p->o->op->linears(p->o, w, count, p->f->exact, x, y);
}

/* Norms the pieces of the rows of *x; nothing when the family has no such norm. */
static pare_status inner_norm(const block_call *p, pare_norm norm, size_t pieces, pare_array *x)
{
    const bool latent = norm == PARE_NORM_Q_LATENT || norm == PARE_NORM_KV_LATENT;
    const pare_norm_of n = {PARE_NORM_RMS, p->weights->inner_norm[norm], NULL, pieces,
                            latent ? p->c->arch->latent_eps : p->c->norm_eps};
    const pare_array from = *x;
    if (!n.w)
        return PARE_OK;
    PARE_TRY(pare__reuse(p->o, from, from.width, x));
    return p->o->op->norm(p->o, &n, from, *x);
}

/* The norm in front of a half; a copy where there is none: taps may write into y. */
static pare_status front_norm(const block_call *p, const float *w, const float *bias, pare_array h,
                              pare_array y)
{
    const pare_norm_of n = {p->c->arch->norm_kind, w, bias, 1, p->c->norm_eps};
    return p->c->arch->attention_norm ? p->o->op->norm(p->o, &n, h, y)
                                      : p->o->op->rows(p->o, NULL, h, y);
}

static pare_status mlp_norm(const block_call *p, pare_array h, pare_array *y)
{
    PARE_TRY(take(p, p->c->hidden, y));
    return front_norm(p, p->weights->norm[1], p->weights->norm_bias[1], h, *y);
}

/* What a half adds to the stream *h. */
static pare_status join(const block_call *p, pare_norm after, pare_array out, pare_array *h)
{
    const pare_array before = *h;
    PARE_TRY(inner_norm(p, after, 1, &out));
    if (p->apart.at)
        *h = p->apart;
    else
        PARE_TRY(pare__reuse(p->o, before, before.width, h));
    return p->o->op->add(p->o, out, before, *h);
}

/* Latent attention: what linears make of the normed stream. q has heads of [nope | rope] channels;
 * a, [latent | rope], is what k and v come from; kv has heads of [nope | value] channels. */
typedef struct latent {
    pare_array q, a, kv;
} latent;

static pare_status make_latent(const block_call *p, pare_array normed, latent *l)
{
    const pare_config *const c = p->c;
    const bool direct = !pare_arch_has(c->arch, PARE_ROLE_Q_A);
    const pare_pieces front = {.count = 1, .width = c->kv_rank};
    const pare_linear *const w = p->weights->linear;
    const pare_linear *const first[] = {&w[direct ? PARE_ROLE_Q : PARE_ROLE_Q_A],
                                        &w[PARE_ROLE_KV_A]};
    pare_array narrow;
    PARE_TRY(take(p, first[0]->n, &l->q));
    PARE_TRY(take(p, first[1]->n, &l->a));
    PARE_TRY(
        p->o->op->linears(p->o, first, 2, p->f->exact, normed, (const pare_array[]){l->q, l->a}));
    if (!direct) {
        narrow = l->q;
        PARE_TRY(inner_norm(p, PARE_NORM_Q_LATENT, 1, &narrow));
        PARE_TRY(see(p, PARE_SITE_Q_LATENT, narrow));
        PARE_TRY(take(p, w[PARE_ROLE_Q].n, &l->q));
        PARE_TRY(apply(p, PARE_ROLE_Q, 1, narrow, &l->q));
    }
    PARE_TRY(take(p, c->kv_rank, &narrow));
    PARE_TRY(p->o->op->pieces(p->o, &front, l->a, narrow));
    PARE_TRY(inner_norm(p, PARE_NORM_KV_LATENT, 1, &narrow));
    PARE_TRY(see(p, PARE_SITE_KV_LATENT, narrow));
    PARE_TRY(take(p, w[PARE_ROLE_K].n, &l->kv));
    return apply(p, PARE_ROLE_K, 1, narrow, &l->kv);
}

/* Heads of [rope | nope] channels, the first of which turn, and values with zeros behind them, as
 * attention and caches take them. All heads of k share the channels that turn. */
static pare_status spread_latent(const block_call *p, const latent *l, const pare_array *qkv)
{
    const pare_config *const c = p->c;
    const size_t rope = c->rope.rotary, d = c->head_dim, nope = d - rope;
    const struct {
        pare_array from, to;
        pare_pieces pieces;
    } moves[] = {
        {l->q, qkv[0], {c->heads, rope, nope, d, 0, d}},
        {l->q, qkv[0], {c->heads, nope, 0, d, rope, d}},
        {l->a, qkv[1], {c->heads, rope, c->kv_rank, 0, 0, d}},
        {l->kv, qkv[1], {c->heads, nope, 0, nope + c->value_dim, rope, d}},
        {l->kv, qkv[2], {c->heads, c->value_dim, nope, nope + c->value_dim, 0, d}},
    };
    PARE_TRY(p->o->op->zero(p->o, qkv[2]));
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        PARE_TRY(p->o->op->pieces(p->o, &moves[i].pieces, moves[i].from, moves[i].to));
    return PARE_OK;
}

/* What linear Q makes: q, or q and *gate head by head. */
static pare_status make_q(const block_call *p, pare_array normed, const pare_array *qkv,
                          pare_array *gate)
{
    const size_t q_width = p->c->heads * p->c->head_dim;
    pare_array made[3] = {qkv[0], qkv[1], qkv[2]};
    if (p->c->arch->linear[PARE_ROLE_Q].out != PARE_WIDTH_GATED_Q)
        return apply(p, PARE_ROLE_Q, 3, normed, qkv);
    PARE_TRY(take(p, q_width, gate));
    PARE_TRY(take(p, 2 * q_width, &made[0]));
    PARE_TRY(apply(p, PARE_ROLE_Q, 3, normed, made));
    pare_pieces halves = {.count = p->c->heads,
                          .width = p->c->head_dim,
                          .from_step = 2 * p->c->head_dim,
                          .to_step = p->c->head_dim};
    PARE_TRY(p->o->op->pieces(p->o, &halves, made[0], qkv[0]));
    halves.from = p->c->head_dim;
    return p->o->op->pieces(p->o, &halves, made[0], *gate);
}

static pare_status project(const block_call *p, pare_array normed, const pare_array *qkv,
                           pare_array *gate)
{
    latent l;
    if (!(p->c->arch->latent_eps > 0))
        return make_q(p, normed, qkv, gate);
    PARE_TRY(make_latent(p, normed, &l));
    return spread_latent(p, &l, qkv);
}

static pare_status make_qkv(const block_call *p, pare_array normed, pare_array *qkv,
                            pare_array *gate)
{
    const pare_config *const c = p->c;
    PARE_TRY(take_wide(p, c->heads * c->head_dim, c->hidden, &qkv[0]));
    PARE_TRY(take(p, c->kv_heads * c->head_dim, &qkv[1]));
    PARE_TRY(take(p, c->kv_heads * c->head_dim, &qkv[2]));
    PARE_TRY(project(p, normed, qkv, gate));
    const bool whole = c->arch->whole_qk_norms;
    PARE_TRY(inner_norm(p, PARE_NORM_Q, whole ? 1 : c->heads, &qkv[0]));
    PARE_TRY(inner_norm(p, PARE_NORM_K, whole ? 1 : c->kv_heads, &qkv[1]));
    if (!p->tap || !p->tap->see_qkv)
        return PARE_OK;
    float *at[3];
    for (size_t i = 0; i < 3; i++)
        PARE_TRY(pare__look(p->o, qkv[i], &at[i]));
    PARE_TRY(p->tap->see_qkv(p->tap->self, at[0], at[1], at[2], p->rows));
    return p->tap->last == PARE_SITE_ATTENTION ? PARE__STOPPED : PARE_OK;
}

/* Without the zeros behind the values of each head. */
static pare_status narrow_values(const block_call *p, pare_array *attended)
{
    const pare_config *const c = p->c;
    const pare_array wide = *attended;
    const pare_pieces values = {.count = c->heads,
                                .width = c->value_dim,
                                .from_step = c->head_dim,
                                .to_step = c->value_dim};
    if (!(c->arch->latent_eps > 0))
        return PARE_OK;
    PARE_TRY(take(p, c->heads * c->value_dim, attended));
    return p->o->op->pieces(p->o, &values, wide, *attended);
}

static pare_status attend(const block_call *p, const pare_array *qkv, pare_array gate,
                          pare_array *attended)
{
    const pare_attend a = {.f = p->f,
                           .levels = &p->weights->kv,
                           .window = p->weights->window,
                           .apart = p->weights->apart,
                           .batch = p->batch,
                           .kv = p->kv,
                           .sinks = p->weights->sinks};
    PARE_TRY(p->o->op->attend(p->o, &a, qkv[0], qkv[1], qkv[2], *attended));
    PARE_TRY(narrow_values(p, attended));
    PARE_TRY(inner_norm(p, PARE_NORM_ATTENDED, 1, attended));
    if (gate.at)
        PARE_TRY(p->o->op->share(p->o, gate, *attended, *attended));
    return turn(p, PARE_ROLE_O, *attended);
}

/* *y, the input of O: attention over the cache; *spent is an array that is not read again. */
static pare_status attention(const block_call *p, pare_array normed, pare_array *spent,
                             pare_array *y)
{
    const size_t q_width = p->c->heads * p->c->head_dim;
    pare_array qkv[3], gate = {0};
    PARE_TRY(make_qkv(p, normed, qkv, &gate));
    PARE_TRY(p->c->residual == PARE_RESIDUAL_SHARED ? take(p, q_width, y)
                                                    : pare__reuse(p->o, normed, q_width, y));
    *spent = qkv[0];
    return attend(p, qkv, gate, y);
}

/* Beta and decay of a recurrent state. Nobody rounds what they read, so they do it in front of what
 * a tap changes. */
static pare_status state_gates(const block_call *p, pare_array normed, pare_array *in)
{
    const pare_recurrence *const r = &p->weights->recurrence;
    const pare_linear *const w[] = {&r->beta, &r->decay};
    PARE_TRY(take(p, r->beta.n, &in[2]));
    PARE_TRY(take(p, r->decay.n, &in[3]));
    return p->o->op->linears(p->o, w, 2, p->f->exact, normed, &in[2]);
}

/* As attention, with a recurrent state. */
static pare_status recurrence(const block_call *p, pare_array normed, pare_array *in,
                              pare_array *spent, pare_array *y)
{
    const pare_recur call = {p->f, &p->weights->recurrence, p->batch, p->kv};
    PARE_TRY(take_wide(p, p->weights->linear[PARE_ROLE_Q].n, p->c->hidden, &in[0]));
    PARE_TRY(take(p, p->weights->linear[PARE_ROLE_K].n, &in[1]));
    PARE_TRY(apply(p, PARE_ROLE_Q, 2, normed, in));
    PARE_TRY(take(p, in[1].width, y));
    *spent = in[0];
    PARE_TRY(p->o->op->recur(p->o, &call, in, *y));
    return turn(p, PARE_ROLE_O, *y);
}

/* *aside: the input of the MLP where it does not follow from the new h. */
static pare_status attention_half(const block_call *p, pare_array *h, pare_array *aside)
{
    const pare_config *const c = p->c;
    const size_t q_width = c->heads * c->head_dim;
    const bool shared = c->residual == PARE_RESIDUAL_SHARED;
    const bool recurs = p->weights->recurrence.beta.name;
    pare_array normed = *aside, in[PARE_RECUR_INPUTS], spent, attended, out;
    if (!shared)
        PARE_TRY(take_wide(p, c->hidden, q_width, &normed));
    PARE_TRY(front_norm(p, p->weights->norm[0], p->weights->norm_bias[0], *h, normed));
    if (recurs)
        PARE_TRY(state_gates(p, normed, in));
    const pare_status s = see(p, PARE_SITE_ATTENTION, normed);
    PARE_TRY(s == PARE__STOPPED && p->tap->see_qkv && !recurs ? PARE_OK : s);
    if (c->residual == PARE_RESIDUAL_PARALLEL)
        PARE_TRY(front_norm(p, p->weights->norm[1], p->weights->norm_bias[1], *h, *aside));
    PARE_TRY(recurs ? recurrence(p, normed, in, &spent, &attended)
                    : attention(p, normed, &spent, &attended));
    PARE_TRY(see(p, PARE_SITE_ATTENDED, attended));
    PARE_TRY(pare__reuse(p->o, spent, c->hidden, &out));
    PARE_TRY(apply(p, PARE_ROLE_O, 1, attended, &out));
    return join(p, PARE_NORM_AFTER_ATTENTION, out, h);
}

/* act(gate) * up, or act(up). */
static pare_status activated(const block_call *p, pare_array normed, pare_array *y)
{
    const bool gated = pare_arch_has(p->c->arch, PARE_ROLE_GATE);
    const size_t width = p->weights->linear[PARE_ROLE_UP].n; /* blocks may differ */
    pare_array inner[2] = {0};
    PARE_TRY(take(p, width, &inner[0]));
    if (gated)
        PARE_TRY(take(p, width, &inner[1]));
    PARE_TRY(apply(p, gated ? PARE_ROLE_GATE : PARE_ROLE_UP, gated ? 2 : 1, normed, inner));
    PARE_TRY(pare__reuse(p->o, inner[0], width, y));
    PARE_TRY(p->o->op->activate(p->o, p->c->act, inner[0], inner[1], *y));
    return inner_norm(p, PARE_NORM_ACTIVATED, 1, y);
}

/* The MLP that all rows run; out may be in the memory of normed. */
static pare_status common_mlp(const block_call *p, pare_array normed, pare_array out)
{
    pare_array inner;
    if (p->c->residual != PARE_RESIDUAL_SHARED)
        PARE_TRY(see(p, PARE_SITE_MLP, normed));
    PARE_TRY(activated(p, normed, &inner));
    PARE_TRY(turn(p, PARE_ROLE_DOWN, inner));
    PARE_TRY(see(p, PARE_SITE_ACTIVATED, inner));
    return apply(p, PARE_ROLE_DOWN, 1, inner, &out);
}

/* With experts, *out is what they add to: the common MLP or 0. */
static pare_status mixture(const block_call *p, pare_array normed, pare_array *out)
{
    const bool common = pare_arch_has(p->c->arch, PARE_ROLE_UP);
    pare_mark mark;
    PARE_TRY(p->o->op->mark(p->o, &mark));
    if (common && (pare__shows(p->tap, 0) || !pare__stops(p->tap)))
        PARE_TRY(pare__unless_stopped(common_mlp(p, normed, *out)));
    if (!common)
        PARE_TRY(p->o->op->zero(p->o, *out));
    PARE_TRY(p->o->op->rewind(p->o, mark));
    PARE_TRY(pare__experts_forward(p->o, p->f, p->weights, p->tap, normed, out));
    return pare__stops(p->tap) ? PARE__STOPPED : PARE_OK; /* behind the last site of the experts */
}

static pare_status mlp_half(const block_call *p, pare_array *h, const pare_array *aside)
{
    pare_array normed, out;
    if (p->c->residual == PARE_RESIDUAL_SERIAL)
        PARE_TRY(mlp_norm(p, *h, &normed));
    else
        normed = *aside;
    if (p->weights->router.name) {
        PARE_TRY(take(p, p->c->hidden, &out));
        PARE_TRY(mixture(p, normed, &out));
    } else {
        PARE_TRY(pare__reuse(p->o, normed, p->c->hidden, &out));
        PARE_TRY(common_mlp(p, normed, out));
    }
    return join(p, PARE_NORM_AFTER_MLP, out, h);
}

static pare_status run(block_call *p, pare_array *h)
{
    const pare_half half = p->tap ? p->tap->half : PARE_HALF_BOTH;
    pare_array aside = {0};
    pare_mark mark;
    assert(half == PARE_HALF_BOTH || p->c->residual == PARE_RESIDUAL_SERIAL);
    if (half == PARE_HALF_MLP)
        return mlp_half(p, h, &aside);
    if (pare__stops(p->tap))
        PARE_TRY(take(p, p->c->hidden, &p->apart));
    if (p->c->residual != PARE_RESIDUAL_SERIAL)
        PARE_TRY(take(p, p->c->hidden, &aside));
    PARE_TRY(p->o->op->mark(p->o, &mark));
    PARE_TRY(attention_half(p, h, &aside));
    PARE_TRY(p->o->op->rewind(p->o, mark));
    return half == PARE_HALF_ATTENTION ? PARE_OK : mlp_half(p, h, &aside);
}

pare_status pare_block_run(const pare_ops *o, const pare_forward *f, const pare_block *weights,
                           pare_batch batch, pare_array x, pare_kv *kv, const pare_tap *tap,
                           pare_array *y)
{
    block_call p = {.o = o,
                    .f = f,
                    .c = &f->model->config,
                    .weights = weights,
                    .batch = batch,
                    .rows = x.rows,
                    .kv = kv,
                    .tap = tap};
    assert(batch.start + batch.length <= kv->capacity && batch.sequences <= kv->sequences);
    assert(batch.start + batch.length <= f->positions);
    pare_mark mark;
    PARE_TRY(o->op->mark(o, &mark));
    *y = x;
    const pare_status s = pare__unless_stopped(run(&p, y));
    PARE_TRY(o->op->rewind(o, mark));
    return s;
}

pare_status pare__rows_of(pare_ctx *cx, pare_batch batch, size_t *rows)
{
    return __builtin_mul_overflow(batch.sequences, batch.length, rows)
               ? pare_fail(cx, PARE_ENOMEM, "batch of %zu x %zu tokens", batch.sequences,
                           batch.length)
               : PARE_OK;
}

/* Behind a tap that stops it, x is as it was. */
static pare_status run_host(const pare_ops *o, const pare_forward *f, const pare_block *weights,
                            pare_batch batch, size_t rows, float *x, pare_kv *kv,
                            const pare_tap *tap)
{
    pare_array stream, behind;
    PARE_TRY(pare__from_host(o, x, rows, f->model->config.hidden, &stream));
    PARE_TRY(pare_block_run(o, f, weights, batch, stream, kv, tap, &behind));
    return pare__stops(tap) ? PARE_OK : pare__to_host(o, behind, x);
}

pare_status pare_block_forward(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               const pare_block *weights, pare_batch batch, float *x, pare_kv *kv,
                               const pare_tap *tap)
{
    const pare_ops o = pare_ops_of(cx, scratch, f);
    size_t rows;
    pare_mark mark;
    PARE_TRY(pare__rows_of(cx, batch, &rows));
    if (rows == 0)
        return PARE_OK;
    PARE_TRY(o.op->mark(&o, &mark));
    const pare_status s = run_host(&o, f, weights, batch, rows, x, kv, tap);
    PARE_TRY(o.op->rewind(&o, mark));
    return s;
}
