#include <math.h>

#include "runtime/block_ops.h"
#include "runtime/machine.h"
#include "runtime/speculate.h"

/* Positions that go through a model at once, at most. */
enum { ROWS = 256 };

/* One of the two models. Its caches hold the tokens at positions below `filled`; x has the stream
 * behind the last `rows` of them. */
typedef struct side {
    const pare_forward *f;
    pare_arena work; /* one block big enough for every batch: nothing is allocated per token */
    pare_ops run;
    pare_kv *kv; /* [blocks] */
    pare_array x;
    float *logits; /* [drafted + 1, vocab] */
    double *p;     /* the same */
    size_t filled, rows;
} side;

typedef struct speculation {
    pare_ctx *cx;
    const pare_speculate_opts *opts;
    int32_t *tokens;
    pare_speculate_counts *counts;
    side target, draft;
} speculation;

static pare_status take_side(const speculation *r, pare_arena *scratch, const pare_forward *f,
                             size_t prompt, side *s)
{
    const pare_config *const c = &f->model->config;
    const size_t looked = r->opts->drafted + 1, vocab = f->model->head.n;
    const size_t length = r->opts->length;
    const size_t most = prompt < ROWS ? prompt : ROWS, rows = most > looked ? most : looked;
    const pare_ops state = pare_ops_of(r->cx, scratch, f);
    s->f = f;
    s->run = pare_ops_of(r->cx, &s->work, f);
    s->kv = PARE_NEW(scratch, pare_kv, c->blocks);
    s->logits = pare_arena_take(scratch, looked, vocab * sizeof *s->logits);
    s->p = pare_arena_take(scratch, looked, vocab * sizeof *s->p);
    if (!s->kv || !s->logits || !s->p)
        return PARE_ENOMEM;
    PARE_TRY(state.op->take(&state, rows, c->hidden, &s->x));
    for (size_t i = 0; i < c->blocks; i++)
        PARE_TRY(state.op->kv_take(&state, c, &f->model->kv, 1, length, &s->kv[i]));
    const pare_batch widest = {1, rows, length > rows ? length - rows : 0};
    return pare_arena_init(r->cx, &s->work, pare_block_forward_scratch(r->cx, c, widest));
}

/* Runs the tokens up to position `end`. */
static pare_status advance(side *s, const int32_t *tokens, size_t end)
{
    while (s->filled < end) {
        const size_t left = end - s->filled;
        const pare_batch batch = {1, left < s->x.rows ? left : s->x.rows, s->filled};
        const pare_array x = pare_array_rows(s->x, 0, batch.length);
        PARE_TRY(pare_embed_run(&s->run, s->f->model, tokens + s->filled, batch, x));
        PARE_TRY(pare_model_run(&s->run, s->f, batch, x, s->kv, s->f->model->config.blocks));
        s->filled += batch.length;
        s->rows = batch.length;
    }
    return PARE_OK;
}

/* p [count, vocab] = what follows the last `count` tokens. */
static pare_status look(speculation *r, side *s, size_t count, double *p)
{
    pare_ctx *const cx = r->cx;
    const double temperature = r->opts->temperature;
    const size_t vocab = s->f->model->head.n, first = s->rows - count;
    const pare_array x = pare_array_rows(s->x, first, count);
    PARE_TRY(pare_logits_get(&s->run, s->f, x, NULL, count, s->logits));
    for (size_t i = 0; i < count; i++)
        if (!pare_distribution(s->logits + i * vocab, vocab, temperature, p + i * vocab))
            return pare_fail(
                cx, PARE_ENUMERIC,
                "the logits of the %s behind token %zu are not finite: a weight is not, or "
                "activations overflow",
                s == &r->draft ? "draft" : "model", s->filled - count + i);
    return PARE_OK;
}

/* Drafts `count` tokens at positions from `n` on. */
static pare_status draft(speculation *r, size_t n, size_t count)
{
    side *const s = &r->draft;
    const size_t vocab = s->f->model->head.n;
    for (size_t i = 0; i < count; i++) {
        double *const q = s->p + i * vocab;
        PARE_TRY(advance(s, r->tokens, n + i));
        PARE_TRY(look(r, s, 1, q));
        r->tokens[n + i] = pare_speculate_draft(q, vocab, r->opts->draws, n + i);
    }
    return PARE_OK;
}

static void note(const speculation *r, size_t drafted, size_t kept)
{
    pare_speculate_counts *const c = r->counts;
    const size_t vocab = r->target.f->model->head.n;
    const size_t examined = kept < drafted ? kept + 1 : drafted;
    for (size_t i = 0; i < examined; i++)
        c->overlap += pare_overlap(r->target.p + i * vocab, r->draft.p + i * vocab, vocab);
    c->examined += examined;
    c->accepted += kept;
    c->tokens += kept + 1;
    c->passes++;
}

/* One pass of the target over the last known token, at n - 1, and the drafted ones behind it. */
static pare_status one_pass(speculation *r, size_t *n)
{
    const pare_speculate_opts *const o = r->opts;
    pare_speculate_counts *const c = r->counts;
    const size_t room = o->length - *n - 1, count = o->drafted < room ? o->drafted : room;
    const double begin = pare_seconds();
    PARE_TRY(draft(r, *n, count));
    const double drafted = pare_seconds();
    PARE_TRY(advance(&r->target, r->tokens, *n + count));
    PARE_TRY(look(r, &r->target, count + 1, r->target.p));
    const double seen = pare_seconds();
    int32_t next;
    const size_t kept = pare_speculate(r->tokens + *n, count, r->draft.p, r->target.p,
                                       r->target.f->model->head.n, o->draws, *n, &next);
    r->tokens[*n + kept] = next;
    c->seconds += pare_seconds() - begin;
    c->draft_seconds += drafted - begin;
    c->draft_steps += count;
    if (count == o->drafted) {
        c->full_passes++;
        c->full_seconds += seen - drafted;
    }
    note(r, count, kept);
    *n += kept + 1;
    r->target.filled = *n - 1;
    if (r->draft.filled > *n - 1)
        r->draft.filled = *n - 1;
    return PARE_OK;
}

static pare_status speculate(speculation *r, pare_arena *scratch, const pare_forward *target,
                             const pare_forward *drafter, size_t prompt)
{
    PARE_TRY(take_side(r, scratch, target, prompt, &r->target));
    PARE_TRY(take_side(r, scratch, drafter, prompt, &r->draft));
    PARE_TRY(advance(&r->target, r->tokens, prompt - 1));
    PARE_TRY(advance(&r->draft, r->tokens, prompt - 1));
    for (size_t n = prompt; n < r->opts->length;)
        PARE_TRY(one_pass(r, &n));
    return PARE_OK;
}

static pare_status check(pare_ctx *cx, const pare_forward *target, const pare_forward *drafter,
                         const pare_speculate_opts *o, size_t prompt)
{
    const pare_forward *const both[] = {target, drafter};
    for (size_t i = 0; i < 2; i++) {
        if (o->length > both[i]->positions)
            return pare_fail(cx, PARE_EINVAL, "%zu tokens asked for, this model takes %zu",
                             o->length, both[i]->positions);
        if (both[i]->model->config.mixed)
            return pare_fail(cx, PARE_ENOTSUP,
                             "models of type %s have blocks with a recurrent state, which cannot "
                             "take drafted tokens back",
                             both[i]->model->config.arch->model_type);
        if (both[i]->model->kv.method != PARE_KV_FLOAT)
            return pare_fail(cx, PARE_EINVAL, "a cache in %s cannot take drafted tokens back",
                             pare_kv_method_name(both[i]->model->kv.method));
    }
    if (target->model->head.n != drafter->model->head.n)
        return pare_fail(cx, PARE_EINVAL, "a draft of %zu tokens for a model of %zu",
                         drafter->model->head.n, target->model->head.n);
    if (prompt == 0 || prompt > o->length)
        return pare_fail(cx, PARE_EINVAL, "a prompt of %zu tokens in a sequence of %zu", prompt,
                         o->length);
    if (o->drafted == 0 || o->drafted > PARE_DRAFTED_MAX || !(o->temperature >= 0) ||
        isinf(o->temperature))
        return pare_fail(cx, PARE_EINVAL, "%zu tokens drafted at temperature %g", o->drafted,
                         o->temperature);
    return PARE_OK;
}

pare_status pare_speculate_run(pare_ctx *cx, pare_arena *scratch, const pare_forward *target,
                               const pare_forward *drafter, const pare_speculate_opts *opts,
                               size_t prompt, int32_t *tokens, pare_speculate_counts *counts)
{
    PARE_TRY(check(cx, target, drafter, opts, prompt));
    speculation r = {.cx = cx,
                     .opts = opts,
                     .tokens = tokens,
                     .counts = counts,
                     .target = {.work = {.cx = cx}},
                     .draft = {.work = {.cx = cx}}};
    const pare_mark mark = pare_arena_mark(scratch);
    const pare_status s = speculate(&r, scratch, target, drafter, prompt);
    pare_arena_rewind(scratch, mark);
    pare_arena_release(&r.draft.work);
    pare_arena_release(&r.target.work);
    return s;
}
